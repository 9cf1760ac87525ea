"""Predicted starts over a pool: what would happen, told without changing it and without knowing it."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from pool_worlds import crowded_worlds, random_worlds

from depth import share_of
from headnode.core.model.quantities import Instant, Seconds
from headnode.core.model.workload import Workload
from headnode.core.scheduling.pool.late_jobs import LateJobs, RoomLeft
from headnode.core.scheduling.pool.policies import POOL_POLICIES, EasyBackfill
from headnode.core.scheduling.pool.replay import ForkablePolicy, Ties, replay
from headnode.core.scheduling.prediction.calibration import (
    JudgedPrediction,
    PredictedWait,
    by_predicted_wait,
    replay_quantile,
    score,
)
from headnode.core.scheduling.prediction.replays import (
    POLICY_TRAITS,
    REPLAYS,
    PredictingPolicy,
    ReplayInput,
    Replays,
    ReplayShare,
    RunAhead,
)
from headnode.core.scheduling.prediction.run_times import JobTraits, RunTimeHistory

SIZE = 6
EVERY_POLICY = pytest.mark.parametrize("policy", POOL_POLICIES)
EVERY_ORDER = pytest.mark.parametrize("ties", Ties)


def worlds(seed: int, each: int = share_of(25)) -> Iterator[Workload]:
    yield from random_worlds(each, jobs=25, size=SIZE, seed=seed)
    yield from crowded_worlds(each, jobs=40, size=SIZE, seed=seed + 1)


def made(policy: str, world: Workload, ties: Ties = Ties.ENDS_FIRST) -> ForkablePolicy:
    return POOL_POLICIES[policy](world, SIZE, ties)


def foretold(
    policy: str, world: Workload, ties: Ties = Ties.ENDS_FIRST
) -> tuple[Sequence[float], list[JudgedPrediction]]:
    foretelling = PredictingPolicy(world, made(policy, world, ties), POLICY_TRAITS[policy])
    return replay(world, foretelling, ties), foretelling.judged


class LookAtLast:
    """Looks ahead, over the true run times, when the last job has come."""

    def __init__(self, world: Workload, policy: ForkablePolicy) -> None:
        self._world, self._policy = world, policy
        self._running: dict[int, Instant] = {}
        self._queued: set[int] = set()
        self._come = 0
        self.seen: dict[int, Instant] = {}

    def arrived(self, now: float, job: int) -> None:
        self._policy.arrived(now, job)
        self._queued.add(job)
        self._come += 1

    def ended(self, now: float, job: int) -> None:
        self._policy.ended(now, job)
        del self._running[job]

    def expected_ends(self, now: float) -> None:
        self._policy.expected_ends(now)

    def wakes(self) -> float:
        return self._policy.wakes()

    def starts(self, now: float) -> Sequence[int]:
        started = self._policy.starts(now)
        for job in started:
            self._running[job] = Instant(now)
            self._queued.remove(job)
        if self._come == len(self._world.submits) and not self.seen:
            scene = ReplayInput(
                Instant(now), self._policy, self._running, lambda _job: JobTraits("", "", Seconds(1.0))
            )
            self.seen = RunAhead(scene, self._world.run_times.__getitem__).starts(self._queued)
        return started


@EVERY_POLICY
def test_looking_ahead_over_the_true_run_times_shows_what_happens(policy: str) -> None:
    looked = 0
    for world in worlds(seed=1):
        watch = LookAtLast(world, made(policy, world))
        starts = replay(world, watch, Ties.ENDS_FIRST)
        assert watch.seen == {job: starts[job] for job in watch.seen}, world
        looked += len(watch.seen)
    assert looked > share_of(200)


@EVERY_POLICY
@EVERY_ORDER
def test_telling_changes_no_start(policy: str, ties: Ties) -> None:
    for world in worlds(seed=3):
        assert foretold(policy, world, ties)[0] == replay(world, made(policy, world, ties), ties), world


class AlwaysForked:
    """A fork of a fork of a policy, before everything that happens."""

    def __init__(self, policy: ForkablePolicy) -> None:
        self._policy: Any = policy

    def __getattr__(self, name: str) -> Any:
        self._policy = self._policy.fork()
        return getattr(self._policy, name)


@EVERY_POLICY
@EVERY_ORDER
def test_a_fork_goes_on_as_the_policy_would_have(policy: str, ties: Ties) -> None:
    for world in worlds(seed=13):
        expected = replay(world, made(policy, world, ties), ties)
        assert replay(world, AlwaysForked(made(policy, world, ties)), ties) == expected, world


@EVERY_POLICY
def test_every_job_is_judged_once_and_one_that_starts_at_once_was_told_so(policy: str) -> None:
    for world in worlds(seed=5):
        starts, judged = foretold(policy, world)
        assert sorted((one.made, one.started) for one in judged) == sorted(
            zip(world.submits, starts, strict=True)
        )
        for one in judged:
            assert one.waited or one.promise == one.p50 == one.p90 == one.made
            assert one.p50 <= one.p90


@EVERY_POLICY
def test_what_is_told_does_not_depend_on_what_comes_later(policy: str) -> None:
    for world in worlds(seed=7):
        half = len(world.submits) // 2
        until = world.submits[half]
        now_ended = foretold(policy, world)[1]
        others = foretold(policy, with_another_future(world, foretold(policy, world)[0], until))[1]
        assert told_before(now_ended, until) == told_before(others, until), world


def with_another_future(world: Workload, starts: Sequence[float], until: float) -> Workload:
    """Return the world in which jobs that have not ended by then take as long as they may, and none comes."""
    run_times = [
        run_time if start + run_time < until else estimate
        for start, run_time, estimate in zip(starts, world.run_times, world.estimates, strict=True)
    ]
    come = sum(submit < until for submit in world.submits)
    changed = world._replace(run_times=run_times)
    return Workload(*(column[:come] for column in changed))


def told_before(judged: Sequence[JudgedPrediction], until: float) -> list[tuple[float, ...]]:
    return sorted((one.made, one.promise, one.p50, one.p90) for one in judged if one.made < until)


@pytest.mark.parametrize("policy", [policy for policy, manners in POLICY_TRAITS.items() if manners.firm])
def test_the_firm_promise_holds(policy: str) -> None:
    waited = 0
    for world in worlds(seed=9):
        for one in foretold(policy, world)[1]:
            assert one.started <= one.promise, world
            assert one.p90 <= one.promise
            waited += one.waited
    assert waited > share_of(500)


def test_it_learns_less_from_a_crowd_that_waits_together() -> None:
    (world,) = crowded_worlds(1, jobs=300, size=SIZE, seed=17)
    foretelling = PredictingPolicy(world, made("fcfs", world), POLICY_TRAITS["fcfs"])
    replay(world, foretelling, Ties.ENDS_FIRST)
    (together, *_) = (one for one in foretelling.calibration.state() if one.length is None)
    assert 10 < len(together.ratios) < sum(one.waited for one in foretelling.judged) / 2


def test_a_promise_that_is_not_firm_does_not_bound_what_is_told() -> None:
    (world,) = random_worlds(1, jobs=1000, size=SIZE, seed=15)
    taught = foretold("easy", world)[1]
    assert any(one.p90 > one.promise for one in taught)
    assert any(one.started > one.promise for one in taught)


@EVERY_POLICY
def test_manners_are_known_of_every_policy(policy: str) -> None:
    assert POLICY_TRAITS[policy].replays(10**6) >= 1


def test_one_who_joins_behind_all_others_is_foreseen_as_in_a_new_look() -> None:
    (world,) = crowded_worlds(1, jobs=30, size=SIZE, seed=11)
    policy = made("fcfs", world)
    for job in range(20):
        policy.arrived(0.0, job)
    running = dict.fromkeys(policy.starts(0.0), Instant(0.0))
    scene = ReplayInput(
        Instant(0.0), policy, running, lambda job: JobTraits("", "", Seconds(world.estimates[job]))
    )
    old = Replays(scene, RunTimeHistory())
    old.foresee(Instant(0.0), [19])
    for job in range(20, 30):
        policy.arrived(0.0, job)
        old.joined(scene.now, job)
        assert old.foresee(Instant(0.0), [job]) == Replays(scene, RunTimeHistory()).foresee(scene.now, [job])


def test_a_job_that_comes_late_under_easy_starts_in_every_future_as_in_a_new_look() -> None:
    overtook = waited = 0
    for world in worlds(seed=19, each=25):
        last = len(world.submits) - 1
        policy = made("easy", world)
        for job in range(last):
            policy.arrived(0.0, job)
        running = dict.fromkeys(policy.starts(0.0), Instant(0.0))
        queued = [job for job in range(last) if job not in running]
        traits = [JobTraits("", "", Seconds(estimate)) for estimate in world.estimates]
        scene = ReplayInput(Instant(0.0), policy, running, traits.__getitem__)
        old = Replays(scene, history := some_history(world))
        before = old.foresee(scene.now, queued)
        policy.arrived(0.0, last)
        if policy.starts(0.0):
            continue
        old.joined(scene.now, last)
        new = Replays(scene, history).foresee(scene.now, [last])
        assert old.foresee(scene.now, [last]) == new, world
        ends = [each.middle for each in before.values()]
        overtook += new[last].middle < max(ends)
        waited += new[last].middle >= max(ends)
    assert min(overtook, waited) > 10


def some_history(world: Workload) -> RunTimeHistory:
    history = RunTimeHistory()
    for job, run_time in enumerate(world.run_times):
        history.learn(JobTraits("", "", Seconds(world.estimates[job])), Seconds(run_time))
    return history


def test_jobs_that_come_late_share_what_the_futures_leave() -> None:
    sizes = [SIZE // 2, SIZE // 2 + 1, 1, SIZE // 2]
    world = Workload([1, 2, 3, 4], [0] * 4, [10] * 4, [10] * 4, sizes)
    late = LateJobs(world, lambda: RoomLeft(free=SIZE // 2, extra=SIZE // 2 - 1, shadow=10.0))
    late.passed(0.0)
    late.passed(5.0)
    late.passed(20.0)
    assert late.start(0.0, 1, 10.0) is None  # too large
    assert late.start(1.0, 2, 10.0) == 5.0  # it takes a processor that is extra
    assert late.start(0.0, 3, 10.0) == 0.0  # it ends by the reservation
    assert late.start(0.0, 3, 10.0) is None  # the first pass is full, and the others have less


def test_looking_ahead_anew_waits_for_a_job_to_start_or_end() -> None:
    world = Workload([1, 2, 3, 4], [0, 1, 2, 8], [8, 9, 9, 9], [9, 9, 9, 9], [SIZE] * 4)
    looks: list[int] = []

    class Counted(EasyBackfill):
        def fork(self) -> EasyBackfill:
            looks.append(1)
            return super().fork()

    foretelling = PredictingPolicy(world, Counted(world, SIZE, Ties.ENDS_FIRST), POLICY_TRAITS["easy"])
    replay(world, foretelling, Ties.ENDS_FIRST)
    assert len(looks) == 2 * (1 + REPLAYS)  # when the second job came and when the first had ended


def test_a_running_job_past_what_its_like_took_counts_from_now() -> None:
    world = Workload([1, 2], [0, 0], [10, 10], [10, 10], [SIZE, SIZE])
    policy = made("easy", world)
    policy.arrived(0.0, 0)
    policy.arrived(0.0, 1)
    running = dict.fromkeys(policy.starts(0.0), Instant(0.0))
    scene = ReplayInput(Instant(7.0), policy, running, lambda _job: JobTraits("", "", Seconds(10.0)))
    assert RunAhead(scene, lambda _job: 4.0).starts([1]) == {1: 7.0}
    foreseen = Replays(scene, RunTimeHistory()).foresee(scene.now, [1])[1]
    assert (foreseen.middle, foreseen.longest, foreseen.by_limits) == (3, 3, 3)


def test_the_levels_of_a_job_over_the_replays_are_spread_evenly() -> None:
    assert replay_quantile(7, 0) == 0.5
    for job in range(50):
        levels = sorted(replay_quantile(job, replay) for replay in range(1, 10))
        assert all(0 <= each < 1 for each in levels)
        assert max(high - low for low, high in zip([0.0, *levels], [*levels, 1.0], strict=True)) < 0.3


def judged(wait: float, p50: float, p90: float, promise: float) -> JudgedPrediction:
    return JudgedPrediction(Instant(100.0), *(Instant(100.0 + each) for each in (promise, p50, p90, wait)))


def test_scores_count_what_held_and_how_far_off_it_was() -> None:
    found = score(
        [judged(10, 10, 30, 40), judged(20, 10, 20, 90), judged(50, 30, 40, 50), judged(0, 0, 0, 0)]
    )
    assert found.jobs == 4
    assert (found.p50_held, found.p90_held, found.promise_held) == (0.5, 0.75, 1.0)
    assert (found.p50_error, found.promise_error) == (5, 15)
    assert found.spread == (20 + 10 + 10 + 0) / 4


def test_no_jobs_have_no_score() -> None:
    assert score([]) == type(score([]))(0)


def test_scores_by_predicted_wait_leave_out_jobs_that_started_at_once() -> None:
    found = by_predicted_wait(
        [judged(0, 0, 0, 0), judged(10, 3599, 9999, 9999), judged(10, 3600, 9999, 9999)]
    )
    assert {name: one.jobs for name, one in found.items()} == {
        "under 1 h": 1,
        "1-6 h": 1,
        "6-24 h": 0,
        "more": 0,
    }


def test_a_promise_that_was_not_given_is_not_counted() -> None:
    found = score([judged(10, 10, 20, float("inf")), judged(10, 10, 20, 5)])
    assert (found.jobs, found.promise_held, found.promise_error) == (2, 0.0, 5)


@pytest.mark.parametrize("policy", [name for name, traits in POLICY_TRAITS.items() if not traits.in_turn])
def test_shares_of_the_work_foresee_what_one_would(policy: str) -> None:
    for world in worlds(seed=7700):
        _, alone = foretold(policy, world)
        parts: list[dict[int, PredictedWait]] = []
        for nth in range(3):
            share = ReplayShare(nth, 3)
            part = PredictingPolicy(world, made(policy, world), POLICY_TRAITS[policy], share=share)
            replay(world, part, Ties.ENDS_FIRST)
            parts.append(part.foreseen)
        known = {job: wait for each in parts for job, wait in each.items()}
        assert len(known) == sum(map(len, parts))  # no work is done twice
        judging = PredictingPolicy(world, made(policy, world), POLICY_TRAITS[policy], known=known)
        replay(world, judging, Ties.ENDS_FIRST)
        assert judging.judged == alone
