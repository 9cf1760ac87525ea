"""A request resolved for the nodes of one pass, so that it can be placed again and again."""

from collections.abc import Mapping
from math import inf
from typing import NamedTuple

from headnode.core.model import job as model
from headnode.core.model.job import (
    NOTHING_HELD,
    CountsUnits,
    HeldAmounts,
    JobRequest,
    NodeGroupOp,
    RequestPart,
    UnitType,
)
from headnode.core.model.owner_limits import LimitShare, is_of_one_job, is_spent
from headnode.core.scheduling.free_resources import Allocation, FreeResources, Placement
from headnode.core.scheduling.node_table import NodeOrder, NodeTable
from headnode.core.scheduling.node_view import NodeTimes, NodeView, ReservationAccess
from headnode.core.scheduling.view import RunningJob

MAX_REMEMBERED = 100_000  # needs for one table


class ResolvedPart(NamedTuple):
    """The resources for one part of a job: lumps of so many units, each lump on one of these nodes."""

    lumps: tuple[tuple[int, int], ...]  # (units, how many such lumps), largest first
    apart: bool
    spread: bool
    whole: bool
    nodes: frozenset[int]
    split: frozenset[int]  # groups of equal nodes of which only some are among them
    required: frozenset[int]  # each of these has at least one lump
    units: int  # of all lumps

    @property
    def size(self) -> int:
        """How many units each lump has; 0 when they differ."""
        return self.lumps[0][0] if len(self.lumps) == 1 else 0


class TimedRate(NamedTuple):
    """So many seconds for each `size` processors."""

    seconds: int
    size: int

    def held(self, processors: int) -> int:
        """Return the seconds for so many processors."""
        return processors // self.size * self.seconds


class ResolvedRequest(NamedTuple):
    """The amounts of a request, and its nodes.  `minimum`, `maximum` and `share` count `unit`."""

    unit: UnitType
    minimum: int
    maximum: int
    exclusive: bool
    whole: bool  # takes idle nodes only, and all of each
    single: bool
    share: int  # so much of it must be on nodes the job holds alone
    required: frozenset[int]
    impossible: bool  # a required node is not there, or more are required than the maximum allows
    alternatives: tuple[NodeOrder, ...]
    fixed: Mapping[str, int]  # licences and shares of limits, whatever the size
    each: Mapping[str, int]  # the same for every so many processors
    memory: int  # MB with every processor; 0: not counted
    held: HeldAmounts  # MB of every node, whatever number of its processors
    rules: int  # needs of one number have the same alternatives; -1: these are for this need alone
    parts: tuple[ResolvedPart, ...] = ()
    ceiling: int = 0  # of what parts may need that share what the job holds, where nodes are not taken whole
    together: bool = False  # all parts are held beside each other; else they share what the job holds
    access: ReservationAccess | None = (
        None  # where nodes are reserved; `alternatives` are then those of a start now
    )
    processors_per_gpu: int = 0  # where `unit` is GPU
    limits: tuple[LimitShare, ...] = ()  # those in `fixed`, `each` and `timed` that are no licences
    timed: Mapping[str, TimedRate] = {}  # limits of which it takes its run time limit with each processor
    anywhere: tuple[NodeOrder, ...] = ()  # and these the nodes it may use at some time
    near: bool = False  # of several nodes those under few switches are taken
    switches: int = 0  # it takes nodes under at most so many leaf switches; 0: under any number
    timeout: float = inf  # for so many seconds from now; then any number will do
    contiguous: bool = False  # it takes nodes beside each other

    @property
    def counted(self) -> bool:
        """Whether it only matters how much there is of equal nodes, not on which of them it is."""
        if self.single or self.share or self.required or self.counts_amounts or self.is_topological:
            return False
        return all(self.whole or not (part.apart or part.whole or part.size != 1) for part in self.parts)

    @property
    def is_topological(self) -> bool:
        """Whether it matters which nodes it has together: under few switches, or contiguous."""
        return self.switches > 0 or self.contiguous

    @property
    def counts_amounts(self) -> bool:
        """Whether it takes anything of nodes beside processors."""
        return bool(self.memory or self.processors_per_gpu or self.held)

    @property
    def takes(self) -> tuple[int, int, int, int]:
        """Which amounts of nodes it takes, zero if not: memory, disk and swap, and GPUs."""
        held = self.held
        return self.memory or held.memory, held.disk, held.swap, self.processors_per_gpu

    @property
    def candidates(self) -> tuple[NodeOrder, ...]:
        """The nodes that it may use, now or later."""
        return self.alternatives if self.access is None else self.anywhere

    def licences(self, fit: Placement) -> dict[str, int]:
        """Return the licences and shares of limits that a job of this need holds with these processors."""
        if not self.fixed and not self.each and not self.timed:
            return {}
        size = sum([processors for _, processors in fit])
        held = _held_licences(self.fixed, self.each, size)
        return held | {key: rate.held(size) for key, rate in self.timed.items()} if self.timed else held

    def piece(self, fit: Placement) -> Allocation:
        """Return what a job of this need holds with these processors; sole owners count nothing beside."""
        licences = self.licences(fit)
        if self.limits:  # of limits for one job nothing is held: others have them too
            licences = {key: amount for key, amount in licences.items() if not is_of_one_job(key)}
        if self.whole:
            return Allocation(fit, self.exclusive, licences)
        return Allocation(fit, self.exclusive, licences, self.memory, self.held, self.processors_per_gpu)

    def spent(self, fit: Placement) -> Allocation:
        """Return what a job of this need, which held these processors, does not give back when it ends."""
        return Allocation((), False, {key: each for key, each in self.licences(fit).items() if is_spent(key)})

    def spends_with(self, other: "ResolvedRequest") -> bool:
        """Return whether both use the processor-minutes or GPU-minutes of one limit."""
        mine = {each.key for each in self.limits if is_spent(each.key)}
        return bool(mine) and any(each.key in mine for each in other.limits)


class ResolvedCache:
    """Cached resolved requests and parts, and whether requests fit on idle nodes with all licences free."""

    def __init__(self) -> None:
        self.needs: dict[JobRequest, ResolvedRequest] = {}
        self.parts: dict[RequestPart, ResolvedPart] = {}
        self.runs: dict[tuple[JobRequest, tuple[tuple[str, int], ...]], bool] = {}
        self.earlier: tuple[NodeTimes, dict[JobRequest, ResolvedRequest]] | None = None

    def follow(self, earlier: "ResolvedCache", times: NodeTimes) -> None:
        """Go on from the needs of a table at earlier times, which those of this one follow."""
        self.earlier = times, earlier.needs

    def recalled(self, request: JobRequest, times: NodeTimes) -> ResolvedRequest | None:
        """Return what a request needed at earlier times, if nothing that its job meets has changed."""
        if self.earlier is None:
            return None
        before, needs = self.earlier
        known = needs.get(request)
        return known if known is not None and times.are_alike(request.run_time, before) else None

    def clear(self) -> None:
        """Forget everything."""
        self.needs.clear()
        self.parts.clear()
        self.runs.clear()


def resolve(request: JobRequest, node_table: NodeTable) -> ResolvedRequest:
    """Work a request out; what was worked out for these nodes before is remembered."""
    cache = node_table.cache.of(ResolvedCache)
    known = cache.needs.get(request)
    if known is None:
        if len(cache.needs) >= MAX_REMEMBERED:
            cache.clear()
        known = cache.recalled(request, node_table.times) or _resolve_anew(request, node_table)
        cache.needs[request] = known
    return known


def at_other_times(node_table: NodeTable, nodes: Mapping[str, NodeView]) -> NodeTable:
    """Return the node table of the same nodes at other times, with the needs that are the same then."""
    table = node_table.at_other_times(nodes)
    if table.follows:
        table.cache.of(ResolvedCache).follow(node_table.cache.of(ResolvedCache), node_table.times)
    return table


def resolved_before(node_table: NodeTable) -> Mapping[JobRequest, ResolvedRequest]:
    """Return the needs that are remembered of these nodes: what `resolve` returns at once."""
    return node_table.cache.of(ResolvedCache).needs


def _resolve_anew(request: JobRequest, node_table: NodeTable) -> ResolvedRequest:
    least = max(1, request.minimum, request.node_share)
    most = max(least, request.maximum)
    whole = request.exclusive or request.unit is UnitType.NODE
    required = {name.casefold() for name in request.required_nodes}
    parts = tuple(_resolve_part(part, node_table) for part in request.parts)
    fixed, each = _requested_licences(request)
    whatever = (share for share in request.limits if share.seconds and share.amount is not None)
    fixed |= {share.key: share.held(0) for share in whatever}
    access = node_table.access(request)
    return ResolvedRequest(
        unit=request.unit,
        minimum=most if request.start_at_maximum else least,
        maximum=most,
        exclusive=request.exclusive,
        whole=whole,
        single=request.single_node,
        share=0 if whole else request.node_share,
        required=frozenset(node_table.numbers[name] for name in required if name in node_table.numbers),
        impossible=len(required) > most
        or not required <= node_table.numbers.keys()
        or (request.together and any(sum(n for _, n in part.lumps) < len(part.required) for part in parts)),
        alternatives=node_table.alternatives(request),
        fixed=fixed,
        each=each,
        memory=request.memory,
        held=request.held,
        rules=node_table.rules(request),
        parts=parts,
        ceiling=most,
        together=request.together,
        access=access,
        processors_per_gpu=request.processors_per_gpu,
        limits=request.limits,
        timed=_timed_limits(request),
        anywhere=() if access is None else node_table.anywhere(request),
        near=node_table.switched and not (request.order_by or request.single_node),
        switches=request.switches if node_table.switched else 0,
        contiguous=request.contiguous and not request.single_node,
    )


def _resolve_part(part: RequestPart, node_table: NodeTable) -> ResolvedPart:
    parts = node_table.cache.of(ResolvedCache).parts
    known = parts.get(part)
    if known is None:
        known = parts[part] = _resolve_part_anew(part, node_table)
    return known


def _resolve_part_anew(part: RequestPart, node_table: NodeTable) -> ResolvedPart:
    serving = node_table.serving(part)
    required = {name.casefold() for name in part.required_nodes}
    return ResolvedPart(
        lumps=tuple(sorted(((size, times) for size, times in part.lumps if times), reverse=True)),
        apart=part.apart,
        spread=part.spread,
        whole=part.whole,
        nodes=serving.nodes,
        split=serving.split,
        required=frozenset(node_table.numbers[name] for name in required if name in node_table.numbers),
        units=part.units,
    )


def resolve_growth(running: RunningJob, node_table: NodeTable) -> ResolvedRequest | None:
    """Return what a running job may still get, or None when it wants nothing, has its maximum, or is a gang.

    The new nodes obey the rules the first ones obeyed: the same single node, the same uniform group.  A job
    that holds memory, disk or swap of its nodes, or has contiguous nodes, grows on those.  Of a limit for one
    job it has what it holds; of minutes it takes more for the whole run time limit.
    """
    request = running.request
    if request.together:
        return None
    held = [(node_table.numbers.get(name.casefold(), -1), taken) for name, taken in running.allocation]
    most = min(running.wants, request.maximum - sum(units_in(request, part, node_table) for part in held))
    mine = {number for number, _ in held}
    if most < 1 or (request.single_node and mine == {-1}):
        return None
    alternatives = node_table.alternatives(request)
    if request.node_groups and request.node_group_op is NodeGroupOp.UNIFORM:
        alternatives = tuple(order for order in alternatives if mine <= set(order))
    if request.single_node or request.held or request.contiguous:
        alternatives = tuple(tuple(sorted(mine.intersection(order))) for order in alternatives)
    alternatives = _under_own_switches(request, mine, alternatives, node_table)
    size = sum(taken for _, taken in held) if request.limits else 0
    need = resolve(request, node_table)
    return need._replace(
        minimum=1,
        maximum=most,
        single=False,
        share=0,
        required=frozenset(),
        impossible=False,
        held=NOTHING_HELD,
        alternatives=alternatives,
        fixed={key: rate.held(size) for key, rate in need.timed.items() if is_of_one_job(key)},
        rules=-1,
        parts=(),
        access=None,
        near=False,
        switches=0,
        contiguous=False,
    )


def _under_own_switches(
    request: JobRequest, mine: set[int], alternatives: tuple[NodeOrder, ...], node_table: NodeTable
) -> tuple[NodeOrder, ...]:
    if not (request.switches and node_table.switched):
        return alternatives
    from headnode.core.scheduling.switches import under_own_switches  # few clusters have switches

    return under_own_switches(node_table.tree(), request.switches, mine, alternatives)


def units_in(request: CountsUnits, part: tuple[int, int], node_table: NodeTable) -> int:
    """Return how many units a job holds with so many processors of a node (number, processors)."""
    number, processors = part
    return model.units_in(request, processors, None if number < 0 else node_table.facts[number])


def processors_for(need: ResolvedRequest, number: int, units: int, resources: FreeResources) -> int:
    """Return how many processors of a node so many units are; part of a socket counts as all of it."""
    table = resources.node_table
    return table.processors[number] if need.whole else model.processors_for(need, units, table.facts[number])


def licences_held(request: JobRequest, processors: int) -> dict[str, int]:
    """Return the licences, and the shares of limits, that a job gives back with so many processors."""
    if not request.licences and not request.limits:
        return {}
    return _held_licences(*_requested_licences(request), processors)


def licences_taken(request: JobRequest, processors: int) -> dict[str, int]:
    """Return what a start with so many processors takes: beside `licences_held`, minutes."""
    spent = ((share.key, share.held(processors)) for share in request.limits if is_spent(share.key))
    return licences_held(request, processors) | dict(spent)


def limits_held(request: JobRequest, processors: int) -> dict[str, int]:
    """Return what a job holds of the limits of its owners with so many processors, and gives back."""
    return {share.key: share.held(processors) for share in request.limits if not share.seconds}


def _requested_licences(request: JobRequest) -> tuple[dict[str, int], dict[str, int]]:
    """Return what a job needs whatever its size, and for how many processors it needs one each."""
    fixed: dict[str, int] = {}
    each: dict[str, int] = {}
    for licence in request.licences:
        if licence.amount is None:
            each[licence.feature] = 1
        else:
            fixed[licence.feature] = fixed.get(licence.feature, 0) + licence.amount
    for share in request.limits:
        if share.seconds:
            continue
        if share.amount is None:
            each[share.key] = share.size
        else:
            fixed[share.key] = share.amount
    return fixed, each


def _timed_limits(request: JobRequest) -> dict[str, TimedRate]:
    """Return the limits of which a job takes the seconds of its run time limit with each processor."""
    return {
        share.key: TimedRate(share.seconds, share.size)
        for share in request.limits
        if share.seconds and share.amount is None
    }


def _held_licences(fixed: Mapping[str, int], each: Mapping[str, int], processors: int) -> dict[str, int]:
    held = dict(fixed)
    for feature, size in each.items():
        held[feature] = held.get(feature, 0) + processors // size
    return held
