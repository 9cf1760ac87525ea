"""How much of all that a job needs is free over time, for the search of a slot."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from headnode.core.model.job import UnitType
from headnode.core.scheduling.gaps import Worth
from headnode.core.scheduling.node_table import NodeTable
from headnode.core.scheduling.profile import AmountChanges, AmountDemand, Profile, Span
from headnode.core.scheduling.release_profile import NodeKind, NodeKinds
from headnode.core.scheduling.request import ResolvedRequest


class NeedOverTime(NamedTuple):
    """A need, the span in which it is to begin, and what is free over time of all that it takes."""

    need: ResolvedRequest
    span: Span
    kinds: NodeKinds
    node_table: NodeTable
    free_of: Callable[[int], Profile]  # of a kind, for this need
    amounts: Sequence[Mapping[int, Profile]]  # memory, disk, swap and GPUs by node
    licences: Sequence[tuple[str, Profile]]

    def demands(self, kinds: Sequence[int], worths: Sequence[Worth]) -> list[AmountDemand]:
        """Return what must come together for the minimum on these kinds of nodes."""
        need = self.need
        amounts = [
            self._over_time(self.free_of(kind), worth) for kind, worth in zip(kinds, worths, strict=True)
        ]
        demands = [AmountDemand(amounts, 1 if need.single else need.minimum)]
        for node in need.required:
            demands.append(AmountDemand([self._over_time(self.free_of(self.kinds.of[node]), _as_is)], 1))
        if need.share:
            demands.append(AmountDemand([self._idle_units(kind) for kind in kinds], need.share))
        for part in need.parts if not need.single else ():
            there = zip(kinds, amounts, strict=True)
            mine = [amount for kind, amount in there if self.kinds.all[kind].nodes[0] in part.nodes]
            demands.append(AmountDemand(mine, part.units))
        for feature, stairs in self.licences:
            rate = need.timed.get(feature)
            wanted = need.fixed.get(feature, 0) + (feature in need.each) + (rate.seconds if rate else 0)
            demands.append(AmountDemand([self._over_time(stairs, _as_is)], wanted))
        if need.counts_amounts:
            demands.append(AmountDemand(list(self._amounts_over_time(kinds)), 0))
        return demands

    def _amounts_over_time(self, kinds: Sequence[int]) -> Iterator[AmountChanges]:
        """Yield the memory, disk, swap and GPUs of each node that the need takes some of.

        Whether they suffice is asked of the placement; but it is asked again when there are more of them,
        though as many processors are free as before.
        """
        held = self.need.held
        takes = self.need.memory or held.memory, held.disk, held.swap, self.need.processors_per_gpu
        for rooms, taken in zip(self.amounts, takes, strict=True):
            if taken and rooms:
                for kind in kinds:
                    for node in self.kinds.all[kind].nodes:
                        yield self._over_time(rooms[node], _as_is)

    def _idle_units(self, kind: int) -> AmountChanges:
        (node, *_), size, _ = self.kinds.all[kind]
        units = self.node_table.units_of(self.need)[node]
        return self._over_time(self.free_of(kind), lambda count: units * (count == size))

    def _over_time(self, stairs: Profile, worth: Worth) -> AmountChanges:
        """Return what the least that is free for the duration is worth, by when it begins."""
        windows = stairs.windows(*self.span)
        return [(at, above, worth(count) if count > 0 else 0) for at, above, count in windows]


def is_plain(need: ResolvedRequest) -> bool:
    """Return whether a need fits on any nodes of its alternatives where enough units are free of all of them.

    Licences aside, and if nodes are reserved for nobody.
    """
    special = need.single or need.share or need.required or need.parts or need.counts_amounts
    special = special or need.switches
    return not special and need.access is None


def worth_of(need: ResolvedRequest, kind: NodeKind, node_table: NodeTable) -> Worth:
    """Return how many units so much of a kind is at most; for jobs on one node, whether it is enough."""
    node, size = kind.nodes[0], kind.size
    units = node_table.units_of(need)[node]
    if kind.whole:
        return lambda count: count * units
    if need.single:
        return lambda count: int(
            (count // size * units if need.whole else count * units // size) >= need.minimum
        )
    if need.whole:
        return lambda count: count // size * units
    if need.unit is UnitType.PROCESSOR:
        return _as_is
    if need.unit is UnitType.GPU:
        each = need.processors_per_gpu
        return lambda count: min(count // each, units)
    return lambda count: count * units // size


def _as_is(count: int) -> int:
    return count
