"""The first job of a pass that must wait, and which candidates leave it what it is promised."""

from typing import NamedTuple

from headnode.core.model.quantities import NEVER, Instant, JobId
from headnode.core.scheduling.candidates import Candidate
from headnode.core.scheduling.request import ResolvedRequest
from headnode.core.scheduling.shadow_reservation import ShadowReservation


class BlockedJob(NamedTuple):
    """The first job that must wait; its `promise` is None if no end of a job helps it while nodes are closed.

    Jobs in a reservation have a blocked job of their own, because they wait for other nodes.
    """

    candidate: Candidate
    promise: ShadowReservation | None

    @property
    def job(self) -> JobId:
        """The job itself."""
        return self.candidate.job

    @property
    def need(self) -> ResolvedRequest:
        """What it needs."""
        return self.candidate.need

    @property
    def due(self) -> Instant:
        """When its promise falls due; NEVER without one."""
        return NEVER if self.promise is None else self.promise.at


def is_over(candidate: Candidate, head: BlockedJob) -> bool:
    """Return whether a candidate is over when a head's promise falls due; never without a due time."""
    return candidate.end <= head.due < NEVER


def is_harmless(candidate: Candidate, head: BlockedJob) -> bool:
    """Return whether a head keeps its promise wherever a candidate runs.

    Of processor-minutes the candidate gives nothing back when it is over.
    """
    return is_over(candidate, head) and not candidate.need.spends_with(head.need)
