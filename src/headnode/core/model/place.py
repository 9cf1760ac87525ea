"""Where a job with a choice of places may run, and when each is expected to start it."""

from enum import StrEnum
from math import inf

import msgspec

from headnode.core.model.quantities import Instant


class StartBasis(StrEnum):
    """What an expected start follows from; the value is told to people."""

    PREDICTED = "predicted from the queue here"
    NEVER = "own nodes never fit it"
    ENDLESS = "jobs before it have no time limit"
    QUEUE = "predicted from its queue"
    IDLE = "none of our tasks waits there"
    WAITS = "as long as our tasks waited there"
    UNKNOWN = "its start is not known"


class PlaceEstimate(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """When a place is expected to start a job.  `start` None: unknown, or never.

    place:    the key of a resource, or `here`
    problem:  why the job cannot go there now; empty if it can
    """

    place: str
    start: Instant | None = None
    basis: StartBasis = StartBasis.UNKNOWN
    problem: str = ""

    @property
    def usable(self) -> bool:
        """Whether the job can go there, and its start is known."""
        return not self.problem and (
            self.start is not None or self.basis in (StartBasis.NEVER, StartBasis.ENDLESS)
        )

    @property
    def at(self) -> float:
        """The expected start; infinite if there is none."""
        return inf if self.start is None else self.start


class Placement(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """The place that was chosen for a job, when, and what was known of all."""

    resource: str
    at: Instant
    estimates: tuple[PlaceEstimate, ...]
