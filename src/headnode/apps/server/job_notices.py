"""Notices of jobs that start and end: derived from durable events, kept until they are sent."""

import asyncio
import logging
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec

from headnode.adapters.files.copied_tables import WAITING, RowChanges
from headnode.adapters.notify.outbox import (
    Delivery,
    DeliveryQueue,
    DeliveryResult,
    DeliverySettings,
    EventPost,
    NoticeKey,
    Outbox,
    PendingNotice,
    delivery_settings,
    server_of,
)
from headnode.adapters.wire.child_service import ChildProgram, ChildService
from headnode.apps.server.job_lookup import JobLookup
from headnode.core.model.errors import NotFound, Unavailable
from headnode.core.model.job import JobSpec
from headnode.core.state import job_events as e
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.events import Event
from headnode.core.state.job_record import decode_record
from headnode.core.state.notices import addresses, may_ask, notice_of
from headnode.engine.engine import Engine

MAX_SILENCE = 120.0  # seconds without an answer, though one is due: the process is stuck
_MAX_ANSWER = 1024 * 1024  # bytes of an answer


class NotifierProcess:
    """Gives deliveries to a process, and tells what became of them; it is started again when it was lost."""

    def __init__(self, on_delivery: Callable[[DeliveryResult], None]) -> None:
        self._told = on_delivery
        self._given: set[NoticeKey] = set()
        self._open = 0  # questions without an answer
        results = msgspec.msgpack.Decoder(DeliveryResult)

        def read(message: bytes) -> tuple[NoticeKey, DeliveryResult]:
            result = results.decode(message)
            return (result.number, result.address), result

        self._service = ChildService(ChildProgram("headnode.apps.notify"), read, _MAX_ANSWER)
        self._silence: asyncio.TimerHandle | None = None

    @property
    def busy(self) -> Collection[NoticeKey]:
        """The numbers and addresses of the notices passed to it, until it reports their delivery."""
        return self._given

    async def send(self, delivery: Delivery) -> None:
        """Let it bring something.

        Raises:  OSError when it cannot be started.
        """
        key = (delivery.notice.number, delivery.address)
        answer = await self._ask(key, delivery)
        self._given.add(key)
        answer.add_done_callback(partial(self._receive, key))

    async def post(self, post: EventPost) -> DeliveryResult:
        """Let it post events; return what became of them.

        Raises:  OSError when it cannot be started, or was lost.
        """
        result = await (await self._ask((post.number, post.hook), post))
        self._listen()
        return result

    async def _ask(self, key: NoticeKey, order: Delivery | EventPost) -> "asyncio.Future[DeliveryResult]":
        answer = await self._service.ask(key, msgspec.msgpack.encode(order))
        if not self._open:
            self._listen()
        self._open += 1
        answer.add_done_callback(self._closed)
        return answer

    def _closed(self, _: "asyncio.Future[DeliveryResult]") -> None:
        self._open -= 1

    def _listen(self) -> None:
        """Kill the process when it falls silent, which it may while it has nothing to bring."""
        if self._silence is not None:
            self._silence.cancel()
        self._silence = asyncio.get_running_loop().call_later(MAX_SILENCE, self._service.kill)

    def _receive(self, key: NoticeKey, answer: "asyncio.Future[DeliveryResult]") -> None:
        self._given.discard(key)
        if answer.cancelled() or answer.exception() is not None:
            return
        self._listen()
        self._told(answer.result())

    async def end(self) -> None:
        """End the process; what it had to bring is still to be brought."""
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None
        await self._service.end()


log = logging.getLogger("headnode.notices")

BETWEEN_DELIVERIES = 5.0  # seconds at most
DELIVERIES_AHEAD = 32  # deliveries given to the one who brings them
AHEAD_OF_SERVER = 2  # of them for one server, so that a slow one leaves threads and turns to the others
NOTICES_LOOKED_AT = 10_000  # waiting notices in memory
FIRST_REST, MAX_REST = 2.0, 3600.0  # seconds until the next try; each is three times the one before
LIFETIME = 86_400.0  # seconds: older notices are dropped


_OF_NOTICES = frozenset({e.JobCreated, e.JobModified, e.JobUnarchived, e.JobStarted, e.JobEnded})
"""The events that say which jobs ask for notices, or of which there may be one."""


class JobNotices:
    """Collects the notices of events, and passes them to the notifier."""

    def __init__(
        self, engine: Engine, lookups: JobLookup, state: Path, name: str, changes: RowChanges
    ) -> None:
        """`changes` is told which rows of the outbox change."""
        self._engine, self._lookups, self._name = engine, lookups, name
        self._outbox = Outbox(state / WAITING.file, changes)
        self._seen = self._outbox.seen
        self._behind = self._seen is not None  # recorded events were not processed yet
        self._storable = True  # the last change of the outbox was stored
        if self._seen is None:
            self._seen = engine.number
            with self._storing():  # a standby that takes over goes on from there
                self._outbox.add(self._seen)
        self._notifier = NotifierProcess(self._became)
        self._queue = DeliveryQueue(self._outbox, NOTICES_LOOKED_AT)
        self._tries: dict[NoticeKey, int] = {}  # how often a notice could not be brought
        self._settled: set[NoticeKey] = set()  # not to be sent again, and not removed from the disk yet
        self._changed = asyncio.Event()
        self.problem = ""  # why the last one that was not brought was not
        self._asking = {job for job, record in engine.cluster.jobs.items() if may_ask(record.spec)}

    @property
    def ways(self) -> DeliverySettings:
        """The ways that there are now."""
        return delivery_settings(self._engine.settings)

    def waiting(self) -> int:
        """Return how many notices wait to be brought."""
        return self._outbox.count()

    # What is to be told.

    def perform(self, events: Sequence[Event], cluster: ClusterState) -> None:  # noqa: ARG002  (it is an Effects)
        """Collect the notices of these events."""
        last = self._engine.number
        numbered = enumerate(events, last - len(events) + 1)
        notices = [one for one in numbered if type(one[1]) in _OF_NOTICES and self._wants_notice(one[1])]
        if self._behind or not notices:
            return
        self._note(last, notices)

    def _wants_notice(self, event: Event) -> bool:
        match event:
            case e.JobCreated(job=job, spec=spec) | e.JobModified(job=job, spec=spec):
                if may_ask(spec):
                    self._asking.add(job)
                return False
            case e.JobUnarchived(job=job, record=record):
                if may_ask(decode_record(record).spec):
                    self._asking.add(job)
                return False
            case e.JobStarted(job=job):
                return job in self._asking
            case e.JobEnded(job=job):
                found = job in self._asking
                self._asking.discard(job)
                return found
            case _:
                return False

    def _note(self, last: int, numbered: Iterable[tuple[int, Event]]) -> None:
        self._behind = True
        with self._storing():
            self._outbox.add(last, list(self._pending_notices(numbered)))
            self._queue.look()
            self._seen, self._behind = last, False
            self._changed.set()

    @contextmanager
    def _storing(self) -> Iterator[None]:
        """Change the outbox; if the disk is full, this is logged once, and `keep` tries again."""
        try:
            yield
        except sqlite3.Error as error:
            if self._storable:
                log.error("notices cannot be stored; tried again every %g s: %s", BETWEEN_DELIVERIES, error)
            self._storable = False
        else:
            if not self._storable:
                log.info("notices are stored again")
            self._storable = True

    def _pending_notices(self, numbered: Iterable[tuple[int, Event]]) -> Iterator[PendingNotice]:
        ways = self.ways
        for number, event in numbered:
            if not isinstance(event, e.JobStarted | e.JobEnded):
                continue
            try:
                job = self._lookups.job(event.job)
            except NotFound:
                continue
            notice = notice_of(number, event, job.record, job.spec, self._name)
            if notice is not None:
                for address in receivers(job.spec, job.record.owner, ways):
                    yield PendingNotice(notice, address)

    def _catch_up(self) -> None:
        """Process recorded events that were missed, or whose processing could not be stored."""
        last, after = self._engine.number, self._seen or 0
        self._behind = False
        try:
            missed = [
                (number, event)
                for number, event in self._engine.journal.replay(after)
                if isinstance(event, e.JobStarted | e.JobEnded) and number <= last
            ]
        except Unavailable as error:
            log.error("what happened since the last notice cannot be read: %s", error)
            self._behind = True
            return
        self._note(last, missed)

    # How it is brought.

    async def keep(self) -> None:
        """Have notices brought for ever."""
        try:
            while True:
                self._changed.clear()
                if self._behind:
                    self._catch_up()
                elif self._seen != self._engine.number:  # a restart need not look at these again
                    self._note(self._engine.number, ())
                    self._changed.clear()
                if self._settled:
                    self._remove_settled()
                await self._give()
                try:
                    async with asyncio.timeout(BETWEEN_DELIVERIES):
                        await self._changed.wait()
                except TimeoutError:
                    continue
        finally:
            await self._notifier.end()

    def close(self) -> None:
        """Close the outbox: the head ends."""
        self._outbox.close()

    async def _give(self) -> None:
        ways, busy = self.ways, self._notifier.busy
        self._queue.take_back(busy)
        while len(busy) < DELIVERIES_AHEAD and (
            one := self._queue.next(time.monotonic(), self._full_servers())
        ):
            if self._engine.clock.now() - one.notice.at > LIFETIME:
                self._give_up(one, f"it could not be delivered within a day: {self.problem}")
                continue
            try:
                await self._notifier.send(Delivery(one.notice, one.address, ways))
            except OSError as error:
                log.error("the process that brings notices was lost: %s", error)
                await self._notifier.end()
                return

    def _full_servers(self) -> Collection[str]:
        """Return the servers to which no more may go now."""
        going = Counter(server_of(address) for _, address in self._notifier.busy)
        return {server for server, number in going.items() if number >= AHEAD_OF_SERVER}

    def _became(self, answer: DeliveryResult) -> None:
        key = (answer.number, answer.address)
        if answer.became == "later":
            self.problem = f"{answer.address}: {answer.problem}"
            tries = self._tries[key] = self._tries.get(key, 0) + 1
            self._queue.rest(key, time.monotonic() + min(FIRST_REST * 3 ** (tries - 1), MAX_REST))
            log.warning(
                "a notice was not brought to %s and will be again: %s", answer.address, answer.problem
            )
            self._changed.set()  # its server has a turn left
            return
        if answer.became == "never":
            self.problem = f"{answer.address}: {answer.problem}"
            log.warning("a notice for %s is given up: %s", answer.address, answer.problem)
        self._forget(key)
        self._changed.set()

    def _give_up(self, one: PendingNotice, why: str) -> None:
        log.warning("a notice of job %d for %s is given up: %s", one.notice.job, one.address, why)
        self._forget((one.notice.number, one.address))

    def _forget(self, key: NoticeKey) -> None:
        self._tries.pop(key, None)
        self._queue.settled(key)
        self._settled.add(key)
        self._remove_settled()

    def _remove_settled(self) -> None:
        with self._storing():
            for key in tuple(self._settled):
                self._outbox.discard(*key)
                self._settled.discard(key)


def receivers(spec: JobSpec, owner: str, settings: DeliverySettings) -> tuple[str, ...]:
    """Return where the notices of a job go, each address once."""
    own = addresses(spec.email) or ((f"{owner}@{settings.domain}",) if settings.domain else ())
    return tuple(dict.fromkeys((*own, *settings.everything)))
