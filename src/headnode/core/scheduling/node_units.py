"""How many units nodes have for needs that take memory, disk, swap or GPUs: as much as all of it allows.

Needs that take the same of a node share what is known of it.  Units are worked out for nodes that are asked
for, and again when what is free of a node has changed.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from headnode.core.model.job import HeldAmounts, UnitType
from headnode.core.scheduling.gaps import Gap, GapsOfKind, gaps_of
from headnode.core.scheduling.need_over_time import amount_limits, lowest_of, worth_of
from headnode.core.scheduling.node_table import NodeTable
from headnode.core.scheduling.profile import Profile
from headnode.core.scheduling.release_profile import NodeKind
from headnode.core.scheduling.request import ResolvedRequest

_MAX_REMEMBERED = 100_000  # gaps of nodes

AmountProfiles = Sequence[Mapping[int, Profile]]
"""What is free over time of memory, disk and swap, and GPUs, by node."""


class _Takes(NamedTuple):
    """What a need takes of a node for each of its units: equal ones have the same units of each node."""

    unit: UnitType
    memory: int
    held: HeldAmounts
    processors_per_gpu: int


class NodeUnits:
    """The units of kinds of single nodes over time, and the gaps of these, by what a need takes."""

    def __init__(self, kinds: Sequence[NodeKind], node_table: NodeTable, shortest: float) -> None:
        self._kinds, self._node_table, self._shortest = kinds, node_table, shortest
        self._changes = [0] * len(kinds)  # how often each has changed
        self._gaps: dict[tuple[_Takes, int], tuple[int, Sequence[Gap]]] = {}

    def change(self, kind: int) -> None:
        """Note that something else is free of a kind."""
        self._changes[kind] += 1

    def gaps(self, need: ResolvedRequest, free: Sequence[Profile], amounts: AmountProfiles) -> GapsOfKind:
        """Return a function that returns the gaps of a kind in units of a need, by what is free."""
        takes = _Takes(need.unit, need.memory, need.held, need.processors_per_gpu)
        return partial(self._gaps_of, takes, lambda kind: self.over_time(need, kind, free[kind], amounts))

    def over_time(self, need: ResolvedRequest, kind: int, free: Profile, amounts: AmountProfiles) -> Profile:
        """Return the units of a kind over time, with what is free of its processors and of all amounts."""
        node, worth = self._kinds[kind].nodes[0], worth_of(need, self._kinds[kind], self._node_table)
        courses = [[(at, False, worth(count) if count > 0 else 0) for at, count in free.stairs()]]
        for rooms, limit in zip(amounts, amount_limits(need, self._node_table, node), strict=True):
            if limit is not None and rooms:
                there = rooms[node].stairs()
                courses.append([(at, False, max(0, limit(amount))) for at, amount in there])
        return Profile.of_stairs((at, units) for at, _, units in lowest_of(courses))

    def _gaps_of(self, takes: _Takes, over_time: Callable[[int], Profile], kind: int) -> Sequence[Gap]:
        changes, known = self._changes[kind], self._gaps.get((takes, kind))
        if known is not None and known[0] == changes:
            return known[1]
        if len(self._gaps) >= _MAX_REMEMBERED:
            self._gaps.clear()
        found = gaps_of(over_time(kind), self._shortest)
        self._gaps[takes, kind] = changes, found
        return found
