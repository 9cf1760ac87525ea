"""Kinds of nodes that a plan for the future need not tell apart, and what running jobs release of each.

Equal nodes are counted, and only a start binds names: a job that starts takes any that are free.  That is
exact where all that wait want whole nodes, or all want processors anywhere.  Where both meet, or a job
wants one node, some nodes by name, several processors of one node, or memory, it matters on which node a gap
is: then each is a kind of its own.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from enum import Flag, auto
from typing import NamedTuple

from headnode.core.model.job import UnitType
from headnode.core.model.quantities import Instant
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
    """The open nodes of a table by kind.  `of` is the kind of each node, or -1.

    `demand` is what is wanted of each group of equal nodes.
    """

    def __init__(self, node_table: NodeTable, demand: Sequence[NodeDemand]) -> None:
        self.all: list[NodeKind] = []
        self.of = [-1] * len(node_table.names)
        for nodes, wants in zip(node_table.alike, demand, strict=True):
            self._add(node_table, nodes, wants)

    def _add(self, node_table: NodeTable, nodes: NodeOrder, wants: NodeDemand) -> None:
        size = node_table.processors[nodes[0]]
        for kind in [(node,) for node in nodes] if wants is NodeDemand.APART else [nodes]:
            for node in kind:
                self.of[node] = len(self.all)
            self.all.append(NodeKind(kind, size, wants is NodeDemand.WHOLE))


class KindMemory:
    """The kinds of the last pass on the nodes of a table, and how many nodes of each group rules allow."""

    def __init__(self) -> None:
        self.kinds: tuple[Sequence[NodeDemand], NodeKinds] | None = None
        self._members: dict[int, list[Counter[int]]] = {}  # of groups in each alternative, by rules

    def members_in(self, need: ResolvedRequest, node_table: NodeTable) -> list[Counter[int]]:
        """Return how many nodes of each group are in each alternative of a need."""
        known = self._members.get(need.rules)
        if known is None:
            known = [Counter(node_table.alike_of[node] for node in order) for order in need.candidates]
            if need.rules >= 0:
                self._members[need.rules] = known
        return known


def kinds_of(node_table: NodeTable, needs: Iterable[ResolvedRequest]) -> NodeKinds:
    """Return the open nodes of a table by kind, for requests of a pass; the same if they suit these."""
    memory = node_table.cache.of(KindMemory)
    demand = [NodeDemand.NOTHING] * len(node_table.alike)
    for need in {_what_matters(need): need for need in needs}.values():
        for group, wanted in _wanted(need, memory.members_in(need, node_table), node_table):
            demand[group] |= wanted
    mixed = NodeDemand.WHOLE | NodeDemand.SHARED
    for group, nodes in enumerate(node_table.alike):
        if len(nodes) == 1 or NodeDemand.APART in demand[group] or demand[group] == mixed:
            demand[group] = NodeDemand.APART
    if memory.kinds is None or memory.kinds[0] != demand:
        memory.kinds = demand, NodeKinds(node_table, demand)
    return memory.kinds[1]


def _what_matters(need: ResolvedRequest) -> tuple[Hashable, ...]:
    """Return what `_wanted` looks at."""
    where = need.rules if need.rules >= 0 else need.candidates
    apart = (
        need.single or need.is_topological,
        need.share > 0,
        bool(need.required),
        need.counts_amounts,
    )
    return where, need.unit, need.whole, apart, need.parts


def _wanted(
    need: ResolvedRequest, members_in: Iterable[Counter[int]], node_table: NodeTable
) -> Iterator[tuple[int, NodeDemand]]:
    """Yield what is wanted of each group of equal nodes; a group of which only a part may serve is apart."""
    for groups in members_in:
        for group, members in groups.items():
            yield group, _wants(need, node_table, group)
            if members < len(node_table.alike[group]):
                yield group, NodeDemand.APART
    for part in need.parts:
        for group in part.split:
            yield group, NodeDemand.APART


def _wants(need: ResolvedRequest, node_table: NodeTable, group: int) -> NodeDemand:
    node = node_table.alike[group][0]
    several = len(need.candidates) > 1
    if need.single or need.share or need.required or need.is_topological or several:
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


OVERDUE = 1.0  # seconds that a job over its limit is expected to go on


def expected(releases: Sequence[Release], now: Instant) -> list[Release]:
    """Return releases with those of jobs over their limits after now."""
    return [each if each.at > now else each._replace(at=Instant(now + OVERDUE)) for each in releases]


ReleaseSteps = list[tuple[float, int]]
"""When how much comes back."""


def kind_profile(
    now: float, resources: FreeResources, kind: NodeKind, returns: Sequence[ReleaseSteps]
) -> Profile:
    """Return what is free of a kind: idle nodes where those are counted, else processors."""
    make = _idle_nodes if kind.whole else _processors
    return make(now, resources, kind, [returns[node] for node in kind.nodes])


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


class NodeReturns:
    """What running jobs release of each node, in no order: with its sole owner, all of it comes back."""

    def __init__(self, resources: FreeResources, releases: Sequence[Release]) -> None:
        self._sizes = resources.node_table.processors
        self._releases: dict[int, Release] = {}
        self.of: list[ReleaseSteps] = [[] for _ in resources.free]
        self._on: list[dict[int, Release]] = [{} for _ in resources.free]  # by job
        self.change(releases)

    def on(self, nodes: Iterable[int]) -> list[Release]:
        """Return the releases of which anything comes back on these nodes."""
        return list({job: each for node in nodes for job, each in self._on[node].items()}.values())

    def differing(self, releases: Sequence[Release]) -> set[int]:
        """Return the nodes of which something else comes back with these releases."""
        gone, come, _ = self._changes(releases)
        return {node for each in (*gone, *come) for node, _ in each.piece.fit}

    def change(self, releases: Sequence[Release]) -> None:
        """Let these be the releases."""
        gone, come, self._releases = self._changes(releases)
        for each in gone:
            for node, step in self._steps(each):
                self.of[node].remove(step)
                self._on[node].pop(each.job, None)
        for each in come:
            for node, step in self._steps(each):
                self.of[node].append(step)
                self._on[node][each.job] = each

    def _changes(
        self, releases: Sequence[Release]
    ) -> tuple[list[Release], list[Release], dict[int, Release]]:
        """Return the releases before that are not among these, those that are new, and all by job."""
        before, now = self._releases, {each.job: each for each in releases}
        gone = [each for job, each in before.items() if now.get(job) is not each]
        return gone, [each for job, each in now.items() if before.get(job) is not each], now

    def _steps(self, release: Release) -> Iterator[tuple[int, tuple[float, int]]]:
        at, piece = release.at, release.piece
        for node, processors in piece.fit:
            yield node, (at, self._sizes[node] if piece.exclusive else processors)


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
