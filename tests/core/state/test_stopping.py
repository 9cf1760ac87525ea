"""Cancel, finish, requeue, modify and clone in every state: what happens, or what is said."""

from collections.abc import Callable

import msgspec
import pytest
from worlds import ROOT, World

from headnode.apps.server.api.job_objects import progress_of
from headnode.core.model.errors import HeadnodeError, NotFound, WrongState
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import FOREVER, JobId, Priority, Seconds
from headnode.core.model.task import TaskSpec
from headnode.core.state.job_record import spec_of
from headnode.core.state.modify import ModifyJob, RequeueJob
from headnode.core.state.stop import RequeueTask, StopJob, StopTask
from headnode.core.state.submit import CreateJob, SubmitJob
from headnode.core.state.transitions import JobState, TaskState

AGAIN = TaskSpec(command="x", rerunnable=True)


def configuring(world: World) -> JobId:
    return world.do(CreateJob(by=ROOT, spec=JobSpec(tasks=(AGAIN, AGAIN))))[0].job  # type: ignore[attr-defined]


def queued(world: World) -> JobId:
    world.submit(AGAIN, minimum=2, maximum=2)
    return world.submit(AGAIN, AGAIN, minimum=1, maximum=1)


def running(world: World) -> JobId:
    return world.submit(AGAIN, AGAIN, minimum=1, maximum=1)


def ending(world: World) -> JobId:
    job = running(world)
    world.do(StopJob(by=ROOT, job=job, outcome="canceled"))
    return job


def finished(world: World) -> JobId:
    job = running(world)
    world.end(job, 1)
    world.end(job, 2)
    return job


def failed(world: World) -> JobId:
    job = running(world)
    world.end(job, 1, exit_code=1)
    world.end(job, 2)
    return job


def canceled(world: World) -> JobId:
    job = ending(world)
    world.end(job, 1, kind="stopped")
    return job


def cancel(world: World, job: JobId) -> None:
    world.do(StopJob(by=ROOT, job=job, outcome="canceled"))


def finish(world: World, job: JobId) -> None:
    world.do(StopJob(by=ROOT, job=job, outcome="finished"))


def requeue(world: World, job: JobId) -> None:
    world.do(RequeueJob(by=ROOT, job=job, archived=world.archived(job)))


def submit(world: World, job: JobId) -> None:
    world.do(SubmitJob(by=ROOT, job=job))


def rename(world: World, job: JobId) -> None:
    spec = JobSpec(name="new", tasks=(AGAIN, AGAIN))
    world.do(ModifyJob(by=ROOT, job=job, spec=spec, fields=("name",), archived=world.archived(job)))


J = JobState
OUTCOMES = [
    (cancel, configuring, J.CANCELED),
    (cancel, queued, J.CANCELED),
    (cancel, running, J.ENDING),
    (cancel, ending, J.ENDING),
    (cancel, finished, NotFound),
    (finish, configuring, WrongState),
    (finish, queued, J.FINISHED),
    (finish, running, J.ENDING),
    (finish, ending, J.ENDING),
    (finish, failed, NotFound),
    (requeue, configuring, WrongState),
    (requeue, queued, WrongState),
    (requeue, running, J.ENDING),
    (requeue, ending, WrongState),
    (requeue, finished, WrongState),
    (requeue, failed, J.RUNNING),
    (requeue, canceled, J.RUNNING),
    (submit, configuring, J.RUNNING),
    (submit, queued, WrongState),
    (submit, running, WrongState),
    (rename, configuring, J.CONFIGURING),
    (rename, queued, J.QUEUED),
    (rename, running, J.RUNNING),
    (rename, ending, WrongState),
    (rename, finished, WrongState),
    (rename, failed, J.CONFIGURING),
    (rename, canceled, J.CONFIGURING),
]


@pytest.mark.parametrize(
    ("verb", "made", "expected"), OUTCOMES, ids=[f"{v.__name__}-{m.__name__}" for v, m, _ in OUTCOMES]
)
def test_each_verb_in_each_state_does_what_the_table_says(
    verb: Callable[[World, JobId], None],
    made: Callable[[World], JobId],
    expected: JobState | type[HeadnodeError],
) -> None:
    world = World(2)
    job = made(world)
    before = world.record(job).state
    if isinstance(expected, JobState):
        verb(world, job)
        assert world.record(job).state is expected
    else:
        with pytest.raises(expected):
            verb(world, job)
        assert world.record(job).state is before
    world.check_replay()


def states(world: World, job: JobId) -> list[TaskState]:
    run = world.record(job).run
    assert run is not None
    return [
        TaskState.QUEUED if p.queued else TaskState.FINISHED if p.finished
        else TaskState.FAILED if p.failed else TaskState.CANCELED
        for p in run.tasks
    ]  # fmt: skip


def test_canceling_a_job_fails_what_runs_and_cancels_what_waits() -> None:
    world = World(1)
    job = running(world)
    cancel(world, job)
    world.end(job, 1, kind="stopped")
    assert world.record(job).state is J.CANCELED
    assert states(world, job) == [TaskState.FAILED, TaskState.CANCELED]


def test_finishing_a_job_fails_nothing() -> None:
    world = World(1)
    job = running(world)
    finish(world, job)
    world.end(job, 1, kind="stopped")
    assert world.record(job).state is J.FINISHED
    assert states(world, job) == [TaskState.FINISHED, TaskState.CANCELED]


def test_a_graceful_cancel_lets_what_runs_end_by_itself() -> None:
    world = World(1)
    job = running(world)
    world.do(StopJob(by=ROOT, job=job, outcome="canceled", graceful=True))
    assert list(world.nodes.stopping()) == []
    world.end(job, 1)
    assert world.record(job).state is J.CANCELED
    assert states(world, job) == [TaskState.FINISHED, TaskState.CANCELED]


def test_canceling_a_queued_task_does_not_fail_the_job_and_a_running_one_does() -> None:
    world = World(1)
    job, other = running(world), running(world)
    world.do(StopTask(by=ROOT, job=job, task=2))
    world.end(job, 1)
    assert world.record(job).state is J.FINISHED
    world.do(StopTask(by=ROOT, job=other, task=1))
    world.end(other, 1, kind="stopped")
    world.end(other, 2)
    assert world.record(other).state is J.FAILED


def test_requeueing_runs_again_what_failed_and_was_stopped_but_not_what_finished_or_was_withdrawn() -> None:
    world = World(1)
    job = world.submit(*[AGAIN] * 4, minimum=1, maximum=1)
    world.do(StopTask(by=ROOT, job=job, task=4))
    world.end(job, 1)
    world.end(job, 2, exit_code=1)
    requeue(world, job)
    world.end(job, 3, kind="stopped")
    assert world.dispatched(job) == [(2, 1)]
    world.end(job, 2)
    world.end(job, 3)
    assert states(world, job) == [TaskState.FINISHED] * 3 + [TaskState.CANCELED]
    assert world.record(job).state is J.FINISHED


def test_a_job_with_a_failed_task_that_is_not_rerunnable_is_not_requeued() -> None:
    world = World(1)
    job = world.submit(TaskSpec(command="x"))
    world.end(job, 1, exit_code=1)
    with pytest.raises(WrongState, match="not-rerunnable"):
        requeue(world, job)


def test_an_attempt_number_is_never_used_twice() -> None:
    world = World(1)
    job = running(world)
    seen = set()
    for _ in range(3):
        held = world.nodes.running()[0]
        assert held.attempt not in seen
        seen.add(held.attempt)
        requeue(world, job)
        world.end(job, 1, kind="stopped")


def test_a_single_task_of_a_running_job_runs_again() -> None:
    world = World(1)
    job = running(world)
    world.end(job, 1, exit_code=1)
    world.do(RequeueTask(by=ROOT, job=job, task=1))
    world.end(job, 2)
    assert world.dispatched(job) == [(1, 1)]
    world.end(job, 1)
    assert world.record(job).state is J.FINISHED


def test_canceling_one_instance_of_a_sweep_leaves_the_others_alone() -> None:
    from headnode.core.model.task import TaskType

    world = World(1)
    job = world.submit(TaskSpec(command="x", kind=TaskType.SWEEP, start=1, end=3))
    world.do(StopTask(by=ROOT, job=job, task=1, instance=2))
    world.end(job, 1, 1)
    assert world.dispatched(job) == [(1, 3)]
    with pytest.raises(NotFound, match="no-such-instance"):
        world.do(StopTask(by=ROOT, job=job, task=1, instance=4))
    with pytest.raises(NotFound, match="no-such-task"):
        world.do(StopTask(by=ROOT, job=job, task=2))


def test_force_after_a_polite_cancel_is_passed_on() -> None:
    world = World(1)
    job = running(world)
    cancel(world, job)
    events = world.do(StopJob(by=ROOT, job=job, outcome="canceled", force=True))
    assert any(getattr(event, "force", False) for event in events)


def test_a_job_that_was_backfilled_keeps_its_run_time_limit() -> None:
    world = World(2)
    first = world.submit(AGAIN, minimum=1, maximum=1, run_time=Seconds(600.0))
    world.submit(AGAIN, minimum=2, maximum=2, run_time=Seconds(60.0))
    job = world.submit(AGAIN, minimum=1, maximum=1, run_time=Seconds(60.0))
    run = world.record(job).run
    assert run is not None
    assert run.backfilled
    longer = JobSpec(tasks=(AGAIN,), minimum=1, maximum=1, run_time=FOREVER)
    with pytest.raises(WrongState, match="backfilled"):
        world.do(ModifyJob(by=ROOT, job=job, spec=longer, fields=("run_time",)))
    world.do(ModifyJob(by=ROOT, job=first, spec=longer, fields=("run_time",)))
    run = world.record(first).run
    assert run is not None
    assert run.deadline is None


def test_a_higher_priority_moves_a_queued_job_ahead() -> None:
    world = World(1)
    first = world.submit(AGAIN)
    second, third = world.submit(AGAIN), world.submit(AGAIN)
    spec = msgspec.structs.replace(JobSpec(tasks=(AGAIN,)), priority=Priority(3000))
    world.do(ModifyJob(by=ROOT, job=third, spec=spec, fields=("priority",)))
    world.end(first, 1)
    assert world.record(third).state is J.RUNNING
    assert world.record(second).state is J.QUEUED


@pytest.mark.parametrize("state", [configuring, queued, running])
def test_all_that_waits_of_a_job_is_canceled_by_one_event_and_can_run_again(
    state: Callable[[World], JobId],
) -> None:
    world = World(2)
    many = tuple(msgspec.structs.replace(AGAIN, command=f"x {number}") for number in range(20_000))
    if state is configuring:
        job = world.do(CreateJob(by=ROOT, spec=JobSpec(tasks=many)))[0].job  # type: ignore[attr-defined]
    else:
        if state is queued:
            world.submit(AGAIN, minimum=2, maximum=2)
        job = world.submit(*many, minimum=2, maximum=2)
    held = world.dispatched(job)
    assert len(world.do(StopJob(by=ROOT, job=job, outcome="canceled"))) <= 2 + len(held)
    for task, instance in held:
        world.end(job, task, instance, kind="stopped")
    record = world.archived(job)
    assert record is not None
    assert record.state is JobState.CANCELED
    over = [progress_of(record, spec_of(record), number) for number in (1, 3, 20_000)]
    assert [len(each.queued) for each in over] == [0, 0, 0]
    if state is not configuring:
        world.do(RequeueJob(by=ROOT, job=job, archived=record))
        again = world.record(job).run
        assert again is not None
        assert sum(len(each.queued) + len(each.live) for each in again.tasks) == 20_000
