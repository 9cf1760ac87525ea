"""Jobs that would do with several requests: which one they are given, promised and told about."""

from math import inf

import msgspec
import pytest

from headnode.core.model.job import Licence
from headnode.core.model.quantities import NEVER
from headnode.core.scheduling.node_table import KnownNodes, NodeTable
from headnode.core.scheduling.plan import Plan, Start, Why
from headnode.core.scheduling.policies import POLICIES
from headnode.core.scheduling.reasons import explain
from headnode.core.scheduling.verify_plan import plan_violation
from headnode.core.scheduling.view import View
from headnode.testing import OURS, Arrival, History, Promise, check_history, check_scene

from .scenes import MINUTE, NOW, asks, node, reserved, runs, scene, start

EVERY_POLICY = pytest.mark.parametrize("policy", POLICIES)
BOTH_CONSERVATIVE = pytest.mark.parametrize("policy", ["conservative", "conservative-replan"])


def under(option: int, made: Start) -> Start:
    return msgspec.structs.replace(made, option=option)


def promised(plan: Plan) -> list[tuple[int, float, int]]:
    """Return who is promised what: the job, in how many minutes, under which option."""
    return [(each.job, (each.at - NOW) / MINUTE, each.option) for each in plan.reservations]


@EVERY_POLICY
def test_a_job_starts_with_the_first_of_its_requests_that_can_start_now(policy: str) -> None:
    wishes = asks(5, alternatives=(asks(4, minutes=9), asks(3, minutes=9), asks(1, minutes=9)))
    view = scene([node("a", 4)], [runs(1, asks(1), ("a", 1))], [(2, wishes)])
    assert POLICIES[policy](view).starts == (under(2, start(2, ("a", 3))),)


@EVERY_POLICY
def test_what_a_job_prefers_goes_before_what_gives_it_more(policy: str) -> None:
    view = scene([node("a", 4)], [], [(1, asks(1, minutes=60, alternatives=(asks(4, minutes=1),)))])
    assert POLICIES[policy](view).starts == (start(1, ("a", 1)),)


@EVERY_POLICY
def test_the_earliest_place_is_promised_whichever_request_it_is_for(policy: str) -> None:
    running = [runs(1, asks(2), ("a", 2), minutes_left=30), runs(2, asks(2), ("b", 2), minutes_left=10)]
    wishes = asks(4, minutes=1, alternatives=(asks(3, minutes=1), asks(2, minutes=60), asks(1, minutes=90)))
    plan = POLICIES[policy](scene([node("a", 2), node("b", 2)], running, [(3, wishes)]))
    assert promised(plan) == [(3, 10, 2)]
    assert plan.waits[wishes].not_before == NOW + 10 * MINUTE


def test_only_the_request_that_is_promised_is_spared() -> None:
    running = [runs(1, asks(3), ("a", 3), minutes_left=10)]
    wishes = asks(4, minutes=5, alternatives=(asks(3, minutes=5),))
    plan = POLICIES["easy"](scene([node("a", 4)], running, [(2, wishes), (3, asks(1, minutes=60))]))
    assert promised(plan) == [(2, 10, 0)], "it prefers all four, and gets them as early"
    assert not plan.starts
    longer = [runs(1, asks(1), ("a", 1), minutes_left=99), runs(2, asks(2), ("a", 2), minutes_left=10)]
    plan = POLICIES["easy"](scene([node("a", 4)], longer, [(3, wishes), (4, asks(1, minutes=60))]))
    assert promised(plan) == [(3, 10, 1)]
    assert not plan.starts, "one of the three that job 3 is promised is free now, and must not be taken"


def test_a_request_that_is_over_in_time_overtakes_where_the_preferred_one_would_not_be() -> None:
    running = [runs(1, asks(2), ("a", 2), minutes_left=10)]
    hasty = asks(1, minutes=60, alternatives=(asks(1, minutes=10),))
    plan = POLICIES["easy"](scene([node("a", 3)], running, [(2, asks(3, minutes=5)), (3, hasty)]))
    assert plan.starts == (under(1, start(3, ("a", 1), ahead_of=2)),)


@EVERY_POLICY
def test_each_request_has_its_own_licences(policy: str) -> None:
    with_licence = asks(1, licences=(Licence("x", 2),), alternatives=(asks(1, minutes=5),))
    plan = POLICIES[policy](scene([node("a", 2)], queue=[(1, with_licence)], licences={"x": (2, 1)}))
    assert plan.starts == (under(1, start(1, ("a", 1))),)


@EVERY_POLICY
def test_a_second_pass_over_the_same_nodes_promises_the_same_request(policy: str) -> None:
    running = [runs(1, asks(2), ("a", 2), minutes_left=30), runs(2, asks(2), ("b", 2), minutes_left=10)]
    wishes = asks(4, minutes=1, alternatives=(asks(2, minutes=60),))
    queue = [(3, wishes), (4, asks(2, minutes=25)), (5, asks(9, alternatives=(asks(8),)))]
    view = on_one_ground(scene([node("a", 2), node("b", 2)], running, queue))
    first = POLICIES[policy](view)
    again = POLICIES[policy](msgspec.structs.replace(view, before=first, freed=False))
    assert promised(first)[0] == (3, 10, 1)
    assert again.reservations == first.reservations
    assert dict(again.waits) == dict(first.waits)
    third = POLICIES[policy](msgspec.structs.replace(view, before=again, freed=False))
    assert dict(third.waits) == dict(first.waits)


def on_one_ground(view: View) -> View:
    """Return the view with what will be remembered of its nodes."""
    return msgspec.structs.replace(view, ground=KnownNodes(view.nodes, NodeTable(view.nodes)))


def test_a_kept_place_is_for_the_request_that_it_was_given_for() -> None:
    wishes = asks(4, minutes=5, alternatives=(asks(2, minutes=60),))
    running = [runs(1, asks(2), ("a", 2), minutes_left=10), runs(2, asks(2), ("b", 2), minutes_left=99)]
    kept = reserved(3, wishes, ("a", 2), minutes=10, option=1)
    view = scene([node("a", 2), node("b", 2)], running, [(3, wishes)], before=[kept], freed=False)
    plan = POLICIES["conservative"](view)
    assert plan.reservations == (kept,)
    behind = msgspec.structs.replace(scene((), queue=[(4, asks(2, minutes=20))]).queue[0])
    plan = POLICIES["conservative"](msgspec.structs.replace(view, queue=[*view.queue, behind]))
    assert promised(plan) == [(3, 10, 1), (4, 70, 0)]


def test_when_its_time_has_come_a_job_starts_with_what_it_prefers_if_that_touches_nobody() -> None:
    wishes = asks(4, minutes=5, alternatives=(asks(2, minutes=60),))
    kept = reserved(3, wishes, ("a", 2), minutes=0, option=1)
    nodes = [node("a", 2), node("b", 2)]
    plan = POLICIES["conservative"](scene(nodes, [], [(3, wishes)], before=[kept], freed=False))
    assert plan.starts == (start(3, ("a", 2), ("b", 2)),)
    second = reserved(4, asks(2, minutes=5), ("b", 2), minutes=3)
    queue = [(3, wishes), (4, asks(2, minutes=5))]
    plan = POLICIES["conservative"](scene(nodes, [], queue, before=[kept, second], freed=False))
    assert plan.starts == (under(1, start(3, ("a", 2))),)
    assert promised(plan) == [(4, 3, 0)]


def test_a_kept_place_is_offered_to_a_preferred_request_at_the_same_time() -> None:
    wishes = asks(3, minutes=5, alternatives=(asks(2, minutes=60),))
    running = [runs(1, asks(2), ("a", 2), minutes_left=10)]
    kept = reserved(3, wishes, ("a", 2), minutes=10, option=1)
    plan = POLICIES["conservative"](scene([node("a", 3)], running, [(3, wishes)], before=[kept]))
    assert promised(plan) == [(3, 10, 0)]


@BOTH_CONSERVATIVE
def test_who_waits_for_endless_jobs_has_its_place_where_it_fits_with_one_of_its_requests(policy: str) -> None:
    waits = asks(4, minutes=1, alternatives=(asks(3, minutes=1),))
    queue = [(10, waits), (11, asks(1)), (12, asks(1))]
    plan = POLICIES[policy](scene([node("a", 4)], [runs(1, asks(2), ("a", 2))], queue))
    assert plan.starts == (start(11, ("a", 1), ahead_of=10),)


def test_a_promise_of_a_request_with_a_limit_gives_no_right_to_one_without() -> None:
    chooses = asks(1, alternatives=(asks(1, minutes=5),))
    kept = reserved(10, chooses, ("a", 1), minutes=0, option=1)
    running = [runs(1, asks(2), ("a", 2))]
    queue = [(9, asks(4)), (10, chooses)]
    plan = POLICIES["conservative"](scene([node("a", 4)], running, queue, before=[kept], freed=False))
    assert plan.starts == (under(1, start(10, ("a", 1), ahead_of=9)),)


@EVERY_POLICY
def test_what_keeps_each_alternative_is_told_in_one_line(policy: str) -> None:
    wishes = asks(
        4, minutes=5, alternatives=(asks(3, minutes=5), asks(1, minutes=5, licences=(Licence("x", 1),)))
    )
    running = [runs(1, asks(2), ("a", 2), minutes_left=10)]
    view = scene([node("a", 4)], running, [(2, wishes)], licences={"x": (1, 0)})
    plan = POLICIES[policy](view)
    wait = plan.waits[wishes]
    assert [(each.why, each.what) for each in wait.reasons] == [
        (Why.PROCESSORS, ""), (Why.ALTERNATIVE, "1"), (Why.ALTERNATIVE, "2"),
    ]  # fmt: skip
    assert (
        wait.reasons[1].text
        == "alternative 1: needs 3 processors; at most 2 processors on 1 node would fit now"
    )
    assert wait.reasons[2].text == "alternative 2: needs 1 of licence 'x'; 0 available"
    assert set(wait.reasons) <= set(explain(view, plan, wishes)), "the full story tells them too"


@EVERY_POLICY
def test_who_fits_behind_another_is_told_why_none_of_its_requests_may_go_first(policy: str) -> None:
    wishes = asks(4, minutes=50, alternatives=(asks(1, minutes=50),))
    running = [runs(1, asks(3), ("a", 3), minutes_left=10)]
    plan = POLICIES[policy](scene([node("a", 4)], running, [(2, asks(4, minutes=1)), (3, wishes)], depth=1))
    first, *_, last = plan.waits[wishes].reasons
    assert (first.why, last.why) == (Why.PRIORITY, Why.ALTERNATIVE)
    assert last.text.startswith("alternative 1: the job fits now, but ")
    assert "job 2" in last.text


@EVERY_POLICY
def test_a_job_never_fits_only_if_none_of_its_requests_does(policy: str) -> None:
    running = [runs(1, asks(3), ("a", 3), minutes_left=10)]
    some, none = asks(9, alternatives=(asks(2, minutes=5),)), asks(9, alternatives=(asks(8),))
    plan = POLICIES[policy](scene([node("a", 4)], running, [(2, some), (3, none)]))
    assert all(each.why is not Why.NEVER_FITS for each in plan.waits[some].reasons)
    assert promised(plan) == [(2, 10, 1)]
    found = plan.waits[none]
    assert [each.why for each in found.reasons] == [Why.NEVER_FITS, Why.ALTERNATIVE]
    assert found.not_before == NEVER


@EVERY_POLICY
def test_a_request_that_fits_once_nodes_are_open_again_keeps_a_job_waiting(policy: str) -> None:
    wishes = asks(9, alternatives=(asks(4, minutes=5),))
    plan = POLICIES[policy](scene([node("a", 2), node("b", 2, closed="paused")], queue=[(1, wishes)]))
    assert Why.NEVER_FITS not in [each.why for each in plan.waits[wishes].reasons]


@BOTH_CONSERVATIVE
def test_depth_counts_jobs_and_not_their_requests(policy: str) -> None:
    wishes = asks(4, minutes=5, alternatives=(asks(3, minutes=5), asks(2, minutes=5)))
    running = [runs(1, asks(3), ("a", 3), minutes_left=10)]
    queue = [(2, wishes), (3, wishes), (4, wishes)]
    plan = POLICIES[policy](scene([node("a", 4)], running, queue, depth=2))
    assert [job for job, _, _ in promised(plan)] == [2, 3]


def test_equal_jobs_with_alternatives_start_one_after_the_other_as_long_as_one_fits() -> None:
    wishes = asks(2, minutes=5, alternatives=(asks(1, minutes=9),))
    queue = [(job, wishes) for job in range(1, 6)]
    plan = POLICIES["easy"](scene([node("a", 5)], [], queue))
    assert [(each.job, each.option) for each in plan.starts] == [(1, 0), (2, 0), (3, 1)]
    assert [job for job, _, _ in promised(plan)] == [4]


def test_a_plan_is_lawful_only_for_an_option_that_there_is_and_with_what_that_asks_for() -> None:
    wishes = asks(4, alternatives=(asks(2),))
    view = scene([node("a", 4)], queue=[(1, wishes)])

    def fault(option: int, processors: int) -> str:
        return plan_violation(Plan((under(option, start(1, ("a", processors))),), (), {}), view)

    assert fault(0, 4) == fault(1, 2) == ""
    assert "needs at least 4" in fault(0, 2)
    assert "wants at most 2" in fault(1, 4)
    assert fault(2, 2)
    assert fault(-1, 2)


def test_nodes_after_a_plan_are_those_that_the_options_left() -> None:
    chooses = asks(9, alternatives=(asks(2, minutes=inf, exclusive=True),))
    view = scene([node("a", 2)], queue=[(1, chooses), (2, asks(1))])
    plan = POLICIES["easy"](view)
    assert plan.starts == (under(1, start(1, ("a", 2))),)
    found = explain(view, plan, asks(1))
    assert "node 'a' is used exclusively by one job" in [each.text for each in found]


def test_a_place_looked_for_in_vain_by_one_job_is_found_by_another_that_asks_for_its_alternative() -> None:
    small = asks(1, minutes=9)
    chooses = asks(2, minutes=4, alternatives=(small,))
    history = History(
        [node("n0", 3)],
        [
            Arrival(2, asks(2, minutes=1), at=4, lasts=1),
            Arrival(3, chooses, at=4, lasts=1, priority=3000),
            Arrival(
                4, asks(1, minutes=3, alternatives=(asks(2, minutes=2), asks(3, minutes=1))), at=5, lasts=0.75
            ),
            Arrival(5, chooses, at=5, lasts=1),
            Arrival(6, asks(2, minutes=1), at=5.5, lasts=1),
            Arrival(7, small, at=5.5, lasts=9),
        ],
    )
    check_history(POLICIES["conservative"], history, OURS["conservative"])


@EVERY_POLICY
def test_the_line_of_an_alternative_does_not_depend_on_how_nodes_are_listed(policy: str) -> None:
    wishes = asks(
        4, minutes=3, minimum_processors_per_node=2, alternatives=(asks(1, minimum_processors_per_node=2),)
    )
    view = scene([node("a", 1), node("b", 1), node("c", 2, closed="paused")], queue=[(1, wishes)])
    check_scene(POLICIES[policy], view, [Promise.LISTING_DOES_NOT_MATTER])
