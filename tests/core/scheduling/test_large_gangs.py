"""Gangs beyond small worlds: what is exact stays exact, what is promised is kept whatever a search misses."""

import random
from collections import Counter

import pytest

from depth import seeds
from headnode.core.model.job import JobRequest, Licence, UnitType
from headnode.core.model.quantities import Instant, JobId
from headnode.core.scheduling.conservative import plan_conservative
from headnode.core.scheduling.free_resources import FreeResources, GangPlacement
from headnode.core.scheduling.node_table import NodeTable
from headnode.core.scheduling.node_view import NodeView
from headnode.core.scheduling.placement import (
    find_placement,
    find_promised_placement,
    part_shares,
    place,
    shares,
)
from headnode.core.scheduling.plan import Reservation, Shares
from headnode.core.scheduling.request import ResolvedRequest, resolve
from headnode.core.scheduling.verify_plan import allocation_violation
from headnode.testing import gang, part, reserved

from .scenes import NOW, asks, node, runs, scene, turn_of

PATTERNS = ((7, 6, 3), (5, 5, 6), (8, 8), (9, 4, 3), (10, 6), (7, 5, 4))
"""Lumps that fill a node of 16 processors."""


def filled(seed: int, count: int = 150) -> tuple[dict[str, NodeView], JobRequest, tuple[Shares, ...]]:
    """Return nodes, a gang that fills all of them, and one way in which it does."""
    dice = random.Random(seed)
    drawn = [dice.choice(PATTERNS) for _ in range(count)]
    nodes = {f"n{number:03}": node(f"n{number:03}", 16) for number in range(count)}
    lumps = Counter(size for pattern in drawn for size in pattern)
    on_nodes = list(zip(nodes, drawn, strict=True))
    parts = tuple(
        tuple((name, size * pattern.count(size)) for name, pattern in on_nodes if size in pattern)
        for size in lumps
    )
    return nodes, gang(*(part(size, times) for size, times in lumps.items()), minutes=60), parts


def needed(nodes: dict[str, NodeView], request: JobRequest) -> tuple[ResolvedRequest, FreeResources]:
    node_table = NodeTable(nodes)
    return resolve(request, node_table), FreeResources.now(node_table, nodes, {})


def test_lumps_of_one_size_for_many_tasks_fill_a_cluster_exactly() -> None:
    nodes = {f"n{number}": node(f"n{number}", 8, features=("red",) * (number % 2)) for number in range(60)}
    red, other = {"features": (("red",),)}, {"lacking": ("red",)}
    some = [part(2, 1, **(red, other, {})[number % 3]) for number in range(240)]
    assert place(gang(*some), nodes) is not None
    assert place(gang(*some, part()), nodes) is None
    assert place(gang(*[part(2, 1, **red)] * 121), nodes) is None


def test_parts_make_room_for_each_other_though_the_first_choice_was_wrong() -> None:
    """Part i may use nodes i and i + 1; the last only the first node: all must move by one."""
    count = 40
    nodes = {f"n{number:02}": node(f"n{number:02}", 1) for number in range(count)}
    names = list(nodes)
    parts = [part(names=(names[number], names[number + 1])) for number in range(count - 1)]
    found = place(gang(*parts, part(names=(names[0],))), nodes)
    assert found is not None
    assert len(found) == count
    first = part(names=(names[0],))
    assert place(gang(*parts[:-1], first, first), nodes) is None


@pytest.mark.parametrize("seed", seeds(4))
def test_a_promised_division_is_taken_when_the_search_does_not_find_one_again(seed: int) -> None:
    nodes, request, parts = filled(seed)
    need, resources = needed(nodes, request)
    assert find_placement(need, resources) is None, (
        "else this shows nothing: take lumps that are harder to pack"
    )
    union = tuple((number, 16) for number in range(len(nodes)))
    numbers = resources.node_table.numbers
    promised = GangPlacement.of(union, [tuple((numbers[name], n) for name, n in each) for each in parts])
    assert find_promised_placement(need, resources, promised) == promised
    resources.free[0] -= 1
    assert find_promised_placement(need, resources, promised) is None
    assert find_promised_placement(need, resources, union) is None


def test_a_gang_whose_reservation_falls_due_starts_as_it_was_promised() -> None:
    nodes, request, parts = filled(1)
    union = tuple((name, 16) for name in nodes)
    kept = Reservation(JobId(7), Instant(NOW), union, turn_of(7), request, 0, parts)
    view = scene(list(nodes.values()), [], [(7, request)], before=[kept], freed=False)
    (begun,) = plan_conservative(view).starts
    assert (begun.allocation, begun.parts) == (union, parts)


def test_a_reservation_of_a_gang_says_what_is_for_which_task_and_is_kept() -> None:
    nodes = [node("a", 4), node("b", 4)]
    running = [runs(1, asks(3), ("a", 3), minutes_left=10)]
    request = gang(part(3, 2), part(1, 2), minutes=5)
    (held,) = plan_conservative(scene(nodes, running, [(2, request)])).reservations
    assert held.at == NOW + 600
    assert held.parts == ((("a", 3), ("b", 3)), (("a", 1), ("b", 1)))
    (again,) = plan_conservative(
        scene(nodes, running, [(2, request)], before=[held], freed=False)
    ).reservations
    assert again == held


def test_a_gang_is_backfilled_and_never_grows() -> None:
    nodes = [node("a", 4), node("b", 4)]
    running = [
        runs(1, asks(3), ("a", 3), minutes_left=10),
        runs(3, gang(part(1), part(1)), ("b", 1), wants=2),  # it has lost a node
    ]
    short, long = gang(part(1), part(2), minutes=5), gang(part(1), part(2), minutes=20)
    before = [reserved(2, asks(6), ("a", 4), ("b", 2), minutes=10)]
    for request, starts in ((short, [4]), (long, [])):
        decided = plan_conservative(scene(nodes, running, [(2, asks(6)), (4, request)], before=before))
        assert [each.job for each in decided.starts] == starts
        assert decided.grows == ()


def test_what_a_gang_is_given_follows_resource_order_and_the_order_of_its_tasks() -> None:
    nodes = {each.facts.name: each for each in (node("a", 4), node("b", 4, memory=9), node("c", 4, memory=5))}
    need, resources = needed(nodes, gang(part(2, 2), part(1, 2)))
    found = find_placement(need, resources)
    assert found is not None
    assert shares(found, resources.node_table) == (("b", 4), ("c", 2))
    assert part_shares(found, resources.node_table) == ((("b", 4),), (("c", 2),))


def test_a_part_that_is_to_be_spread_has_one_on_each_node_before_the_second_on_any() -> None:
    nodes = {each.facts.name: each for each in (node("a", 4), node("b", 1), node("c", 4))}
    need, resources = needed(nodes, gang(part(1, 6, spread=True)))
    found = find_placement(need, resources)
    assert found is not None
    assert shares(found, resources.node_table) == (("a", 3), ("b", 1), ("c", 2))


def test_licences_for_every_processor_let_a_gang_pass_over_nodes_that_cost_too_many() -> None:
    nodes = {each.facts.name: each for each in (node("a", 8, memory=9), node("b", 2), node("c", 2))}
    request = gang(part(2, 2, whole=True, apart=True), exclusive=True, licences=(Licence("x", None),))
    assert place(request, nodes, {"x": (9, 4)}) == (("b", 2), ("c", 2))
    assert place(request, nodes, {"x": (9, 3)}) is None
    assert place(request, nodes, {"x": (20, 20)}) == (("a", 8), ("b", 2))


def test_a_node_that_a_job_holds_without_processors_is_not_a_tasks_own() -> None:
    held = NodeView(node("a", 2).facts, free=2, jobs=1)
    assert place(gang(part(1, whole=True)), {"a": held}) is None
    assert place(gang(part(1)), {"a": held}) == (("a", 1),)


def test_large_tasks_that_share_are_given_the_nodes_that_serve_most_of_them() -> None:
    nodes = {
        "blue": node("blue", 60, features=("blue",)),
        "both": node("both", 60, features=("blue", "red")),
        "red": node("red", 60, features=("red",)),
    }
    red, blue = part(1, 60, features=(("red",),)), part(1, 60, features=(("blue",),))
    assert place(asks(60, 60, parts=(red, blue)), nodes) == (("both", 60),)
    assert place(asks(60, 60, parts=(part(1, 61, features=(("red",),)), blue)), nodes) is None


def test_processes_of_tasks_that_share_are_laid_where_the_job_has_most_already() -> None:
    nodes = {f"n{n:02}": node(f"n{n:02}", 8, features=("red",) * (n >= 30)) for n in range(60)}
    large, small = part(5, 30, apart=True, features=(("red",),)), part(4, 30, apart=True)
    found = place(asks(150, 150, parts=(large, small)), nodes)
    assert found == tuple((f"n{n:02}", 5) for n in range(30, 60))


def test_tasks_of_a_gang_share_a_node_by_sockets_though_these_differ_in_size() -> None:
    nodes = {each.facts.name: each for each in (node("a", 5, sockets=2), node("b", 4, sockets=2))}
    need, resources = needed(nodes, gang(part(1), part(1), part(2), unit=UnitType.SOCKET))
    found = find_placement(need, resources)
    assert found is not None
    given, parts = shares(found, resources.node_table), part_shares(found, resources.node_table)
    assert given == (("a", 5), ("b", 4))
    assert parts == ((("b", 2),), (("b", 2),), (("a", 5),))
    assert allocation_violation(need, given, resources, parts) == ""
    swapped = (parts[2], parts[1], parts[0])
    assert allocation_violation(need, given, resources, swapped) == "part 1 of it is not what task 1 needs"
    assert place(gang(part(2, 2), part(1), unit=UnitType.SOCKET), nodes) is None
    uneven, one = needed({"a": nodes["a"]}, gang(part(1), part(1), unit=UnitType.SOCKET))
    halves = find_placement(uneven, one)
    assert halves is not None
    assert part_shares(halves, one.node_table) == ((("a", 3),), (("a", 2),))


def test_nodes_that_differ_only_in_disk_or_swap_are_told_apart() -> None:
    nodes = {each.facts.name: each for each in (node("a", 1), node("b", 1, disk=9), node("c", 1, swap=9))}
    assert place(gang(part(minimum_disk=5)), nodes) == (("b", 1),)
    assert place(gang(part(minimum_swap=5)), nodes) == (("c", 1),)
    assert place(gang(part(1, 2, minimum_disk=5)), nodes) is None


def test_a_division_of_strangers_gives_a_task_neither_more_nodes_nor_parts_of_them() -> None:
    nodes = {"a": node("a", 2), "b": node("b", 2)}
    need, resources = needed(nodes, gang(part(1, whole=True)))
    both = (("a", 2), ("b", 2))
    assert allocation_violation(need, both, resources, [both]) == "part 1 of it is not what task 1 needs"
    assert allocation_violation(need, both[:1], resources, [both[:1]]) == ""
    need, resources = needed(nodes, gang(part(), unit=UnitType.NODE))
    assert (
        allocation_violation(need, (("a", 2),), resources, [(("a", 1),)]) == "some of it belongs to no task"
    )
    assert allocation_violation(need, (("a", 2),), resources, [(("a", 2),)]) == ""
    need, resources = needed(nodes, gang(part(whole=True), part()))
    twice = [(("a", 2),), (("a", 1),)]
    assert (
        allocation_violation(need, (("a", 2),), resources, twice)
        == "its parts do not add up to its allocation"
    )
