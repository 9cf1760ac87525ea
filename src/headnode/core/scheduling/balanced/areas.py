"""Which jobs compete for the same nodes, directly or through others; each such area is shared out alone."""

from collections.abc import Sequence

from headnode.core.scheduling.balanced.lenders import Lender
from headnode.core.scheduling.board import Board


class Area:
    """Jobs, in turn, and the nodes that some of them could use or has."""

    def __init__(self) -> None:
        self.jobs: list[Lender] = []
        self.nodes: list[int] = []

    def free(self, board: Board, unused: Sequence[int]) -> int:
        """Return how many processors are free for somebody, but for so many of each node."""
        whole = all(lender.need.whole for lender in self.jobs)
        there = [n for n in self.nodes if not board.owned[n] and (not whole or board.is_idle(n))]
        return sum(max(0, board.free[node] - unused[node]) for node in there)


def areas(lenders: Sequence[Lender], nodes: int) -> list[Area]:
    """Return the areas of so many nodes; what nobody could use is in none.

    Cost:  O(nodes) for each kind of job that asks for nodes of its own.
    """
    parents = list(range(nodes))

    def root(node: int) -> int:
        while parents[node] != node:
            parents[node] = parents[parents[node]]
            node = parents[node]
        return node

    known: set[int] = set()
    reached: dict[int, None] = {}
    for lender in lenders:
        orders = () if lender.need.rules in known else lender.need.candidates
        known.add(lender.need.rules)
        for order in (*orders, tuple(lender.holds)):
            reached.update(dict.fromkeys(order))
            for node in order:
                parents[root(node)] = root(order[0])
        for order in lender.need.candidates[:1]:
            for node in order[:1]:
                parents[root(node)] = root(next(iter(lender.holds)))
    found: dict[int, Area] = {}
    for lender in lenders:
        found.setdefault(root(next(iter(lender.holds))), Area()).jobs.append(lender)
    for node in reached:
        if root(node) in found:
            found[root(node)].nodes.append(node)
    return list(found.values())
