"""Where a gang fits: all parts of a job at once, beside each other.

If there is any way one is found, for parts whose lumps are all of one size and for whole nodes; so what
fits on less fits on more.  Where lumps of several sizes, or whole nodes and shared ones, compete for the same
nodes, the search for a way has a bound (`gang_search`): only there, and only beyond it, may one be missed.

Where licences for every processor are short, two orders of the nodes are tried: that is exact where no node
is taken whole for less than it has.

Source: SSS 3.1.0, "TaskGroup" and "TaskDistribution".
"""

from collections.abc import Iterator, Sequence

from headnode.core.model.job import UnitType
from headnode.core.scheduling.free_resources import FreeResources, GangPlacement, Placement
from headnode.core.scheduling.gang_search import (
    GangUnits,
    OfferedUnits,
    lay_equal_lumps,
    lay_in_order,
    match_claims,
    search_layout,
)
from headnode.core.scheduling.request import ResolvedPart, ResolvedRequest, processors_for


def lay_parts(parts: Sequence[ResolvedPart], field: OfferedUnits) -> GangUnits | None:
    """Return how many units each part holds of which nodes, or None.

    Parts that ask for the same are placed as one: they are interchangeable.
    """
    alike: dict[ResolvedPart, list[int]] = {}
    for number, part in enumerate(parts):
        alike.setdefault(_kind(part, number), []).append(number)
    if len(alike) == len(parts):
        return _lay_all(parts, field)
    laid = _lay_all([_as_one([parts[n] for n in numbers]) for numbers in alike.values()], field)
    return None if laid is None else _shares_of_parts(parts, list(alike.values()), laid)


def _kind(part: ResolvedPart, number: int) -> ResolvedPart:
    """Return the same for parts that can be laid as one, and for no others."""
    if not part.size or part.required or part.apart or part.whole:
        return part._replace(units=-number)
    return part._replace(lumps=((part.size, 1),), units=1)


def _as_one(parts: Sequence[ResolvedPart]) -> ResolvedPart:
    first, *others = parts
    if not others:
        return first
    times = sum(part.lumps[0][1] for part in parts)
    return first._replace(lumps=((first.size, times),), units=first.size * times)


def _shares_of_parts(
    parts: Sequence[ResolvedPart], alike: Sequence[Sequence[int]], laid: GangUnits
) -> GangUnits:
    """Return what each part has of what was laid as one, node by node."""
    found: GangUnits = [{} for _ in parts]
    for numbers, together in zip(alike, laid, strict=True):
        left = list(together.items())[::-1]
        for number in numbers[:-1]:
            missing = parts[number].units
            while missing:
                node, units = left.pop()
                found[number][node] = min(units, missing)
                missing -= found[number][node]
                if units > found[number][node]:
                    left.append((node, units - found[number][node]))
        found[numbers[-1]] = dict(left[::-1])
    return found


def _lay_all(parts: Sequence[ResolvedPart], field: OfferedUnits) -> GangUnits | None:
    laid: GangUnits = [{} for _ in parts]
    for group in _competing(parts, field):
        found = _lay_group([parts[number] for number in group], field)
        if found is None:
            return None
        for number, each in zip(group, found, strict=True):
            laid[number] = each
    return laid


def _competing(parts: Sequence[ResolvedPart], field: OfferedUnits) -> list[list[int]]:
    """Return the parts in groups that have no node in common."""
    groups: list[tuple[list[int], set[int]]] = []
    for number, part in enumerate(parts):
        if not part.lumps:
            continue
        mine, nodes = [number], {node for node in field.there if node in part.nodes}
        apart = []
        for others, theirs in groups:
            if nodes.isdisjoint(theirs):
                apart.append((others, theirs))
            else:
                mine, nodes = [*others, *mine], nodes | theirs
        groups = [*apart, (mine, nodes)]
    return [sorted(numbers) for numbers, _ in groups]


def _lay_group(parts: Sequence[ResolvedPart], field: OfferedUnits) -> GangUnits | None:
    for turns in _turns(parts):
        laid = lay_in_order(parts, turns, field)
        if laid is not None:
            return laid
    if len({part.size for part in parts}) > 1:  # side by side lumps may fill nodes better
        laid = lay_in_order([part._replace(spread=True) for part in parts], next(_turns(parts)), field)
        if laid is not None:
            return laid
    if len(parts) == 1 and (parts[0].size or not parts[0].required):
        return None
    sizes = {part.size for part in parts}
    if len(sizes) == 1 and 0 not in sizes and not any(part.whole for part in parts):
        return lay_equal_lumps(parts, sizes.pop(), dict(field.there))
    if all(part.whole and part.apart and not part.required for part in parts):
        return _nodes_for_lumps(parts, field)
    return search_layout(parts, field) if _enough(parts, field) else None


def _turns(parts: Sequence[ResolvedPart]) -> Iterator[list[int]]:
    """Yield orders in which to lay parts: the largest lumps first, and the pickiest parts first."""
    numbers = range(len(parts))
    yield sorted(numbers, key=lambda n: (not parts[n].whole, -parts[n].lumps[0][0], len(parts[n].nodes)))
    if len(parts) > 1:
        yield sorted(numbers, key=lambda n: (len(parts[n].nodes), not parts[n].whole, -parts[n].lumps[0][0]))


def _nodes_for_lumps(parts: Sequence[ResolvedPart], field: OfferedUnits) -> GangUnits | None:
    """Return a node for every lump of parts that have nodes for themselves.  Exact."""
    there = {node: units for node, units in field.there.items() if node in field.alone}
    claims = [(number, size, times) for number, part in enumerate(parts) for size, times in part.lumps]
    most = [
        {node: 1 for node, units in there.items() if units >= size and node in parts[number].nodes}
        for number, size, _ in claims
    ]
    given = match_claims([times for _, _, times in claims], most, dict.fromkeys(there, 1))
    if given is None:
        return None
    laid: GangUnits = [{} for _ in parts]
    for (number, _, _), nodes in zip(claims, given, strict=True):
        laid[number] |= {node: there[node] for node in nodes}
    return laid


def _enough(parts: Sequence[ResolvedPart], field: OfferedUnits) -> bool:
    """Return whether there would be room if lumps could be split; if not, no search is needed."""
    return _enough_places(parts, field) and _enough_units(parts, field)


def _enough_places(parts: Sequence[ResolvedPart], field: OfferedUnits) -> bool:
    """Return whether nodes have places for all lumps of at least a size, for each size."""
    lumps = [(size, times, part.nodes) for part in parts if not part.whole for size, times in part.lumps]
    for least in {size for size, _, _ in lumps}:
        nodes = frozenset[int]().union(*(nodes for size, _, nodes in lumps if size >= least))
        places = sum(units // least for node, units in field.there.items() if node in nodes)
        if places < sum(times for size, times, _ in lumps if size >= least):
            return False
    return True


def _enough_units(parts: Sequence[ResolvedPart], field: OfferedUnits) -> bool:
    most = []
    for part in parts:
        largest, smallest = part.lumps[0][0], part.lumps[-1][0]
        cut = smallest if part.size else 1
        room = {n: units // cut * cut for n, units in field.there.items() if n in part.nodes}
        if part.whole:
            room = {n: units for n, units in room.items() if n in field.alone}
        if part.apart:
            room = {n: min(units, largest) for n, units in room.items()}
        most.append({n: units for n, units in room.items() if units > 0})
    return match_claims([part.units for part in parts], most, field.there) is not None


GangOffer = tuple[int, int]
"""A node's number and units on it."""


def place_gang(
    need: ResolvedRequest, resources: FreeResources, there: Sequence[GangOffer], room: float
) -> GangPlacement | None:
    """Return what the gang takes of these offers within so many processors, or None if it does not fit."""
    found = _laid_out(need, resources, there)
    if found is None or _processors(found) <= room:
        return found
    size = resources.node_table.processors
    found = _laid_out(need, resources, sorted(there, key=lambda offer: size[offer[0]]))
    return found if found is not None and _processors(found) <= room else None


def _processors(fit: Placement) -> int:
    return sum([processors for _, processors in fit])


def _laid_out(
    need: ResolvedRequest, resources: FreeResources, there: Sequence[GangOffer]
) -> GangPlacement | None:
    if sum([units for _, units in there]) < need.minimum:
        return None
    laid = lay_parts(need.parts, offered_units(need, resources, there))
    return None if laid is None else _divided(need, resources, there, laid)


def offered_units(
    need: ResolvedRequest, resources: FreeResources, there: Sequence[GangOffer]
) -> OfferedUnits:
    """Return what is offered, and what of it a part may have for itself."""
    whole = resources.node_table.units_of(need)
    if need.whole:
        return OfferedUnits(dict(there), frozenset(node for node, _ in there))
    alone = (node for node, units in there if units == whole[node] and resources.is_idle(node))
    return OfferedUnits(dict(there), frozenset(alone))


def _divided(
    need: ResolvedRequest, resources: FreeResources, there: Sequence[GangOffer], laid: GangUnits
) -> GangPlacement:
    """Return the processors of each part, and of all of them together."""
    used: dict[int, int] = {}
    parts: list[Placement] = []
    for mine in laid:
        shares = []
        for node, units in mine.items():
            before = used.get(node, 0)
            used[node] = before + units
            shares.append(
                (node, _cut(need, resources, node, before + units) - _cut(need, resources, node, before))
            )
        parts.append(tuple(shares))
    union = ((node, processors_for(need, node, used[node], resources)) for node, _ in there if node in used)
    return GangPlacement.of(union, parts)


def _cut(need: ResolvedRequest, resources: FreeResources, node: int, units: int) -> int:
    """Return how many processors of a node so many units are, though the job may hold more of it."""
    if need.unit is UnitType.NODE:
        return units * resources.node_table.processors[node]
    return processors_for(need._replace(whole=False), node, units, resources)
