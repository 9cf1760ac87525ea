"""Gangs, tasks that share an allocation, and needs of nodes, against a search through everything."""

from collections.abc import Iterator
from itertools import islice, product

from depth import every, thinned
from headnode.core.model.job import JobRequest, Licence, NodeGroupOp, RequestPart, UnitType
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.scheduling.free_resources import FreeResources
from headnode.core.scheduling.node_table import NodeTable
from headnode.core.scheduling.node_view import NodeView
from headnode.core.scheduling.placement import at_minimum, find_placement, part_shares, shares
from headnode.core.scheduling.plan import Shares
from headnode.core.scheduling.request import resolve
from headnode.core.scheduling.verify_plan import allocation_violation
from headnode.testing import gang, part
from headnode.testing.specification import allowed, divided, ways

from .scenes import asks, node
from .test_lawful import every_allocation
from .test_placement_is_exact import as_world

RED, BLUE, NOT_C = {"features": (("Red",),)}, {"features": (("blue",),)}, {"excluded": ("c",)}
SINGLE = (
    part(),
    part(2),
    part(1, 2),
    part(1, 3, **RED),
    part(2, **BLUE),
    part(1, 2, apart=True),
    part(1, 2, spread=True, **NOT_C),
    part(1, whole=True),
    part(3, 1, whole=True, apart=True),
    part(1, 2, required_nodes=("B",)),
    RequestPart(((2, 1), (1, 1)), apart=True),
    RequestPart(((1, 2),), needs=NodeNeeds(names=("a", "b")), required_nodes=("a", "b")),
    part(1, 2, whole=True, required_nodes=("a", "c")),
)
PECULIAR: tuple[dict[str, object], ...] = (
    {},
    {"single_node": True},
    {"licences": (Licence("x", None),)},
    {"memory": 2},
    {"exclusive": True},
    {"needs": NodeNeeds(lacking=("BLUE",))},
    {"node_groups": ("red", "blue"), "node_group_op": NodeGroupOp.UNIFORM},
)


def gangs() -> Iterator[JobRequest]:
    """Yield gangs of one to three parts."""
    for one, more in product(SINGLE, PECULIAR):
        yield gang(one, **more)
    for one, other in product(SINGLE, repeat=2):
        yield gang(one, other)
        yield gang(one, other, exclusive=True)
    hard = (part(), part(2), part(1, 1, **RED), part(1, 1, whole=True), part(1, 3, whole=True), *SINGLE[-3:])
    for three in product(hard, repeat=3):
        yield gang(*three)
    for one, other in product((part(), part(1, 2), part(1, 1, **RED), part(1, 2, **NOT_C)), repeat=2):
        yield gang(one, other, unit=UnitType.NODE)
        yield gang(one, unit=UnitType.NODE)


def grounds() -> Iterator[dict[str, NodeView]]:
    """Yield three nodes, of which some are red and some are blue, in various states of use."""
    for sizes in ((2, 3, 1), (2, 2, 2), (3, 3, 2)):
        for uses in product((0, 1, 2), repeat=3):
            if all(taken <= size for taken, size in zip(uses, sizes, strict=True)) and sum(uses) < 4:
                yield _nodes(sizes, uses)


def _nodes(sizes: tuple[int, ...], uses: tuple[int, ...]) -> dict[str, NodeView]:
    made = {}
    for name, size, taken, groups in zip(
        "abc", sizes, uses, (("red",), ("red", "blue"), ("blue",)), strict=True
    ):
        facts = node(name, size, memory=2 * size, groups=groups).facts
        made[name] = NodeView(facts, size - taken, int(taken > 0), memory_held=taken)
    return made


def test_a_gang_is_placed_exactly_when_there_is_a_way_and_its_tasks_get_what_they_need() -> None:
    seen = {True: 0, False: 0}
    for number, (request, nodes) in enumerate(thinned(product(list(gangs()), list(grounds())))):
        if number % 3:
            continue
        licences = {"x": 3} if request.licences else {}
        world = as_world(nodes, licences)
        node_table = NodeTable(nodes)
        found = find_placement(resolve(request, node_table), FreeResources.now(node_table, nodes, licences))
        possible = ways(request, world)
        assert (found is not None) == bool(possible), (request, world, possible)
        if found is not None:
            given, parts = shares(found, node_table), part_shares(found, node_table)
            assert allowed(request, world, given), (request, world, given)
            assert divided(request, world, given, parts), (request, world, given, parts)
        seen[bool(possible)] += 1
    assert min(seen.values()) > 1000 / every(), "both outcomes must be well represented"


def sharing() -> Iterator[JobRequest]:
    """Yield jobs whose tasks share what the job holds."""
    wants = (
        part(1, 2, **RED),
        part(1, 2, **BLUE),
        part(1, 3, **NOT_C),
        part(1, 2, group="red"),
        RequestPart(((2, 1), (1, 1)), apart=True),
        part(2, 2, apart=True, **RED),
        part(1, 2, whole=True, **BLUE),
    )
    for size, some in product(((1, 1), (2, 3), (2, 9), (4, 4)), product(wants, repeat=2)):
        yield asks(*size, parts=some)
        yield asks(*size, parts=some, exclusive=True)
    for three in product(wants[:5], repeat=3):
        yield asks(2, 4, parts=three)
    for one, more in product(wants, (*PECULIAR[1:], {"required_nodes": ("b",)}, {"unit": UnitType.NODE})):
        yield asks(1, 4, parts=(one,), **more)


def test_a_job_is_given_exactly_what_all_its_tasks_find_room_in() -> None:
    seen = {True: 0, False: 0}
    for number, (request, nodes) in enumerate(thinned(product(list(sharing()), list(grounds())))):
        if number % 3:
            continue
        licences = {"x": 3} if request.licences else {}
        world = as_world(nodes, licences)
        node_table = NodeTable(nodes)
        need, resources = resolve(request, node_table), FreeResources.now(node_table, nodes, licences)
        possible = ways(request, world)
        for found in (find_placement(need, resources), find_placement(at_minimum(need), resources)):
            assert (found is not None) == bool(possible), (request, world, possible)
            assert found is None or allowed(request, world, shares(found, node_table)), (
                request,
                world,
                found,
            )
        seen[bool(possible)] += 1
    assert min(seen.values()) > 1000 / every(), "both outcomes must be well represented"


def test_what_tasks_share_is_lawful_exactly_when_the_specification_allows_it() -> None:
    seen = {True: 0, False: 0}
    for number, (request, nodes) in enumerate(thinned(product(list(sharing()), list(grounds())))):
        if number % 43:
            continue
        licences = {"x": 3} if request.licences else {}
        node_table = NodeTable(nodes)
        resources, need = FreeResources.now(node_table, nodes, licences), resolve(request, node_table)
        world = as_world(nodes, licences)
        for given in every_allocation(nodes):
            lawful = not allocation_violation(need, given, resources)
            assert lawful == allowed(request, world, given), (request, world, given)
            seen[lawful] += 1
    assert min(seen.values()) > 500 / every()


def test_a_gang_may_have_exactly_what_the_specification_allows_in_any_division() -> None:
    seen = {True: 0, False: 0}
    for number, (request, nodes) in enumerate(thinned(product(list(gangs()), list(grounds())))):
        if number % 13 or len(request.parts) > 2:
            continue
        licences = {"x": 3} if request.licences else {}
        node_table = NodeTable(nodes)
        resources, need = FreeResources.now(node_table, nodes, licences), resolve(request, node_table)
        world = as_world(nodes, licences)
        for given in every_allocation(nodes)[::2]:
            right = allowed(request, world, given)
            for parts in islice(divisions(given, len(request.parts)), None if right else 3):
                lawful = not allocation_violation(need, given, resources, parts)
                assert lawful == (right and divided(request, world, given, parts)), (request, given, parts)
                seen[lawful] += 1
    assert min(seen.values()) > 300 / every()


def divisions(given: Shares, parts: int) -> Iterator[tuple[Shares, ...]]:
    """Yield ways to divide what is given among one or two parts; some leave something over."""
    for first in product(*(range(count + 1) for _, count in given)):
        mine = tuple((name, n) for (name, _), n in zip(given, first, strict=True) if n)
        if parts == 1:
            yield (mine,)
            continue
        rest = ((name, count - n) for (name, count), n in zip(given, first, strict=True))
        yield mine, tuple(share for share in rest if share[1])
    yield ()
