"""Kinds of nodes: those that a plan for the future need not tell apart.

Equal nodes are counted, and only a start binds names: whoever starts takes any that are free.  That is
exact where all who wait want whole nodes, or all want processors anywhere.  Where both meet, or somebody
wants one node, some nodes by name, several processors of one node, or memory, it matters on which node a gap
is: then each is a kind of its own.
"""

from collections import Counter
from collections.abc import Iterable
from enum import Flag, auto
from typing import NamedTuple

from headnode.core.model.job import UnitType
from headnode.core.scheduling.need import Need
from headnode.core.scheduling.terrain import Order, Terrain


class Kind(NamedTuple):
    """Nodes of one kind, by number, in the order of the view."""

    nodes: Order
    size: int  # processors of each
    whole: bool  # counted in idle nodes; otherwise in free processors


class Wants(Flag):
    """What those who wait want of a group of equal nodes."""

    NOTHING = 0
    WHOLE = auto()
    SHARED = auto()
    APART = auto()


class Kinds:
    """The open nodes of a terrain by kind, for the needs of a pass.  `of` is the kind of each node, or -1."""

    def __init__(self, terrain: Terrain, needs: Iterable[Need]) -> None:
        self.all: list[Kind] = []
        self.of = [-1] * len(terrain.names)
        wanted = _wanted(terrain, needs)
        for group, nodes in enumerate(terrain.alike):
            self._add(terrain, nodes, wanted.get(group, Wants.NOTHING))

    def _add(self, terrain: Terrain, nodes: Order, wants: Wants) -> None:
        size = terrain.processors[nodes[0]]
        apart = Wants.APART in wants or wants == Wants.WHOLE | Wants.SHARED or len(nodes) == 1
        for kind in [(node,) for node in nodes] if apart else [nodes]:
            for node in kind:
                self.of[node] = len(self.all)
            self.all.append(Kind(kind, size, wants == Wants.WHOLE and not apart))


def _wanted(terrain: Terrain, needs: Iterable[Need]) -> dict[int, Wants]:
    """Return what is wanted of each group of equal nodes; a group of which only a part may serve is apart."""
    wanted: dict[int, Wants] = {}
    known: dict[int, list[Counter[int]]] = {}  # by rules
    for need in needs:
        members_in = known.get(need.rules) or [_members(order, terrain) for order in need.candidates]
        if need.rules >= 0:
            known[need.rules] = members_in
        for groups in members_in:
            for group, members in groups.items():
                wants = _wants(need, terrain, group)
                if members < len(terrain.alike[group]):
                    wants |= Wants.APART
                wanted[group] = wanted.get(group, Wants.NOTHING) | wants
        for part in need.parts:
            wanted |= {group: Wants.APART | wanted.get(group, Wants.NOTHING) for group in part.split}
    return wanted


def _members(order: Order, terrain: Terrain) -> Counter[int]:
    """Return how many nodes of each group are in the order."""
    return Counter(terrain.alike_of[node] for node in order)


def _wants(need: Need, terrain: Terrain, group: int) -> Wants:
    node = terrain.alike[group][0]
    if need.single or need.share or need.required or len(need.candidates) > 1:
        return Wants.APART
    if need.whole:
        return Wants.WHOLE
    broken = need.unit is UnitType.SOCKET and terrain.processors[node] != terrain.sockets[node]
    return Wants.SHARED if need.counted and not broken else Wants.APART
