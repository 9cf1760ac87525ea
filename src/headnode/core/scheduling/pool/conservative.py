"""Conservative backfill over a pool: every job has a reservation, made on arrival, that never moves later.

When a job ends before its estimate, what it gives back is offered to the waiting jobs in order of arrival:
each takes the earliest place it can have without touching anybody else's.
"""

from collections.abc import Sequence
from heapq import heappop, heappush

from math import inf

from headnode.core.model.workload import Workload
from headnode.core.scheduling.profile import Profile


class Conservative:
    """The profile holds running jobs until their estimated end, and every reservation."""

    def __init__(self, workload: Workload, processors: int) -> None:
        self._processors, self._estimates = workload.processors, workload.estimates
        self._profile = Profile(processors)
        self._reserved: dict[int, float] = {}  # waiting job: start; in order of arrival
        self._due: list[tuple[float, int]] = []  # heap of (start, job); stale ones are skipped
        self._ends: dict[int, float] = {}  # running job: estimated end
        self._freed = False
        self._new: list[int] = []

    def arrived(self, now: float, job: int) -> None:
        """Give the job the earliest place."""
        if self._freed:
            self._move_up(now)
        self._profile.forget(now)
        self._reserve(job, self._profile.first_fit(self._processors[job], self._estimates[job], now))

    def ended(self, now: float, job: int) -> None:
        """Give back what the job does not use."""
        end = self._ends.pop(job)
        if end > now:
            self._profile.give(now, end, self._processors[job])
        self._freed = True

    def expected_ends(self, now: float) -> None:
        """Nothing to do: the profile has it so from the start."""

    def starts(self, now: float) -> Sequence[int]:
        """Return the jobs whose reservations are due."""
        if self._freed:
            self._move_up(now)
        started = []
        due, reserved = self._due, self._reserved
        while due and due[0][0] <= now:
            start, job = heappop(due)
            if reserved.get(job) == start:
                del reserved[job]
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

    def _move_up(self, now: float) -> None:
        self._freed = False
        profile = self._profile
        profile.forget(now)
        for job, start in self._reserved.items():
            if start <= now: continue
            processors, estimate = self._processors[job], self._estimates[job]
            earlier = profile.first_fit(processors, estimate, now, start)
            if earlier < start:
                profile.give(start, start + estimate, processors)
                self._reserve(job, earlier)
