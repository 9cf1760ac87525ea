"""Contiguous nodes: no node of the cluster stands between two nodes of a job that asks for it."""

import sys
from collections.abc import Callable

import pytest

from headnode.core.model.job import JobRequest, UnitType
from headnode.core.scheduling.free_resources import Placement
from headnode.core.scheduling.placement import place
from headnode.core.scheduling.plan import Why
from headnode.core.scheduling.policies import POLICIES
from headnode.core.scheduling.verify_plan import plan_violation
from headnode.testing import asks, gang, node, part, runs, scene

ROW = [node(f"n{number}", 2) for number in (10, 9, 8, 11, 7, 12)]  # n7 to n12, in another order


def placed(request: JobRequest, *busy: str, closed: str = "") -> list[str]:
    """Return the nodes that a job gets beside busy ones and a closed one, sorted by name."""
    held = [runs(1, asks(2 * len(busy)), *((name, 2) for name in busy))] if busy else []
    nodes = [node(each.facts.name, 2, closed="paused") if each.facts.name == closed else each for each in ROW]
    found = place(request, scene(nodes, held).nodes)
    return [] if found is None else sorted((name for name, _ in found), key=lambda name: int(name[1:]))


def whole(count: int, **more: object) -> JobRequest:
    return asks(count, unit=UnitType.NODE, contiguous=True, **more)


def test_the_nodes_stand_in_the_order_of_their_names_and_numbers_count_as_numbers() -> None:
    assert placed(whole(2), "n8", "n11") == ["n9", "n10"]


def test_a_node_that_is_in_use_or_closed_interrupts_the_row() -> None:
    assert placed(whole(3), "n9") == ["n10", "n11", "n12"]
    assert placed(whole(3), "n9", closed="n11") == []
    assert placed(whole(3, excluded_nodes=("n9", "n11"))) == []
    assert len(placed(asks(3, unit=UnitType.NODE), "n9", closed="n11")) == 3, "without it, any three will do"


def test_the_shortest_row_that_is_long_enough_is_used() -> None:
    assert placed(whole(2), "n10") == ["n11", "n12"] or placed(whole(2), "n10") == ["n7", "n8"]
    assert placed(whole(1), "n8", "n11") in (["n7"], ["n12"])


def test_required_nodes_that_stand_far_apart_cost_no_look_at_every_row() -> None:
    lines = []
    for count in (20, 80):
        nodes = [node(f"n{number}", 2) for number in range(count)]
        asked = whole(count, required_nodes=("n0", f"n{count - 1}"))
        world = scene(nodes).nodes
        lines.append(_lines(lambda asked=asked, world=world: place(asked, world)))
    assert lines[1] < 8 * lines[0]  # four times the nodes; sixteen times the rows


def _lines(look: Callable[[], Placement | None]) -> int:
    """Return how many lines of Python run until a place is found."""
    count = 0

    def trace(frame: object, event: str, argument: object) -> object:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        assert look() is not None
    finally:
        sys.settrace(before)
    return count


def test_a_gang_with_a_number_of_nodes_gets_nodes_beside_each_other() -> None:
    asked = gang(part(1, 3, apart=True), contiguous=True)
    assert placed(asked, "n9") == ["n10", "n11", "n12"]
    assert placed(asked, "n9", "n11") == []


@pytest.mark.parametrize("policy", POLICIES)
def test_a_job_waits_for_nodes_beside_each_other_and_says_so(policy: str) -> None:
    view = scene(ROW, [runs(1, asks(2), ("n9", 2)), runs(2, asks(2), ("n11", 2))], [(3, whole(3))])
    plan = POLICIES[policy](view)
    assert (list(plan.starts), [reason.why for reason in plan.waits[whole(3)].reasons]) == (
        [],
        [Why.CONTIGUOUS],
    )
    free = scene(ROW, [runs(1, asks(2), ("n9", 2))], [(3, whole(3))])
    (start,) = POLICIES[policy](free).starts
    assert {name for name, _ in start.allocation} == {"n10", "n11", "n12"}


def test_a_plan_that_leaves_a_gap_is_refused() -> None:
    gap = asks(2, unit=UnitType.NODE, required_nodes=("n7", "n9"))
    plan = POLICIES["fcfs"](scene(ROW, [], [(3, gap)]))
    assert "contiguous" in plan_violation(plan, scene(ROW, [], [(3, whole(2))]))
