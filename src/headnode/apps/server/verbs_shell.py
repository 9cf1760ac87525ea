"""Somebody sits down at a terminal: that of an interactive job, or a new one beside the tasks of another.

An interactive job lives no longer than the connection of who waits for it, or sits there.
"""

import asyncio
import contextlib
import logging

from headnode.adapters.nodes import messages as m
from headnode.adapters.nodes.sessions import BESIDE, Attempt
from headnode.apps.server import wishes as w
from headnode.apps.server.desk import Desk
from headnode.apps.server.expecting import expected_object
from headnode.apps.server.streaming import NOT_RUN, Channel, Ended, Talk, pass_through
from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle.permission import may_read_output
from headnode.core.lifecycle.states import ACTIVE, PEOPLE_SAY, JobState
from headnode.core.model.errors import BadRequest, HeadnodeError, WrongState
from headnode.core.model.quantities import JobId
from headnode.core.model.user import User

log = logging.getLogger("headnode.server")

_LOOK = 1.0  # seconds between two looks at why a job waits, and how long it may still run
_WARNINGS = (
    300.0,
    60.0,
    10.0,
)  # seconds before the end of its time when who sits there is told
_FAREWELL = 30.0  # seconds for a job to be over when its program is
_NEWS = 5.0  # seconds for what became of the job, when nobody knows how its program ended
_LARGEST = 9999  # rows or columns


async def shell(desk: Desk, by: User, wish: w.ShellWish) -> Talk:
    """Give a client a terminal of a job."""
    found = desk.lookups.job(wish.job)
    may_read_output(by, found.record)
    if found.ended:
        raise WrongState(
            code="job-over",
            what=f"job {wish.job} is {found.record.state.value} already",
            fix="start another with hn job shell",
        )
    if not (0 <= wish.rows <= _LARGEST and 0 <= wish.columns <= _LARGEST) or " " in wish.kind:
        raise BadRequest(
            code="terminal",
            what="there is no terminal of that size and kind",
            fix="set a terminal type and size",
        )
    visit = _Visit(desk, by, wish)
    if found.spec.interactive and found.record.id not in desk.attended:
        return visit.attend
    if found.record.state is not JobState.RUNNING or not _places(desk, found.record.id):
        raise WrongState(
            code="not-running",
            what=f"job {wish.job} is {found.record.state.value}: there is no terminal where it does not run",
            fix=f"wait until it runs: hn job explain {wish.job}",
        )
    return visit.sit_beside


def _places(desk: Desk, job: JobId) -> list[str]:
    """Return the nodes that a job holds, the first of them first."""
    record = desk.cluster.jobs.get(job)
    return list(record.run.places) if record is not None and record.run is not None else []


class _Visit:
    """One client at one job."""

    def __init__(self, desk: Desk, by: User, wish: w.ShellWish) -> None:
        self._desk, self._by, self._wish, self._job = desk, by, wish, JobId(wish.job)

    async def attend(self, channel: Channel) -> None:
        """Wait until an interactive job runs, give somebody its terminal, and end the job with it."""
        self._desk.attended.add(self._job)
        try:
            place = await self._wait(channel)
            if place is None:
                return
            if isinstance(place, Ended):
                await self._tell_end(channel, place)
                return
            ended = await self._sit(channel, *place)
            if ended is not None:
                await self._is_over(_FAREWELL if ended.known else _NEWS)
                await self._tell_end(channel, ended)
        finally:
            self._desk.attended.discard(self._job)
            await self._cancel()

    async def sit_beside(self, channel: Channel) -> None:
        """Give somebody a new terminal, or command, on the first node of a running job."""
        node = _places(self._desk, self._job)[0]
        ended = await self._sit(channel, node, BESIDE)
        if ended is not None:
            await self._tell_end(channel, ended)

    # Waiting.

    async def _wait(self, channel: Channel) -> tuple[str, Attempt] | Ended | None:
        """Return where the job runs, or how it has ended; None when the client has gone."""
        gone = asyncio.ensure_future(channel.hear())
        bell, told = self._desk.watchers.watch([self._job]), None
        try:
            while True:
                found = self._where()
                if found is not None:
                    return found
                reason = self._waits()
                if reason != told:
                    told = reason
                    await channel.say(waits=reason)
                ringing = asyncio.ensure_future(bell.wait())
                await asyncio.wait((gone, ringing), timeout=_LOOK, return_when=asyncio.FIRST_COMPLETED)
                ringing.cancel()
                bell.take()
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
            self._desk.watchers.leave([self._job], bell)
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)

    def _where(self) -> tuple[str, Attempt] | Ended | None:
        record = self._desk.cluster.jobs.get(self._job)
        if record is None:
            return Ended(NOT_RUN, known=False)
        for instance, live in record.run.tasks[0].live.items() if record.run is not None else ():
            if record.state in ACTIVE:
                return live.place[0][0], (1, instance, live.attempt)
        return None

    def _waits(self) -> dict[str, object]:
        """Return the job as lists show it: why it waits, and when it is expected to start."""
        found = self._desk.lookups.job(self._job)
        reason = self._desk.pending_reason(found.record)
        expected = expected_object(self._desk, found.record)
        state = PEOPLE_SAY[found.record.state]
        return {"state": state, "reason": reason, "expected": expected}

    # Sitting there.

    async def _sit(self, channel: Channel, node: str, attempt: Attempt) -> Ended | None:
        terminal = None
        if self._wish.rows and self._wish.columns:
            terminal = m.Terminal(self._wish.rows, self._wish.columns, self._wish.kind)

        def launch(route: m.Route) -> m.Launch:
            return m.Launch(route, self._wish.command, "", {}, terminal=terminal)

        stream = self._desk.sessions.begin(node, self._job, attempt, launch)
        warning = asyncio.ensure_future(self._warn(channel))
        try:
            await channel.say(node=node)
            return await pass_through(stream, channel)
        except ConnectionError:
            return None
        finally:
            warning.cancel()
            await asyncio.gather(warning, return_exceptions=True)
            await self._desk.sessions.end(stream)

    async def _warn(self, channel: Channel) -> None:
        """Tell whoever sits there that the job is about to end."""
        left_to_tell = list(_WARNINGS)
        bell = self._desk.watchers.watch([self._job])
        try:
            while True:
                record = self._desk.cluster.jobs.get(self._job)
                if record is None or record.state not in ACTIVE:
                    why = f" ({record.message})" if record is not None and record.message else ""
                    await channel.say(notice=f"job {self._job} is being ended{why}")
                    return
                left = self._left()
                if left_to_tell and left <= left_to_tell[0]:
                    left_to_tell = [each for each in left_to_tell if each < left]
                    if left > 1:
                        await channel.say(notice=f"the time of job {self._job} is over in {left:.0f} s")
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK):
                        await bell.wait()
                bell.take()
        finally:
            self._desk.watchers.leave([self._job], bell)

    def _left(self) -> float:
        """Return for how long the job may still run, in seconds."""
        record = self._desk.cluster.jobs.get(self._job)
        run = record.run if record is not None else None
        ends = [run.deadline] if run is not None and run.deadline is not None else []
        return min(ends, default=float("inf")) - self._desk.now()

    # The end.

    async def _is_over(self, patience: float) -> None:
        bell = self._desk.watchers.watch([self._job])
        try:
            async with asyncio.timeout(patience):
                while self._job in self._desk.cluster.jobs:
                    await bell.wait()
                    bell.take()
        except TimeoutError:
            log.warning("job %d still runs after its program has ended", self._job)
        finally:
            self._desk.watchers.leave([self._job], bell)

    async def _tell_end(self, channel: Channel, ended: Ended) -> None:
        """Say how it ended; where the program could not tell, what became of the job does."""
        found = self._desk.lookups.job(self._job)
        state = PEOPLE_SAY[found.record.state]
        problem = ended.problem
        if found.ended and not ended.known:
            why = found.record.message or problem
            problem = f"job {self._job} is {state.lower()}" + (f": {why}" if why else "")
        await channel.say(exit=ended.code, problem=problem, state=state, done=True)

    async def _cancel(self) -> None:
        """Nobody waits for the job any more, nor sits there: end it, if it is not over."""
        if self._job not in self._desk.cluster.jobs:
            return
        try:
            await self._desk.ask(
                c.StopJob(
                    by=self._by,
                    job=self._job,
                    outcome="canceled",
                    message="its terminal was closed",
                    force=False,
                    graceful=False,
                )
            )
        except HeadnodeError as error:
            log.info("job %d, whose terminal was closed, is not canceled: %s", self._job, error)
