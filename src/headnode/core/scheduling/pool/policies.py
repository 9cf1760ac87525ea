"""FCFS, EASY and conservative backfill over a pool of equal processors, by the names in the parameters.

EASY: the first job that does not fit starts at the latest at the *shadow* time, the earliest at which
enough is free by the estimates; *extra* processors are free then beyond its own.  A later job starts if it
is over by the shadow time, or takes no more than the extra ones.

What makes it cheap: without an end since the last pass, nothing that was refused can start, so only new
jobs are tried.  Waiting jobs of equal size and estimate are a line of which only the oldest is tried.

Conservative: when a job ends before its estimate, what it gives back is offered to the waiting jobs in
order of arrival: each takes the earliest place it can have without touching another.  One round; places
that become free by it are found in the next.

Conservative with replanning: jobs are placed in order of arrival, each into the earliest place that those
before it leave.  So one job's luck may be another's delay: a reservation may move later.

As long as nothing ends early, placing anew gives the same plan.  So it is kept, and a new job is placed
behind it.

Source:  Mu'alem and Feitelson, "Utilization, predictability, workloads, and user runtime estimates", 2001.
"""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from math import inf
from types import MappingProxyType
from typing import Protocol

from headnode.core.model.workload import Workload
from headnode.core.scheduling.pool.replay import ForkablePolicy, Ties
from headnode.core.scheduling.profile import Profile


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
        kinds: list[QueueKind] = list(self._lines)
        while self._holders.free and (kinds := self._startable(now, kinds)):
            processors, estimate = min(kinds, key=self._oldest)
            if now + estimate > self._shadow:
                self._extra -= processors
            self._start(now, self._lines[processors, estimate][0], started)
            self._leave(processors, estimate)

    def _startable(self, now: float, kinds: list[QueueKind]) -> list[QueueKind]:
        free, shadow, extra, lines = self._holders.free, self._shadow, self._extra, self._lines
        return [
            kind
            for kind in kinds
            if kind[0] <= free and (now + kind[1] <= shadow or kind[0] <= extra) and kind in lines
        ]

    def _oldest(self, kind: QueueKind) -> int:
        return self._lines[kind][0]


ReservationKind = tuple[int, float]
"""Processors and estimate: equal jobs fit in the same places."""


class Conservative:
    """Conservative backfill; the profile holds running jobs until their estimated ends, and reservations.

    With ends first, jobs are offered better places only when some job ended early; with arrivals first,
    at every single end, for a round in which jobs moved may have left places to those before them.
    """

    def __init__(self, workload: Workload, processors: int, ties: Ties) -> None:
        self._made_of = workload, processors, ties
        self._processors, self._estimates = workload.processors, workload.estimates
        self._every_end = ties is Ties.ARRIVALS_FIRST
        self._size, self._profile = processors, Profile(processors)
        self._reserved: dict[int, float] = {}  # waiting job: its start; in order of arrival
        self._due: list[tuple[float, int]] = []  # heap of (start, job); those given up are skipped
        self._ends: dict[int, float] = {}  # running job: its estimated end
        self._offer = self._moved = False

    def fork(self) -> "Conservative":
        """Return an independent copy."""
        twin = type(self)(*self._made_of)
        twin._offer, twin._moved = self._offer, self._moved
        twin._profile, twin._reserved = self._profile.copy(), self._reserved.copy()
        twin._due, twin._ends = self._due.copy(), self._ends.copy()
        return twin

    def arrived(self, now: float, job: int) -> None:
        """Reserve the earliest slot for the job, after waiting jobs were offered better slots."""
        self._offer_places(now)
        self._reserve(job, self._profile.first_fit(self._processors[job], self._estimates[job], now))

    def ended(self, now: float, job: int) -> None:
        """Give back what the job does not use."""
        end = self._ends.pop(job)
        if end > now:
            self._profile.give(now, end, self._processors[job])
        if end > now or (self._every_end and self._moved):
            self._offer = True

    def expected_ends(self, _now: float) -> None:
        """Nothing to do: the profile has them from the start."""

    def starts(self, now: float) -> Sequence[int]:
        """Return the jobs whose reservations are due."""
        self._offer_places(now)
        started = []
        while self.wakes() <= now:
            start, job = heappop(self._due)
            del self._reserved[job]
            self._ends[job] = start + self._estimates[job]
            started.append(job)
        return started

    def wakes(self) -> float:
        """Return when the next reservation is due."""
        due, reserved = self._due, self._reserved
        while due and reserved.get(due[0][1]) != due[0][0]:
            heappop(due)
        return due[0][0] if due else inf

    def _reserve(self, job: int, start: float) -> None:
        self._profile.take(start, start + self._estimates[job], self._processors[job])
        self._reserved[job] = start
        heappush(self._due, (start, job))

    def _offer_places(self, now: float) -> None:
        self._profile.forget(now)
        if self._offer:
            self._offer = self._moved = False
            self._replace(now)

    def _replace(self, now: float) -> None:
        """Move the reservation of every waiting job to the earliest slot, in order of arrival.

        If a job finds no earlier slot, an equal job behind it is skipped, as long as no job between them
        has moved.
        """
        profile, reserved = self._profile, self._reserved
        in_vain: dict[ReservationKind, float] = {}  # equal jobs have no place before this instant
        for job, start in reserved.items():
            kind = processors, estimate = self._processors[job], self._estimates[job]
            after = in_vain.get(kind, now)
            if after == start:
                continue
            earlier = profile.first_fit(processors, estimate, after if after < start else now, start)
            if earlier < start:
                in_vain.clear()
                self._moved = True
                profile.give(start, start + estimate, processors)
                self._reserve(job, earlier)
            else:
                in_vain[kind] = start


class ConservativeReplan(Conservative):
    """Conservative backfill that plans all reservations anew when a job ends early."""

    def _replace(self, now: float) -> None:
        held = sorted((end, self._processors[job]) for job, end in self._ends.items())
        free = self._size - sum(processors for _, processors in held)
        self._profile = Profile.of_holders(now, free, held)
        self._due.clear()
        placed: dict[
            ReservationKind, float
        ] = {}  # where an equal job was placed: there is no place before it
        for job in self._reserved:
            kind = processors, estimate = self._processors[job], self._estimates[job]
            placed[kind] = self._profile.first_fit(processors, estimate, placed.get(kind, now))
            self._reserve(job, placed[kind])


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
