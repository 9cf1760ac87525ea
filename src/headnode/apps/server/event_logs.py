"""The event logs of jobs of HTCondor, ``log = FILE``: appended from the journal, as the owners of the jobs.

The number of the last event whose lines are in the logs is stored, so that the rest follows after a restart,
and on a standby head that has taken over.  A log that cannot be written waits in memory; until it is
written, the number stays that of the event before its first line, so that a restart loses none.
"""

import asyncio
import contextlib
import errno
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from headnode.adapters.files.copied_tables import EVENT_LOGS
from headnode.adapters.notify.event_log_writer import EventLogOrder, EventLogResult
from headnode.adapters.wire.child_service import ChildProgram, ChildService
from headnode.apps.server.late_logs import REST, LateLogs, LogKey
from headnode.apps.server.server_context import ServerContext
from headnode.core.formats.condor import event_log as texts
from headnode.core.formats.condor.draft import USER_LOG
from headnode.core.formats.condor.event_log import LoggedJob, LoggedProcess
from headnode.core.model.errors import HeadnodeError, NotFound
from headnode.core.model.outcome import AttemptOutcome
from headnode.core.model.quantities import Instant, JobId
from headnode.core.model.ranges import Ranges
from headnode.core.state import job_events as j
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.events import Event
from headnode.core.state.job_events import JobEvent

BETWEEN: Final = 0.1  # seconds in which events are collected
MAX_WAIT: Final = 15.0  # seconds
MAX_EVENTS: Final = 2_000  # of the journal in one step
MAX_ORDER: Final = 1 << 18  # characters of an order
MAX_JOBS: Final = 65_536  # of which is remembered whether they have logs
_MAX_ANSWER: Final = 1 << 10
_PASSING: Final = frozenset(
    (errno.ENOSPC, errno.EDQUOT, errno.ETIMEDOUT, errno.EIO, errno.ESTALE, errno.EMFILE, errno.ENFILE,
     errno.ENOMEM, errno.EAGAIN, errno.EINTR, errno.ENETDOWN, errno.EHOSTDOWN)
)  # fmt: skip
"""Errors that may go away."""
_PART: Final = "event logs of jobs"
_MARK: Final = USER_LOG.encode()
_ENDS: Final = ("005", "009")  # how events begin after which a process has ended

log = logging.getLogger("headnode.event_logs")


class EventLogs:
    """Writes the event logs."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._first: int | None = None  # the event before the first that it was given
        self._known: dict[int, LoggedJob | None] = {}
        self._begun: set[tuple[int, int, int]] = set()  # attempts that have an event 001
        self._over: dict[int, Ranges] = {}  # processes that have ended, of jobs that have not
        self._nodes: dict[tuple[int, int, int], str] = {}  # of dispatched instances
        self._late = LateLogs()
        self._paused: dict[int, float] = {}  # users whose files hang, and until when
        self._cursor: sqlite3.Connection | None = None
        self._noted = 0  # the number that is stored
        self._after = 0  # up to which event lines are written, or wait
        self._count = 0  # of orders
        results = msgspec.msgpack.Decoder(EventLogResult)

        def read(message: bytes) -> tuple[int, EventLogResult]:
            result = results.decode(message)
            return result.number, result

        program = ChildProgram("headnode.adapters.notify.event_log_writer")
        self._writer = ChildService(program, read, _MAX_ANSWER)
        self._last = context.cluster.next_job  # of a later job nothing was written before a restart
        self._repeated: set[LogKey] = set()  # logs of which lines in this step may have been written before

    def begin_afresh(self) -> None:
        """Note that the first job that has a log comes now: no line was written before."""
        self._last = 0

    def perform(self, events: Sequence[Event], cluster: ClusterState) -> None:  # noqa: ARG002  (it is an Effects)
        """Notice from which event on logs are written; they are read from the journal."""
        if self._first is None:
            self._first = self._context.engine.number - len(events)

    async def keep(self) -> None:
        """Write logs for ever."""
        after = await self._stored()
        try:
            with self._context.feed.following() as follower:
                while True:
                    follower.clear()
                    after = await self._write_next(after)
                    self._context.feed.seen(follower, after)
                    if after >= self._context.engine.number:
                        with contextlib.suppress(TimeoutError):
                            async with asyncio.timeout(MAX_WAIT):
                                await follower.wait()
                        await asyncio.sleep(BETWEEN)
                    await self._try_again()
        finally:
            await self._writer.end()
            if self._cursor is not None:
                self._cursor.close()

    async def _stored(self) -> int:
        """Return the number of the last event whose lines are written; wait while it cannot be read."""
        newest = self._context.engine.number
        begin = newest if self._first is None else self._first
        while True:
            try:
                self._cursor = _opened(self._context.state / EVENT_LOGS.file)
                row = self._cursor.execute("select number from event_logs").fetchone()
                break
            except (OSError, sqlite3.Error) as error:
                log.error("no event log is written: %s cannot be used: %s", EVENT_LOGS.file, error)
                await asyncio.sleep(MAX_WAIT)
        if row is None:
            self._after = begin
            self._store()
            return begin
        return int(row[0]) if row[0] <= newest else newest  # greater: the cluster was restored

    def _store(self) -> None:
        """Store up to which event lines are written: what waits is written after a restart."""
        number = self._late.written_up_to(self._after)
        if number == self._noted:
            return
        row = (1, number)
        try:
            if self._cursor is not None:
                self._cursor.execute("insert or replace into event_logs values (?, ?)", row)
        except sqlite3.Error as error:
            log.error("how far event logs are written cannot be stored: %s", error)
            return
        self._noted = number
        self._context.row_changes.stored(EVENT_LOGS, row)

    async def _write_next(self, after: int) -> int:
        """Write the lines of the next events; return up to which number they are written."""
        if not 0 <= after <= self._context.engine.number:
            after = self._context.engine.number
        try:
            recent = self._context.feed.after(after)
            if recent is None:
                recent = self._context.engine.journal.replay(after)
            events = list(islice(recent, MAX_EVENTS))
        except HeadnodeError as error:
            log.error("no event log is written: %s", error)
            await asyncio.sleep(MAX_WAIT)
            return after
        self._after = after
        pages: dict[LogKey, list[str]] = {}
        size, wrote = 0, False
        for number, event in events:
            for key, text in self._lines(event):
                if isinstance(event, JobEvent) and event.job < self._last:
                    self._repeated.add(key)
                pages.setdefault(key, []).append(text)
                size, wrote = size + len(text), True
                if size > MAX_ORDER:
                    await self._append(pages)
                    size = 0
            after = number
        await self._append(pages)
        self._after = after
        if wrote or after - self._noted >= MAX_EVENTS:
            self._store()
        return after

    async def _append(self, pages: dict[LogKey, list[str]]) -> None:
        for key, lines in pages.items():
            text = "".join(lines)
            if key in self._late or self._is_paused(key):
                self._keep(key, text, "their files hang")
            elif (error := await self._written(key, text, again=key in self._repeated)) in _PASSING:
                self._keep(key, text, os.strerror(error))
                log.warning("%r of user %s is written later: %s", key.path, key.owner, os.strerror(error))
            elif error:
                log.warning("%r of user %s cannot be written: %s", key.path, key.owner, os.strerror(error))
        pages.clear()
        self._repeated.clear()

    def _is_paused(self, key: LogKey) -> bool:
        """Return whether files of the owner hung just now: each would hold up all others for some seconds."""
        return self._paused.get(key.uid, 0.0) > time.monotonic()

    async def _written(self, key: LogKey, text: str, *, again: bool) -> int:
        """Append to a log; return 0 or the number of an error."""
        self._count += 1
        order = EventLogOrder(self._count, key.path, key.owner, key.uid, key.gid, text, again)
        try:
            error = (await (await self._writer.ask(self._count, msgspec.msgpack.encode(order)))).error
        except OSError:  # the process was lost, or cannot be started
            await self._writer.end()
            return errno.EAGAIN
        if error == errno.ETIMEDOUT:
            self._paused[key.uid] = time.monotonic() + REST
        return error

    def _keep(self, key: LogKey, text: str, why: str) -> None:
        """Keep what could not be written, within bounds; the administrator sees why."""
        if not self._late.add(key, text, self._after, time.monotonic()):
            log.warning("%r of user %s loses events: too much waits to be written", key.path, key.owner)
            return
        self._context.failed_parts.setdefault(_PART, f"some files are written later: {why}")

    async def _try_again(self) -> None:
        """Write logs that have waited."""
        tried = False
        for key, text in self._late.due(time.monotonic()):
            if self._is_paused(key):
                continue
            tried = True
            error = await self._written(key, text, again=True)
            if error in _PASSING and self._late.failed(key, time.monotonic()):
                continue
            if error:
                log.warning("%r of user %s cannot be written: %s", key.path, key.owner, os.strerror(error))
            if key in self._late:
                self._late.done(key)
        if not self._late:
            self._context.failed_parts.pop(_PART, None)
        if tried:
            self._store()

    # what each event is in a log

    def _lines(self, event: Event) -> Iterator[tuple[LogKey, str]]:
        """Yield the logs and lines of an event."""
        if not isinstance(event, JobEvent) or (logged := self._logged(event)) is None:
            return
        try:
            key_of = self._keys(event.job)
        except NotFound:  # it was purged while its lines waited
            return
        for process, text in self._texts(event, logged):
            if text.startswith(_ENDS):
                self._over.setdefault(event.job, Ranges()).add(process.number)
            yield key_of(process), text
        if isinstance(event, j.JobEnded):
            self._over.pop(event.job, None)

    def _logged(self, event: JobEvent) -> LoggedJob | None:
        """Return the job of an event, if it has logs; None for most jobs."""
        if isinstance(event, j.JobCreated) and _MARK not in event.spec:
            self._remember(event.job, None)
        elif isinstance(event, j.JobCreated | j.JobModified | j.JobValidated):
            self._known.pop(event.job, None)
        if event.job not in self._known:
            try:
                found: LoggedJob | None = LoggedJob(event.job, self._context.lookups.job(event.job).spec)
            except NotFound:  # its record was removed
                found = None
            self._remember(event.job, found if found is not None and found.has_logs else None)
        return self._known[event.job]

    def _remember(self, job: int, logged: LoggedJob | None) -> None:
        if len(self._known) >= MAX_JOBS:
            del self._known[next(iter(self._known))]
        self._known[job] = logged

    def _keys(self, job: int) -> Callable[[LoggedProcess], LogKey]:
        record = self._context.lookups.job(job).record
        return lambda process: LogKey(process.log, record.owner, record.uid, record.gid)

    def _texts(self, event: JobEvent, logged: LoggedJob) -> Iterator[tuple[LoggedProcess, str]]:
        date = _date(event.at)
        match event:
            case j.JobSubmitted(host=host):
                for one in logged.all():
                    yield one, texts.submitted(one, date, host or self._context.name)
                    if logged.is_submitted_held:
                        yield one, texts.held(one, date, "submitted on hold at user's request")
            case j.InstancesDispatched(task=task, placement=placement, attempts=attempts):
                for instance, _ in attempts:
                    self._nodes[event.job, task, instance] = placement[0][0] if placement else ""
            case j.InstancesStarted(started=started):
                for start in started:
                    yield from self._started(logged, start.task, start.instance, start.at)
            case j.InstancesEnded(ended=ended):
                for end in ended:
                    yield from self._ended(logged, end, date)
            case j.InstancesCanceled(task=task, spans=spans, message=message):
                gone = logged.within([(task, spans)])
                yield from ((one, texts.aborted(one, date, message)) for one in gone)
            case j.TasksCanceled(tasks=tasks, message=message):
                gone = logged.within(tasks) if tasks else logged.all()
                yield from ((one, texts.aborted(one, date, message)) for one in gone)
            case j.JobHeld(by=by, message=message):
                reason = message or f"via condor_hold (by user {by})"
                yield from ((one, texts.held(one, date, reason)) for one in self._left(logged))
            case j.JobReleased(by=by):
                reason = f"via condor_release (by user {by})"
                yield from ((one, texts.released(one, date, reason)) for one in self._left(logged))
            case j.InstancesHeld(task=task, spans=spans, by=by):
                reason = f"via condor_hold (by user {by})"
                yield from ((one, texts.held(one, date, reason)) for one in logged.within([(task, spans)]))
            case j.InstancesReleased(task=task, spans=spans, by=by):
                reason = f"via condor_release (by user {by})"
                yield from (
                    (one, texts.released(one, date, reason)) for one in logged.within([(task, spans)])
                )

    def _left(self, logged: LoggedJob) -> Iterator[LoggedProcess]:
        """Yield the processes that have not ended before the event that is looked at."""
        over = self._over.setdefault(logged.job, Ranges())
        run = self._context.lookups.job(logged.job).record.run if logged.job < self._last else None
        if run is not None:  # of the time before a restart only the record is known
            for task, progress in enumerate(run.tasks, 1):
                ended = (*progress.finished, *progress.failed, *progress.canceled)
                for instance in ended:
                    if (one := logged.process(task, instance)) is not None:
                        over.add(one.number)
        yield from (process for process in logged.all() if process.number not in over)

    def _started(
        self, logged: LoggedJob, task: int, instance: int, at: Instant
    ) -> Iterator[tuple[LoggedProcess, str]]:
        key = (logged.job, task, instance)
        process = logged.process(task, instance)
        if process is not None and key not in self._begun:
            self._begun.add(key)
            yield process, texts.executing(process, _date(at), self._node(key))

    def _ended(self, logged: LoggedJob, end: j.InstanceEnd, date: str) -> Iterator[tuple[LoggedProcess, str]]:
        """Yield how an attempt ended; one that was too short has no event of its start."""
        process, outcome = logged.process(end.task, end.instance), end.outcome
        if process is None:
            return
        key = (logged.job, end.task, end.instance)
        self._nodes[key] = end.node or self._nodes.get(key, "")
        if outcome.started is not None:
            yield from self._started(logged, end.task, end.instance, outcome.started)
        begun = key in self._begun
        self._begun.discard(key)
        self._nodes.pop(key, None)
        if end.state == "queued":
            if begun:
                yield process, texts.evicted(process, date, outcome)
        elif _ended_by_itself(end, outcome):
            yield process, texts.terminated(process, date, outcome)
        else:
            yield process, texts.aborted(process, date, outcome.message or end.state)

    def _node(self, key: tuple[int, int, int]) -> str:
        """Return the node of an instance, after a restart from its record; "" if it is not known."""
        if key in self._nodes:
            return self._nodes[key]
        job, task, instance = key
        run = self._context.lookups.job(job).record.run
        live = run.tasks[task - 1].live.get(instance) if run is not None else None
        if live is not None:
            return live.placement[0][0]
        end = self._context.lookups.archive.instance(JobId(job), task, instance)
        return "" if end is None else end.node


def _ended_by_itself(end: j.InstanceEnd, outcome: AttemptOutcome) -> bool:
    has_status = outcome.exit_code is not None or outcome.signal is not None
    return end.state in ("finished", "failed") and end.cause == "program" and has_status


def _opened(path: Path) -> sqlite3.Connection:
    """Return the file with the number of the last event that is written.

    Raises:  OSError, sqlite3.Error.
    """
    path.touch(mode=0o600)
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("pragma journal_mode = wal")
    database.execute("pragma synchronous = normal")
    database.execute(EVENT_LOGS.schema)
    return database


def _date(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
