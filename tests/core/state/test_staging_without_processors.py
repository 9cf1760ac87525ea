"""A job that waits for files gives up its processors, and takes them again when the files are there."""

import pytest
from msgspec.structs import replace
from worlds import ROOT, World

from headnode.core.model.errors import WrongState
from headnode.core.model.job import Licence
from headnode.core.model.quantities import JobId, Seconds
from headnode.core.model.task import TaskSpec
from headnode.core.state.hold import HoldJob, ReleaseJob
from headnode.core.state.job_record import JobRun, decode_spec
from headnode.core.state.modify import ModifyJob
from headnode.core.state.node_loss import GiveUpNode
from headnode.core.state.nodes import NodeVanished, SetParameter
from headnode.core.state.stop import StopJob
from headnode.core.state.suspend import ResumeJob, SuspendJob
from headnode.core.state.transitions import JobState
from testbed.in_process import Held

HOLD_TIME = 10.0
WORK = TaskSpec(command="x", rerunnable=True)


def attempt(world: World, job: JobId, task: int = 1) -> Held:
    return next(each for each in world.nodes.running() if (each.job, each.task) == (job, task))


def run_of(world: World, job: JobId) -> JobRun:
    run = world.record(job).run
    assert run is not None
    return run


def state(world: World, job: JobId) -> JobState:
    return world.record(job).state


def waits_for_files(world: World, job: JobId, *tasks: int) -> None:
    """Let files come for tasks until the job has given up its processors."""
    for task in tasks or (1,):
        world.stage(attempt(world, job, task), "in")
    world.wait(HOLD_TIME)
    assert state(world, job) is JobState.SUSPENDING
    for report in world.nodes.stopped(job):
        world.do(report)
    assert state(world, job) is JobState.SUSPENDED


def begins(world: World, job: JobId, task: int = 1) -> None:
    """Let the program of a task start."""
    world.do(world.nodes.started(attempt(world, job, task), world.clock.now()))


def test_others_have_its_processors_and_licences_until_its_files_are_there() -> None:
    world = World(1)
    world.do(SetParameter(by=ROOT, name="Licences", value="solver:1"))
    first = world.submit(WORK, licences=(Licence("solver", 1),))
    waits_for_files(world, first)
    other = world.submit(WORK, licences=(Licence("solver", 1),))
    assert state(world, other) is JobState.RUNNING
    world.stage(attempt(world, first), "ready")
    assert state(world, first) is JobState.RESUMING
    later = world.submit(WORK)
    world.end(other, 1)
    assert (state(world, first), state(world, later)) == (JobState.RUNNING, JobState.QUEUED)
    begins(world, first)
    world.check_replay()
    world.end(first, 1)
    assert state(world, first) is JobState.FINISHED


def test_it_keeps_them_for_files_that_come_soon() -> None:
    world = World(1)
    job = world.submit(WORK)
    world.stage(attempt(world, job), "in")
    world.wait(HOLD_TIME - 1)
    assert state(world, job) is JobState.RUNNING
    begins(world, job)
    world.wait(HOLD_TIME * 10)
    assert state(world, job) is JobState.RUNNING
    assert run_of(world, job).suspensions == 0


def test_the_administrator_says_how_long_it_keeps_them() -> None:
    world = World(1)
    job = world.submit(WORK)
    world.stage(attempt(world, job), "in")
    world.do(SetParameter(by=ROOT, name="TransferHoldTime", value="100"))
    world.wait(99.0)
    assert state(world, job) is JobState.RUNNING
    world.wait(1.0)
    assert state(world, job) is JobState.SUSPENDING


def test_the_time_is_not_forgotten_by_a_restart() -> None:
    world = World(1)
    job = world.submit(WORK)
    world.stage(attempt(world, job), "in")
    assert world.replayed().agenda.next_due() == world.clock.now() + HOLD_TIME
    waits_for_files(world, job)
    world.check_replay()


def test_its_limit_counts_neither_the_files_nor_the_wait_for_processors() -> None:
    world = World(1)
    job = world.submit(WORK, run_time=Seconds(60.0))
    waits_for_files(world, job)
    other = world.submit(WORK)
    world.wait(1000.0)
    world.stage(attempt(world, job), "ready")
    assert world.cluster.request(world.record(job)).run_time == 60.0
    world.wait(1000.0)
    world.end(other, 1)
    begins(world, job)
    assert run_of(world, job).deadline == world.clock.now() + 60.0
    world.wait(50.0)
    assert state(world, job) is JobState.RUNNING
    world.end(job, 1)
    assert run_of(world, job).usage.wall_time == 50.0
    assert run_of(world, job).suspended_time == 0.0


def test_it_goes_on_when_one_of_its_tasks_can() -> None:
    world = World(2)
    job = world.submit(WORK, WORK, minimum=2, maximum=2)
    waits_for_files(world, job, 1, 2)
    world.stage(attempt(world, job, 2), "ready")
    assert state(world, job) is JobState.RUNNING
    begins(world, job, 2)
    world.wait(HOLD_TIME * 5)
    assert state(world, job) is JobState.RUNNING  # one of them runs
    world.end(job, 2)
    world.wait(HOLD_TIME)
    assert state(world, job) is JobState.SUSPENDING  # and now none does


def test_it_goes_on_when_a_file_cannot_come() -> None:
    world = World(1)
    job = world.submit(WORK, TaskSpec(command="x"), minimum=1, maximum=1)
    waits_for_files(world, job)
    world.end(job, 1, kind="not-staged")
    assert state(world, job) is JobState.RUNNING
    world.end(job, 2)
    assert state(world, job) is JobState.FAILED
    world.check_replay()


def test_a_program_that_starts_before_the_node_has_heard_of_it_goes_on_as_soon_as_it_may() -> None:
    world = World(1)
    job = world.submit(WORK)
    world.stage(attempt(world, job), "in")
    world.wait(HOLD_TIME)
    begins(world, job)
    for report in world.nodes.stopped(job):
        world.do(report)
    assert state(world, job) is JobState.RUNNING
    world.end(job, 1)
    assert state(world, job) is JobState.FINISHED
    world.check_replay()


def test_files_are_only_ready_where_a_job_waits_for_processors() -> None:
    world = World(1)
    job = world.submit(WORK)
    world.stage(attempt(world, job), "ready")
    assert run_of(world, job).tasks[0].live[1].staging == ""
    waits_for_files(world, job)
    other = world.submit(WORK)
    world.stage(attempt(world, job), "ready")
    world.stage(attempt(world, job), "in")  # an old report
    assert run_of(world, job).tasks[0].live[1].staging == "ready"
    world.end(other, 1)
    assert state(world, job) is JobState.RUNNING
    assert run_of(world, job).tasks[0].live[1].staging == ""


def test_it_cannot_be_suspended_or_resumed_by_request_but_held() -> None:
    world = World(1)
    job = world.submit(WORK, suspendable=True)
    waits_for_files(world, job)
    with pytest.raises(WrongState) as refused:
        world.do(SuspendJob(by=ROOT, job=job))
    assert refused.value.code == "staging-in"
    assert world.do(ResumeJob(by=ROOT, job=job)) == ()
    world.do(HoldJob(by=ROOT, job=job, name="night"))
    world.stage(attempt(world, job), "ready")
    assert state(world, job) is JobState.RESUMING
    world.do(ReleaseJob(by=ROOT, job=job, name="night"))
    assert state(world, job) is JobState.RUNNING
    world.check_replay()


def test_one_that_waits_for_processors_is_suspended_until_it_is_resumed() -> None:
    world = World(1)
    job = world.submit(WORK, suspendable=True, run_time=Seconds(60.0))
    waits_for_files(world, job)
    other = world.submit(WORK)
    world.stage(attempt(world, job), "ready")
    world.wait(5.0)
    world.do(SuspendJob(by=ROOT, job=job))
    world.end(other, 1)
    world.wait(100.0)
    assert state(world, job) is JobState.SUSPENDED
    world.do(ResumeJob(by=ROOT, job=job))
    begins(world, job)
    run = run_of(world, job)
    assert (run.suspended_time, run.staged_time, run.deadline) == (100.0, 15.0, world.clock.now() + 60.0)
    world.check_replay()


def test_a_limit_that_is_changed_meanwhile_is_that_of_its_program() -> None:
    world = World(1)
    job = world.submit(WORK, run_time=Seconds(60.0))
    waits_for_files(world, job)
    spec = replace(decode_spec(world.record(job).spec), run_time=Seconds(90.0))
    world.do(ModifyJob(by=ROOT, job=job, spec=spec, fields=("run_time",)))
    world.wait(500.0)
    world.stage(attempt(world, job), "ready")
    assert run_of(world, job).deadline == world.clock.now() + 90.0


def test_a_job_that_is_canceled_meanwhile_ends() -> None:
    world = World(1)
    job = world.submit(WORK)
    waits_for_files(world, job)
    world.do(StopJob(by=ROOT, job=job, outcome="canceled"))
    world.end(job, 1, kind="never-ran")
    assert state(world, job) is JobState.CANCELED
    world.check_replay()


def test_a_node_that_is_lost_meanwhile_sends_it_back_to_the_queue() -> None:
    world = World(1, 1)
    job = world.submit(WORK)
    waits_for_files(world, job)
    node = attempt(world, job).place[0][0]
    world.do(NodeVanished(node=node))
    world.do(GiveUpNode(node=node))
    assert state(world, job) is JobState.RUNNING
    assert node not in run_of(world, job).allocation
    world.check_replay()
