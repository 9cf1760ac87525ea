"""What a policy sees: a picture of the cluster at one instant.  Made by the engine, changed by nobody."""

from collections.abc import Mapping, Sequence
from math import inf

import msgspec

from headnode.core.model.job import JobRequest
from headnode.core.model.quantities import Instant, JobId
from headnode.core.scheduling.balanced.sharers import Balancing
from headnode.core.scheduling.decision import Plan
from headnode.core.scheduling.node_view import NodeView as NodeView
from headnode.core.scheduling.terrain import Ground, Terrain
from headnode.core.scheduling.turns import Turn as Turn
from headnode.core.scheduling.turns import turn as turn


class WaitingClass(msgspec.Struct, frozen=True, gc=False):
    """The queued jobs that ask for the same."""

    request: JobRequest
    turns: Sequence[Turn]  # ascending


class RunningJob(msgspec.Struct, frozen=True, gc=False):
    """A job that holds processors."""

    job: JobId
    turn: Turn
    request: JobRequest
    end: Instant  # when its run time limit is over; NEVER without one
    allocation: tuple[tuple[str, int], ...]  # node, processors
    wants: int = 0  # units more that its waiting tasks could use at once; 0: will not grow


class View(msgspec.Struct, frozen=True, gc=False):
    """Everything a policy may know.

    `before` is the plan of the same policy at the pass before, if there was one: reservations that are to be
    kept are in it.  `freed` is False only if nothing has become free since that was not expected then.
    """

    now: Instant
    nodes: Mapping[str, NodeView]
    queue: Sequence[WaitingClass]
    running: Sequence[RunningJob]
    licences: Mapping[str, tuple[int, int]] = {}  # feature: (in all, free)
    depth: float = inf  # how many waiting jobs may have a reservation, where the policy gives several
    before: Plan | None = None
    freed: bool = True
    ground: Ground | None = None  # what somebody has worked out about these nodes before
    balancing: Balancing | None = None  # in balanced mode: how, and what jobs could use and give

    def terrain(self) -> Terrain:
        """Return the nodes worked out."""
        ground = self.ground
        return ground.terrain if ground is not None and ground.nodes is self.nodes else Terrain(self.nodes)
