"""Who waits with a higher priority gets what others hold, and nobody is preempted for nothing."""

from itertools import islice, product
from typing import Any

import pytest
from asked_filters import FilteredWorld
from worlds import ROOT, World

from headnode.core.filtering import ActivationVerdict
from headnode.core.model.job import Licence
from headnode.core.model.quantities import Instant, JobId, Priority
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.model.template import JobTemplate
from headnode.core.state import job_events as e
from headnode.core.state.job_record import FilterReply
from headnode.core.state.nodes import SetParameter
from headnode.core.state.stop import StopJob
from headnode.core.state.templates import SetTemplate
from headnode.core.state.transitions import JobState

LOW, HIGH = Priority(1000), Priority(3000)


def one(*, rerunnable: bool = True, processors: int = 1) -> TaskSpec:
    return TaskSpec(command="x", rerunnable=rerunnable, minimum=processors, maximum=processors)


def sweep(end: int) -> TaskSpec:
    return TaskSpec(command="x", kind=TaskType.SWEEP, start=1, end=end, rerunnable=True)


def world_with(kind: str, *processors: int, **parameters: str) -> World:
    world = World(*processors)
    for name, value in {"PreemptionType": kind, **parameters}.items():
        world.do(SetParameter(by=ROOT, name=name, value=value))
    return world


def states(world: World, *jobs: JobId) -> list[str]:
    return [world.record(job).state.value for job in jobs]


def stop_all(world: World) -> None:
    """Let everything end that was told to stop."""
    for held in list(world.nodes.stopping()):
        world.do(world.nodes.ended(held, world.clock.now(), kind="stopped"))


def test_nobody_is_preempted_unless_the_administrator_says_so() -> None:
    world = World(1)
    low, high = world.submit(one(), priority=LOW), world.submit(one(), priority=HIGH)
    assert states(world, low, high) == ["running", "queued"]


def test_immediately_the_lower_job_is_stopped_and_queued_again_and_the_higher_starts() -> None:
    world = world_with("Immediate", 1)
    low = world.submit(one(), priority=LOW)
    high = world.submit(one(), priority=HIGH)
    assert states(world, low, high) == ["ending", "queued"]
    stop_all(world)
    assert states(world, low, high) == ["queued", "running"]
    world.end(high, 1)
    assert states(world, low, high) == ["running", "finished"]
    world.end(low, 1)
    assert world.record(low).state is JobState.FINISHED
    world.check_replay()


def test_an_equal_priority_preempts_nobody() -> None:
    world = world_with("Immediate", 1)
    first, second = world.submit(one(), priority=LOW), world.submit(one(), priority=LOW)
    assert states(world, first, second) == ["running", "queued"]


def test_what_is_given_up_is_kept_for_whom_it_was_given_up() -> None:
    world = world_with("Immediate", 1, 1)
    lows = [world.submit(one(), priority=LOW) for _ in range(2)]
    high = world.submit(one(processors=1), priority=HIGH, minimum=2, maximum=2)
    other = world.submit(one(), priority=LOW)
    held = list(world.nodes.stopping())
    assert len(held) == 2
    world.do(world.nodes.ended(held[0], world.clock.now(), kind="stopped"))
    assert states(world, high, other) == ["queued", "queued"], "the free one is kept"
    stop_all(world)
    assert states(world, *lows, high) == ["queued", "queued", "running"]


def test_the_lowest_then_the_youngest_go_and_no_more_than_needed() -> None:
    world = world_with("Immediate", 4)
    lowest = world.submit(one(), priority=Priority(500))
    world.wait(1)
    older = world.submit(one(), priority=LOW)
    world.wait(1)
    younger = world.submit(one(), priority=LOW)
    equal = world.submit(one(), priority=HIGH)
    world.submit(one(), priority=HIGH, minimum=2, maximum=4)
    assert states(world, lowest, older, younger, equal) == ["ending", "running", "ending", "running"]


def test_one_job_goes_rather_than_several_of_its_priority() -> None:
    world = world_with("Immediate", 4)
    large = world.submit(one(processors=2), priority=LOW)
    world.wait(1)
    small = [world.submit(one(), priority=LOW) for _ in range(2)]
    world.submit(one(processors=2), priority=HIGH)
    assert states(world, large, *small) == ["ending", "running", "running"]


@pytest.mark.parametrize(
    "asks",
    [
        {"minimum": 3, "maximum": 3},
        {"licences": (Licence("solver", 1),)},
        {"exclusive": True},
        {"requested_nodes": ("node9",)},
    ],
    ids=lambda asks: next(iter(asks)),
)
def test_nobody_is_preempted_who_would_not_let_the_other_start(asks: dict[str, Any]) -> None:
    world = world_with("Immediate", 2, Licences="solver:1")
    holds = {"licences": (Licence("solver", 1),)} if "licences" in asks else {}
    keeps = world.submit(one(), priority=HIGH, **holds)
    low = world.submit(one(), priority=LOW)
    high = world.submit(one(), priority=HIGH, **asks)
    assert states(world, keeps, low, high) == ["running", "running", "queued"]


def test_a_licence_is_a_reason_to_preempt_who_holds_it() -> None:
    world = world_with("Immediate", 4, Licences="solver:1")
    other = world.submit(one(), priority=LOW)
    holder = world.submit(one(), priority=LOW, licences=(Licence("solver", 1),))
    high = world.submit(one(), priority=HIGH, licences=(Licence("solver", 1),))
    assert states(world, other, holder, high) == ["running", "ending", "queued"]
    stop_all(world)
    assert states(world, other, holder, high) == ["running", "queued", "running"]


@pytest.mark.parametrize("kind", ["Immediate", "Graceful"])
def test_who_owns_its_nodes_gets_a_whole_node_of_others_and_gives_only_whole_ones(kind: str) -> None:
    world = world_with(kind, 2)
    low = [world.submit(one(), priority=LOW) for _ in range(2)]
    high = world.submit(sweep(4), priority=HIGH, minimum=2, maximum=2, exclusive=True)
    plan = world.engine.last_plan
    assert plan is not None
    assert [claim.job for claim in plan.claims] == [high]
    highest = world.submit(one(), priority=Priority(4000))
    for held in world.nodes.running():
        if held.job in low:
            how = "stopped" if kind == "Immediate" else "exited"
            world.do(world.nodes.ended(held, world.clock.now(), kind=how))
    assert states(world, highest) == ["running"]
    world.end(highest, 1)
    assert states(world, high) == ["running"]
    urgent = world.submit(one(), priority=Priority(4000))
    if kind == "Graceful":
        world.end(high, 1, 1)
        assert len(world.record(high).run.allocation["node1"]) == 2, "half of its node is of no use to others"
        assert len(world.dispatched(high)) == 1
        world.end(high, 1, 2)
    stop_all(world)
    assert states(world, high, urgent) == ["queued", "running"]


def test_nobody_is_preempted_again_for_a_job_that_its_filter_did_not_let_start() -> None:
    world = world_with("Immediate", 1)
    low = world.submit(one(), priority=LOW)
    world.engine.cluster.agenda.pass_needed = False
    high = world.submit(one(), priority=HIGH, hold_until=Instant(world.clock.now() + 10))
    world.record(high).filter_reply = FilterReply(at=world.clock.now(), verdict="wait", filter="f")
    world.wait(11)
    assert states(world, low, high) == ["running", "queued"]


@pytest.mark.parametrize("what", ["task", "job"])
def test_who_may_not_run_twice_or_says_no_is_not_preempted(what: str) -> None:
    world = world_with("Immediate", 1)
    low = world.submit(one(rerunnable=what != "task"), priority=LOW, preemptable=what != "job")
    world.submit(one(), priority=HIGH)
    assert states(world, low) == ["running"]


def test_nobody_is_preempted_while_what_is_ending_anyway_will_do() -> None:
    world = world_with("Immediate", 2)
    canceled, low = world.submit(one(), priority=LOW), world.submit(one(), priority=LOW)
    world.do(StopJob(by=ROOT, job=canceled, outcome="canceled"))
    high = world.submit(one(), priority=HIGH)
    assert states(world, canceled, low, high) == ["ending", "running", "queued"]


def test_in_parts_only_the_tasks_are_stopped_whose_processors_are_needed() -> None:
    world = world_with("Immediate", 3, TaskImmediatePreemption="yes")
    low = world.submit(sweep(5), priority=LOW, minimum=1, maximum=3)
    high = world.submit(one(), priority=HIGH)
    assert len(list(world.nodes.stopping())) == 1
    stop_all(world)
    assert states(world, low, high) == ["running", "running"]
    assert len(world.dispatched(low)) == 2
    last = world.submit(one(processors=2), priority=HIGH)
    assert states(world, low, last) == ["ending", "queued"], "it would have less than its minimum"


def test_gracefully_the_lower_job_gives_up_processors_as_its_tasks_end_and_goes_on() -> None:
    world = world_with("Graceful", 3)
    low = world.submit(sweep(9), priority=LOW, minimum=1, maximum=3)
    high = world.submit(one(processors=2), priority=HIGH)
    assert list(world.nodes.stopping()) == []
    world.end(low, 1, 1)
    assert states(world, low, high) == ["running", "queued"]
    world.end(low, 1, 2)
    assert states(world, low, high) == ["running", "running"]
    assert len(world.dispatched(low)) == 1
    world.end(high, 1)
    assert len(world.dispatched(low)) == 3, "it grows again"
    world.check_replay()


def test_gracefully_who_would_keep_less_than_its_minimum_goes_back_to_the_queue() -> None:
    world = world_with("Graceful", 2)
    low = world.submit(sweep(4), priority=LOW, minimum=2, maximum=2)
    high = world.submit(one(), priority=HIGH)
    world.end(low, 1, 1)
    assert states(world, low, high) == ["running", "running"], "one of its processors is enough"
    world.end(low, 1, 2)
    record = world.record(low)
    assert states(world, low, high) == ["queued", "running"]
    assert (record.run.auto_requeues, record.run.requeues) == (0, 1)
    assert record.message == f"preempted by job {high}"
    assert record.run.tasks[0].finished.count == 2
    world.end(high, 1)
    assert sorted(world.dispatched(low)) == [(1, 3), (1, 4)]


def test_gracefully_what_was_recalled_is_kept_when_the_other_is_gone() -> None:
    world = world_with("Graceful", 2)
    low = world.submit(sweep(4), priority=LOW, minimum=1, maximum=2)
    high = world.submit(one(), priority=HIGH)
    assert world.record(low).run.recalled == {"node1": 1}
    world.do(StopJob(by=ROOT, job=high, outcome="canceled"))
    assert world.record(low).run.recalled == {}
    world.end(low, 1, 1)
    assert len(world.dispatched(low)) == 2


def test_gracefully_one_job_gives_to_several_others() -> None:
    world = world_with("Graceful", 3)
    low = world.submit(sweep(9), priority=LOW, minimum=1, maximum=3)
    first, second = world.submit(one(), priority=HIGH), world.submit(one(), priority=HIGH)
    record = world.record(low)
    assert (record.run.recalled, record.run.recalled_for) == ({"node1": 2}, (first, second))
    world.end(low, 1, 1)
    assert states(world, low, first, second) == ["running", "running", "queued"]
    world.end(low, 1, 2)
    assert states(world, low, first, second) == ["running", "running", "running"]
    world.check_replay()


def test_who_ends_by_itself_because_it_was_finished_gracefully_is_not_preempted() -> None:
    world = world_with("Immediate", 1, 1)
    other = world.submit(one(), priority=LOW)
    world.wait(1)
    finishing = world.submit(sweep(2), priority=LOW, maximum=1)
    world.do(StopJob(by=ROOT, job=finishing, outcome="finished", graceful=True))
    high = world.submit(one(), priority=HIGH)
    assert states(world, finishing, other, high) == ["running", "ending", "queued"]


def test_who_is_preempted_is_told_for_whom_and_so_is_who_waits() -> None:
    world = world_with("Immediate", 1)
    low = world.submit(one(), priority=LOW)
    high = world.submit(one(), priority=HIGH)
    plan = world.engine.last_plan
    assert plan is not None
    assert [(claim.job, claim.why.text) for claim in plan.claims] == [
        (high, f"job {low} is being preempted for it")
    ]
    stop_all(world)
    assert world.record(low).message == f"preempted by job {high}"


KINDS = ("Immediate", "Graceful", "parts")
JOBS = (
    {"minimum": 1, "maximum": 1},
    {"minimum": 1, "maximum": 3},
    {"minimum": 2, "maximum": 2},
    {"minimum": 1, "maximum": 2, "exclusive": True},
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("policy", ["easy", "fcfs", "conservative", "conservative-replan"])
def test_in_every_small_world_only_higher_jobs_preempt_nothing_is_lost_and_all_ends(
    kind: str, policy: str
) -> None:
    every = 2 if policy == "easy" else 9
    for first, second, third in islice(product(JOBS, repeat=3), 0, None, every):
        parts = kind == "parts"
        world = world_with(
            "Immediate" if parts else kind,
            2,
            1,
            SchedulingPolicy=policy,
            TaskImmediatePreemption="yes" if parts else "no",
        )
        jobs = {
            world.submit(sweep(3), priority=Priority(priority), **asks): priority
            for priority, asks in ((500, first), (1000, second), (3000, third))
        }
        _live(world, jobs)
        _check(world, jobs)


def _live(world: World, jobs: dict[JobId, int]) -> None:
    """Let what is to stop, stop, and one thing end after the other, until all is over."""
    for _ in range(60):
        if not jobs.keys() & world.cluster.jobs.keys():
            return
        stop_all(world)
        running = world.nodes.running()
        if running:
            world.do(world.nodes.ended(running[0], world.clock.now()))
        world.wait(1)
    raise AssertionError(f"jobs do not end: {[world.record(job) for job in jobs]}")


def _check(world: World, jobs: dict[JobId, int]) -> None:
    for job in jobs:
        progress = world.record(job).run.tasks[0]
        assert progress.finished.count == 3
        assert (progress.system_retries, progress.retries, world.record(job).run.auto_requeues) == ({}, {}, 0)
    owed: dict[JobId, int] = {}  # by who was preempted, for whom
    for _, event in world.journal.replay():
        match event:
            case e.JobEnding(job=job, requeue=True, preempted_by=other):
                assert jobs[JobId(other)] > jobs[job]
                owed[job] = other
            case e.ProcessorsRecalled(job=job, for_jobs=others):
                assert all(jobs[JobId(other)] > jobs[job] for other in others)
                owed |= dict.fromkeys((job,), others[-1]) if others else {}
            case e.JobStarted(job=job) | e.AllocationGrown(job=job):
                assert job not in owed, "it has what it gave up again, before who was to have it"
                first = jobs[job]  # who comes later with a higher priority may have it instead
                owed = {g: other for g, other in owed.items() if other != job and jobs[JobId(other)] >= first}
    world.check_replay()


def test_what_is_given_up_is_kept_while_a_filter_is_asked_about_who_is_to_have_it() -> None:
    world = FilteredWorld(1, everybody=False, PreemptionType="Immediate")
    world.do(SetTemplate(by=ROOT, template=JobTemplate(name="asked")))
    low = world.submit(one(), priority=LOW)
    high = world.submit(one(), priority=HIGH, template="asked")
    stop_all(world)
    assert states(world, low, high) == ["queued", "queued"], "its filter is asked"
    world.answer(high, ActivationVerdict.START)
    assert states(world, low, high) == ["queued", "running"]
