"""A node that was started anew: what it ran is lost and says so, its jobs go on there."""

import msgspec
from worlds import ROOT, World

from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import JobId
from headnode.core.model.task import TaskSpec
from headnode.core.state.command import AttemptKey
from headnode.core.state.events import Event
from headnode.core.state.job_events import InstancesStopping, JobCreated
from headnode.core.state.join import RegisterNode
from headnode.core.state.stop import StopJob
from headnode.core.state.submit import CreateJob
from headnode.core.state.transitions import JobState

ONCE = TaskSpec(command="x")
AGAIN = TaskSpec(command="x", rerunnable=True)


def register(world: World, boot: str, node: str = "node1", *kept: AttemptKey) -> tuple[Event, ...]:
    """Let the node say hello, of this boot."""
    facts = msgspec.structs.replace(world.cluster.nodes[node].facts, boot_id=boot)
    return world.do(RegisterNode(facts=facts, kept=kept))


def booted(*processors: int) -> World:
    """Return a world whose nodes have said which boot they are."""
    world = World(*processors)
    for node in list(world.cluster.nodes):
        register(world, "one", node)
    return world


def start(world: World) -> None:
    for held in world.nodes.running():
        world.do(world.nodes.started(held, world.clock.now()))


def forget(world: World, node: str) -> None:
    """Let the machine run nothing any more."""
    for held in world.nodes.running():
        if held.place[0][0] == node:
            world.nodes.ended(held, world.clock.now())


def message(world: World, job: JobId, task: int, attempt: int = 1) -> str:
    found = world.journal.instance(job, task, attempt)
    assert found is not None
    return found.outcome.message


def test_rerunnable_tasks_run_again_there_and_others_fail_naming_the_reboot() -> None:
    world = booted(2)
    job = world.submit(AGAIN, ONCE)
    start(world)
    forget(world, "node1")
    register(world, "two")
    assert world.dispatched(job) == [(1, 1)]
    assert message(world, job, 2) == "node node1 rebooted, and it is not rerunnable"
    world.end(job, 1)
    assert world.record(job).state is JobState.FAILED
    world.check_replay()


def test_what_may_have_started_is_not_handed_over_a_second_time_as_if_it_had_not() -> None:
    """Whether it started is not known: the node had no power to say so."""
    world = booted(1)
    job = world.submit(ONCE)
    forget(world, "node1")
    register(world, "two")
    assert world.record(job).state is JobState.FAILED
    assert "rebooted" in message(world, job, 1)


def test_the_node_itself_tells_what_ended_before() -> None:
    world = booted(2)
    job = world.submit(ONCE, ONCE)
    start(world)
    register(world, "two", "node1", (job, 1, 1, 1))
    assert world.dispatched(job) == [
        (1, 1),
        (2, 1),
    ]  # what the second was is lost; nobody told the test's node
    world.end(job, 1)
    run = world.record(job).run
    assert run is not None
    assert [len(task.finished) for task in run.tasks] == [1, 0]
    assert "rebooted" in message(world, job, 2)


def test_the_same_boot_or_one_that_is_not_told_loses_nothing() -> None:
    for boot in ("one", ""):
        world = booted(1)
        job = world.submit(ONCE)
        register(world, boot)
        assert (world.record(job).state, world.dispatched(job)) == (JobState.RUNNING, [(1, 1)])
    world = World(1)
    job = world.submit(ONCE)
    register(world, "first")
    assert world.record(job).state is JobState.RUNNING


def test_the_fourth_loss_of_a_rerunnable_task_is_its_end() -> None:
    world = booted(1)
    job = world.submit(AGAIN)
    for number in range(4):
        assert world.dispatched(job) == [(1, 1)]
        start(world)
        forget(world, "node1")
        register(world, f"boot {number}")
    assert world.record(job).state is JobState.FAILED
    assert message(world, job, 1) == "node node1 rebooted, after 3 retries"


def test_a_parallel_task_that_reaches_into_the_node_is_stopped_elsewhere_and_runs_again() -> None:
    world = booted(1, 1)
    wide = msgspec.structs.replace(AGAIN, minimum=2, maximum=2)
    job = world.submit(wide, minimum=2, maximum=2)
    start(world)
    (held,) = world.nodes.running()
    first, other = (name for name, _ in held.place)
    events = register(world, "two", other)
    stops = [event for event in events if isinstance(event, InstancesStopping)]
    assert [(event.instances, event.message, event.cause) for event in stops] == [
        ((1,), f"node {other} rebooted", "system")
    ]
    world.end(job, 1, kind="stopped")
    assert [(each.attempt, each.place[0][0]) for each in world.nodes.running()] == [(2, first)]


def test_a_job_that_is_being_canceled_is_canceled() -> None:
    world = booted(2)
    job = world.submit(AGAIN, AGAIN)
    start(world)
    world.do(StopJob(by=ROOT, job=job, outcome="canceled"))
    forget(world, "node1")
    register(world, "two")
    assert world.record(job).state is JobState.CANCELED
    world.check_replay()


def test_a_gang_that_lost_one_of_its_tasks_to_a_reboot_runs_it_again_on_its_seat() -> None:
    world = booted(1, 1)
    spec = JobSpec(tasks=(AGAIN, AGAIN), minimum=2, maximum=2, together=True)
    job = next(
        event.job
        for event in world.do(CreateJob(by=ROOT, spec=spec, submit=True))
        if isinstance(event, JobCreated)
    )
    start(world)
    before = {each.task: each.place for each in world.nodes.running()}
    forget(world, "node2")
    register(world, "two", "node2")
    assert {each.task: each.place for each in world.nodes.running() if each.job == job} == before


def test_a_node_that_forgot_that_a_task_had_started_has_lost_it() -> None:
    world = booted(2)
    job = world.submit(ONCE, ONCE)
    first, _ = world.nodes.running()
    world.do(world.nodes.started(first, world.clock.now()))
    register(world, "two", "node1", (job, 1, 1, 1), (job, 2, 1, 1))
    world.end(job, 1, kind="never-ran")
    world.end(job, 2, kind="never-ran")
    assert message(world, job, 1).startswith("the node lost the record that the task had started")
    assert world.dispatched(job) == [(2, 1)]


def test_what_fails_its_whole_job_stops_the_rest_of_it_once() -> None:
    world = booted(2, 2)
    wide = msgspec.structs.replace(AGAIN, minimum=3, maximum=3)
    job = world.submit(wide, ONCE, fail_on_task_failure=True)
    start(world)
    assert {each.task: each.place[0][0] for each in world.nodes.running()} == {1: "node1", 2: "node2"}
    events = register(world, "two", "node2")
    stopped = [
        event.instances for event in events if isinstance(event, InstancesStopping) and event.task == 1
    ]
    assert stopped == [(1,)]
    world.end(job, 1, kind="stopped")
    assert world.record(job).state is JobState.FAILED
