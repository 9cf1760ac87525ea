"""EASY backfill over a pool: the first job has a reservation, the others may overtake if they keep it.

The first job that does not fit starts at the latest at the *shadow* time, the earliest at which enough is
free by the estimates; *extra* processors are free then beyond its own.  A later job starts if it is over by
the shadow time, or takes no more than the extra ones.

What makes it cheap: without an end since the last pass, nothing that was refused can start, so only new
jobs are tried.  Waiting jobs of equal size and estimate are a line of which only the oldest is tried.

Source:  Mu'alem and Feitelson, "Utilization, predictability, workloads, and user runtime estimates", 2001.
"""

from collections import deque
from collections.abc import Sequence
from math import inf

from headnode.core.model.workload import Workload
from headnode.core.scheduling.pool.holders import Holders
from headnode.core.scheduling.pool.ties import Ties

Line = deque[int]
Kind = tuple[int, float]
"""Processors and estimate: what jobs of a line have in common."""


class EasyBackfill:
    """Waiting jobs stand in lines by kind; `_head` is the oldest of all and blocked."""

    def __init__(self, workload: Workload, processors: int, ties: Ties) -> None:
        self._made_of = workload, processors, ties
        self._processors, self._estimates = workload.processors, workload.estimates
        self._holders = Holders(workload, processors)
        self._lines: dict[Kind, Line] = {}
        self._new: list[int] = []
        self._head: int | None = None
        self._shadow, self._extra = inf, 0
        self._released = False

    def fork(self) -> "EasyBackfill":
        """Return an independent copy."""
        twin = EasyBackfill(*self._made_of)
        twin._head, twin._shadow, twin._extra = self._head, self._shadow, self._extra
        twin._released, twin._new = self._released, self._new.copy()
        twin._holders = self._holders.copy()
        twin._lines = {kind: line.copy() for kind, line in self._lines.items()}
        return twin

    def arrived(self, _now: float, job: int) -> None:
        """Keep the job for the next pass."""
        self._new.append(job)

    def ended(self, _now: float, job: int) -> None:
        """Take its processors back."""
        if self._holders.end(job):
            self._released = True

    def expected_ends(self, now: float) -> None:
        """Take back what is over by the estimates."""
        if self._holders.end_expected(now):
            self._released = True

    def starts(self, now: float) -> Sequence[int]:
        """Return the first jobs as long as they fit, then those that overtake."""
        started: list[int] = []
        if self._released and self._head is not None:
            self._start_heads(now, started)
            if self._head is not None:
                self._overtake(now, started)
        self._released = False
        if self._new:
            for job in self._new:
                self._try_new(now, job, started)
            self._new.clear()
        return started

    def wakes(self) -> float:
        """Return inf: only an end or an arrival can start a job."""
        return inf

    def _try_new(self, now: float, job: int, started: list[int]) -> None:
        processors, estimate = self._processors[job], self._estimates[job]
        if processors <= self._holders.free:
            if self._head is None or now + estimate <= self._shadow:
                return self._start(now, job, started)
            if processors <= self._extra:
                self._extra -= processors
                return self._start(now, job, started)
        self._lines.setdefault((processors, estimate), deque()).append(job)
        if self._head is None:
            self._block(job)
        return None

    def _start(self, now: float, job: int, started: list[int]) -> None:
        self._holders.start(now, job)
        started.append(job)

    def _block(self, job: int) -> None:
        self._head = job
        self._shadow, self._extra = self._holders.shadow(self._processors[job])

    def _start_heads(self, now: float, started: list[int]) -> None:
        while self._head is not None:
            if self._processors[self._head] > self._holders.free:
                return self._block(self._head)
            self._start(now, self._head, started)
            self._leave(self._processors[self._head], self._estimates[self._head])
            self._head = min((line[0] for line in self._lines.values()), default=None)
        return None

    def _leave(self, processors: int, estimate: float) -> None:
        """Take the oldest of a line out of the queue."""
        line = self._lines[processors, estimate]
        line.popleft()
        if not line:
            del self._lines[processors, estimate]

    def _overtake(self, now: float, started: list[int]) -> None:
        """Start every job behind the head that keeps its reservation.

        The oldest that may start, again and again: what is free, and extra, only shrink, so who was passed
        over once is out for this pass.
        """
        kinds: list[Kind] = list(self._lines)
        while kinds := self._startable(now, kinds):
            processors, estimate = min(kinds, key=self._oldest)
            if now + estimate > self._shadow:
                self._extra -= processors
            self._start(now, self._lines[processors, estimate][0], started)
            self._leave(processors, estimate)

    def _startable(self, now: float, kinds: list[Kind]) -> list[Kind]:
        free, shadow, extra, lines = self._holders.free, self._shadow, self._extra, self._lines
        return [
            kind
            for kind in kinds
            if kind[0] <= free and (now + kind[1] <= shadow or kind[0] <= extra) and kind in lines
        ]

    def _oldest(self, kind: Kind) -> int:
        return self._lines[kind][0]
