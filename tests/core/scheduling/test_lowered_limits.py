"""Run time limits that are lowered for an earlier start: to which limit, and for whom not."""

import pytest
from msgspec.structs import replace

from headnode.core.model.quantities import Seconds
from headnode.core.scheduling.node_view import ReservedTime
from headnode.core.scheduling.plan import Plan, Start, Why
from headnode.core.scheduling.policies import POLICIES
from headnode.core.scheduling.verify_plan import plan_fault, plan_violation
from headnode.core.scheduling.view import View
from headnode.testing import asks, node, runs, scene
from headnode.testing.scenes import MINUTE

EVERY_POLICY = pytest.mark.parametrize("policy", POLICIES)


def lowered(plan: Plan) -> dict[int, float | None]:
    """Return the lowered limits of the jobs that start, in minutes."""
    return {s.job: None if s.lowered_limit is None else s.lowered_limit / MINUTE for s in plan.starts}


def fits(minutes: float, least: float, **more: object) -> View:
    """Return a node that closes or is reserved in 10 minutes, and a job for it."""
    asked = asks(1, minutes=minutes, minimum_run_time=Seconds(least * MINUTE))
    return scene([replace(node("a", 2), **more)], [], [(9, asked)])


@EVERY_POLICY
@pytest.mark.parametrize("reserved", [True, False])
def test_a_job_is_over_before_its_node_closes_or_is_reserved(policy: str, *, reserved: bool) -> None:
    time = ReservedTime("night", 10 * MINUTE, 20 * MINUTE)
    more = {"reserved": (time,)} if reserved else {"open_for": 10 * MINUTE}
    assert lowered(POLICIES[policy](fits(30, 5, **more))) == {9: 10}
    assert lowered(POLICIES[policy](fits(30, 10, **more))) == {9: 10}
    assert lowered(POLICIES[policy](fits(9, 5, **more))) == {9: None}
    assert lowered(POLICIES[policy](fits(30, 11, **more))) == {}


@EVERY_POLICY
def test_of_several_reservations_the_last_that_it_is_over_before_counts(policy: str) -> None:
    night = ReservedTime("night", 10 * MINUTE, 20 * MINUTE)
    week = ReservedTime("week", 25 * MINUTE, 90 * MINUTE)
    nodes = [replace(node("a", 1), reserved=(night,)), replace(node("b", 1), reserved=(week,))]
    asked = asks(1, minutes=60, minimum_run_time=Seconds(5 * MINUTE))
    plan = POLICIES[policy](scene(nodes, [], [(9, asked)]))
    assert [(start.allocation, start.lowered_limit) for start in plan.starts] == [((("b", 1),), 25 * MINUTE)]


@pytest.mark.parametrize("policy", ["conservative", "conservative-replan"])
def test_a_job_leaves_its_reservation_when_it_starts_before_with_less_time(policy: str) -> None:
    nodes = [node("a", 2)]
    running = [runs(1, asks(1), ("a", 1), minutes_left=10)]
    long = asks(1, minutes=60, minimum_run_time=Seconds(5 * MINUTE))
    plan = POLICIES[policy](scene(nodes, running, [(8, asks(2, minutes=9)), (9, long)]))
    assert lowered(plan) == {9: 10}
    assert [each.job for each in plan.reservations] == [8]


@EVERY_POLICY
def test_a_job_that_could_never_run_for_its_own_limit_may_run_for_less(policy: str) -> None:
    own = ReservedTime("night", 0.0, 20 * MINUTE)
    asked = asks(
        1, minutes=60, minimum_run_time=Seconds(5 * MINUTE), reservation="night", open_reservations=("night",)
    )
    view = scene([replace(node("a", 1), reserved=(own,))], [], [(9, asked)])
    assert lowered(POLICIES[policy](view)) == {9: 20}
    busy = scene([replace(node("a", 2), reserved=(own,))], [runs(1, asks(2), ("a", 2))], [(9, asked)])
    reasons = POLICIES[policy](busy).waits[asked].reasons
    assert Why.NEVER_FITS not in {each.why for each in reasons}


def test_a_plan_that_lowers_a_limit_too_far_or_at_all_where_it_may_not_is_refused() -> None:
    asked = asks(1, minutes=60, minimum_run_time=Seconds(5 * MINUTE))
    for request, limit, right in (
        (asked, 5 * MINUTE, True),
        (asked, 4 * MINUTE, False),
        (asked, 60 * MINUTE, False),
        (asks(1, minutes=60), 5 * MINUTE, False),
    ):
        view = scene([node("a", 1)], [], [(9, request)])
        job = view.queue[0].turns[0].job
        plan = Plan((Start(job, (("a", 1),), lowered_limit=Seconds(limit)),), (), {})
        assert (not plan_violation(plan, view)) is right, (request, limit)
        assert (not plan_fault(plan, view)) is right
    strange = Plan((Start(job, (("a", 1),), lowered_limit="soon"),), (), {})
    assert "write seconds" in plan_fault(strange, view)
