"""Jobs that start earlier with a lower run time limit: their limits, their ends, and the jobs they pass."""

import pytest
from asked_filters import FilteredWorld
from msgspec.structs import replace
from worlds import ADA, ROOT, World

from headnode.core.filtering import ActivationVerdict
from headnode.core.formats.batch import read_script
from headnode.core.model.errors import BadRequest, WrongState
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.model.task import TaskSpec
from headnode.core.scheduling.policies import POLICIES
from headnode.core.scheduling.reasons import explain
from headnode.core.state.modify import ModifyJob, RequeueJob
from headnode.core.state.nodes import SetParameter
from headnode.core.state.transitions import JobState
from headnode.engine.simulate_ahead import simulate_ahead, to_the_limits

HOUR = 3600.0
BACKFILL = pytest.mark.parametrize("policy", sorted(POLICIES.keys() - {"fcfs"}))


def one(made: World, size: int = 1, hours: float = 1.0, **options: object) -> JobId:
    task = TaskSpec(command="x", minimum=size, maximum=size, rerunnable=True)
    return made.submit(task, by=ADA, run_time=Seconds(hours * HOUR), **options)


def blocked(policy: str, made: World | None = None) -> tuple[World, JobId]:
    """Return two processors, of which one is busy for an hour, and the job for both that waits for it."""
    made = World(2) if made is None else made
    made.do(SetParameter(by=ROOT, name="SchedulingPolicy", value=policy))
    one(made)
    return made, one(made, 2)


def limit(made: World, job: JobId) -> float:
    return made.cluster.spec(made.record(job)).run_time


def state(made: World, job: JobId) -> JobState:
    return made.record(job).state


@BACKFILL
def test_a_job_starts_at_once_with_a_limit_that_delays_no_other_and_is_ended_at_it(policy: str) -> None:
    made, head = blocked(policy)
    promised = [each.at for each in made.engine.plan(made.clock.now()).reservations]
    made.wait(600)
    job = one(made, hours=2, minimum_run_time=Seconds(1200.0))
    assert state(made, job) is JobState.RUNNING
    assert limit(made, job) == HOUR - 600
    assert [each.at for each in made.engine.plan(made.clock.now()).reservations] == promised
    made.check_replay()
    made.wait(HOUR - 601)
    assert state(made, job) is JobState.RUNNING
    made.wait(1)
    assert state(made, job) is not JobState.RUNNING
    made.check_replay()
    assert head


@BACKFILL
def test_a_job_waits_when_its_lowest_limit_is_too_long_and_the_reason_names_it(policy: str) -> None:
    made, _ = blocked(policy)
    for least in (None, Seconds(1.5 * HOUR)):
        job = one(made, hours=2, minimum_run_time=least)
        assert state(made, job) is JobState.QUEUED
        view, request = made.engine.view(made.clock.now()), made.cluster.request(made.record(job))
        found = [each.text for each in explain(view, made.engine.plan(made.clock.now()), request)]
        assert any("with a run time limit of 1h30m" in text for text in found) is (least is not None), found


def test_without_backfill_no_limit_is_lowered() -> None:
    made, _ = blocked("fcfs")
    assert state(made, one(made, hours=2, minimum_run_time=Seconds(60.0))) is JobState.QUEUED


@BACKFILL
def test_a_job_that_fits_with_its_own_limit_keeps_it(policy: str) -> None:
    made, _ = blocked(policy)
    assert limit(made, one(made, hours=1, minimum_run_time=Seconds(60.0))) == HOUR


@BACKFILL
def test_what_is_foreseen_of_later_jobs_counts_the_lowered_limit(policy: str) -> None:
    made, _ = blocked(policy)
    busy = one(made, hours=0.5)
    job = one(made, hours=2, minimum_run_time=Seconds(1200.0))
    after = one(made, hours=0.75)
    assert limit(made, busy) == HOUR / 2
    assert state(made, job) is JobState.QUEUED
    view = made.engine.view(made.clock.now())
    ends = {each.job: each.end for each in view.running}
    course = simulate_ahead(view, POLICIES[policy], ends, to_the_limits(view), lambda: False)
    started = {name: at - made.clock.now() for name, at in course.starts.items()}
    assert (started[job], started[after]) == (HOUR / 2, 2 * HOUR)
    made.wait(HOUR / 2)
    made.end(busy, 1)
    assert limit(made, job) == HOUR / 2


def test_a_requeued_job_has_its_own_limit_again() -> None:
    made, _ = blocked("easy")
    job = one(made, hours=2, minimum_run_time=Seconds(60.0))
    assert limit(made, job) == HOUR
    made.wait(HOUR - 30)
    made.do(RequeueJob(by=ROOT, job=job))
    made.end(job, 1, kind="stopped")
    made.check_replay()
    assert state(made, job) is JobState.QUEUED
    assert limit(made, job) == 2 * HOUR


def test_the_limit_of_a_running_job_that_was_lowered_does_not_change() -> None:
    made, _ = blocked("easy")
    job = one(made, hours=2, minimum_run_time=Seconds(60.0))
    spec = made.cluster.written(made.record(job))
    with pytest.raises(WrongState, match="backfilled"):
        made.do(ModifyJob(by=ADA, job=job, spec=spec, fields=("run_time",)))


def test_another_change_of_such_a_job_leaves_its_lowered_limit_and_its_own() -> None:
    made, _ = blocked("easy")
    job = one(made, hours=2, minimum_run_time=Seconds(60.0))
    end = made.cluster.graph(job).run.deadline
    written = made.cluster.written(made.record(job))
    made.wait(60)
    made.do(ModifyJob(by=ADA, job=job, spec=replace(written, name="other"), fields=("name",)))
    assert (limit(made, job), made.cluster.graph(job).run.deadline) == (HOUR, end)
    assert made.cluster.written(made.record(job)).run_time == 2 * HOUR
    made.check_replay()


@pytest.mark.parametrize("verdict", [ActivationVerdict.START, ActivationVerdict.KEEP_RESOURCES])
def test_a_job_that_filters_let_start_later_has_the_limit_with_which_it_was_offered(
    verdict: ActivationVerdict,
) -> None:
    world = FilteredWorld(2, everybody=False)
    blocked("easy", world)
    job = one(world, hours=2, minimum_run_time=Seconds(60.0), template="asked")
    world.answer(job, verdict)
    if verdict is ActivationVerdict.KEEP_RESOURCES:
        world.check_replay()
        world.wait(10)
        world.answer(job, ActivationVerdict.START)
    assert state(world, job) is JobState.RUNNING
    assert limit(world, job) == HOUR


@pytest.mark.parametrize("least", [0.0, -1.0, 2 * HOUR, float("nan")])
def test_a_minimum_outside_the_limit_is_refused(least: float) -> None:
    with pytest.raises(BadRequest, match="minimum-run-time"):
        one(World(2), minimum_run_time=Seconds(least))


def test_a_deadline_counts_the_lowest_limit() -> None:
    made = World(2)
    end = Instant(made.clock.now() + HOUR)
    with pytest.raises(BadRequest):
        one(made, hours=2, end_by=end)
    job = one(made, hours=2, end_by=end, minimum_run_time=Seconds(HOUR / 2))
    assert made.cluster.graph(job).run.deadline == end


@pytest.mark.parametrize(
    ("line", "limits"),
    [
        ("#SBATCH -t 60 --time-min=30", (3600.0, 1800.0)),
        ("#SBATCH -t 1-0 --time-min 1:30:00", (86400.0, 5400.0)),
        ("#PBS -l min_walltime=10:00,max_walltime=1:00:00", (3600.0, 600.0)),
    ],
)
def test_scripts_of_slurm_and_pbs_give_the_lowest_limit(line: str, limits: tuple[float, float]) -> None:
    spec, _ = read_script(f"#!/bin/sh\n{line}\ntrue\n")
    assert (spec.run_time, spec.minimum_run_time) == limits


@pytest.mark.parametrize("line", ["#SBATCH --time-min=UNLIMITED", "#SBATCH -a 1-3 -t 60 --time-min=30"])
def test_a_lowest_limit_that_cannot_act_is_refused(line: str) -> None:
    with pytest.raises(BadRequest, match="time"):
        read_script(f"#!/bin/sh\n{line}\ntrue\n")
