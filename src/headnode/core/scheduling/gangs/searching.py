"""Lumps of several sizes beside each other: a search with a bound, because there may be very many ways.

Lumps of the smallest size need no search: whether there is room for them is known at the end (`matching`).
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from headnode.core.scheduling.gangs.filling import Field, Laid
from headnode.core.scheduling.gangs.matching import assign
from headnode.core.scheduling.need import PartNeed

MOST_STEPS = 1_500
MOST_LUMPS = 200  # that are searched for one by one
_END_COSTS = 10  # steps

_Item = tuple[int, int]
"""A part and the size of one of its lumps; size 0: whole nodes until it has enough."""


def search(parts: Sequence[PartNeed], field: Field) -> Laid | None:
    """Return where the parts lie, or None when there is no way, or none was found within the bound."""
    small = min((part.lumps[-1][0] for part in parts if not part.whole and part.lumps), default=0)
    simple = [number for number, part in enumerate(parts) if not part.whole and part.size == small]
    return _Search(parts, field, simple, small).found()


class _Search:
    """Lays lump after lump, the large ones first; of nodes that look alike only the first is tried."""

    def __init__(self, parts: Sequence[PartNeed], field: Field, simple: Sequence[int], small: int) -> None:
        self._parts, self._field = parts, field
        self._simple, self._small = simple, small
        self._left = dict(field.there)
        self._laid: Laid = [{} for _ in parts]
        self._nodes = list(field.there)
        self._serves = {
            node: tuple((node in part.nodes, node in part.required) for part in parts) for node in self._nodes
        }
        self._missing = [part.units for part in parts]
        self._steps = MOST_STEPS
        self._ends: Laid = []

    def found(self) -> Laid | None:
        """Return where the parts lie."""
        items = list(self._items())
        if len(items) > MOST_LUMPS or not self._lay(items, 0, 0):
            return None
        laid = [dict(each) for each in self._laid]
        for number, given in zip(self._simple, self._ends, strict=True):
            laid[number] = given
        return laid

    def _items(self) -> Iterator[_Item]:
        """Yield what is laid one by one: what must lie alone, then the large lumps, the pickiest first."""
        parts = self._parts
        turns = sorted(
            (not part.whole, -size, len(part.nodes), number, times)
            for number, part in enumerate(parts)
            if number not in self._simple
            for size, times in ([(0, 1)] if part.whole and not part.apart else part.lumps)
        )
        for _, size, _, number, times in turns:
            yield from [(number, -size)] * min(times, MOST_LUMPS + 1)

    def _lay(self, items: Sequence[_Item], at: int, first: int) -> bool:
        """Lay the items from one on; the first of them on this node or a later one."""
        self._steps -= 1
        if self._steps < 0:
            return False
        if at == len(items):
            return self._ends_well()
        number, size = items[at]
        tried = set()
        for place in range(first, len(self._nodes)):
            node = self._nodes[place]
            taken = self._takes(number, size, node)
            if not taken or (looks := self._looks(node)) in tried:
                continue
            tried.add(looks)
            self._move(number, node, taken, size)
            following = at if not size and self._wants_more(number) else at + 1
            again = following < len(items) and items[following] == items[at]
            if self._lay(items, following, place if again else 0):
                return True
            self._move(number, node, -taken, -size)
            if self._steps < 0:
                return False
        return False

    def _wants_more(self, number: int) -> bool:
        """Return whether a part that takes whole nodes has not enough, or not all that it must have."""
        required = self._parts[number].required
        return self._missing[number] > 0 or not required <= self._laid[number].keys()

    def _takes(self, number: int, size: int, node: int) -> int:
        """Return how many units the lump takes of a node; 0 if it cannot lie there."""
        part, left = self._parts[number], self._left[node]
        if node not in part.nodes or left < max(size, 1) or (part.apart and node in self._laid[number]):
            return 0
        if not part.whole:
            return size
        return left if node in self._field.alone and left == self._field.there[node] else 0

    def _looks(self, node: int) -> tuple[object, ...]:
        """Return all that a lump can tell of a node."""
        on_it = tuple(node in laid for laid in self._laid)
        return self._left[node], node in self._field.alone, self._field.there[node], self._serves[node], on_it

    def _move(self, number: int, node: int, units: int, size: int) -> None:
        laid = self._laid[number]
        laid[node] = laid.get(node, 0) + units
        if not laid[node]:
            del laid[node]
        self._left[node] -= units
        self._missing[number] -= size or units

    def _ends_well(self) -> bool:
        """Return whether all required nodes are served and the smallest lumps find room."""
        others = [number for number in range(len(self._parts)) if number not in self._simple]
        if any(not self._parts[number].required <= self._laid[number].keys() for number in others):
            return False
        self._steps -= _END_COSTS
        given = lumps_of_one_size([self._parts[n] for n in self._simple], self._small, self._left)
        self._ends = given or []
        return given is not None


def lumps_of_one_size(parts: Sequence[PartNeed], size: int, left: dict[int, int]) -> Laid | None:
    """Return where parts lie all of whose lumps have this size, beside others or one on each node.  Exact."""
    room = {node: units // size for node, units in left.items() if units >= size} if size else {}
    obliged = Counter(node for part in parts for node in part.required)
    if any(room.get(node, 0) < count for node, count in obliged.items()):
        return None
    spare = {node: count - obliged[node] for node, count in room.items()}
    most = [
        {n: min(1 - (n in part.required), count) if part.apart else count for n, count in spare.items()}
        for part in parts
    ]
    may = [
        {n: count for n, count in each.items() if count > 0 and n in part.nodes}
        for part, each in zip(parts, most, strict=True)
    ]
    demands = [part.units // size - len(part.required) for part in parts] if size else []
    given = assign(demands, may, spare)
    if given is None:
        return None
    for part, mine in zip(parts, given, strict=True):
        for node in part.required:
            mine[node] = mine.get(node, 0) + 1
    return [{node: count * size for node, count in mine.items()} for mine in given]
