"""The times for which nodes are free without a break, and from when on enough of them are.

A job that lasts long can use few of the nodes that open before an instant: on the others the next reservation
is too near.  So each kind of a single node keeps its *gaps*: the longest times for which so many of its
processors are free.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from math import frexp, inf, ldexp, nextafter
from operator import itemgetter
from typing import NamedTuple, Protocol

from headnode.core.scheduling.profile import Profile, Span
from headnode.core.scheduling.release_profile import NodeKind

Gap = tuple[float, int, float]
"""When it begins, how many processors are free all that time, and when it ends."""

GapsOfKind = Callable[[int], Sequence[Gap]]
"""The gaps of a kind, in units in place of processors."""

Worth = Callable[[int], int]
"""How many units so many free processors, or idle nodes, of a kind are."""

Changes = list[tuple[float, bool, int, int]]
"""By how much a sum changes: (instant, just after it, by, the kind that does)."""


class Rows(Protocol):
    """The units of kinds that have places beside each other: `contiguous.NodeRows`."""

    def change(self, node: int, by: int, /) -> object:
        """Let a node have more units, or fewer."""

    def suffice(self) -> bool:
        """Return whether nodes beside each other have enough units."""


class GapDemand(NamedTuple):
    """So many units are needed; what counts of each shape of kinds is worth; the kinds, None for all.

    With `rows`, on nodes beside each other.  With `gaps`, these have the units of each kind, and `worths`
    tell only which kinds have none.
    """

    units: int
    worths: Sequence[Worth]
    kinds: Sequence[int] | None = None
    rows: Rows | None = None
    gaps: GapsOfKind | None = None

    def worth(self, shape: int) -> Worth:
        """Return what a count of a kind of this shape is worth, where its own profile is looked at."""
        return self.worths[shape] if self.gaps is None else _as_is


def gaps_of(stairs: Profile, shortest: float) -> list[Gap]:
    """Return the gaps of a profile that are not shorter than this, ascending.

    No gap can be made longer, so two of them are apart, or one lies within the other and is higher.

    >>> profile = Profile(4)
    >>> profile.take(10, 20, 3)
    >>> gaps_of(profile, 5)
    [(0, 1, inf), (0, 4, 10), (20, 4, inf)]
    """
    found: list[Gap] = []
    rising: list[tuple[float, int]] = []  # heights that have not ended: (begin, height), both ascending
    for at, height in stairs.stairs():
        begin = at
        while rising and rising[-1][1] >= height:
            begin, higher = rising.pop()
            if higher > height and at - begin >= shortest:
                found.append((begin, higher, at))
        if height > 0:
            rising.append((begin, height))
    found += [(begin, height, inf) for begin, height in rising]
    found.sort()
    return found


def most_in(gaps: Iterable[Gap], start: float, end: float) -> int:
    """Return the greatest height of the gaps that last from one instant until another."""
    return max([height for begin, height, stop in gaps if begin <= start and end <= stop], default=0)


def within_all(durations: Iterable[float]) -> float:
    """Return a length that none of these is below.

    It is a power of two, so that it is mostly the same for other jobs.
    """
    least = min(durations, default=inf)
    return ldexp(0.5, frexp(least)[1]) if 0 < least < inf else 0.0


class GapIndex:
    """The gaps of all kinds, in the order of their first ones.  Kinds of several nodes have none.

    Gaps below the length `shortest` are left out: no job that asks lasts less.
    Cost:  of `instants` O(kinds with a gap that begins before the end of the span).
    """

    def __init__(
        self, profiles: Sequence[Profile], kinds: Sequence[NodeKind], shapes: Sequence[int], shortest: float
    ) -> None:
        self.shortest = shortest
        self._profiles, self._shapes = profiles, shapes
        self._grouped = frozenset(number for number, kind in enumerate(kinds) if len(kind.nodes) > 1)
        self._gaps: list[Sequence[Gap]] = [()] * len(profiles)
        self._by_first: list[tuple[float, int]] = []  # when the first gap of a kind begins
        self._changed = set(range(len(profiles))).difference(self._grouped)

    def change(self, kind: int) -> None:
        """Note that the profile of a kind has changed."""
        if kind not in self._grouped:
            self._changed.add(kind)

    def instants(self, demand: GapDemand, span: Span, own: Mapping[int, Profile]) -> Iterator[float]:
        """Yield each instant within the span from which enough is free for its duration and something rose.

        Of some kinds a profile of their `own` counts: with what a job holds there that asks.  It is of units
        where the demand has gaps.
        """
        _, after, until = span
        if after >= until:
            return iter(())
        changes, rows = Changes(), demand.rows
        total, best = self._add_gaps(demand, span, own, changes)
        for kind in self._grouped_or(own, demand.kinds):
            windows = own.get(kind, self._profiles[kind]).windows(*span)
            at_first, most = _add_windows(kind, windows, demand.worth(self._shapes[kind]), after, changes)
            best += most
            if rows is None:
                total += at_first
            else:
                rows.change(kind, at_first)
        if best < demand.units:
            return iter(())
        return _enough(demand.units, total, changes, after) if rows is None else _in_row(rows, changes, after)

    def _add_gaps(
        self, demand: GapDemand, span: Span, own: Mapping[int, Profile], changes: Changes
    ) -> tuple[int, int]:
        """Add when gaps that fit begin and end; return the units at first, and the most there may be."""
        duration, after, until = span
        total, best, rows = 0, 0, demand.rows
        seen, around = -1, [(inf, 0)]  # the kind, and the gaps around the one that comes next: (end, worth)
        for kind, begin, end, units in self._fitting(demand, span):
            if kind in own:
                continue
            if kind != seen:
                seen, around = kind, [(inf, 0)]
            while around[-1][0] <= begin:
                around.pop()
            more = units - around[-1][1]
            around.append((end, units))
            best += more
            if begin > after:
                changes.append((begin, False, more, kind))
            elif rows is None:
                total += more
            else:
                rows.change(kind, more)
            if end - duration < until:
                changes.append((max(end - duration, begin, after), True, -more, kind))
        return total, best

    def useful(self, demand: GapDemand, span: Span) -> list[int]:
        """Return the kinds that can give anything within a span; none if all of them together are too few."""
        best: dict[int, int] = {}
        for kind, _, _, units in self._fitting(demand, span):
            best[kind] = max(units, best.get(kind, 0))
        for kind in self._grouped_or((), demand.kinds):
            most = self._profiles[kind].most(span.after, span.until)
            if most > 0 and (units := demand.worths[self._shapes[kind]](most)):
                best[kind] = units
        return sorted(best) if sum(best.values()) >= demand.units else []

    def lasting(self, start: float, end: float) -> Iterable[tuple[int, int]]:
        """Return the kinds of which anything is free all the time between two instants, with how much.

        Growth of a job may last less than the shortest gap that is kept: then all profiles are looked at.
        """
        if end - start < self.shortest:
            return [(kind, stairs.least(start, end)) for kind, stairs in enumerate(self._profiles)]
        there = {
            kind: height
            for kind in self._open_by(nextafter(start, inf), None)
            for begin, height, stop in self._gaps[kind]
            if begin <= start and end <= stop
        }
        for kind in self._grouped:
            there[kind] = self._profiles[kind].least(start, end)
        return there.items()

    def _grouped_or(self, own: Collection[int], kinds: Sequence[int] | None) -> Iterable[int]:
        """Return the kinds of which profiles are looked at, as far as they are among these."""
        looked_at = {*self._grouped, *own}
        return looked_at if kinds is None else looked_at.intersection(kinds)

    def _fitting(self, demand: GapDemand, span: Span) -> list[tuple[int, float, float, int]]:
        """Return the gaps that are long enough for a span: kind, begin, end and worth.

        Those of one kind follow each other, and one around others comes before them.
        """
        duration, after, until = span
        gaps, shapes, worths = self._gaps, self._shapes, demand.worths
        found = [
            (kind, begin, end, units)
            for kind in self._open_by(until, demand.kinds)
            for begin, height, end in gaps[kind]
            if (begin if begin > after else after) + duration <= end
            and begin < until
            and (units := worths[shapes[kind]](height))
        ]
        if demand.gaps is None:
            return found
        return [
            (kind, begin, end, units)
            for kind in dict.fromkeys([kind for kind, *_ in found])
            for begin, units, end in demand.gaps(kind)
            if (begin if begin > after else after) + duration <= end and begin < until
        ]

    def _open_by(self, until: float, kinds: Collection[int] | None) -> Iterable[int]:
        """Return the kinds with a gap that begins before an instant."""
        for kind in self._changed:
            self._find_gaps(kind)
        self._changed.clear()
        there = [kind for _, kind in self._by_first[: bisect_left(self._by_first, (until, -1))]]
        return there if kinds is None else set(kinds).intersection(there)

    def _find_gaps(self, kind: int) -> None:
        before, found = self._gaps[kind], gaps_of(self._profiles[kind], self.shortest)
        self._gaps[kind] = found
        if before[:1] != found[:1]:
            if before:
                del self._by_first[bisect_left(self._by_first, (before[0][0], kind))]
            if found:
                insort(self._by_first, (found[0][0], kind))


def _as_is(units: int) -> int:
    return units


def _add_windows(
    kind: int,
    windows: Iterable[tuple[float, bool, int]],
    worth: Worth,
    after: float,
    changes: Changes,
) -> tuple[int, int]:
    """Add how the worth of a kind changes over a span; return what it is at first, and at its best."""
    at_first = before = best = 0
    for at, just_after, count in windows:
        units = worth(count) if count > 0 else 0
        if at <= after and not just_after:
            at_first = units
        elif units != before:
            changes.append((at, just_after, units - before, kind))
        before = units
        best = max(best, units)
    return at_first, best


def _enough(needed: int, total: int, changes: Changes, after: float) -> Iterator[float]:
    """Yield the instants of a sum at which it is not below what is needed, and has risen."""
    if total >= needed:
        yield after
    changes.sort()
    told = after
    for at, just_after, by, _ in changes:
        total += by
        if by > 0 and not just_after and total >= needed and at != told:
            told = at
            yield at


def _in_row(rows: Rows, changes: Changes, after: float) -> Iterator[float]:
    """Yield the instants at which nodes beside each other have enough, and something has risen."""
    if rows.suffice():
        yield after
    changes.sort()
    for (at, just_after), group in groupby(changes, key=itemgetter(0, 1)):
        rose = False
        for _, _, by, kind in group:
            rows.change(kind, by)
            rose = rose or by > 0
        if rose and not just_after and rows.suffice():
            yield at
