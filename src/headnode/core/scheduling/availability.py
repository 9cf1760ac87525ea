"""What is free from now on, over time.

Running jobs release what they hold when their limits are over; reservations are taken out.  Counted kind
by kind of nodes; names matter only for what starts now (`NodeKinds`).  Whether a job fits is asked of the
placement, on what is free all the time the job would run.

Cost:  `first_fit` O(kinds the request may use + their steps), and a placement where counts suffice.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from math import inf, nextafter
from operator import lt
from typing import NamedTuple

from headnode.core.model.job import UnitType
from headnode.core.model.owner_limits import is_spent
from headnode.core.model.quantities import Instant
from headnode.core.scheduling import release_profile
from headnode.core.scheduling.free_resources import Allocation, FreeResources, Placement, amounts_of
from headnode.core.scheduling.node_view import own_time
from headnode.core.scheduling.placement import at_minimum, find_placement
from headnode.core.scheduling.profile import AmountChanges, AmountDemand, Profile, Span, first_instants
from headnode.core.scheduling.release_profile import NodeKind, NodeKinds, filled, shapes_of, spread
from headnode.core.scheduling.request import ResolvedRequest, resolved_later
from headnode.core.scheduling.shadow_reservation import Release

SHUT = 1 << 40  # more than there is of anything: taken out where a need is kept out
_FEW_KINDS = 16  # with as many, a look at the nodes costs less than one at how all kinds change
OVERDUE = 1.0  # seconds that a job over its limit is expected to go on


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
    ) -> None:
        self._now, self._resources, self._kinds = now, resources, kinds
        self._kinds_in: dict[int, list[list[int]]] = {}  # of each alternative, by rules
        due = [each if each.at > now else each._replace(at=Instant(now + OVERDUE)) for each in releases]
        counted = [node for kind in kinds.all for node in kind.nodes] if amounts else []
        self._free = release_profile.kind_profiles(now, resources, kinds, due)
        for kind, profile in zip(kinds.all, self._free, strict=True):
            if resources.node_table.open_for[kind.nodes[0]] < inf:  # so for all of a kind
                profile.close(now + resources.node_table.open_for[kind.nodes[0]])
        self._amounts = release_profile.amount_profiles(now, resources, counted, due)
        self._licences = release_profile.licence_profiles(now, resources, due)
        self._seen: dict[tuple[tuple[str, ...], int], Profile] = {}  # by who is welcome, of reserved kinds
        self._is_one_kind = len(kinds.all) == 1 and not kinds.all[0].whole
        self._total = (
            self._free[0] if self._is_one_kind else release_profile.total_profile(now, kinds, self._free)
        )
        self._in_all = amounts_of(resources.node_table)
        self._opens = [stairs.opens() for stairs in self._free]  # when there is anything of a kind
        self._by_opening = sorted(zip(self._opens, range(len(self._opens)), strict=True))
        self._shapes, self._shaped = shapes_of(kinds.all, resources.node_table)

    def first_fit(
        self, need: ResolvedRequest, duration: float, after: Instant, until: float = inf
    ) -> Slot | None:
        """Return the first slot for the minimum that begins at or after an instant, and before `until`."""
        if need.impossible or any(self._kinds.of[node] < 0 for node in need.required):
            return None  # a closed node is of no kind
        least, best = at_minimum(need), None
        after, until = self._within_own_time(need, Span(duration, after, until))
        after = Instant(self._total.first_fit(need.minimum, duration, after))  # not before, wherever
        if after < until and need.access is None and len(self._kinds.all) <= _FEW_KINDS:
            found = self._placement(least, after, after + duration)
            if found is not None:
                return Slot(after, found)
        for kinds in self._kinds_for(need) if after < until else ():
            span = Span(duration, after, until)
            useful = self._useful(least, kinds, span)
            courses = self._courses(least, useful, span) if useful else ()
            for at in first_instants(courses, after, until) if useful else ():
                then = least
                if need.access is not None:
                    then = resolved_later(least, self._resources.node_table, at - self._now)
                found = self._placement(then, at, at + duration)
                if found is not None:
                    best, until = Slot(Instant(at), found), at
                    break
        return best

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
        kinds = self._kinds_for(need)
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
        self._note_opening(0)
        return Slot(Instant(at), filled(self._kinds.all[0], number))

    def may_be_earlier(self, need: ResolvedRequest, duration: float, slot: Slot) -> bool:
        """Return whether enough processors are free, on any nodes, before a slot that is taken for a need."""
        return self._total.first_fit(need.minimum, duration, self._now, slot.at) < slot.at

    def _useful(self, need: ResolvedRequest, kinds: Sequence[int], span: Span) -> Sequence[int]:
        """Return the kinds of which a need could have anything if it begins within a span.

        Nothing if all of them together are too few, each at its best.
        """
        useful, units = [], 0
        free, shapes, worth_of = self._free, self._shapes, self._worths(need)
        best = self._at_best(span)
        for kind in self._open_by(span.until, kinds):
            most = best(free[kind])
            worth = worth_of[shapes[kind]](most) if most > 0 else 0
            if worth:
                useful.append(kind)
                units += worth
        return useful if units >= (1 if need.single else need.minimum) else ()

    @staticmethod
    def _at_best(span: Span) -> Callable[[Profile], int]:
        """Return how to get the most that there is of a kind for a job that begins within a span.

        A job that lasts from each start until the end of the span takes the moment before that, and what
        all starts have in common behind it.
        """
        duration, after, until = span
        if until - after > duration or until == inf:
            return lambda stairs: stairs.most(after, until)
        return lambda stairs: stairs.least(nextafter(until, -inf), max(until, after + duration))

    def _open_by(self, until: float, kinds: Sequence[int]) -> Sequence[int]:
        """Return those of the kinds of which there is anything at some time before an instant."""
        open_by_then = [kind for _, kind in self._by_opening[: bisect_left(self._by_opening, (until, -1))]]
        if len(kinds) < len(self._kinds.all):
            return sorted(set(kinds).intersection(open_by_then))
        return open_by_then

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
        known = self._seen.get((access.welcome, kind))
        if known is None:
            known = self._seen[access.welcome, kind] = self._free[kind].copy()
            for each in times:
                if each.name not in access.welcome and each.ends > 0:
                    known.take(self._now + max(each.begins, 0.0), self._now + each.ends, SHUT)
        return known

    def resources(self, need: ResolvedRequest, start: float, end: float) -> FreeResources:
        """Return what is free all the time between two instants; if it starts now, on which nodes it is.

        Of licences only those of the need.  It is only to be read.
        """
        real, node_table = self._resources, self._resources.node_table
        now = start <= self._now
        free = [0] * len(node_table.names)
        for _, number in self._by_opening[: bisect_left(self._by_opening, (max(start, self._now), SHUT))]:
            kind = self._kinds.all[number]
            node = kind.nodes[0]
            if now and len(kind.nodes) == 1 and not real.free[node]:
                continue
            count = self._free[number].least(start, end)
            if len(kind.nodes) == 1:
                free[node] = count
            elif count > 0:
                spread(kind, count, free, real if now else None)
        holders: list[int] = list(map(lt, free, node_table.processors))
        amounts = real.amounts if now else self._in_all
        if self._amounts[0]:
            amounts = amounts[0][:], amounts[1][:], amounts[2][:], amounts[3][:]
        for left, rooms in zip(amounts, self._amounts, strict=True):
            for node, room in rooms.items():
                left[node] = room.least(start, end)
        licences = {feature: stairs.least(start, end) for feature, stairs in self._licences_of(need)}
        return FreeResources(
            node_table, free, real.jobs if now else holders, [False] * len(free), amounts, licences
        )

    def _licences_of(self, need: ResolvedRequest) -> list[tuple[str, Profile]]:
        """Return what there is over time of the licences and limits that a need counts."""
        counted, wished = self._licences, {**need.fixed, **need.each, **need.timed}
        return [(name, counted[name]) for name in wished if name in counted]

    def may_last(self, need: ResolvedRequest, start: float, end: float) -> bool:
        """Return whether enough processors are free all the time between two instants, on any nodes."""
        return self._total.lasts(need.minimum, start, end)

    def has_room(self, piece: Allocation, start: float, end: float) -> bool:
        """Return whether so much is free all the time between two instants, kind by kind."""
        return all(
            self._free[kind].least(start, end) >= count for kind, count in self._counts(piece).items()
        ) and all(
            stairs.least(start, end) >= amount for stairs, amount in self._beside(piece) + self._spent(piece)
        )

    def take(self, piece: Allocation, start: float, end: float) -> None:
        """Take a piece from one instant until another."""
        self._change(Profile.take, piece, start, end)

    def give(self, piece: Allocation, start: float, end: float) -> None:
        """Give back a piece that was taken."""
        self._change(Profile.give, piece, start, end)

    def _change(
        self,
        change: Callable[[Profile, float, float, int], None],
        piece: Allocation,
        start: float,
        end: float,
    ) -> None:
        for kind, count in self._counts(piece).items():
            change(self._free[kind], start, end, count)
            for (_, number), stairs in self._seen.items():
                if number == kind:
                    change(stairs, start, end, count)
            self._note_opening(kind)
        for stairs, amount in self._beside(piece):
            change(stairs, start, end, amount)
        for stairs, amount in self._spent(piece):  # nobody gives it back, so it is kept from now on
            change(stairs, self._now, inf, amount)

    def _note_opening(self, kind: int) -> None:
        """Keep in order when there is anything of a kind."""
        before, opens = self._opens[kind], self._free[kind].opens()
        if opens != before:
            self._opens[kind] = opens
            del self._by_opening[bisect_left(self._by_opening, (before, kind))]
            insort(self._by_opening, (opens, kind))

    def _counts(self, piece: Allocation) -> Counter[int]:
        """Return what a piece takes of each kind of node."""
        counts = Counter[int]()
        for node, processors in piece.fit:
            kind = self._kinds.of[node]
            counts[kind] += 1 if self._kinds.all[kind].whole else processors
        return counts

    def _beside(self, piece: Allocation) -> list[tuple[Profile, int]]:
        """Return what a piece takes of what is not counted by kinds."""
        parts = []
        if not self._is_one_kind:
            parts.append((self._total, sum([processors for _, processors in piece.fit])))
        if piece.counts and self._amounts[0]:
            for node, processors in piece.fit:
                each = zip(self._amounts, piece.of_node(processors), strict=True)
                parts += [(rooms[node], amount) for rooms, amount in each if amount]
        wished, profiles = piece.licences.items(), self._licences
        return parts + [(profiles[n], count) for n, count in wished if n in profiles and not is_spent(n)]

    def _spent(self, piece: Allocation) -> list[tuple[Profile, int]]:
        """Return what a piece takes of limits of processor-minutes and GPU-minutes."""
        profiles = self._licences
        return [(profiles[n], count) for n, count in piece.licences.items() if n in profiles and is_spent(n)]

    def _courses(self, need: ResolvedRequest, kinds: Sequence[int], span: Span) -> list[AmountDemand]:
        """Return what must come together for the minimum of a need on these kinds of nodes."""
        shapes, worth_of = self._shapes, self._worths(need)
        amounts = [_over_time(self._for(need, kind), span, worth_of[shapes[kind]]) for kind in kinds]
        courses = [AmountDemand(amounts, 1 if need.single else need.minimum)]
        for node in need.required:
            courses.append(AmountDemand([_over_time(self._for(need, self._kinds.of[node]), span, _as_is)], 1))
        if need.share:
            courses.append(AmountDemand([self._idle_units(need, kind, span) for kind in kinds], need.share))
        for part in need.parts if not need.single else ():
            there = zip(kinds, amounts, strict=True)
            mine = [amount for kind, amount in there if self._kinds.all[kind].nodes[0] in part.nodes]
            courses.append(AmountDemand(mine, part.units))
        for feature, stairs in self._licences_of(need):
            rate = need.timed.get(feature)
            wanted = (
                need.fixed.get(feature, 0) + (feature in need.each) + (0 if rate is None else rate.seconds)
            )
            courses.append(AmountDemand([_over_time(stairs, span, _as_is)], wanted))
        if need.counts_amounts:
            courses.append(AmountDemand(list(self._amounts_over_time(need, kinds, span)), 0))
        return courses

    def _amounts_over_time(
        self, need: ResolvedRequest, kinds: Sequence[int], span: Span
    ) -> Iterator[AmountChanges]:
        """Yield the memory, disk, swap and GPUs of each node that a need takes some of.

        Whether they suffice is asked of the placement; but it is asked again when there are more of them,
        though as many processors are free as before.
        """
        held = need.held
        takes = need.memory or held.memory, held.disk, held.swap, need.processors_per_gpu
        for rooms, taken in zip(self._amounts, takes, strict=True):
            if taken and rooms:
                for kind in kinds:
                    for node in self._kinds.all[kind].nodes:
                        yield _over_time(rooms[node], span, _as_is)

    def _idle_units(self, need: ResolvedRequest, kind: int, span: Span) -> AmountChanges:
        (node, *_), size, _ = self._kinds.all[kind]
        units = self._resources.node_table.units_of(need)[node]
        return _over_time(self._for(need, kind), span, lambda count: units * (count == size))

    def _worths(self, need: ResolvedRequest) -> list[Callable[[int], int]]:
        """Return `_worth` of the kinds of each shape."""
        return [self._worth(need, kind) for kind in self._shaped]

    def _worth(self, need: ResolvedRequest, kind: NodeKind) -> Callable[[int], int]:
        """Return how many units so much of a kind is at most; for jobs on one node, whether it is enough."""
        node, size = kind.nodes[0], kind.size
        units = self._resources.node_table.units_of(need)[node]
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

    def _kinds_for(self, need: ResolvedRequest) -> list[list[int]]:
        """Return the kinds in each of a need's alternatives."""
        known = self._kinds_in.get(need.rules) if need.rules >= 0 else None
        if known is None:
            of = self._kinds.of
            known = [list(dict.fromkeys([of[node] for node in order])) for order in need.candidates]
            self._kinds_in[need.rules] = known
        return known


def _over_time(stairs: Profile, span: Span, worth: Callable[[int], int]) -> AmountChanges:
    """Return what the least that is free for a duration is worth, by when it begins."""
    windows = stairs.windows(*span)
    return [(at, above, worth(count) if count > 0 else 0) for at, above, count in windows]


def _as_is(count: int) -> int:
    return count
