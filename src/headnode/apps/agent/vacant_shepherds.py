"""Shepherds whose job is over: they serve the next job of their user, which is cheaper than to fork."""

import asyncio
import contextlib
import os
import signal
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from headnode.adapters import process_tree
from headnode.adapters.files.opening import make_output_directory
from headnode.adapters.processes import shepherd_protocol
from headnode.adapters.processes.factory import ShepherdOrder
from headnode.adapters.processes.job_journal import Header, begin_next
from headnode.adapters.wire.frames import FrameWriter
from headnode.adapters.wire.peers import peer_ids
from headnode.apps.agent.places import Places
from headnode.apps.agent.shepherd_handle import ShepherdHandle, ShepherdKind, ShepherdPhase, ShepherdPlace

REST = 2.0  # seconds that a shepherd waits for a job
RENEWED = 60.0  # seconds until a user gets a new one: groups and limits of the user may change
CLEARING = 0.1  # seconds that a job waits for a shepherd that clears another away
MAX_VACANT = 16  # shepherds without a job
DISMISSAL = 15.0  # seconds that a dismissed shepherd has to end by itself


class Vacancy(NamedTuple):
    """A shepherd without a job."""

    marker: str  # of its last job
    place: ShepherdPlace
    writer: FrameWriter

    def send(self, message: bytes) -> None:
        """Tell it something."""
        self.writer.send(message)


class ReservedShepherd(NamedTuple):
    """A job that gets the shepherd of another as soon as that is cleared away, or another at `timeout`."""

    order: ShepherdOrder
    tended: ShepherdHandle
    timeout: asyncio.TimerHandle | None = None


class VacantShepherds:
    """Which shepherd serves which job next.  A job that gets none after all is given to `fork`."""

    def __init__(
        self,
        places: Places,
        fork: Callable[[ShepherdOrder], None],
        serves: Callable[[str, str], None],
        takes_over: Callable[[ShepherdHandle], None],
    ) -> None:
        """`serves` is called with the markers of a shepherd's last job and of its next.

        `takes_over` is called when the next job has the place of the shepherd, before it is told of the job.
        """
        self._places, self._fork, self._serves, self._takes_over = places, fork, serves, takes_over
        self._clearing: dict[str, ShepherdHandle] = {}  # by marker; all others by that of their last job
        self._vacant: dict[str, Vacancy] = {}
        self._ending: dict[str, Vacancy] = {}
        self._reserved: dict[str, ReservedShepherd] = {}  # for jobs, until the last one is cleared away
        self._serving: dict[str, ShepherdHandle] = {}  # the next jobs, until they are introduced
        self._resting: deque[tuple[float, Vacancy]] = deque()  # until when they wait for a job
        self._timer: asyncio.TimerHandle | None = None  # for the first of them

    def may_stay(self, tended: ShepherdHandle) -> bool:
        """Return whether a shepherd may serve another job when its own is over."""
        is_connected = tended.phase is ShepherdPhase.HERE and not tended.live
        young = time.monotonic() - tended.place.born < RENEWED
        room = len(self._vacant) + len(self._clearing) < MAX_VACANT
        return is_connected and young and room and tended.place.kind is not None

    def clears(self, tended: ShepherdHandle) -> None:
        """A shepherd was told to clear its job away, and to stay."""
        self._clearing[tended.marker] = tended

    def find(self, order: ShepherdOrder, tended: ShepherdHandle) -> bool:
        """Give a job to a shepherd that has none, or soon has none; False: there is none of this kind."""
        kind = tended.place.kind
        for vacancy in self._vacant.values():
            if vacancy.place.kind == kind and not vacancy.writer.is_closing():
                return self._serve(
                    vacancy, ReservedShepherd(order, tended), self._places.vacant(vacancy.marker)
                )
        for marker, other in self._clearing.items():
            if other.place.kind == kind and marker not in self._reserved:
                timeout = asyncio.get_running_loop().call_later(CLEARING, self._fork_instead_of, marker)
                self._reserved[marker] = ReservedShepherd(order, tended, timeout)
                return True
        return False

    def cleared(self, tended: ShepherdHandle, writer: FrameWriter) -> None:
        """A shepherd has cleared its job away: give it the next, or let it wait for one."""
        self._clearing.pop(tended.marker, None)
        vacancy = self._vacant[tended.marker] = Vacancy(tended.marker, tended.place, writer)
        next_job = self._take_reserved(tended.marker)
        if next_job is None:
            with contextlib.suppress(OSError):  # without it, it serves no other
                os.rename(tended.journal_path, self._places.vacant(tended.marker))  # noqa: PTH104
                tended.has_journal = False
            self._rest(vacancy)
        elif self._serve(vacancy, next_job, tended.journal_path):
            tended.has_journal = False
        else:
            self._fork(next_job.order)

    def _rest(self, vacancy: Vacancy) -> None:
        """Dismiss a shepherd that gets no job for a while.

        All have one timer: one for each would wake the agent up for each job, and find that it has a job.
        """
        loop = asyncio.get_running_loop()
        self._resting.append((loop.time() + REST, vacancy))
        if self._timer is None:
            self._timer = loop.call_later(REST, self._dismiss_rested)

    def _dismiss_rested(self) -> None:
        loop, self._timer = asyncio.get_running_loop(), None
        while self._resting:
            due, vacancy = self._resting[0]
            if self._vacant.get(vacancy.marker) is vacancy and due > loop.time():
                self._timer = loop.call_at(due, self._dismiss_rested)
                return
            self._resting.popleft()
            self._dismiss(vacancy)  # if it has got no job

    def _take_reserved(self, marker: str) -> ReservedShepherd | None:
        """Return the job that waits for the shepherd with this marker, if one does; it waits no longer."""
        next_job = self._reserved.pop(marker, None)
        if next_job is not None and next_job.timeout is not None:
            next_job.timeout.cancel()  # else it wakes the agent up for nothing
        return next_job

    def introduced(self, last: str) -> ShepherdHandle | None:
        """A shepherd serves a next job; return which it was told.  `last` is the marker of its last job."""
        return self._serving.pop(last, None)

    def gone(self, marker: str) -> ShepherdHandle | None:
        """A shepherd has ended; return the job that it was to serve next, if it was told so."""
        self._clearing.pop(marker, None)
        self._fork_instead_of(marker)
        if self._vacant.pop(marker, None) or self._ending.pop(marker, None):
            Path(self._places.vacant(marker)).unlink(missing_ok=True)
        return self._serving.pop(marker, None)

    def _serve(self, vacancy: Vacancy, next_job: ReservedShepherd, journal: str) -> bool:
        """Let a shepherd, whose journal is there, serve a job; False: what it needs here cannot be made."""
        order, tended, _ = next_job
        process, _, _ = peer_ids(vacancy.writer.socket)
        own, tended.place = tended.place, vacancy.place
        try:
            self._takes_over(tended)
            make_output_directory(order.output_directory, order.uid, order.gid)
            begin_next(journal, Header(order.job, order.marker, order.boot, process, order.uid))
            os.rename(journal, tended.journal_path)  # noqa: PTH104
        except OSError:  # a shepherd that is made for the job says why
            tended.place = own
            self._dismiss(vacancy)
            return False
        del self._vacant[vacancy.marker]
        self._serving[vacancy.marker] = tended
        self._serves(vacancy.marker, tended.marker)
        vacancy.send(shepherd_protocol.serve_message(order))
        tended.has_dialed(vacancy.writer, {})  # what it is to run follows at once
        return True

    def _fork_instead_of(self, marker: str) -> None:
        """Do not wait any longer for the shepherd that has this marker."""
        next_job = self._take_reserved(marker)
        if next_job is not None:
            self._fork(next_job.order)

    def _dismiss(self, vacancy: Vacancy) -> None:
        """Let a shepherd end that has got no job; one that does not is killed."""
        if self._vacant.get(vacancy.marker) is vacancy:
            self._ending[vacancy.marker] = self._vacant.pop(vacancy.marker)
            vacancy.send(shepherd_protocol.close_message())
            asyncio.get_running_loop().call_later(DISMISSAL, self._insist, vacancy)

    def _insist(self, vacancy: Vacancy) -> None:
        if self._ending.get(vacancy.marker) is vacancy:
            process, _, _ = peer_ids(vacancy.writer.socket)
            process_tree.send([process], signal.SIGKILL)


def kind_of(order: ShepherdOrder) -> ShepherdKind:
    """Return what a shepherd must be like to serve a job."""
    return ShepherdKind(order.uid, order.gid, order.suspendable, order.most_processes)
