"""Jobs without a run time limit, which must leave room for the first blocked job."""

from headnode.core.model.quantities import NEVER, Instant
from headnode.core.scheduling.candidates import Candidate, candidate_options, resolved_at_some_time
from headnode.core.scheduling.free_resources import FreeResources, Placement
from headnode.core.scheduling.node_table import NodeTable
from headnode.core.scheduling.placement import at_minimum, find_placement
from headnode.core.scheduling.shadow_reservation import release_of
from headnode.core.scheduling.view import View


class UnlimitedJobs:
    """A check that jobs without a run time limit leave room for the first blocked job (`head`)."""

    def __init__(self, view: View, node_table: NodeTable) -> None:
        self.head: Candidate | None = None
        self._view, self._node_table = view, node_table
        licences = {feature: total for feature, (total, _) in view.licences.items()}
        self.empty = FreeResources.empty(node_table, licences)
        self._last = self.empty.copy()

    def can_run(self, candidate: Candidate) -> bool:
        """Return whether the candidate would fit on the open nodes if nothing else ran there."""
        return self._fits(candidate, self.empty)

    def _fits(self, candidate: Candidate, resources: FreeResources) -> bool:
        under = candidate_options(candidate, self._view.now, self._node_table)
        return any(
            find_placement(at_minimum(resolved_at_some_time(each.need, self._node_table)), resources)
            is not None
            for each in under
        )

    def wait(self, candidate: Candidate) -> None:
        """Set the job as the head if there is none, and count running jobs without a limit behind it."""
        if self.head is not None or not self.can_run(candidate):
            return
        self.head = candidate
        for job in self._view.running:
            if job.end == NEVER and job.turn > candidate.turn:
                self._last.put(release_of(job, Instant(self._view.now), self._node_table).piece)

    def allows(self, candidate: Candidate, placement: Placement) -> bool:
        """Return whether the candidate leaves the job its place, and if so count what it takes.

        A job that would do with several requests has its place where it fits under one of them.
        """
        if self.head is None or candidate.end < NEVER:
            return True
        then = self._last.copy()
        then.put(candidate.need.piece(placement))
        if not self._fits(self.head, then):
            return False
        self._last = then
        return True
