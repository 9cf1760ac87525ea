"""First come, first served within each priority."""

from headnode.core.scheduling.plan import Why
from headnode.core.scheduling.policies import plan_fcfs

from .scenes import MINUTE, NOW, asks, node, runs, scene, started


def test_jobs_start_by_priority_then_by_submission() -> None:
    one = asks(1)
    queue = [(1, one, 1000), (2, one), (3, one), (4, one, 4000)]
    assert started(plan_fcfs(scene([node("a", 4)], [], queue))) == [4, 2, 3, 1]


def test_nobody_overtakes_even_where_it_would_harm_nobody() -> None:
    running = runs(1, asks(1), ("a", 1), minutes_left=60)
    small = asks(1, minutes=1)
    decided = plan_fcfs(scene([node("a", 2)], [running], [(2, asks(2)), (3, small)]))
    assert started(decided) == []
    assert [reason.why for reason in decided.waits[small].reasons] == [Why.PRIORITY, Why.POLICY]
    assert decided.waits[asks(2)].not_before == NOW + 60 * MINUTE


def test_a_running_job_does_not_grow_past_a_waiting_one_with_a_better_turn() -> None:
    running = runs(5, asks(1, 2), ("a", 1), minutes_left=1, wants=1)
    assert plan_fcfs(scene([node("a", 2)], [running], [(2, asks(2))])).grows == ()


def test_a_job_whose_nodes_are_closed_keeps_its_place() -> None:
    nodes = [node("a", 2), node("b", 2, closed="paused")]
    assert started(plan_fcfs(scene(nodes, [], [(1, asks(3)), (2, asks(1))]))) == []


def test_a_job_that_can_never_fit_keeps_no_place() -> None:
    assert started(plan_fcfs(scene([node("a", 2)], [], [(1, asks(3)), (2, asks(1))]))) == [2]
