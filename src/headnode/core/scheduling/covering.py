"""What an allocation must hold so that every task finds nodes in it that it may use.

Tasks share it one after the other, so nodes that serve several of them count for each.
"""

from collections.abc import Mapping, Sequence
from math import prod

from headnode.core.model.job import UnitType
from headnode.core.scheduling.board import Board
from headnode.core.scheduling.need import Need, PartNeed
from headnode.core.scheduling.thrift import Offer, lacking, thriftiest

MOST_WAYS = 20_000
"""Beyond so many amounts that may be missing of all parts, nobody looks for the smallest cover."""


def covered(
    need: Need, board: Board, there: Sequence[Offer], owed: Mapping[int, int]
) -> dict[int, int] | None:
    """Return the units the job must have by node so that its parts find room; None if they cannot.

    `owed` is what it must have anyway.  The smallest such allocation is looked for only when the one taken
    node by node, first of those that serve most parts, is above the maximum: exact but for very large jobs.
    """
    found = _node_by_node(need, board, there, owed)
    if found is None or not is_bounded(need) or sum(found.values()) <= need.ceiling:
        return found
    states = prod(times + 1 for part in need.parts for times in lacking(part))
    if states * (need.minimum + 1) > MOST_WAYS:
        return None
    least = thriftiest(need, board, there, need.ceiling, _units)
    return None if least is None else dict(least)


def is_bounded(need: Need) -> bool:
    """Return whether the maximum is never exceeded, as it may be for the last of whole nodes."""
    owner = need.whole or need.share or any(part.whole for part in need.parts)
    return need.unit is UnitType.NODE or not owner


def _units(_need: Need, _number: int, units: int, _board: Board) -> int:
    return units


def _node_by_node(
    need: Need, board: Board, there: Sequence[Offer], owed: Mapping[int, int]
) -> dict[int, int] | None:
    offered, found = dict(there), dict(owed)
    for part in need.parts:
        if part.apart and not _with_lumps(need, board, part, offered, found):
            return None
    return _with_sums(need, board, [part for part in need.parts if not part.apart], offered, found)


def _with_lumps(
    need: Need, board: Board, part: PartNeed, offered: Mapping[int, int], found: dict[int, int]
) -> bool:
    """Put lumps on nodes of their own, where the job has most already; return whether there is room."""
    free = [node for node in offered if node in part.nodes and _may_serve(need, board, part, node)]
    used: set[int] = set()
    for size, times in part.lumps:
        nodes = [node for node in free if offered[node] >= size and node not in used]
        nodes.sort(key=lambda node: -min(found.get(node, 0), size))
        if len(nodes) < times:
            return False
        for node in nodes[:times]:
            used.add(node)
            all_of_it = need.whole or part.whole
            found[node] = offered[node] if all_of_it else max(found.get(node, 0), size)
    return True


def _with_sums(
    need: Need, board: Board, parts: Sequence[PartNeed], offered: Mapping[int, int], found: dict[int, int]
) -> dict[int, int] | None:
    """Give each part units enough, first on nodes that serve most of them."""
    missing = [_missing(need, board, part, offered, found) for part in parts]
    served = {node: [n for n, part in enumerate(parts) if node in part.nodes] for node in offered}
    for node in sorted(offered, key=lambda node: -len(served[node])):
        mine = [n for n in served[node] if missing[n] > 0 and _may_serve(need, board, parts[n], node)]
        if not mine:
            continue
        all_of_it = need.whole or any(parts[n].whole for n in mine)
        free = offered[node] - found.get(node, 0)
        more = free if all_of_it else min(free, max(missing[n] for n in mine))
        if more > 0:
            found[node] = found.get(node, 0) + more
            for number in mine:
                missing[number] -= found[node] if parts[number].whole and not need.whole else more
    return found if max(missing, default=0) <= 0 else None


def _missing(
    need: Need, board: Board, part: PartNeed, offered: Mapping[int, int], found: Mapping[int, int]
) -> int:
    """Return how many units a part lacks of what the job has; whole nodes count in full."""
    missing = part.units
    for node, units in found.items():
        if node not in part.nodes:
            continue
        if need.whole or not part.whole:
            missing -= offered[node] if need.whole else units
        elif units == offered[node] and _may_serve(need, board, part, node):
            missing -= units
    return missing


def _may_serve(need: Need, board: Board, part: PartNeed, node: int) -> bool:
    """Return whether a node that the job holds in full would be the part's own, if it must be."""
    return need.whole or not part.whole or board.is_idle(node)
