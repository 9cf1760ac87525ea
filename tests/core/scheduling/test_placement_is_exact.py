"""Placement against a search through everything, in every small world."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from depth import every, thinned
from headnode.core.model.job import JobRequest, Licence, NodeGroupOp, UnitType
from headnode.core.scheduling.node_view import NodeView
from headnode.core.scheduling.placement import place
from headnode.core.scheduling.plan import Shares
from headnode.testing.specification import FreeNode, World, allowed, ways

from .scenes import asks, node, on_gpus, part

GROUPS = (("a",), ("a", "b"), ("b",))


def test_a_job_is_placed_exactly_when_some_way_to_place_it_exists_and_lawfully() -> None:
    seen = {True: 0, False: 0}
    for request, nodes in thinned(product(list(requests()), list(grounds()))):
        for licences in ({}, {"x": 3}) if request.licences else ({},):
            world = as_world(nodes, licences)
            found = place(request, nodes, {name: (9, free) for name, free in licences.items()})
            possible = ways(request, world)
            assert (found is not None) == bool(possible), (request, world)
            if found is not None:
                check(request, world, found, possible)
            seen[bool(possible)] += 1
    assert min(seen.values()) > 1000 / every(), "both outcomes must be well represented"


def check(request: JobRequest, world: World, found: Shares, possible: tuple[Shares, ...]) -> None:
    """The placement is lawful, and gives the most there is up to the maximum."""
    assert allowed(request, world, found), (request, world, found)
    if not request.licences and not request.memory and request.unit is UnitType.PROCESSOR:
        most = max(min(sum(n for _, n in way), request.maximum) for way in possible)
        assert min(sum(n for _, n in found), request.maximum) == most, (request, world, found)


def requests() -> Iterator[JobRequest]:
    """Yield requests with up to two peculiarities at once."""
    sizes = [(1, 1), (2, 2), (1, 4), (3, 3), (5, 6)]
    for (low, high), exclusive, unit in product(sizes, (False, True), (UnitType.PROCESSOR, UnitType.NODE)):
        for extra in ({}, *PECULIAR):
            yield asks(low, high, exclusive=exclusive, unit=unit, **extra)


PECULIAR = (
    {"single_node": True},
    {"required_nodes": ("B",)},
    {"required_nodes": ("b", "c")},
    {"requested_nodes": ("A", "c")},
    {"excluded_nodes": ("b",)},
    {"node_groups": ("a", "b"), "node_group_op": NodeGroupOp.INTERSECT},
    {"node_groups": ("a", "b"), "node_group_op": NodeGroupOp.UNION},
    {"node_groups": ("a", "b"), "node_group_op": NodeGroupOp.UNIFORM},
    {"node_groups": ("a", "b"), "node_group_op": NodeGroupOp.UNIFORM, "required_nodes": ("b",)},
    {"node_share": 1},
    {"node_share": 2, "required_nodes": ("b",)},
    {"node_share": 3},
    {"licences": (Licence("x", 2),)},
    {"licences": (Licence("x", 4),)},
    {"licences": (Licence("x", None),)},
    {"licences": (Licence("x", None), Licence("x", 1))},
    {"licences": (Licence("x", None),), "required_nodes": ("b",)},
    {"licences": (Licence("x", None),), "node_share": 1},
    {"licences": (Licence("x", None),), "single_node": True},
    {"minimum_memory": 2, "maximum_memory": 2},
    {"minimum_processors_per_node": 2},
    {"maximum_processors_per_node": 2},
    {"start_at_maximum": True},
    {"memory": 1},
    {"memory": 2},
    {"memory": 2, "single_node": True},
    {"memory": 1, "required_nodes": ("b",)},
    {"memory": 2, "node_share": 2},
    {"memory": 2, "licences": (Licence("x", None),)},
    {"contiguous": True},
    {"contiguous": True, "single_node": True},
    {"contiguous": True, "required_nodes": ("b",)},
    {"contiguous": True, "excluded_nodes": ("b",)},
    {"contiguous": True, "node_groups": ("a", "b"), "node_group_op": NodeGroupOp.UNIFORM},
    {"contiguous": True, "node_share": 2},
    {"contiguous": True, "licences": (Licence("x", 2),)},
    {"contiguous": True, "licences": (Licence("x", None),)},
    {"contiguous": True, "start_at_maximum": True},
    {"contiguous": True, "memory": 2},
    {"contiguous": True, "parts": (part(1, 2, apart=True),)},
)


def grounds() -> Iterator[dict[str, NodeView]]:
    """Yield three nodes in various states of use."""
    states = [(0, 0), (1, 1), (2, 2)]  # processors taken, jobs
    for sizes in ((2, 2, 2), (3, 1, 2)):
        for uses in product(states, repeat=3):
            if all(taken <= size for (taken, _), size in zip(uses, sizes, strict=True)):
                yield _nodes(sizes, uses)
        yield _nodes(sizes, ((0, 0), (0, 0), (0, 0)), closed="b")
        yield _nodes(sizes, ((0, 0), (1, 1), (0, 0)), owned="b")


def test_gpus_are_placed_exactly_when_some_way_to_place_them_exists() -> None:
    """Each comes with processors of its own node, and other jobs may have some of both there."""
    seen = {True: 0, False: 0}
    for request, nodes in thinned(product(list(requests_for_gpus()), list(nodes_with_gpus()))):
        world = as_world(nodes, {})
        found, possible = place(request, nodes), ways(request, world)
        assert (found is not None) == bool(possible), (request, world)
        if found is not None:
            assert allowed(request, world, found), (request, world, found)
            assert all(count % request.processors_per_gpu == 0 for _, count in found if not request.exclusive)
        seen[bool(possible)] += 1
    assert min(seen.values()) > 100 / every(), "both outcomes must be well represented"


def requests_for_gpus() -> Iterator[JobRequest]:
    """Yield requests for few and many GPUs, with one to three processors each."""
    peculiar: tuple[dict[str, Any], ...] = (
        {"single_node": True},
        {"required_nodes": ("B",)},
        {"excluded_nodes": ("a",)},
        {"memory": 1},
        {"start_at_maximum": True},
        {"together": True, "parts": (part(1, 2),)},
        {"together": True, "parts": (part(2, 1),)},
        {"parts": (part(1, 2, minimum_memory=4),)},
    )
    for (low, high), each, exclusive in product([(1, 1), (2, 2), (1, 3), (3, 4)], (1, 2, 3), (False, True)):
        for extra in ({}, *peculiar):
            if not extra.get("together") or low == high == 2:
                yield on_gpus(low, high, each=each, exclusive=exclusive, **extra)


def nodes_with_gpus() -> Iterator[dict[str, NodeView]]:
    """Yield three nodes, of whose processors and GPUs other jobs have some."""
    for sizes, gpus in (((4, 4, 2), (2, 1, 0)), ((6, 3, 2), (2, 2, 1))):
        for used in product(((0, 0), (1, 0), (2, 1)), repeat=3):
            made = {}
            for name, size, there, (taken, held) in zip("abc", sizes, gpus, used, strict=True):
                plain = node(name, size, memory=size, gpus=there)
                made[name] = NodeView(
                    plain.facts, size - taken, bool(taken), gpus_held=min(held, there), memory_held=taken
                )
            yield made


def _nodes(
    sizes: tuple[int, ...], uses: tuple[tuple[int, int], ...], closed: str = "", owned: str = ""
) -> dict[str, NodeView]:
    made = {}
    for name, size, (taken, jobs), groups in zip("abc", sizes, uses, GROUPS, strict=True):
        plain = node(name, size, memory=size, groups=groups, closed="paused" if name == closed else "")
        owner = 7 if name == owned else None
        made[name] = NodeView(plain.facts, size - taken, jobs, owner, plain.closed, memory_held=taken)
    return made


def as_world(nodes: dict[str, NodeView], licences: dict[str, int]) -> World:
    """Return the same as the specification sees it."""
    seen = tuple(
        FreeNode(
            n.facts,
            n.free,
            n.jobs,
            n.exclusive_to is not None,
            n.facts.memory - n.memory_held,
            n.closed,
            gpus=n.facts.gpus - n.gpus_held,
        )
        for n in nodes.values()
    )
    return seen, tuple(licences.items())


@pytest.mark.parametrize("processors", range(1, 7))
@pytest.mark.parametrize("sockets", range(1, 4))
def test_sockets_never_share_a_processor_and_all_of_them_are_all_processors(
    processors: int, sockets: int
) -> None:
    nodes = {"a": node("a", processors, sockets=sockets)}
    real = min(sockets, processors)
    taken = [place(asks(n, unit=UnitType.SOCKET), nodes) for n in range(1, real + 1)]
    counts = [shares[0][1] for shares in taken if shares]
    assert counts == sorted(set(counts)), "each more socket is more processors"
    assert counts[-1] == processors
    assert place(asks(real + 1, unit=UnitType.SOCKET), nodes) is None
