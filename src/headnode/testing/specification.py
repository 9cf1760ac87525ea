"""The rules of placement said a second time, by trying everything: what quick code is held against.

For processors and whole nodes, gangs and needs of nodes, on clusters of a few processors; not for sockets.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import permutations, product
from typing import NamedTuple

from headnode.core.model.job import NOTHING_HELD, JobRequest, NodeGroupOp, RequestPart, UnitType
from headnode.core.model.node import NodeFacts
from headnode.core.scheduling.plan import Shares
from headnode.testing.node_needs_again import folded, meets


class PromiseBroken(AssertionError):
    """A policy did not do what was promised; the text shows where, as code for a test."""


def broken_unless(kept: bool, what: str) -> None:
    """Do nothing if the promise was kept.

    Raises:  PromiseBroken with these words otherwise.
    """
    if not kept:
        raise PromiseBroken(what)


Units = Mapping[str, int]
"""How many units of a request a job holds of each node."""


def serves(part: RequestPart, facts: NodeFacts) -> bool:
    """Return whether a part may lie on a node."""
    return (
        meets(part.needs, facts)
        and (not part.node_group or part.node_group.casefold() in folded(facts.groups))
        and (not part.required_nodes or facts.name.casefold() in folded(part.required_nodes))
    )


def parts_fit(request: JobRequest, held: Units, owned: set[str], facts: Mapping[str, NodeFacts]) -> bool:
    """Return whether what is held has room for the parts; a gang holds nothing that is for none of them.

    `owned` are the nodes that the job holds in full and alone.
    """
    if not request.together:
        return all(_has_room(part, held, owned, facts) for part in request.parts)
    return any(
        _nothing_more(request, used, held) for used in _layouts(request.parts, dict(held), owned, facts)
    )


def _has_room(part: RequestPart, held: Units, owned: set[str], facts: Mapping[str, NodeFacts]) -> bool:
    there = {n: count for n, count in held.items() if serves(part, facts[n])}
    if part.whole:
        there = {n: count for n, count in there.items() if n in owned}
    if not part.apart:
        return sum(there.values()) >= part.units
    lumps = [size for size, times in part.lumps for _ in range(times)]
    return any(
        all(count >= size for count, size in zip(nodes, lumps, strict=True))
        for nodes in permutations(there.values(), len(lumps))
    )


def _nothing_more(request: JobRequest, used: Counter[str], held: Units) -> bool:
    if request.exclusive or request.unit is UnitType.NODE:
        return all(used[node] for node in held)
    return all(used[node] == count for node, count in held.items())


def _layouts(
    parts: Sequence[RequestPart], left: dict[str, int], owned: set[str], facts: Mapping[str, NodeFacts]
) -> Iterator[Counter[str]]:
    """Yield how much of each node is used, for every way to lay the parts beside each other."""
    if not parts:
        yield Counter()
        return
    part, *others = parts
    for mine in _ways_of(part, left, owned, facts):
        untouched = {n for n in owned if not mine[n]}
        for used in _layouts(others, {n: left[n] - mine[n] for n in left}, untouched, facts):
            yield used + mine


def _ways_of(
    part: RequestPart, left: Mapping[str, int], owned: set[str], facts: Mapping[str, NodeFacts]
) -> Iterator[Counter[str]]:
    """Yield what one part may take of what is left, each way once."""
    nodes = [n for n, count in left.items() if count and serves(part, facts[n])]
    if part.whole:
        nodes = [n for n in nodes if n in owned]
    lumps = [size for size, times in part.lumps for _ in range(times)]
    required = {n for n in facts if n.casefold() in folded(part.required_nodes)}
    seen = set()
    for places in _placements(part, lumps, nodes, dict(left)):
        if not required <= set(places):
            continue
        mine: Counter[str] = Counter()
        for node, size in zip(places, lumps, strict=True):
            mine[node] = left[node] if part.whole else mine[node] + size
        if frozenset(mine.items()) not in seen:
            seen.add(frozenset(mine.items()))
            yield mine


def _placements(
    part: RequestPart, lumps: Sequence[int], nodes: Sequence[str], left: dict[str, int]
) -> Iterator[tuple[str, ...]]:
    """Yield the node of every lump."""
    if not lumps:
        yield ()
        return
    size, *others = lumps
    for node in nodes:
        if left[node] < size:
            continue
        after = {**left, node: 0 if part.apart else left[node] - size}
        for rest in _placements(part, others, nodes, after):
            yield (node, *rest)


def division_fits(
    request: JobRequest,
    parts: Sequence[Shares],
    shares: Shares,
    owned: set[str],
    facts: Mapping[str, NodeFacts],
) -> bool:
    """Return whether the parts of a start are what each task needs, and lie within what the job is given.

    For processors and whole nodes.
    """
    if not request.together:
        return not parts
    if len(parts) != len(request.parts):
        return False
    given = Counter[str]()
    for mine in parts:
        given.update(dict(mine))
    held = dict(shares)
    if set(given) != set(held) or any(given[node] > held[node] for node in given):
        return False
    if not request.exclusive and given != held:
        return False
    return all(
        any(
            _part_units(request, dict(used), facts) == _part_units(request, dict(mine), facts)
            for used in _ways_of(part, _part_units(request, dict(mine), facts), owned, facts)
        )
        or not (mine or part.lumps)
        for part, mine in zip(request.parts, parts, strict=True)
    ) and not _touching_owners(request, parts)


def _part_units(request: JobRequest, mine: Units, facts: Mapping[str, NodeFacts]) -> dict[str, int]:
    if request.unit is UnitType.GPU:
        return {n: mine.get(n, 0) // request.processors_per_gpu for n in facts if mine.get(n)}
    return {n: 1 if request.unit is UnitType.NODE else mine.get(n, 0) for n in facts if mine.get(n)}


def _touching_owners(request: JobRequest, parts: Sequence[Shares]) -> bool:
    """Return whether somebody else is on a node that one part has for itself."""
    for number, (part, mine) in enumerate(zip(request.parts, parts, strict=True)):
        others = [node for other, shares in enumerate(parts) if other != number for node, _ in shares]
        if part.whole and any(node in others for node, _ in mine):
            return True
    return False


class FreeNode(NamedTuple):
    """One node at one instant."""

    facts: NodeFacts
    free: int
    jobs: int
    owned: bool
    memory: int  # MB that no job holds
    closed: str = ""
    disk: int = 0  # MB that no job holds
    swap: int = 0
    gpus: int = 0  # that no job holds
    switches: tuple[str, ...] = ()


World = tuple[tuple[FreeNode, ...], tuple[tuple[str, int], ...]]
"""The nodes, and the free licences."""


@lru_cache(maxsize=100_000)
def ways(request: JobRequest, world: World) -> tuple[Shares, ...]:
    """Return every allocation that would do for the request's minimum or more."""
    return tuple(
        shares for shares in _everything(request, world) if shares and allowed(request, world, shares)
    )


def _everything(request: JobRequest, world: World) -> Iterator[Shares]:
    nodes = world[0]
    for counts in product(*(_counts(request, node) for node in nodes)):
        yield tuple((node.facts.name, n) for node, n in zip(nodes, counts, strict=True) if n)


def _counts(request: JobRequest, node: FreeNode) -> tuple[int, ...]:
    """Return how much of a node is worth trying."""
    if node.closed or node.owned:
        return (0,)
    if takes_whole_nodes(request):
        return (0, node.facts.processors) if node.free == node.facts.processors else (0,)
    return tuple(range(0, node.free + 1, request.processors_per_gpu or 1))


def allowed(request: JobRequest, world: World, shares: Shares) -> bool:
    """Return whether the request may hold exactly this."""
    nodes = {node.facts.name: node for node in world[0]}
    if not all(name in nodes for name, _ in shares) or len(dict(shares)) != len(shares):
        return False
    held = [nodes[name] for name, _ in shares]
    units = sum(_units(request, nodes[name], count) for name, count in shares)
    least = request.maximum if request.start_at_maximum else request.minimum
    return (
        units >= max(least, request.node_share)
        and _not_too_much(request, shares)
        and all(_may_use(request, node, count) for node, (_, count) in zip(held, shares, strict=True))
        and _alone(nodes, shares, request) >= request.node_share
        and {n.casefold() for n in request.required_nodes} <= {name.casefold() for name, _ in shares}
        and (not request.single_node or len(shares) == 1)
        and _few_switches(request, world, held)
        and _beside_each_other(request, world, shares)
        and _groups(request, held)
        and _room_for_parts(request, nodes, shares)
        and _licensed(request, dict(world[1]), sum(count for _, count in shares))
    )


def _few_switches(request: JobRequest, world: World, held: Sequence[FreeNode]) -> bool:
    """Return whether nodes are under as few leaf switches as asked; where there are none, all are."""
    if not request.switches or not any(node.switches for node in world[0]):
        return True
    leaves = {node.switches[0] if node.switches else node.facts for node in held}
    return len(leaves) <= request.switches


def _beside_each_other(request: JobRequest, world: World, shares: Shares) -> bool:
    """Return whether no node of the cluster stands between two of these, if that is asked."""
    if not request.contiguous:
        return True
    names = sorted((len(node.facts.name), node.facts.name.casefold()) for node in world[0])
    taken = {name.casefold() for name, _ in shares}
    row = "".join("x" if name in taken else " " for _, name in names)
    return " " not in row.strip()


def divided(request: JobRequest, world: World, shares: Shares, parts: Sequence[Shares]) -> bool:
    """Return whether what the job is given is divided among its tasks as they need it."""
    nodes = {node.facts.name: node for node in world[0]}
    facts = {name: node.facts for name, node in nodes.items()}
    return division_fits(request, parts, shares, _owned(nodes, shares), facts)


def _room_for_parts(request: JobRequest, nodes: Mapping[str, FreeNode], shares: Shares) -> bool:
    if not request.parts:
        return True
    held = {name: _units(request, nodes[name], count) for name, count in shares}
    facts = {name: node.facts for name, node in nodes.items()}
    return parts_fit(request, held, _owned(nodes, shares), facts)


def _owned(nodes: Mapping[str, FreeNode], shares: Shares) -> set[str]:
    """Return the nodes that are held in full, with nobody else on them."""
    return {name for name, n in shares if n == nodes[name].facts.processors and not nodes[name].jobs}


def takes_whole_nodes(request: JobRequest) -> bool:
    """Return whether the request takes idle nodes only, and all of each."""
    return request.exclusive or request.unit is UnitType.NODE


def memory_with_each(request: JobRequest) -> int:
    """Return how much memory a job holds with each processor; owners of nodes hold none that matters."""
    return 0 if takes_whole_nodes(request) else request.memory


def gpus_with(request: JobRequest, processors: int) -> int:
    """Return how many GPUs a job holds with these processors; owners of nodes hold none that matters."""
    each = 0 if takes_whole_nodes(request) else request.processors_per_gpu
    return processors // each if each else 0


def held_of_each_node(request: JobRequest) -> tuple[int, int, int]:
    """Return what a job holds of each node beside that: memory, disk and swap."""
    held = NOTHING_HELD if takes_whole_nodes(request) else request.held
    return held.memory, held.disk, held.swap


def _units(request: JobRequest, node: FreeNode, count: int) -> int:
    """Return what so much of a node is worth; of a whole one, what its memory is enough for."""
    room = min(count, (node.memory - request.held.memory) // request.memory) if request.memory else count
    if request.unit is UnitType.GPU:
        return min(room // request.processors_per_gpu, node.facts.gpus)
    return min(room, 1) if request.unit is UnitType.NODE else room


def _not_too_much(request: JobRequest, shares: Shares) -> bool:
    """Whole nodes may go beyond the maximum, but only by a part of the last one."""
    if len(request.required_nodes) > request.maximum:
        return False
    if request.unit is UnitType.NODE:
        return len(shares) <= max(request.maximum, request.node_share)
    owns = request.node_share or any(part.whole for part in request.parts)
    if not takes_whole_nodes(request) and not owns:
        return sum(count for _, count in shares) <= request.maximum * (request.processors_per_gpu or 1)
    return True


def _may_use(request: JobRequest, node: FreeNode, count: int) -> bool:
    facts, name = node.facts, node.facts.name.casefold()
    held = request.held
    if node.memory < held.memory or node.disk < held.disk or node.swap < held.swap:
        return False
    asked = [each.casefold() for each in request.requested_nodes]
    if node.closed or node.owned or name in [each.casefold() for each in request.excluded_nodes]:
        return False
    worth = 1 if takes_whole_nodes(request) else count // (request.processors_per_gpu or 1)
    if not 0 < count <= node.free or _units(request, node, count) < worth:
        return False
    if gpus_with(request, count) > node.gpus:
        return False
    if takes_whole_nodes(request) and (node.jobs or count != facts.processors):
        return False
    return (
        (not asked or name in asked)
        and meets(request.needs, facts)
        and (request.minimum_memory or 0) <= facts.memory <= (request.maximum_memory or facts.memory)
        and (request.minimum_processors_per_node or 0) <= facts.processors
        and facts.processors <= (request.maximum_processors_per_node or facts.processors)
    )


def _alone(nodes: Mapping[str, FreeNode], shares: Shares, request: JobRequest) -> int:
    alone = [
        count for name, count in shares if count == nodes[name].facts.processors and not nodes[name].jobs
    ]
    return len(alone) if request.unit is UnitType.NODE else sum(alone)


def _groups(request: JobRequest, held: list[FreeNode]) -> bool:
    if not request.node_groups:
        return True
    inside = [[group in node.facts.groups for group in request.node_groups] for node in held]
    if request.node_group_op is NodeGroupOp.INTERSECT:
        return all(map(all, inside))
    if request.node_group_op is NodeGroupOp.UNION:
        return all(map(any, inside))
    return any(map(all, zip(*inside, strict=True)))


def _licensed(request: JobRequest, free: dict[str, int], processors: int) -> bool:
    taken = Counter(limits_with(request, processors))
    for demand in request.licences:
        taken[demand.feature] += processors if demand.amount is None else demand.amount
    return all(amount <= free.get(key, amount) for key, amount in taken.items())


def limits_with(request: JobRequest, processors: int) -> dict[str, int]:
    """Return what a job takes of the limits of its user and project with so many processors."""
    return {
        share.key: (processors // share.size if share.amount is None else share.amount) * (share.seconds or 1)
        for share in request.limits
    }
