"""Kinds of nodes that a plan for the future need not tell apart, and what running jobs release of each.

Equal nodes are counted, and only a start binds names: a job that starts takes any that are free.  That is
exact where all that wait want whole nodes, or all want processors anywhere.  Where both meet, or a job
wants one node, some nodes by name, several processors of one node, or memory, it matters on which node a gap
is: then each is a kind of its own.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import Flag, auto
from typing import NamedTuple

from headnode.core.model.job import UnitType
from headnode.core.scheduling.free_resources import FreeResources, Placement
from headnode.core.scheduling.node_table import NodeOrder, NodeTable
from headnode.core.scheduling.profile import Profile
from headnode.core.scheduling.request import ResolvedRequest
from headnode.core.scheduling.shadow_reservation import Release


class NodeKind(NamedTuple):
    """Nodes of one kind, by number, in the order of the view."""

    nodes: NodeOrder
    size: int  # processors of each
    whole: bool  # counted in idle nodes; otherwise in free processors


class NodeDemand(Flag):
    """The demand of waiting jobs on a group of equal nodes."""

    NOTHING = 0
    WHOLE = auto()
    SHARED = auto()
    APART = auto()


class NodeKinds:
    """The open nodes of a table by kind, for requests of a pass.  `of` is the kind of each node, or -1."""

    def __init__(self, node_table: NodeTable, needs: Iterable[ResolvedRequest]) -> None:
        self.all: list[NodeKind] = []
        self.of = [-1] * len(node_table.names)
        wanted = _wanted(node_table, needs)
        for group, nodes in enumerate(node_table.alike):
            self._add(node_table, nodes, wanted.get(group, NodeDemand.NOTHING))

    def _add(self, node_table: NodeTable, nodes: NodeOrder, wants: NodeDemand) -> None:
        size = node_table.processors[nodes[0]]
        apart = NodeDemand.APART in wants or wants == NodeDemand.WHOLE | NodeDemand.SHARED or len(nodes) == 1
        for kind in [(node,) for node in nodes] if apart else [nodes]:
            for node in kind:
                self.of[node] = len(self.all)
            self.all.append(NodeKind(kind, size, wants == NodeDemand.WHOLE and not apart))


def _wanted(node_table: NodeTable, needs: Iterable[ResolvedRequest]) -> dict[int, NodeDemand]:
    """Return what is wanted of each group of equal nodes; a group of which only a part may serve is apart."""
    wanted: dict[int, NodeDemand] = {}
    known: dict[int, list[Counter[int]]] = {}  # by rules
    for need in needs:
        members_in = known.get(need.rules) or [_members(order, node_table) for order in need.candidates]
        if need.rules >= 0:
            known[need.rules] = members_in
        for groups in members_in:
            for group, members in groups.items():
                wants = _wants(need, node_table, group)
                if members < len(node_table.alike[group]):
                    wants |= NodeDemand.APART
                wanted[group] = wanted.get(group, NodeDemand.NOTHING) | wants
        for part in need.parts:
            wanted |= {
                group: NodeDemand.APART | wanted.get(group, NodeDemand.NOTHING) for group in part.split
            }
    return wanted


def _members(order: NodeOrder, node_table: NodeTable) -> Counter[int]:
    """Return how many nodes of each group are in the order."""
    return Counter(node_table.alike_of[node] for node in order)


def _wants(need: ResolvedRequest, node_table: NodeTable, group: int) -> NodeDemand:
    node = node_table.alike[group][0]
    if need.single or need.share or need.required or len(need.candidates) > 1:
        return NodeDemand.APART
    if need.whole:
        return NodeDemand.WHOLE
    broken = need.unit is UnitType.SOCKET and node_table.processors[node] != node_table.sockets[node]
    return NodeDemand.SHARED if need.counted and not broken else NodeDemand.APART


def shapes_of(kinds: Sequence[NodeKind], node_table: NodeTable) -> tuple[list[int], list[NodeKind]]:
    """Return a number for each kind, the same where equal counts are worth the same, and a kind for each."""
    known: dict[tuple[int, int, int, bool], int] = {}
    examples: list[NodeKind] = []
    shapes = []
    for kind in kinds:
        node = kind.nodes[0]
        shape = kind.size, node_table.sockets[node], node_table.facts[node].gpus, kind.whole
        if shape not in known:
            known[shape] = len(examples)
            examples.append(kind)
        shapes.append(known[shape])
    return shapes, examples


def spread(kind: NodeKind, count: int, free: list[int], real: FreeResources | None) -> None:
    """Put so much of a kind on its nodes: where it is free now, or in their order."""
    for node in kind.nodes:
        there = kind.size if real is None else 0 if real.owned[node] else real.free[node]
        if kind.whole:
            there = kind.size if real is None or real.is_idle(node) else 0
            taken = there if count > 0 else 0
            count -= taken > 0
        else:
            taken = min(there, count)
            count -= taken
        free[node] = taken
        if count <= 0:
            return


def filled(kind: NodeKind, count: int) -> Placement:
    """Return so many processors, or whole nodes, on the first nodes of a kind."""
    full, rest = (count, 0) if kind.whole else divmod(count, kind.size)
    first = [(node, kind.size) for node in kind.nodes[:full]]
    return tuple([*first, (kind.nodes[full], rest)] if rest else first)


ReleaseSteps = list[tuple[float, int]]
"""When how much comes back."""


def kind_profiles(
    now: float, resources: FreeResources, kinds: NodeKinds, releases: Sequence[Release]
) -> list[Profile]:
    """Return for each kind what is free of it: idle nodes where those are counted, else processors."""
    returns = _by_node(resources, releases)
    return [
        (_idle_nodes if kind.whole else _processors)(
            now, resources, kind, [returns[node] for node in kind.nodes]
        )
        for kind in kinds.all
    ]


def total_profile(now: float, kinds: NodeKinds, profiles: Sequence[Profile]) -> Profile:
    """Return how many processors are free of all kinds together, as far as they are counted."""
    changes, free = [], 0
    for kind, profile in zip(kinds.all, profiles, strict=True):
        before, each = 0, kind.size if kind.whole else 1
        for at, count in profile.stairs():
            if at <= now:
                free += count * each
            else:
                changes.append((at, (count - before) * each))
            before = count
    return _rising(now, free, changes)


def amount_profiles(
    now: float, resources: FreeResources, nodes: Sequence[int], releases: Sequence[Release]
) -> list[dict[int, Profile]]:
    """Return for memory, disk and swap what is free of each of the nodes, in MB, and how many GPUs."""
    if not nodes:
        return [{} for _ in resources.amounts]
    returns: list[dict[int, ReleaseSteps]] = [{node: [] for node in nodes} for _ in resources.amounts]
    for at, _, _, piece in releases:
        for node, processors in piece.fit if piece.counts else ():
            for back, amount in zip(returns, piece.of_node(processors), strict=True):
                if amount and node in back:
                    back[node].append((at, amount))
    return [
        {node: _rising(now, free[node], each) for node, each in back.items()}
        for free, back in zip(resources.amounts, returns, strict=True)
    ]


def licence_profiles(now: float, resources: FreeResources, releases: Sequence[Release]) -> dict[str, Profile]:
    """Return for each licence that is counted how many are free."""
    returns: dict[str, ReleaseSteps] = {feature: [] for feature in resources.licences}
    for at, _, _, piece in releases if returns else ():
        for feature, amount in piece.licences.items():
            if feature in returns:
                returns[feature].append((at, amount))
    return {feature: _rising(now, resources.licences[feature], back) for feature, back in returns.items()}


def _by_node(resources: FreeResources, releases: Sequence[Release]) -> list[ReleaseSteps]:
    """Return what comes back of each node; with its sole owner, all of it does."""
    returns: list[ReleaseSteps] = [[] for _ in resources.free]
    for at, _, _, piece in releases:
        for node, processors in piece.fit:
            returns[node].append(
                (at, resources.node_table.processors[node] if piece.exclusive else processors)
            )
    return returns


def _free(resources: FreeResources, node: int) -> int:
    return 0 if resources.owned[node] else resources.free[node]


def _processors(
    now: float, resources: FreeResources, kind: NodeKind, returns: Sequence[ReleaseSteps]
) -> Profile:
    free = sum([_free(resources, node) for node in kind.nodes])
    return _rising(now, free, [each for back in returns for each in back])


def _idle_nodes(
    now: float, resources: FreeResources, kind: NodeKind, returns: Sequence[ReleaseSteps]
) -> Profile:
    """Count nodes: each comes back with the last of its jobs, if the jobs that hold it are all known."""
    idle, back = 0, []
    for node, parts in zip(kind.nodes, returns, strict=True):
        if resources.is_idle(node):
            idle += 1
        elif parts and _free(resources, node) + sum(count for _, count in parts) >= kind.size:
            back.append((max(parts)[0], 1))
    return _rising(now, idle, back)


def _rising(now: float, free: int, returns: ReleaseSteps) -> Profile:
    return Profile.of_holders(now, free, sorted(returns))
