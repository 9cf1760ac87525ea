"""Policies that order the queue: by usage in the example, and what everything else makes of such an order."""

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from headnode.adapters.clock import VirtualClock
from headnode.core.model.errors import HeadnodeError
from headnode.core.model.job import JobSpec
from headnode.core.model.node import NodeFacts
from headnode.core.model.priority_factors import queue_position
from headnode.core.model.quantities import Instant, JobId, Priority, Seconds, SortKey
from headnode.core.model.task import TaskSpec
from headnode.core.model.user import User
from headnode.core.scheduling.plan import Why
from headnode.core.scheduling.policies import POLICIES, OrderedPolicy, Policy
from headnode.core.scheduling.view import View, WaitingClass, first_ahead
from headnode.core.state.command import Command
from headnode.core.state.events import Event
from headnode.core.state.invariants import check_cluster
from headnode.core.state.job_events import JobCreated
from headnode.core.state.join import RegisterNode
from headnode.core.state.nodes import SetParameter
from headnode.core.state.submit import CreateJob
from headnode.core.state.transitions import JobState
from headnode.engine.engine import Engine
from headnode.engine.policy_registry import PolicyRegistry
from journal_model import ModelJournal
from testbed.in_process import InProcessNodes

EXAMPLE = Path(__file__).parents[2] / "examples" / "policy" / "src" / "fair_share.py"
ROOT = User(name="root", uid=0, gid=0, administrator=True)
ANN, BOB, EVE = (User(name=name, uid=1000 + at, gid=1000) for at, name in enumerate(("ann", "bob", "eve")))
MINUTE = 60.0


class Cluster:
    """A head with one node, on which each task runs for a minute."""

    def __init__(self, processors: int, policy: Policy, **parameters: str) -> None:
        self.clock, self.journal, self.nodes = VirtualClock(Instant(1e6)), ModelJournal(), InProcessNodes()
        self.registry = PolicyRegistry({"tried": policy}, {}, self.clock)
        self.engine = Engine(self.journal, self.clock, self.registry, self.nodes)
        self.do(RegisterNode(facts=NodeFacts(name="a", processors=processors), approved=True))
        for name, value in {"SchedulingPolicy": "tried", **parameters}.items():
            self.do(SetParameter(by=ROOT, name=name, value=value))

    def do(self, *commands: Command) -> tuple[Event, ...]:
        answer = self.engine.handle(commands)[-1]
        check_cluster(self.engine.cluster)
        if isinstance(answer, HeadnodeError):
            raise answer
        return answer

    def submit(self, by: User, *, processors: int = 1, **options: object) -> JobId:
        task = TaskSpec(command="x", minimum=processors, maximum=processors)
        spec = JobSpec(tasks=(task,), minimum=processors, maximum=processors, **options)
        events = self.do(CreateJob(by=by, spec=spec, submit=True))
        return next(event.job for event in events if isinstance(event, JobCreated))

    def minute(self) -> Counter[str]:
        """Let a minute go by, at the end of which all that runs ends; return the processors by owner."""
        self.clock.advance(Seconds(MINUTE))
        running, jobs = list(self.nodes.running()), self.engine.cluster.jobs
        held = Counter(jobs[each.job].owner for each in running)
        reports = [self.nodes.ended(each, self.clock.now()) for each in running]
        self.engine.tick()
        if reports:
            self.do(*reports)
        return held

    def state(self, job: JobId) -> JobState:
        return self.engine.cluster.jobs[job].state

    def view(self) -> View:
        return self.engine.view(self.clock.now())

    def restart(self) -> None:
        self.engine = Engine(self.journal, self.clock, self.registry, self.nodes)


def fair_share(**shares: float) -> Policy:
    """Return the policy of the example, with these shares of owners."""
    names: dict[str, object] = {"__name__": "fair_share"}
    exec(compile(EXAMPLE.read_text(), EXAMPLE.name, "exec"), names)
    names["SHARES"] = shares
    policy = names["plan"]
    assert isinstance(policy, OrderedPolicy)
    return policy


def sweep(cluster: Cluster, by: User, jobs: int) -> None:
    for _ in range(jobs):
        cluster.submit(by, run_time=Seconds(2 * MINUTE))


def minutes(cluster: Cluster, count: int) -> Counter[str]:
    """Return the processor-minutes of each owner."""
    return sum((cluster.minute() for _ in range(count)), Counter())


def test_the_owner_who_has_used_less_catches_up_and_then_both_have_the_same() -> None:
    cluster = Cluster(4, fair_share())
    sweep(cluster, ANN, 150)
    assert minutes(cluster, 10) == {"ann": 40}, "nobody else wants anything"
    sweep(cluster, BOB, 150)
    cluster.minute()  # what runs is not stopped
    assert minutes(cluster, 10)["bob"] >= 36
    both = minutes(cluster, 20)
    assert abs(both["ann"] - both["bob"]) <= 4
    usage = cluster.engine.cluster.usage.used(cluster.clock.now())
    assert usage["ann", ""] == pytest.approx(usage["bob", ""], rel=0.1)


def test_under_easy_backfill_the_same_owner_waits_for_all_jobs_that_came_before() -> None:
    cluster = Cluster(4, POLICIES["easy"])
    sweep(cluster, ANN, 100)
    sweep(cluster, BOB, 100)
    assert minutes(cluster, 20) == {"ann": 80}


def test_a_larger_share_gives_as_many_times_more() -> None:
    cluster = Cluster(3, fair_share(ann=2.0))
    for by in (BOB, ANN, EVE):
        sweep(cluster, by, 130)
    had = minutes(cluster, 60)
    assert sum(had.values()) == 180
    assert had["ann"] == pytest.approx(90, abs=5)
    assert had["bob"] == pytest.approx(had["eve"], abs=4)


def test_the_first_waiting_job_is_not_said_to_wait_for_itself_if_another_owner_requests_the_same() -> None:
    cluster = Cluster(2, fair_share())
    for owner in (ANN, ANN, BOB):
        last = cluster.submit(owner, processors=2)
    plan = cluster.engine.last_plan
    assert plan is not None
    assert [each.job for each in plan.reservations] == [last]
    (wait,) = plan.waits.values()
    assert [reason.why for reason in wait.reasons] == [Why.PROCESSORS]


def test_priority_goes_before_usage() -> None:
    cluster = Cluster(1, fair_share())
    sweep(cluster, ANN, 30)
    minutes(cluster, 5)
    low = cluster.submit(BOB, priority=Priority(1000))
    assert minutes(cluster, 10) == {"ann": 10}
    assert cluster.state(low) is JobState.QUEUED


def test_usage_counts_half_after_the_half_life() -> None:
    cluster = Cluster(1, fair_share(), UsageHalfLife="60")
    sweep(cluster, ANN, 30)
    minutes(cluster, 20)
    sweep(cluster, BOB, 30)
    caught_up = minutes(cluster, 6)
    assert caught_up["ann"] >= 2, "twenty minutes are nearly forgotten"


def turns(cluster: Cluster, *, restarts: bool) -> list[Counter[str]]:
    """Return who has processors in each minute; a head may be started anew in each of the last twelve."""
    sweep(cluster, ANN, 30)
    seen = [cluster.minute() for _ in range(5)]
    sweep(cluster, BOB, 30)
    for number in range(12):
        if restarts:
            cluster.engine.snapshot_if_due(1 if number == 6 else 10**6)
            cluster.restart()
        seen.append(cluster.minute())
    return seen


def test_a_restart_changes_no_turn() -> None:
    assert turns(Cluster(2, fair_share()), restarts=True) == turns(Cluster(2, fair_share()), restarts=False)


def test_the_view_names_owners_and_divides_classes_only_for_a_policy_that_orders_the_queue() -> None:
    for policy, classes in ((POLICIES["easy"], [("", 4)]), (fair_share(), [("ann", 2), ("bob", 2)])):
        cluster = Cluster(1, policy)
        running = cluster.submit(EVE, project="mesh")
        for by in (ANN, BOB, ANN, BOB):
            cluster.submit(by)
        view = cluster.view()
        assert sorted((each.owner, len(each.turns)) for each in view.queue) == classes
        assert [(job.job, job.owner, job.project) for job in view.running] == [(running, "eve", "mesh")]
        assert (("eve", "mesh") in view.usage) == (len(classes) == 2)


def test_explanations_count_the_jobs_ahead_in_the_order_of_the_policy() -> None:
    cluster = Cluster(1, fair_share())
    sweep(cluster, ANN, 20)
    minutes(cluster, 3)
    job = cluster.submit(BOB, run_time=Seconds(MINUTE))
    record = cluster.engine.cluster.jobs[job]
    view = cluster.view()
    position = view.position(record.turn)
    assert first_ahead(view, position, 5) == ([], 0)
    new = WaitingClass(view.queue[0].request, (queue_position(2000, 99, 99),), "bob", "")
    asked = cluster.engine.view(cluster.clock.now(), new)
    ahead, count = first_ahead(asked, asked.position(new.turns[0]), 5)
    assert ([turn.job for turn in ahead], count) == ([job], 1), "one that is not submitted yet, too"


def newest_first(view: View) -> dict[JobId, SortKey]:
    """Return keys that are others in each pass, as those of usage are."""
    return {turn.job: -turn.job * view.now for each in view.queue for turn in each.turns}


@pytest.mark.parametrize(
    ("policy", "starts"), [("conservative", (2, 4, 6)), ("conservative-replan", (6, 4, 2))]
)
def test_reservations_are_of_jobs_and_are_kept_though_the_order_changes(
    policy: str, starts: tuple[int, ...]
) -> None:
    cluster = Cluster(2, OrderedPolicy(newest_first, POLICIES[policy]))
    two = {"processors": 2, "run_time": Seconds(2 * MINUTE)}
    cluster.submit(ANN, **two)
    jobs = []
    for _ in starts:
        jobs.append(cluster.submit(ANN, **two))
        cluster.clock.advance(Seconds(1.0))
    plan = cluster.engine.plan(cluster.clock.now())
    due = {each.job: each.at for each in plan.reservations}
    assert [(due[job] - 1e6) / MINUTE for job in jobs] == [pytest.approx(at, abs=0.1) for at in starts]


def no_keys(_view: View) -> dict[JobId, SortKey]:
    return {}


def mixed_keys(view: View) -> dict[JobId, SortKey]:
    jobs = [turn.job for each in view.queue for turn in each.turns]
    return {job: (1.0,) if at % 2 else 1.0 for at, job in enumerate(jobs)}


def strange_keys(view: View) -> dict[JobId, SortKey]:
    return {turn.job: float("nan") for each in view.queue for turn in each.turns}


def fails(_view: View) -> dict[JobId, SortKey]:
    raise RuntimeError("no shares today")


@pytest.mark.parametrize(
    ("order", "text"),
    [
        (no_keys, "BadOrder: its order has no key for job 2"),
        (mixed_keys, "the key 1.0; it must be a tuple of numbers, as other jobs have"),
        (strange_keys, "the key nan; it must be a number or a tuple of numbers"),
        (fails, "RuntimeError: no shares today"),
    ],
)
def test_the_default_policy_plans_when_an_order_fails_and_the_failure_is_reported(
    order: Callable[[View], Mapping[JobId, SortKey]], text: str
) -> None:
    cluster = Cluster(1, OrderedPolicy(order, POLICIES["fcfs"]))
    first = cluster.submit(ANN)
    second, third = cluster.submit(ANN), cluster.submit(BOB)
    assert text in cluster.registry.trouble("tried")
    cluster.minute()
    assert first not in cluster.engine.cluster.jobs
    assert (cluster.state(second), cluster.state(third)) == (JobState.RUNNING, JobState.QUEUED)
