"""Terminals: that of an interactive job, or a new one beside the tasks of another job; and allocations.

An interactive job lives no longer than the connection that waits for it, or uses its terminal.  An
allocation waits for its client to connect again: `apps/server/abandoned_allocations`.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterator

from headnode.adapters.nodes.streams import BESIDE, SessionKey
from headnode.adapters.wire import agent_messages as m
from headnode.apps.server.api.job_views import expected_object
from headnode.apps.server.api.streams import NOT_RUN, ClientStream, CommandEnd, StreamHandler, relay_stream
from headnode.apps.server.api.verbs import VerbAccess, VerbUsers, verb
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.errors import BadRequest, HeadnodeError, WrongState
from headnode.core.model.job_checks import is_allocation
from headnode.core.model.quantities import JobId
from headnode.core.model.user import User
from headnode.core.state import stop as c
from headnode.core.state.job_events import NodeCores
from headnode.core.state.job_record import JobRecord
from headnode.core.state.permissions import may_read_output
from headnode.core.state.transitions import ACTIVE, STATE_NAMES, JobState
from headnode.protocol import stream_frames as f
from headnode.protocol.stream_frames import CommandExit, ShellNotice, ShellPlace, ShellWaits, WaitingJob

log = logging.getLogger("headnode.server")

_BETWEEN_LOOKS = 1.0  # seconds between two looks at why a job waits, and how long it may still run
_WARNINGS = (
    300.0,
    60.0,
    10.0,
)  # seconds before the end of its time when who sits there is told
_START_TIMEOUT = 20.0  # seconds for the first task of a running job to start
_PROGRAM_END_TIMEOUT = 30.0  # seconds for a job to be over when its program is
_JOB_END_TIMEOUT = 5.0  # seconds to wait for the end of the job if the end of its program is unknown
_MAX_WINDOW_SIZE = 9999  # rows or columns


@verb(VerbAccess(VerbUsers.OWNER, changes=True))
async def shell(context: ServerContext, by: User, request: f.ShellRequest) -> StreamHandler:
    """Connect a client to a terminal of a job, or run a command in the job."""
    job = context.lookups.job(request.job)
    may_read_output(by, job.record)
    if job.ended:
        raise WrongState(
            code="job-over",
            what=f"job {request.job} has already ended: it is {job.record.state.value}",
            fix="start another with hn job shell",
        )
    if (
        not (0 <= request.rows <= _MAX_WINDOW_SIZE and 0 <= request.columns <= _MAX_WINDOW_SIZE)
        or " " in request.kind
    ):
        raise BadRequest(
            code="terminal",
            what="the size or type of the terminal is not valid",
            fix="set TERM and the size of the terminal",
        )
    visit, allocation = _TerminalVisit(context, by, request), is_allocation(job.spec)
    if request.holds:
        if not allocation:
            raise _no_allocation(job.record)
        return visit.hold
    if job.spec.interactive and not allocation and job.record.id not in context.attended:
        return visit.attend
    if job.record.state is not JobState.RUNNING or not _places(context, job.record.id):
        raise _not_running(job.record)
    return visit.sit_in_task if request.in_task or allocation else visit.sit_beside


def _not_running(record: JobRecord) -> WrongState:
    return WrongState(
        code="not-running",
        what=f"job {record.id} is {record.state.value}: there is no terminal where it does not run",
        fix=f"wait until it runs: hn job explain {record.id}",
    )


def _no_allocation(record: JobRecord) -> BadRequest:
    return BadRequest(
        code="no-allocation",
        what=f"job {record.id} does not end with its client: it is not an interactive job that runs until "
        "it is canceled",
        fix="leave out `holds`",
        path=("holds",),
    )


def _places(context: ServerContext, job: JobId) -> list[str]:
    """Return the nodes that a job holds, the first of them first."""
    record = context.cluster.jobs.get(job)
    return list(record.run.places) if record is not None and record.run is not None else []


class _TerminalVisit:
    """One client at one job."""

    def __init__(self, context: ServerContext, by: User, request: f.ShellRequest) -> None:
        self._context, self._by, self._request, self._job = context, by, request, JobId(request.job)

    async def attend(self, client: ClientStream) -> None:
        """Wait until an interactive job runs, connect the client to its terminal, and end the job with it.

        Raises:  WrongState ``not-running`` when another client has come first since this one was admitted.
        """
        if self._job in self._context.attended:
            raise _not_running(self._context.lookups.job(self._job).record)
        try:
            with self._attending():
                await self._attend(client)
        finally:
            await self._cancel("its terminal was closed")

    @contextlib.contextmanager
    def _attending(self) -> Iterator[None]:
        attended = self._context.attended
        attended[self._job] += 1
        try:
            yield
        finally:
            attended[self._job] -= 1
            if not attended[self._job]:
                del attended[self._job]

    async def _attend(self, client: ClientStream) -> None:
        place = await self._wait(client)
        if place is None:
            return
        if isinstance(place, CommandEnd):
            await self._report_end(client, place)
            return
        ended = await self._sit(client, *place)
        if ended is not None:
            await self._is_over(_PROGRAM_END_TIMEOUT if ended.reported else _JOB_END_TIMEOUT)
            await self._report_end(client, ended)

    async def sit_beside(self, client: ClientStream) -> None:
        """Run a new terminal, or a command, for the client on the first node of a running job."""
        node = _places(self._context, self._job)[0]
        ended = await self._sit(client, node, BESIDE)
        if ended is not None:
            await self._report_end(client, ended)

    async def sit_in_task(self, client: ClientStream) -> None:
        """Run a new terminal, or a command, for the client as a part of the first task that runs.

        Raises:  WrongState ``not-running`` if none does.
        """
        place = await self._started_task()
        if place is None:
            raise _not_running(self._context.lookups.job(self._job).record)
        placement, attempt = place
        ended = await self._sit(client, placement[0][0], attempt, placement)
        if ended is not None:
            await self._report_end(client, ended)

    async def _started_task(self) -> tuple[NodeCores, SessionKey] | None:
        """Return the first attempt that runs; wait for it a while, since the job has just begun to."""
        signal = self._context.watchers.watch([self._job])
        try:
            async with asyncio.timeout(_START_TIMEOUT):
                while (place := self._task_place()) is None and self._job in self._context.cluster.jobs:
                    await signal.wait()
                    signal.take()
                return place
        except TimeoutError:
            return None
        finally:
            self._context.watchers.leave([self._job], signal)

    async def hold(self, client: ClientStream) -> None:
        """Say when an allocation has its nodes, and when it ends; it ends some time after its client."""
        with self._attending():
            self._context.deserted.discard(self._job)
            ended = await self._wait(client)
            if ended is not None and not isinstance(ended, CommandEnd):
                await client.send(ShellPlace(ended[0]))
                ended = await self._until_over(client)
            if isinstance(ended, CommandEnd):
                await self._report_end(client, ended)
        if self._job in self._context.cluster.jobs:
            self._context.deserted.add(self._job)

    async def _until_over(self, client: ClientStream) -> CommandEnd | None:
        """Wait until an allocation is over; None if the client goes first."""
        gone, ended = asyncio.ensure_future(client.receive()), asyncio.ensure_future(self._keeper_over())
        warning = asyncio.ensure_future(self._warn(client))
        try:
            await asyncio.wait((gone, ended), return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                return None
            await self._cancel("nothing of it runs any more")
            await self._is_over(_PROGRAM_END_TIMEOUT)
            return CommandEnd(NOT_RUN, reported=False)
        finally:
            for each in (gone, ended, warning):
                each.cancel()
            await asyncio.gather(gone, ended, warning, return_exceptions=True)

    async def _keeper_over(self) -> None:
        """Wait until the task of an allocation, which does nothing, has ended."""
        signal = self._context.watchers.watch([self._job])
        try:
            while self._task_place() is not None or self._is_suspended():
                await signal.wait()
                signal.take()
        finally:
            self._context.watchers.leave([self._job], signal)

    # Waiting.

    async def _wait(self, client: ClientStream) -> tuple[str, SessionKey] | CommandEnd | None:
        """Return where the job runs, or how it has ended; None when the client has gone."""
        gone = asyncio.ensure_future(client.receive())
        signal, last_reason = self._context.watchers.watch([self._job]), None
        try:
            while True:
                place = self._where()
                if place is not None:
                    return place
                reason = self._waits()
                if reason != last_reason:
                    last_reason = reason
                    await client.send(ShellWaits(reason))
                ringing = asyncio.ensure_future(signal.wait())
                await asyncio.wait(
                    (gone, ringing), timeout=_BETWEEN_LOOKS, return_when=asyncio.FIRST_COMPLETED
                )
                ringing.cancel()
                signal.take()
                if gone.done():
                    if gone.result() is not None:
                        raise BadRequest(
                            code="said",
                            what="there is no terminal yet",
                            fix="wait until its program has started",
                        )
                    return None
        except ConnectionError:
            return None
        finally:
            self._context.watchers.leave([self._job], signal)
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)

    def _where(self) -> tuple[str, SessionKey] | CommandEnd | None:
        record = self._context.cluster.jobs.get(self._job)
        if record is None:
            return CommandEnd(NOT_RUN, reported=False)
        for instance, live in record.run.tasks[0].live.items() if record.run is not None else ():
            if record.state in ACTIVE and live.started is not None:  # before, its node knows no such program
                return live.placement[0][0], (1, instance, live.attempt)
        return None

    def _task_place(self) -> tuple[NodeCores, SessionKey] | None:
        """Return the first attempt that runs, and its nodes."""
        record = self._context.cluster.jobs.get(self._job)
        if record is None or record.run is None or record.state not in ACTIVE:
            return None
        for number, progress in enumerate(record.run.tasks, 1):
            for instance, live in progress.live.items():
                if live.started is not None:
                    return live.placement, (number, instance, live.attempt)
        return None

    def _is_suspended(self) -> bool:
        record = self._context.cluster.jobs.get(self._job)
        return record is not None and record.state is JobState.SUSPENDED

    def _waits(self) -> WaitingJob:
        """Return the job as lists show it: why it waits, and when it is expected to start."""
        job = self._context.lookups.job(self._job)
        reason = self._context.pending_reason(job.record)
        expected = expected_object(self._context, job.record)
        return WaitingJob(STATE_NAMES[job.record.state], reason, expected)

    # Sitting there.

    async def _sit(
        self, client: ClientStream, node: str, attempt: SessionKey, placement: NodeCores = ()
    ) -> CommandEnd | None:
        terminal = None
        if self._request.rows and self._request.columns:
            terminal = m.TerminalSize(self._request.rows, self._request.columns, self._request.kind)

        def launch(route: m.Route) -> m.Launch:
            request = self._request
            return m.Launch(
                route, request.command, request.directory, request.environment, placement, terminal
            )

        stream = self._context.sessions.begin(node, self._job, attempt, launch)
        warning = asyncio.ensure_future(self._warn(client))
        try:
            await client.send(ShellPlace(node))
            return await relay_stream(stream, client)
        except ConnectionError:
            return None
        finally:
            warning.cancel()
            await asyncio.gather(warning, return_exceptions=True)
            await self._context.sessions.end(stream)

    async def _warn(self, client: ClientStream) -> None:
        """Tell the client that the job is about to end."""
        left_to_report = list(_WARNINGS)
        signal = self._context.watchers.watch([self._job])
        try:
            while True:
                record = self._context.cluster.jobs.get(self._job)
                if record is None or record.state not in ACTIVE:
                    why = f" ({record.message})" if record is not None and record.message else ""
                    await client.send(ShellNotice(f"job {self._job} is being ended{why}"))
                    return
                left = self._left()
                if left_to_report and left <= left_to_report[0]:
                    left_to_report = [each for each in left_to_report if each < left]
                    if left > 1:
                        await client.send(
                            ShellNotice(f"the time limit of job {self._job} ends in {left:.0f} s")
                        )
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_BETWEEN_LOOKS):
                        await signal.wait()
                signal.take()
        finally:
            self._context.watchers.leave([self._job], signal)

    def _left(self) -> float:
        """Return for how long the job may still run, in seconds."""
        record = self._context.cluster.jobs.get(self._job)
        run = record.run if record is not None else None
        ends = [run.deadline] if run is not None and run.deadline is not None else []
        return min(ends, default=float("inf")) - self._context.now()

    # The end.

    async def _is_over(self, timeout: float) -> None:
        signal = self._context.watchers.watch([self._job])
        try:
            async with asyncio.timeout(timeout):
                while self._job in self._context.cluster.jobs:
                    await signal.wait()
                    signal.take()
        except TimeoutError:
            log.warning("job %d still runs after its program has ended", self._job)
        finally:
            self._context.watchers.leave([self._job], signal)

    async def _report_end(self, client: ClientStream, ended: CommandEnd) -> None:
        """Say how it ended; where the program could not tell, what became of the job does."""
        job = self._context.lookups.job(self._job)
        state = STATE_NAMES[job.record.state]
        problem = ended.problem
        if job.ended and not ended.reported:
            why = job.record.message or problem
            problem = f"job {self._job} is {state.lower()}" + (f": {why}" if why else "")
        await client.send(CommandExit(ended.code, problem, state))

    async def _cancel(self, why: str) -> None:
        """End the job, if it is not over."""
        if self._job not in self._context.cluster.jobs:
            return
        try:
            await self._context.ask(
                c.StopJob(
                    by=self._by,
                    job=self._job,
                    outcome="canceled",
                    message=why,
                    force=False,
                    graceful=False,
                )
            )
        except HeadnodeError as error:
            log.info("job %d is not canceled, though %s: %s", self._job, why, error)
