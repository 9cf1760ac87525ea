"""Switches between nodes: jobs run under few of them, wait for few that ask for it, and else never wait."""

from itertools import product

import pytest
from msgspec.structs import replace

from headnode.core.model.job import JobRequest, RequestPart, UnitType
from headnode.core.model.quantities import Instant
from headnode.core.scheduling.placement import place
from headnode.core.scheduling.plan import Why
from headnode.core.scheduling.policies import POLICIES
from headnode.core.scheduling.verify_plan import plan_violation
from headnode.core.scheduling.view import View
from headnode.testing import asks, node, runs, scene
from headnode.testing.scenes import MINUTE, NOW
from headnode.testing.small_worlds import SMALL_WORLDS

TREE = [
    *(node(f"a{number}", 1, switches="a left top") for number in range(4)),
    *(node(f"b{number}", 1, switches="b left top") for number in range(2)),
    *(node(f"c{number}", 1, switches="c right top") for number in range(3)),
]
EVERY_POLICY = pytest.mark.parametrize("policy", POLICIES)


def nodes_for(count: int, *busy: str, **more: object) -> list[str]:
    """Return the nodes that a job for so many would get beside busy ones."""
    held = runs(1, asks(len(busy)), *((name, 1) for name in busy))
    view = scene(TREE, [held] if busy else [])
    found = place(asks(count, unit=UnitType.NODE, **more), view.nodes)
    return [] if found is None else [name for name, _ in found]


def few(switches: int, minutes_to_wait: float, nodes: int = 4, minutes: float = 5) -> JobRequest:
    """Return the request of a job for whole nodes that waits for few switches."""
    until = Instant(NOW + minutes_to_wait * MINUTE)
    return asks(nodes, minutes=minutes, unit=UnitType.NODE, switches=switches, switches_until=until)


def test_the_smallest_switch_that_holds_a_job_is_taken() -> None:
    assert nodes_for(2) == ["b0", "b1"]
    assert nodes_for(3) == ["c0", "c1", "c2"]
    assert nodes_for(4) == ["a0", "a1", "a2", "a3"]


def test_a_job_for_several_leaf_switches_stays_under_one_switch_above_them() -> None:
    assert sorted(nodes_for(4, "a0", "a1")) == ["a2", "a3", "b0", "b1"]


def test_a_job_with_tasks_on_nodes_of_their_own_counts_nodes_and_not_what_they_have_free() -> None:
    nodes = [
        node("a", 1, switches="left top"),
        node("b", 4, switches="right top"),
        node("c", 1, switches="middle top"),
        node("d", 2, switches="middle top"),
    ]
    for together in (False, True):
        request = asks(2, minutes=1, parts=(RequestPart(((1, 2),), apart=True),), together=together)
        assert {name for name, _ in place(request, scene(nodes).nodes) or ()} == {"c", "d"}, together


def test_the_order_that_a_job_asks_for_counts_more_than_switches() -> None:
    from headnode.core.model.job import OrderKey

    assert nodes_for(2, order_by=(OrderKey("speed"),)) == ["a0", "a1"]


def test_a_node_under_no_switch_is_under_one_of_its_own() -> None:
    view = scene([node("a", 1, switches="s"), node("b", 1), node("c", 1)])
    asked = asks(2, unit=UnitType.NODE, switches=1)
    assert place(asked, view.nodes) is None
    assert place(replace(asked, switches=2), view.nodes) is not None


def test_where_no_switches_are_known_all_nodes_are_under_one() -> None:
    view = scene([node("a", 1), node("b", 1)])
    assert place(asks(2, unit=UnitType.NODE, switches=1), view.nodes) == (("a", 1), ("b", 1))


def busy_tree(now: Instant = NOW, queue: JobRequest | None = None) -> View:
    """Return nodes of which one of each switch is busy, for 2, 4 and 6 minutes."""
    running = [
        runs(job, asks(1), (name, 1), minutes_left=2 * job) for job, name in ((1, "c0"), (2, "a0"), (3, "b0"))
    ]
    return scene(TREE, running, [(9, queue)] if queue else [], now=now)


@EVERY_POLICY
def test_a_job_waits_for_few_switches_and_then_for_no_more(policy: str) -> None:
    asked = few(1, 3)
    plan = POLICIES[policy](busy_tree(queue=asked))
    assert not plan.starts
    assert [reason.why for reason in plan.waits[asked].reasons] == [Why.SWITCHES]
    assert plan.wake == asked.switches_until
    if policy != "fcfs":
        assert [each.at for each in plan.reservations] == [asked.switches_until]
    late = POLICIES[policy](replace(busy_tree(queue=asked), now=asked.switches_until))
    assert [start.job for start in late.starts] == [9]


@EVERY_POLICY
def test_a_promise_is_for_few_switches_where_they_are_free_in_time(policy: str) -> None:
    plan = POLICIES[policy](busy_tree(queue=few(1, 60)))
    (promise,) = plan.reservations
    assert promise.at == NOW + 4 * MINUTE
    assert {name[0] for name, _ in promise.allocation} == {"a"}


@EVERY_POLICY
def test_a_job_is_told_never_only_if_it_asks_for_few_switches_for_ever(policy: str) -> None:
    asked = few(1, float("inf"), nodes=5)
    assert {each.why for each in POLICIES[policy](busy_tree(queue=asked)).waits[asked].reasons} == {
        Why.NEVER_FITS
    }
    asked = few(1, 3, nodes=5)
    assert {each.why for each in POLICIES[policy](busy_tree(queue=asked)).waits[asked].reasons} == {
        Why.SWITCHES
    }


@EVERY_POLICY
def test_a_backfilled_job_does_not_delay_one_that_was_promised_few_switches(policy: str) -> None:
    first = few(1, 60)
    view = scene(
        TREE,
        [runs(1, asks(1), ("a0", 1), minutes_left=4), runs(2, asks(1), ("b0", 1), minutes_left=9)],
        [(8, first), (9, asks(1, minutes=20, unit=UnitType.NODE, requested_nodes=("a1", "b1")))],
    )
    plan = POLICIES[policy](view)
    started = {start.job: start.allocation for start in plan.starts}
    assert started == ({} if policy == "fcfs" else {9: (("b1", 1),)})


def test_a_plan_that_gives_a_job_too_many_switches_is_refused_until_it_has_waited_enough() -> None:
    from headnode.core.scheduling.plan import Plan, Start

    asked = few(1, 3, nodes=2)
    view = busy_tree(queue=asked)
    plan = Plan((Start(view.queue[0].turns[0].job, (("a1", 1), ("b1", 1))),), (), {})
    assert "1 leaf switch" in plan_violation(plan, view)
    assert not plan_violation(plan, replace(view, now=asked.switches_until))


@EVERY_POLICY
@pytest.mark.parametrize("worlds", ["shared and exclusive", "growing", "memory", "gangs", "particular nodes"])
def test_no_job_waits_for_switches_that_does_not_ask_for_few(policy: str, worlds: str) -> None:
    tried = 0
    for number, view in enumerate(SMALL_WORLDS[worlds]()):
        if number % 7:
            continue
        plain = POLICIES[policy](replace(view, ground=None))
        names = list(view.nodes)
        for tops in product(("x top", "y top"), repeat=len(names)):
            nodes = {
                name: replace(view.nodes[name], switches=tuple(top.split()))
                for name, top in zip(names, tops, strict=True)
            }
            plan = POLICIES[policy](replace(view, nodes=nodes, ground=None))
            first = {start.job for start in plain.starts[:1]}
            assert first <= {start.job for start in plan.starts}
            tried += 1
    assert tried > 100
