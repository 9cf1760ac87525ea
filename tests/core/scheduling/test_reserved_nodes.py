"""Nodes kept for some: others run there before and after, and those who may use them in between."""

from collections.abc import Iterator
from itertools import product

import pytest

from depth import every, thinned
from headnode.core.model.job import JobRequest, UnitType
from headnode.core.scheduling.plan import Plan, Why
from headnode.core.scheduling.policies import POLICIES
from headnode.core.scheduling.reasons import never_fits
from headnode.core.scheduling.verify_plan import plan_violation
from headnode.core.scheduling.view import View
from headnode.engine.simulate_ahead import simulate_ahead, to_the_limits
from headnode.testing.scenes import kept_for

from .scenes import INF, MINUTE, NOW, asks, node, reserved, runs, scene, started

SPANS = (5, 10, 10.1, 30, INF)
ALL = sorted(POLICIES)
WITH_PROMISES = ("conservative", "conservative-replan", "easy")


def inside(minimum: int = 1, minutes: float = INF, name: str = "r", **more: object) -> JobRequest:
    """Return a request for a reservation that lets it in."""
    return asks(minimum, minutes=minutes, reservation=name, open_reservations=(name,), **more)


def breaks_a_reservation(view: View, request: JobRequest, at: float, names: Iterator[str]) -> str:
    """Return on which node a job that starts then would run in somebody else's time, said a second time."""
    begin, end = at - view.now, at - view.now + request.run_time
    for name in names:
        times = view.nodes[name].reserved
        for time in times:
            if time.name not in request.open_reservations and begin < time.ends and time.begins < end:
                return f"{name} in {time.name}"
        if request.reservation and not any(
            time.name == request.reservation
            and time.begins <= begin < time.ends
            and (end <= time.ends or not time.limits)
            for time in times
        ):
            return f"{name} outside {request.reservation}"
    return ""


def keeps_all_reservations(view: View, plan: Plan) -> None:
    """Check that nothing is given or promised where and when it is somebody else's."""
    requests = {turn.job: each.request for each in view.queue for turn in each.turns}
    given = [(each.job, view.now, each.allocation) for each in plan.starts]
    given += [(each.job, each.at, each.allocation) for each in plan.reservations]
    for job, at, shares in given:
        assert not breaks_a_reservation(view, requests[job], at, (name for name, _ in shares)), (view, plan)
    assert not plan_violation(plan, view)


def earliest(view: View, request: JobRequest) -> float:
    """Return when a job can begin at the earliest if all end at their limits and nobody else waits.

    By trying every instant at which anything changes, and every choice of nodes.
    """
    ends = {job.end for job in view.running if job.end < INF}
    edges = {
        view.now + edge for each in view.nodes.values() for t in each.reserved for edge in (t.begins, t.ends)
    }
    for at in sorted(at for at in {view.now, *ends, *edges} if at >= view.now):
        free = 0
        for name, each in view.nodes.items():
            held = sum(
                n for job in view.running for node, n in job.allocation if node == name and job.end > at
            )
            if not breaks_a_reservation(view, request, at, iter([name])):
                left = each.facts.processors - held
                free += left if not request.exclusive or not held else 0
        if free >= request.minimum:
            return at
    return INF


@pytest.mark.parametrize("policy", ALL)
def test_nobody_is_given_or_promised_what_is_kept_for_others_in_any_small_world(policy: str) -> None:
    """A reserved node, before, in and after its time, beside another, both partly held."""
    seen = 0
    for (begins, ends), held, left, first, second, wide, limits in thinned(
        product(
            ((-5, 10), (10, 20), (0, 5), (30, 60)),
            (0, 1),
            (5, 15, INF),
            (5, 10, 10.1, INF),
            (10, INF),
            (1, 2, 4),
            (False, True),
        )
    ):
        times = [kept_for("r", begins, ends, limits=limits)]
        nodes = [node("a", 2, kept=times), node("b", 2)]
        running = [runs(1, asks(1), ("a", 1), minutes_left=left)] if held else []
        running += [runs(2, asks(1), ("b", 1), minutes_left=15)]
        queue = [
            (3, asks(wide, minutes=first)),
            (4, inside(2, second)),
            (5, asks(1, 3, minutes=second)),
            (6, inside(1, 5), 3000),
            (7, asks(1, minutes=10, open_reservations=("r",))),
        ]
        view = scene(nodes, running, queue)
        plan = POLICIES[policy](view)
        seen += len(plan.starts)
        keeps_all_reservations(view, plan)
    assert seen > 100 / every()


@pytest.mark.parametrize("policy", ALL)
def test_a_job_alone_starts_or_is_promised_the_first_instant_that_there_is_in_any_small_world(
    policy: str,
) -> None:
    for (begins, ends), (again, until), held, left, minutes, wide, kind in thinned(
        product(
            ((-5, 10), (10, 20), (0, 5)),
            ((25, 40), (20, 30)),
            (0, 1),
            (5, 12, 50),
            SPANS,
            (1, 2, 3, 4),
            range(5),
        )
    ):
        times = [kept_for("r", begins, ends), kept_for("s", again, until, limits=False)]
        nodes = [node("a", 2, kept=times), node("b", 2, kept=times[1:])]
        running = [runs(1, asks(1), ("a", 1), minutes_left=left)] if held else []
        running += [runs(2, asks(1), ("b", 1), minutes_left=15)]
        request = [
            asks(wide, minutes=minutes),
            asks(wide, minutes=minutes, exclusive=True),
            inside(wide, minutes, "r"),
            inside(wide, minutes, "s"),
            asks(wide, minutes=minutes, open_reservations=("r", "s")),
        ][kind]
        view = scene(nodes, running, [(3, request)])
        plan = POLICIES[policy](view)
        wanted = earliest(view, request)
        if started(plan):
            assert wanted == NOW, (view, request)
        else:
            found = plan.reservations[0].at if plan.reservations else INF
            assert found == wanted, (view, request)
            assert plan.waits[request].reasons


@pytest.mark.parametrize("policy", ALL)
def test_a_job_that_ends_just_when_a_reservation_begins_starts_and_a_longer_one_does_not(policy: str) -> None:
    for minutes, starts in ((9, True), (10, True), (10.1, False), (INF, False)):
        nodes = [node("a", 2, kept=[kept_for("r", 10, 20)])]
        plan = POLICIES[policy](scene(nodes, [], [(1, asks(1, minutes=minutes))]))
        assert started(plan) == ([1] if starts else []), minutes


@pytest.mark.parametrize("policy", ALL)
def test_who_waits_for_other_nodes_does_not_hold_up_a_job_of_the_reservation(policy: str) -> None:
    nodes = [node("a", 2, kept=[kept_for("r", -1, 60)]), node("b", 2)]
    running = [runs(1, asks(2), ("b", 2), minutes_left=30)]
    view = scene(nodes, running, [(2, asks(2, minutes=90)), (3, inside(2, 59))])
    assert started(POLICIES[policy](view)) == [3]


@pytest.mark.parametrize("policy", ALL)
def test_a_job_of_a_reservation_still_to_come_does_not_hold_up_the_others(policy: str) -> None:
    nodes = [node("a", 2, kept=[kept_for("r", 60, 120)]), node("b", 2)]
    view = scene(nodes, [], [(1, inside(2, 30)), (2, asks(2, minutes=60)), (3, asks(2, minutes=300))])
    plan = POLICIES[policy](view)
    assert sorted(started(plan)) == [2, 3]
    assert dict(plan.starts[0].allocation) == {"a": 2}
    if policy != "fcfs":
        assert [(each.job, each.at) for each in plan.reservations] == [(1, NOW + 60 * MINUTE)]


@pytest.mark.parametrize("policy", ["easy", "fcfs"])
def test_both_lines_keep_their_promises_where_they_could_take_each_other_s_nodes(policy: str) -> None:
    """Who is welcome may use the reserved node, too, unless the first of the reservation waits longer."""
    nodes = [node("a", 2, kept=[kept_for("r", -1, 600)]), node("b", 2)]
    running = [runs(1, inside(1), ("a", 1), minutes_left=30), runs(2, asks(2), ("b", 2), minutes_left=60)]
    for minutes, starts in ((30, [4]), (31, [])):
        queue = [(3, inside(2, 30)), (4, asks(1, minutes=minutes, open_reservations=("r",)))]
        assert started(POLICIES[policy](scene(nodes, running, queue))) == starts, minutes


def test_what_runs_on_after_the_end_is_neither_limited_nor_counted_twice() -> None:
    for limits, starts in ((True, []), (False, [1])):
        nodes = [node("a", 2, kept=[kept_for("r", -1, 10, limits=limits)])]
        for policy in ALL:
            plan = POLICIES[policy](scene(nodes, [], [(1, inside(1, 30)), (2, asks(2, minutes=5))]))
            assert started(plan) == starts, policy
    plan = POLICIES["conservative"](scene(nodes, [], [(1, inside(1, 30)), (2, asks(2, minutes=5))]))
    assert [(each.job, each.at) for each in plan.reservations] == [(2, NOW + 30 * MINUTE)]


def test_a_kept_promise_is_lost_only_when_its_nodes_are_reserved_for_others_by_then() -> None:
    ask = asks(2, minutes=30)
    running = [runs(1, asks(2), ("a", 2), minutes_left=10)]
    for begins, kept in ((39, False), (40, True), (5, False)):
        nodes = [node("a", 2, kept=[kept_for("r", begins, 100)])]
        view = scene(nodes, running, [(2, ask)], before=[reserved(2, ask, ("a", 2), minutes=10)])
        found = POLICIES["conservative"](view).reservations
        assert [each.at for each in found] == [NOW + (10 if kept else 100) * MINUTE], begins


def test_whole_nodes_reserved_for_different_times_are_counted_apart() -> None:
    wide = asks(2, minutes=30, unit=UnitType.NODE)
    nodes = [node("a", 2, kept=[kept_for("r", 20, 50)]), node("b", 2), node("c", 2)]
    running = [runs(1, asks(2), ("c", 2), minutes_left=60)]
    for policy in WITH_PROMISES:
        plan = POLICIES[policy](scene(nodes, running, [(2, wide)]))
        assert [(each.at, set(dict(each.allocation))) for each in plan.reservations] == [
            (NOW + 50 * MINUTE, {"a", "b"})
        ], policy


@pytest.mark.parametrize("policy", ALL)
def test_what_is_to_come_knows_when_reservations_begin_and_end(policy: str) -> None:
    nodes = [node("a", 2, kept=[kept_for("r", 10, 20)])]
    queue = [(1, asks(2, minutes=30)), (2, inside(2, 5)), (3, asks(1, minutes=10))]
    view = scene(nodes, [], queue)
    course = simulate_ahead(view, POLICIES[policy], {}, to_the_limits(view), lambda: False)
    after = NOW if policy != "fcfs" else NOW + 50 * MINUTE
    assert course.starts == {1: NOW + 20 * MINUTE, 2: NOW + 10 * MINUTE, 3: after}


def test_the_reason_names_the_nodes_for_whom_they_are_kept_and_how_long_the_job_may_run() -> None:
    times = [kept_for("r", 10, 20, says="for maintenance from 6 to 8")]
    nodes = [node(name, 2, kept=times) for name in ("n1", "n2", "n3")]
    ask = asks(2, minutes=90)
    for policy in ALL:
        reasons = POLICIES[policy](scene(nodes, [], [(1, ask)])).waits[ask].reasons
        assert (Why.RESERVED, "n[1-3] are reserved for maintenance from 6 to 8; the job may run 1h30m") in [
            (each.why, each.text) for each in reasons
        ]


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (inside(1, 5, "q"), "the job runs only in reservation 'q', which does not exist"),
        (asks(1, minutes=5, reservation="r"), "a is in reservation 'r', which the job's owner may not use"),
        (
            inside(1, 30),
            "a is reserved for r; the job may run 30m, and must end with the reservation",
        ),
        (inside(1, 5), "a is reserved for r, and the reservation has not begun"),
        (inside(1, 5), "b is not in reservation 'r'"),
    ],
)
def test_the_reason_says_why_a_job_does_not_run_in_its_reservation(request_: JobRequest, text: str) -> None:
    view = scene([node("a", 2, kept=[kept_for("r", 10, 20)]), node("b", 2)], [], [(1, request_)])
    for policy in ALL:
        assert text in [each.text for each in POLICIES[policy](view).waits[request_].reasons], policy


def test_a_job_that_is_longer_than_its_reservation_can_never_run_and_one_as_long_can() -> None:
    for begins in (-5, 10):
        nodes = [node("a", 2, kept=[kept_for("r", begins, begins + 20)])]
        left = 20 if begins > 0 else 15
        for minutes, can in ((left, True), (left + 1, False)):
            ask = inside(1, minutes)
            never = never_fits(ask, scene(nodes).nodes)
            assert bool(never) is not can, (begins, minutes)
