"""Why a job waits where many waiting jobs have reservations."""

from collections.abc import Sequence

from headnode.core.model.quantities import NEVER, Instant, JobId
from headnode.core.scheduling.candidates import (
    Candidate,
    at_lowest_limit,
    candidate_options,
    first_candidate,
    lowest,
)
from headnode.core.scheduling.free_resources import FreeResources
from headnode.core.scheduling.limit_checks import are_limited, limit_reasons
from headnode.core.scheduling.placement import at_minimum, find_placement
from headnode.core.scheduling.plan import Reason, Reservation, Wait, Why
from headnode.core.scheduling.reasons import never_with_any, shortage, with_alternatives
from headnode.core.scheduling.unlimited_jobs import UnlimitedJobs
from headnode.core.scheduling.view import View


class SlotReasons:
    """The reasons of a pass.  It is asked when the pass is over, but for `is_limited`.

    What did not fit during the pass does not fit after it.  `reservations` grows as the pass goes on.
    """

    def __init__(
        self,
        view: View,
        resources: FreeResources,
        unlimited: UnlimitedJobs,
        reservations: Sequence[Reservation],
    ) -> None:
        self._view, self._resources, self._unlimited = view, resources, unlimited
        self._reservations, self._node_table = reservations, resources.node_table
        self.head: JobId | None = None  # the first job that must wait

    def is_limited(self, candidate: Candidate) -> bool:
        """Return whether limits of its user and project keep the job from starting, under all its options."""
        if not (candidate.request.limits or candidate.request.alternatives):
            return False
        needs = [option.need for option in self._options(candidate)]
        return are_limited(needs, self._resources, self._unlimited.empty)

    def of_class(self, place: int, head: JobId | None) -> Wait:
        """Return why the jobs of the class at this place of the queue wait, which was left out."""
        return self.of(first_candidate(self._view, self._node_table, place), NEVER, head)

    def of(self, candidate: Candidate, at: Instant, head: JobId | None) -> Wait:
        """Return why the candidate waits.

        at:    when its slot begins; NEVER: it has none
        head:  the first job that waits, if it is another
        """
        under = [at_lowest_limit(each, self._view.now, self._node_table) for each in self._options(candidate)]
        if not any(map(self._unlimited.can_run, under)):
            never = never_with_any(lowest(candidate.request), self._view)
            if never:
                return Wait(never)
        if at == NEVER and self.is_limited(candidate):
            return Wait(with_alternatives(tuple(limit_reasons(each.need, self._resources)) for each in under))
        ahead = (
            () if head is None else (Reason(Why.PRIORITY, f"job {head} is ahead in the queue", str(head)),)
        )
        return Wait((*ahead, *with_alternatives(self._refused(each) for each in under)), at)

    def _options(self, candidate: Candidate) -> tuple[Candidate, ...]:
        return candidate_options(candidate, self._view.now, self._node_table)

    def _refused(self, candidate: Candidate) -> tuple[Reason, ...]:
        """Return the shortage of a candidate under one of its options, or the reservation that blocks it."""
        if find_placement(at_minimum(candidate.need), self._resources) is not None:
            return (self._in_the_way(candidate),)
        return shortage(candidate.need, candidate.asks, self._resources)

    def _in_the_way(self, candidate: Candidate) -> Reason:
        """Return the reason with the first reserved job: the candidate fits now, and only slots block it."""
        slots = [(each.at, each.job) for each in self._reservations]
        if candidate.end == NEVER and self._unlimited.head is not None:
            slots.append((NEVER, self._unlimited.head.job))
        job = min(slots)[1] if slots else self.head
        what = f"the job fits now, but could delay job {job}, which has a reservation"
        if candidate.end == NEVER:
            what += "; with a run time limit, the job could be backfilled"
        return Reason(Why.RESERVATION, what + candidate.lowered_in_words, str(job))
