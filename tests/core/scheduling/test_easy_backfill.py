"""EASY backfill by its stories; `test_every_small_world` holds the promises."""

import msgspec

from headnode.core.model.job import Licence, NodeGroupOp, UnitType
from headnode.core.model.quantities import NEVER
from headnode.core.scheduling.node_table import KnownNodes, NodeTable
from headnode.core.scheduling.node_view import NodeView
from headnode.core.scheduling.plan import Plan, Reservation, Why
from headnode.core.scheduling.policies import plan_easy
from headnode.core.scheduling.view import View

from .scenes import INF, MINUTE, NOW, asks, node, runs, scene, start, started

EIGHT_DUALS = [node(f"n{i}") for i in range(1, 9)]
BUSY_HALF = runs(1, asks(8, exclusive=True), *((f"n{i}", 2) for i in range(1, 5)), minutes_left=15)


def reserved(decided: Plan) -> Reservation:
    """Return the reservation that must be there."""
    assert decided.reservation is not None
    return decided.reservation


def test_compute_cluster_example_eight_processors_for_ten_minutes_fit_the_window_of_four_nodes() -> None:
    """16 processors on dual-processor nodes, 4 nodes idle for 15 minutes (CCS, "Backfilling")."""
    whole, slow, quick = asks(16, minutes=60), asks(8, minutes=20), asks(8, minutes=10)
    decided = plan_easy(scene(EIGHT_DUALS, [BUSY_HALF], [(2, whole), (3, slow), (4, quick)]))
    assert decided.starts == (start(4, ("n5", 2), ("n6", 2), ("n7", 2), ("n8", 2), ahead_of=2),)
    assert decided.waits[whole].not_before == NOW + 15 * MINUTE
    assert Why.RESERVATION in {reason.why for reason in decided.waits[slow].reasons}
    assert decided.waits[slow].not_before == NEVER


def test_a_job_that_ends_exactly_when_the_head_starts_overtakes_and_one_that_ends_later_does_not() -> None:
    running = runs(1, asks(1), ("a", 1), minutes_left=10)
    for minutes, overtakes in ((9, True), (10, True), (10.1, False)):
        decided = plan_easy(scene([node("a", 2)], [running], [(2, asks(2)), (3, asks(1, minutes=minutes))]))
        assert started(decided) == ([3] if overtakes else []), minutes


def test_a_job_without_a_limit_does_not_overtake_a_head_without_a_due_time() -> None:
    """`inf <= inf` is not "in time"."""
    running = runs(1, asks(1), ("a", 1))
    for minutes in (1, INF):
        decided = plan_easy(scene([node("a", 2)], [running], [(2, asks(2)), (3, asks(1, minutes=minutes))]))
        assert started(decided) == []
        assert reserved(decided).at == NEVER


def test_behind_a_head_without_a_due_time_a_job_that_leaves_it_possible_overtakes() -> None:
    running = runs(1, asks(3), ("a", 3))
    decided = plan_easy(scene([node("a", 4)], [running], [(2, asks(3)), (3, asks(1)), (4, asks(1))]))
    assert decided.starts == (start(3, ("a", 1), ahead_of=2),)


def test_later_jobs_that_use_the_spare_processors_do_not_use_them_twice() -> None:
    running = runs(1, asks(2), ("a", 2), minutes_left=10)
    decided = plan_easy(
        scene([node("a", 2), node("b", 3)], [running], [(2, asks(4)), (3, asks(1)), (4, asks(1))])
    )
    assert started(decided) == [3]


def test_a_job_that_would_delay_the_head_starts_smaller() -> None:
    running = runs(1, asks(2), ("a", 2), minutes_left=10)
    decided = plan_easy(scene([node("a", 2), node("b", 3)], [running], [(2, asks(4)), (3, asks(1, 3))]))
    assert decided.starts == (start(3, ("b", 1), ahead_of=2),)


def test_a_job_goes_where_an_exclusive_head_will_not() -> None:
    busy = runs(1, asks(2), ("c", 2), minutes_left=10)
    nodes = [node("a", 2), node("b", 2), node("c", 2)]
    head = asks(4, exclusive=True, requested_nodes=("a", "c"))
    decided = plan_easy(scene(nodes, [busy], [(2, head), (3, asks(1))]))
    assert decided.starts == (start(3, ("b", 1), ahead_of=2),)
    assert dict(reserved(decided).allocation) == {"a": 2, "c": 2}


def test_the_reservation_holds_licences_too() -> None:
    with_licence = {"licences": (Licence("x", 1),)}
    running = runs(1, asks(1, **with_licence), ("a", 1), minutes_left=10)
    head = asks(1, licences=(Licence("x", 2),))
    queue = [(2, head), (3, asks(1, minutes=11, **with_licence)), (4, asks(1, minutes=9, **with_licence))]
    decided = plan_easy(scene([node("a", 9)], [running], queue, {"x": (2, 1)}))
    assert started(decided) == [4]
    assert reserved(decided).at == NOW + 10 * MINUTE


def test_a_job_whose_nodes_are_closed_holds_up_nobody() -> None:
    nodes = [node("a", 2), node("b", 2, closed="paused")]
    away = asks(1, required_nodes=("b",))
    decided = plan_easy(scene(nodes, [], [(1, away), (2, asks(2))]))
    assert started(decided) == [2]
    assert decided.reservation is None
    assert (Why.NODE, "b") in [(reason.why, reason.what) for reason in decided.waits[away].reasons]


def test_a_job_that_can_never_fit_holds_up_nobody_and_is_told() -> None:
    never = asks(9)
    decided = plan_easy(scene([node("a", 2)], [], [(1, never), (2, asks(2))]))
    assert started(decided) == [2]
    assert {reason.why for reason in decided.waits[never].reasons} == {Why.NEVER_FITS}


def test_what_is_held_by_no_job_in_sight_is_expected_back_but_not_at_any_time() -> None:
    ending = NodeView(node("a", 2).facts, free=0, jobs=1)
    view = View(NOW, {"a": ending, "b": node("b", 1)}, scene([], [], [(1, asks(3)), (2, asks(1))]).queue, ())
    decided = plan_easy(view)
    assert started(decided) == []
    assert reserved(decided).at == NEVER


def test_a_job_over_its_limit_is_expected_to_end_at_once() -> None:
    late = runs(1, asks(2), ("a", 2), minutes_left=-5)
    decided = plan_easy(scene([node("a", 2)], [late], [(2, asks(1))]))
    assert reserved(decided).at == NOW


def test_a_running_job_grows_before_those_with_a_later_turn_start() -> None:
    running = runs(1, asks(1, 3), ("a", 1), minutes_left=5, wants=2)
    decided = plan_easy(scene([node("a", 4)], [running], [(2, asks(2)), (3, asks(1, minutes=1))]))
    assert [(grow.job, grow.allocation) for grow in decided.grows] == [(1, (("a", 2),))]
    assert started(decided) == [3]


def test_a_running_job_that_was_overtaken_by_priority_grows_after_it() -> None:
    running = runs(1, asks(1, 3), ("a", 1), minutes_left=5, wants=2)
    decided = plan_easy(scene([node("a", 4)], [running], [(2, asks(2), 3000)]))
    assert [(grow.job, grow.allocation) for grow in decided.grows] == [(1, (("a", 1),))]
    assert started(decided) == [2]


def test_growth_behind_a_head_ends_in_time_or_leaves_it_possible() -> None:
    holder = runs(1, asks(2), ("a", 2), minutes_left=10)
    for minutes, grows in ((10, True), (11, False)):
        grower = runs(3, asks(1, 2), ("b", 1), minutes_left=minutes, wants=1)
        decided = plan_easy(scene([node("a", 2), node("b", 2)], [holder, grower], [(2, asks(3))]))
        assert bool(decided.grows) is grows, minutes


def test_growth_keeps_to_the_single_node_the_uniform_group_and_the_maximum() -> None:
    groups = {"node_groups": ("x", "y"), "node_group_op": NodeGroupOp.UNIFORM}
    nodes = [node("a", 2, groups=("x",)), node("b", 8, groups=("y",), memory=9), node("c", 4, groups=("x",))]
    for request, expected in (
        (asks(1, 9, single_node=True), (("a", 1),)),
        (asks(1, 9, **groups), (("a", 1), ("c", 4))),
        (asks(1, 3), (("b", 2),)),
        (asks(1, 9, excluded_nodes=("b",)), (("a", 1), ("c", 4))),
    ):
        decided = plan_easy(scene(nodes, [runs(1, request, ("a", 1), wants=9)]))
        assert [grow.allocation for grow in decided.grows] == [expected], request


def test_growth_of_an_owner_takes_idle_nodes_only() -> None:
    owner = runs(1, asks(1, 6, exclusive=True), ("a", 2), wants=4)
    guest = runs(2, asks(1), ("b", 1))
    decided = plan_easy(scene([node("a", 2), node("b", 2), node("c", 2)], [owner, guest]))
    assert [grow.allocation for grow in decided.grows] == [(("c", 2),)]


def test_growth_by_the_socket_counts_sockets() -> None:
    grower = runs(1, asks(1, 2, unit=UnitType.SOCKET), ("a", 4), wants=5)
    decided = plan_easy(scene([node("a", 16, sockets=4)], [grower]))
    assert [grow.allocation for grow in decided.grows] == [(("a", 4),)]


def test_a_waiting_job_is_told_all_that_is_in_its_way() -> None:
    running = runs(1, asks(1), ("a", 1), minutes_left=10)
    third = asks(2, licences=(Licence("x", 1),))
    decided = plan_easy(scene([node("a", 2)], [running], [(2, asks(2)), (3, third)], {"x": (1, 0)}))
    whys = [(reason.why, reason.what) for reason in decided.waits[third].reasons]
    assert whys == [(Why.PRIORITY, "2"), (Why.PROCESSORS, ""), (Why.LICENCES, "x"), (Why.RESERVATION, "2")]


def test_a_waiting_job_is_not_told_of_what_there_is_just_enough_of() -> None:
    wish = asks(2, licences=(Licence("x", 1),))
    for processors, free, expected in ((1, 1, [Why.PROCESSORS]), (2, 0, [Why.LICENCES])):
        running = runs(1, asks(2 - processors), ("a", 2 - processors)) if processors < 2 else None
        view = scene([node("a", 2)], [running] if running else [], [(2, wish)], {"x": (1, free)})
        assert [reason.why for reason in plan_easy(view).waits[wish].reasons] == expected


def test_a_job_takes_no_more_licences_than_the_head_can_spare() -> None:
    running = runs(1, asks(1), ("a", 1), minutes_left=10)
    head = asks(4, requested_nodes=("a",), licences=(Licence("x", 3),))
    flexible = asks(1, 4, requested_nodes=("b",), licences=(Licence("x", None),))
    decided = plan_easy(
        scene([node("a", 4), node("b", 4)], [running], [(2, head), (3, flexible)], {"x": (5, 5)})
    )
    assert decided.starts == (start(3, ("b", 2), ahead_of=2),)


def test_a_job_makes_do_with_its_minimum_where_the_head_can_move_to_other_nodes() -> None:
    running = [runs(1, asks(1), (name, 1), minutes_left=10) for name in ("b", "c")]
    nodes = [node("a", 2), node("b", 2), node("c", 2)]
    queue = [(2, asks(4, exclusive=True)), (3, asks(1, 3, requested_nodes=("a", "b")))]
    decided = plan_easy(scene(nodes, running, queue))
    assert decided.starts == (start(3, ("a", 1), ahead_of=2),)
    assert dict(reserved(decided).allocation) == {"b": 2, "c": 2}


def test_a_job_that_starts_takes_its_licences_from_those_behind() -> None:
    first = asks(1, licences=(Licence("x", None), Licence("x", 1)))
    queue = [(1, first), (2, asks(1, licences=(Licence("x", 2),)))]
    assert started(plan_easy(scene([node("a", 4)], [], queue, {"x": (3, 3)}))) == [1]
    assert started(plan_easy(scene([node("a", 4)], [], queue, {"x": (4, 4)}))) == [1, 2]


def test_growth_needs_only_the_licences_that_go_with_processors() -> None:
    fixed, each = (Licence("x", 1),), (Licence("x", None),)
    for licences, free, grows in ((fixed, 0, True), (each, 0, False), (each, 1, True)):
        running = runs(1, asks(1, 2, licences=licences), ("a", 1), wants=1)
        decided = plan_easy(scene([node("a", 2)], [running], (), {"x": (2, free)}))
        assert bool(decided.grows) is grows, licences


def test_growth_need_not_touch_the_required_nodes_again() -> None:
    running = runs(1, asks(1, 4, required_nodes=("a",), node_share=2), ("a", 2), wants=1)
    decided = plan_easy(scene([node("a", 2), node("b", 2)], [running]))
    assert [grow.allocation for grow in decided.grows] == [(("b", 1),)]


def test_who_was_refused_is_asked_again_when_somebody_better_puts_the_head_off() -> None:
    running = runs(1, asks(2), ("a", 2), minutes_left=10)
    head, slow = (2, asks(4, minutes=60)), (3, asks(1, minutes=20))
    before = scene([node("a", 4)], [running], [head, slow])
    ground = KnownNodes(before.nodes, NodeTable(before.nodes))
    assert started(plan_easy(msgspec.structs.replace(before, ground=ground))) == []
    better = (4, asks(1, minutes=30), 3000)
    after = scene([node("a", 4)], [running], [head, slow, better])
    warm = msgspec.structs.replace(after, ground=KnownNodes(after.nodes, ground.node_table))
    assert started(plan_easy(warm)) == started(plan_easy(after)) == [4, 3]
