"""Running jobs as those who could give: how much each has beyond its minimum, and in which pieces.

A piece is one unit: a processor, the processors of a socket, or a node of those who hold whole nodes.  What
a job has beyond its minimum is counted in processors; where whole nodes differ, each is as large as the first
of its job.
"""

from collections.abc import Iterable, Iterator
from enum import IntEnum
from math import ceil
from typing import NamedTuple

from headnode.core.model.job import UnitType
from headnode.core.model.quantities import JobId
from headnode.core.scheduling.balanced.share_out import Claim, weight_of
from headnode.core.scheduling.balanced.sharers import Balancing, Held, Sharer
from headnode.core.scheduling.need import Need, need_of, units_in
from headnode.core.scheduling.terrain import Terrain
from headnode.core.scheduling.view import RunningJob, View


class Ease(IntEnum):
    """What it takes to have a piece back."""

    READY = 0  # nothing: it is idle, or asked for already
    STOP = 1  # a task is stopped, and runs again
    WAIT = 2  # a task must end


class Spare(NamedTuple):
    """A piece that a job could give."""

    number: int  # no other piece of the pass has it
    ease: Ease
    level: float  # what its job has for its weight before it gives this
    job: JobId
    node: int
    processors: int
    asked_before: bool = False  # it is not among what its job has beyond its minimum any more


class Lender:
    """One running job: what it holds beyond what it must keep.  `extra` is in processors."""

    def __init__(self, running: RunningJob, sharer: Sharer, terrain: Terrain, balancing: Balancing) -> None:
        self.running, self.sharer = running, sharer
        self.need: Need = need_of(running.request, terrain)
        self.weight = weight_of(running.turn, balancing.bias)
        self._terrain = terrain
        there = ((self._number(name), count) for name, count in running.allocation)
        self.holds = {node: count for node, count in there if node >= 0}  # nodes that are gone left out
        self._held = [part for part in sharer.held if self._number(part.node) >= 0]
        leaving = {self._number(part.node): part.leaving + part.awaited for part in self._held}
        self.leaving = sum(leaving.values())  # processors that it is to give up already
        kept = [(node, left) for node, count in self.holds.items() if (left := count - leaving.get(node, 0))]
        self.units = self.units_of(self.holds.items())
        self.spare_units = max(0, self.units_of(kept) - self.need.minimum)
        self.size, self.step = self._step()
        self.least = ceil(self.need.minimum / self.step) * self.size  # processors of its minimum
        self.extra = max(0, sum(count for _, count in kept) - self.least)

    def _number(self, name: str) -> int:
        return self._terrain.numbers.get(name.casefold(), -1)

    def units_of(self, held: Iterable[tuple[int, int]]) -> int:
        """Return how many units so many processors of nodes are."""
        return sum(map(self._units, held))

    def _units(self, part: tuple[int, int]) -> int:
        return units_in(self.need.unit, part, self._terrain)

    def _step(self) -> tuple[int, int]:
        """Return how many processors a piece has, and how many units these are."""
        number = next(iter(self.holds))
        whole, sockets = self._terrain.processors[number], self._terrain.sockets[number]
        if self.need.whole:
            return whole, self._units((number, whole))
        return (ceil(whole / sockets), 1) if self.need.unit is UnitType.SOCKET else (1, 1)

    @property
    def job(self) -> JobId:
        """The job itself."""
        return self.running.job

    def claim(self) -> Claim:
        """Return what it could use beyond its minimum, in pieces."""
        request = self.running.request
        if self.sharer.rests:
            return Claim(self.running.turn, self.extra // self.size, self.size, self.weight)
        most = min(request.maximum, self.sharer.could_use) - self.need.minimum
        pieces = 0 if request.together else ceil(max(0, most) / self.step)
        return Claim(self.running.turn, pieces, self.size, self.weight)

    def spares(self, numbers: Iterator[int]) -> Iterator[Spare]:
        """Yield what it could give until it has its minimum: what is easiest first, the last node first."""
        level = self.extra / self.weight
        for part in self._held:
            for ease, processors in ((Ease.READY, part.leaving), (Ease.WAIT, part.awaited)):
                for size in self._asked_before(processors):
                    node = self._number(part.node)
                    yield Spare(next(numbers), ease, level, self.job, node, size, asked_before=True)
        left, extra = self.spare_units, self.extra
        for ease, node, processors in self._in_order():
            units = self._worth(node, processors)
            if units > left:
                continue
            yield Spare(next(numbers), ease, extra / self.weight, self.job, node, processors)
            left -= units
            extra -= processors

    def _asked_before(self, processors: int) -> Iterator[int]:
        """Yield the sizes of pieces: one processor may be for one job, the next for another."""
        apart = self.need.unit is UnitType.PROCESSOR and not self.need.whole
        yield from (1 for _ in range(processors)) if apart else (processors,) if processors else ()

    def _worth(self, node: int, processors: int) -> int:
        return self._units((node, processors)) if self.need.whole else 1

    def _in_order(self) -> list[tuple[Ease, int, int]]:
        """Return the pieces of all its nodes."""
        found: list[tuple[Ease, int, int]] = []
        for part in reversed(self._held):
            node = self._number(part.node)
            found += [(ease, node, size) for ease, size in self._pieces(part, node)]
        return sorted(found, key=lambda each: each[0])

    def _pieces(self, part: Held, node: int) -> list[tuple[Ease, int]]:
        """Return the pieces of one node, easiest first."""
        left = part.processors - part.leaving - part.awaited
        if self.need.whole:
            easy = part.idle + part.stoppable
            ease = Ease.READY if part.idle >= left else Ease.STOP if easy >= left else Ease.WAIT
            return [(ease, left)] if left == part.processors else []
        idle, stoppable = part.idle, part.idle + part.stoppable
        found: list[tuple[Ease, int]] = []
        given = 0
        for size in self._sizes(node, left):
            given += size
            ease = Ease.READY if given <= idle else Ease.STOP if given <= stoppable else Ease.WAIT
            found.append((ease, size))
        return found

    def _sizes(self, node: int, processors: int) -> Iterator[int]:
        """Yield how many processors each further unit has that is given of so many."""
        if self.need.unit is UnitType.PROCESSOR:
            yield from (1 for _ in range(processors))
            return
        whole, sockets = self._terrain.processors[node], self._terrain.sockets[node]
        left = processors
        for units in range(self._units((node, processors)) - 1, -1, -1):
            rest = -(-units * whole // sockets)
            yield left - rest
            left = rest


def lenders_of(view: View, terrain: Terrain, balancing: Balancing) -> dict[JobId, Lender]:
    """Return the running jobs that have a share."""
    return {
        running.job: Lender(running, balancing.sharers[running.job], terrain, balancing)
        for running in view.running
        if running.job in balancing.sharers
        and any(name.casefold() in terrain.numbers for name, _ in running.allocation)
    }
