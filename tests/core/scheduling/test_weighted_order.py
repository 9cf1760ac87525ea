"""The order of waiting jobs by weights, against a plain search for the next job; and sums of fair shares."""

import sys
from collections.abc import Iterator
from types import FrameType

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from headnode.core.model.job import JobRequest
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.priority_factors import PriorityFactor, Shares
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.model.usage_weights import read_usage_weights
from headnode.core.scheduling.fair_share import OF_PROJECT, FairShare, Owner, SharedAccount, ShareTree
from headnode.core.scheduling.policies import POLICIES, OrderedPolicy
from headnode.core.scheduling.view import View, WaitingClass
from headnode.core.scheduling.weighted_order import CHARGED, WeightedOrder, share_tree
from headnode.testing import FAIR, QUICK, check_policy

from .scenes import NOW, asks, node, on_gpus, runs, scene, turn_of

OWNERS = tuple((user, project) for user in ("ann", "bob", "eve") for project in ("", "chem", "bio"))
EQUAL = Shares()
FACTOR = vars(SharedAccount)["factor"].fget
USAGE = st.dictionaries(st.sampled_from(OWNERS), st.floats(0, 1e7), max_size=6)
SHARES = st.builds(
    Shares,
    users=st.dictionaries(st.sampled_from(("ann", "chem/bob", "*", "bio/ann")), st.integers(0, 5)),
    projects=st.dictionaries(st.sampled_from(("chem", "bio", "*")), st.integers(0, 5)),
)


@st.composite
def views(draw: st.DrawFn) -> View:
    """Return a cluster with jobs of several users and projects in the queue, and one that runs."""
    queue, since = [], {}
    for at, owner in enumerate(draw(st.lists(st.sampled_from(OWNERS), min_size=1, max_size=14)), start=1):
        size, minutes = draw(st.integers(1, 4)), draw(st.sampled_from((1, 30, 600)))
        turn = turn_of(at, draw(st.sampled_from((1000, 2000))))
        queue.append(WaitingClass(asks(size, minutes=minutes), [turn], *owner))
        since[JobId(at)] = Instant(NOW - draw(st.sampled_from((0.0, 100.0, 1e6))))
    owner = draw(st.sampled_from(OWNERS))
    running = replace(runs(99, asks(2), ("a", 2), minutes_left=20), owner=owner[0], project=owner[1])
    view = scene([node("a", 4), node("b", 8)], [running])
    return replace(view, queue=queue, usage=draw(USAGE), waiting_since=since)


def plainly(order: WeightedOrder, view: View) -> Iterator[tuple[JobId, float]]:
    """Yield the jobs and their scores: each time the best of all that are left, and then it is charged."""
    tree = share_tree(order.shares, view, order.counted, charged=True)
    accounts = {owner: tree.account(owner) for owner in tree.owners()}
    of_projects = {project: tree.account_of_project(project) for project in tree.projects()}
    weight = order.weights.get(PriorityFactor.FAIR_SHARE, 0)
    left = [(turn, each) for each in view.queue for turn in each.turns]

    def has_share(each: WaitingClass) -> bool:
        of_project = not each.project or of_projects[each.project].due > 0
        return of_project and accounts[each.owner, each.project].due > 0

    def score(each: WaitingClass, job: JobId) -> float:
        owner = (each.owner, each.project)
        fair = accounts[owner].factor if has_share(each) else 0.0
        if each.project and has_share(each):
            fair = OF_PROJECT * of_projects[each.project].factor + (1 - OF_PROJECT) * fair
        age = min(1.0, (view.now - view.waiting_since[job]) / order.max_age)
        size = each.request.minimum / 12
        return (
            weight * fair
            + order.weights.get(PriorityFactor.AGE, 0) * age
            + order.weights.get(PriorityFactor.SIZE, 0) * size
        )

    while left:
        found = [(turn.minus_priority, -round(score(each, turn.job), 9), turn, each) for turn, each in left]
        first, minus_score, turn, each = min(found, key=lambda one: one[:3])
        near = (other - minus_score for priority, other, _, _ in found if priority == first)
        assume(not any(0 < gap < 1e-6 for gap in near))  # neither is the best, as numbers are rounded
        left.remove((turn, each))
        yield turn.job, score(each, turn.job)
        amount = each.request.minimum * min(each.request.run_time, CHARGED)
        accounts[each.owner, each.project].used += amount
        if each.project and has_share(each):
            of_projects[each.project].used += amount


WEIGHTS = st.fixed_dictionaries(
    {},
    optional={
        PriorityFactor.FAIR_SHARE: st.integers(0, 1000),
        PriorityFactor.AGE: st.integers(0, 1000),
        PriorityFactor.SIZE: st.integers(-1000, 1000),
    },
)


@given(views(), WEIGHTS, SHARES)
def test_each_job_has_the_score_that_a_search_for_the_best_gives_it(
    view: View, weights: dict[PriorityFactor, int], shares: Shares
) -> None:
    order = WeightedOrder(weights, shares, Seconds(3600.0))
    scores = order.scores(view)
    expected = dict(plainly(order, view))
    assert {job: score.total for job, score in scores.items()} == {
        job: pytest.approx(total, abs=1e-6) for job, total in expected.items()
    }


@given(views(), WEIGHTS, SHARES)
def test_the_keys_put_the_jobs_in_the_order_of_their_scores_within_each_priority(
    view: View, weights: dict[PriorityFactor, int], shares: Shares
) -> None:
    order = WeightedOrder(weights, shares, Seconds(3600.0))
    keys, scores = order.keys(view), order.scores(view)
    turns = {turn.job: turn for each in view.queue for turn in each.turns}
    assert len(keys) == 1 or keys == {
        job: (turns[job].minus_priority, -score.total) for job, score in scores.items()
    }
    taken = list(scores)  # in the order in which they were charged
    assert taken == sorted(taken, key=lambda job: (keys[job], turns[job]))


@given(USAGE, SHARES, st.sets(st.sampled_from(OWNERS), min_size=1))
def test_the_parts_of_those_with_jobs_are_the_whole_cluster(
    used: dict[Owner, float], shares: Shares, active: set[Owner]
) -> None:
    tree = ShareTree(shares, used, active, least=1.0)
    found = [tree.of(owner) for owner in active]
    projects = [tree.of_project(name) for name in {project for _, project in active} - {""}]
    alone = [each for each in found if not each.project]
    assert sum(each.part for each in (*projects, *alone)) in (0, pytest.approx(1.0))
    for project in projects:
        members = [each for each in found if each.project == project.project]
        assert sum(each.part for each in members) in (0, pytest.approx(project.part))
    assert all(0 <= each.factor <= 1 for each in (*found, *projects))


@given(USAGE, SHARES, st.permutations(OWNERS), st.integers(1, len(OWNERS)))
def test_shares_do_not_depend_on_the_order_in_which_those_with_jobs_are_found(
    used: dict[Owner, float], shares: Shares, owners: list[Owner], count: int
) -> None:
    found = owners[:count]
    one, other = (ShareTree(shares, used, active, least=1.0) for active in (found, sorted(found)))
    assert [one.of(owner) for owner in OWNERS] == [other.of(owner) for owner in OWNERS]  # to the last digit


def shared(used: dict[Owner, float], shares: Shares = EQUAL) -> dict[Owner, FairShare]:
    tree = ShareTree(shares, used, used.keys(), least=1.0)
    return {owner: tree.of(owner) for owner in tree.owners()}


def test_who_has_used_nothing_has_the_factor_one_and_who_has_used_its_share_one_half() -> None:
    found = shared({("ann", ""): 300.0, ("bob", ""): 100.0, ("eve", ""): 0.0}, Shares({"ann": 3}))
    assert [round(each.factor, 6) for each in found.values()] == [round(2**-1.25, 6), round(2**-1.25, 6), 1.0]
    half = shared({("ann", "chem"): 200.0, ("bob", ""): 100.0}, Shares({}, {"chem": 2}))
    assert {each.factor for each in half.values()} == {0.5}


def test_new_users_do_not_help_a_project_that_has_used_more_than_its_share() -> None:
    found = shared({("ann", "chem"): 900.0, ("new", "chem"): 0.0, ("bob", "bio"): 300.0})
    assert found["new", "chem"].factor < found["bob", "bio"].factor
    assert found["new", "chem"].factor > found["ann", "chem"].factor


def test_what_users_without_jobs_leave_is_shared_in_the_same_ratio() -> None:
    tree = ShareTree(
        Shares({}, {"chem": 2, "bio": 1, "away": 7}),
        {("ann", "chem"): 100.0, ("bob", "bio"): 50.0, ("eve", "away"): 1e9},
        {("ann", "chem"), ("bob", "bio")},
        least=1.0,
    )
    assert tree.of(("ann", "chem")).part == pytest.approx(2 / 3)
    assert tree.of(("ann", "chem")).factor == tree.of(("bob", "bio")).factor == 0.5
    assert tree.of(("eve", "away")).part == pytest.approx(0.7), "as if it had jobs"


COUNTED = read_usage_weights("processors=0.5,memory-gb=1,gpus=2,gpus:big=10")
COSTLY = [node("a", 4, gpus=4, memory=8192, features=("Big",)), node("b", 4, gpus=4, memory=4096)]  # 50 + 14


def test_running_jobs_are_charged_with_the_weights_of_what_they_hold_of_their_nodes() -> None:
    held = {
        ("ann", ""): (on_gpus(2), "a", 2, 1.0 + 20.0),
        ("bob", ""): (on_gpus(2), "b", 2, 1.0 + 4.0),
        ("eve", ""): (asks(2, memory=512), "b", 2, 1.0 + 1.0),
    }
    running = [
        replace(runs(at, request, (on, size), minutes_left=30), owner=owner[0])
        for at, (owner, (request, on, size, _)) in enumerate(held.items(), start=1)
    ]
    tree = share_tree(EQUAL, scene(COSTLY, running), COUNTED, charged=True)
    assert {owner: tree.of(owner).used / 1800 for owner in held} == {
        owner: pytest.approx(rate) for owner, (*_, rate) in held.items()
    }


@pytest.mark.parametrize(
    ("request_of", "rate"),
    [
        (on_gpus(2, minutes=60), 1.0 + 4.0),
        (on_gpus(2, minutes=60, needs=NodeNeeds(features=(("big",),))), 1.0 + 20.0),
        (asks(2, minutes=60, memory=1024), 1.0 + 2.0),
        (asks(4, minutes=60, exclusive=True), (50.0 + 14.0) / 2),
    ],
)
def test_a_queued_job_is_charged_with_the_weights_of_what_it_asks_for(
    request_of: JobRequest, rate: float
) -> None:
    """With one user, an hour of the whole cluster is its share: the second job shows what the first costs."""
    queue = [WaitingClass(request_of, [turn_of(1), turn_of(2)], "ann")]
    view = replace(scene(COSTLY), queue=queue, waiting_since={})
    order = WeightedOrder({PriorityFactor.FAIR_SHARE: 1000}, EQUAL, Seconds(3600.0), COUNTED)
    scores = order.scores(view)
    assert scores[JobId(2)].fair_share == pytest.approx(1000 * 2 ** -(rate / 64))


@pytest.mark.parametrize("weights", ["fair-share", "age", "size"])
def test_the_order_keeps_the_promises_of_policies(weights: str) -> None:
    order = WeightedOrder({PriorityFactor(weights): 1000, PriorityFactor.AGE: 10}, Shares(), Seconds(3600.0))
    check_policy(OrderedPolicy(order.keys, POLICIES["easy"]), FAIR, effort=QUICK._replace(every=200))


@pytest.mark.parametrize("users", [2, 1000])
def test_each_job_is_charged_once_however_many_users_its_project_has(users: int) -> None:
    order = WeightedOrder({PriorityFactor.FAIR_SHARE: 1000}, Shares(), Seconds(3600.0))
    jobs, charged = 4000, 0
    queue = [
        WaitingClass(
            asks(1, minutes=5), [turn_of(at) for at in range(user + 1, jobs + 1, users)], str(user), "p"
        )
        for user in range(users)
    ]
    view = replace(scene([node("a", 4)]), queue=queue)

    def seen(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal charged
        charged += event == "call" and frame.f_code is FACTOR.__code__

    sys.setprofile(seen)
    try:
        keys = order.keys(view)
    finally:
        sys.setprofile(None)
    assert len(keys) == jobs
    assert charged <= 2 * jobs + users + 1
