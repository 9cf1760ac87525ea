"""Limits of GPU-minutes, and of what running jobs may still use: who waits, and when a job starts."""

from collections.abc import Iterator
from itertools import product
from math import log

import pytest
from msgspec.structs import replace
from test_processor_minutes import HALF_LIFE, Ledger, limit_sentences, play, starts, until_next_wake
from worlds import ADA, BOB, ROOT, World

from depth import thinned
from headnode.core.model.errors import WrongState
from headnode.core.model.job import Alternative, JobSpec, UnitType
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.model.task import TaskSpec
from headnode.core.model.user import User
from headnode.core.scheduling.policies import POLICIES
from headnode.core.state.join import RegisterNode
from headnode.core.state.limit_use import limits_in_use
from headnode.core.state.modify import ModifyJob
from headnode.core.state.nodes import SetParameter, SetUserGroups
from headnode.core.state.suspend import ResumeJob, SuspendJob
from headnode.core.state.transitions import JobState
from headnode.engine.prediction import REPLAYS, PredictionInput, look_ahead

TASK = TaskSpec(command="x", rerunnable=True)
ADAS = "user,gpu-minutes,ada"


def world_with(gpus: int, half_life: int = 604_800, **limits: str) -> World:
    """Return a cluster whose node has two processors for each GPU."""
    world = World()
    world.do(RegisterNode(facts=NodeFacts(name="g", processors=2 * gpus, gpus=gpus), approved=True))
    for name, value in {"UsageHalfLife": str(half_life), **limits}.items():
        world.do(SetParameter(by=ROOT, name=name, value=value))
    return world


def submit(world: World, gpus: int, minutes: float, by: User = ADA, **options: object) -> JobId:
    """Submit a job with one processor for each GPU; without GPUs, of one processor."""
    unit = {"unit": UnitType.GPU} if gpus else {}
    size = max(1, gpus)
    time = {"run_time": Seconds(minutes * 60)} if minutes else {}
    task = replace(TASK, minimum=size, maximum=size) if gpus else TASK
    return world.submit(task, by=by, **{"minimum": size, "maximum": size, **unit, **time, **options})


def in_use(world: World, key: str = ADAS) -> int:
    """Return the seconds that are used or reserved of a limit."""
    return limits_in_use(world.cluster, [key], world.clock.now()).get(key, 0)


def test_gpu_minutes_count_gpus_and_not_the_processors_that_come_with_them() -> None:
    world = world_with(4, UserLimits="ada:gpu-minutes=100")
    first = submit(world, 2, 40, processors_per_gpu=2)
    assert in_use(world) == 80 * 60
    second, plain, other = submit(world, 1, 30), submit(world, 0, 9000), submit(world, 1, 9000, by=BOB)
    assert [starts(world, job) for job in (first, second, plain, other)] == [True, False, True, True]
    assert limit_sentences(world, second) == [
        "user 'ada' may use 100 GPU-minutes and has 80 used or reserved for running jobs; the job may use 30"
    ]
    world.wait(600)
    world.end(first, 1)
    assert starts(world, second)
    assert in_use(world) == pytest.approx((20 + 30) * 60, abs=2)
    world.check_replay()


def test_a_job_starts_when_gpu_minutes_have_decayed_or_the_limit_is_raised() -> None:
    for raised in (False, True):
        world = world_with(2, half_life=3600, UserLimits="*:gpu-minutes=100")
        first = submit(world, 2, 50)
        world.clock.advance(Seconds(2400))
        world.end(first, 1)
        used = world.cluster.usage.used_by_owner("ada", world.clock.now(), gpus=True)
        waiting = submit(world, 1, 60)
        assert not starts(world, waiting)
        world.engine.recover()
        if raised:
            world.do(SetParameter(by=ROOT, name="UserLimits", value="*:gpu-minutes=130"))
            assert starts(world, waiting)
            continue
        waited = 0.0
        while not starts(world, waiting):
            waited += until_next_wake(world)
        assert waited == pytest.approx(3600 * log(used / 2400) / log(2), abs=2)
        world.check_replay()


def test_members_of_a_group_and_users_of_a_project_share_gpu_minutes() -> None:
    world = world_with(8, ProjectLimits="wind:gpu-minutes=60", GroupLimits="students:gpu-minutes=90")
    world.do(SetUserGroups(groups={"ada": ("students",), "bob": ("students",)}))
    submit(world, 1, 50, project="wind")
    same_project = submit(world, 1, 20, by=ROOT, project="wind")
    same_group, other = submit(world, 1, 50, by=BOB), submit(world, 1, 30, by=BOB)
    assert [starts(world, job) for job in (same_project, same_group, other)] == [False, False, True]
    assert in_use(world, "group,gpu-minutes,students") == 80 * 60
    assert in_use(world, "project,gpu-minutes,wind") == 50 * 60


def test_a_job_that_owns_its_node_uses_the_gpus_that_it_asks_for() -> None:
    world = world_with(4, half_life=3_153_600_000, UserLimits="*:gpu-minutes=50")
    job = submit(world, 2, 20, exclusive=True)
    assert starts(world, job)
    assert in_use(world) == 40 * 60
    world.wait(600)
    assert in_use(world) == pytest.approx(40 * 60, abs=2)
    world.end(job, 1)
    assert in_use(world) == pytest.approx(20 * 60, abs=2)
    assert [starts(world, submit(world, 1, minutes)) for minutes in (31, 30)] == [False, True]
    world.check_replay()


def test_a_limit_of_gpu_minutes_for_each_job_bounds_growth_and_longer_run_time_limits() -> None:
    world = world_with(4, UserLimits="*:gpu-minutes-per-job=90")
    task = replace(TASK, minimum=1, maximum=1)
    sweep = world.submit(
        *[task] * 4, by=ADA, unit=UnitType.GPU, minimum=1, maximum=4, run_time=Seconds(1800.0)
    )
    assert len(world.dispatched(sweep)) == 3
    job = submit(world, 1, 60, by=BOB)
    for minutes, refused in ((91, True), (90, False)):
        spec = replace(world.cluster.written(world.record(job)), run_time=Seconds(minutes * 60.0))
        change = ModifyJob(by=BOB, job=job, spec=spec, fields=("run_time",))
        if refused:
            with pytest.raises(WrongState, match="may use 90 GPU-minutes in one job"):
                world.do(change)
        else:
            world.do(change)


def test_a_suspended_job_uses_no_gpu_minutes_and_goes_on_only_when_there_are_enough() -> None:
    world = world_with(4, half_life=3_153_600_000, UserLimits="ada:gpu-minutes=200")
    first = submit(world, 2, 80, suspendable=True)
    world.wait(1200)
    world.do(SuspendJob(by=ROOT, job=first))
    world.do(*world.nodes.stopped(first))
    assert in_use(world) == pytest.approx(40 * 60, abs=2)
    world.wait(3600)
    assert in_use(world) == pytest.approx(40 * 60, abs=2)
    second = submit(world, 1, 70)
    assert starts(world, second)
    world.do(ResumeJob(by=ROOT, job=first))
    assert world.record(first).state is JobState.RESUMING
    assert "the job may use 120" in limit_sentences(world, first)[0]
    world.engine.snapshot_if_due(1)
    world.check_replay()
    world.end(second, 1)
    assert starts(world, first)
    assert in_use(world) == pytest.approx(160 * 60, abs=2)
    world.check_replay()


def test_running_jobs_may_reserve_only_so_many_minutes_and_release_them_as_they_run() -> None:
    """Nothing decays, and nobody ends: the first job has used what the second needs after 20 minutes."""
    for amount, gpus in (("gpu-minutes-running", 1), ("processor-minutes-running", 0)):
        world = world_with(4, half_life=3_153_600_000, UserLimits=f"*:{amount}=100")
        first, second, other = (
            submit(world, gpus, 90),
            submit(world, gpus, 30),
            submit(world, gpus, 90, by=BOB),
        )
        assert [starts(world, job) for job in (first, second, other)] == [True, False, True]
        unit = "GPU" if gpus else "processor"
        assert limit_sentences(world, second) == [
            f"user 'ada' may have 100 {unit}-minutes reserved for running jobs and has 90 reserved; "
            "the job may use 30"
        ]
        world.engine.recover()
        waited = 0.0
        while not starts(world, second):
            waited += until_next_wake(world)
        assert waited == pytest.approx(1200, abs=2)
        world.end(first, 1)
        world.end(second, 1)
        assert starts(world, submit(world, gpus, 100)), "what was used does not count"
        world.check_replay()


@pytest.mark.parametrize(
    ("amount", "lasts", "start"), [("gpu-minutes", 10, 10), ("gpu-minutes-running", 80, 80)]
)
def test_a_predicted_start_counts_what_jobs_give_back_when_they_end(
    amount: str, lasts: float, start: float
) -> None:
    """The first reserves 90 of 100 and the second needs 60.  What was used stays used, until it decays."""
    world = world_with(2, half_life=3_153_600_000, UserLimits=f"ada:{amount}=100")
    first, second = submit(world, 1, 90), submit(world, 1, 60)
    view = replace(world.engine.view(world.clock.now()), ground=None, before=None)
    ends = {first: [Instant(view.now + lasts * 60)] * REPLAYS}
    situation = PredictionInput(view, "easy", {}, ends, {second: [Seconds(60.0)] * REPLAYS})
    foreseen = look_ahead(situation, POLICIES["easy"], lambda: False).foreseen
    assert foreseen[second].middle == pytest.approx(lasts * 60)


def test_a_gang_with_gpus_counts_those_of_all_its_tasks() -> None:
    world = world_with(4, UserLimits="ada:gpu-minutes=100")
    tasks = [replace(TASK, minimum=n, maximum=n) for n in (1, 2)]
    gang = world.submit(*tasks, by=ADA, unit=UnitType.GPU, together=True, run_time=Seconds(1800.0))
    assert starts(world, gang)
    assert in_use(world) == 90 * 60
    world.check_replay()


def test_an_alternative_without_gpus_runs_when_gpu_minutes_are_used_up_and_uses_none() -> None:
    world = world_with(4, UserLimits="ada:gpu-minutes=50")
    submit(world, 1, 40)
    plain = Alternative(unit=UnitType.PROCESSOR, minimum=2, maximum=2)
    job = submit(world, 2, 20, alternatives=(plain,))
    assert starts(world, job)
    assert in_use(world) == 40 * 60
    world.check_replay()


def test_a_limit_that_is_set_while_jobs_run_counts_what_they_may_use_and_one_without_end_reserves_all() -> (
    None
):
    world = world_with(4)
    endless, first = submit(world, 1, 0), submit(world, 1, 30, by=BOB)
    world.do(SetParameter(by=ROOT, name="UserLimits", value="*:gpu-minutes=70,gpu-minutes-running=50"))
    assert in_use(world) == 70 * 60
    assert in_use(world, "user,gpu-minutes-running,ada") == 50 * 60
    assert in_use(world, "user,gpu-minutes,bob") == 30 * 60
    second, third = submit(world, 1, 21, by=BOB), submit(world, 1, 1)
    assert [starts(world, job) for job in (endless, first, second, third)] == [True, True, False, False]
    world.do(SetParameter(by=ROOT, name="UserLimits", value="*:gpu-minutes=70,gpu-minutes-running=51"))
    assert starts(world, second)


# All short histories of a small world

LIMIT = 6 * 60
SIZES = ((1, 60), (2, 60), (1, 240), (0, 240))  # GPUs and seconds
STEPS = (*SIZES, "end", 60, 150)


def gpus_of(spec: JobSpec) -> int:
    return (spec.minimum or 1) if spec.unit is UnitType.GPU else 0


def gpus_in_queue(world: World) -> Iterator[tuple[int, float]]:
    """Yield the GPUs and the run time limit of the first waiting job, if it waits for GPUs."""
    for turn in sorted(t for turns in world.cluster.queue.by_request.values() for t in turns)[:1]:
        spec = world.cluster.spec(world.record(turn.job))
        if spec.unit is UnitType.GPU:
            yield spec.minimum or 1, spec.run_time


@pytest.mark.parametrize("amount", ["gpu-minutes", "gpu-minutes-running"])
@pytest.mark.parametrize("policy", ["easy", "conservative"])
def test_no_history_starts_a_job_above_the_limit_of_gpus_or_keeps_one_out_below(
    policy: str, amount: str
) -> None:
    kept_out = started = 0
    for steps in thinned(product(STEPS, repeat=4)):
        world = world_with(3, half_life=HALF_LIFE, UserLimits=f"ada:{amount}=6")
        world.do(SetParameter(by=ROOT, name="SchedulingPolicy", value=policy))
        ledger = Ledger(gpus_of)
        for _ in play(world, steps, submit):
            fresh, now = ledger.note(world), world.clock.now()
            total = ledger.total(now, used=amount == "gpu-minutes")
            started += len(fresh)
            assert not fresh or total <= LIMIT + 0.01, steps
            running = world.cluster.running
            specs = [world.cluster.spec(world.record(job)) for job in running]
            free = 3 - sum(map(gpus_of, specs))
            for gpus, seconds in gpus_in_queue(world):
                assert gpus > free or total + gpus * seconds > LIMIT - 1.5, steps
                kept_out += gpus <= free
    assert min(kept_out, started) > 20
