"""The shares of running jobs: units above the minimum by weight, and what each job could give.

A piece is one unit: a processor, the processors of a socket, or a node of jobs that hold whole nodes.  What
a job has beyond its minimum is counted in processors; where whole nodes differ, each is as large as the first
of its job.

Each next unit goes to the job that would then have the least for its weight: the method of highest averages
(Jefferson, d'Hondt).  It is exact in whole units, and when there is one unit more, or a job fewer, no other
job's share gets smaller: so few processors change hands.
Source: HPC Pack scheduling mode Balanced, cluster parameter PriorityBias.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from heapq import heapify, heappop, heapreplace
from math import ceil
from types import MappingProxyType
from typing import NamedTuple

from headnode.core.model.job import UnitType
from headnode.core.model.priority_factors import QueuePosition
from headnode.core.model.quantities import JobId
from headnode.core.scheduling.free_resources import FreeResources
from headnode.core.scheduling.node_table import NodeTable
from headnode.core.scheduling.request import ResolvedRequest, resolve, units_in
from headnode.core.scheduling.view import Balancing, Bias, NodeSurplus, RunningJob, ShareInfo, View

_TIMES = MappingProxyType({Bias.HIGH: 10.0, Bias.MEDIUM: 2.0, Bias.LOW: 1.0, Bias.NONE: 1.0})
"""How many times as much for a priority 1000 higher; what lies between is scaled."""

_JUST_UNDER = 1 - 1e-9  # rounding must not lift a level over one at which a job gets one more unit


class ShareClaim(NamedTuple):
    """The units that a job could use beyond its minimum; a unit is a whole processor, socket or node."""

    turn: QueuePosition
    most: int  # units
    size: int  # processors of each
    weight: float


def weight_of(turn: QueuePosition, bias: Bias) -> float:
    """Return how much a job of this turn gets for each one that a job of priority 0 gets.

    >>> from headnode.core.model.priority_factors import queue_position
    >>> high, low = queue_position(3000, 1, 1), queue_position(2000, 2, 2)
    >>> weight_of(high, Bias.MEDIUM) / weight_of(low, Bias.MEDIUM)
    2.0
    """
    return float(_TIMES[bias] ** (turn.priority / 1000))


def share_out(claims: Sequence[ShareClaim], processors: int) -> list[int]:
    """Return how many units each claim gets, of so many processors in all.

    Never more than it could use; everything is given away that anybody can use.  Ties go by turn.
    Cost:  O(claims * log(claims)), however many processors there are.

    >>> from headnode.core.model.priority_factors import queue_position
    >>> low, high = queue_position(2000, 1, 1), queue_position(3000, 2, 2)
    >>> share_out([ShareClaim(low, 9, 1, 1.0), ShareClaim(high, 9, 1, 2.0)], 9)
    [3, 6]
    """
    given = _nearly(claims, processors)
    left = processors - sum(units * claim.size for units, claim in zip(given, claims, strict=True))
    line = [
        (_level(claim, units + 1), claim.turn, number)
        for number, (claim, units) in enumerate(zip(claims, given, strict=True))
        if units < claim.most
    ]
    heapify(line)
    while line and left > 0:
        _, turn, number = line[0]
        claim = claims[number]
        if claim.size > left:
            heappop(line)
            continue
        given[number] += 1
        left -= claim.size
        if given[number] < claim.most:
            heapreplace(line, (_level(claim, given[number] + 1), turn, number))
        else:
            heappop(line)
    return given


def _level(claim: ShareClaim, units: int) -> float:
    """Return how many processors for its weight a claim has with so many units."""
    return units * claim.size / claim.weight


def _nearly(claims: Sequence[ShareClaim], processors: int) -> list[int]:
    """Return what every claim has at the highest level that surely leaves something: the rest is a few units.

    A job whose unit reaches a level gets it before any job gets a unit above that level.
    """
    level = _level_of_all(claims, processors) * _JUST_UNDER
    return [min(claim.most, int(level * claim.weight / claim.size)) for claim in claims]


def _level_of_all(claims: Sequence[ShareClaim], processors: int) -> float:
    """Return the level at which the claims have all the processors, if these could be divided at will."""
    left, weights = float(processors), sum(claim.weight for claim in claims)
    reached = 0.0
    for full, weight in sorted((_level(claim, claim.most), claim.weight) for claim in claims):
        if weights <= 0 or left < (full - reached) * weights:
            break
        left -= (full - reached) * weights
        reached, weights = full, weights - weight
    else:
        return reached
    return reached + left / weights if weights > 0 else reached


class Ease(IntEnum):
    """The cost of reclaiming processors from a running job."""

    READY = 0  # nothing: it is idle, or asked for already
    STOP = 1  # a task is stopped, and runs again
    WAIT = 2  # a task must end


class Spare(NamedTuple):
    """Processors of one node that a running job could give up."""

    number: int  # no other piece of the pass has it
    ease: Ease
    level: float  # what its job has for its weight before it gives this
    job: JobId
    node: int
    processors: int
    asked_before: bool = False  # it is not among what its job has beyond its minimum any more


class Lender:
    """A running job, with its processors beyond its minimum.  `extra` is in processors."""

    def __init__(
        self, running: RunningJob, sharer: ShareInfo, node_table: NodeTable, balancing: Balancing
    ) -> None:
        self.running, self.sharer = running, sharer
        self.need: ResolvedRequest = resolve(running.request, node_table)
        self.weight = weight_of(running.turn, balancing.bias)
        self._node_table = node_table
        there = ((self._number(name), count) for name, count in running.allocation)
        self.holds = {node: count for node, count in there if node >= 0}  # nodes that are gone left out
        self._held = [part for part in sharer.held if self._number(part.node) >= 0]
        leaving = {self._number(part.node): part.leaving + part.awaited for part in self._held}
        self.leaving = sum(leaving.values())  # processors that it is to give up already
        kept = [(node, left) for node, count in self.holds.items() if (left := count - leaving.get(node, 0))]
        self.units = self.units_of(self.holds.items())
        not_yet = {self._number(name): count for name, count in sharer.kept}
        here = [(node, left - not_yet.get(node, 0)) for node, left in kept]
        self.spare_units = max(0, self.units_of(here) - self.need.minimum)
        self.size, self.step = self._step()
        self.least = ceil(self.need.minimum / self.step) * self.size  # processors of its minimum
        self.extra = max(0, sum(count for _, count in kept) - self.least)

    def _number(self, name: str) -> int:
        return self._node_table.numbers.get(name.casefold(), -1)

    def units_of(self, held: Iterable[tuple[int, int]]) -> int:
        """Return how many units so many processors of nodes are."""
        return sum(map(self._units, held))

    def _units(self, part: tuple[int, int]) -> int:
        return units_in(self.need, part, self._node_table)

    def _step(self) -> tuple[int, int]:
        """Return how many processors a piece has, and how many units these are."""
        number = next(iter(self.holds))
        whole, sockets = self._node_table.processors[number], self._node_table.sockets[number]
        if self.need.whole:
            return whole, self._units((number, whole))
        if self.need.unit is UnitType.GPU:
            return self.need.processors_per_gpu, 1
        return (ceil(whole / sockets), 1) if self.need.unit is UnitType.SOCKET else (1, 1)

    @property
    def job(self) -> JobId:
        """The job itself."""
        return self.running.job

    def claim(self) -> ShareClaim:
        """Return what it could use beyond its minimum, in pieces."""
        request = self.running.request
        if self.sharer.rests:
            return ShareClaim(self.running.turn, self.extra // self.size, self.size, self.weight)
        most = min(request.maximum, self.sharer.could_use) - self.need.minimum
        pieces = 0 if request.together else ceil(max(0, most) / self.step)
        return ShareClaim(self.running.turn, pieces, self.size, self.weight)

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

    def _pieces(self, part: NodeSurplus, node: int) -> list[tuple[Ease, int]]:
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
        if self.need.unit is UnitType.GPU:
            each = self.need.processors_per_gpu
            yield from (each for _ in range(processors // each))
            return
        whole, sockets = self._node_table.processors[node], self._node_table.sockets[node]
        left = processors
        for units in range(self._units((node, processors)) - 1, -1, -1):
            rest = -(-units * whole // sockets)
            yield left - rest
            left = rest


def lenders_of(view: View, node_table: NodeTable, balancing: Balancing) -> dict[JobId, Lender]:
    """Return the running jobs that have a share."""
    return {
        running.job: Lender(running, balancing.sharers[running.job], node_table, balancing)
        for running in view.running
        if running.job in balancing.sharers
        and any(name.casefold() in node_table.numbers for name, _ in running.allocation)
    }


class Area:
    """A group of jobs, in queue order, and the nodes that at least one of them holds or could use."""

    def __init__(self) -> None:
        self.jobs: list[Lender] = []
        self.nodes: list[int] = []

    def free(self, resources: FreeResources, unused: Sequence[int]) -> int:
        """Return the free processors that a job here could use, less `unused` of each node."""
        whole = all(lender.need.whole for lender in self.jobs)
        there = [n for n in self.nodes if not resources.owned[n] and (not whole or resources.is_idle(n))]
        return sum(max(0, resources.free[node] - unused[node]) for node in there)


def areas(lenders: Sequence[Lender], nodes: int) -> list[Area]:
    """Return the areas of so many nodes; a node that no job could use is in none.

    Cost:  O(nodes) for each kind of job that asks for nodes of its own.
    """
    parents = list(range(nodes))

    def root(node: int) -> int:
        while parents[node] != node:
            parents[node] = parents[parents[node]]
            node = parents[node]
        return node

    known: set[int] = set()
    reached: dict[int, None] = {}
    for lender in lenders:
        orders = () if lender.need.rules in known else lender.need.candidates
        known.add(lender.need.rules)
        for order in (*orders, tuple(lender.holds)):
            reached.update(dict.fromkeys(order))
            for node in order:
                parents[root(node)] = root(order[0])
        for order in lender.need.candidates[:1]:
            for node in order[:1]:
                parents[root(node)] = root(next(iter(lender.holds)))
    found: dict[int, Area] = {}
    for lender in lenders:
        found.setdefault(root(next(iter(lender.holds))), Area()).jobs.append(lender)
    for node in reached:
        if root(node) in found:
            found[root(node)].nodes.append(node)
    return list(found.values())
