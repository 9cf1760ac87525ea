"""What a million instances, a hundred thousand jobs or ten thousand tasks cost: counted, not timed."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from msgspec.structs import replace
from worlds import ROOT, World

from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Instant, JobId
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.state.command import Command
from headnode.core.state.modify import ModifyJob, RequeueJob
from headnode.core.state.report import ReportStarted
from headnode.core.state.stop import RequeueTask, StopJob, StopTask
from headnode.core.state.submit import CreateJob, SubmitJob
from headnode.core.state.transitions import JobState

import_module(
    "headnode.core.scheduling.preempt"
)  # else the first pass with more than one job counts its lines
TRUE = TaskSpec(command="x", rerunnable=True)
MILLION = TaskSpec(command="x *", kind=TaskType.SWEEP, start=1, end=1_000_000, rerunnable=True)


class Lines:
    """How many lines of Python ran."""

    count = 0


@contextmanager
def counted() -> Iterator[Lines]:
    lines = Lines()

    def trace(frame: object, event: str, argument: object) -> object:
        lines.count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield lines
    finally:
        sys.settrace(before)


def handle(world: World, *commands: Command) -> int:
    """Return how many lines one batch takes; invariants, which look at everything, are left out."""
    with counted() as lines:
        for answer in world.engine.handle(commands):
            assert isinstance(answer, tuple), answer
    return lines.count


def report_lines(world: World, job: JobId) -> int:
    held = next(held for held in world.nodes.running() if held.job == job)
    now = world.clock.now()
    return handle(world, world.nodes.ended(held, now, started=Instant(now - 60)))


def test_canceling_requeueing_and_modifying_a_sweep_of_a_million_takes_steps_by_the_span() -> None:
    world = World(1)
    answers = world.engine.handle([CreateJob(by=ROOT, spec=JobSpec(tasks=(MILLION,)), submit=True)])
    job = answers[0][0].job
    report_lines(world, job)
    stop = StopJob(by=ROOT, job=job, outcome="canceled")
    assert handle(world, stop) < 2_000
    held = world.nodes.running()[0]
    assert handle(world, world.nodes.ended(held, world.clock.now(), kind="stopped")) < 2_000
    assert handle(world, RequeueJob(by=ROOT, job=job, archived=world.archived(job))) < 4_000
    run = world.record(job).run
    assert run is not None
    assert len(run.tasks[0].attempts) < 10
    assert handle(world, StopTask(by=ROOT, job=job, task=1)) < 2_000
    assert handle(world, RequeueTask(by=ROOT, job=job, task=1)) < 2_000


def test_a_job_that_ran_and_was_modified_uses_no_attempt_number_twice() -> None:
    world = World(1)
    sweep = TaskSpec(command="x *", kind=TaskType.SWEEP, start=1, end=3, rerunnable=True)
    job = world.submit(sweep)
    for kind in ("lost", "stopped", "exited"):
        if kind == "stopped":
            world.do(RequeueJob(by=ROOT, job=job))
        world.end(job, 1, 1, kind=kind, exit_code=1)
    world.do(StopJob(by=ROOT, job=job, outcome="canceled"))
    world.end(job, 1, 2, kind="stopped")
    change = ModifyJob(
        by=ROOT, job=job, spec=JobSpec(name="n"), fields=("name",), archived=world.archived(job)
    )
    world.do(change)
    world.do(SubmitJob(by=ROOT, job=job))
    assert [(held.instance, held.attempt) for held in world.nodes.running()] == [(1, 4)]
    world.end(job, 1, 1)
    assert [(held.instance, held.attempt) for held in world.nodes.running()] == [(2, 4)]


def test_a_report_costs_the_same_in_a_job_of_ten_tasks_and_of_three_thousand() -> None:
    lines = []
    for count in (10, 3000):
        world = World(2)
        job = world.submit(*[TRUE] * count)
        report_lines(world, job)
        lines.append(report_lines(world, job))
    assert lines[1] < 1.5 * lines[0]


def test_a_report_costs_the_same_where_a_thousand_elements_of_another_array_are_blocked_one_by_one() -> None:
    lines = []
    for count in (10, 1000):
        world = World(1)
        array = TaskSpec(command="x", kind=TaskType.SWEEP, start=1, end=3000, increment=2)
        job = world.submit(array)
        every = replace(array, increment=1)
        answers = world.engine.handle(
            [CreateJob(by=ROOT, spec=JobSpec(tasks=(every,), after_corresponding=(job,)), submit=True)]
        )
        for _ in range(count):  # then every second element of the other array is free
            held = world.nodes.running()[0]
            world.engine.handle([world.nodes.ended(held, world.clock.now())])
        run = world.record(answers[0][0].job).run
        assert run is not None
        assert len(run.tasks[0].blocked.firsts) == count
        lines.append(report_lines(world, job))
    assert lines[1] < 1.5 * lines[0]


def test_a_report_costs_the_same_where_three_thousand_tasks_wait_for_a_busy_node() -> None:
    lines = []
    for count in (10, 1500):
        world = World(1, 1)
        tied = TaskSpec(command="x", rerunnable=True, required_nodes=("node1",))
        job = world.submit(TRUE, *[tied] * count, minimum=2, maximum=2)
        world.do(ReportStarted(node="node1", job=job, starts=()))
        lines.append(report_lines(world, job))
    assert lines[1] - lines[0] < 1500 * 16  # a look or two at each, and no more


def test_a_submission_costs_the_same_behind_ten_jobs_and_behind_three_thousand_queued_and_held() -> None:
    lines = []
    for count in (10, 3000):
        world = World(1)
        world.submit(TRUE)
        later = Instant(world.clock.now() + 60)
        specs = (JobSpec(tasks=(TRUE,)), JobSpec(tasks=(TRUE,), hold_until=later))
        create = [CreateJob(by=ROOT, spec=spec, submit=True) for spec in specs]
        world.engine.handle(create * count)
        with counted() as counting:
            world.engine.handle(create[:1])
            world.engine.next_wake()
            world.engine.tick()
        lines.append(counting.count)
    assert lines[1] < 1.5 * lines[0]


def test_every_one_of_many_holds_is_released_when_its_time_has_come() -> None:
    world = World(4)
    now = world.clock.now()
    jobs = [world.submit(hold_until=Instant(now + 1 + n % 7)) for n in range(50)]
    world.wait(7)
    assert {world.record(job).state for job in jobs} == {JobState.FINISHED}
