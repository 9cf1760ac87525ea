"""A job that must end by a time: refused when it cannot, ended when that is over, failed when it is late."""

from math import inf, nextafter

import pytest
from worlds import ROOT, World

from headnode.core.model.errors import BadRequest
from headnode.core.model.job import Alternative, JobSpec
from headnode.core.model.quantities import FOREVER, Instant, JobId, Seconds
from headnode.core.model.task import TaskSpec
from headnode.core.state.modify import ModifyJob, RequeueJob
from headnode.core.state.suspend import SuspendJob
from headnode.core.state.transitions import JobState

TASK = TaskSpec(command="x")
HOUR = 3600.0


def within(world: World, seconds: float) -> Instant:
    return Instant(world.clock.now() + seconds)


def state(world: World, job: JobId) -> JobState:
    return world.record(job).state


def blocked(*processors: int) -> tuple[World, JobId]:
    """Return a world whose only node is taken, and who has it."""
    world = World(*(processors or (1,)))
    return world, world.submit(
        TaskSpec(command="x", minimum=world.cluster.nodes["node1"].facts.processors, maximum=9)
    )


@pytest.mark.parametrize(("limit", "fits"), [(HOUR, True), (HOUR + 1, False), (FOREVER, True)])
def test_a_job_that_cannot_end_in_time_is_refused_with_the_limit_that_would_fit(
    limit: float, fits: bool
) -> None:
    world = World(1)
    if fits:
        assert (
            state(world, world.submit(TASK, run_time=Seconds(limit), end_by=within(world, HOUR)))
            is JobState.RUNNING
        )
        return
    with pytest.raises(BadRequest, match="at most 1h"):
        world.submit(TASK, run_time=Seconds(limit), end_by=within(world, HOUR))


def test_the_time_that_it_is_held_until_counts() -> None:
    world = World(1)
    held = {"hold_until": within(world, HOUR), "end_by": within(world, 2 * HOUR)}
    world.submit(TASK, run_time=Seconds(HOUR), **held)
    with pytest.raises(BadRequest, match="at most 1h"):
        world.submit(TASK, run_time=Seconds(HOUR + 60), **held)
    with pytest.raises(BadRequest, match="end-by"):
        world.submit(TASK, hold_until=within(world, HOUR), end_by=within(world, HOUR))


@pytest.mark.parametrize("seconds", [-5.0, 0.0])
def test_a_deadline_that_is_over_is_refused(seconds: float) -> None:
    world = World(1)
    with pytest.raises(BadRequest, match="the deadline of the job has passed"):
        world.submit(TASK, end_by=within(world, seconds))
    job = world.submit(TASK)
    for fields in (("end_by",), ("end_by", "run_time")):
        changed = JobSpec(tasks=(TASK,), end_by=within(world, seconds))
        with pytest.raises(BadRequest, match="the deadline of the job has passed"):
            world.do(ModifyJob(by=ROOT, job=job, spec=changed, fields=fields))


def test_an_alternative_that_is_quick_enough_will_do() -> None:
    world = World(2)
    quick = Alternative(run_time=Seconds(60.0), minimum=2, maximum=2)
    job = world.submit(TASK, run_time=Seconds(HOUR), end_by=within(world, 120), alternatives=(quick,))
    assert state(world, job) is JobState.RUNNING


@pytest.mark.parametrize(
    ("limit", "message"), [(50.0, "run time expired"), (FOREVER, "its deadline has passed")]
)
def test_a_running_job_ends_at_the_earlier_of_limit_and_deadline(limit: float, message: str) -> None:
    world = World(1)
    job = world.submit(TASK, run_time=Seconds(limit), end_by=within(world, 100))
    world.wait(min(limit, 100.0) - 1)
    assert state(world, job) is JobState.RUNNING
    world.wait(2)
    assert state(world, job) is JobState.ENDING
    world.end(job, 1, kind="stopped")
    assert (state(world, job), world.record(job).message) == (JobState.CANCELED, message)


def test_a_job_that_starts_late_has_until_its_deadline_and_no_longer() -> None:
    world, first = blocked()
    job = world.submit(TASK, end_by=within(world, 100))
    world.wait(70)
    world.end(first, 1)
    assert state(world, job) is JobState.RUNNING
    assert world.engine.next_wake() == within(world, 30)


@pytest.mark.parametrize("limit", [40.0, FOREVER])
def test_a_queued_job_that_can_no_longer_make_it_fails_and_says_so(limit: float) -> None:
    world, first = blocked()
    job = world.submit(TASK, run_time=Seconds(limit), end_by=within(world, 100))
    last = 60.0 if limit == 40.0 else 100.0
    world.wait(last)
    assert state(world, job) is JobState.QUEUED  # at that very instant it could start still
    wake = world.engine.next_wake()
    assert wake is not None
    assert wake == pytest.approx(world.clock.now(), abs=1e-6)
    world.wait(1e-3)
    assert state(world, job) is JobState.FAILED
    assert "deadline" in world.record(job).message
    assert world.engine.next_wake() is None
    world.check_replay()
    world.end(first, 1)


@pytest.mark.parametrize("options", [{"holds": ("data",)}, {"hold": True}, {"parent": True}])
def test_whatever_it_waits_for_it_fails_when_it_is_too_late(options: dict[str, object]) -> None:
    world, first = blocked()
    more: dict[str, object] = {}
    if "hold" in options:
        more["hold_until"] = within(world, 50)
    elif "parent" in options:
        more["parents"] = (first,)
    else:
        more = dict(options)
    job = world.submit(TASK, run_time=Seconds(10.0), end_by=within(world, 70), **more)
    world.wait(61)
    assert state(world, job) is JobState.FAILED


def test_the_deadline_can_be_changed() -> None:
    world, first = blocked()
    job = world.submit(TASK, run_time=Seconds(10.0), end_by=within(world, 100))
    later = JobSpec(tasks=(TASK,), run_time=Seconds(10.0), end_by=within(world, 500))
    world.do(ModifyJob(by=ROOT, job=job, spec=later, fields=("end_by",)))
    world.check_replay()
    world.wait(200)
    assert state(world, job) is JobState.QUEUED
    sooner = JobSpec(tasks=(TASK,), run_time=Seconds(10.0), end_by=within(world, 5))
    with pytest.raises(BadRequest, match="end-by"):
        world.do(ModifyJob(by=ROOT, job=job, spec=sooner, fields=("end_by",)))
    none = JobSpec(tasks=(TASK,), run_time=Seconds(10.0))
    world.do(ModifyJob(by=ROOT, job=job, spec=none, fields=("end_by",)))
    world.wait(10_000)
    assert state(world, job) is JobState.QUEUED
    world.end(first, 1)
    world.do(
        ModifyJob(by=ROOT, job=job, spec=JobSpec(tasks=(TASK,), end_by=within(world, 3)), fields=("end_by",))
    )
    world.wait(4)
    assert state(world, job) is JobState.ENDING


def test_a_shorter_deadline_lets_a_job_without_a_limit_be_backfilled() -> None:
    """The head job gets the node at 100; one that must end by 90 does not delay it."""
    world = World(2)
    world.submit(TASK, run_time=Seconds(100.0))
    world.submit(TaskSpec(command="x", minimum=2, maximum=2), run_time=Seconds(50.0))
    endless = world.submit(TASK)
    ends = world.submit(TASK, end_by=within(world, 90))
    assert (state(world, endless), state(world, ends)) == (JobState.QUEUED, JobState.RUNNING)


def test_a_suspended_job_ends_at_its_deadline() -> None:
    world = World(1)
    job = world.submit(TASK, suspendable=True, end_by=within(world, 100))
    world.do(SuspendJob(by=ROOT, job=job))
    world.do(*world.nodes.stopped(job))
    world.wait(101)
    assert state(world, job) is JobState.ENDING
    world.end(job, 1, kind="stopped")
    assert world.record(job).message == "its deadline has passed"


def test_a_restart_remembers_when_it_is_too_late() -> None:
    world, _ = blocked()
    job = world.submit(TASK, run_time=Seconds(10.0), end_by=within(world, 70))
    assert world.replayed().agenda.last_starts.next() == nextafter(within(world, 60), inf)
    world.engine.snapshot_if_due(1)
    assert world.replayed().agenda.last_starts.next() == nextafter(within(world, 60), inf)
    assert state(world, job) is JobState.QUEUED


def test_a_job_that_could_not_make_it_again_is_not_requeued() -> None:
    world = World(1)
    task = TaskSpec(command="x", rerunnable=True)
    job = world.submit(task, run_time=Seconds(60.0), end_by=within(world, 100))
    world.wait(41)
    with pytest.raises(BadRequest, match="end-by"):
        world.do(RequeueJob(by=ROOT, job=job))
    world.end(job, 1, exit_code=1)
    with pytest.raises(BadRequest, match="end-by"):
        world.do(RequeueJob(by=ROOT, job=job, archived=world.archived(job)))
    assert state(world, job) is JobState.FAILED


def test_many_jobs_with_one_deadline_are_few_classes_in_the_queue() -> None:
    world, _ = blocked()
    end = within(world, 1000)
    for _ in range(40):
        world.submit(TASK, end_by=end)
        world.clock.advance(Seconds(1.0))
    assert len(world.cluster.queue.by_request) <= 3
