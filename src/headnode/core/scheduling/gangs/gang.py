"""Where a gang fits: all parts of a job at once, beside each other.

Where licences for every processor are short, two orders of the nodes are tried: that is exact where no node
is taken whole for less than it has.

Source: SSS 3.1.0, "TaskGroup" and "TaskDistribution".
"""

from collections.abc import Sequence

from headnode.core.model.job import UnitType
from headnode.core.scheduling.board import Board, Divided, Fit
from headnode.core.scheduling.gangs.filling import Field, Laid
from headnode.core.scheduling.gangs.laying import lay
from headnode.core.scheduling.need import Need, processors_for

Offer = tuple[int, int]
"""A node's number and units on it."""


def gang_on(need: Need, board: Board, there: Sequence[Offer], room: float) -> Divided | None:
    """Return what the gang takes of these offers within so many processors, or None if it does not fit."""
    found = _laid_out(need, board, there)
    if found is None or _processors(found) <= room:
        return found
    size = board.terrain.processors
    found = _laid_out(need, board, sorted(there, key=lambda offer: size[offer[0]]))
    return found if found is not None and _processors(found) <= room else None


def _processors(fit: Fit) -> int:
    return sum([processors for _, processors in fit])


def _laid_out(need: Need, board: Board, there: Sequence[Offer]) -> Divided | None:
    if sum([units for _, units in there]) < need.minimum:
        return None
    laid = lay(need.parts, field_of(need, board, there))
    return None if laid is None else _divided(need, board, there, laid)


def field_of(need: Need, board: Board, there: Sequence[Offer]) -> Field:
    """Return what is offered, and what of it a part may have for itself."""
    whole = board.terrain.units[need.unit]
    if need.whole:
        return Field(dict(there), frozenset(node for node, _ in there))
    alone = (node for node, units in there if units == whole[node] and board.is_idle(node))
    return Field(dict(there), frozenset(alone))


def _divided(need: Need, board: Board, there: Sequence[Offer], laid: Laid) -> Divided:
    """Return the processors of each part, and of all of them together."""
    used: dict[int, int] = {}
    parts: list[Fit] = []
    for mine in laid:
        shares = []
        for node, units in mine.items():
            before = used.get(node, 0)
            used[node] = before + units
            shares.append((node, _cut(need, board, node, before + units) - _cut(need, board, node, before)))
        parts.append(tuple(shares))
    union = ((node, processors_for(need, node, used[node], board)) for node, _ in there if node in used)
    return Divided.of(union, parts)


def _cut(need: Need, board: Board, node: int, units: int) -> int:
    """Return how many processors of a node so many units are, though the job may hold more of it."""
    if need.unit is UnitType.NODE:
        return units * board.terrain.processors[node]
    return processors_for(need._replace(whole=False), node, units, board)
