"""A set of whole numbers kept as intervals, for instances that come in runs."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

import msgspec


class Ranges(msgspec.Struct):
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
        self.add_span(number, number)

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
        at = bisect_right(self.firsts, number) - 1
        if at < 0 or number > self.lasts[at]:
            return
        first, last = self.firsts[at], self.lasts[at]
        pieces = [(a, b) for a, b in ((first, number - 1), (number + 1, last)) if a <= b]
        self.firsts[at : at + 1] = [a for a, _ in pieces]
        self.lasts[at : at + 1] = [b for _, b in pieces]
        self.count -= 1

    def pop_first(self) -> int:
        """Take the smallest number out and return it.

        Raises:  IndexError when there is none.
        """
        number = self.firsts[0]
        if number == self.lasts[0]:
            del self.firsts[0], self.lasts[0]
        else:
            self.firsts[0] = number + 1
        self.count -= 1
        return number

    def clear(self) -> None:
        """Take every number out."""
        self.firsts, self.lasts, self.count = [], [], 0
