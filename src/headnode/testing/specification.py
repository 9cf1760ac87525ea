"""The rules of placement said a second time, by trying everything: what quick code is held against.

For processors and whole nodes, on clusters of a few processors; sockets are not spoken of.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from headnode.core.model.held import NOTHING_HELD
from headnode.core.model.job import JobRequest, NodeGroupOp, UnitType
from headnode.core.model.node import NodeFacts
from headnode.core.scheduling.decision import Shares
from headnode.testing.specification_of_parts import division_fits, meets, parts_fit


class Ground(NamedTuple):
    """One node at one instant."""

    facts: NodeFacts
    free: int
    jobs: int
    owned: bool
    memory: int  # MB that no job holds
    closed: str = ""
    disk: int = 0  # MB that no job holds
    swap: int = 0


World = tuple[tuple[Ground, ...], tuple[tuple[str, int], ...]]
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


def _counts(request: JobRequest, node: Ground) -> tuple[int, ...]:
    """Return how much of a node is worth trying."""
    if node.closed or node.owned:
        return (0,)
    if takes_whole_nodes(request):
        return (0, node.facts.processors) if node.free == node.facts.processors else (0,)
    return tuple(range(node.free + 1))


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
        and _groups(request, held)
        and _room_for_parts(request, nodes, shares)
        and _licensed(request, dict(world[1]), sum(count for _, count in shares))
    )


def divided(request: JobRequest, world: World, shares: Shares, parts: Sequence[Shares]) -> bool:
    """Return whether what the job is given is divided among its tasks as they need it."""
    nodes = {node.facts.name: node for node in world[0]}
    facts = {name: node.facts for name, node in nodes.items()}
    return division_fits(request, parts, shares, _owned(nodes, shares), facts)


def _room_for_parts(request: JobRequest, nodes: Mapping[str, Ground], shares: Shares) -> bool:
    if not request.parts:
        return True
    held = {name: _units(request, nodes[name], count) for name, count in shares}
    facts = {name: node.facts for name, node in nodes.items()}
    return parts_fit(request, held, _owned(nodes, shares), facts)


def _owned(nodes: Mapping[str, Ground], shares: Shares) -> set[str]:
    """Return the nodes that are held in full, with nobody else on them."""
    return {name for name, n in shares if n == nodes[name].facts.processors and not nodes[name].jobs}


def takes_whole_nodes(request: JobRequest) -> bool:
    """Return whether the request takes idle nodes only, and all of each."""
    return request.exclusive or request.unit is UnitType.NODE


def memory_with_each(request: JobRequest) -> int:
    """Return how much memory a job holds with each processor; owners of nodes hold none that matters."""
    return 0 if takes_whole_nodes(request) else request.memory


def held_of_each_node(request: JobRequest) -> tuple[int, int, int]:
    """Return what a job holds of each node beside that: memory, disk and swap."""
    held = NOTHING_HELD if takes_whole_nodes(request) else request.held
    return held.memory, held.disk, held.swap


def _units(request: JobRequest, node: Ground, count: int) -> int:
    """Return what so much of a node is worth; of a whole one, what its memory is enough for."""
    room = min(count, (node.memory - request.held.memory) // request.memory) if request.memory else count
    return min(room, 1) if request.unit is UnitType.NODE else room


def _not_too_much(request: JobRequest, shares: Shares) -> bool:
    """Whole nodes may go beyond the maximum, but only by a part of the last one."""
    if len(request.required_nodes) > request.maximum:
        return False
    if request.unit is UnitType.NODE:
        return len(shares) <= max(request.maximum, request.node_share)
    owns = request.node_share or any(part.whole for part in request.parts)
    if not takes_whole_nodes(request) and not owns:
        return sum(count for _, count in shares) <= request.maximum
    return True


def _may_use(request: JobRequest, node: Ground, count: int) -> bool:
    facts, name = node.facts, node.facts.name.casefold()
    held = request.held
    if node.memory < held.memory or node.disk < held.disk or node.swap < held.swap:
        return False
    asked = [each.casefold() for each in request.requested_nodes]
    if node.closed or node.owned or name in [each.casefold() for each in request.excluded_nodes]:
        return False
    if not 0 < count <= node.free or _units(request, node, count) < (
        1 if takes_whole_nodes(request) else count
    ):
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


def _alone(nodes: Mapping[str, Ground], shares: Shares, request: JobRequest) -> int:
    alone = [
        count for name, count in shares if count == nodes[name].facts.processors and not nodes[name].jobs
    ]
    return len(alone) if request.unit is UnitType.NODE else sum(alone)


def _groups(request: JobRequest, held: list[Ground]) -> bool:
    if not request.node_groups:
        return True
    inside = [[group in node.facts.groups for group in request.node_groups] for node in held]
    if request.node_group_op is NodeGroupOp.INTERSECT:
        return all(map(all, inside))
    if request.node_group_op is NodeGroupOp.UNION:
        return all(map(any, inside))
    return any(map(all, zip(*inside, strict=True)))


def _licensed(request: JobRequest, free: dict[str, int], processors: int) -> bool:
    for wish in request.licences:
        if wish.feature in free:
            free[wish.feature] -= processors if wish.amount is None else wish.amount
    return all(amount >= 0 for amount in free.values())
