"""What is free at one instant, as a board that a plan may move pieces on."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from headnode.core.model.held import NOTHING_HELD, Held
from headnode.core.scheduling.terrain import Terrain
from headnode.core.scheduling.view import NodeView

Fit = tuple[tuple[int, int], ...]
"""Numbers of nodes with the processors taken on each, in the order they were taken."""


Amounts = tuple[int, int, int]
"""MB of memory, disk and swap of one node."""


class Divided(tuple[tuple[int, int], ...]):
    """The fit of a gang, which knows which of it is for which part.  An owner of nodes may hold more."""

    parts: tuple[Fit, ...]

    @classmethod
    def of(cls, fit: Iterable[tuple[int, int]], parts: Iterable[Fit]) -> "Divided":
        """Return a fit with its parts, in the order of the job's tasks."""
        found = cls(fit)
        found.parts = tuple(parts)
        return found


class Piece(NamedTuple):
    """What one job, or one growth of a job, holds."""

    fit: Fit
    exclusive: bool
    licences: Mapping[str, int]
    memory: int = 0  # MB that it holds with each processor
    held: Held = NOTHING_HELD  # and of each node, whatever it has there

    def of_node(self, processors: int) -> Amounts:
        """Return what it holds of a node on which it has so many processors."""
        held = self.held
        return processors * self.memory + held.memory, held.disk, held.swap


class Board:
    """Free processors and amounts, holders and sole ownership for each node; free licences by feature.

    Features that the cluster does not count are not on the board: a job may use any number of them.
    """

    __slots__ = ("disk", "free", "jobs", "licences", "memory", "owned", "swap", "terrain")

    def __init__(
        self,
        terrain: Terrain,
        free: list[int],
        jobs: list[int],
        owned: list[bool],
        amounts: tuple[list[int], list[int], list[int]],
        licences: dict[str, int],
    ) -> None:
        self.terrain, self.free, self.jobs, self.owned = terrain, free, jobs, owned
        self.memory, self.disk, self.swap = amounts
        self.licences = licences

    @property
    def amounts(self) -> tuple[list[int], list[int], list[int]]:
        """What is free of memory, disk and swap of each node, in MB."""
        return self.memory, self.disk, self.swap

    @classmethod
    def now(cls, terrain: Terrain, nodes: Mapping[str, NodeView], licences: Mapping[str, int]) -> "Board":
        """Return the board as the nodes are; `licences` are the free ones."""
        return cls(
            terrain,
            [node.free for node in nodes.values()],
            [node.jobs for node in nodes.values()],
            [node.exclusive_to is not None for node in nodes.values()],
            (
                [node.facts.memory - node.memory_held for node in nodes.values()],
                [node.facts.disk - node.disk_held for node in nodes.values()],
                [node.facts.swap - node.swap_held for node in nodes.values()],
            ),
            dict(licences),
        )

    @classmethod
    def empty(cls, terrain: Terrain, licences: Mapping[str, int]) -> "Board":
        """Return the board with no job on it; `licences` are all there are."""
        nothing = len(terrain.names)
        return cls(
            terrain,
            list(terrain.processors),
            [0] * nothing,
            [False] * nothing,
            amounts_of(terrain),
            dict(licences),
        )

    def copy(self) -> "Board":
        """Return a board of its own that looks the same."""
        amounts = self.memory[:], self.disk[:], self.swap[:]
        return Board(self.terrain, self.free[:], self.jobs[:], self.owned[:], amounts, self.licences.copy())

    def looks_like(self, other: "Board") -> bool:
        """Return whether the same is free on both, of the same nodes."""
        return (
            self.terrain is other.terrain
            and self.free == other.free
            and self.jobs == other.jobs
            and self.owned == other.owned
            and self.amounts == other.amounts
            and self.licences == other.licences
        )

    def is_idle(self, number: int) -> bool:
        """Return whether no job holds anything of the node."""
        return self.free[number] == self.terrain.processors[number] and not self.jobs[number]

    def has(self, number: int, held: Held) -> bool:
        """Return whether so much of the node is free."""
        return (
            self.memory[number] >= held.memory
            and self.disk[number] >= held.disk
            and self.swap[number] >= held.swap
        )

    def give(self, number: int, held: Held, sign: int) -> None:
        """Give back what a job holds of a node beside processors, or with a negative sign take it."""
        self.memory[number] += sign * held.memory
        self.disk[number] += sign * held.disk
        self.swap[number] += sign * held.swap

    def put(self, piece: Piece) -> None:
        """Let a job hold the piece."""
        self._move(piece, 1)

    def lift(self, piece: Piece) -> None:
        """Take the piece back from its job."""
        self._move(piece, -1)

    def _move(self, piece: Piece, sign: int) -> None:
        for number, processors in piece.fit:
            self.free[number] -= sign * processors
            self.jobs[number] += sign
            self.memory[number] -= sign * processors * piece.memory
            if piece.held:
                self.give(number, piece.held, -sign)
            if piece.exclusive:
                self.owned[number] = sign > 0
        for feature, amount in piece.licences.items():
            if feature in self.licences:
                self.licences[feature] -= sign * amount


def amounts_of(terrain: Terrain) -> tuple[list[int], list[int], list[int]]:
    """Return the memory, disk and swap that each node has in all, in MB."""
    facts = terrain.facts
    return [node.memory for node in facts], [node.disk for node in facts], [node.swap for node in facts]
