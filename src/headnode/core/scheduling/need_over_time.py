"""How much of all that a job needs is free over time, for the search of a slot."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
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
        need, exact = self.need, self._units_tell()
        amounts = [
            self._units(kind, worth) if exact else self._over_time(self.free_of(kind), worth)
            for kind, worth in zip(kinds, worths, strict=True)
        ]
        demands = [AmountDemand(amounts, 1 if need.single else need.minimum)]
        if need.contiguous:
            demands.append(AmountDemand([self._row_over_time(kinds, amounts)], 1))
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
        if need.counts_amounts and not exact:
            demands.append(AmountDemand(list(self._amounts_over_time(kinds)), 0))
        return demands

    def _amounts_over_time(self, kinds: Sequence[int]) -> Iterator[AmountChanges]:
        """Yield the memory, disk, swap and GPUs of each node that the need takes some of.

        Whether they suffice is asked of the placement; but it is asked again when there are more of them,
        though as many processors are free as before.
        """
        for rooms, taken in zip(self.amounts, self.need.takes, strict=True):
            if taken and rooms:
                for kind in kinds:
                    for node in self.kinds.all[kind].nodes:
                        yield self._over_time(rooms[node], _as_is)

    def _units_tell(self) -> bool:
        """Return whether the units of each node, amounts included, tell whether the need fits."""
        need = self.need
        special = need.whole or need.share or need.required or need.parts or need.switches
        return need.counts_amounts and not special

    def _units(self, kind: int, worth: Worth) -> AmountChanges:
        """Return how many units a node has for the duration, by when it begins, for all that a need takes."""
        free = list(self._over_time(self.free_of(kind), worth))
        most = max(units for _, _, units in free)
        if not most:
            return free
        node = self.kinds.all[kind].nodes[0]
        duration, after, until = self.span
        courses = [free]
        for rooms, limit in zip(self.amounts, amount_limits(self.need, self.node_table, node), strict=True):
            if limit is not None and rooms and limit(rooms[node].least(after, until + duration)) < most:
                windows = rooms[node].windows(*self.span)
                courses.append([(at, above, max(0, limit(amount))) for at, above, amount in windows])
        return free if len(courses) == 1 else lowest_of(courses)

    def _row_over_time(self, kinds: Sequence[int], amounts: Sequence[AmountChanges]) -> AmountChanges:
        """Return 1 while contiguous nodes have enough units for the minimum, and 0 while they have not."""
        from headnode.core.scheduling.contiguous import rows_of, rows_over_time  # few jobs ask for it

        nodes = [self.kinds.all[kind].nodes[0] for kind in kinds]
        return rows_over_time(rows_of(self.need, self.node_table), zip(nodes, amounts, strict=True))

    def _idle_units(self, kind: int) -> AmountChanges:
        (node, *_), size, _ = self.kinds.all[kind]
        units = self.node_table.units_of(self.need)[node]
        return self._over_time(self.free_of(kind), lambda count: units * (count == size))

    def _over_time(self, stairs: Profile, worth: Worth) -> AmountChanges:
        """Return what the least that is free for the duration is worth, by when it begins."""
        windows = stairs.windows(*self.span)
        return [(at, above, worth(count) if count > 0 else 0) for at, above, count in windows]


def is_plain(need: ResolvedRequest) -> bool:
    """Return whether a need fits where enough units are free: on any nodes, or on nodes beside each other.

    Of one of its alternatives, licences aside, and if nodes are reserved for nobody.
    """
    special = need.single or need.share or need.required or need.parts or need.switches
    return not (special or (need.whole and need.counts_amounts)) and need.access is None


def amount_limits(need: ResolvedRequest, node_table: NodeTable, node: int) -> list[Worth | None]:
    """Return how many units so much of each amount of a node allows; None: the need takes none of it.

    For a job on one node, whether it is enough.
    """
    units, size, held = node_table.units_of(need)[node], node_table.processors[node], need.held
    each, memory, disk, swap = need.processors_per_gpu, need.memory, held.disk, held.swap

    def by_memory(amount: int) -> int:
        if not memory:
            return units if amount >= held.memory else 0
        processors = (amount - held.memory) // memory
        return processors // each if each else processors * units // size

    limits = [
        by_memory if memory or held.memory else None,
        (lambda amount: units if amount >= disk else 0) if disk else None,
        (lambda amount: units if amount >= swap else 0) if swap else None,
        _as_is if each else None,
    ]
    if not need.single:
        return limits
    return [None if one is None else partial(_is_enough, one, need.minimum) for one in limits]


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


def lowest_of(courses: Sequence[AmountChanges]) -> AmountChanges:
    """Return the lowest of several amounts over time.

    >>> list(lowest_of([[(0, False, 4), (5, True, 1)], [(0, False, 2), (7, False, 0)]]))
    [(0, False, 2), (5, True, 1), (7, False, 0)]
    """
    changes = sorted(
        (at, above, which, amount) for which, course in enumerate(courses) for at, above, amount in course
    )
    current, found = [0] * len(courses), list[tuple[float, bool, int]]()
    for at, above, which, amount in changes:
        current[which] = amount
        if found and found[-1][:2] == (at, above):
            found.pop()
        least = min(current)
        if not found or found[-1][2] != least:
            found.append((at, above, least))
    return found


def _is_enough(limit: Worth, minimum: int, amount: int) -> int:
    return int(limit(amount) >= minimum)


def _as_is(count: int) -> int:
    return count
