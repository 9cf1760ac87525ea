"""The cheapest nodes for a job whose licences are counted by the processor.

Whole nodes and sockets come in sizes, so the first nodes in order may cost more licences than are free
although others would do.  Only asked when taking them in order has failed.
"""

from headnode.core.scheduling.board import Board
from headnode.core.scheduling.need import Need, processors_for

Offer = tuple[int, int]
"""A node's number and units on it."""

_Goal = tuple[int, int]  # units still wanted on nodes the job holds alone, and in all
_Way = tuple[int, tuple[Offer, ...]]  # processors it costs, and what is taken


def thriftiest(need: Need, board: Board, there: list[Offer], room: float) -> list[Offer] | None:
    """Return the minimum on the fewest processors, or None if that is still more than `room`.

    Cost:  O(nodes * minimum * units on a node) at worst.
    """
    ways: dict[_Goal, _Way] = {(need.share, need.minimum): (0, ())}
    for number, units in there:
        options = _options(need, board, number, units)
        ways = _with_node(ways, number, options, room, must=number in need.required)
    found = ways.get((0, 0))
    return None if found is None else list(found[1])


def _options(need: Need, board: Board, number: int, units: int) -> list[tuple[int, int, int]]:
    """Return what may be taken of a node: units, those of them that count as owned, and processors."""
    alone = board.is_idle(number) and units == board.terrain.units[need.unit][number]
    all_of_it = (units, units if alone else 0, processors_for(need, number, units, board))
    if need.whole:
        return [all_of_it]
    parts = range(1, min(units, need.minimum + 1))
    return [*((part, 0, processors_for(need, number, part, board)) for part in parts), all_of_it]


def _with_node(
    ways: dict[_Goal, _Way], number: int, options: list[tuple[int, int, int]], room: float, *, must: bool
) -> dict[_Goal, _Way]:
    after = {} if must else dict(ways)
    for (alone, left), (cost, taken) in ways.items():
        for units, owned, processors in options:
            goal = (max(0, alone - owned), max(0, left - units))
            total = cost + processors
            if total <= room and (goal not in after or total < after[goal][0]):
                after[goal] = (total, (*taken, (number, units)))
    return after
