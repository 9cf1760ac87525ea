"""How many processors are free from now on, as steps, and when several amounts suffice at once.

Two parallel sorted lists: `_times[i]` is when the step begins on which `_free[i]` processors are free; it
lasts until the next step, the last one for ever.  Neighbours of equal height are one step.

Cost:  finding a place O(steps looked at), a change O(steps within it) and a bisection.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from math import inf
from typing import NamedTuple

_FEW = 8  # stairs that are changed faster one by one than as a new list


class Span(NamedTuple):
    """A duration, and the instants between which it must begin."""

    duration: float
    after: float
    until: float


class Profile:
    """The future of a pool of equal processors.  Instants and durations in seconds.

    >>> profile = Profile(4)
    >>> profile.take(0, 10, 3)
    >>> profile.first_fit(2, 5, after=0), profile.first_fit(1, 5, after=0)
    (10, 0)
    """

    __slots__ = ("_free", "_times")

    def __init__(self, processors: int, since: float = 0) -> None:
        self._times: list[float] = [since]
        self._free = [processors]

    @classmethod
    def of_holders(cls, now: float, free: int, ends: Iterable[tuple[float, int]]) -> "Profile":
        """Return the profile of so many free now and those that come back: (end, processors), ascending.

        What comes back at inf never does: there is no stair there.
        """
        profile = cls(free, now)
        for end, processors in ends:
            if end == inf:
                break
            free += processors
            if profile._times[-1] == end:
                profile._free[-1] = free
            else:
                profile._times.append(end)
                profile._free.append(free)
        return profile

    @classmethod
    def of_stairs(cls, stairs: Iterable[tuple[float, int]]) -> "Profile":
        """Return the profile with these stairs: when each begins, ascending, with what is free on it."""
        profile = cls(0)
        profile._times, profile._free = map(list, zip(*stairs, strict=True))
        return profile

    def copy(self) -> "Profile":
        """Return an independent copy."""
        twin = Profile(0)
        twin._times, twin._free = self._times.copy(), self._free.copy()
        return twin

    def stairs(self) -> Iterable[tuple[float, int]]:
        """Return when each stair begins, with the processors free on it."""
        return zip(self._times, self._free, strict=True)

    def forget(self, before: float) -> None:
        """Drop everything before this instant; it cannot be asked for afterwards."""
        gone = bisect_right(self._times, before) - 1
        if gone > 0:
            del self._times[:gone], self._free[:gone]
        if self._times[0] < before:
            self._times[0] = before

    def replace(self, former: "Profile", then: "Profile", since: float, each: int = 1) -> None:
        """Let one part of the whole be another from an instant on; each of it counts as so many."""
        ends = [at for at in {*former._times, *then._times} if at > since]
        begin = since
        for end in (*sorted(ends), inf):
            more = then.least(begin, begin) - former.least(begin, begin)
            if more:
                self._change(begin, end, more * each)
            begin = end

    def first_fit(
        self, processors: int, duration: float, after: float, until: float = inf, latest: float = inf
    ) -> float:
        """Return the earliest instant at or after `after` from which so many are free for the duration.

        With `until`, return the earliest start before it of a place that lasts for the duration or until
        then, whichever is less; `until` itself if there is none.  So a reservation that begins at `until`
        asks whether it could begin earlier: what it holds itself need not be looked at.  There is known to be
        no such place from `latest` on.
        """
        times, free = self._times, self._free
        start = after if after > times[0] else times[0]  # conditions: min and max take longer than the rest
        checked = bisect_right(times, start) - 1  # from the stair of `start` up to this one, all suffice
        if until < latest:
            latest = until
        while start < latest:
            end = start + duration
            stair = beyond = bisect_left(times, end if end < until else until, checked)
            while stair > checked:  # backwards: the last stair that is too low takes the start farthest
                stair -= 1
                if free[stair] < processors:
                    break
            else:
                return start
            if stair + 1 == len(times):
                break
            start, checked = times[stair + 1], beyond
        return until

    def move_up(
        self, processors: int, duration: float, start: float, after: float, risen: float = inf
    ) -> float:
        """Move what was taken at `start` to its earliest place from `after` on; return where it begins now.

        There was none when it was taken, and since then more has become free only before `risen`.  Only what
        the old and the new place do not share is changed.
        """
        earlier = self.first_fit(processors, duration, after, start, risen)
        if earlier < start:
            end = earlier + duration
            self._change(earlier, start if start < end else end, -processors)
            self._change(end if end > start else start, start + duration, processors)
        return earlier

    def most(self, start: float, end: float) -> int:
        """Return how many are free at most, at some time from `start` until `end`."""
        times, free = self._times, self._free
        first = max(bisect_right(times, start) - 1, 0)
        after = bisect_left(times, end, first)
        return free[first] if after <= first + 1 else max(free[first:after])

    def least(self, start: float, end: float) -> int:
        """Return how many are free all the time from `start` until `end`."""
        times, free = self._times, self._free
        first = max(bisect_right(times, start) - 1, 0)
        after = bisect_left(times, end, first)
        return free[first] if after <= first + 1 else min(free[first:after])

    def lowest(self, start: float) -> tuple[list[float], list[int]]:
        """Return from an instant on when each stair begins, and how many are free at least until it ends."""
        first = max(bisect_right(self._times, start) - 1, 0)
        return self._times[first:], [*accumulate(self._free[first:], min)]

    def windows(self, duration: float, after: float, until: float = inf) -> list[tuple[float, bool, int]]:
        """Return how many are free all the time for the duration, by when it begins: before `until`.

        Each item is (instant, just after it, processors) and holds until the next; the first is for `after`.
        A low stair is in the way just after the instant from which the duration reaches it, until it ends.
        """
        times, free = self._times, self._free
        stairs, coming = len(times), max(bisect_right(times, after) - 1, 0)
        lows: list[int] = []  # from `first` on: stairs within the duration, each higher than the one before
        first, start, later, is_after = 0, after, False, False
        found: list[tuple[float, bool, int]] = []
        told: int | None = None
        while True:
            while coming < stairs and (later or times[coming] < start + duration or first == len(lows)):
                height, later = free[coming], False  # written out: this is asked a hundred thousand times
                while len(lows) > first and free[lows[-1]] >= height:
                    lows.pop()
                lows.append(coming)
                coming += 1
            while lows[first] + 1 < stairs and times[lows[first] + 1] <= start:
                first += 1
            lowest = lows[first]
            if free[lowest] != told:
                told = free[lowest]
                found.append((start, is_after, told))
            leaves = times[lowest + 1] if lowest + 1 < stairs else inf
            enters = times[coming] - duration if coming < stairs else inf
            later = is_after = enters < leaves
            start = enters if later else leaves
            if start >= until or start == inf:
                return found

    def close(self, at: float) -> None:
        """Let nothing be free from this instant on, whatever comes back."""
        stair = self._stair_at(at)
        del self._times[stair + 1 :], self._free[stair + 1 :]
        self._free[stair] = 0
        self._join(stair)

    def take(self, start: float, end: float, processors: int) -> None:
        """Take so many from `start` until `end`."""
        self._change(start, end, -processors)

    def give(self, start: float, end: float, processors: int) -> None:
        """Give so many back from `start` until `end`."""
        self._change(start, end, processors)

    def _change(self, start: float, end: float, by: int) -> None:
        """Change what is free between two instants.  Calls of `_stair_at` and `_join` take twice the time."""
        times, free = self._times, self._free
        first = bisect_left(times, start)
        if first == len(times) or times[first] != start:
            times.insert(first, start)
            free.insert(first, free[first - 1])
        last = bisect_left(times, end, first) if end < inf else len(times)
        if end < inf and (last == len(times) or times[last] != end):
            times.insert(last, end)
            free.insert(last, free[last - 1])
        if last - first > _FEW:
            free[first:last] = [count + by for count in free[first:last]]
        else:
            for stair in range(first, last):
                free[stair] += by
        if 0 < last < len(free) and free[last] == free[last - 1]:
            del times[last], free[last]
        if 0 < first < len(free) and free[first] == free[first - 1]:
            del times[first], free[first]

    def _stair_at(self, instant: float) -> int:
        """Return the stair that begins at this instant, cutting one in two if there is none."""
        times = self._times
        stair = bisect_left(times, instant)
        if stair == len(times) or times[stair] != instant:
            times.insert(stair, instant)
            self._free.insert(stair, self._free[stair - 1])
        return stair

    def _join(self, stair: int) -> None:
        """Make one of this stair and the one before it if they are equally high."""
        free = self._free
        if 0 < stair < len(free) and free[stair] == free[stair - 1]:
            del self._times[stair], free[stair]


AmountChanges = Iterable[tuple[float, bool, int]]
"""An amount over time: (instant, just after it, amount) until the next; the first is for the beginning."""


class AmountDemand(NamedTuple):
    """A demand on the sum of some amounts."""

    amounts: Sequence[AmountChanges]
    needed: int


def first_instants(courses: Sequence[AmountDemand], after: float, until: float) -> Iterator[float]:
    """Yield every instant from `after` on, and before `until`, where all courses suffice and something rose.

    What suffices between two of them sufficed at the first already.
    """
    totals, changes = _unrolled(courses, after)
    lacking = sum(total < course.needed for total, course in zip(totals, courses, strict=True))
    if not lacking and after < until:
        yield after
    place = 0
    while place < len(changes) and (now := changes[place][0]) < until:
        rose, later = False, False
        while place < len(changes) and changes[place][0] == now:
            _, just_after, which, by = changes[place]
            if just_after and not later:
                later = True
                if rose and not lacking:
                    yield now
            needed = courses[which].needed
            lacking += (totals[which] + by < needed) - (totals[which] < needed)
            totals[which] += by
            rose = rose or (by > 0 and not just_after)
            place += 1
        if rose and not later and not lacking:
            yield now


def _unrolled(
    courses: Sequence[AmountDemand], after: float
) -> tuple[list[int], list[tuple[float, bool, int, int]]]:
    """Return the sums at the beginning, and every change of one: (instant, just after it, which, by)."""
    totals, changes = [0] * len(courses), []
    for which, course in enumerate(courses):
        for amounts in course.amounts:
            before = 0
            for at, just_after, amount in amounts:
                if at <= after and not just_after:
                    totals[which] += amount
                elif amount != before:
                    changes.append((at, just_after, which, amount - before))
                before = amount
    changes.sort()
    return totals, changes
