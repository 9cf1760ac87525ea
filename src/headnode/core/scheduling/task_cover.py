"""What an allocation must hold so that every task finds nodes in it, and the cheapest nodes for it.

Whole nodes and sockets come in sizes, so the first nodes in order may cost more licences than are free
although others would do.  `cheapest_nodes` is only asked when taking them in order has failed.

Tasks share an allocation one after the other, so nodes that serve several of them count for each."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod

from headnode.core.model.job import UnitType
from headnode.core.scheduling.free_resources import FreeResources
from headnode.core.scheduling.request import ResolvedPart, ResolvedRequest, processors_for

NodeOffer = tuple[int, int]
"""A node's number and units on it."""

_Goal = tuple[tuple[int, ...], ...]
"""Units still wanted on nodes the job holds alone, and in all; then what each part lacks."""

Price = Callable[[ResolvedRequest, int, int, FreeResources], int]
"""What so many units of a node cost."""

_Way = tuple[int, tuple[NodeOffer, ...]]  # processors it costs, and what is taken


def cheapest_nodes(
    need: ResolvedRequest,
    resources: FreeResources,
    there: Sequence[NodeOffer],
    room: float,
    price: Price = processors_for,
) -> list[NodeOffer] | None:
    """Return the minimum on the fewest processors, or None if that is still more than `room`.

    Parts that share what the job holds find room in it too.
    Cost:  O(nodes * minimum * units of each part * units on a node) at worst.
    """
    goal: _Goal = ((need.share, need.minimum), *map(lacking, need.parts))
    ways: dict[_Goal, _Way] = {goal: (0, ())}
    for number, units in there:
        options = _options(need, resources, number, units, price)
        ways = _with_node(ways, need, number, options, room)
    found = ways.get(tuple((0,) * len(each) for each in goal))
    return None if found is None else list(found[1])


def _options(
    need: ResolvedRequest, resources: FreeResources, number: int, units: int, price: Price
) -> list[tuple[int, int, int]]:
    """Return what may be taken of a node: units, those of them that count as owned, and processors."""
    alone = resources.is_idle(number) and units == resources.node_table.units_of(need)[number]
    all_of_it = (units, units if alone else 0, price(need, number, units, resources))
    if need.whole:
        return [all_of_it]
    most = max([need.minimum, *(part.units for part in need.parts)])
    some = range(1, min(units, most + 1))
    return [*((count, 0, price(need, number, count, resources)) for count in some), all_of_it]


def lacking(part: ResolvedPart) -> tuple[int, ...]:
    """Return what a part lacks at first: units, or lumps of each size if they lie on nodes of their own."""
    return tuple(times for _, times in part.lumps) if part.apart else (part.units,)


def _with_units(
    number: int, units: int, owned: int, part: ResolvedPart, lacks: tuple[int, ...]
) -> tuple[int, ...]:
    """Return what a part lacks when the job has so much of a node: it takes the largest lump it can."""
    there = owned if part.whole else units
    if number not in part.nodes:
        return lacks
    if not part.apart:
        return (max(0, lacks[0] - there),)
    for place, ((size, _), times) in enumerate(zip(part.lumps, lacks, strict=True)):
        if times and size <= there:
            return (*lacks[:place], times - 1, *lacks[place + 1 :])
    return lacks


def _with_node(
    ways: dict[_Goal, _Way],
    need: ResolvedRequest,
    number: int,
    options: list[tuple[int, int, int]],
    room: float,
) -> dict[_Goal, _Way]:
    after = {} if number in need.required else dict(ways)
    for ((alone, left), *parts), (cost, taken) in ways.items():
        for units, owned, price in options:
            size = (max(0, alone - owned), max(0, left - units))
            goal = (size, *map(partial(_with_units, number, units, owned), need.parts, parts))
            total = cost + price
            if total <= room and (goal not in after or total < after[goal][0]):
                after[goal] = (total, (*taken, (number, units)))
    return after


MAX_WAYS = 20_000
"""The number of possible shortfalls of all parts beyond which the smallest cover is not searched."""


def cover_tasks(
    need: ResolvedRequest, resources: FreeResources, there: Sequence[NodeOffer], required: Mapping[int, int]
) -> dict[int, int] | None:
    """Return the units the job must have by node so that its parts find room; None if they cannot.

    `required` is what it must have.  The smallest such allocation is looked for only when the one taken
    node by node, first of those that serve most parts, is above the maximum: exact but for very large jobs.
    """
    found = _node_by_node(need, resources, there, required)
    if found is None or not is_bounded(need) or sum(found.values()) <= need.ceiling:
        return found
    states = prod(times + 1 for part in need.parts for times in lacking(part))
    if states * (need.minimum + 1) > MAX_WAYS:
        return None
    least = cheapest_nodes(need, resources, there, need.ceiling, _units)
    return None if least is None else dict(least)


def is_bounded(need: ResolvedRequest) -> bool:
    """Return whether the maximum is never exceeded, as it may be for the last of whole nodes."""
    owner = need.whole or need.share or any(part.whole for part in need.parts)
    return need.unit is UnitType.NODE or not owner


def _units(_need: ResolvedRequest, _number: int, units: int, _resources: FreeResources) -> int:
    return units


def _node_by_node(
    need: ResolvedRequest, resources: FreeResources, there: Sequence[NodeOffer], required: Mapping[int, int]
) -> dict[int, int] | None:
    offered, found = dict(there), dict(required)
    for part in need.parts:
        if part.apart and not _with_lumps(need, resources, part, offered, found):
            return None
    return _with_sums(need, resources, [part for part in need.parts if not part.apart], offered, found)


def _with_lumps(
    need: ResolvedRequest,
    resources: FreeResources,
    part: ResolvedPart,
    offered: Mapping[int, int],
    covers: dict[int, int],
) -> bool:
    """Put lumps on nodes of their own, where the job has most already; return whether there is room."""
    free = [node for node in offered if node in part.nodes and _may_serve(need, resources, part, node)]
    used: set[int] = set()
    for size, times in part.lumps:
        nodes = [node for node in free if offered[node] >= size and node not in used]
        nodes.sort(key=lambda node: -min(covers.get(node, 0), size))
        if len(nodes) < times:
            return False
        for node in nodes[:times]:
            used.add(node)
            all_of_it = need.whole or part.whole
            covers[node] = offered[node] if all_of_it else max(covers.get(node, 0), size)
    return True


def _with_sums(
    need: ResolvedRequest,
    resources: FreeResources,
    parts: Sequence[ResolvedPart],
    offered: Mapping[int, int],
    covers: dict[int, int],
) -> dict[int, int] | None:
    """Give each part units enough, first on nodes that serve most of them."""
    missing = [_missing(need, resources, part, offered, covers) for part in parts]
    served = {node: [n for n, part in enumerate(parts) if node in part.nodes] for node in offered}
    for node in sorted(offered, key=lambda node: -len(served[node])):
        mine = [n for n in served[node] if missing[n] > 0 and _may_serve(need, resources, parts[n], node)]
        if not mine:
            continue
        all_of_it = need.whole or any(parts[n].whole for n in mine)
        free = offered[node] - covers.get(node, 0)
        more = free if all_of_it else min(free, max(missing[n] for n in mine))
        if more > 0:
            covers[node] = covers.get(node, 0) + more
            for number in mine:
                missing[number] -= covers[node] if parts[number].whole and not need.whole else more
    return covers if max(missing, default=0) <= 0 else None


def _missing(
    need: ResolvedRequest,
    resources: FreeResources,
    part: ResolvedPart,
    offered: Mapping[int, int],
    covers: Mapping[int, int],
) -> int:
    """Return how many units a part lacks of what the job has; whole nodes count in full."""
    missing = part.units
    for node, units in covers.items():
        if node not in part.nodes:
            continue
        if need.whole or not part.whole:
            missing -= offered[node] if need.whole else units
        elif units == offered[node] and _may_serve(need, resources, part, node):
            missing -= units
    return missing


def _may_serve(need: ResolvedRequest, resources: FreeResources, part: ResolvedPart, node: int) -> bool:
    """Return whether a node that the job holds in full would be the part's own, if it must be."""
    return need.whole or not part.whole or resources.is_idle(node)
