"""The processors, memory, disk, swap, GPUs and licences that are free at one instant."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from math import inf
from operator import is_not
from typing import NamedTuple

from headnode.core.model.job import NOTHING_HELD, HeldAmounts, gpus_with
from headnode.core.scheduling.node_table import NodeTable
from headnode.core.scheduling.node_view import NodeView

Placement = tuple[tuple[int, int], ...]
"""Numbers of nodes with the processors taken on each, in the order they were taken."""


NodeAmounts = tuple[int, int, int, int]
"""MB of memory, disk and swap, and GPUs, of one node."""

FreeAmounts = tuple[list[int], list[int], list[int], list[int]]
"""The same of each node."""


class GangPlacement(tuple[tuple[int, int], ...]):
    """The placement of a gang, with the placement of each part.  A gang that owns its nodes may hold more."""

    parts: tuple[Placement, ...]

    @classmethod
    def of(cls, fit: Iterable[tuple[int, int]], parts: Iterable[Placement]) -> "GangPlacement":
        """Return a fit with its parts, in the order of the job's tasks."""
        found = cls(fit)
        found.parts = tuple(parts)
        return found


class Allocation(NamedTuple):
    """The resources held by one job, or added by one growth of a job."""

    fit: Placement
    exclusive: bool
    licences: Mapping[str, int]
    memory: int = 0  # MB that it holds with each processor
    held: HeldAmounts = NOTHING_HELD  # and of each node, whatever it has there
    processors_per_gpu: int = 0  # 0: it has no GPUs

    @property
    def counts(self) -> bool:
        """Whether it holds anything of nodes beside processors."""
        return bool(self.memory or self.processors_per_gpu or self.held)

    def of_node(self, processors: int) -> NodeAmounts:
        """Return what it holds of a node on which it has so many processors."""
        held, gpus = self.held, gpus_with(processors, self.processors_per_gpu)
        return processors * self.memory + held.memory, held.disk, held.swap, gpus


class FreeResources:
    """Free processors and amounts, jobs and the exclusive owner of each node; free licences by feature.

    Features that the cluster does not count are not counted here: a job may use any number of them.
    """

    __slots__ = ("disk", "free", "gpus", "jobs", "licences", "memory", "node_table", "owned", "swap")

    def __init__(
        self,
        node_table: NodeTable,
        free: list[int],
        jobs: list[int],
        owned: list[bool],
        amounts: FreeAmounts,
        licences: dict[str, int],
    ) -> None:
        self.node_table, self.free, self.jobs, self.owned = node_table, free, jobs, owned
        self.memory, self.disk, self.swap, self.gpus = amounts
        self.licences = licences

    @property
    def amounts(self) -> FreeAmounts:
        """What is free of memory, disk and swap of each node, in MB, and of its GPUs."""
        return self.memory, self.disk, self.swap, self.gpus

    @classmethod
    def now(
        cls, node_table: NodeTable, nodes: Mapping[str, NodeView], licences: Mapping[str, int]
    ) -> "FreeResources":
        """Return what is free of the nodes now; `licences` are the free ones.

        Only nodes are looked at of which the view is not that of the last call for this table.
        """
        cache, views = node_table.cache.of(_LastFree), list(nodes.values())
        changed = cache.changed(views)
        if cache.resources is None or changed is None:
            cache.resources = cls._of(node_table, views)
        else:
            for number in changed:
                cache.resources._see(number, views[number])
        cache.views = views
        found = cache.resources.copy()
        found.licences = dict(licences)
        return found

    @classmethod
    def _of(cls, node_table: NodeTable, views: Sequence[NodeView]) -> "FreeResources":
        return cls(
            node_table,
            [node.free for node in views],
            [node.jobs for node in views],
            [node.exclusive_to is not None for node in views],
            (
                [node.facts.memory - node.memory_held for node in views],
                [node.facts.disk - node.disk_held for node in views],
                [node.facts.swap - node.swap_held for node in views],
                [node.facts.gpus - node.gpus_held for node in views],
            ),
            {},
        )

    def _see(self, number: int, node: NodeView) -> None:
        facts = node.facts
        self.free[number], self.jobs[number] = node.free, node.jobs
        self.owned[number] = node.exclusive_to is not None
        self.memory[number] = facts.memory - node.memory_held
        self.disk[number] = facts.disk - node.disk_held
        self.swap[number] = facts.swap - node.swap_held
        self.gpus[number] = facts.gpus - node.gpus_held

    @classmethod
    def empty(cls, node_table: NodeTable, licences: Mapping[str, int]) -> "FreeResources":
        """Return what is free when no job runs; `licences` are all there are."""
        nothing = len(node_table.names)
        return cls(
            node_table,
            list(node_table.processors),
            [0] * nothing,
            [False] * nothing,
            amounts_of(node_table),
            dict(licences),
        )

    def at_both_times(self, then: "FreeResources") -> "FreeResources":
        """Return what is free both now and then; jobs and owners are those of now."""
        memory, disk, swap, gpus = (
            list(map(min, *each)) for each in zip(self.amounts, then.amounts, strict=True)
        )
        return FreeResources(
            self.node_table,
            [free if free > 0 else 0 for free in map(min, self.free, then.free)],
            self.jobs,
            self.owned,
            (memory, disk, swap, gpus),
            {name: int(min(free, then.licences.get(name, inf))) for name, free in self.licences.items()},
        )

    def copy(self) -> "FreeResources":
        """Return an independent copy."""
        amounts = self.memory[:], self.disk[:], self.swap[:], self.gpus[:]
        return FreeResources(
            self.node_table, self.free[:], self.jobs[:], self.owned[:], amounts, self.licences.copy()
        )

    def looks_like(self, other: "FreeResources") -> bool:
        """Return whether the same is free on both, of the same nodes."""
        return (
            self.node_table is other.node_table
            and self.free == other.free
            and self.jobs == other.jobs
            and self.owned == other.owned
            and self.amounts == other.amounts
            and self.licences == other.licences
        )

    def differing(self, other: "FreeResources") -> set[int]:
        """Return the nodes of which something else is free than on another, or other jobs have them."""
        found: set[int] = set()
        ours: list[list[int]] = [self.free, self.jobs, list(self.owned), *self.amounts]
        theirs: list[list[int]] = [other.free, other.jobs, list(other.owned), *other.amounts]
        for one, two in zip(ours, theirs, strict=True):
            if one != two:
                found.update([node for node, (a, b) in enumerate(zip(one, two, strict=True)) if a != b])
        return found

    def is_idle(self, number: int) -> bool:
        """Return whether no job holds anything of the node."""
        return self.free[number] == self.node_table.processors[number] and not self.jobs[number]

    def has(self, number: int, held: HeldAmounts) -> bool:
        """Return whether so much of the node is free."""
        return (
            self.memory[number] >= held.memory
            and self.disk[number] >= held.disk
            and self.swap[number] >= held.swap
        )

    def give(self, number: int, held: HeldAmounts, sign: int) -> None:
        """Give back what a job holds of a node beside processors, or with a negative sign take it."""
        self.memory[number] += sign * held.memory
        self.disk[number] += sign * held.disk
        self.swap[number] += sign * held.swap

    def put(self, piece: Allocation) -> None:
        """Let a job hold the piece."""
        self._move(piece, 1)

    def lift(self, piece: Allocation) -> None:
        """Take the piece back from its job."""
        self._move(piece, -1)

    def _move(self, piece: Allocation, sign: int) -> None:
        for number, processors in piece.fit:
            self.free[number] -= sign * processors
            self.jobs[number] += sign
            self.memory[number] -= sign * processors * piece.memory
            if piece.processors_per_gpu:
                self.gpus[number] -= sign * gpus_with(processors, piece.processors_per_gpu)
            if piece.held is not NOTHING_HELD and piece.held:
                self.give(number, piece.held, -sign)
            if piece.exclusive:
                self.owned[number] = sign > 0
        for feature, amount in piece.licences.items():
            if feature in self.licences:
                self.licences[feature] -= sign * amount


class _LastFree:
    """What was free of the nodes when it was asked for last, without licences, and their views then."""

    def __init__(self) -> None:
        self.views: Sequence[NodeView] = ()
        self.resources: FreeResources | None = None

    def changed(self, views: Sequence[NodeView]) -> list[int] | None:
        """Return the nodes with another view; None if they are rather looked at all: an eighth or more."""
        if len(views) != len(self.views):
            return None
        found = list(compress(range(len(views)), map(is_not, self.views, views)))
        return found if len(found) * 8 < len(views) else None


def amounts_of(node_table: NodeTable) -> FreeAmounts:
    """Return the memory, disk and swap that each node has in all, in MB, and its GPUs."""
    facts = node_table.facts
    return (
        [node.memory for node in facts],
        [node.disk for node in facts],
        [node.swap for node in facts],
        [node.gpus for node in facts],
    )
