"""A set of whole numbers kept as intervals, for instances that come in runs."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

import msgspec


class Ranges(msgspec.Struct, forbid_unknown_fields=True):
    """Sorted, disjoint, non-adjacent closed intervals ``firsts[i]..lasts[i]``.

    Cost:  O(log intervals) to look, O(intervals) at worst to change.

    >>> seen = Ranges()
    >>> for number in (1, 2, 3, 7, 5, 6): seen.add(number)
    >>> list(seen.spans()), len(seen), 4 in seen
    ([(1, 3), (5, 7)], 6, False)
    """

    firsts: list[int] = []
    lasts: list[int] = []
    count: int = 0

    def __len__(self) -> int:
        return self.count

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self.firsts, number) - 1
        return at >= 0 and number <= self.lasts[at]

    def __iter__(self) -> Iterator[int]:
        for first, last in self.spans():
            yield from range(first, last + 1)

    def spans(self) -> Iterator[tuple[int, int]]:
        """Yield the intervals in order, both ends included."""
        return zip(self.firsts, self.lasts, strict=True)

    def add(self, number: int) -> None:
        """Put one number in; nothing happens when it is in already."""
        last = self.lasts[-1] if self.lasts else None
        if last is not None and number <= last:
            self.add_span(number, number)
        elif last is not None and number == last + 1:
            self.lasts[-1] = number
            self.count += 1
        else:
            self.firsts.append(number)
            self.lasts.append(number)
            self.count += 1

    def add_span(self, first: int, last: int) -> None:
        """Put the numbers `first` to `last` in."""
        if last < first:
            return
        low = bisect_left(self.lasts, first - 1)
        high = bisect_right(self.firsts, last + 1)
        swallowed = sum(self.lasts[i] - self.firsts[i] + 1 for i in range(low, high))
        if low < high:
            first, last = min(first, self.firsts[low]), max(last, self.lasts[high - 1])
        self.firsts[low:high] = [first]
        self.lasts[low:high] = [last]
        self.count += last - first + 1 - swallowed

    def discard(self, number: int) -> None:
        """Take one number out; nothing happens when it is not in."""
        if self.firsts and number == self.firsts[0] < self.lasts[0]:
            self.firsts[0] += 1
            self.count -= 1
        else:
            self.discard_span(number, number)

    def covers(self, first: int, last: int) -> bool:
        """Whether every number from `first` to `last` is in."""
        at = bisect_right(self.firsts, first) - 1
        return at >= 0 and last <= self.lasts[at]

    def within(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Yield the intervals from `first` to `last`, cut there.

        Cost:  O(log intervals) and the intervals that it yields.

        >>> list(Ranges([2, 8], [6, 20], 18).within(4, 9))
        [(4, 6), (8, 9)]
        """
        for at in range(bisect_left(self.lasts, first), bisect_right(self.firsts, last)):
            yield max(first, self.firsts[at]), min(last, self.lasts[at])

    def discard_span(self, first: int, last: int) -> None:
        """Take the numbers `first` to `last` out."""
        low = bisect_left(self.lasts, first)
        high = bisect_right(self.firsts, last)
        if low >= high or last < first:
            return
        if high - low == 1 and (first, last) == (self.firsts[low], self.lasts[low]):
            del self.firsts[low], self.lasts[low]
            self.count -= last - first + 1
            return
        ends = ((self.firsts[low], first - 1), (last + 1, self.lasts[high - 1]))
        gone = sum(self.lasts[i] - self.firsts[i] + 1 for i in range(low, high))
        pieces = [(a, b) for a, b in ends if a <= b]
        self.firsts[low:high] = [a for a, _ in pieces]
        self.lasts[low:high] = [b for _, b in pieces]
        self.count += sum(b - a + 1 for a, b in pieces) - gone

    def clear(self) -> None:
        """Take every number out."""
        self.firsts, self.lasts, self.count = [], [], 0
