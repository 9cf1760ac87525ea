"""Holds have names: several may be on a job, and it waits until each is released."""

import pytest
from worlds import ADA, BOB, ROOT, World

from headnode.core.model.errors import BadRequest, NotAllowed, NotFound, WrongState
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Instant, JobId
from headnode.core.model.task import TaskSpec
from headnode.core.model.user import User
from headnode.core.model.value_checks import MAX_HOLD_NAME, MAX_HOLDS
from headnode.core.state.hold import HoldJob, ReleaseJob
from headnode.core.state.job_record import JobHold
from headnode.core.state.modify import ModifyJob, RequeueJob
from headnode.core.state.stop import StopJob
from headnode.core.state.submit import CreateJob, SubmitJob
from headnode.core.state.suspend import SuspendJob
from headnode.core.state.transitions import JobState

TASK = TaskSpec(command="x", rerunnable=True)


def hold(world: World, job: JobId, name: str = "user", by: User = ROOT) -> None:
    world.do(HoldJob(by=by, job=job, name=name))


def release(world: World, job: JobId, name: str | None = "user", by: User = ROOT) -> None:
    world.do(ReleaseJob(by=by, job=job, name=name))


def names(world: World, job: JobId) -> list[str]:
    return [hold.name for hold in world.record(job).holds]


def state(world: World, job: JobId) -> JobState:
    return world.record(job).state


def test_a_job_submitted_with_holds_waits_until_each_is_released() -> None:
    world = World(1)
    job = world.submit(TASK, by=ADA, holds=("data", "night"))
    now = world.clock.now()
    assert world.record(job).holds == (JobHold("data", now, "ada"), JobHold("night", now, "ada"))
    release(world, job, "data")
    world.check_replay()
    assert state(world, job) is JobState.QUEUED
    release(world, job, "night")
    assert state(world, job) is JobState.RUNNING


def test_all_holds_are_released_at_once() -> None:
    world = World(1)
    job = world.submit(TASK, holds=("data", "night"))
    release(world, job, None)
    assert state(world, job) is JobState.RUNNING


def test_a_job_that_is_not_submitted_can_be_held_and_keeps_the_hold() -> None:
    world = World(1)
    job = world.do(CreateJob(by=ROOT, spec=JobSpec(tasks=(TASK,), holds=("data",))))[0].job  # type: ignore[attr-defined]
    hold(world, job, "night")
    assert names(world, job) == ["night"]
    world.do(SubmitJob(by=ROOT, job=job))
    assert names(world, job) == ["night", "data"]
    assert state(world, job) is JobState.QUEUED
    world.check_replay()


def test_case_does_not_matter_and_the_same_hold_twice_changes_nothing() -> None:
    world = World(1)
    world.submit(TASK)
    job = world.submit(TASK)
    world.do(HoldJob(by=ROOT, job=job, name="Data", message="first"))
    assert world.do(HoldJob(by=ROOT, job=job, name="data", message="second")) == ()
    assert [(each.name, each.message) for each in world.record(job).holds] == [("Data", "first")]
    release(world, job, "DATA")
    assert names(world, job) == []


def test_a_hold_until_a_time_and_a_hold_with_a_name_are_both_waited_for() -> None:
    for first in ("time", "name"):
        world = World(1)
        job = world.submit(TASK, holds=("data",), hold_until=Instant(world.clock.now() + 60))
        for what in (first, "name" if first == "time" else "time"):
            assert state(world, job) is JobState.QUEUED
            if what == "time":
                world.wait(61)
            else:
                release(world, job, "data")
        world.wait(1)
        assert state(world, job) is JobState.RUNNING


def test_holds_and_parents_are_both_waited_for() -> None:
    world = World(2)
    parent = world.submit(TASK)
    child = world.submit(TASK, parents=(parent,), holds=("data",))
    world.end(parent, 1)
    assert state(world, child) is JobState.QUEUED
    release(world, child, "data")
    assert state(world, child) is JobState.RUNNING


def test_changing_a_job_does_not_release_it() -> None:
    world = World(1)
    job = world.submit(TASK, holds=("data",))
    changed = JobSpec(tasks=(TASK,), name="n")
    world.do(ModifyJob(by=ROOT, job=job, spec=changed, fields=("name",)))
    assert (names(world, job), state(world, job)) == (["data"], JobState.QUEUED)
    with pytest.raises(WrongState, match="not-modifiable"):
        world.do(ModifyJob(by=ROOT, job=job, spec=changed, fields=("holds",)))


def test_holds_that_are_still_on_when_a_job_is_canceled_are_on_when_it_is_requeued() -> None:
    world = World(1)
    job = world.submit(TASK, holds=("data", "night"))
    release(world, job, "data")
    world.do(StopJob(by=ROOT, job=job, outcome="canceled"))
    world.do(RequeueJob(by=ROOT, job=job, archived=world.archived(job)))
    assert (names(world, job), state(world, job)) == (["night"], JobState.QUEUED)
    world.check_replay()


def test_a_job_that_was_released_and_ran_is_not_held_when_it_is_requeued() -> None:
    world = World(1)
    job = world.submit(TASK, holds=("data",))
    release(world, job, "data")
    world.do(RequeueJob(by=ROOT, job=job))
    world.end(job, 1, kind="stopped")
    assert (names(world, job), state(world, job)) == ([], JobState.RUNNING)


def test_running_jobs_are_not_held_but_may_be_suspended() -> None:
    world = World(1)
    job = world.submit(TASK)
    with pytest.raises(WrongState, match="hn job suspend"):
        hold(world, job)


@pytest.mark.parametrize("name", ["system", "Operator"])
def test_only_administrators_set_and_release_what_is_theirs(name: str) -> None:
    world = World(1)
    world.submit(TASK)
    job = world.submit(TASK, by=ADA)
    with pytest.raises(NotAllowed, match="hold-privilege"):
        hold(world, job, name, by=ADA)
    with pytest.raises(NotAllowed, match="hold-privilege"):
        world.submit(TASK, by=ADA, holds=(name,))
    hold(world, job, name)
    hold(world, job, "mine", by=ADA)
    for wish in (name, None):
        with pytest.raises(NotAllowed, match="hold-privilege"):
            release(world, job, wish, by=ADA)
    assert names(world, job) == [name, "mine"]
    release(world, job, "mine", by=ADA)
    release(world, job, name)
    assert names(world, job) == []


def test_holds_of_others_are_not_touched() -> None:
    world = World(1)
    world.submit(TASK)
    job = world.submit(TASK, by=ADA, holds=("data",))
    with pytest.raises(NotAllowed, match="not-owner"):
        hold(world, job, by=BOB)
    with pytest.raises(NotAllowed, match="not-owner"):
        release(world, job, "data", by=BOB)


def test_what_is_not_there_cannot_be_released_and_says_what_is() -> None:
    world = World(1)
    world.submit(TASK)
    job = world.submit(TASK, holds=("data",))
    with pytest.raises(NotFound, match="'data'"):
        release(world, job, "night")
    release(world, job, "data")
    assert world.do(ReleaseJob(by=ROOT, job=job, name="data")) == ()


def test_there_are_not_too_many_and_their_names_can_be_read() -> None:
    world = World(1)
    world.submit(TASK)
    job = world.submit(TASK, holds=tuple(f"h{number}" for number in range(MAX_HOLDS)))
    with pytest.raises(WrongState, match="too-many-holds"):
        hold(world, job)
    for name in ("", " a", "a,b", "a\nb", "a\x00", "x" * (MAX_HOLD_NAME + 1)):
        with pytest.raises(BadRequest):
            hold(world, job, name)
        with pytest.raises(BadRequest):
            world.submit(TASK, holds=(name,))
    for wrong in (("a", "A"), tuple(f"h{number}" for number in range(MAX_HOLDS + 1))):
        with pytest.raises(BadRequest, match=r"\[holds\]"):
            world.submit(TASK, holds=wrong)


def test_holds_of_a_job_that_is_ending_are_kept_or_released_before_it_waits_again() -> None:
    world = World(1)
    job = world.submit(TASK, suspendable=True)
    held = world.nodes.running()[0]
    world.do(SuspendJob(by=ROOT, job=job))
    for report in world.nodes.stopped(job):
        world.do(report)
    hold(world, job, "night")
    world.do(RequeueJob(by=ROOT, job=job))
    assert state(world, job) is JobState.ENDING
    hold(world, job, "data")
    release(world, job, "data")
    world.do(world.nodes.ended(held, world.clock.now(), kind="stopped"))
    assert (state(world, job), names(world, job)) == (JobState.QUEUED, ["night"])
    release(world, job, "night")
    assert state(world, job) is JobState.RUNNING


def test_a_running_job_goes_back_to_the_queue_with_its_hold_and_starts_when_it_is_released() -> None:
    world = World(1)
    job = world.submit(TASK, by=ADA)
    assert state(world, job) is JobState.RUNNING
    with pytest.raises(WrongState, match="only queued jobs can be held"):
        hold(world, job, by=ADA)
    world.do(HoldJob(by=ADA, job=job, name="user", message="wrong input", requeue=True))
    world.check_replay()
    assert state(world, job) is JobState.ENDING
    world.end(job, 1, kind="stopped")
    world.check_replay()
    assert (state(world, job), names(world, job)) == (JobState.QUEUED, ["user"])
    assert world.record(job).holds[0].message == "wrong input"
    release(world, job, by=ADA)
    assert state(world, job) is JobState.RUNNING


def test_a_hold_can_be_released_while_its_job_is_being_stopped_for_it() -> None:
    world = World(1)
    job = world.submit(TASK)
    world.do(HoldJob(by=ROOT, job=job, name="user", requeue=True))
    release(world, job)
    assert (state(world, job), names(world, job)) == (JobState.ENDING, [])
    world.end(job, 1, kind="stopped")
    assert state(world, job) is JobState.RUNNING


def test_a_job_that_ends_for_good_is_not_held() -> None:
    world = World(1)
    job = world.submit(TASK)
    world.do(StopJob(by=ROOT, job=job, outcome="canceled"))
    for requeue in (False, True):
        with pytest.raises(WrongState, match="only queued jobs can be held"):
            world.do(HoldJob(by=ROOT, job=job, name="user", requeue=requeue))


def test_a_job_whose_tasks_may_not_run_twice_goes_on_and_is_not_held() -> None:
    world = World(1)
    job = world.submit(TaskSpec(command="x", rerunnable=False))
    with pytest.raises(WrongState, match="not rerunnable"):
        world.do(HoldJob(by=ROOT, job=job, name="user", requeue=True))
    assert (state(world, job), names(world, job)) == (JobState.RUNNING, [])


def test_another_user_cannot_send_a_running_job_back_to_the_queue() -> None:
    world = World(1)
    job = world.submit(TASK, by=ADA)
    with pytest.raises(NotAllowed):
        world.do(HoldJob(by=BOB, job=job, name="user", requeue=True))
    assert state(world, job) is JobState.RUNNING
