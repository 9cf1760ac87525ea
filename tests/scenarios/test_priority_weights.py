"""Weights order the jobs of one priority by fair share, age and size: what then runs, and in which turn."""

from collections import Counter

import msgspec
import pytest
from msgspec.structs import replace
from test_fair_share_policy import (
    ANN,
    BOB,
    EVE,
    MINUTE,
    ROOT,
    Cluster,
    fair_share,
    minutes,
    newest_first,
    sweep,
    turns,
)

from headnode.core.model.errors import WrongState
from headnode.core.model.job import UnitType
from headnode.core.model.node import NodeFacts
from headnode.core.model.priority_factors import WEIGHTS_PARAMETER
from headnode.core.model.quantities import Instant, Priority, Seconds
from headnode.core.model.user import User
from headnode.core.scheduling.policies import POLICIES, OrderedPolicy
from headnode.core.state.join import RegisterNode
from headnode.core.state.nodes import SetParameter
from headnode.core.state.transitions import JobState
from headnode.engine.policy_registry import check_one_order, order_in_use
from headnode.engine.prediction import REPLAYS, PredictionInput, look_ahead

FAIR = {"PriorityWeights": "fair-share=1000"}


def weighted(processors: int, policy: str = "easy", **parameters: str) -> Cluster:
    return Cluster(processors, POLICIES[policy], **parameters)


def sweep_of(cluster: Cluster, by: User, jobs: int, project: str) -> None:
    for _ in range(jobs):
        cluster.submit(by, run_time=Seconds(2 * MINUTE), project=project)


@pytest.mark.parametrize("policy", sorted({*POLICIES} - {"conservative"}))
def test_the_user_who_has_used_less_catches_up_and_then_both_have_the_same(policy: str) -> None:
    cluster = weighted(4, policy, **FAIR)
    sweep(cluster, ANN, 150)
    assert minutes(cluster, 10) == {"ann": 40}, "nobody else wants anything"
    sweep(cluster, BOB, 150)
    cluster.minute()  # what runs is not stopped
    assert minutes(cluster, 9)["bob"] >= 34
    both = minutes(cluster, 20)
    assert abs(both["ann"] - both["bob"]) <= 6


def test_a_job_keeps_the_reservation_of_conservative_backfill_though_another_user_has_used_less() -> None:
    cluster = weighted(4, "conservative", **FAIR, SchedulingDepth="20")
    sweep(cluster, ANN, 150)
    minutes(cluster, 10)
    sweep(cluster, BOB, 150)
    assert minutes(cluster, 6)["ann"] == 24, "four jobs run, and twenty have reservations"
    assert minutes(cluster, 5)["bob"] == 20


def test_users_take_turns_within_one_pass_also_on_a_new_cluster() -> None:
    cluster = weighted(4, **FAIR)
    cluster.submit(EVE, processors=4, run_time=Seconds(MINUTE))
    for by in (ANN, BOB):
        sweep(cluster, by, 8)
    assert minutes(cluster, 1) == {"eve": 1}, "which has all four processors"
    assert [cluster.minute() for _ in range(3)] == [{"ann": 2, "bob": 2}] * 3


def test_a_larger_share_gives_as_many_times_more() -> None:
    cluster = weighted(3, **FAIR, UserShares="ann:2")
    for by in (BOB, ANN, EVE):
        sweep(cluster, by, 130)
    had = minutes(cluster, 60)
    assert had["ann"] == pytest.approx(90, abs=6)
    assert had["bob"] == pytest.approx(had["eve"], abs=6)


def test_projects_share_the_cluster_and_users_share_what_their_project_gets() -> None:
    cluster = weighted(4, **FAIR, ProjectShares="chem:3", UserShares="chem/bob:2")
    for by, project in ((ANN, "chem"), (BOB, "chem"), (EVE, "bio")):
        sweep_of(cluster, by, 250, project)
    had = minutes(cluster, 80)
    assert had["ann"] + had["bob"] == pytest.approx(240, abs=14)
    assert had["eve"] == pytest.approx(80, abs=14)
    assert had["bob"] == pytest.approx(2 * had["ann"], rel=0.2)


def test_a_user_without_a_share_runs_when_no_other_job_waits() -> None:
    cluster = weighted(1, **FAIR, UserShares="eve:0")
    sweep(cluster, EVE, 3)
    sweep(cluster, ANN, 3)
    assert [list(cluster.minute()) for _ in range(6)] == [["eve"], *[["ann"]] * 3, *[["eve"]] * 2]


@pytest.mark.parametrize("shares", [{"UserShares": "chem/eve:0"}, {"ProjectShares": "chem:0"}])
def test_no_share_is_nothing_also_in_a_project_that_has_used_little(shares: dict[str, str]) -> None:
    cluster = weighted(1, **FAIR, **shares)
    sweep_of(cluster, BOB, 9, "bio")
    minutes(cluster, 3)
    sweep_of(cluster, EVE, 3, "chem")
    cluster.minute()
    assert [list(cluster.minute()) for _ in range(8)] == [*[["bob"]] * 5, *[["eve"]] * 3]


def test_priority_goes_before_every_weight() -> None:
    cluster = weighted(1, PriorityWeights="fair-share=1000000,age=1000000,size=1000000")
    sweep(cluster, ANN, 30)
    minutes(cluster, 5)
    low = cluster.submit(BOB, priority=Priority(1000))
    assert minutes(cluster, 10) == {"ann": 10}
    assert cluster.state(low) is JobState.QUEUED


def test_age_grows_until_a_job_goes_before_those_of_a_user_with_less_usage() -> None:
    kept = Counter[str]()
    for weights in ("fair-share=1000", "fair-share=1000,age=100000"):
        cluster = weighted(1, PriorityWeights=weights, PriorityMaxAge="3600")
        sweep(cluster, ANN, 40)
        minutes(cluster, 20)
        sweep(cluster, BOB, 40)
        cluster.minute()
        kept[weights] = minutes(cluster, 5)["ann"]
    assert kept == {"fair-share=1000": 0, "fair-share=1000,age=100000": 5}


@pytest.mark.parametrize(("weight", "first"), [(100, 3), (-100, 1), (0, 2)])
def test_the_weight_of_the_size_lets_large_jobs_go_first_or_small_ones(weight: int, first: int) -> None:
    cluster = weighted(4, "fcfs", PriorityWeights=f"size={weight}")
    cluster.submit(EVE, processors=4)
    jobs = {size: cluster.submit(ANN, processors=size) for size in (2, 1, 3)}
    cluster.minute()
    assert cluster.state(jobs[first]) is JobState.RUNNING
    assert order_in_use(cluster.registry, cluster.engine.settings) is not None or not weight


def test_the_scores_of_jobs_add_up_to_their_turns() -> None:
    cluster = weighted(2, PriorityWeights="fair-share=1000,age=300,size=-20", PriorityMaxAge="600")
    for by, processors in ((ANN, 2), (ANN, 1), (BOB, 2), (BOB, 1), (EVE, 1)):
        cluster.submit(by, processors=processors, run_time=Seconds(600.0))
        cluster.clock.advance(Seconds(90.0))
    view = cluster.view()
    order = order_in_use(cluster.registry, cluster.engine.settings)
    assert order is not None
    scores = order.scores(view)
    turns = sorted(turn for each in view.queue for turn in each.turns)
    totals = [scores[turn.job].total for turn in turns]
    assert len(totals) == 4
    assert totals == sorted(totals, reverse=True)
    assert all(0 <= each.fair_share <= 1000 and 0 <= each.age <= 300 for each in scores.values())
    assert {each.size for each in scores.values()} == {-20.0, -10.0}


def test_the_queue_is_put_in_order_again_though_nothing_happens() -> None:
    cluster = weighted(2, "fcfs", PriorityWeights="fair-share=1000,age=3000", PriorityMaxAge="36000")
    cluster.submit(EVE, processors=1)  # runs on and on
    cluster.submit(EVE, processors=2, run_time=Seconds(MINUTE))
    cluster.submit(EVE, processors=2, run_time=Seconds(MINUTE))
    wake = cluster.engine.next_wake()
    assert wake is not None
    assert wake - cluster.clock.now() == pytest.approx(300.0, abs=1.0)
    made = cluster.engine.last_plan
    cluster.clock.advance(Seconds(301.0))
    cluster.engine.tick()
    assert cluster.engine.last_plan is not made


@pytest.mark.parametrize(("weight", "first"), [("", "ann"), ("gpus=8", "bob"), ("gpus=0,gpus:big=8", "bob")])
def test_a_user_of_gpus_has_used_more_if_gpus_have_a_weight(weight: str, first: str) -> None:
    cluster = weighted(4, PriorityWeights="fair-share=1000", UsageWeights=weight)
    cluster.do(
        RegisterNode(facts=NodeFacts(name="g", processors=4, gpus=4, features=("Big",)), approved=True)
    )
    gpus = {"unit": UnitType.GPU, "processors_per_gpu": 1}
    cluster.submit(ANN, processors=2, **gpus)
    cluster.submit(BOB, processors=3)
    minutes(cluster, 1)
    cluster.submit(EVE, processors=8, run_time=Seconds(MINUTE))
    jobs = {name: cluster.submit(by, processors=8) for name, by in (("ann", ANN), ("bob", BOB))}
    if first == "bob":
        jobs = dict(reversed(jobs.items()))
    minutes(cluster, 1)
    assert [name for name, job in jobs.items() if cluster.state(job) is JobState.RUNNING] == [first]


def test_a_restart_changes_no_turn() -> None:
    plain, restarted = (
        turns(weighted(2, PriorityWeights="fair-share=1000,age=10", UserShares="bob:3"), restarts=restarts)
        for restarts in (False, True)
    )
    assert plain == restarted


def test_weights_beside_a_policy_with_an_order_of_its_own_are_refused() -> None:
    cluster = Cluster(1, OrderedPolicy(newest_first, POLICIES["easy"]))
    check_one_order(cluster.registry, cluster.engine.settings)
    cluster.do(SetParameter(by=ROOT, name=WEIGHTS_PARAMETER, value="age=1"))
    with pytest.raises(WrongState, match="orders the queue itself"):
        check_one_order(cluster.registry, cluster.engine.settings)
    assert order_in_use(cluster.registry, cluster.engine.settings) is None, "the plug-in goes on"


def test_without_weights_a_view_has_no_owners() -> None:
    for weights, named in (("", {""}), ("fair-share=0", {""}), ("age=1", {"ann"})):
        cluster = weighted(1, PriorityWeights=weights)
        sweep(cluster, ANN, 3)
        assert {each.owner for each in cluster.view().queue} == named


def test_the_example_of_policy_authors_and_the_weights_share_alike() -> None:
    had = []
    for cluster in (Cluster(3, fair_share(ann=2.0)), weighted(3, **FAIR, UserShares="ann:2")):
        for by in (BOB, ANN, EVE):
            sweep(cluster, by, 90)
        had.append(minutes(cluster, 40))
    for user in ("ann", "bob", "eve"):
        assert had[0][user] == pytest.approx(had[1][user], abs=8)


def test_predicted_starts_follow_the_scores_also_in_a_process_of_their_own() -> None:
    cluster = weighted(2, PriorityWeights="fair-share=1000")
    first = cluster.submit(ANN, processors=2, run_time=Seconds(MINUTE))
    of_ann = cluster.submit(ANN, processors=2, run_time=Seconds(MINUTE))
    of_bob = cluster.submit(BOB, processors=2, run_time=Seconds(MINUTE))
    view = replace(cluster.view(), ground=None, before=None)
    lasts = {job: [Seconds(MINUTE)] * REPLAYS for job in (of_ann, of_bob)}
    ends = {first: [Instant(view.now + MINUTE)] * REPLAYS}
    situation = PredictionInput(view, "easy", {}, ends, lasts)
    sent = msgspec.msgpack.decode(msgspec.msgpack.encode(situation), type=PredictionInput)
    foreseen = look_ahead(sent, POLICIES[sent.policy], lambda: False).foreseen
    assert [foreseen[job].middle for job in (of_bob, of_ann)] == [pytest.approx(60.0), pytest.approx(120.0)]
