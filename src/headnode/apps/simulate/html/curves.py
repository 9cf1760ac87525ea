"""How many of something there are over time, in as many steps as a picture can show."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from headnode.core.model.workload import Workload
from headnode.core.scheduling.pool.figures import ends

_WIDTHS = (1, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2419200)


class Grid(NamedTuple):
    """`size` equal steps of time from `begin` on, `width` seconds each, for all from `first` to `last`."""

    begin: float
    width: float
    size: int
    first: float
    last: float

    @property
    def covered(self) -> Iterator[float]:
        """The seconds of each step that are between the first and the last."""
        for step in range(self.size):
            begin = self.begin + step * self.width
            yield min(begin + self.width, self.last) - max(begin, self.first)


class Curve(NamedTuple):
    """For each step of a grid: the mean over its time, the lowest and the highest level."""

    means: Sequence[float]
    lowest: Sequence[int]
    highest: Sequence[int]


def grid(first: float, last: float, most: int, midnight: float = 0) -> Grid:
    """Return at most `most` steps from `first` to `last` that begin at full hours, days or weeks."""
    width: float = next((width for width in _WIDTHS if (last - first) / width <= most - 1), _WIDTHS[-1])
    while (last - first) / width > most - 1:
        width *= 2
    begin = midnight + (first - midnight) // width * width
    return Grid(begin, width, int((last - begin) // width) + 1, first, last)


def in_use(workload: Workload, starts: Sequence[float]) -> Counter[float]:
    """Return by how much the number of processors in use changes at which seconds."""
    changes: Counter[float] = Counter()
    for start, end, count in zip(starts, ends(workload, starts), workload.processors, strict=True):
        changes[start] += count
        changes[end] -= count
    return changes


def waiting(workload: Workload, starts: Sequence[float], sizes: Sequence[int]) -> Counter[float]:
    """Return by how much the sum of the sizes of the waiting jobs changes; with sizes of 1, their number."""
    changes: Counter[float] = Counter()
    for submit, start, size in zip(workload.submits, starts, sizes, strict=True):
        changes[submit] += size
        changes[start] -= size
    return changes


def drawn(changes: Mapping[float, int], steps: Grid) -> Curve:
    """Return the curve of a level that is 0 at first and changes so."""
    areas, lowest, highest = [0.0] * steps.size, [_NONE] * steps.size, [0] * steps.size
    last, step, edge = steps.size - 1, 0, steps.begin + steps.width
    for begin, end, level in _levels(changes, steps):
        while True:
            upto = end if end <= edge or step == last else edge
            if upto > begin:
                areas[step] += level * (upto - begin)
                lowest[step] = level if level < lowest[step] else lowest[step]
                highest[step] = level if level > highest[step] else highest[step]
            if upto == end:
                break
            begin, step = edge, step + 1
            edge = steps.begin + (step + 1) * steps.width
    means = [area / time if time > 0 else 0.0 for area, time in zip(areas, steps.covered, strict=True)]
    return Curve(means, [0 if level == _NONE else level for level in lowest], highest)


_NONE = 1 << 62  # no level is that high


def _levels(changes: Mapping[float, int], steps: Grid) -> Iterator[tuple[float, float, int]]:
    """Yield (begin, end, level) of each stretch of time; what lasts no time is no level."""
    level = 0
    for begin, end in pairwise([steps.first, *sorted(changes), steps.last]):
        level += changes.get(begin, 0) if begin != end else 0
        if begin < end:
            yield begin, end, level
