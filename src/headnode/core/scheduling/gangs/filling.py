"""Parts one after the other, each on the first nodes in order that have room: what mostly suffices.

Exact for one part alone, unless it has lumps of several sizes and nodes that it must be on.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from headnode.core.scheduling.need import PartNeed

Laid = list[dict[int, int]]
"""For each part, how many units it holds of each node."""


class Field(NamedTuple):
    """How many units each node offers, in the order in which nodes are taken."""

    there: Mapping[int, int]
    alone: frozenset[int]  # nodes that a part may have for itself


def fill(parts: Sequence[PartNeed], turns: Iterable[int], field: Field) -> Laid | None:
    """Return where the parts lie when they are laid in these turns; None if one finds no room."""
    left = dict(field.there)
    laid: Laid = [{} for _ in parts]
    for number in turns:
        found = _taken(parts[number], left, field)
        if found is None:
            return None
        laid[number] = found
        for node, units in found.items():
            left[node] -= units
    return laid


def _taken(part: PartNeed, left: Mapping[int, int], field: Field) -> dict[int, int] | None:
    """Return what the part takes of what is left."""
    free = {node: units for node, units in left.items() if units > 0 and node in part.nodes}
    if part.whole:
        free = {n: units for n, units in free.items() if n in field.alone and units == field.there[n]}
    if part.required:
        if not part.required <= free.keys():
            return None
        free = dict(sorted(free.items(), key=lambda each: each[0] not in part.required))
    if part.apart:
        found = _one_on_each(part, free)
    elif part.whole:
        found = _covering(part, free)
    else:
        found = _many_on_each(part, free)
    return found if found is not None and part.required <= found.keys() else None


def _one_on_each(part: PartNeed, free: Mapping[int, int]) -> dict[int, int] | None:
    """Large lumps choose first: what is large enough for them is for all others."""
    found: dict[int, int] = {}
    for size, times in part.lumps:
        nodes = [node for node, units in free.items() if units >= size and node not in found][:times]
        if len(nodes) < times:
            return None
        found |= {node: free[node] if part.whole else size for node in nodes}
    return found


def _covering(part: PartNeed, free: Mapping[int, int]) -> dict[int, int] | None:
    """Take whole nodes until they have units enough; each required one is taken."""
    found: dict[int, int] = {}
    missing = part.units
    for node, units in free.items():
        if missing <= 0 and node not in part.required:
            break
        found[node] = units
        missing -= units
    return found if missing <= 0 else None


def _many_on_each(part: PartNeed, free: Mapping[int, int]) -> dict[int, int] | None:
    """Fill node by node, or evenly where the part is to be spread; each required one has a lump first."""
    left, found = dict(free), dict.fromkeys(free, 0)
    for size, times in part.lumps:
        obliged = [n for n in free if n in part.required and not found[n] and left[n] >= size][:times]
        counts = dict.fromkeys(obliged, 1)
        most = {node: units // size - counts.get(node, 0) for node, units in left.items() if units >= size}
        more = (_evenly if part.spread else _first_fullest)(most, times - len(obliged))
        if more is None:
            return None
        for node in (*counts, *(node for node in more if node not in counts)):
            count = counts.get(node, 0) + more.get(node, 0)
            found[node] += count * size
            left[node] -= count * size
    return {node: units for node, units in found.items() if units}


def _first_fullest(most: Mapping[int, int], wanted: int) -> dict[int, int] | None:
    counts: dict[int, int] = {}
    for node, room in most.items():
        if not wanted:
            break
        counts[node] = min(room, wanted)
        wanted -= counts[node]
    return None if wanted else counts


def _evenly(most: Mapping[int, int], wanted: int) -> dict[int, int] | None:
    """Return one on each node before the second on any, as far as there is room."""
    if sum(most.values()) < wanted:
        return None
    low, high = 0, wanted  # so many on each are not too many; so many may be
    while low < high:
        level = (low + high + 1) // 2
        if sum(min(room, level) for room in most.values()) <= wanted:
            low = level
        else:
            high = level - 1
    counts = {node: min(room, low) for node, room in most.items()}
    rest = wanted - sum(counts.values())
    for node, room in most.items():
        if rest and room > low:
            counts[node] += 1
            rest -= 1
    return counts
