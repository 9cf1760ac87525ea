"""A node as a policy sees it, the times for which it is reserved, and what passes on the same nodes keep."""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from math import inf
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from headnode.core.model.job import NOTHING_HELD, HeldAmounts, JobRequest, UnitType, gpus_with
from headnode.core.model.node import NodeFacts, NodeState
from headnode.core.model.quantities import JobId, Seconds, format_time_limit


class ReservedTime(msgspec.Struct, frozen=True, gc=False):
    """A time for which a node is reserved; jobs without access run there only before or after it."""

    name: str  # of the reservation, in lower case
    begins: float  # seconds from now; zero or less once it has begun
    ends: float  # seconds from now
    limits: bool = True  # a job that names it starts only if surely over by its end
    says: str = ""  # its users and times, as a text for users


class NodeView(msgspec.Struct, frozen=True, gc=False):
    """A node and its free resources."""

    facts: NodeFacts
    free: int  # processors no job holds
    jobs: int = 0  # how many jobs hold some of it
    exclusive_to: JobId | None = None  # the job that owns all of it
    closed: str = ""  # why it accepts no new jobs: paused, unreachable, pending; empty: it does
    memory_held: int = 0  # MB of its memory that jobs hold
    open_for: float = inf  # seconds from now until it closes; what may run longer does not start there
    reserved: tuple[ReservedTime, ...] = ()  # in the order in which they begin
    disk_held: int = 0  # MB
    swap_held: int = 0  # MB
    gpus_held: int = 0
    switches: tuple[str, ...] = ()  # above it: its leaf switch first; empty: none is known


def memory_of(request: JobRequest) -> int:
    """Return how much memory a job holds with each processor, in MB; sole owners of nodes need not count."""
    return 0 if request.exclusive or request.unit is UnitType.NODE else request.memory


def gpus_counted(request: JobRequest) -> int:
    """Return how many processors come with each GPU of a job; 0 where it has none, or owns its nodes."""
    return 0 if request.exclusive else request.processors_per_gpu


def holds_amounts(request: JobRequest) -> bool:
    """Tell whether a job holds anything of nodes beside processors."""
    return bool(memory_of(request) or gpus_counted(request) or held_of(request))


def held_with(node: NodeView, request: JobRequest, processors: int, *, first: bool) -> NodeView:
    """Return a node of which a job holds so many processors more, and what goes with them.

    `first`: it comes to the node, or with a negative number leaves it; else it has others there.  Processors,
    jobs and owners stay as they are.
    """
    if not holds_amounts(request):
        return node
    memory, held, each = memory_of(request), held_of(request), gpus_counted(request)
    sign = first if processors > 0 else -first
    gpus = gpus_with(abs(processors), each)
    return replace(
        node,
        memory_held=node.memory_held + processors * memory + sign * held.memory,
        disk_held=node.disk_held + sign * held.disk,
        swap_held=node.swap_held + sign * held.swap,
        gpus_held=node.gpus_held + (gpus if processors > 0 else -gpus),
    )


def held_of(request: JobRequest) -> HeldAmounts:
    """Return what a job holds of each node; sole owners of nodes need not count."""
    return NOTHING_HELD if request.exclusive or request.unit is UnitType.NODE else request.held


def is_alike(one: NodeView, other: NodeView) -> bool:
    """Return whether both are the same for a `NodeTable`, but for the times at which they close."""
    same = one.facts == other.facts and one.closed == other.closed
    return same and one.switches == other.switches


def looks_of(facts: NodeFacts) -> tuple[object, ...]:
    """Return all properties of a node by which requests can select it, except its name."""
    return (
        facts.processors,
        facts.sockets,
        facts.memory,
        facts.speed,
        facts.groups,
        facts.features,
        facts.architecture,
        facts.system,
        facts.disk,
        facts.swap,
        facts.only_user,
        facts.gpus,
        facts.cores_per_socket,
        facts.threads_per_core,
    )


def closed_as(node: NodeView, reopened: bool) -> str:
    """Return why a node accepts no new jobs; with `reopened` only removed nodes do not."""
    if reopened and node.closed != NodeState.REMOVED:
        return ""
    return node.closed


class ReservationAccess(NamedTuple):
    """The access of a request to reserved nodes."""

    reservation: str  # the only one it runs in; empty: on any nodes open to it
    open_reservations: tuple[str, ...]
    lasts: float  # seconds


def in_the_way(times: Iterable[ReservedTime], access: ReservationAccess, begin: float) -> ReservedTime | None:
    """Return the first time of others into which the job would run that begins so long from now (seconds)."""
    end = begin + access.lasts
    for each in times:
        meets = each.begins < end or each.begins <= begin
        if meets and begin < each.ends and each.name not in access.open_reservations:
            return each
    return None


def own_time(times: Iterable[ReservedTime], access: ReservationAccess) -> ReservedTime | None:
    """Return the time of the reservation that the job names, if it may use it."""
    if access.reservation not in access.open_reservations:
        return None
    return next((each for each in times if each.name == access.reservation), None)


def takes(times: Sequence[ReservedTime], access: ReservationAccess, begin: float) -> bool:
    """Return whether a node reserved for these times takes the job so long from now (seconds)."""
    if access.reservation:
        own = own_time(times, access)
        if own is None or not own.begins <= begin < own.ends:
            return False
        if own.limits and begin + access.lasts > own.ends:
            return False
    return in_the_way(times, access, begin) is None


def ever_takes(times: Sequence[ReservedTime], access: ReservationAccess) -> bool:
    """Return whether the node would take the job at some time."""
    if not access.reservation:
        return True
    own = own_time(times, access)
    return own is not None and (not own.limits or access.lasts <= own.ends - max(own.begins, 0.0))


def reserved_objection(times: Sequence[ReservedTime], access: ReservationAccess) -> str:
    """Return why a node reserved for these times takes no such job now; nothing if it does."""
    if takes(times, access, 0.0):
        return ""
    meets = in_the_way(times, access, 0.0)
    if meets is not None:
        return f"reserved {meets.says}" + ("" if meets.begins <= 0 else f"; {_may_run(access)}")
    named = next((each for each in times if each.name == access.reservation), None)
    if named is None:
        return f"not in reservation {access.reservation!r}"
    if access.reservation not in access.open_reservations:
        return f"in reservation {named.name!r}, which the job's owner may not use"
    if access.lasts > named.ends - max(named.begins, 0.0):
        return f"reserved {named.says}; {_may_run(access)}, and must end with the reservation"
    return f"reserved {named.says}, and the reservation has not begun"


def _may_run(access: ReservationAccess) -> str:
    return (
        "the job has no run time limit"
        if access.lasts == inf
        else f"the job may run {typed_span(access.lasts)}"
    )


def typed_span(seconds: float) -> str:
    """Return a span as run times are typed."""
    return format_time_limit(Seconds(seconds))


def instants_of(times: Iterable[Sequence[ReservedTime]]) -> set[float]:
    """Return when any of these times begins or ends that is still to come, in seconds from now."""
    edges = {edge for each in set(map(tuple, times)) for time in each for edge in (time.begins, time.ends)}
    return {edge for edge in edges if 0 < edge < inf}


class NodeTimes:
    """When nodes close and are reserved: which of them a job may use depends on how long it runs.

    `edges` are when reservations begin and end, `closings` when nodes close: seconds from now, ascending.
    `distinct` are the different times for which nodes are reserved, `of` has the place there of each node's.
    """

    def __init__(self, nodes: Collection[NodeView], *, at_any_time: bool) -> None:
        self.open_for = [inf if at_any_time else node.open_for for node in nodes]
        self.closings = sorted({left for left in self.open_for if left < inf})
        self.reserved = [node.reserved for node in nodes]
        known: dict[tuple[ReservedTime, ...], int] = {}
        self.of = [known.setdefault(times, len(known)) for times in self.reserved]
        self.distinct = list(known)
        self.edges = sorted(instants_of(self.distinct))
        self._edges_later: dict[float, float] = {}
        self._closings_later: dict[float, float] = {}

    def closing_after(self, run_time: float) -> float:
        """Return the longest time that runs into the same closings, so that it is one for many run times."""
        return _next_of(self.closings, run_time)

    def meeting_alike(self, run_time: float) -> float:
        """Return the longest time that meets the same reservations, if it begins now."""
        return _next_of(self.edges, run_time)

    def follow(self, earlier: "NodeTimes") -> bool:
        """Return whether these are the times of an earlier instant as seen now, and none has come since."""
        if self.of != earlier.of or len(self.distinct) != len(earlier.distinct):
            return False
        edges, closings = {0.0: 0.0, inf: inf}, {0.0: 0.0, inf: inf}
        known = zip(self.open_for, earlier.open_for, strict=True)
        same = all(closings.setdefault(before, left) == left for left, before in set(known))
        for now, before in zip(self.distinct, earlier.distinct, strict=True):
            same = same and [(each.name, each.limits) for each in now] == [
                (each.name, each.limits) for each in before
            ]
            for one, other in zip(now, before, strict=False):
                for left, was in ((one.begins, other.begins), (one.ends, other.ends)):
                    same = same and edges.setdefault(max(was, 0.0), max(left, 0.0)) == max(left, 0.0)
        self._edges_later, self._closings_later = edges, closings
        return same and _is_rising(edges) and _is_rising(closings)

    def edge_later(self, edge: float) -> float:
        """Return where an edge of the times that these follow is now."""
        return self._edges_later[edge]

    def closing_later(self, closing: float) -> float:
        """Return where a closing of the times that these follow is now."""
        return self._closings_later[closing]

    def are_alike(self, run_time: float, earlier: "NodeTimes") -> bool:
        """Return whether a job that runs so long meets the same as at the instant that these follow."""
        edges = bisect_left(self.edges, run_time) == bisect_left(earlier.edges, run_time)
        return edges and bisect_left(self.closings, run_time) == bisect_left(earlier.closings, run_time)


def _next_of(instants: Sequence[float], run_time: float) -> float:
    place = bisect_left(instants, run_time)
    return instants[place] if place < len(instants) else inf


def _is_rising(later: Mapping[float, float]) -> bool:
    """Return whether instants come in the same order later, none of them with the one before."""
    return all(one < other for one, other in pairwise(later[each] for each in sorted(later)))


Cached = TypeVar("Cached")


class PassCache:
    """Results of passes on the same nodes: one object for each class.

    It only saves work: a pass with an empty cache makes the same plan.
    """

    def __init__(self) -> None:
        self._by_class: dict[type[object], Any] = {}

    def of(self, cached: type[Cached]) -> Cached:
        """Return the object of this class; it is made, without arguments, when first asked for."""
        known: Cached | None = self._by_class.get(cached)
        if known is None:
            known = self._by_class[cached] = cached()
        return known

    def take_over(self, before: "PassCache", cached: type[object]) -> None:
        """Have the object of this class of another cache."""
        self._by_class[cached] = before.of(cached)
