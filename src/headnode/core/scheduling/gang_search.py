"""Ways to lay the parts of a gang on nodes: in order, by matching, and by a search with a bound.

In order: exact for one part alone, unless it has lumps of several sizes and nodes that it must be on.

Lumps of the smallest size need no search: whether there is room for them is known at the end, by matching.

Source: Ford and Fulkerson, "Maximal flow through a network", 1956; shortest paths first.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from headnode.core.scheduling.request import ResolvedPart

GangUnits = list[dict[int, int]]
"""For each part, how many units it holds of each node."""


class OfferedUnits(NamedTuple):
    """The units that each node offers, in the order in which nodes are used."""

    there: Mapping[int, int]
    alone: frozenset[int]  # nodes that a part may have for itself


def lay_in_order(
    parts: Sequence[ResolvedPart], turns: Iterable[int], field: OfferedUnits
) -> GangUnits | None:
    """Return where the parts lie when they are laid in these turns; None if one finds no room."""
    left = dict(field.there)
    laid: GangUnits = [{} for _ in parts]
    for number in turns:
        found = _taken(parts[number], left, field)
        if found is None:
            return None
        laid[number] = found
        for node, units in found.items():
            left[node] -= units
    return laid


def _taken(part: ResolvedPart, left: Mapping[int, int], field: OfferedUnits) -> dict[int, int] | None:
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


def _one_on_each(part: ResolvedPart, free: Mapping[int, int]) -> dict[int, int] | None:
    """Large lumps choose first: what is large enough for them is for all others."""
    found: dict[int, int] = {}
    for size, times in part.lumps:
        nodes = [node for node, units in free.items() if units >= size and node not in found][:times]
        if len(nodes) < times:
            return None
        found |= {node: free[node] if part.whole else size for node in nodes}
    return found


def _covering(part: ResolvedPart, free: Mapping[int, int]) -> dict[int, int] | None:
    """Take whole nodes until they have units enough; each required one is taken."""
    found: dict[int, int] = {}
    missing = part.units
    for node, units in free.items():
        if missing <= 0 and node not in part.required:
            break
        found[node] = units
        missing -= units
    return found if missing <= 0 else None


def _many_on_each(part: ResolvedPart, free: Mapping[int, int]) -> dict[int, int] | None:
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


def _first_fullest(most: Mapping[int, int], needed: int) -> dict[int, int] | None:
    counts: dict[int, int] = {}
    for node, room in most.items():
        if not needed:
            break
        counts[node] = min(room, needed)
        needed -= counts[node]
    return None if needed else counts


def _evenly(most: Mapping[int, int], needed: int) -> dict[int, int] | None:
    """Return one on each node before the second on any, as far as there is room."""
    if sum(most.values()) < needed:
        return None
    low, high = 0, needed  # so many on each are not too many; so many may be
    while low < high:
        level = (low + high + 1) // 2
        if sum(min(room, level) for room in most.values()) <= needed:
            low = level
        else:
            high = level - 1
    counts = {node: min(room, low) for node, room in most.items()}
    rest = needed - sum(counts.values())
    for node, room in most.items():
        if rest and room > low:
            counts[node] += 1
            rest -= 1
    return counts


Matching = list[dict[int, int]]
"""For each claimant, how much of each node it has."""


def match_claims(
    demands: Sequence[int], most: Sequence[Mapping[int, int]], room: Mapping[int, int]
) -> Matching | None:
    """Return an assignment of nodes that meets every claimant's demand, or None if there is none.

    `most` says how much of each node a claimant may have at most; nodes are taken in its order.
    Cost:  O(claimants * nodes) for each path, and few paths where there is plenty.

    >>> match_claims((1, 1), ({1: 1, 2: 1}, {1: 1}), {1: 1, 2: 1})
    [{2: 1}, {1: 1}]
    """
    if sum(demands) > sum(room.values()):
        return None
    claims = _Claims(most, room)
    for claimant in sorted(range(len(demands)), key=lambda each: (len(most[each]), each)):
        missing = demands[claimant] - claims.take(claimant, demands[claimant])
        while missing:
            made = claims.make_room(claimant, missing)
            if not made:
                return None
            missing -= made
    return claims.assigned


class _Claims:
    """The units assigned to each claimant, and the units left of each node."""

    def __init__(self, most: Sequence[Mapping[int, int]], room: Mapping[int, int]) -> None:
        self._most, self._left = most, dict(room)
        self.assigned: Matching = [{} for _ in most]

    def take(self, claimant: int, needed: int) -> int:
        """Take what is free; return how much that is."""
        left, mine, missing = self._left, self.assigned[claimant], needed
        for node, most in self._most[claimant].items():
            count = min(missing, most, left.get(node, 0))
            if count > 0:
                mine[node] = count
                left[node] -= count
                missing -= count
            if not missing:
                break
        return needed - missing

    def make_room(self, claimant: int, needed: int) -> int:
        """Let others move elsewhere so that the claimant gets more; return how much more, 0 if none."""
        path = self._path(claimant)
        if not path:
            return 0
        amount = min(needed, self._left[path[-1][1]])
        for place, (each, node) in enumerate(path):
            amount = min(amount, self._most[each][node] - self.assigned[each].get(node, 0))
            if place:
                amount = min(amount, self.assigned[each][path[place - 1][1]])
        for place, (each, node) in enumerate(path):
            self._change(each, node, amount)
            if place:
                self._change(each, path[place - 1][1], -amount)
        self._left[path[-1][1]] -= amount
        return amount

    def _change(self, claimant: int, node: int, by: int) -> None:
        mine = self.assigned[claimant]
        mine[node] = mine.get(node, 0) + by
        if not mine[node]:
            del mine[node]

    def _path(self, claimant: int) -> list[tuple[int, int]]:
        """Return moves in a chain: the claimant takes the first node, the part there the next one."""
        taker: dict[int, int] = {}  # of a node
        leaves: dict[int, int] = {}  # which node a claimant makes room on
        queue = deque([claimant])
        while queue:
            each = queue.popleft()
            mine = self.assigned[each]
            for node, most in self._most[each].items():
                if node in taker or mine.get(node, 0) >= most:
                    continue
                taker[node] = each
                if self._left.get(node, 0) > 0:
                    return self._traced(claimant, node, taker, leaves)
                for other, theirs in enumerate(self.assigned):
                    if node in theirs and other != claimant and other not in leaves:
                        leaves[other] = node
                        queue.append(other)
        return []

    @staticmethod
    def _traced(
        claimant: int, node: int, taker: Mapping[int, int], leaves: Mapping[int, int]
    ) -> list[tuple[int, int]]:
        path = [(taker[node], node)]
        while path[-1][0] != claimant:
            node = leaves[path[-1][0]]
            path.append((taker[node], node))
        return path[::-1]


MAX_STEPS = 1_500
MAX_LUMPS = 200  # that are searched for one by one
_END_COSTS = 10  # steps

_Item = tuple[int, int]
"""A part and the size of one of its lumps; size 0: whole nodes until it has enough."""


def search_layout(parts: Sequence[ResolvedPart], field: OfferedUnits) -> GangUnits | None:
    """Return where the parts lie, or None when there is no way, or none was found within the bound."""
    small = min((part.lumps[-1][0] for part in parts if not part.whole and part.lumps), default=0)
    simple = [number for number, part in enumerate(parts) if not part.whole and part.size == small]
    return _LumpSearch(parts, field, simple, small).found()


class _LumpSearch:
    """Lays lump after lump, the large ones first; of nodes that look alike only the first is tried."""

    def __init__(
        self, parts: Sequence[ResolvedPart], field: OfferedUnits, simple: Sequence[int], small: int
    ) -> None:
        self._parts, self._field = parts, field
        self._simple, self._small = simple, small
        self._left = dict(field.there)
        self._laid: GangUnits = [{} for _ in parts]
        self._nodes = list(field.there)
        self._serves = {
            node: tuple((node in part.nodes, node in part.required) for part in parts) for node in self._nodes
        }
        self._missing = [part.units for part in parts]
        self._steps = MAX_STEPS
        self._ends: GangUnits = []

    def found(self) -> GangUnits | None:
        """Return where the parts lie."""
        items = list(self._items())
        if len(items) > MAX_LUMPS or not self._lay(items, 0, 0):
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
            yield from [(number, -size)] * min(times, MAX_LUMPS + 1)

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
        given = lay_equal_lumps([self._parts[n] for n in self._simple], self._small, self._left)
        self._ends = given or []
        return given is not None


def lay_equal_lumps(parts: Sequence[ResolvedPart], size: int, units_left: dict[int, int]) -> GangUnits | None:
    """Return the layout of parts whose chunks all have this size, packed or one on each node.  Exact."""
    room = {node: units // size for node, units in units_left.items() if units >= size} if size else {}
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
    given = match_claims(demands, may, spare)
    if given is None:
        return None
    for part, mine in zip(parts, given, strict=True):
        for node in part.required:
            mine[node] = mine.get(node, 0) + 1
    return [{node: count * size for node, count in mine.items()} for mine in given]
