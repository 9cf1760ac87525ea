"""Where the parts of a gang lie beside each other on what nodes offer.

If there is any way one is found, for parts whose lumps are all of one size and for whole nodes; so what
fits on less fits on more.  Where lumps of several sizes, or whole nodes and shared ones, compete for the same
nodes, the search for a way has a bound (`searching`): only there, and only beyond it, may one be missed.
"""

from collections.abc import Iterator, Sequence

from headnode.core.scheduling.gangs.filling import Field, Laid, fill
from headnode.core.scheduling.gangs.matching import assign
from headnode.core.scheduling.gangs.searching import lumps_of_one_size, search
from headnode.core.scheduling.need import PartNeed


def lay(parts: Sequence[PartNeed], field: Field) -> Laid | None:
    """Return how many units each part holds of which nodes, or None.

    Parts that ask for the same are laid as one: it matters to nobody which of them has what.
    """
    alike: dict[PartNeed, list[int]] = {}
    for number, part in enumerate(parts):
        alike.setdefault(_kind(part, number), []).append(number)
    if len(alike) == len(parts):
        return _lay_all(parts, field)
    laid = _lay_all([_as_one([parts[n] for n in numbers]) for numbers in alike.values()], field)
    return None if laid is None else _told_apart(parts, list(alike.values()), laid)


def _kind(part: PartNeed, number: int) -> PartNeed:
    """Return the same for parts that can be laid as one, and for no others."""
    if not part.size or part.required or part.apart or part.whole:
        return part._replace(units=-number)
    return part._replace(lumps=((part.size, 1),), units=1)


def _as_one(parts: Sequence[PartNeed]) -> PartNeed:
    first, *others = parts
    if not others:
        return first
    times = sum(part.lumps[0][1] for part in parts)
    return first._replace(lumps=((first.size, times),), units=first.size * times)


def _told_apart(parts: Sequence[PartNeed], alike: Sequence[Sequence[int]], laid: Laid) -> Laid:
    """Return what each part has of what was laid as one, node by node."""
    found: Laid = [{} for _ in parts]
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


def _lay_all(parts: Sequence[PartNeed], field: Field) -> Laid | None:
    laid: Laid = [{} for _ in parts]
    for group in _competing(parts, field):
        found = _lay_group([parts[number] for number in group], field)
        if found is None:
            return None
        for number, each in zip(group, found, strict=True):
            laid[number] = each
    return laid


def _competing(parts: Sequence[PartNeed], field: Field) -> list[list[int]]:
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


def _lay_group(parts: Sequence[PartNeed], field: Field) -> Laid | None:
    for turns in _turns(parts):
        laid = fill(parts, turns, field)
        if laid is not None:
            return laid
    if len({part.size for part in parts}) > 1:  # side by side lumps may fill nodes better
        laid = fill([part._replace(spread=True) for part in parts], next(_turns(parts)), field)
        if laid is not None:
            return laid
    if len(parts) == 1 and (parts[0].size or not parts[0].required):
        return None
    sizes = {part.size for part in parts}
    if len(sizes) == 1 and 0 not in sizes and not any(part.whole for part in parts):
        return lumps_of_one_size(parts, sizes.pop(), dict(field.there))
    if all(part.whole and part.apart and not part.required for part in parts):
        return _nodes_for_lumps(parts, field)
    return search(parts, field) if _enough(parts, field) else None


def _turns(parts: Sequence[PartNeed]) -> Iterator[list[int]]:
    """Yield orders in which to lay parts: the largest lumps first, and the pickiest parts first."""
    numbers = range(len(parts))
    yield sorted(numbers, key=lambda n: (not parts[n].whole, -parts[n].lumps[0][0], len(parts[n].nodes)))
    if len(parts) > 1:
        yield sorted(numbers, key=lambda n: (len(parts[n].nodes), not parts[n].whole, -parts[n].lumps[0][0]))


def _nodes_for_lumps(parts: Sequence[PartNeed], field: Field) -> Laid | None:
    """Return a node for every lump of parts that have nodes for themselves.  Exact."""
    there = {node: units for node, units in field.there.items() if node in field.alone}
    claims = [(number, size, times) for number, part in enumerate(parts) for size, times in part.lumps]
    most = [
        {node: 1 for node, units in there.items() if units >= size and node in parts[number].nodes}
        for number, size, _ in claims
    ]
    given = assign([times for _, _, times in claims], most, dict.fromkeys(there, 1))
    if given is None:
        return None
    laid: Laid = [{} for _ in parts]
    for (number, _, _), nodes in zip(claims, given, strict=True):
        laid[number] |= {node: there[node] for node in nodes}
    return laid


def _enough(parts: Sequence[PartNeed], field: Field) -> bool:
    """Return whether there would be room if lumps could be cut: if not, nobody need search."""
    return _enough_places(parts, field) and _enough_units(parts, field)


def _enough_places(parts: Sequence[PartNeed], field: Field) -> bool:
    """Return whether nodes have places for all lumps of at least a size, for each size."""
    lumps = [(size, times, part.nodes) for part in parts if not part.whole for size, times in part.lumps]
    for least in {size for size, _, _ in lumps}:
        nodes = frozenset[int]().union(*(nodes for size, _, nodes in lumps if size >= least))
        places = sum(units // least for node, units in field.there.items() if node in nodes)
        if places < sum(times for size, times, _ in lumps if size >= least):
            return False
    return True


def _enough_units(parts: Sequence[PartNeed], field: Field) -> bool:
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
    return assign([part.units for part in parts], most, field.there) is not None
