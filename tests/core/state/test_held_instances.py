"""One instance of a sweep is requeued while it runs, held and released; the others go on."""

import pytest
from worlds import ADA, BOB, ROOT, World

from headnode.core.model.errors import NotAllowed, WrongState
from headnode.core.model.quantities import JobId
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.state.hold import HoldTask, ReleaseTask
from headnode.core.state.stop import RequeueTask, StopJob, StopTask
from headnode.core.state.transitions import JobState

SWEEP = TaskSpec(command="x", kind=TaskType.SWEEP, start=1, end=3, rerunnable=True)


def attempts(world: World, job: JobId) -> dict[int, int]:
    """Return the attempts that nodes have, by instance."""
    return {held.instance: held.attempt for held in world.nodes.running() if held.job == job}


@pytest.mark.parametrize(
    ("kind", "code", "again"),
    [
        ("stopped", 0, True),
        ("lost", 0, True),
        ("never-ran", 0, True),
        ("exited", 9, True),
        ("exited", 0, False),
    ],
)
def test_a_running_instance_runs_again_however_it_is_ended_but_for_success(
    kind: str, code: int, *, again: bool
) -> None:
    world = World(3)
    job = world.submit(SWEEP)
    world.do(RequeueTask(by=ROOT, job=job, task=1, instance=2))
    assert world.do(RequeueTask(by=ROOT, job=job, task=1, instance=2)) == ()  # it is being stopped already
    world.check_replay()  # a head that is killed now knows it
    world.end(job, 1, 2, kind=kind, exit_code=code)
    assert attempts(world, job) == {1: 1, 3: 1} | ({2: 2} if again else {})
    world.check_replay()
    for instance in attempts(world, job):
        world.end(job, 1, instance)
    assert world.record(job).state is JobState.FINISHED


def test_an_instance_that_is_not_rerunnable_and_a_job_that_ends_refuse() -> None:
    world = World(3)
    fixed = world.submit(TaskSpec(command="x", kind=TaskType.SWEEP, start=1, end=1))
    with pytest.raises(WrongState, match="not rerunnable"):
        world.do(RequeueTask(by=ROOT, job=fixed, task=1, instance=1))
    job = world.submit(SWEEP)
    world.do(StopJob(by=ROOT, job=job, outcome="canceled", graceful=True))
    with pytest.raises(WrongState, match="so none of its tasks can be requeued"):
        world.do(RequeueTask(by=ROOT, job=job, task=1, instance=1))


def test_a_job_that_is_canceled_does_not_run_what_was_to_run_again() -> None:
    world = World(3)
    job = world.submit(SWEEP)
    world.do(RequeueTask(by=ROOT, job=job, task=1, instance=1))
    world.do(StopJob(by=ROOT, job=job, outcome="canceled"))
    for instance in (1, 2, 3):
        world.end(job, 1, instance, kind="stopped")
    assert world.record(job).state is JobState.CANCELED


def test_held_instances_wait_while_others_run_and_the_job_holds_nothing_for_them() -> None:
    world = World(1)
    job = world.submit(SWEEP)
    world.do(HoldTask(by=ROOT, job=job, task=1, instance=2))
    world.end(job, 1, 1)
    assert world.dispatched(job) == [(1, 3)]
    world.do(HoldTask(by=ROOT, job=job, task=1, instance=3, requeue=True))
    world.end(job, 1, 3, kind="stopped")
    assert world.record(job).state is JobState.QUEUED
    assert world.dispatched(world.submit(TaskSpec(command="x"))) == [(1, 1)]  # the processor is free
    world.check_replay()
    world.do(StopTask(by=ROOT, job=job, task=1, instance=2))
    world.end(JobId(2), 1)
    world.do(ReleaseTask(by=ROOT, job=job, task=1))
    assert attempts(world, job) == {3: 2}
    world.end(job, 1, 3)
    assert world.record(job).state is JobState.FINISHED
    world.check_replay()


def test_holds_are_for_those_who_may_change_the_job_and_for_what_waits() -> None:
    world = World(1)
    job = world.submit(SWEEP, by=ADA)
    for command in (HoldTask(by=BOB, job=job, task=1), ReleaseTask(by=BOB, job=job, task=1)):
        with pytest.raises(NotAllowed):
            world.do(command)
    with pytest.raises(WrongState, match="only queued instances can be held"):
        world.do(HoldTask(by=ADA, job=job, task=1, instance=1))
    assert world.do(ReleaseTask(by=ADA, job=job, task=1)) == ()
    together = world.submit(SWEEP, by=ADA, together=True)
    with pytest.raises(WrongState, match="start together"):
        world.do(HoldTask(by=ADA, job=together, task=1))
