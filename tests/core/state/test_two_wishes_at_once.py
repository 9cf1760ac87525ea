"""Wishes that meet in one batch: the second is decided after the first, and neither is lost in silence."""

import pytest
from worlds import ADA, ROOT, World

from headnode.core.model.errors import BadRequest, NotAllowed, WrongState
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import JobId, Priority
from headnode.core.model.task import TaskSpec
from headnode.core.state.modify import ModifyJob, RequeueJob
from headnode.core.state.stop import StopJob, StopTask
from headnode.core.state.submit import CreateJob
from headnode.core.state.transitions import JobState

AGAIN = TaskSpec(command="x", rerunnable=True)
OTHER = TaskSpec(command="y", rerunnable=True)


def failed(world: World) -> JobId:
    job = world.submit(AGAIN)
    world.end(job, 1, exit_code=1)
    return job


def test_requeueing_an_ended_job_twice_at_once_runs_it_again_once() -> None:
    world = World(1)
    job = failed(world)
    again = RequeueJob(by=ROOT, job=job, archived=world.archived(job))
    first, second = world.engine.handle([again, again])
    assert isinstance(first, tuple)
    assert isinstance(second, WrongState)
    assert world.dispatched(job) == [(1, 1)]
    assert world.journal.ended_job(job) is None


def test_a_job_revived_canceled_and_revived_in_one_batch_is_alive_and_not_in_the_archive() -> None:
    world = World(1)
    world.submit(AGAIN, minimum=1, maximum=1)
    job = world.submit(AGAIN)
    world.do(StopJob(by=ROOT, job=job, outcome="canceled"))
    again = RequeueJob(by=ROOT, job=job, archived=world.archived(job))
    world.do(again, StopJob(by=ROOT, job=job, outcome="canceled"), again)
    assert world.cluster.jobs[job].state is JobState.QUEUED
    assert world.journal.ended_job(job) is None
    world.check_replay()


def test_modifying_an_ended_job_that_another_brings_back_changes_the_living_one() -> None:
    world = World(1)
    job = failed(world)
    archived = world.archived(job)
    world.do(
        RequeueJob(by=ROOT, job=job, archived=archived),
        ModifyJob(by=ROOT, job=job, spec=JobSpec(name="n"), fields=("name",), archived=archived),
    )
    assert world.cluster.spec(world.record(job)).name == "n"
    assert world.record(job).state is JobState.RUNNING


def test_of_two_that_add_tasks_to_what_they_saw_the_second_must_look_again() -> None:
    world = World(1)
    job = world.submit(AGAIN)
    add = [
        ModifyJob(by=ROOT, job=job, spec=JobSpec(tasks=(AGAIN, new)), fields=("tasks",))
        for new in (OTHER, AGAIN, AGAIN)
    ]
    answers = world.engine.handle(add)
    assert isinstance(answers[0], tuple)
    assert [getattr(answer, "code", None) for answer in answers[1:]] == ["stale-tasks", "stale-tasks"]
    assert world.cluster.spec(world.record(job)).tasks == (AGAIN, OTHER)


def test_two_changes_of_different_options_at_once_both_hold() -> None:
    world = World(1)
    job = world.submit(AGAIN)
    world.do(
        ModifyJob(by=ROOT, job=job, spec=JobSpec(name="n", tasks=(AGAIN,)), fields=("name",)),
        ModifyJob(by=ROOT, job=job, spec=JobSpec(project="p", tasks=(AGAIN,)), fields=("project",)),
    )
    spec = world.cluster.spec(world.record(job))
    assert (spec.name, spec.project) == ("n", "p")


def test_only_what_is_named_changes() -> None:
    world = World(1)
    world.submit(AGAIN)
    job = world.submit(AGAIN, by=ADA)
    sly = JobSpec(name="n", priority=Priority(4000), tasks=(AGAIN,))
    world.do(ModifyJob(by=ADA, job=job, spec=sly, fields=("name",)))
    assert world.record(job).priority == 2000
    with pytest.raises(NotAllowed, match="priority-privilege"):
        world.do(ModifyJob(by=ADA, job=job, spec=sly, fields=("priority",)))
    with pytest.raises(BadRequest, match="no-such-field"):
        world.do(ModifyJob(by=ADA, job=job, spec=sly, fields=("nonsense",)))


@pytest.mark.parametrize("tasks", [(), (OTHER,), (OTHER, AGAIN), (AGAIN,)])
def test_tasks_that_a_job_has_are_neither_taken_away_nor_replaced(tasks: tuple[TaskSpec, ...]) -> None:
    world = World(1)
    job = world.submit(AGAIN)
    with pytest.raises(WrongState, match="stale-tasks"):
        world.do(ModifyJob(by=ROOT, job=job, spec=JobSpec(tasks=tasks), fields=("tasks",)))


def test_a_job_may_name_a_queued_parent_that_is_finished_in_the_same_batch() -> None:
    world = World(1)
    world.submit(AGAIN)
    parent = world.submit(AGAIN)
    spec = JobSpec(tasks=(AGAIN,), parents=(parent,))
    answers = world.engine.handle(
        [
            StopJob(by=ROOT, job=parent, outcome="finished"),
            CreateJob(by=ROOT, spec=spec, submit=True),
        ]
    )
    assert isinstance(answers[1], tuple), answers[1]
    assert world.record(JobId(parent + 1)).waits_for == ()


def test_canceling_a_job_that_is_on_its_way_back_to_the_queue_cancels_it() -> None:
    world = World(1)
    job = world.submit(AGAIN, AGAIN, minimum=1, maximum=1)
    world.do(RequeueJob(by=ROOT, job=job))
    world.do(StopJob(by=ROOT, job=job, outcome="canceled", message="enough"))
    world.end(job, 1, kind="stopped")
    record = world.record(job)
    assert (record.state, record.message) == (JobState.CANCELED, "enough")
    assert record.run is not None
    assert [len(record.run.tasks[0].failed), len(record.run.tasks[1].canceled)] == [1, 1]


def test_a_task_of_a_job_on_its_way_back_to_the_queue_cannot_be_canceled_yet() -> None:
    world = World(1)
    job = world.submit(AGAIN)
    world.do(RequeueJob(by=ROOT, job=job))
    with pytest.raises(WrongState, match="requeueing"):
        world.do(StopTask(by=ROOT, job=job, task=1))


def test_a_job_that_was_not_submitted_loses_no_task_to_a_second_writer_either() -> None:
    world = World(1)
    job = world.do(CreateJob(by=ROOT, spec=JobSpec(tasks=(AGAIN,))))[0].job  # type: ignore[attr-defined]
    add = [
        ModifyJob(by=ROOT, job=job, spec=JobSpec(tasks=(AGAIN, new)), fields=("tasks",))
        for new in (OTHER, AGAIN)
    ]
    assert isinstance(world.engine.handle(add)[1], WrongState)
    assert world.cluster.spec(world.record(job)).tasks == (AGAIN, OTHER)


def test_a_change_of_nothing_changes_nothing_in_any_state() -> None:
    world = World(1)
    job = world.submit(AGAIN)
    world.do(StopJob(by=ROOT, job=job, outcome="canceled"))
    assert world.do(ModifyJob(by=ROOT, job=job, spec=JobSpec(), fields=())) == ()
