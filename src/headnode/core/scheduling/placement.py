"""Where a job fits: the one place that answers it, for starting, growing, reserving and explaining.

Exact for the minimum: if there is any way to give a job its minimum, one is found.  So a job that fits
still fits when more is free, and one that does not still does not when less is.  For gangs and for tasks
with nodes of their own see `gang_layout` and `task_cover`, which say where they have a bound.

Source: CCS, "Exclusive scheduling" and "Resource sorting"; HPC Pack job properties.
"""

from bisect import bisect_right
from collections.abc import Mapping
from itertools import chain
from math import inf

from headnode.core.model.job import NOTHING_HELD, JobRequest, UnitType
from headnode.core.model.quantities import Instant, JobId
from headnode.core.scheduling.free_resources import FreeResources, GangPlacement, Placement
from headnode.core.scheduling.node_table import NodeOrder, NodeTable
from headnode.core.scheduling.node_view import NodeView
from headnode.core.scheduling.plan import Shares, Start
from headnode.core.scheduling.request import ResolvedRequest, processors_for, resolve
from headnode.core.scheduling.task_cover import NodeOffer, cheapest_nodes, cover_tasks

_NONE: Mapping[str, tuple[int, int]] = {}


def place(
    request: JobRequest, nodes: Mapping[str, NodeView], licences: Mapping[str, tuple[int, int]] = _NONE
) -> Shares | None:
    """Return where a job of this request would run now, or None; `reasons` says why not.

    `licences` are (in all, free) by feature, as in a `View`.
    """
    node_table = NodeTable(nodes)
    resources = FreeResources.now(
        node_table, nodes, {feature: free for feature, (_, free) in licences.items()}
    )
    found = find_placement(resolve(request, node_table), resources)
    return None if found is None else shares(found, node_table)


def start_now(
    job: JobId,
    request: JobRequest,
    nodes: Mapping[str, NodeView],
    licences: Mapping[str, tuple[int, int]] = _NONE,
    *,
    now: Instant = Instant(0.0),  # noqa: B008  (a number)
) -> Start | None:
    """Return how a job would start now under the first of its options that fits, or None if none does.

    For a gang it says what is for which task.  A job that asks for few switches asks for them until a time,
    so `now` is the view's where nodes are under switches.
    """
    node_table = NodeTable(nodes)
    resources = FreeResources.now(
        node_table, nodes, {feature: free for feature, (_, free) in licences.items()}
    )
    for option in range(len(request.alternatives) + 1):
        asked = request.option(option)
        need = resolve(asked, node_table)
        if need.switches and asked.switches_until <= now:
            need = need._replace(switches=0)
        found = find_placement(need, resources)
        if found is not None:
            return Start(job, shares(found, node_table), None, option, part_shares(found, node_table))
    return None


def shares(placement: Placement, node_table: NodeTable) -> Shares:
    """Return a fit with the names of its nodes."""
    names = node_table.names
    return tuple([(names[number], processors) for number, processors in placement])


def part_shares(placement: Placement, node_table: NodeTable) -> tuple[Shares, ...]:
    """Return what each part of a gang has of a fit, in the order of its tasks; nothing for other jobs."""
    return (
        tuple(shares(part, node_table) for part in placement.parts)
        if isinstance(placement, GangPlacement)
        else ()
    )


def find_placement(need: ResolvedRequest, resources: FreeResources) -> Placement | None:
    """Return the nodes and processors to take: the most there is up to the maximum, or None.

    Of several alternatives (single nodes, uniform groups) the one that gives most wins, then the first.
    What a gang takes is `GangPlacement`.
    """
    room = licence_room(need, resources)
    if need.impossible or room < need.minimum * (need.processors_per_gpu or 1):
        return None
    if need.contiguous:
        from headnode.core.scheduling.contiguous import find_contiguous

        return find_contiguous(need, resources, find_placement, node_offers)
    if need.switches:
        from headnode.core.scheduling.placement_on_switches import find_under_switches

        return find_under_switches(need, resources, find_placement, node_offers)
    if need.together:
        return _find_gang_placement(need, resources, room)
    best: list[NodeOffer] = []
    for order in need.alternatives:
        chosen = (
            _on_one_node(need, resources, order, room)
            if need.single
            else _choose(need, resources, order, room)
        )
        if chosen and (not best or _units(chosen) > _units(best)):
            best = chosen
    if need.unit is UnitType.PROCESSOR and not need.whole:
        return tuple(best) or None
    return tuple([(number, processors_for(need, number, units, resources)) for number, units in best]) or None


def find_promised_placement(
    need: ResolvedRequest, resources: FreeResources, promised: Placement
) -> Placement | None:
    """Return what fits, or else what was promised: a search with a bound may not find it a second time."""
    found = find_placement(need, resources)
    if found is not None or not isinstance(promised, GangPlacement):
        return found
    from headnode.core.scheduling.verify_plan import allocation_violation  # for gangs

    node_table = resources.node_table
    wrong = allocation_violation(
        need, shares(promised, node_table), resources, part_shares(promised, node_table)
    )
    return None if wrong else promised


def _find_gang_placement(
    need: ResolvedRequest, resources: FreeResources, room: float
) -> GangPlacement | None:
    from headnode.core.scheduling.gang_layout import place_gang  # most clusters have no gangs

    for order in need.alternatives:
        there = node_offers(need, resources, order)
        choices = [[offer] for offer in there] if need.single else [there]
        if need.near:
            choices.insert(0, _few_switches(need, resources, there)[0])
        for some in choices:
            found = place_gang(need, resources, some, room)
            if found is not None:
                return found
    return None


def at_minimum(need: ResolvedRequest) -> ResolvedRequest:
    """Return the need of a job that will do with its minimum."""
    return need if need.maximum == need.minimum else need._replace(maximum=need.minimum)


def node_offers(need: ResolvedRequest, resources: FreeResources, order: NodeOrder) -> list[NodeOffer]:
    """Return which nodes have something for this need now, and how many units of it."""
    if need.held:
        order = tuple([number for number in order if resources.has(number, need.held)])
    if need.memory:
        return _offers_with_memory(need, resources, order)
    free, jobs, owned, size = resources.free, resources.jobs, resources.owned, resources.node_table.processors
    if need.whole:
        whole = resources.node_table.units_of(need)
        return [(n, whole[n]) for n in order if free[n] == size[n] and not jobs[n] and not owned[n]]
    if need.unit is UnitType.SOCKET:
        sockets = resources.node_table.sockets
        return [(n, units) for n in order if (units := free[n] * sockets[n] // size[n]) > 0 and not owned[n]]
    if need.unit is UnitType.GPU:
        each, gpus = need.processors_per_gpu, resources.gpus
        there = [(n, units) for n in order if (units := free[n] // each) > 0 and gpus[n] > 0 and not owned[n]]
        return [(n, units if units < gpus[n] else gpus[n]) for n, units in there]
    return [(n, units) for n in order if (units := free[n]) > 0 and not owned[n]]


def _offers_with_memory(need: ResolvedRequest, resources: FreeResources, order: NodeOrder) -> list[NodeOffer]:
    """Return what nodes have processors and memory for; a whole node is only worth what its memory allows."""
    node_table, found = resources.node_table, []
    units = node_table.units_of(need)
    for number, offered in node_offers(need._replace(memory=0, held=NOTHING_HELD), resources, order):
        size = node_table.processors[number]
        room = min(resources.free[number], (resources.memory[number] - need.held.memory) // need.memory)
        if need.unit is UnitType.GPU:
            worth = min(offered, room // need.processors_per_gpu)
        else:
            worth = min(room, 1) if need.unit is UnitType.NODE else room * units[number] // size
        if worth > 0:
            found.append((number, worth))
    return found


def licence_room(need: ResolvedRequest, resources: FreeResources) -> float:
    """Return how many processors the free licences allow; 0 if not even the fixed ones are free."""
    if not need.fixed and not need.each and not need.timed:
        return inf
    free, fixed = resources.licences, need.fixed
    if any(free.get(feature, inf) < amount for feature, amount in fixed.items()):
        return 0
    room = ((free[f] - fixed.get(f, 0) + 1) * size - 1 for f, size in need.each.items() if f in free)
    timed = (
        ((free[f] - fixed.get(f, 0)) // rate.seconds + 1) * rate.size - 1
        for f, rate in need.timed.items()
        if f in free
    )
    return max(0, min(chain(room, timed), default=inf))


def _on_one_node(
    need: ResolvedRequest, resources: FreeResources, order: NodeOrder, room: float
) -> list[NodeOffer] | None:
    """Choose the node that gives most; nodes too small for the minimum are not tried."""
    large = [offer for offer in node_offers(need, resources, order) if offer[1] >= need.minimum]
    large.sort(key=lambda offer: -min(offer[1], need.maximum))
    best: list[NodeOffer] = []
    for number, units in large:
        if min(units, need.maximum) <= _units(best):
            break
        chosen = _choose(need, resources, (number,), room)
        if chosen and _units(chosen) > _units(best):
            best = chosen
    return best or None


_FIRST = 16, 128, 1024  # nodes that are looked at before the others: never more than an eighth of all


def _choose(
    need: ResolvedRequest, resources: FreeResources, order: NodeOrder, room: float
) -> list[NodeOffer] | None:
    """Choose from one list of nodes, within the processors that licences allow."""
    if room == inf and not (need.near or need.required or need.share or need.parts):
        for most in _FIRST:
            if 8 * most <= len(order):
                first = node_offers(need, resources, order[:most])
                if _units(first) >= need.maximum:  # the others would not be taken
                    return _take(need, resources, first)
    there = node_offers(need, resources, order)
    if _units(there) < need.minimum:
        return None
    chosen: list[NodeOffer] | None = None
    if need.near:
        chosen = _take_near(need, resources, there)
    if chosen is None:  # a search with a bound may depend on the order
        chosen = _take(need, resources, there)
    if chosen is None or room == inf or _processors(need, resources, chosen) <= room:
        return chosen
    return _within(need, resources, there, room)


def _take_near(
    need: ResolvedRequest, resources: FreeResources, there: list[NodeOffer]
) -> list[NodeOffer] | None:
    """Take nodes under few leaf switches first; tasks that need nodes are tried under these alone, too."""
    first, others = _few_switches(need, resources, there)
    chosen = _take(need, resources, first + others)
    if need.parts and others:
        few = _take(need, resources, first)
        if few is not None and (chosen is None or _units(few) >= _units(chosen)):
            return few
    return chosen


def _few_switches(
    need: ResolvedRequest, resources: FreeResources, there: list[NodeOffer]
) -> tuple[list[NodeOffer], list[NodeOffer]]:
    """Return the offers under the fewest leaf switches that have enough for the need, and the others."""
    from headnode.core.scheduling.switches import by_switch  # few clusters have switches

    alone = len(need.parts) == 1 and need.parts[0].apart  # then a node has one lump at most
    each = need.parts[0].lumps[0][0] if alone else need.maximum
    return by_switch(resources.node_table.tree(), there, need.maximum, each)


def _within(
    need: ResolvedRequest, resources: FreeResources, there: list[NodeOffer], room: float
) -> list[NodeOffer] | None:
    """Lower the maximum until the licences suffice; at the minimum, look for a cheaper set of nodes."""

    def cost(maximum: int) -> int:
        lower = _take(need._replace(maximum=maximum), resources, there)
        return 0 if lower is None else _processors(need, resources, lower)

    sizes = range(need.minimum, need.maximum)
    affordable = bisect_right(sizes, room, key=cost)
    if affordable:
        chosen = _take(need._replace(maximum=sizes[affordable - 1]), resources, there)
        if chosen is not None:
            return chosen
    if _surely_more(need, resources, there, room):
        return None
    return cheapest_nodes(need, resources, there, room)


def _surely_more(
    need: ResolvedRequest, resources: FreeResources, there: list[NodeOffer], room: float
) -> bool:
    """Return whether the minimum takes more processors than this on any of these offers; counts tell.

    Where all offers are equal, it does if it did on the first of them.
    """
    prices = {(units, processors_for(need, number, units, resources)) for number, units in there}
    if len(prices) == 1 and not (need.required or need.share or need.parts):
        return True
    return need.minimum * min(processors / units for units, processors in prices) > room


def _take(need: ResolvedRequest, resources: FreeResources, there: list[NodeOffer]) -> list[NodeOffer] | None:
    """Take units in the order offered until the maximum is reached.

    A whole node of which only some units are wanted is still held whole: `processors_for` sees to it.
    """
    if need.required or need.share or need.parts:
        return _take_obliged(need, resources, there)
    left, chosen = need.maximum, []
    for number, units in there:
        taken = min(units, left)
        chosen.append((number, taken))
        left -= taken
        if left <= 0:
            break
    return chosen


def _take_obliged(
    need: ResolvedRequest, resources: FreeResources, there: list[NodeOffer]
) -> list[NodeOffer] | None:
    """Take what the job must have, fill those nodes up, then go on in the order offered."""
    owed = _obligations(need, resources, there)
    if owed is None:
        return None
    left, chosen = need.maximum - sum(owed.values()), []
    for number, units in sorted(there, key=lambda offer: offer[0] not in owed):
        more = units - owed.get(number, 0)
        taken = min(more, max(left, 0))
        left -= taken
        if owed.get(number, 0) + taken:
            chosen.append((number, owed.get(number, 0) + taken))
    return chosen


def _obligations(
    need: ResolvedRequest, resources: FreeResources, there: list[NodeOffer]
) -> dict[int, int] | None:
    """Return the units the job must have by node: something of required ones, all of those it owns."""
    offered = dict(there)
    if not need.required <= offered.keys():
        return None
    owed = {number: 1 for number in offered if number in need.required}
    share, all_of = need.share, resources.node_table.units_of(need)
    for number in sorted(offered, key=lambda number: number not in need.required):
        if share > 0 and resources.is_idle(number) and offered[number] == all_of[number]:
            owed[number] = offered[number]
            share -= offered[number]
    if share > 0:
        return None
    return cover_tasks(need, resources, there, owed) if need.parts else owed


def _units(chosen: list[NodeOffer]) -> int:
    return sum([units for _, units in chosen])


def _processors(need: ResolvedRequest, resources: FreeResources, chosen: list[NodeOffer]) -> int:
    return sum([processors_for(need, number, units, resources) for number, units in chosen])


def most_free(resources: FreeResources, need: ResolvedRequest) -> int:
    """Return how many processors there are at most on nodes of one of the lists of a need."""
    free = resources.free
    if len(need.alternatives) == 1:
        (order,) = need.alternatives
        return sum(free) if len(order) == len(free) else sum([free[node] for node in order])
    return max((sum([free[node] for node in order]) for order in need.alternatives), default=0)


def most_idle(resources: FreeResources, need: ResolvedRequest) -> int:
    """Return how many units there are at most on idle nodes of one of the lists of a need."""
    free, sizes = resources.free, resources.node_table.processors
    units = resources.node_table.units_of(need)
    return max(
        (sum([units[node] for node in order if free[node] == sizes[node]]) for order in need.alternatives),
        default=0,
    )
