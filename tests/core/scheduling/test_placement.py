"""Where jobs are put: order, whole nodes, limits of the request."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from headnode.core.model.job import Licence, NodeGroupOp, OrderKey, UnitType
from headnode.core.scheduling.node_view import NodeView
from headnode.core.scheduling.placement import place

from .scenes import asks, node, runs, scene

MIXED = {
    each.facts.name: each
    for each in (
        node("slow", 2, memory=8, speed=1000),
        node("quick", 2, memory=8, speed=3000),
        node("large", 4, memory=16, speed=1000),
        node("ash", 2, memory=4, speed=1000),
        node("elm", 2, memory=4, speed=1000),
    )
}


def names(*args: object, **more: object) -> list[str]:
    found = place(asks(*args, **more), MIXED)
    assert found is not None
    return [name for name, _ in found]


def test_nodes_are_taken_by_memory_then_speed_larger_first_then_by_name() -> None:
    assert names(12) == ["large", "quick", "slow", "ash", "elm"]


def test_a_jobs_own_order_replaces_that_of_the_cluster() -> None:
    assert names(12, order_by=(OrderKey("memory", ascending=True),)) == [
        "ash",
        "elm",
        "quick",
        "slow",
        "large",
    ]
    by_size = (OrderKey("processors"), OrderKey("speed"))
    assert names(12, order_by=by_size) == ["large", "quick", "ash", "elm", "slow"]


def test_a_job_gets_as_many_processors_up_to_its_maximum_as_are_free() -> None:
    nodes = scene([node("a", 2), node("b", 2)], [runs(1, asks(1), ("a", 1))]).nodes
    assert place(asks(1, 2), nodes) == (("a", 1), ("b", 1))
    assert place(asks(1, 9), nodes) == (("a", 1), ("b", 2))
    assert place(asks(4, 9), nodes) is None


def test_an_exclusive_job_holds_all_of_enough_whole_nodes() -> None:
    assert place(asks(3, exclusive=True), {"a": node("a", 2), "b": node("b", 2)}) == (("a", 2), ("b", 2))
    assert place(asks(1, exclusive=True), {"a": node("a", 8)}) == (("a", 8),)


def test_an_exclusive_job_takes_no_node_on_which_anything_runs() -> None:
    nodes = scene([node("a", 4), node("b", 2)], [runs(1, asks(1), ("a", 1))]).nodes
    assert place(asks(1, exclusive=True), nodes) == (("b", 2),)
    assert place(asks(3, exclusive=True), nodes) is None


def test_a_node_that_a_job_holds_without_processors_is_not_idle() -> None:
    held = NodeView(node("a", 2).facts, free=2, jobs=1)
    assert place(asks(1, exclusive=True), {"a": held}) is None
    assert place(asks(1, 2, node_share=1), {"a": held}) is None


def test_nobody_shares_a_node_with_its_owner() -> None:
    nodes = scene([node("a", 4)], [runs(1, asks(1, exclusive=True), ("a", 1))]).nodes
    assert nodes["a"].free == 3
    assert place(asks(1), nodes) is None


def test_a_job_by_the_node_takes_idle_nodes_whole() -> None:
    nodes = scene([node("a", 2), node("b", 2), node("c", 4)], [runs(1, asks(1), ("a", 1))]).nodes
    assert place(asks(1, 2, unit=UnitType.NODE), nodes) == (("b", 2), ("c", 4))
    assert place(asks(3, unit=UnitType.NODE), nodes) is None


def test_a_socket_is_the_larger_part_of_a_node_that_does_not_divide_evenly() -> None:
    nodes = scene([node("a", 5, sockets=2)]).nodes
    assert place(asks(1, unit=UnitType.SOCKET), nodes) == (("a", 3),)
    assert place(asks(2, unit=UnitType.SOCKET), nodes) == (("a", 5),)
    taken = scene([node("a", 5, sockets=2)], [runs(1, asks(1), ("a", 3))]).nodes
    assert place(asks(1, unit=UnitType.SOCKET), taken) is None


def test_names_of_nodes_are_alike_whatever_their_case() -> None:
    assert names(2, requested_nodes=("SLOW", "Elm")) == ["slow"]
    assert names(1, required_nodes=("ELM",)) == ["elm"]
    assert names(4, excluded_nodes=("LARGE",)) == ["quick", "slow"]


def test_required_nodes_are_filled_before_others_are_taken() -> None:
    found = place(asks(1, 5, required_nodes=("elm", "ash")), MIXED)
    assert found == (("ash", 2), ("elm", 2), ("large", 1))
    assert place(asks(1, 2, required_nodes=("elm", "ash")), MIXED) == (("ash", 1), ("elm", 1))
    assert place(asks(1, 1, required_nodes=("elm", "ash")), MIXED) is None


def test_a_single_node_is_the_one_that_gives_most_and_then_the_first_in_order() -> None:
    nodes = scene([node("a", 4, memory=9), node("b", 4), node("c", 4)], [runs(1, asks(2), ("a", 2))]).nodes
    assert place(asks(1, 4, single_node=True), nodes) == (("b", 4),)
    assert place(asks(1, 2, single_node=True), nodes) == (("a", 2),)
    assert place(asks(5, single_node=True), nodes) is None


def test_uniform_groups_give_all_nodes_from_the_group_that_gives_most() -> None:
    nodes = {
        "a": node("a", 2, groups=("Old",)),
        "b": node("b", 2, groups=("old", "new")),
        "c": node("c", 4, groups=("new",)),
    }
    uniform = {"node_groups": ("OLD", "new"), "node_group_op": NodeGroupOp.UNIFORM}
    assert place(asks(1, 4, **uniform), nodes) == (("a", 2), ("b", 2))
    assert place(asks(1, 6, **uniform), nodes) == (("b", 2), ("c", 4))
    assert place(asks(7, **uniform), nodes) is None
    assert place(asks(7, node_groups=("old", "new"), node_group_op=NodeGroupOp.UNION), nodes) is not None
    assert place(asks(1, 9, node_groups=("old", "new")), nodes) == (("b", 2),)


def test_an_exclusive_task_of_a_shared_job_gets_idle_nodes_for_its_share() -> None:
    nodes = scene([node("a", 2), node("b", 2)], [runs(1, asks(1), ("a", 1))]).nodes
    assert place(asks(1, 3, node_share=1), nodes) == (("b", 2), ("a", 1))
    assert place(asks(1, 3, node_share=3), nodes) is None


def test_an_exclusive_task_gets_a_required_node_of_its_own_rather_than_another() -> None:
    nodes = {"a": node("a", 2), "b": node("b", 2)}
    assert place(asks(2, node_share=2, required_nodes=("b",)), nodes) == (("b", 2),)


def test_a_job_that_must_start_at_its_maximum_does_not_start_below_it() -> None:
    assert place(asks(1, 3, start_at_maximum=True), {"a": node("a", 2)}) is None
    assert place(asks(1, 3, start_at_maximum=True), {"a": node("a", 4)}) == (("a", 3),)


def test_licences_bound_the_size_of_a_job_that_needs_one_for_each_processor() -> None:
    nodes, each = {"a": node("a", 4)}, (Licence("x", None),)
    assert place(asks(1, 4, licences=each), nodes, {"x": (4, 3)}) == (("a", 3),)
    assert place(asks(4, licences=each), nodes, {"x": (4, 3)}) is None
    assert place(asks(1, 4, licences=(*each, Licence("x", 2))), nodes, {"x": (4, 3)}) == (("a", 1),)


def test_wishes_for_the_same_licence_add_up() -> None:
    wish = asks(1, licences=(Licence("x", 1), Licence("x", 2)))
    assert place(wish, {"a": node("a")}, {"x": (3, 2)}) is None
    assert place(wish, {"a": node("a")}, {"x": (3, 3)}) is not None


def test_licences_that_the_cluster_does_not_count_hold_up_nobody() -> None:
    assert place(asks(1, licences=(Licence("unheard-of", 5),)), {"a": node("a")}, {"x": (1, 0)}) == (
        ("a", 1),
    )


def test_whole_nodes_that_cost_too_many_licences_are_passed_over_for_smaller_ones() -> None:
    nodes = {"a": node("a", 8, memory=2), "b": node("b", 4)}
    wish = asks(3, exclusive=True, licences=(Licence("x", None),))
    assert place(wish, nodes, {"x": (9, 9)}) == (("a", 8),)
    assert place(wish, nodes, {"x": (9, 4)}) == (("b", 4),)
    assert place(wish, nodes, {"x": (9, 3)}) is None


def test_a_cheaper_node_that_somebody_else_is_on_does_not_count_as_a_tasks_own() -> None:
    nodes = scene([node("a", 2), node("b", 4)], [runs(1, asks(1), ("a", 1))]).nodes
    wish = asks(1, node_share=1, licences=(Licence("x", None),))
    assert place(wish, nodes, {"x": (4, 4)}) == (("b", 4),)
    assert place(wish, nodes, {"x": (4, 3)}) is None


def test_closed_nodes_and_nodes_without_processors_take_nothing() -> None:
    assert place(asks(1), {"a": node("a", closed="paused"), "b": node("b", 0)}) is None


@pytest.mark.parametrize("unit", [UnitType.PROCESSOR, UnitType.NODE])
@given(first=st.lists(st.integers(0, 2), max_size=20), most=st.integers(1, 300))
def test_a_job_gets_the_first_free_nodes_however_many_nodes_the_cluster_has(
    unit: UnitType, first: list[int], most: int
) -> None:
    """Of so many nodes the first 16 are looked at before the others, which have one free processor or two."""
    free = [*first, *([2, 1] * 70)]
    nodes = {f"n{number:03}": replace(node(f"n{number:03}", 2), free=one) for number, one in enumerate(free)}
    expected, left = [], most
    for name, there in nodes.items():
        units = there.free if unit is UnitType.PROCESSOR else there.free // 2
        if units and left:
            taken = min(units, left)
            expected.append((name, taken if unit is UnitType.PROCESSOR else 2))
            left -= taken
    assert place(asks(1, most, unit=unit), nodes) == (tuple(expected) or None)
