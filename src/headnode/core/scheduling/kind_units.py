"""How many units kinds of nodes have for a need, by what is free of them."""

from collections.abc import Iterable, Mapping, Sequence

from headnode.core.scheduling.gaps import GapDemand, Rows, Worth
from headnode.core.scheduling.need_over_time import worth_of
from headnode.core.scheduling.node_table import NodeTable
from headnode.core.scheduling.release_profile import NodeKinds, shapes_of
from headnode.core.scheduling.request import ResolvedRequest


class KindUnits:
    """The kinds that a need may use, and what counts of them are worth.

    `shapes` has a number for each kind, the same where equal counts are worth the same.
    """

    def __init__(self, kinds: NodeKinds, node_table: NodeTable) -> None:
        self._kinds, self._node_table = kinds, node_table
        self.shapes, self._examples = shapes_of(kinds.all, node_table)
        self._in: dict[int, list[list[int]]] = {}  # each alternative, by rules
        self._places: Mapping[int, int] | None = None  # of kinds in the order of names

    def in_alternatives(self, need: ResolvedRequest) -> list[list[int]]:
        """Return the kinds in each of a need's alternatives."""
        known = self._in.get(need.rules) if need.rules >= 0 else None
        if known is None:
            of = self._kinds.of
            known = [list(dict.fromkeys([of[node] for node in order])) for order in need.candidates]
            self._in[need.rules] = known
        return known

    def worths(self, need: ResolvedRequest) -> list[Worth]:
        """Return what counts of the kinds of each shape are worth."""
        return [worth_of(need, kind, self._node_table) for kind in self._examples]

    def demand(self, need: ResolvedRequest, kinds: Sequence[int], worths: Sequence[Worth]) -> GapDemand:
        """Return what is asked of these kinds for the minimum of a need."""
        every = len(kinds) == len(self._kinds.all)
        rows = self._rows(need) if need.contiguous else None
        return GapDemand(1 if need.single else need.minimum, worths, None if every else kinds, rows)

    def worth(self, need: ResolvedRequest, free: Iterable[tuple[int, int]]) -> dict[int, int]:
        """Return how many units so much of kinds is."""
        worths, shapes = self.worths(need), self.shapes
        return {kind: worths[shapes[kind]](count) for kind, count in free}

    def suffice(self, need: ResolvedRequest, there: Mapping[int, int]) -> bool:
        """Return whether so many units of kinds are enough, if need be on nodes beside each other."""
        every = len(self._kinds.all)
        for kinds in self.in_alternatives(need):
            some = there if len(kinds) == every else {k: there[k] for k in kinds if k in there}
            if sum(some.values()) >= need.minimum and (not need.contiguous or self._in_row(need, some)):
                return True
        return False

    def _in_row(self, need: ResolvedRequest, units: Mapping[int, int]) -> bool:
        rows = self._rows(need)
        for kind, count in units.items():
            rows.change(kind, count)
        return rows.suffice()

    def _rows(self, need: ResolvedRequest) -> Rows:
        """Return rows of kinds without units, for the minimum of a need whose kinds are of one node each."""
        from headnode.core.scheduling.contiguous import NodeRows, places_of  # few jobs ask for it

        if self._places is None:
            places = places_of(self._node_table)
            self._places = {kind: places[nodes[0]] for kind, (nodes, _, _) in enumerate(self._kinds.all)}
        return NodeRows(need.minimum, self._places, len(self._node_table.names))
