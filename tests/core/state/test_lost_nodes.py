"""A node that does not come back: what ran there, its jobs, and the node when it does come back."""

import pytest
from worlds import ADA, ROOT, World

from headnode.core.model.errors import NotFound
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import JobId
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.state import events as e
from headnode.core.state.join import RegisterNode
from headnode.core.state.modify import ModifyJob, RequeueJob
from headnode.core.state.node_loss import GiveUpNode
from headnode.core.state.nodes import ChangeNode, NodeVanished
from headnode.core.state.stop import RequeueTask, StopJob
from headnode.core.state.transitions import JobState

ONCE = TaskSpec(command="x")
AGAIN = TaskSpec(command="x", rerunnable=True)


def lose(world: World, node: str) -> tuple[e.Event, ...]:
    """Let a node vanish and be given up; what it had is gone."""
    world.do(NodeVanished(node=node))
    events = world.do(GiveUpNode(node=node))
    for held in world.nodes.running():
        if held.place[0][0] == node:
            world.nodes.ended(held, world.clock.now())
    return events


def back(world: World, node: str) -> None:
    world.do(RegisterNode(facts=world.cluster.nodes[node].facts))


def allocation(world: World, job: JobId) -> dict[str, tuple[int, ...]]:
    run = world.record(job).run
    assert run is not None
    return run.allocation


def test_a_node_that_can_be_reached_is_not_given_up_though_somebody_asked_too_late() -> None:
    world = World(1)
    job = world.submit(ONCE)
    facts = world.cluster.nodes["node1"].facts
    world.do(NodeVanished(node="node1"))
    world.do(RegisterNode(facts=facts), GiveUpNode(node="node1"))
    world.end(job, 1)
    assert world.record(job).state is JobState.FINISHED
    assert world.do(GiveUpNode(node="nobody")) == ()


def test_a_task_that_may_not_run_twice_fails_with_its_node_and_the_rest_of_the_job_runs() -> None:
    world = World(1, 1)
    job = world.submit(ONCE, ONCE, ONCE, minimum=1, maximum=2)
    lose(world, "node1")
    assert allocation(world, job) == {"node2": (0,)}
    world.end(job, 2)
    world.end(job, 3)
    record = world.record(job)
    assert record.run is not None
    message = "task 1 failed: node node1 was lost, and it is not rerunnable"
    assert (record.state, record.message, record.run.requeues) == (JobState.FAILED, message, 0)
    assert (
        world.journal.instance(job, 1, 1).outcome.message == "node node1 was lost, and it is not rerunnable"
    )


def test_a_job_that_has_lost_all_its_nodes_goes_back_to_the_queue_and_runs_when_they_are_back() -> None:
    world = World(1)
    job = world.submit(AGAIN, minimum=1, maximum=1)
    lose(world, "node1")
    assert world.record(job).state is JobState.QUEUED
    assert world.cluster.cores.holders["node1"] == set()
    back(world, "node1")
    assert [(held.instance, held.attempt) for held in world.nodes.running()] == [(1, 2)]
    world.end(job, 1)
    assert world.record(job).state is JobState.FINISHED
    world.check_replay()


def test_what_runs_on_other_nodes_of_a_job_that_became_too_small_is_left_to_end() -> None:
    world = World(1, 1)
    job = world.submit(AGAIN, ONCE, AGAIN, minimum=2, maximum=2)
    lose(world, "node1")
    record = world.record(job)
    assert (record.state, world.dispatched(job)) == (JobState.RUNNING, [(2, 1)])
    assert list(world.nodes.stopping()) == []
    world.end(job, 2)
    assert (record.state, record.message) == (JobState.QUEUED, "node node1 was lost")
    back(world, "node1")
    assert sorted(world.dispatched(job)) == [(1, 1), (3, 1)]


def test_what_failed_stays_failed_when_a_job_goes_back_to_the_queue() -> None:
    world = World(1, 1)
    job = world.submit(ONCE, AGAIN, AGAIN, minimum=2, maximum=2)
    lose(world, "node1")
    world.end(job, 2)
    back(world, "node1")
    assert world.dispatched(job) == [(3, 1)]
    assert world.journal.instance(job, 1, 1) is not None
    world.end(job, 3)
    assert world.record(job).state is JobState.FAILED


def test_a_job_of_which_nothing_is_left_to_run_ends_and_does_not_go_back() -> None:
    world = World(1)
    job = world.submit(ONCE)
    lose(world, "node1")
    assert world.record(job).state is JobState.FAILED


def test_a_job_that_needs_just_that_node_goes_back_to_the_queue_however_much_it_has_left() -> None:
    world = World(1, 1, 1)
    there = TaskSpec(command="x", rerunnable=True, required_nodes=("NODE2",))
    job = world.submit(there, AGAIN, minimum=1, maximum=3)
    assert len(allocation(world, job)) == 2
    lose(world, "node2")
    for held in world.nodes.running():
        world.end(job, held.task)
    assert world.record(job).state is JobState.QUEUED


def test_after_three_returns_to_the_queue_a_job_fails() -> None:
    world = World(1, 1)
    job = world.submit(*[AGAIN] * 9, minimum=2, maximum=2)
    for turn in range(4):
        assert world.record(job).state is JobState.RUNNING
        lose(world, "node1")
        world.end(job, world.dispatched(job)[0][0])
        if turn < 3:
            back(world, "node1")
    record = world.record(job)
    assert record.state is JobState.FAILED
    assert record.message == "node node1 was lost, after 3 returns to the queue"
    assert record.run is not None
    assert not any(progress.queued for progress in record.run.tasks)


def test_somebody_who_requeues_a_job_gives_it_all_its_returns_again() -> None:
    world = World(1, 1)
    job = world.submit(*[AGAIN] * 9, minimum=2, maximum=2)
    lose(world, "node1")
    world.end(job, 2)
    back(world, "node1")
    world.do(RequeueJob(by=ROOT, job=job))
    for task, instance in world.dispatched(job):
        world.end(job, task, instance, kind="stopped")
    run = world.record(job).run
    assert run is not None
    assert (run.auto_requeues, run.requeues) == (0, 2)


@pytest.mark.parametrize("outcome", ["canceled", "finished"])
def test_a_job_that_became_too_small_can_be_stopped(outcome: str) -> None:
    world = World(1, 1)
    job = world.submit(AGAIN, AGAIN, AGAIN, minimum=2, maximum=2)
    lose(world, "node1")
    world.do(StopJob(by=ROOT, job=job, outcome=outcome))
    world.end(job, 2, kind="stopped")
    assert world.record(job).state is JobState(outcome)


@pytest.mark.parametrize("outcome", ["canceled", "finished"])
def test_a_job_that_became_too_small_can_be_stopped_gracefully(outcome: str) -> None:
    world = World(1, 1)
    job = world.submit(AGAIN, AGAIN, AGAIN, minimum=2, maximum=2)
    lose(world, "node1")
    world.do(StopJob(by=ROOT, job=job, outcome=outcome, graceful=True))
    world.end(job, 2)
    assert world.record(job).state is JobState(outcome)


def test_a_job_that_became_too_small_still_takes_tasks_and_fails_when_a_critical_one_does() -> None:
    world = World(1, 1)
    critical = TaskSpec(command="x", fail_job_on_failure=True)
    job = world.submit(AGAIN, critical, minimum=2, maximum=2)
    lose(world, "node1")
    spec = JobSpec(tasks=(AGAIN, critical, AGAIN))
    world.do(ModifyJob(by=ROOT, job=job, spec=spec, fields=("tasks",)))
    world.end(job, 2, exit_code=1)
    assert world.record(job).state is JobState.FAILED


def test_a_parallel_task_that_only_reaches_into_the_lost_node_is_stopped_before_it_runs_again() -> None:
    world = World(1, 2)
    wide = TaskSpec(command="mpi", minimum=3, maximum=3, rerunnable=True)
    job = world.submit(wide, minimum=3, maximum=3)
    place = world.nodes.running()[0].place
    primary, other = place[0][0], place[1][0]
    lose(world, other)
    assert [held.instance for held in world.nodes.stopping()] == [1]
    lose(world, other)  # asking again changes nothing
    assert world.record(job).state is JobState.RUNNING
    world.end(job, 1, kind="stopped")
    assert world.record(job).state is JobState.QUEUED
    back(world, other)
    held = world.nodes.running()[0]
    assert (held.attempt, held.place[0][0]) == (2, primary)
    assert world.cluster.cores.free[other] == []
    world.check_replay()


def test_a_parallel_task_that_may_not_run_twice_fails_when_it_is_stopped_for_a_lost_node() -> None:
    world = World(1, 2)
    job = world.submit(TaskSpec(command="mpi", minimum=3, maximum=3), minimum=3, maximum=3)
    lose(world, world.nodes.running()[0].place[1][0])
    world.end(job, 1, kind="stopped")
    assert world.record(job).state is JobState.FAILED


def test_a_job_that_is_being_stopped_ends_with_its_lost_node() -> None:
    world = World(1)
    job = world.submit(AGAIN)
    world.do(StopJob(by=ROOT, job=job, outcome="canceled"))
    lose(world, "node1")
    assert world.record(job).state is JobState.CANCELED


def test_a_critical_task_on_a_lost_node_fails_its_job() -> None:
    world = World(1, 1)
    job = world.submit(TaskSpec(command="x", fail_job_on_failure=True), AGAIN, minimum=2, maximum=2)
    lose(world, "node1")
    world.end(job, 2, kind="stopped")
    record = world.record(job)
    message = f"task {job}.1 failed: node node1 was lost, and it is not rerunnable"
    assert (record.state, record.message) == (JobState.FAILED, message)


def test_losses_and_failures_of_the_program_are_forgiven_each_to_its_own_limit() -> None:
    world = World(1)
    job = world.submit(AGAIN, task_retry_limit=1)
    for kind in ("lost", "lost", "lost", "exited"):
        world.end(job, 1, kind=kind, exit_code=1)
    assert world.dispatched(job) == [(1, 1)]
    world.end(job, 1, exit_code=1)
    record = world.record(job)
    assert record.run is not None
    assert (record.state, record.run.tasks[0].attempts) == (JobState.FAILED, {1: 5})


def test_somebody_who_requeues_a_task_gives_it_all_its_retries_again() -> None:
    world = World(1)
    job = world.submit(AGAIN, ONCE, minimum=1, maximum=1)
    for _ in range(4):
        world.end(job, 1, kind="lost")
    world.do(RequeueTask(by=ROOT, job=job, task=1))
    world.end(job, 2)
    world.end(job, 1, kind="lost")
    assert world.dispatched(job) == [(1, 1)]


def test_a_lost_node_can_be_removed_once_it_is_given_up_and_comes_back_as_a_new_one() -> None:
    world = World(1)
    job = world.submit(AGAIN)
    lose(world, "node1")
    facts = world.cluster.nodes["node1"].facts
    world.do(ChangeNode(by=ROOT, node="node1", action="remove"))
    with pytest.raises(NotFound, match="no-such-node"):
        world.cluster.node("node1")
    world.do(RegisterNode(facts=facts, approved=True))
    assert world.dispatched(job) == [(1, 1)]


@pytest.mark.parametrize(
    ("kind", "state"), [("never-ran", "canceled"), ("lost", "failed"), ("exited", "failed")]
)
def test_nothing_is_left_queued_of_a_job_that_was_stopped_gracefully(kind: str, state: str) -> None:
    world = World(1)
    job = world.submit(AGAIN, AGAIN, minimum=1, maximum=1, task_retry_limit=1, by=ADA)
    if kind != "never-ran":
        world.do(world.nodes.started(world.nodes.running()[0], world.clock.now()))
    world.do(StopJob(by=ADA, job=job, outcome="canceled", graceful=True))
    world.end(job, 1, kind=kind, exit_code=1)
    record = world.record(job)
    assert record.run is not None
    assert record.state is JobState.CANCELED
    assert len(getattr(record.run.tasks[0], state)) == 1
    assert not any(progress.queued for progress in record.run.tasks)


def test_a_task_over_its_time_while_its_job_is_being_finished_fails_nothing() -> None:
    world = World(1)
    job = world.submit(TaskSpec(command="x", kind=TaskType.SWEEP, start=1, end=1))
    world.do(StopJob(by=ROOT, job=job, outcome="finished"))
    world.end(job, 1, kind="timed-out")
    record = world.record(job)
    assert record.run is not None
    assert len(record.run.tasks[0].finished) == 1


@pytest.mark.parametrize("lost", [False, True])
def test_a_job_that_was_stopped_gracefully_does_not_come_back_with_its_lost_node(lost: bool) -> None:
    world = World(1, 1)
    job = world.submit(AGAIN, AGAIN, AGAIN, minimum=2, maximum=2)
    world.do(StopJob(by=ROOT, job=job, outcome="canceled", message="enough", graceful=True))
    if lost:
        lose(world, "node1")
    else:
        world.end(job, 1)
    world.end(job, 2)
    record = world.record(job)
    assert (record.state, record.message) == (JobState.CANCELED, "enough")


def test_a_job_that_became_too_small_starts_nothing_new_while_it_waits_for_what_runs() -> None:
    world = World(1, 2)
    job = world.submit(*[AGAIN] * 6, minimum=3, maximum=3)
    lose(world, "node1")
    first, second = world.dispatched(job)
    world.end(job, *first)
    assert world.dispatched(job) == [second]
    world.end(job, *second)
    assert world.record(job).state is JobState.QUEUED
