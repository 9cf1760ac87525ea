"""Limits of processor-minutes: what is used and reserved, who waits, and when decay lets a job start."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import product
from math import expm1, log

import pytest
from msgspec.structs import replace
from worlds import ADA, BOB, ROOT, World

from depth import thinned
from headnode.core.model.errors import WrongState
from headnode.core.model.job import Alternative, JobSpec
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.model.task import TaskSpec
from headnode.core.model.user import User
from headnode.core.scheduling.plan import Why
from headnode.core.state.limit_use import limits_in_use
from headnode.core.state.modify import ModifyJob
from headnode.core.state.nodes import SetParameter, SetUserGroups
from headnode.core.state.suspend import ResumeJob, SuspendJob
from headnode.core.state.transitions import JobState

TASK = TaskSpec(command="x", rerunnable=True)
ADAS = "user,processor-minutes,ada"


def world_with(*processors: int, half_life: int = 604_800, **limits: str) -> World:
    world = World(*processors)
    for name, value in {"UsageHalfLife": str(half_life), **limits}.items():
        world.do(SetParameter(by=ROOT, name=name, value=value))
    return world


def submit(world: World, processors: int, minutes: float, by: User = ADA, **options: object) -> JobId:
    time = {"run_time": Seconds(minutes * 60)} if minutes else {}
    return world.submit(TASK, by=by, **{"minimum": processors, "maximum": processors, **time, **options})


def starts(world: World, job: JobId) -> bool:
    return world.record(job).state is JobState.RUNNING


def limit_sentences(world: World, job: JobId) -> list[str]:
    plan = world.engine.plan(world.clock.now())
    reasons = plan.waits[world.cluster.request(world.record(job))].reasons
    return [reason.text for reason in reasons if reason.why is Why.LIMIT]


def until_next_wake(world: World) -> float:
    """Let time go by until the engine has something to do; return how long that was."""
    now, wake = world.clock.now(), world.engine.next_wake()
    assert wake is not None
    world.wait(wake - now)
    return wake - now


def test_a_running_job_reserves_what_it_may_use_and_gives_back_what_it_did_not_use() -> None:
    world = world_with(8, UserLimits="ada:processor-minutes=100")
    first = submit(world, 4, 20)
    second = submit(world, 1, 30)
    other = submit(world, 1, 30, by=BOB)
    assert (starts(world, first), starts(world, second), starts(world, other)) == (True, False, True)
    assert limit_sentences(world, second) == [
        "user 'ada' may use 100 processor-minutes and has 80 used or reserved for running jobs; "
        "the job may use 30"
    ]
    world.wait(240)
    assert not starts(world, second)
    world.end(first, 1)
    assert starts(world, second)
    world.check_replay()


def test_a_job_waits_until_usage_has_decayed_and_starts_then_though_nothing_else_happens() -> None:
    """About 72 of 100 are used; the next job needs 60, so the 72 must become 40."""
    world = world_with(4, half_life=3600, UserLimits="*:processor-minutes=100")
    first = submit(world, 4, 25)
    world.clock.advance(Seconds(1200))
    world.end(first, 1)
    used = world.cluster.usage.used_by_owner("ada", world.clock.now())
    second = submit(world, 1, 60)
    assert not starts(world, second)
    world.engine.recover()
    waited = 0.0
    while not starts(world, second):
        waited += until_next_wake(world)
    assert waited == pytest.approx(3600 * log(used / 2400) / log(2), abs=2)
    world.check_replay()


def test_a_job_of_another_owner_is_in_nobodys_way_while_it_waits_for_its_limit() -> None:
    world = world_with(4, UserLimits="ada:processor-minutes=50")
    submit(world, 1, 40)
    waiting = submit(world, 4, 10)
    behind = submit(world, 3, 600, by=BOB)
    assert (starts(world, waiting), starts(world, behind)) == (False, True)


def test_all_members_of_a_group_and_all_users_of_a_project_count_together() -> None:
    world = world_with(
        8, ProjectLimits="wind:processor-minutes=60", GroupLimits="students:processor-minutes=90"
    )
    world.do(SetUserGroups(groups={"ada": ("students",), "bob": ("students",)}))
    submit(world, 1, 50, project="wind")
    same_project = submit(world, 1, 20, by=ROOT, project="wind")
    same_group = submit(world, 1, 50, by=BOB)
    other = submit(world, 1, 30, by=BOB)
    assert [starts(world, job) for job in (same_project, same_group, other)] == [False, False, True]
    assert "project 'wind' may use 60 processor-minutes and has 50" in limit_sentences(world, same_project)[0]
    assert "group 'students' may use 90 processor-minutes" in limit_sentences(world, same_group)[0]
    keys = ["group,processor-minutes,students", "project,processor-minutes,wind"]
    assert [limits_in_use(world.cluster, keys, world.clock.now())[key] for key in keys] == [80 * 60, 50 * 60]
    world.check_replay()


def test_usage_before_the_limit_was_set_counts() -> None:
    world = world_with(1, half_life=3_153_600_000)
    first = submit(world, 1, 60)
    world.wait(1800)
    world.end(first, 1)
    world.do(SetParameter(by=ROOT, name="UserLimits", value="ada:processor-minutes=40"))
    assert [starts(world, submit(world, 1, minutes)) for minutes in (11, 10)] == [False, True]


def test_a_limit_for_each_job_counts_no_other_job() -> None:
    world = world_with(8, UserLimits="*:processor-minutes-per-job=60")
    assert [starts(world, submit(world, 2, 30)) for _ in range(3)] == [True, True, True]
    large = submit(world, 2, 31)
    assert not starts(world, large)
    plan = world.engine.plan(world.clock.now())
    (reason,) = plan.waits[world.cluster.request(world.record(large))].reasons
    assert (reason.why, reason.text) == (
        Why.NEVER_FITS,
        "user 'ada' may use 60 processor-minutes in one job; the job may use 62",
    )


def test_a_job_with_a_minimum_starts_with_what_its_limits_allow_and_grows_no_further() -> None:
    for limit in ("processor-minutes", "processor-minutes-per-job"):
        world = world_with(8, UserLimits=f"ada:{limit}=90")
        task = TaskSpec(command="x", rerunnable=True, minimum=1, maximum=1)
        job = world.submit(*[task] * 8, by=ADA, minimum=1, maximum=8, run_time=Seconds(1800.0))
        assert len(world.dispatched(job)) == 3
        world.wait(300)
        assert len(world.dispatched(job)) == 3


def test_a_job_without_a_run_time_limit_does_not_start_and_one_that_runs_reserves_all() -> None:
    world = world_with(8)
    endless = submit(world, 1, 0)
    world.do(SetParameter(by=ROOT, name="UserLimits", value="*:processor-minutes=90"))
    short, another = submit(world, 1, 1), submit(world, 1, 0, by=BOB)
    assert [starts(world, job) for job in (endless, short, another)] == [True, False, False]
    assert limits_in_use(world.cluster, [ADAS], world.clock.now())[ADAS] == 90 * 60
    plan = world.engine.plan(world.clock.now())
    reasons = plan.waits[world.cluster.request(world.record(another))].reasons
    assert [each.text for each in reasons] == [
        "user 'bob' may use 90 processor-minutes; the job has no run time limit (--runtime)"
    ]


def test_a_running_job_gets_no_longer_run_time_limit_than_its_limits_leave() -> None:
    world = world_with(8, UserLimits="ada:processor-minutes=100,processor-minutes-per-job=90")
    first, _ = submit(world, 2, 30), submit(world, 1, 20)
    for minutes, code in ((41, "limit"), (46, "limit"), (40, None), (10, None)):
        spec = replace(world.cluster.written(world.record(first)), run_time=Seconds(minutes * 60.0))
        change = ModifyJob(by=ADA, job=first, spec=spec, fields=("run_time",))
        if code is None:
            world.do(change)
        else:
            with pytest.raises(WrongState) as no:
                world.do(change)
            assert (no.value.code, no.value.path) == (code, ("run_time",))


def test_a_job_that_runs_under_an_alternative_is_extended_within_the_limits_of_that_one() -> None:
    """It runs on one processor, because its first request does not fit."""
    world = world_with(2, UserLimits="ada:processor-minutes-per-job=60")
    one = Alternative(minimum=1, maximum=1, run_time=Seconds(1800.0))
    submit(world, 1, 50, by=BOB)
    job = submit(world, 2, 10, alternatives=(one,))
    assert starts(world, job)
    for minutes, refused in ((61, True), (60, False)):
        spec = replace(world.cluster.written(world.record(job)), run_time=Seconds(minutes * 60.0))
        change = ModifyJob(by=ADA, job=job, spec=spec, fields=("run_time",))
        with pytest.raises(WrongState) if refused else nullcontext():
            world.do(change)
    assert world.cluster.spec(world.record(job)).run_time == 3600


def test_a_suspended_job_is_not_extended_above_the_limit_for_each_job() -> None:
    world = world_with(2, UserLimits="ada:processor-minutes-per-job=60")
    job = submit(world, 2, 20, suspendable=True)
    world.do(SuspendJob(by=ROOT, job=job))
    world.do(*world.nodes.stopped(job))
    spec = replace(world.cluster.written(world.record(job)), run_time=Seconds(31 * 60.0))
    with pytest.raises(WrongState):
        world.do(ModifyJob(by=ADA, job=job, spec=spec, fields=("run_time",)))


def test_a_suspended_job_goes_on_only_when_its_limit_has_room_for_the_rest_of_it() -> None:
    world = world_with(8, UserLimits="ada:processor-minutes=100")
    first = submit(world, 1, 80, suspendable=True)
    world.wait(1200)
    world.do(SuspendJob(by=ROOT, job=first))
    world.do(*world.nodes.stopped(first))
    second = submit(world, 1, 70)
    assert starts(world, second)
    world.do(ResumeJob(by=ROOT, job=first))
    assert world.record(first).state is JobState.RESUMING
    world.end(second, 1)
    assert starts(world, first)


# All short histories of a small world

HALF_LIFE = 120
LIMIT = 6 * 60
SIZES = ((1, 60), (2, 60), (1, 240))  # processors and seconds
STEPS = (*SIZES, "end", 60, 150)


class Ledger:
    """Counts usage from the starts and ends of jobs alone: a job is (size, start, end, limit).

    The size of a job is its processors, or what `size_of` says; one of size 0 does not count.
    """

    def __init__(self, size_of: Callable[[JobSpec], int] = lambda spec: spec.minimum or 1) -> None:
        self.jobs: dict[JobId, list[float]] = {}
        self._size_of = size_of

    def note(self, world: World) -> list[JobId]:
        """Note what runs now; return which jobs that count have started since the last time."""
        now, fresh = world.clock.now(), []
        running = {job for job in world.cluster.running if starts(world, job)}
        for job in running - self.jobs.keys():
            spec = world.cluster.spec(world.record(job))
            size = self._size_of(spec)
            self.jobs[job] = [size, now, float("inf"), now + spec.run_time]
            fresh += [job] if size else []
        for job, row in self.jobs.items():
            if job not in running and row[2] > now:
                row[2] = now
        return fresh

    def total(self, now: float, *, used: bool = True) -> float:
        """Return the seconds that running jobs may still use, and those `used`, less their decay."""
        rate, found = log(2) / HALF_LIFE, 0.0
        for size, start, end, limit in self.jobs.values():
            lasted, ago = min(end, now) - start, max(0.0, now - end)
            found += size * -expm1(-rate * lasted) / rate * 2 ** (-ago / HALF_LIFE) if used else 0.0
            found += size * max(0.0, limit - now) if end > now else 0.0
        return found


def pass_until(world: World, at: float) -> None:
    """Let time go by; what is over its limit ends at once."""
    world.wait(max(0.0, at - world.clock.now()))
    for held in list(world.nodes.stopping()):
        world.do(world.nodes.ended(held, world.clock.now(), kind="stopped"))


def play(
    world: World, steps: tuple[object, ...], submit: Callable[[World, int, float], JobId]
) -> Iterator[None]:
    """Carry out the steps, and yield whenever something may have started.

    A step is the size and seconds of a job that `submit` submits, the end of a job, or seconds that go by.
    """
    for step in steps:
        match step:
            case "end":
                running = sorted(job for job in world.cluster.running if starts(world, job))
                if running:
                    world.end(running[0], 1)
            case (int(size), int(seconds)):
                submit(world, size, seconds / 60)
            case int(seconds):
                end = world.clock.now() + seconds
                while (wake := world.engine.next_wake()) is not None and wake < end:
                    pass_until(world, wake)
                    yield
                pass_until(world, end)
        yield


@pytest.mark.parametrize("policy", ["easy", "conservative"])
def test_no_order_of_submissions_starts_and_ends_starts_a_job_above_the_limit(policy: str) -> None:
    kept_out = started = 0
    for steps in thinned(product(STEPS, repeat=5)):
        world = world_with(3, half_life=HALF_LIFE, UserLimits="ada:processor-minutes=6")
        world.do(SetParameter(by=ROOT, name="SchedulingPolicy", value=policy))
        ledger = Ledger()
        for _ in play(world, steps, submit):
            fresh, now = ledger.note(world), world.clock.now()
            total = ledger.total(now)
            started += len(fresh)
            assert not fresh or total <= LIMIT + 0.01, steps
            free = 3 - sum(len(n) for job in world.cluster.running for n in _held(world, job))
            for turn in sorted(t for turns in world.cluster.queue.by_request.values() for t in turns)[:1]:
                spec = world.cluster.spec(world.record(turn.job))
                needed = (spec.minimum or 1) * spec.run_time
                assert (spec.minimum or 1) > free or total + needed > LIMIT - 1.5, steps
                kept_out += (spec.minimum or 1) <= free
    assert min(kept_out, started) > 500


def _held(world: World, job: JobId) -> list[tuple[int, ...]]:
    run = world.record(job).run
    return [] if run is None else list(run.allocation.values())


def test_decay_is_awaited_also_for_a_job_whose_limit_a_start_of_the_same_pass_used_up() -> None:
    """The first two fit, but not together: the second starts when decay lets it, while the first runs on."""
    world = world_with(5, half_life=3600, UserLimits="ada:processor-minutes=100")
    before = submit(world, 2, 31)
    world.clock.advance(Seconds(1800))
    world.do(SetParameter(by=ROOT, name="SchedulingPolicy", value="fcfs"))
    first, second = submit(world, 4, 10), submit(world, 1, 12)
    assert not starts(world, first)
    world.end(before, 1)
    assert (starts(world, first), starts(world, second)) == (True, False)
    waited = 0.0
    while not starts(world, second):
        waited += until_next_wake(world)
        assert starts(world, first)
    assert 200 < waited < 300


def test_decay_is_awaited_for_a_job_whose_size_depends_on_its_nodes() -> None:
    world = world_with(4, half_life=3600, UserLimits="ada:processor-minutes=100")
    before = submit(world, 4, 20)
    world.clock.advance(Seconds(1140))
    world.end(before, 1)
    waiting = submit(world, 1, 20, exclusive=True)
    assert "the job may use 80" in limit_sentences(world, waiting)[0]
    used = world.cluster.usage.used_by_owner("ada", world.clock.now())
    waited = 0.0
    while not starts(world, waiting):
        waited += until_next_wake(world)
    assert waited == pytest.approx(3600 * log(used / 1200) / log(2), abs=2)


def test_the_time_of_the_next_pass_is_not_now() -> None:
    """A job whose limit is the whole of what it needs waits for many half-lives, and no pass repeats."""
    world = world_with(2, half_life=60, UserLimits="ada:processor-minutes=2")
    first = submit(world, 2, 1)
    world.clock.advance(Seconds(30))
    world.end(first, 1)
    waiting, passes = submit(world, 2, 1), sum(world.engine.passes.counts)
    while not starts(world, waiting):
        until_next_wake(world)
    assert sum(world.engine.passes.counts) - passes < 20
    assert world.clock.now() < Instant(1_000_000 + 60 * 20)
