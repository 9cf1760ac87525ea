"""Jobs of users with limits: what keeps them out, what is promised to them, and what others get meanwhile."""

from typing import Any

import msgspec
import pytest

from headnode.core.model.job import UnitType
from headnode.core.scheduling.elastic_demand import IdleNodes, elastic_demand
from headnode.core.scheduling.node_table import KnownNodes
from headnode.core.scheduling.plan import Plan, Why
from headnode.core.scheduling.policies import POLICIES
from headnode.core.scheduling.view import View
from headnode.testing import limited

from .scenes import MINUTE, NOW, asks, node, on_gpus, part, runs, scene, started

EVERY_POLICY = pytest.mark.parametrize("policy", POLICIES)
nodes = [node("a", 4), node("b", 4)]


def reasons_of(plan: Plan, request: object) -> list[str]:
    return [reason.text for reason in plan.waits[request].reasons if reason.why is Why.LIMIT]


def remembering(view: View) -> View:
    """Return the view with a node table that remembers how its passes end."""
    return msgspec.structs.replace(view, ground=KnownNodes(view.nodes, view.node_table()))


@EVERY_POLICY
@pytest.mark.parametrize(
    ("needs", "processors"),
    [
        ({"minimum": 1, "maximum": 4, "node_share": 1}, 4),
        ({"minimum": 1, "maximum": 4, "parts": (part(1, 2, apart=True),)}, 2),
        ({"minimum": 1, "maximum": 4, "required_nodes": ("a", "b")}, 2),
        ({"unit": UnitType.NODE}, 4),
        ({"exclusive": True}, 4),
    ],
)
def test_a_job_whose_size_depends_on_its_nodes_holds_up_nobody_at_its_limit(
    policy: str, needs: dict[str, Any], processors: int
) -> None:
    """Ann may have so many that one is left, which is too few for the nodes that her job takes."""
    least = {"minimum": 1, "maximum": 1, **needs}
    ann = limited(asks(minutes=5, **least), "ann", processors=processors + 1)
    hers = limited(asks(processors, minutes=9), "ann", processors=processors + 1)
    running = [runs(1, hers, ("a", processors), minutes_left=9)]
    others = asks(2, minutes=60)
    plan = POLICIES[policy](scene(nodes, running, [(2, ann), (3, others), (4, asks(4, minutes=90))]))
    assert started(plan)[:1] == [3]
    assert 2 not in [each.job for each in plan.reservations]
    most, need = processors + 1, processors
    found = f"user 'ann' may have {most} processors at once and has {need}; the job needs {need}"
    assert reasons_of(plan, ann) == [found]


@EVERY_POLICY
def test_a_job_within_its_limits_whose_nodes_are_closed_waits_for_them(policy: str) -> None:
    closed = [node("a", 4), node("b", 4, closed="paused")]
    asked = limited(asks(1, minutes=5, exclusive=True, required_nodes=("b",)), "ann", processors=4)
    wait = POLICIES[policy](scene(closed, [], [(1, asked)])).waits[asked]
    assert wait.reasons
    assert not [reason for reason in wait.reasons if reason.why is Why.LIMIT]


@EVERY_POLICY
def test_an_alternative_that_no_node_can_run_does_not_make_a_limited_job_wait_for_nodes(policy: str) -> None:
    """It asks for more processors than there are, or for a GPU; ann has the one GPU that she may have."""
    asked = limited(asks(9, minutes=5, alternatives=(on_gpus(1, minutes=5),)), "ann", gpus=1)
    hers = limited(on_gpus(1), "ann", gpus=1)
    there = [node("a", 4, gpus=2), node("b", 4, closed="paused")]
    plan = POLICIES[policy](scene(there, [runs(1, hers, ("a", 1), minutes_left=9)], [(2, asked)]))
    assert not plan.reservations


def test_a_job_that_jobs_of_its_user_overtake_keeps_its_reservation() -> None:
    """Job 3 ends in time, and until then it is the one job that ann may have."""
    first, short, long = asks(8, minutes=9), asks(1, minutes=5), asks(2, minutes=60)
    first, short = limited(first, "ann", jobs=1), limited(short, "ann", jobs=1)
    view = scene(nodes, [runs(1, asks(4), ("a", 4), minutes_left=10)], [(2, first), (3, short)])
    plan = POLICIES["easy"](view)
    assert started(plan) == [3]
    assert plan.reservations[0].at == NOW + 10 * MINUTE
    running = [*view.running, runs(3, short, ("b", 1), minutes_left=5)]
    after = scene(nodes, running, [(2, first), (4, long)], before=plan.reservations)
    plan = POLICIES["easy"](after)
    assert started(plan) == []
    assert [(each.job, each.at) for each in plan.reservations] == [(2, NOW + 10 * MINUTE)]
    kept_longer = [view.running[0], runs(3, short, ("b", 1), minutes_left=15)]
    plan = POLICIES["easy"](scene(nodes, kept_longer, [(2, first), (4, long)], before=plan.reservations))
    assert started(plan) == [4]
    assert not plan.reservations


@pytest.mark.parametrize("policy", ["easy", "fcfs"])
def test_what_was_refused_behind_a_job_is_looked_at_again_when_its_user_reaches_the_limit(
    policy: str,
) -> None:
    """What is free is what it was at the pass before; but a job of ann with a better turn starts."""
    large, small = limited(asks(8, minutes=9), "ann", jobs=1), limited(asks(1, minutes=60), "ann", jobs=1)
    others = asks(2, minutes=60)
    running = [runs(1, asks(4), ("a", 4), minutes_left=10)]
    view = remembering(scene(nodes, running, [(2, large), (3, others)]))
    assert started(POLICIES[policy](view)) == []
    better = scene(nodes, running, [(2, large), (3, others), (4, small, 3000)])
    plan = POLICIES[policy](msgspec.structs.replace(view, queue=better.queue))
    assert started(plan) == [4, 3]
    assert reasons_of(plan, large) == ["user 'ann' may have 1 running job at once and has 1"]


@pytest.mark.parametrize("policy", ["conservative", "conservative-replan"])
@pytest.mark.parametrize("depth", [1, 2])
def test_a_limited_job_takes_no_reservation_from_the_depth(policy: str, depth: int) -> None:
    ann = limited(asks(1, minutes=5), "ann", jobs=1)
    running = [runs(1, ann, ("a", 4), minutes_left=9)]
    queue = [(2, ann), (3, asks(8, minutes=5)), (4, asks(8, minutes=6))]
    plan = POLICIES[policy](msgspec.structs.replace(scene(nodes, running, queue), depth=depth))
    assert [each.job for each in plan.reservations] == [3, 4][:depth]


@EVERY_POLICY
def test_a_limit_that_was_lowered_below_what_runs_stops_nothing_and_starts_nothing(policy: str) -> None:
    ann = limited(asks(1, 4, minutes=5), "ann", processors=2)
    running = [runs(1, ann, ("a", 4), minutes_left=9), runs(2, ann, ("b", 1), minutes_left=2, wants=3)]
    view = scene(nodes, running, [(3, ann), (4, asks(1, minutes=1))])
    assert view.licences == {"user,processors,ann": (2, -3)}
    plan = POLICIES[policy](view)
    assert (started(plan), plan.grows) == ([4], ())
    found = "user 'ann' may have 2 processors at once and has 5; the job needs 1"
    assert reasons_of(plan, ann) == [found]


@EVERY_POLICY
def test_a_running_job_grows_within_the_limit_of_its_user(policy: str) -> None:
    ann = limited(asks(1, 4, minutes=5), "ann", processors=5)
    running = [
        runs(1, ann, ("a", 2), minutes_left=9, wants=2),
        runs(2, ann, ("b", 2), minutes_left=9, wants=2),
    ]
    plan = POLICIES[policy](scene(nodes, running))
    assert sum(count for grow in plan.grows for _, count in grow.allocation) == 1


@EVERY_POLICY
def test_a_blocked_job_that_is_changed_to_one_of_a_limit_that_is_used_up_holds_up_nobody(policy: str) -> None:
    """Who was refused behind it in the pass before is looked at again."""
    bob, slow = limited(asks(1, minutes=90), "bob", jobs=1), asks(1, minutes=20)
    running = [runs(1, bob, ("a", 2), minutes_left=10)]
    others = [(3, bob), (4, slow)]
    before = remembering(scene([node("a", 4)], running, [(2, asks(4, minutes=60)), *others]))
    assert started(POLICIES[policy](before)) == []
    queue = scene([node("a", 4)], running, [(2, bob), *others]).queue
    assert started(POLICIES[policy](msgspec.structs.replace(before, queue=queue))) == [4]


def test_nodes_are_made_for_no_more_jobs_than_their_user_may_have() -> None:
    """The nodes of another pool are coming for job 1; then ann has the one job that she may have."""
    large, small = limited(asks(8, minutes=5), "ann", jobs=1), limited(asks(8, minutes=6), "ann", jobs=1)
    view = scene([node("a", 1)], [], [(1, large), (2, small)])
    wanted = IdleNodes(node("m", 8).facts, 3600.0, 2)
    coming = IdleNodes(node("p", 8).facts, 3600.0, 1)
    assert elastic_demand(view, POLICIES["easy"], wanted).jobs == {1}
    assert elastic_demand(view, POLICIES["easy"], wanted, [coming]).jobs == set()
