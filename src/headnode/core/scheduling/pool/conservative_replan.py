"""Conservative backfill without memory: whenever a job ends early, the whole queue is placed anew.

Jobs are placed in order of arrival, each into the earliest place that those before it leave.  So one job's
luck may be another's delay: a reservation may move later.

As long as nothing ends early, placing anew gives the same plan.  So it is kept, and a new job is placed
behind it.
"""

from headnode.core.scheduling.pool.conservative import Conservative, Kind
from headnode.core.scheduling.profile import Profile


class ConservativeReplan(Conservative):
    """Differs in what an early end does to those who wait."""

    def _replace(self, now: float) -> None:
        held = sorted((end, self._processors[job]) for job, end in self._ends.items())
        free = self._size - sum(processors for _, processors in held)
        self._profile = Profile.of_holders(now, free, held)
        self._due.clear()
        placed: dict[Kind, float] = {}  # where an equal job was placed: there is no place before it
        for job in self._reserved:
            kind = processors, estimate = self._processors[job], self._estimates[job]
            placed[kind] = self._profile.first_fit(processors, estimate, placed.get(kind, now))
            self._reserve(job, placed[kind])
