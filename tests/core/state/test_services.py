"""A service has as many instances as its job has room for, and goes on until somebody ends it."""

import pytest
from worlds import ROOT, World

from headnode.core.model.errors import BadRequest, WrongState
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Instant, JobId
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.state.modify import ModifyJob, RequeueJob
from headnode.core.state.node_loss import GiveUpNode
from headnode.core.state.nodes import NodeVanished
from headnode.core.state.prep_release import SHORT_SERVICE
from headnode.core.state.stop import StopJob, StopTask
from headnode.core.state.transitions import JobState

SERVICE = TaskSpec(command="serve", kind=TaskType.SERVICE)
TRUE = TaskSpec(command="/bin/true")


def end_after(world: World, job: JobId, instance: int, seconds: float, exit_code: int = 0) -> None:
    """Let an instance of the service end that began so many seconds ago."""
    held = next(h for h in world.nodes.running() if (h.job, h.instance) == (job, instance))
    now = world.clock.now()
    world.do(world.nodes.ended(held, now, exit_code=exit_code, started=Instant(now - seconds)))


def test_a_service_fills_what_its_job_may_have_and_replaces_what_ends() -> None:
    world = World(2, 2)
    job = world.submit(SERVICE, minimum=1, maximum=3)
    assert world.dispatched(job) == [(1, 1), (1, 2), (1, 3)]
    end_after(world, job, 2, 60, exit_code=1)
    assert world.dispatched(job) == [(1, 1), (1, 3), (1, 4)]
    end_after(world, job, 1, 60)
    assert world.dispatched(job) == [(1, 3), (1, 4), (1, 5)]
    world.check_replay()


def test_a_service_of_open_size_takes_all_that_is_free_and_grows_with_it() -> None:
    world = World(2)
    other = world.submit(TRUE)
    job = world.submit(SERVICE)
    assert world.dispatched(job) == [(1, 1)]
    world.end(other, 1)
    assert world.dispatched(job) == [(1, 1), (1, 2)]


def test_a_service_whose_program_ends_at_once_rests_between_its_instances() -> None:
    world = World(1)
    job = world.submit(SERVICE)
    end_after(world, job, 1, SHORT_SERVICE / 2, exit_code=1)
    assert world.dispatched(job) == []
    assert world.engine.next_wake() == world.clock.now() + SHORT_SERVICE
    world.wait(SHORT_SERVICE / 2)
    assert world.dispatched(job) == []
    world.wait(SHORT_SERVICE / 2)
    assert world.dispatched(job) == [(1, 2)]
    end_after(world, job, 2, SHORT_SERVICE)
    assert world.dispatched(job) == [(1, 3)]


@pytest.mark.parametrize("outcome", ["finished", "canceled"])
def test_a_service_ends_with_its_job(outcome: str) -> None:
    world = World(1)
    job = world.submit(SERVICE)
    world.do(StopJob(by=ROOT, job=job, outcome=outcome))
    world.end(job, 1, 1, kind="stopped")
    assert world.dispatched(job) == []
    assert world.record(job).state.value == outcome
    world.check_replay()


def test_a_job_is_over_when_its_service_is_canceled() -> None:
    world = World(1)
    job = world.submit(SERVICE)
    world.do(StopTask(by=ROOT, job=job, task=1, instance=1))
    world.end(job, 1, 1, kind="stopped")
    world.wait(SHORT_SERVICE)
    assert world.dispatched(job) == [(1, 2)]  # another one takes the place of a canceled instance
    world.do(StopTask(by=ROOT, job=job, task=1))
    world.end(job, 1, 2, kind="stopped")
    assert world.record(job).state is JobState.FAILED
    world.check_replay()


def test_so_many_failures_of_a_service_fail_its_job() -> None:
    world = World(1)
    service = TaskSpec(command="serve", kind=TaskType.SERVICE, fail_job_on_failure=True, fail_job_count=2)
    job = world.submit(service)
    end_after(world, job, 1, 60, exit_code=1)
    assert world.record(job).state is JobState.RUNNING
    end_after(world, job, 2, 60, exit_code=1)
    assert world.record(job).state is JobState.FAILED


def test_a_requeued_service_goes_on_with_new_instances() -> None:
    world = World(1)
    job = world.submit(SERVICE)
    world.do(RequeueJob(by=ROOT, job=job))
    world.end(job, 1, 1, kind="stopped")
    assert world.dispatched(job) == [(1, 2)]
    world.check_replay()


def test_a_lost_node_takes_instances_of_a_service_and_the_job_goes_on() -> None:
    world = World(1, 1)
    job = world.submit(SERVICE, minimum=1, maximum=2)
    world.do(NodeVanished(node="node1"), GiveUpNode(node="node1"))
    assert world.record(job).state is JobState.RUNNING
    run = world.record(job).run
    assert run is not None
    assert [live.placement for live in run.tasks[0].live.values()] == [(("node2", (0,)),)]
    world.check_replay()


def test_a_restarted_head_goes_on_with_the_service() -> None:
    world = World(2)
    job = world.submit(SERVICE)
    world.engine.recover()
    assert world.dispatched(job) == [(1, 1), (1, 2)]
    end_after(world, job, 1, 60)
    assert world.dispatched(job) == [(1, 2), (1, 3)]


def test_a_service_is_alone_with_what_prepares_and_releases_its_nodes() -> None:
    world = World(1)
    with pytest.raises(BadRequest, match="the job has a service task and ordinary tasks"):
        world.submit(SERVICE, TRUE)
    job = world.submit(SERVICE)
    with pytest.raises(BadRequest, match="the job has a service task and ordinary tasks"):
        world.do(ModifyJob(by=ROOT, job=job, spec=JobSpec(tasks=(SERVICE, TRUE)), fields=("tasks",)))
    running = world.submit(run_until_canceled=True, minimum=1, maximum=1)
    spec = JobSpec(tasks=(SERVICE,), run_until_canceled=True, minimum=1, maximum=1)
    with pytest.raises(WrongState, match="a service task, and the job is"):
        world.do(ModifyJob(by=ROOT, job=running, spec=spec, fields=("tasks",)))


@pytest.mark.parametrize("wrong", [{"depends_on": ("a",)}, {"group": 2}])
def test_what_a_service_cannot_have_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(BadRequest, match="a service task, has"):
        World(1).submit(TaskSpec(command="x", kind=TaskType.SERVICE, **wrong))


def test_a_service_does_not_start_together_with_anything() -> None:
    with pytest.raises(BadRequest, match="the job has a service task, and its tasks start together"):
        World(1).submit(SERVICE, together=True)


def test_a_service_with_prepared_nodes_serves_only_there() -> None:
    world = World(1, 1)
    prep = TaskSpec(command="prepare", kind=TaskType.NODE_PREP)
    release = TaskSpec(command="release", kind=TaskType.NODE_RELEASE)
    job = world.submit(prep, SERVICE, release, minimum=1, maximum=2)
    assert world.dispatched(job) == [(1, 1), (1, 2)]
    world.end(job, 1, 1)
    assert world.dispatched(job) == [(1, 2), (2, 1)]
    world.end(job, 1, 2, exit_code=1)
    assert world.dispatched(job) == [(2, 1)]
    world.do(StopJob(by=ROOT, job=job, outcome="finished"))
    world.end(job, 2, 1, kind="stopped")
    assert world.dispatched(job) == [(3, 1)]
    world.end(job, 3, 1)
    assert world.record(job).state is JobState.FINISHED
    world.check_replay()
