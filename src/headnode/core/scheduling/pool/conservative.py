"""Conservative backfill over a pool: every job has a reservation, made on arrival, that never moves later.

When a job ends before its estimate, what it gives back is offered to the waiting jobs in order of arrival:
each takes the earliest place it can have without touching anybody else's.  One round; places that become
free by it are found in the next.

Source:  Mu'alem and Feitelson, "Utilization, predictability, workloads, and user runtime estimates", 2001.
"""

from collections.abc import Sequence
from heapq import heappop, heappush
from math import inf

from headnode.core.model.workload import Workload
from headnode.core.scheduling.pool.ties import Ties
from headnode.core.scheduling.profile import Profile

Kind = tuple[int, float]
"""Processors and estimate: equal jobs fit in the same places."""


class Conservative:
    """The profile holds running jobs until their estimated ends, and every reservation.

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
        """Give the job the earliest place, after those who wait already were offered theirs."""
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
        """Let every waiting job have the earliest place, in order of arrival.

        Where one did not find an earlier place, an equal one behind it need not look either, as long as
        nobody moved in between.
        """
        profile, reserved = self._profile, self._reserved
        in_vain: dict[Kind, float] = {}  # equal jobs have no place before this instant
        for job, start in reserved.items():
            kind = processors, estimate = self._processors[job], self._estimates[job]
            after = in_vain.get(kind, now)
            earlier = profile.first_fit(processors, estimate, after if after <= start else now, start)
            if earlier < start:
                in_vain.clear()
                self._moved = True
                profile.give(start, start + estimate, processors)
                self._reserve(job, earlier)
            else:
                in_vain[kind] = start
