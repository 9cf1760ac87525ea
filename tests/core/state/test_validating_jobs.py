"""Jobs that submission filters look at before they come into the queue."""

import pytest
from asked_filters import FilteredWorld
from msgspec.structs import replace
from worlds import ADA, ROOT, World

from headnode.core.model.errors import BadRequest, Refused, WrongState
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Instant, JobId, Priority
from headnode.core.model.task import TaskSpec
from headnode.core.state.events import Event
from headnode.core.state.filters import RejectJob, ValidateJob
from headnode.core.state.hold import HoldJob
from headnode.core.state.job_events import JobValidated
from headnode.core.state.modify import ModifyJob, RequeueJob
from headnode.core.state.nodes import SetParameter
from headnode.core.state.stop import StopJob
from headnode.core.state.submit import SubmitJob
from headnode.core.state.transitions import JobState


def filtering_world() -> World:
    """Return a world whose jobs pass a submission filter."""
    world = World(4)
    world.do(SetParameter(by=ROOT, name="SubmissionFilterProgram", value="/opt/names.sh"))
    return world


def validated(world: World, job: JobId, **changes: object) -> tuple[Event, ...]:
    """Let the filters pass a job, with these changes."""
    record = world.record(job)
    spec = replace(world.cluster.written(record), **changes) if changes else None
    return world.do(ValidateJob(by=ADA, job=job, order=record.order, filters=("names.sh",), spec=spec))


def test_a_submitted_job_is_validating_and_durable_until_its_filters_let_it_in() -> None:
    world = filtering_world()
    job = world.submit(TaskSpec(command="x"), by=ADA)
    assert world.record(job).state is JobState.VALIDATING
    assert world.replayed().jobs[job].state is JobState.VALIDATING
    world.check_replay()
    validated(world, job)
    assert world.record(job).state is JobState.RUNNING
    world.check_replay()


def test_places_in_the_queue_are_those_of_the_submission_not_of_the_answer() -> None:
    world = filtering_world()
    world.do(SetParameter(by=ROOT, name="SchedulingPolicy", value="fcfs"))
    first, second = (world.submit(TaskSpec(command="x", minimum=3, maximum=3)) for _ in range(2))
    third = world.submit(TaskSpec(command="x", minimum=4, maximum=4))
    validated(world, third)
    validated(world, second)
    validated(world, first)
    world.end(third, 1)
    assert world.record(first).state is JobState.RUNNING
    assert world.record(second).state is JobState.QUEUED


def test_a_filter_may_change_properties_of_the_job_and_the_history_says_which() -> None:
    world = filtering_world()
    job = world.submit(TaskSpec(command="x"), by=ADA, project="")
    events = validated(world, job, project="physics", priority=Priority(3000))
    found = next(event for event in events if isinstance(event, JobValidated))
    assert found.changed == "priority, project"
    record = world.record(job)
    assert (world.cluster.written(record).project, record.priority) == ("physics", 3000)
    world.check_replay()


@pytest.mark.parametrize(
    "changes",
    [
        {"tasks": (TaskSpec(command="y"),)},
        {"tasks": ()},
        {"tasks": (TaskSpec(command="x"), TaskSpec(command="z"))},
    ],
)
def test_a_filter_may_not_change_tasks(changes: dict[str, object]) -> None:
    world = filtering_world()
    job = world.submit(TaskSpec(command="x"))
    with pytest.raises(BadRequest, match="filter-changed-tasks"):
        validated(world, job, **changes)
    assert world.record(job).state is JobState.VALIDATING


@pytest.mark.parametrize(
    "changes", [{"minimum": 5, "maximum": 2}, {"hold_until": Instant(9e12)}, {"parents": (99,)}]
)
def test_what_cannot_be_in_the_queue_does_not_come_there(changes: dict[str, object]) -> None:
    world = filtering_world()
    job = world.submit(TaskSpec(command="x"))
    with pytest.raises(Refused):
        validated(world, job, **changes)
    assert world.record(job).state is JobState.VALIDATING


def test_a_job_that_a_filter_fails_says_so_and_cannot_come_into_the_queue_by_the_back_door() -> None:
    world = filtering_world()
    job = world.submit(TaskSpec(command="x"), by=ADA)
    order = world.record(job).order
    world.do(RejectJob(job=job, order=order, message="submission filter 'names.sh' failed the job"))
    record = world.record(job)
    assert record.state is JobState.FAILED
    assert "names.sh" in record.message
    with pytest.raises(WrongState, match="not-validated"):
        world.do(RequeueJob(by=ADA, job=job, archived=world.archived(job)))
    changed = JobSpec(tasks=(TaskSpec(command="x"),), project="physics")
    modify = ModifyJob(by=ADA, job=job, spec=changed, fields=("project",), archived=world.archived(job))
    world.do(modify)
    world.do(SubmitJob(by=ADA, job=job))
    assert world.record(job).state is JobState.VALIDATING
    validated(world, job)
    assert world.record(job).state is JobState.RUNNING
    world.check_replay()


def test_an_answer_about_an_earlier_submission_does_nothing() -> None:
    world = filtering_world()
    job = world.submit(TaskSpec(command="x"), by=ADA)
    order = world.record(job).order
    assert world.do(ValidateJob(by=ADA, job=job, order=order + 1)) == ()
    assert world.do(RejectJob(job=job, order=order + 1, message="no")) == ()
    world.do(StopJob(by=ADA, job=job, outcome="canceled"))
    assert world.record(job).state is JobState.CANCELED
    assert world.do(ValidateJob(by=ADA, job=job, order=order)) == ()


def test_a_job_in_validation_can_be_canceled_but_neither_finished_nor_changed() -> None:
    world = filtering_world()
    job = world.submit(TaskSpec(command="x"), by=ADA)
    spec = world.cluster.written(world.record(job))
    for wish in (
        StopJob(by=ADA, job=job, outcome="finished"),
        ModifyJob(by=ADA, job=job, spec=spec, fields=("name",)),
        SubmitJob(by=ADA, job=job),
        HoldJob(by=ADA, job=job, name="User"),
    ):
        with pytest.raises(WrongState):
            world.do(wish)
    world.do(StopJob(by=ADA, job=job, outcome="canceled"))
    assert world.record(job).state is JobState.CANCELED


def test_children_wait_for_a_parent_that_is_in_validation() -> None:
    world = filtering_world()
    parent = world.submit(TaskSpec(command="x"))
    child = world.submit(TaskSpec(command="x"), parents=(parent,))
    validated(world, child)
    assert world.record(child).waits_for == (parent,)
    validated(world, parent)
    world.end(parent, 1)
    assert world.record(child).state is JobState.RUNNING


def test_a_date_before_which_a_job_is_held_is_gone_when_it_has_started() -> None:
    world = World(4)
    until = Instant(world.clock.now() + 100)
    job = world.submit(TaskSpec(command="x"), hold_until=until)
    world.wait(100)
    assert world.record(job).state is JobState.RUNNING
    assert world.cluster.written(world.record(job)).hold_until is None
    world.check_replay()


def test_a_cluster_without_filters_records_nothing_of_them() -> None:
    world = FilteredWorld(2)
    world.set(ActivationFilterProgram="")
    job = world.submit(TaskSpec(command="x"))
    found = [type(event).__name__ for event in world.journal.history(job, 100)]
    assert found[:3] == ["JobCreated", "JobSubmitted", "JobStarted"]
    assert world.filters.questions == []
