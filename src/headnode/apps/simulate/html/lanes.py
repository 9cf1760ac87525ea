"""Where the bars of a job are drawn: on the processors it had; if they were only counted, may have had."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush

from headnode.core.model.errors import Broken
from headnode.core.model.workload import Workload

Strip = tuple[int, int]
"""Processors side by side: the first, counted from 0, and their number."""


def lanes(workload: Workload, starts: Sequence[float], processors: int) -> list[Sequence[Strip]]:
    """Give every job processors while it runs: the first gap that it fits into, else the lowest free ones.

    Raises:  Broken ``lanes`` when more processors are in use at once than there are.
    """
    free = _Free(processors)
    running: list[tuple[float, int]] = []
    found: list[Sequence[Strip]] = [()] * len(starts)
    for place in sorted(range(len(starts)), key=starts.__getitem__):
        start = starts[place]
        while running and running[0][0] <= start:
            free.give(found[heappop(running)[1]])
        found[place] = free.take(workload.processors[place])
        heappush(running, (start + workload.run_times[place], place))
    return found


def strips_on(first: Mapping[str, int], place: Iterable[tuple[str, Sequence[int]]]) -> Sequence[Strip]:
    """Return the strips of a place on nodes; all processors stand in a row, each node from its `first` on."""
    strips: list[Strip] = []
    for processor in sorted(first[node] + number for node, numbers in place for number in numbers):
        begin, count = strips[-1] if strips else (processor, 0)
        if begin + count == processor:
            strips[-1:] = [(begin, count + 1)]
        else:
            strips.append((processor, 1))
    return strips


class _Free:
    """The free processors as gaps, lowest first, none beside another."""

    def __init__(self, processors: int) -> None:
        self._gaps: list[Strip] = [(0, processors)]

    def take(self, count: int) -> Sequence[Strip]:
        """Take so many out of the gaps."""
        for at, (first, size) in enumerate(self._gaps):
            if size >= count:
                self._gaps[at : at + 1] = [(first + count, size - count)] if size > count else []
                return ((first, count),)
        return tuple(self._pieces(count))

    def _pieces(self, count: int) -> Iterator[Strip]:
        while count:
            if not self._gaps:
                raise Broken(
                    code="lanes", what=f"{count} more processors are in use at once than the machine has"
                )
            first, size = self._gaps[0]
            taken = min(size, count)
            self._gaps[0:1] = [(first + taken, size - taken)] if size > taken else []
            count -= taken
            yield first, taken

    def give(self, strips: Sequence[Strip]) -> None:
        """Put processors back."""
        for strip in strips:
            insort(self._gaps, strip)
            self._join(bisect_left(self._gaps, strip))

    def _join(self, at: int) -> None:
        for left in (at, at - 1):
            if 0 <= left < len(self._gaps) - 1:
                (first, size), (after, more) = self._gaps[left : left + 2]
                if first + size == after:
                    self._gaps[left : left + 2] = [(first, size + more)]
