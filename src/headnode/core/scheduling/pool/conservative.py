"""Conservative backfill over a pool of equal processors.

Conservative: when a job ends before its estimate, what it gives back is offered to the waiting jobs in
order of arrival: each takes the earliest place it can have without touching another.  One round; places
that become free by it are found in the next.

Conservative with replanning: jobs are placed in order of arrival, each into the earliest place that those
before it leave.  So one job's luck may be another's delay: a reservation may move later.

As long as nothing ends early, placing anew gives the same plan.  So it is kept, and a new job is placed
behind it.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence
from math import inf

from headnode.core.model.workload import Workload
from headnode.core.scheduling.pool.replay import Ties
from headnode.core.scheduling.profile import Profile

ReservationKind = tuple[int, float]
"""Processors and estimate: equal jobs fit in the same places."""
_MANY_MOVES = 8  # a part of the reservations; more are sorted faster than moved


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
        self._due: list[tuple[float, int]] = []  # the same as (start, job), ascending
        self._ends: dict[int, float] = {}  # running job: its estimated end
        self._offer = self._moved = False
        self._risen = -inf  # until when more has become free since the last round

    def fork(self) -> "Conservative":
        """Return an independent copy."""
        twin = type(self)(*self._made_of)
        twin._offer, twin._moved, twin._risen = self._offer, self._moved, self._risen
        twin._profile, twin._reserved = self._profile.copy(), self._reserved.copy()
        twin._due, twin._ends = self._due.copy(), self._ends.copy()
        return twin

    def late_jobs(self) -> None:
        """Return None: a job has its reservation when it comes."""

    def arrived(self, now: float, job: int) -> None:
        """Reserve the earliest slot for the job, after waiting jobs were offered better slots."""
        self._offer_places(now)
        start = self._profile.first_fit(self._processors[job], self._estimates[job], now)
        self._reserve(job, start)
        insort(self._due, (start, job))

    def ended(self, now: float, job: int) -> None:
        """Give back what the job does not use."""
        end = self._ends.pop(job)
        if end > now:
            self._profile.give(now, end, self._processors[job])
            self._risen = max(self._risen, end)
        if end > now or (self._every_end and self._moved):
            self._offer = True

    def expected_ends(self, _now: float) -> None:
        """Nothing to do: the profile has them from the start."""

    def starts(self, now: float) -> Sequence[int]:
        """Return the jobs whose reservations are due."""
        self._offer_places(now)
        started = []
        while self._due and self._due[0][0] <= now:
            start, job = self._due.pop(0)
            del self._reserved[job]
            self._ends[job] = start + self._estimates[job]
            started.append(job)
        return started

    def wakes(self) -> float:
        """Return when the next reservation is due."""
        return self._due[0][0] if self._due else inf

    def _reserve(self, job: int, start: float) -> None:
        self._profile.take(start, start + self._estimates[job], self._processors[job])
        self._reserved[job] = start

    def _offer_places(self, now: float) -> None:
        self._profile.forget(now)
        if self._offer:
            self._offer = self._moved = False
            self._replace(now)

    def _replace(self, now: float) -> None:
        """Move the reservation of every waiting job to the earliest slot, in order of arrival.

        An earlier slot has to touch what has become free since the last round: a job larger than that is
        skipped.  If a job finds no earlier slot, an equal job behind it is skipped, as long as no job between
        them has moved.
        """
        sizes, estimates, profile = self._processors, self._estimates, self._profile
        reserved, move_up, risen = self._reserved, profile.move_up, self._risen
        left: float = -inf
        largest: float = profile.most(now, risen)
        in_vain: dict[ReservationKind, float] = {}  # equal jobs have no place before this instant
        moves: list[tuple[int, float]] = []
        for job, start in reserved.items():
            processors = sizes[job]
            if processors > largest:
                continue
            kind = processors, estimate = processors, estimates[job]
            after = in_vain.get(kind, now)
            if after == start:
                continue
            earlier = move_up(processors, estimate, start, after if after < start else now, risen)
            if earlier < start:
                in_vain.clear()
                moves.append((job, start))
                reserved[job] = earlier
                if start + estimate > left:
                    left = start + estimate
                    risen = max(risen, left)
                largest = inf
            else:
                in_vain[kind] = start
                if largest == inf:
                    largest = profile.most(now, risen)
        self._risen, self._moved = left, bool(moves)  # what moves left is for the next round, too
        self._put_in_order(moves)

    def _put_in_order(self, moves: Sequence[tuple[int, float]]) -> None:
        """Sort the reservations again after these jobs have moved from their starts."""
        due, reserved = self._due, self._reserved
        if len(moves) * _MANY_MOVES > len(reserved):
            self._due = sorted(zip(reserved.values(), reserved, strict=True))
            return
        for job, start in moves:
            del due[bisect_left(due, (start, job))]
            insort(due, (reserved[job], job))


class ConservativeReplan(Conservative):
    """Conservative backfill that plans all reservations anew when a job ends early."""

    def _replace(self, now: float) -> None:
        held = sorted((end, self._processors[job]) for job, end in self._ends.items())
        free = self._size - sum(processors for _, processors in held)
        self._profile = Profile.of_holders(now, free, held)
        placed: dict[
            ReservationKind, float
        ] = {}  # where an equal job was placed: there is no place before it
        for job in self._reserved:
            kind = processors, estimate = self._processors[job], self._estimates[job]
            placed[kind] = self._profile.first_fit(processors, estimate, placed.get(kind, now))
            self._reserve(job, placed[kind])
        self._due = sorted(zip(self._reserved.values(), self._reserved, strict=True))
