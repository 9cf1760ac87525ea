"""Nodes that close, at once or at a date: who may say so, what still starts there, what opens them again."""

from itertools import product

import pytest
from worlds import ADA, ROOT, World

from headnode.core.model.errors import BadRequest, NotAllowed, NotFound, Refused, WrongState
from headnode.core.model.node import NodeFacts, NodeState
from headnode.core.model.quantities import NEVER, Instant, JobId, Seconds
from headnode.core.model.task import TaskSpec
from headnode.core.scheduling.plan import Why
from headnode.core.state import events as e
from headnode.core.state.command import Command
from headnode.core.state.drain import DrainNode, ReportHealth
from headnode.core.state.join import RegisterNode
from headnode.core.state.node_loss import GiveUpNode
from headnode.core.state.node_record import MAX_REASON
from headnode.core.state.nodes import ChangeNode, NodeVanished
from headnode.core.state.start import GrowJob, StartJob
from headnode.core.state.suspend import ReportSuspended, ResumeJob, SuspendJob
from headnode.core.state.transitions import JobState

TASK = TaskSpec(command="x")


def drain(
    world: World, after: float | None = None, reason: str = "", node: str = "node1"
) -> tuple[e.Event, ...]:
    """Let a node close after so many seconds."""
    closes = None if after is None else Instant(world.clock.now() + after)
    return world.do(DrainNode(by=ROOT, node=node, closes=closes, reason=reason))


def resume(world: World) -> None:
    world.do(ChangeNode(by=ROOT, node="node1", action="resume"))


def lasting(world: World, seconds: float) -> JobId:
    return world.submit(TASK, by=ADA, run_time=Seconds(seconds))


def state(world: World, job: JobId) -> JobState:
    return world.record(job).state


def reasons(world: World, job: JobId) -> list[str]:
    plan = world.engine.last_plan
    assert plan is not None
    return [each.text for each in plan.waits[world.cluster.request(world.record(job))].reasons]


def test_a_drained_node_is_not_called_approved_and_the_refusal_says_how_to_open_it() -> None:
    world = World(1)
    drain(world, after=100)
    assert world.do(ChangeNode(by=ROOT, node="node1", action="approve")) == ()  # it still takes jobs
    drain(world)
    with pytest.raises(WrongState, match="node 'node1' is drained; it was approved before") as refused:
        world.do(ChangeNode(by=ROOT, node="node1", action="approve"))
    assert refused.value.fix == "make it accept jobs again: hn node resume node1"


def test_a_drained_node_takes_no_new_jobs_says_why_and_runs_what_it_has_to_the_end() -> None:
    world = World(2)
    runs = world.submit(TASK, TASK, minimum=1, maximum=1)
    drain(world, reason="new memory")
    waits = world.submit(TASK)
    assert reasons(world, waits)[-1] == "node 'node1' accepts no new jobs: drained by root: new memory"
    world.end(runs, 1)
    assert world.dispatched(runs) == [(2, 1)]
    world.end(runs, 2)
    assert (state(world, runs), state(world, waits)) == (JobState.FINISHED, JobState.QUEUED)
    resume(world)
    assert state(world, waits) is JobState.RUNNING
    world.check_replay()


def test_of_a_node_that_is_paused_and_drained_the_drain_is_told_which_nobody_passes() -> None:
    world = World(1)
    world.do(ChangeNode(by=ROOT, node="node1", action="pause"))
    waits = world.submit(TASK, by=ADA)
    assert reasons(world, waits)[-1].endswith("paused, except for jobs of administrators")
    drain(world, reason="new memory")
    assert reasons(world, waits)[-1].endswith("drained by root: new memory")


def test_until_the_date_starts_what_is_over_by_then_and_nothing_after_it() -> None:
    world = World(4)
    drain(world, after=600)
    jobs = [lasting(world, seconds) for seconds in (600, 601, float("inf"))]
    assert [state(world, job) for job in jobs] == [JobState.RUNNING, JobState.QUEUED, JobState.QUEUED]
    assert "node 'node1' closes in 10m, and the job has no run time limit" in reasons(world, jobs[2])
    world.wait(599)
    assert state(world, lasting(world, 1)) is JobState.RUNNING
    world.wait(1)
    late = lasting(world, 1)
    assert state(world, late) is JobState.QUEUED
    assert "drained by root" in reasons(world, late)[-1]
    assert state(world, jobs[0]) is not JobState.QUEUED


def test_a_plan_made_before_the_node_was_to_close_is_refused() -> None:
    world = World(1)
    world.do(ChangeNode(by=ROOT, node="node1", action="pause"))
    long, short = lasting(world, 61), lasting(world, 60)
    world.do(
        ChangeNode(by=ROOT, node="node1", action="resume"),
        DrainNode(by=ROOT, node="node1", closes=at(world, 60)),
    )
    assert [state(world, job) for job in (long, short)] == [JobState.QUEUED, JobState.RUNNING]
    with pytest.raises(WrongState, match="closes before job 1 is certain to end"):
        world.do(StartJob(job=long, shares=(("node1", 1),)))


def at(world: World, seconds: float) -> Instant:
    return Instant(world.clock.now() + seconds)


def test_a_job_is_not_given_more_of_a_node_that_closes_before_its_limit() -> None:
    world = World(1, 1)
    drain(world, after=60, node="node2")
    job = world.submit(TASK, TASK, minimum=1, maximum=2, run_time=Seconds(61.0))
    assert world.dispatched(job) == [(1, 1)]
    with pytest.raises(WrongState, match="closes before"):
        world.do(GrowJob(job=job, shares=(("node2", 1),)))
    drain(world, after=62, node="node2")
    assert world.dispatched(job) == [(1, 1), (2, 1)]


def test_a_suspended_job_goes_on_only_if_it_is_over_when_its_node_closes() -> None:
    for left, goes in ((50, JobState.RUNNING), (51, JobState.RESUMING)):
        world = World(1)
        job = world.submit(TASK, run_time=Seconds(60.0), suspendable=True)
        world.wait(60 - left)
        world.do(SuspendJob(by=ROOT, job=job))
        world.do(ReportSuspended(node="node1", job=job, number=1))
        drain(world, after=50)
        world.do(ResumeJob(by=ROOT, job=job))
        assert state(world, job) is goes


def test_saying_it_twice_changes_nothing_and_another_date_or_reason_replaces_the_first() -> None:
    world = World(1)
    closes = at(world, 60)
    order = DrainNode(by=ROOT, node="node1", closes=closes)
    assert len(world.do(order)) == 1
    assert world.do(order) == ()
    assert len(drain(world, after=90, reason="disk")) == 1
    node = world.cluster.nodes["node1"]
    assert [(each.closes, each.reason) for each in node.drains] == [(at(world, 90), "disk")]
    assert len(drain(world)) == 1
    world.wait(5)
    assert drain(world) == ()
    assert node.closes == at(world, -5)


def test_a_date_that_is_over_a_long_reason_a_user_and_an_unknown_node_are_refused() -> None:
    world = World(1)
    for after in (0, -1, float("inf"), float("nan")):
        with pytest.raises(BadRequest, match="drain-date"):
            drain(world, after=after)
    with pytest.raises(BadRequest, match="drain-reason"):
        drain(world, reason="x" * (MAX_REASON + 1))
    with pytest.raises(NotAllowed):
        world.do(DrainNode(by=ADA, node="node1"))
    with pytest.raises(NotFound):
        drain(world, node="nobody")
    assert world.cluster.nodes["node1"].closes == NEVER


def test_what_a_health_check_closes_it_opens_again_but_not_what_an_administrator_closed() -> None:
    world = World(1)
    ill, well = (
        ReportHealth(node="node1", well=False, reason="no disk"),
        ReportHealth(node="node1", well=True),
    )
    assert world.do(well) == ()
    assert len(world.do(ill)) == 1
    assert world.do(ill) == ()
    waits = lasting(world, 60)
    assert (
        reasons(world, waits)[-1]
        == "node 'node1' accepts no new jobs: drained: its health check failed: no disk"
    )
    since = world.cluster.nodes["node1"].closes
    world.wait(5)
    worse = ReportHealth(node="node1", well=False, reason="no disk, no fan")
    assert len(world.do(worse)) == 1
    assert world.cluster.nodes["node1"].closes == since
    drain(world, reason="mine")
    world.do(well)
    assert [each.reason for each in world.cluster.nodes["node1"].drains] == ["mine"]
    world.do(ill)
    resume(world)
    assert (state(world, waits), world.cluster.nodes["node1"].drains) == (JobState.RUNNING, ())
    assert len(world.do(ill)) == 1
    assert world.do(ReportHealth(node="nobody", well=False)) == ()
    world.check_replay()


def test_a_long_output_of_a_health_check_is_cut() -> None:
    world = World(1)
    world.do(ReportHealth(node="node1", well=False, reason="x" * 9999))
    assert [len(each.reason) for each in world.cluster.nodes["node1"].drains] == [MAX_REASON]


def test_a_node_that_was_paused_and_drained_is_open_after_one_resume() -> None:
    world = World(1)
    world.do(ChangeNode(by=ROOT, node="node1", action="pause"))
    drain(world)
    resume(world)
    node = world.cluster.nodes["node1"]
    assert (node.state, node.closes) == (NodeState.READY, NEVER)


def test_a_drain_of_a_node_that_is_away_is_lifted_too() -> None:
    for way in to_states().values():
        world = World()
        for command in way:
            world.do(command)
        if world.cluster.nodes:
            drain(world, after=60)
            before = world.cluster.nodes["node1"].state
            resume(world)
            assert world.cluster.nodes["node1"].drains == ()
            assert (before in (NodeState.PAUSED, NodeState.LOST_PAUSED)) == (
                world.cluster.nodes["node1"].state is not before
            )


def test_of_two_causes_the_one_that_closes_first_counts() -> None:
    for first in (True, False):
        world = World(1)
        ill = ReportHealth(node="node1", well=False, reason="ill")
        later = DrainNode(by=ROOT, node="node1", closes=at(world, 60))
        for command in (ill, later) if first else (later, ill):
            world.do(command)
        job = lasting(world, 1)
        assert reasons(world, job)[-1].endswith("its health check failed: ill")


def test_a_drain_outlives_the_connection_and_a_restart() -> None:
    world = World(1)
    drain(world, after=60, reason="move")
    facts = world.cluster.nodes["node1"].facts
    world.do(NodeVanished(node="node1"))
    world.do(RegisterNode(facts=facts))
    assert [each.reason for each in world.replayed().nodes["node1"].drains] == ["move"]


def to_states() -> dict[NodeState | None, list[Command]]:
    """Return how a node gets into each of its states."""
    facts = NodeFacts(name="node1", processors=1)
    known: list[Command] = [RegisterNode(facts=facts, approved=True)]
    gone: list[Command] = [NodeVanished(node="node1")]
    paused: list[Command] = [ChangeNode(by=ROOT, node="node1", action="pause")]
    return {
        None: [],
        NodeState.PENDING: [RegisterNode(facts=facts)],
        NodeState.READY: known,
        NodeState.PAUSED: known + paused,
        NodeState.UNREACHABLE: known + gone,
        NodeState.LOST_PAUSED: known + paused + gone,
    }


def wishes() -> list[Command]:
    """Return everything that may happen to a node."""
    facts = NodeFacts(name="node1", processors=1)
    return [
        RegisterNode(facts=facts),
        NodeVanished(node="node1"),
        GiveUpNode(node="node1"),
        DrainNode(by=ROOT, node="node1"),
        DrainNode(by=ROOT, node="node1", closes=Instant(1_000_060.0)),
        ReportHealth(node="node1", well=False, reason="ill"),
        ReportHealth(node="node1", well=True),
        *(
            ChangeNode(by=ROOT, node="node1", action=wish)
            for wish in ("approve", "pause", "resume", "remove")
        ),
    ]


def test_in_every_state_everything_that_may_happen_twice_leaves_a_sound_node() -> None:
    """Each pair of wishes in each state: refused, or done; said again idle; a restart remembers.

    What takes jobs is never closed, and jobs run nowhere else.
    """
    for (state, way), first, second in product(to_states().items(), wishes(), wishes()):
        world = World()
        for command in (*way, first, second, second):
            try:
                events = world.do(command)
            except Refused:
                events = ()
        assert events == (), (state, first, second)
        job = lasting(world, 61)
        node = world.cluster.nodes.get("node1")
        takes = node is not None and node.state is NodeState.READY and node.closes == NEVER
        assert (world.record(job).state is JobState.RUNNING) == takes, (state, first, second)
        if not takes and node is not None:
            assert any(
                Why.NODE in {each.why for each in wait.reasons}
                for wait in world.engine.last_plan.waits.values()
            )
        world.check_replay()
