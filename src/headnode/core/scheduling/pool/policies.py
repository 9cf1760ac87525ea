"""FCFS, EASY and conservative backfill over a pool of equal processors, by the names in the parameters.

EASY: the first job that does not fit starts at the latest at the *shadow* time, the earliest at which
enough is free by the estimates; *extra* processors are free then beyond its own.  A later job starts if it
is over by the shadow time, or takes no more than the extra ones.

What makes it cheap: without an end since the last pass, nothing that was refused can start, so only new
jobs are tried.  Waiting jobs of equal size and estimate are a line of which only the oldest is tried.

Source:  Mu'alem and Feitelson, "Utilization, predictability, workloads, and user runtime estimates", 2001.
"""

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heapreplace
from math import inf
from types import MappingProxyType
from typing import Protocol

from headnode.core.model.workload import Workload
from headnode.core.scheduling.pool.conservative import Conservative, ConservativeReplan
from headnode.core.scheduling.pool.late_jobs import LateJobs, RoomLeft
from headnode.core.scheduling.pool.replay import ForkablePolicy, Ties


class PoolHolders:
    """The running jobs of a pool: counts free processors, now and at the estimated ends of jobs."""

    __slots__ = ("_ends", "_estimates", "_expected", "_processors", "_workload", "free")

    def __init__(self, workload: Workload, processors: int) -> None:
        self.free = processors
        self._workload = workload
        self._processors, self._estimates = workload.processors, workload.estimates
        self._expected: list[tuple[float, int]] = []  # (estimated end, job), ascending
        self._ends: dict[int, float] = {}  # job: its estimated end, while it counts as a holder

    def copy(self) -> "PoolHolders":
        """Return an independent copy."""
        twin = PoolHolders(self._workload, self.free)
        twin._expected, twin._ends = self._expected.copy(), self._ends.copy()
        return twin

    def start(self, now: float, job: int) -> None:
        """Let the job hold its processors."""
        self.free -= self._processors[job]
        self._ends[job] = end = now + self._estimates[job]
        insort(self._expected, (end, job))

    def end(self, job: int) -> bool:
        """Take the job's processors back; False if that was done when its estimate was over."""
        end = self._ends.pop(job, None)
        if end is None:
            return False
        del self._expected[bisect_left(self._expected, (end, job))]
        self.free += self._processors[job]
        return True

    def end_expected(self, now: float) -> bool:
        """Take back what jobs hold whose estimated end is now; False if there are none."""
        expected = self._expected
        if not expected or expected[0][0] > now:
            return False
        while expected and expected[0][0] <= now:
            job = expected.pop(0)[1]
            del self._ends[job]
            self.free += self._processors[job]
        return True

    def expected(self) -> Sequence[tuple[float, int]]:
        """Return the holders as (estimated end, job), ascending."""
        return self._expected

    def shadow(self, processors: int) -> tuple[float, int]:
        """Return when so many will be free, and how many more are free then: all that end then count.

        Only for what the pool can hold at all, and does not hold free now.
        """
        free, at = self.free, -inf
        for end, job in self._expected:
            if free >= processors and end > at:
                break
            at = end
            free += self._processors[job]
        return at, free - processors


class FirstComeFirstServed:
    """First come, first served, without backfill."""

    def __init__(self, workload: Workload, processors: int, ties: Ties) -> None:
        self._made_of = workload, processors, ties
        self._processors = workload.processors
        self._holders = PoolHolders(workload, processors)
        self._queue: deque[int] = deque()

    def fork(self) -> "FirstComeFirstServed":
        """Return an independent copy."""
        twin = FirstComeFirstServed(*self._made_of)
        twin._holders, twin._queue = self._holders.copy(), self._queue.copy()
        return twin

    def late_jobs(self) -> None:
        """Return None: no job overtakes."""

    def arrived(self, _now: float, job: int) -> None:
        """Put the job behind all others."""
        self._queue.append(job)

    def ended(self, _now: float, job: int) -> None:
        """Take its processors back."""
        self._holders.end(job)

    def expected_ends(self, now: float) -> None:
        """Take back what is over by the estimates."""
        self._holders.end_expected(now)

    def starts(self, now: float) -> Sequence[int]:
        """Return the first jobs, as long as they fit."""
        started = []
        queue, holders = self._queue, self._holders
        while queue and self._processors[queue[0]] <= holders.free:
            job = queue.popleft()
            holders.start(now, job)
            started.append(job)
        return started

    def wakes(self) -> float:
        """Return inf: only an end or an arrival can start a job."""
        return inf


Line = deque[int]
QueueKind = tuple[int, float]
"""Processors and estimate: what jobs of a line have in common."""


class EasyBackfill:
    """EASY backfill with one queue for each kind of job; `_head` is the oldest job of all, and blocked."""

    def __init__(self, workload: Workload, processors: int, ties: Ties) -> None:
        self._made_of = workload, processors, ties
        self._processors, self._estimates = workload.processors, workload.estimates
        self._holders = PoolHolders(workload, processors)
        self._lines: dict[QueueKind, Line] = {}
        self._kinds: list[QueueKind] = []  # of the lines, ascending
        self._new: list[int] = []
        self._head: int | None = None
        self._shadow, self._extra = inf, 0
        self._is_promised = (
            False  # shadow and extra are those of the head; they are worked out when asked for
        )
        self._released = False

    def fork(self) -> "EasyBackfill":
        """Return an independent copy."""
        twin = EasyBackfill(*self._made_of)
        twin._head, twin._shadow, twin._extra = self._head, self._shadow, self._extra
        twin._released, twin._new, twin._is_promised = self._released, self._new.copy(), self._is_promised
        twin._holders = self._holders.copy()
        twin._lines = {kind: line.copy() for kind, line in self._lines.items()}
        twin._kinds = self._kinds.copy()
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
            if self._head is not None and self._holders.free:
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

    def late_jobs(self) -> LateJobs:
        """Return what finds the starts of jobs that come late, of the passes it is told of."""
        return LateJobs(self._made_of[0], self._room_left)

    def _room_left(self) -> RoomLeft:
        free = self._holders.free
        if self._head is None:
            return RoomLeft(free, free, inf)
        if free and not self._is_promised:
            self._promise(self._head)
        return RoomLeft(free, self._extra, self._shadow)

    def _try_new(self, now: float, job: int, started: list[int]) -> None:
        processors, estimate = self._processors[job], self._estimates[job]
        if self._head is not None and not self._is_promised:
            self._promise(self._head)
        if processors <= self._holders.free:
            if self._head is None or now + estimate <= self._shadow:
                return self._start(now, job, started)
            if processors <= self._extra:
                self._extra -= processors
                return self._start(now, job, started)
        kind = processors, estimate
        line = self._lines.get(kind)
        if line is None:
            self._lines[kind] = deque((job,))
            insort(self._kinds, kind)
        else:
            line.append(job)
        if self._head is None:
            self._promise(job)
        return None

    def _start(self, now: float, job: int, started: list[int]) -> None:
        self._holders.start(now, job)
        started.append(job)

    def _promise(self, job: int) -> None:
        self._head, self._is_promised = job, True
        self._shadow, self._extra = self._holders.shadow(self._processors[job])

    def _start_heads(self, now: float, started: list[int]) -> None:
        head, holders, lines, processors = self._head, self._holders, self._lines, self._processors
        while head is not None and processors[head] <= holders.free:
            holders.start(now, head)
            started.append(head)
            self._leave((processors[head], self._estimates[head]))
            head = min([line[0] for line in lines.values()]) if lines else None
        self._head, self._is_promised = head, False

    def _leave(self, kind: QueueKind) -> bool:
        """Take the oldest of a line out of the queue; return whether it was the last."""
        line = self._lines[kind]
        line.popleft()
        if not line:
            del self._lines[kind]
            del self._kinds[bisect_left(self._kinds, kind)]
        return not line

    def _overtake(self, now: float, started: list[int]) -> None:
        """Start every job behind the head that keeps its reservation.

        The oldest that may start, again and again: what is free, and extra, only shrink, so who was passed
        over once is out for this pass.
        """
        holders, lines = self._holders, self._lines
        free = holders.free
        small = self._kinds[: bisect_right(self._kinds, (free, inf))]
        if not small or self._head is None:
            return
        self._promise(self._head)
        shadow, extra = self._shadow, self._extra
        oldest = [
            (lines[kind][0], kind) for kind in small if kind[0] <= extra or now + kind[1] <= shadow
        ]  # of each kind
        heapify(oldest)
        while oldest:
            job, kind = oldest[0]
            processors, estimate = kind
            if processors <= free and (now + estimate <= shadow or processors <= extra):
                if now + estimate > shadow:
                    extra -= processors
                free -= processors
                holders.start(now, job)
                started.append(job)
                if self._leave(kind):
                    heappop(oldest)
                else:
                    heapreplace(oldest, (lines[kind][0], kind))
            else:
                heappop(oldest)
        self._extra = extra


class ForkablePolicyMaker(Protocol):
    """A factory of a policy that can be run ahead."""

    def __call__(self, workload: Workload, processors: int, ties: Ties, /) -> ForkablePolicy:
        """Return the policy before the first job; `processors` is the size of the pool."""


POOL_POLICIES: Mapping[str, ForkablePolicyMaker] = MappingProxyType(
    {
        "fcfs": FirstComeFirstServed,
        "easy": EasyBackfill,
        "conservative": Conservative,
        "conservative-replan": ConservativeReplan,
    }
)
