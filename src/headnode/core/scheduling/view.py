"""What a policy sees of the cluster at one instant.  Made by the engine, and never changed."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from enum import StrEnum
from heapq import nsmallest
from itertools import islice
from math import inf
from types import MappingProxyType

import msgspec

from headnode.core.model.job import JobRequest
from headnode.core.model.priority_factors import QueuePosition
from headnode.core.model.quantities import NEVER, Instant, JobId
from headnode.core.scheduling.node_table import KnownNodes, NodeTable
from headnode.core.scheduling.node_view import NodeView
from headnode.core.scheduling.plan import Plan, Shares


class Bias(StrEnum):
    """The preference for jobs of higher priority when processors beyond the minimum are shared."""

    HIGH = "HighBias"
    MEDIUM = "MediumBias"
    LOW = "LowBias"
    NONE = "NoBias"


class NodeSurplus(msgspec.Struct, frozen=True, gc=False):
    """The processors of one node that a job holds and could do without.

    What is none of these runs tasks that must not be run twice.
    """

    node: str
    processors: int  # in all
    leaving: int = 0  # the job is to give up already, and nothing runs there or is being stopped
    awaited: int = 0  # it is to give up already, as soon as the tasks there end
    idle: int = 0
    stoppable: int = 0  # run tasks that may be run again, the youngest of which would be stopped first


class ShareInfo(msgspec.Struct, frozen=True, gc=False):
    """A running job in balanced mode.  Nodes that its tasks require are not in `held`."""

    job: JobId
    could_use: int = 0  # units that its tasks use, and that those that wait could, whatever is free
    waits: int = 0  # units more that its waiting tasks could use than it has idle: as much it can grow now
    held: tuple[NodeSurplus, ...] = ()  # in the order of its allocation
    rests: bool = False  # it may not grow now: filters have a say
    kept: Shares = ()  # what filters keep for its growth: in its allocation, though it does not hold it yet
    lasting: bool = False  # what it starts next runs to its end: it must not be run twice


class Balancing(msgspec.Struct, frozen=True):
    """The parameters of balanced mode.

    `due`: now processors may be taken from one job for the share of another.  For the minimum of a job that
    waits they may be taken at any time.
    """

    bias: Bias = Bias.MEDIUM
    immediate: bool = True  # tasks are stopped, and run again; else jobs give back as their tasks end
    due: bool = True
    next_due: Instant = NEVER  # when it is due again though no job comes or goes
    sharers: Mapping[JobId, ShareInfo] = MappingProxyType({})


class WaitingClass(msgspec.Struct, frozen=True, gc=False):
    """The queued jobs with the same request; of one owner and project if the policy orders the queue."""

    request: JobRequest
    turns: Sequence[QueuePosition]  # ascending
    owner: str = ""  # empty, like `project`, unless the policy orders the queue
    project: str = ""


class QueueArrival(msgspec.Struct, frozen=True, gc=False):
    """A job that will come into the queue; policies do not see it before."""

    at: Instant
    turn: QueuePosition
    request: JobRequest


class RunningJob(msgspec.Struct, frozen=True, gc=False):
    """A job that holds processors."""

    job: JobId
    turn: QueuePosition
    request: JobRequest
    end: Instant  # when its run time limit is over; NEVER without one
    allocation: tuple[tuple[str, int], ...]  # node, processors
    wants: int = 0  # units more that its waiting tasks could use at once; 0: will not grow
    owner: str = ""
    project: str = ""


class View(msgspec.Struct, frozen=True, gc=False):
    """The state of the cluster that a policy sees.

    `before` is the plan of the same policy at the pass before, if there was one: reservations that are to be
    kept are in it.  `freed` is False only if nothing has become free since that was not expected then.
    """

    now: Instant
    nodes: Mapping[str, NodeView]
    queue: Sequence[WaitingClass]
    running: Sequence[RunningJob]
    licences: Mapping[str, tuple[int, int]] = {}  # by feature, and limits by key: (in all, free)
    depth: float = inf  # how many waiting jobs may have a reservation, where the policy gives several
    before: Plan | None = None
    freed: bool = True
    ground: KnownNodes | None = None  # the node table of an earlier pass on these nodes
    balancing: Balancing | None = None  # in balanced mode: how, and what jobs could use and give
    usage: Mapping[tuple[str, str], float] = {}  # by owner and project, if the policy orders the queue
    waiting_since: Mapping[
        JobId, Instant
    ] = {}  # when queued jobs were submitted, if the policy orders the queue
    positions: Mapping[JobId, QueuePosition] | None = None  # of jobs in the order of such a policy

    def position(self, turn: QueuePosition) -> QueuePosition:
        """Return the place in this queue of a job, given the place that it has without a policy."""
        return turn if self.positions is None else self.positions.get(turn.job, turn)

    def next_switches_timeout(self) -> Instant:
        """Return when the next queued job no longer asks for few switches; NEVER where there are none."""
        if not self.node_table().switched:
            return NEVER
        every = (asked for each in self.queue for asked in (each.request, *each.request.alternatives))
        ends = (asked.switches_until for asked in every if asked.switches)
        return min((end for end in ends if end > self.now), default=NEVER)

    def node_table(self) -> NodeTable:
        """Return the nodes worked out."""
        ground = self.ground
        return (
            ground.node_table if ground is not None and ground.nodes is self.nodes else NodeTable(self.nodes)
        )


def counted_licences(request: JobRequest, view: View) -> tuple[tuple[str, int], ...]:
    """Return the licences of a request that the cluster counts, with how many there are in all.

    Limits are in the request itself.
    """
    if not (request.licences or request.alternatives):
        return ()
    requested = (each.feature for one in (request, *request.alternatives) for each in one.licences)
    return tuple((name, view.licences[name][0]) for name in sorted(set(requested)) if name in view.licences)


def with_limits(
    licences: Mapping[str, tuple[int, int]], request: JobRequest
) -> Mapping[str, tuple[int, int]]:
    """Return the licences of a view with the limits of a request that is new to it.

    A view has the limits of all its jobs: of others nothing is in use.
    """
    shares = (share for one in (request, *request.alternatives) for share in one.limits)
    fresh = {share.key: (share.limit, share.limit) for share in shares if share.key not in licences}
    return {**licences, **fresh} if fresh else licences


def reserved_before(view: View, job: JobId, request: JobRequest) -> Instant:
    """Return when the plan before has reserved a start for a job with this request; NEVER if it has not."""
    before = () if view.before is None else view.before.reservations
    kept = (each.at for each in before if each.job == job and each.request == request)
    return max(next(kept, NEVER), view.now)


def first_ahead(view: View, turn: QueuePosition, most: int) -> tuple[list[QueuePosition], int]:
    """Return the first `most` turns that queue before this one, and how many there are in all.

    Cost:  O(classes * (most + log(jobs of a class))).
    """
    count = 0
    first: list[QueuePosition] = []
    for waiting in view.queue:
        ahead = bisect_left(waiting.turns, turn)
        count += ahead
        first += waiting.turns[: min(ahead, most)]
    return sorted(first)[:most], count


def first_in_queue(view: View, most: int) -> View:
    """Return the view with no more than the first `most` jobs of its queue."""
    turns = {turn: each.request for each in view.queue for turn in islice(each.turns, most)}
    kept: dict[JobRequest, list[QueuePosition]] = {}
    for turn in nsmallest(most, turns):
        kept.setdefault(turns[turn], []).append(turn)
    queue = [WaitingClass(request=request, turns=found) for request, found in kept.items()]
    return msgspec.structs.replace(view, queue=queue)
