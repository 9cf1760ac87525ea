"""A node that will close serves those that are over by then, and is promised to nobody for longer."""

from itertools import product

import pytest

from depth import every, thinned
from headnode.core.model.job import UnitType
from headnode.core.scheduling.plan import Plan
from headnode.core.scheduling.policies import POLICIES
from headnode.core.scheduling.profile import Profile
from headnode.core.scheduling.request import resolve_growth
from headnode.core.scheduling.verify_plan import plan_violation
from headnode.core.scheduling.view import View
from headnode.engine.simulate_ahead import simulate_ahead, to_the_limits

from .scenes import INF, MINUTE, NOW, asks, node, reserved, runs, scene, start, started

SPANS = (5, 10, 10.1, INF)


def closes(view: View, name: str) -> float:
    """Return when a node closes."""
    return view.now + view.nodes[name].open_for


def keeps_to_the_closing(view: View, plan: Plan) -> bool:
    """Tell whether all that is given and promised on nodes that close is over by then."""
    requests = {turn.job: each.request for each in view.queue for turn in each.turns}
    begins = [(each.job, view.now, each.allocation) for each in plan.starts]
    begins += [(each.job, each.at, each.allocation) for each in plan.reservations]
    return all(
        at + requests[job].run_time <= closes(view, name) for job, at, nodes in begins for name, _ in nodes
    )


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_nothing_is_given_or_promised_that_may_not_be_over_when_its_node_closes(policy: str) -> None:
    """Every small world of a node that closes beside one that does not, both partly held."""
    seen = 0
    for closing, held, ends, first, second, wide, whole in thinned(
        product((0, 5, 10, INF), (0, 1, 2), (5, 15, INF), SPANS, SPANS, (1, 2, 4), (False, True))
    ):
        nodes = [node("a", 2, minutes_open=closing), node("b", 2)]
        running = [runs(1, asks(1), ("a", held), minutes_left=ends)] if held else []
        running += [runs(2, asks(1), ("b", 1), minutes_left=15)]
        queue = [
            (3, asks(wide, minutes=first, exclusive=whole)),
            (4, asks(1, 3, minutes=second)),
            (5, asks(1, minutes=5)),
        ]
        view = scene(nodes, running, queue)
        plan = POLICIES[policy](view)
        seen += len(plan.starts)
        assert keeps_to_the_closing(view, plan), view
        assert not plan_violation(plan, view)
    assert seen > 500 / every()


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_node_that_closes_at_once_is_as_good_as_closed(policy: str) -> None:
    for held, wide, minutes in product((0, 1), (1, 2, 3), SPANS):
        queue = [(3, asks(wide, minutes=minutes)), (4, asks(1, minutes=5))]
        running = [runs(1, asks(1), ("a", held), minutes_left=10)] if held else []
        plans = [
            POLICIES[policy](scene([shut, node("b", 2)], running, queue))
            for shut in (node("a", 2, closed="drained"), node("a", 2, minutes_open=0))
        ]
        assert plans[0].starts == plans[1].starts
        assert plans[0].reservations == plans[1].reservations


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_job_that_ends_just_when_the_node_closes_starts_there_and_a_longer_one_does_not(
    policy: str,
) -> None:
    for minutes, starts in ((9, True), (10, True), (10.1, False), (INF, False)):
        view = scene([node("a", 2, minutes_open=10)], [], [(1, asks(1, minutes=minutes))])
        assert started(POLICIES[policy](view)) == ([1] if starts else []), minutes


def test_the_first_that_waits_is_promised_a_node_that_stays_though_one_that_closes_is_free_sooner() -> None:
    nodes = [node("a", 2, minutes_open=60), node("b", 2)]
    running = [runs(1, asks(2), ("a", 2), minutes_left=10), runs(2, asks(2), ("b", 2), minutes_left=20)]
    plan = POLICIES["easy"](scene(nodes, running, [(3, asks(2, minutes=30))]))
    assert [(each.at, each.allocation) for each in plan.reservations] == [(NOW + 20 * MINUTE, (("b", 2),))]


def test_whoever_is_over_by_the_closing_overtakes_on_a_node_that_the_first_cannot_use() -> None:
    nodes = [node("a", 2, minutes_open=10), node("b", 2)]
    running = [runs(1, asks(1), ("b", 1), minutes_left=20)]
    view = scene(nodes, running, [(2, asks(2)), (3, asks(2, minutes=10)), (4, asks(1))])
    for policy in ("easy", "conservative", "conservative-replan"):
        assert POLICIES[policy](view).starts == (start(3, ("a", 2), ahead_of=2),), policy


def test_conservative_reservations_use_a_node_until_it_closes() -> None:
    nodes = [node("a", 2, minutes_open=60)]
    running = [runs(1, asks(2), ("a", 2), minutes_left=10)]
    queue = [(2, asks(2, minutes=30)), (3, asks(2, minutes=30)), (4, asks(2, minutes=20))]
    plan = POLICIES["conservative"](scene(nodes, running, queue))
    assert [(each.job, each.at) for each in plan.reservations] == [
        (2, NOW + 10 * MINUTE),
        (4, NOW + 40 * MINUTE),
    ]


def test_a_reservation_that_was_given_before_is_lost_when_its_node_closes_first() -> None:
    ask = asks(2, minutes=30)
    before = [reserved(2, ask, ("a", 2), minutes=10)]
    running = [runs(1, asks(2), ("a", 2), minutes_left=10)]
    for closing, kept in ((41, [2]), (40, [2]), (39, [])):
        view = scene([node("a", 2, minutes_open=closing)], running, [(2, ask)], before=before)
        assert [each.job for each in POLICIES["conservative"](view).reservations] == kept, closing


def test_a_running_job_grows_onto_a_node_only_if_it_is_over_before_it_closes() -> None:
    for minutes, grows in ((10, 2), (11, 0)):
        growing = runs(1, asks(1, 3, minutes=minutes), ("b", 1), minutes_left=minutes, wants=2)
        view = scene([node("a", 2, minutes_open=10), node("b", 1)], [growing])
        plan = POLICIES["easy"](view)
        assert sum(count for grow in plan.grows for _, count in grow.allocation) == grows
        need = resolve_growth(growing, view.node_table())
        assert need is not None
        assert any(need.alternatives) == bool(grows) or need.alternatives == ((1,),)


def test_the_reason_tells_when_the_node_closes_and_how_long_the_job_may_run() -> None:
    for minutes, text in ((90, "may run 1h30m"), (INF, "has no run time limit")):
        ask = asks(2, minutes=minutes)
        plan = POLICIES["easy"](scene([node("a", 2, minutes_open=59.5)], [], [(1, ask)]))
        assert f"node 'a' closes in 59m, and the job {text}" in [
            each.text for each in plan.waits[ask].reasons
        ]


def test_whole_nodes_that_close_at_different_times_are_not_counted_as_alike() -> None:
    wide = asks(2, minutes=30, unit=UnitType.NODE)
    nodes = [node("a", 2, minutes_open=60), node("b", 2, minutes_open=20), node("c", 2)]
    running = [runs(1, asks(2), ("c", 2), minutes_left=25)]
    plan = POLICIES["conservative"](scene(nodes, running, [(2, wide)]))
    assert [(each.at, dict(each.allocation)) for each in plan.reservations] == [
        (NOW + 25 * MINUTE, {"a": 2, "c": 2})
    ]


def test_nodes_that_are_open_for_different_times_are_counted_apart_though_both_would_do_now() -> None:
    wide = asks(2, minutes=15, unit=UnitType.NODE)
    nodes = [node("a", 2, minutes_open=60), node("b", 2, minutes_open=20), node("c", 2)]
    running = [
        runs(job, asks(2), (name, 2), minutes_left=left)
        for job, name, left in ((1, "a", 10), (2, "b", 10), (3, "c", 25))
    ]
    plan = POLICIES["conservative"](scene(nodes, running, [(4, wide)]))
    assert [(each.at, dict(each.allocation)) for each in plan.reservations] == [
        (NOW + 25 * MINUTE, {"a": 2, "c": 2})
    ]


def test_what_is_to_come_knows_that_nodes_close() -> None:
    """The second job may start on the node at first, but not when the first is over."""
    queue = [(1, asks(2, minutes=30)), (2, asks(2, minutes=31))]
    view = scene([node("a", 2, minutes_open=60)], [], queue)
    course = simulate_ahead(view, POLICIES["easy"], {}, to_the_limits(view), lambda: False)
    assert course.starts == {1: NOW}


def test_nothing_is_free_from_an_instant_on_whatever_comes_back() -> None:
    profile = Profile.of_holders(0, 1, [(5, 1), (10, 2)])
    profile.close(10)
    assert list(profile.stairs()) == [(0, 1), (5, 2), (10, 0)]
    profile.close(5)
    assert list(profile.stairs()) == [(0, 1), (5, 0)]
    profile.close(0)
    assert list(profile.stairs()) == [(0, 0)]
    busy = Profile.of_holders(0, 0, [(7, 1)])
    busy.close(5)
    assert list(busy.stairs()) == [(0, 0)]
