"""Who gets how much of which node, when each may use only some: exact, by paths that make room.

Source: Ford and Fulkerson, "Maximal flow through a network", 1956; shortest paths first.
"""

from collections import deque
from collections.abc import Mapping, Sequence

Given = list[dict[int, int]]
"""For each claimant, how much of each node it has."""


def assign(
    demands: Sequence[int], most: Sequence[Mapping[int, int]], room: Mapping[int, int]
) -> Given | None:
    """Give every claimant what it demands out of the nodes' room, or return None if nobody could.

    `most` says how much of each node a claimant may have at most; nodes are taken in its order.
    Cost:  O(claimants * nodes) for each path, and few paths where there is plenty.

    >>> assign((1, 1), ({1: 1, 2: 1}, {1: 1}), {1: 1, 2: 1})
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
    return claims.given


class _Claims:
    """What is given, and what is left of each node."""

    def __init__(self, most: Sequence[Mapping[int, int]], room: Mapping[int, int]) -> None:
        self._most, self._left = most, dict(room)
        self.given: Given = [{} for _ in most]

    def take(self, claimant: int, wanted: int) -> int:
        """Take what is free; return how much that is."""
        left, mine, missing = self._left, self.given[claimant], wanted
        for node, most in self._most[claimant].items():
            count = min(missing, most, left.get(node, 0))
            if count > 0:
                mine[node] = count
                left[node] -= count
                missing -= count
            if not missing:
                break
        return wanted - missing

    def make_room(self, claimant: int, wanted: int) -> int:
        """Let others move elsewhere so that the claimant gets more; return how much more, 0 if none."""
        path = self._path(claimant)
        if not path:
            return 0
        amount = min(wanted, self._left[path[-1][1]])
        for place, (each, node) in enumerate(path):
            amount = min(amount, self._most[each][node] - self.given[each].get(node, 0))
            if place:
                amount = min(amount, self.given[each][path[place - 1][1]])
        for place, (each, node) in enumerate(path):
            self._change(each, node, amount)
            if place:
                self._change(each, path[place - 1][1], -amount)
        self._left[path[-1][1]] -= amount
        return amount

    def _change(self, claimant: int, node: int, by: int) -> None:
        mine = self.given[claimant]
        mine[node] = mine.get(node, 0) + by
        if not mine[node]:
            del mine[node]

    def _path(self, claimant: int) -> list[tuple[int, int]]:
        """Return who takes what: the claimant the first node, whoever leaves that one the next, and so on."""
        taker: dict[int, int] = {}  # of a node
        leaves: dict[int, int] = {}  # which node a claimant makes room on
        queue = deque([claimant])
        while queue:
            each = queue.popleft()
            mine = self.given[each]
            for node, most in self._most[each].items():
                if node in taker or mine.get(node, 0) >= most:
                    continue
                taker[node] = each
                if self._left.get(node, 0) > 0:
                    return self._traced(claimant, node, taker, leaves)
                for other, theirs in enumerate(self.given):
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
