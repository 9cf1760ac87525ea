"""Whether what a plan gives is enough for each part of a job, and how a gang's is divided among its tasks."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from headnode.core.scheduling.board import Board, Fit
from headnode.core.scheduling.need import Need, PartNeed, units_in

Units = Mapping[int, int]
"""How many units a job holds of each node."""


def no_room_for_tasks(need: Need, units: Units, board: Board) -> str:
    """Return why tasks that share what the job holds do not all find room in it; nothing if they do."""
    owned = {node for node, count in units.items() if need.whole or _is_all(need, node, count, board)}
    for number, part in enumerate(need.parts, start=1):
        if not _has_room(part, {n: c for n, c in units.items() if not part.whole or n in owned}):
            return f"its tasks do not all find eligible nodes in it (kind {number})"
    return ""


def _has_room(part: PartNeed, units: Units) -> bool:
    there = sorted((count for node, count in units.items() if node in part.nodes), reverse=True)
    if not part.apart:
        return sum(there) >= part.units
    lumps = [size for size, times in part.lumps for _ in range(min(times, len(there) + 1))]
    return len(lumps) <= len(there) and all(map(int.__ge__, there, lumps))


def wrongly_divided(need: Need, fit: Fit, parts: Sequence[Fit], board: Board) -> str:
    """Return what is wrong with how a gang's share are divided among its tasks; nothing if all is well."""
    if not need.together:
        return "it has parts, but is no gang" if parts else ""
    if len(parts) != len(need.parts):
        return f"it needs {len(need.parts)} parts, one for each task"
    given = Counter[int]()
    for mine in parts:
        given.update(dict(mine))
    held = dict(fit)
    if any(len(dict(mine)) < len(mine) for mine in parts):
        return "a part has a node twice"
    if given.keys() != held.keys() or any(given[node] > held[node] for node in given):
        return "its parts do not add up to its allocation"
    if given != held and not need.exclusive:
        return "some of it belongs to no task"
    for number, (part, units) in enumerate(
        zip(need.parts, _in_units(need, parts, board), strict=True), start=1
    ):
        if not _is_right(need, part, units, board):
            return f"part {number} of it is not what task {number} needs"
    return ""


def _in_units(need: Need, parts: Sequence[Fit], board: Board) -> Iterator[Units]:
    """Yield the units of each part by node; sockets of several sizes are counted in that order."""
    taken: Counter[int] = Counter()
    for mine in parts:
        before = {node: units_in(need.unit, (node, taken[node]), board.terrain) for node, _ in mine}
        taken.update(dict(mine))
        yield {
            node: units_in(need.unit, (node, taken[node]), board.terrain) - before[node] for node, _ in mine
        }


def _is_right(need: Need, part: PartNeed, units: Units, board: Board) -> bool:
    """Return whether a part has what its lumps need, and nothing more."""
    if not part.nodes >= units.keys() >= part.required or 0 in units.values():
        return False
    if part.whole:
        lumps = sum(times for _, times in part.lumps)
        as_many = len(units) == lumps if part.apart else len(units) <= lumps
        return (
            as_many and _has_room(part, units) and all(_is_all(need, n, c, board) for n, c in units.items())
        )
    if sum(units.values()) != part.units:
        return False
    if part.apart:
        sizes = [size for size, times in part.lumps for _ in range(times)]
        return sorted(units.values(), reverse=True) == sizes
    return not part.size or all(count % part.size == 0 for count in units.values())


def _is_all(need: Need, node: int, units: int, board: Board) -> bool:
    """Return whether so many units are all of a node, with nobody else on it."""
    return units == board.terrain.units[need.unit][node] and board.is_idle(node)
