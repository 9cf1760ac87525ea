"""The cheapest nodes for a job whose licences are counted by the processor.

Whole nodes and sockets come in sizes, so the first nodes in order may cost more licences than are free
although others would do.  Only asked when taking them in order has failed.
"""

from collections.abc import Callable, Sequence
from functools import partial

from headnode.core.scheduling.board import Board
from headnode.core.scheduling.need import Need, PartNeed, processors_for

Offer = tuple[int, int]
"""A node's number and units on it."""

_Goal = tuple[tuple[int, ...], ...]
"""Units still wanted on nodes the job holds alone, and in all; then what each part lacks."""

Price = Callable[[Need, int, int, Board], int]
"""What so many units of a node cost."""

_Way = tuple[int, tuple[Offer, ...]]  # processors it costs, and what is taken


def thriftiest(
    need: Need, board: Board, there: Sequence[Offer], room: float, price: Price = processors_for
) -> list[Offer] | None:
    """Return the minimum on the fewest processors, or None if that is still more than `room`.

    Parts that share what the job holds find room in it too.
    Cost:  O(nodes * minimum * units of each part * units on a node) at worst.
    """
    goal: _Goal = ((need.share, need.minimum), *map(lacking, need.parts))
    ways: dict[_Goal, _Way] = {goal: (0, ())}
    for number, units in there:
        options = _options(need, board, number, units, price)
        ways = _with_node(ways, need, number, options, room)
    found = ways.get(tuple((0,) * len(each) for each in goal))
    return None if found is None else list(found[1])


def _options(need: Need, board: Board, number: int, units: int, price: Price) -> list[tuple[int, int, int]]:
    """Return what may be taken of a node: units, those of them that count as owned, and processors."""
    alone = board.is_idle(number) and units == board.terrain.units[need.unit][number]
    all_of_it = (units, units if alone else 0, price(need, number, units, board))
    if need.whole:
        return [all_of_it]
    most = max([need.minimum, *(part.units for part in need.parts)])
    some = range(1, min(units, most + 1))
    return [*((count, 0, price(need, number, count, board)) for count in some), all_of_it]


def lacking(part: PartNeed) -> tuple[int, ...]:
    """Return what a part lacks at first: units, or lumps of each size if they lie on nodes of their own."""
    return tuple(times for _, times in part.lumps) if part.apart else (part.units,)


def _with_units(
    number: int, units: int, owned: int, part: PartNeed, lacks: tuple[int, ...]
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
    ways: dict[_Goal, _Way], need: Need, number: int, options: list[tuple[int, int, int]], room: float
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
