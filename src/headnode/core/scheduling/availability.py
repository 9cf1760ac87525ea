"""What is free from now on, over time.

Running jobs release what they hold when their limits are over; reservations are taken out.  Counted kind
by kind of nodes; names matter only for what starts now (`NodeKinds`).  Whether a job fits is asked of the
placement, on what is free all the time the job would run.

Cost:  `first_fit` O(kinds the request may use + their steps), and a placement where counts suffice.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from math import inf, nextafter
from operator import lt
from typing import NamedTuple

from headnode.core.model.job import UnitType
from headnode.core.model.quantities import Instant
from headnode.core.scheduling import release_profile
from headnode.core.scheduling.candidates import resolved_later, stages
from headnode.core.scheduling.free_resources import Allocation, FreeResources, Placement, amounts_of
from headnode.core.scheduling.gaps import GapDemand, GapIndex, most_in
from headnode.core.scheduling.kind_units import KindUnits
from headnode.core.scheduling.need_over_time import NeedOverTime, is_plain
from headnode.core.scheduling.node_units import NodeUnits
from headnode.core.scheduling.node_view import own_time
from headnode.core.scheduling.placement import at_minimum, find_placement
from headnode.core.scheduling.profile import Profile, Span, first_instants
from headnode.core.scheduling.profiles_beside import Change, NodeChanges, ProfilesBeside
from headnode.core.scheduling.release_profile import (
    NodeKinds,
    NodeReturns,
    expected,
    filled,
    kind_profile,
    spread,
)
from headnode.core.scheduling.request import ResolvedRequest
from headnode.core.scheduling.shadow_reservation import Release

SHUT = 1 << 40  # more than there is of anything: taken out where a need is kept out
_FEW_KINDS = 16  # with as many, a look at the nodes costs less than one at how all kinds change


class Slot(NamedTuple):
    """A future start of a job: the instant, and one placement that is possible then."""

    at: Instant
    fit: Placement


class Availability:
    """The free resources of nodes over time.  The free resources now are only read, to know the nodes.

    Of kinds of several nodes, a slot that begins later names nodes only as examples of their kind.
    """

    def __init__(
        self,
        now: Instant,
        resources: FreeResources,
        kinds: NodeKinds,
        releases: Sequence[Release],
        *,
        amounts: bool,
        shortest: float = 0.0,
    ) -> None:
        self._now, self._resources, self._kinds = now, resources, kinds
        due = expected(releases, now)
        counted = [node for kind in kinds.all for node in kind.nodes] if amounts else []
        self._began, self._returns = resources.copy(), NodeReturns(resources, due)
        self._free = [kind_profile(now, resources, kind, self._returns.of) for kind in kinds.all]
        for kind, profile in zip(kinds.all, self._free, strict=True):
            if resources.node_table.open_for[kind.nodes[0]] < inf:  # so for all of a kind
                profile.close(now + resources.node_table.open_for[kind.nodes[0]])
        self._beside = ProfilesBeside(now, self._began, counted, due)
        self._seen: dict[tuple[tuple[str, ...], int], Profile] = {}  # by who is welcome, of reserved kinds
        self._is_one_kind = len(kinds.all) == 1 and not kinds.all[0].whole
        self._total = (
            self._free[0] if self._is_one_kind else release_profile.total_profile(now, kinds, self._free)
        )
        self._in_all = amounts_of(resources.node_table)
        self._units = KindUnits(kinds, resources.node_table)
        self._gaps = GapIndex(self._free, kinds.all, self._units.shapes, shortest)
        self._node_units = NodeUnits(kinds.all, resources.node_table, shortest)
        self._lowest: tuple[list[float], list[int]] | None = None  # of all kinds together, from now on
        self._started: list[tuple[Allocation, float]] = []  # in this pass, until when
        self._touched: set[int] = set()  # kinds that have changed since the last one

    def is_for(self, kinds: NodeKinds, shortest: float) -> bool:
        """Return whether it can be that of a later pass on these kinds."""
        same = self._kinds is kinds and self._gaps.shortest == shortest
        return same and not self._resources.node_table.changes

    def renew(
        self, now: Instant, resources: FreeResources, releases: Sequence[Release], *, amounts: bool
    ) -> bool:
        """Let it be that of a later pass: with what is free now, and what running jobs release.

        What was taken for later stays taken.  False: it must be made anew.
        """
        if now < self._now or not self._beside.suits(resources, amounts=amounts):
            return False
        self._touched.clear()
        self._beside.begin()
        for piece, end in self._started:
            if end > now:
                self.give(piece, now, end)
            else:
                self._beside.change_spent(Profile.give, piece, now)
        self._started.clear()
        due, returns, kinds = expected(releases, now), self._returns, self._kinds
        differing = returns.differing(due).union(self._began.differing(resources))
        nodes = [node for node in differing if kinds.of[node] >= 0]
        single = [kinds.all[kinds.of[node]]._replace(nodes=(node,)) for node in nodes]
        were = [kind_profile(self._now, self._began, kind, returns.of) for kind in single]
        before = returns.on(nodes)
        returns.change(due)
        for node, kind, was in zip(nodes, single, were, strict=True):
            number, then = kinds.of[node], kind_profile(now, resources, kind, returns.of)
            self._free[number].replace(was, then, now)
            if not self._is_one_kind:
                self._total.replace(was, then, now, kind.size if kind.whole else 1)
            self._touched.add(number)
            self._gaps.change(number)
            self._node_units.change(number)
        self._now, self._resources, self._began = now, resources, resources.copy()
        self._beside.renew(now, self._began, due, NodeChanges(nodes, before, returns.on(nodes)))
        self._lowest = None
        return True

    def has_room_for_all(self) -> bool:
        """Return whether nothing is taken that is not there, of what is not as it was in the last pass."""
        self.forget_past()
        enough = self._beside.has_room_for_all()
        return enough and all(self._free[number].least(self._now, inf) >= 0 for number in self._touched)

    def forget_past(self) -> None:
        """Drop what was before this pass, of what is not as it was in the last one."""
        for number in self._touched:
            self._free[number].forget(self._now)
        self._total.forget(self._now)
        self._beside.forget_past()

    def first_fit(
        self, need: ResolvedRequest, duration: float, after: Instant, until: float = inf
    ) -> Slot | None:
        """Return the first slot for the minimum that begins at or after an instant, and before `until`."""
        if need.impossible or any(self._kinds.of[node] < 0 for node in need.required):
            return None  # a closed node is of no kind
        if need.switches and need.timeout < inf:
            tried = stages(need, self._now, after, until)
            slots = (self.first_fit(each, duration, begin, end) for each, begin, end in tried)
            return next(filter(None, slots), None)
        least, best = at_minimum(need), None
        after, until = self._within_own_time(need, Span(duration, after, until))
        after = Instant(self._total.first_fit(need.minimum, duration, after))  # not before, wherever
        if after < until and need.access is None and len(self._kinds.all) <= _FEW_KINDS:
            found = self._placement(least, after, after + duration)
            if found is not None:
                return Slot(after, found)
        for kinds in self._units.in_alternatives(need) if after < until else ():
            for at in self._instants(least, kinds, Span(duration, after, until)):
                table = self._resources.node_table
                then = least if need.access is None else resolved_later(least, table, at - self._now)
                found = self._placement(then, at, at + duration)
                if found is not None:
                    best, until = Slot(Instant(at), found), at
                    break
        return best

    def first_fit_near(
        self, need: ResolvedRequest, duration: float, after: Instant, until: float, likely: Instant
    ) -> Slot | None:
        """Return the same; faster if the slot begins by a likely instant, as less is looked at until then."""
        if after <= likely < until:
            slot = self.first_fit(need, duration, after, nextafter(likely, inf))
            if slot is not None:
                return slot
            after = likely
        return self.first_fit(need, duration, after, until)

    def _placement(self, need: ResolvedRequest, start: float, end: float) -> Placement | None:
        """Return what a job can have all the time between two instants, as `find_placement` does.

        Equal nodes are only examples later, so no more of them are looked at than are named.
        """
        number = self._only_kind(need) if start > self._now else None
        if number is None:
            return find_placement(need, self.resources(need, start, end))
        kind, wanted = self._kinds.all[number], need.minimum
        if kind.whole:
            wanted = -(-wanted // self._resources.node_table.units_of(need)[kind.nodes[0]])
        return filled(kind, wanted) if self._free[number].least(start, end) >= wanted else None

    def _only_kind(self, need: ResolvedRequest) -> int | None:
        """Return the kind of all nodes that a need may use, if only its count matters for the need."""
        kinds = self._units.in_alternatives(need)
        if [*map(len, kinds)] != [1] or need.parts or need.limits or need.fixed or need.each or need.access:
            return None
        kind = self._kinds.all[kinds[0][0]]
        counted = kind.whole or (len(kind.nodes) > 1 and need.unit is UnitType.PROCESSOR)
        return kinds[0][0] if counted and need.candidates[0] == kind.nodes else None

    def move_up(self, need: ResolvedRequest, duration: float, slot: Slot) -> Slot | None:
        """Move what is taken for a need to its earliest later slot, where nothing but processors matter.

        Return where it is then.  None: it is where it was, because that takes more than counts to tell, or
        it might begin now.
        """
        if not self._is_one_kind or self._only_kind(need) is None or duration == inf:
            return None
        stairs, number = self._free[0], sum([processors for _, processors in slot.fit])
        at = stairs.first_fit(number, duration, self._now, slot.at)
        if at == slot.at:
            return slot
        if at <= self._now:
            return None
        stairs.take(at, min(at + duration, slot.at), number)
        stairs.give(max(at + duration, slot.at), slot.at + duration, number)
        self._gaps.change(0)
        self._lowest = None
        return Slot(Instant(at), filled(self._kinds.all[0], number))

    def may_be_earlier(self, need: ResolvedRequest, duration: float, slot: Slot) -> bool:
        """Return whether enough processors are free, on any nodes, before a slot that is taken for a need."""
        if need.unit is UnitType.NODE:
            return True
        return self._total.first_fit(need.minimum, duration, self._now, slot.at) < slot.at

    def fits_earlier(self, need: ResolvedRequest, duration: float, after: Instant, slot: Slot) -> bool:
        """Return whether nodes are free between an instant and the slot that is taken for a need.

        Where more than counts matter, they may be too few nevertheless.
        """
        if len(self._kinds.all) <= _FEW_KINDS or not self._is_counted(need):
            return True  # or a search costs no more than this
        own, span = self._with_slot(need, duration, slot), Span(duration, after, slot.at)
        return any(
            next(self._gaps.instants(self._demand(need, kinds), span, own), inf) < inf
            for kinds in self._units.in_alternatives(need)
        )

    def _with_slot(self, need: ResolvedRequest, duration: float, slot: Slot) -> dict[int, Profile]:
        """Return what is free of the kinds of a slot with what is taken there: units where amounts count."""
        piece, end = need.piece(slot.fit), slot.at + duration
        own = {kind: self._free[kind].copy() for kind in self._counts(piece)}
        for kind, count in self._counts(piece).items():
            own[kind].give(slot.at, end, count)
        if not need.counts_amounts:
            return own
        amounts = self._beside.amounts_without(piece, slot.at, end)
        return {kind: self._node_units.over_time(need, kind, free, amounts) for kind, free in own.items()}

    def _demand(self, need: ResolvedRequest, kinds: Sequence[int]) -> GapDemand:
        """Return what is asked of these kinds for the minimum of a need."""
        demand = self._units.demand(need, kinds, self._units.worths(need))
        if not (need.counts_amounts and self._is_counted(need)):
            return demand
        return demand._replace(gaps=self._node_units.gaps(need, self._free, self._beside.amounts))

    def _is_counted(self, need: ResolvedRequest) -> bool:
        """Return whether a need fits where enough units are free, if need be on nodes beside each other."""
        return is_plain(need) and not self._beside.of_need(need)

    def _instants(self, need: ResolvedRequest, kinds: Sequence[int], span: Span) -> Iterator[float]:
        """Yield the instants within a span from which the minimum of a need may be free on these kinds."""
        demand = self._demand(need, kinds)
        if self._is_counted(need):
            return self._gaps.instants(demand, span, {})
        useful = self._gaps.useful(demand, span)
        if not useful:
            return iter(())
        table, of = self._resources.node_table, partial(self._for, need)
        amounts, licences = self._beside.amounts, self._beside.of_need(need)
        scene = NeedOverTime(need, span, self._kinds, table, of, amounts, licences)
        worths = [demand.worths[self._units.shapes[kind]] for kind in useful]
        return first_instants(scene.demands(useful, worths), span.after, span.until)

    def _within_own_time(self, need: ResolvedRequest, span: Span) -> tuple[Instant, float]:
        """Return between which instants a need must begin that is for one reservation only."""
        duration, after, until = span
        access, reserved = need.access, self._resources.node_table.reserved
        if access is None or not access.reservation:
            return Instant(after), until
        own = next((time for times in reserved if (time := own_time(times, access)) is not None), None)
        if own is None:
            return Instant(after), after
        begins, ends = self._now + own.begins, self._now + own.ends
        last = nextafter(ends - duration, inf) if own.limits else ends
        return Instant(max(after, begins)), min(until, last)

    def _for(self, need: ResolvedRequest, kind: int) -> Profile:
        """Return what is free of a kind for a need: nothing while it is reserved for others."""
        times = self._resources.node_table.reserved[self._kinds.all[kind].nodes[0]]
        access = need.access
        if access is None or not times:
            return self._free[kind]
        known = self._seen.get((access.open_reservations, kind))
        if known is None:
            known = self._seen[access.open_reservations, kind] = self._free[kind].copy()
            for each in times:
                if each.name not in access.open_reservations and each.ends > 0:
                    known.take(self._now + max(each.begins, 0.0), self._now + each.ends, SHUT)
        return known

    def resources(self, need: ResolvedRequest, start: float, end: float) -> FreeResources:
        """Return what is free all the time between two instants; if it starts now, on which nodes it is.

        Of licences only those of the need; of amounts, too, and of nodes of which a processor is free.  It is
        only to be read.
        """
        real, node_table = self._resources, self._resources.node_table
        now = start <= self._now
        free = [0] * len(node_table.names)
        for number, count in self._gaps.lasting(max(start, self._now), end):
            kind = self._kinds.all[number]
            if len(kind.nodes) == 1:
                free[kind.nodes[0]] = count
            elif count > 0:
                spread(kind, count, free, real if now else None)
        holders: list[int] = list(map(lt, free, node_table.processors))
        amounts = self._beside.amounts_of(need, real.amounts if now else self._in_all, free, (start, end))
        licences = {feature: stairs.least(start, end) for feature, stairs in self._beside.of_need(need)}
        return FreeResources(
            node_table, free, real.jobs if now else holders, [False] * len(free), amounts, licences
        )

    def may_last(self, need: ResolvedRequest, end: float) -> bool:
        """Return whether enough is free from now until an instant; where more than counts matter, perhaps.

        What does not last never will, if only takes follow.
        """
        if self._lowest is None:
            self._lowest = self._total.lowest(self._now)
        times, least = self._lowest
        if least[max(bisect_left(times, end), 1) - 1] < need.minimum:
            return False
        if len(self._kinds.all) <= _FEW_KINDS or not self._is_counted(need):
            return True
        there = self._units.worth(need, self._gaps.lasting(self._now, end))
        if need.counts_amounts:
            if end - self._now < self._gaps.shortest:
                return True
            gaps = self._node_units.gaps(need, self._free, self._beside.amounts)
            there = {kind: most_in(gaps(kind), self._now, end) for kind, units in there.items() if units}
        return self._units.suffice(need, there)

    def has_room(self, piece: Allocation, start: float, end: float) -> bool:
        """Return whether so much is free all the time between two instants, kind by kind."""
        counts = self._counts(piece).items()
        free = all(self._free[kind].least(start, end) >= count for kind, count in counts)
        if free and not self._is_one_kind:
            free = self._total.least(start, end) >= sum([processors for _, processors in piece.fit])
        return free and self._beside.has_room(piece, start, end)

    def take(self, piece: Allocation, start: float, end: float) -> None:
        """Take a piece from one instant until another."""
        self._change(Profile.take, piece, start, end)

    def start(self, piece: Allocation, end: float) -> None:
        """Take a piece from now on for a job that starts."""
        self.take(piece, self._now, end)
        self._started.append((piece, end))

    def give(self, piece: Allocation, start: float, end: float) -> None:
        """Give back a piece that was taken."""
        self._change(Profile.give, piece, start, end)

    def _change(
        self,
        change: Change,
        piece: Allocation,
        start: float,
        end: float,
    ) -> None:
        for kind, count in self._counts(piece).items():
            change(self._free[kind], start, end, count)
            for (_, number), stairs in self._seen.items():
                if number == kind:
                    change(stairs, start, end, count)
            self._touched.add(kind)
            self._gaps.change(kind)
            self._node_units.change(kind)
        self._lowest = None
        if not self._is_one_kind:
            change(self._total, start, end, sum([processors for _, processors in piece.fit]))
        self._beside.change(change, piece, start, end)

    def _counts(self, piece: Allocation) -> Counter[int]:
        """Return what a piece takes of each kind of node."""
        counts = Counter[int]()
        for node, processors in piece.fit:
            kind = self._kinds.of[node]
            counts[kind] += 1 if self._kinds.all[kind].whole else processors
        return counts
