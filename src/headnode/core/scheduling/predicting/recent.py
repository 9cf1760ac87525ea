"""The last values of something, and their quantiles."""

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterable, Sequence


class Recent:
    """The last so many values.

    Cost:  that of a move within a list of that length for each value.
    """

    __slots__ = ("_ascending", "_most", "_order")

    def __init__(self, most: int, values: Iterable[float] = ()) -> None:
        self._most = most
        self._order: deque[float] = deque()
        self._ascending: list[float] = []
        for value in values:
            self.add(value)

    def __len__(self) -> int:
        return len(self._order)

    def add(self, value: float) -> None:
        """Remember a value, in the place of the oldest if there are enough."""
        if len(self._order) == self._most:
            del self._ascending[bisect_left(self._ascending, self._order.popleft())]
        self._order.append(value)
        insort(self._ascending, value)

    def values(self) -> tuple[float, ...]:
        """Return the values, oldest first."""
        return tuple(self._order)

    def above(self, value: float) -> Sequence[float]:
        """Return those above a value, ascending."""
        return tuple(self._ascending[bisect_right(self._ascending, value) :])

    def quantile(self, level: float) -> float:
        """Return what a part `level` of the values do not exceed; there must be some."""
        return quantile(self._ascending, level)


def quantile(ascending: Sequence[float], level: float) -> float:
    """Return what a part `level` of equally likely values do not exceed, between neighbours in proportion.

    >>> quantile([10, 20, 60], 0.5), quantile([10, 20, 60], 0.9)
    (20, 60)
    """
    place = min(max(level * len(ascending) - 0.5, 0.0), len(ascending) - 1.0)
    below = int(place)
    value = ascending[below]
    if place == below or ascending[below + 1] == value:
        return value
    return value + (place - below) * (ascending[below + 1] - value)
