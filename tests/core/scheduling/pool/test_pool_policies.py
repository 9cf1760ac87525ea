"""What the policies over a pool promise."""

from collections.abc import Sequence

import pytest
from naive_rules import starts_by_the_rules
from pool_worlds import crowded_worlds, every_small_world, random_worlds, workload

from depth import share_of
from headnode.core.model.workload import Workload
from headnode.core.scheduling.pool.policies import POOL_POLICIES
from headnode.core.scheduling.pool.replay import STEP, Ties, replay, schedule_figures

EVERY_ORDER = pytest.mark.parametrize("ties", Ties)
EVERY_POLICY = pytest.mark.parametrize("policy", POOL_POLICIES)


def starts(world: Workload, size: int, policy: str, ties: Ties = Ties.ENDS_FIRST) -> Sequence[float]:
    return replay(world, POOL_POLICIES[policy](world, size, ties), ties)


@EVERY_ORDER
@EVERY_POLICY
def test_every_small_world_goes_by_the_rules(policy: str, ties: Ties) -> None:
    for world in every_small_world():
        assert starts(world, 2, policy, ties) == starts_by_the_rules(world, 2, policy, ties), world


@EVERY_ORDER
@EVERY_POLICY
def test_long_random_worlds_go_by_the_rules(policy: str, ties: Ties) -> None:
    worlds = [
        *random_worlds(share_of(30), jobs=20, size=5, seed=1998),
        *crowded_worlds(share_of(25), jobs=25, size=5, seed=93),
    ]
    for world in worlds:
        assert starts(world, 5, policy, ties) == starts_by_the_rules(world, 5, policy, ties), world


@EVERY_ORDER
@EVERY_POLICY
def test_the_machine_is_never_overfull(policy: str, ties: Ties) -> None:
    for world in random_worlds(share_of(100), jobs=60, size=6, seed=7):
        changes = []
        for job, start in enumerate(starts(world, 6, policy, ties)):
            assert start >= world.submits[job]
            size = world.processors[job]
            changes += [(start, size), (start + world.run_times[job], -size)]
        used = 0
        for _, change in sorted(changes):
            used += change
            assert used <= 6, world


def as_known_at(world: Workload, began: Sequence[float], now: float) -> Workload:
    """Return the jobs that have come by now; those that have not ended run as long as their estimates."""
    come = [job for job, submit in enumerate(world.submits) if submit <= now]
    known = world._replace(
        run_times=[
            run_time if began[job] + run_time <= now else world.estimates[job]
            for job, run_time in enumerate(world.run_times)
        ]
    )
    return Workload(*([column[job] for job in come] for column in known if column))


def test_conservative_starts_no_job_later_than_it_was_promised_on_arrival() -> None:
    for world in random_worlds(share_of(40), jobs=25, size=5, seed=3):
        began = starts(world, 5, "conservative")
        for job, submit in enumerate(world.submits):
            promised = starts(as_known_at(world, began, submit), 5, "conservative")[job]
            assert began[job] <= promised, (world, job)


def test_easy_starts_the_first_job_no_later_than_promised_when_it_became_the_first() -> None:
    for world in random_worlds(share_of(40), jobs=25, size=5, seed=4):
        began = starts(world, 5, "easy")
        for job, submit in enumerate(world.submits):
            first_at = max([submit, *began[:job]])
            if first_at <= began[job]:
                promised = starts(as_known_at(world, began, first_at), 5, "easy")[job]
                assert began[job] <= promised, (world, job)


def test_a_short_job_overtakes_where_it_delays_nobody_and_only_there() -> None:
    blocked = [(0, 3, 10, 10), (0, 4, 10, 10)]  # one processor is left until 10; then all are promised
    short, long = (0, 1, 10, 10), (0, 1, 11, 11)
    assert starts(workload([*blocked, short]), 4, "easy") == [0, 10, 0]
    assert starts(workload([*blocked, long]), 4, "easy") == [0, 10, 20]
    assert starts(workload([*blocked, short]), 4, "fcfs") == [0, 10, 20]


def test_the_order_at_one_instant_changes_the_outcome() -> None:
    # At 1 a job ends early and another comes.  Arrivals first: it comes before anybody knows of the end.
    world = workload([(0, 1, 2, 2), (0, 1, 9, 1), (0, 2, 1, 1), (1, 1, 1, 1)])
    assert starts(world, 2, "easy", Ties.ENDS_FIRST) == [0, 0, 2, 1]
    crowded = workload([(0, 1, 4, 1), (0, 1, 9, 1), (0, 2, 3, 3), (0, 1, 3, 3)])
    assert starts(crowded, 2, "easy", Ties.ENDS_FIRST) == [0, 0, 1, 4]
    assert starts(crowded, 2, "easy", Ties.ARRIVALS_FIRST) == [0, 0, 4, 1]


@EVERY_ORDER
def test_progress_is_told_on_the_way(ties: Ties) -> None:
    world = workload([(1, 1, 1, 1)] * (2 * STEP))
    messages: list[int] = []
    replay(world, POOL_POLICIES["fcfs"](world, 1, ties), ties, messages.append)
    assert messages == [STEP, 2 * STEP]


def test_the_slowdown_of_a_short_job_is_that_of_ten_seconds() -> None:
    world = workload([(0, 1, 40, 40), (0, 1, 2, 2), (0, 1, 60, 30)])
    found = schedule_figures(world, [0, 40, 42], 2)
    assert found.mean_bounded_slowdown == (1 + 42 / 10 + 72 / 30) / 3
    assert (found.mean_wait, found.makespan) == (82 / 3, 72)
    assert found.utilisation == 72 / (2 * 72)
    assert schedule_figures(world, [0, 0, 0], 3).mean_bounded_slowdown == 1
