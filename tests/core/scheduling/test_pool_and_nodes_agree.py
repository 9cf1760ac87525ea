"""On one node that all jobs share, the cluster's policies start every job when those that count a pool do."""

import random

import pytest

from depth import seeds
from headnode.core.model.workload import Workload
from headnode.core.scheduling.policies import POLICIES
from headnode.core.scheduling.pool.policies import POOL_POLICIES
from headnode.core.scheduling.pool.replay import Ties, replay
from headnode.testing import NOW, Arrival, History, asks, live, node

SIZE = 6


def crowded(seed: int) -> History:
    """Return forty jobs of few kinds, which come faster than they go and often end early."""
    dice = random.Random(seed)
    kinds = [(dice.randint(1, SIZE), dice.randint(2, 12)) for _ in range(5)]
    arrivals, at = [], 0
    for job in range(1, 41):
        at += dice.choice((0, 1, 2))
        processors, limit = dice.choice(kinds)
        lasts = dice.choice((limit, dice.randint(1, limit)))
        arrivals.append(Arrival(job, asks(processors, minutes=limit), at, lasts))
    return History([node("pool", SIZE)], arrivals)


def counted(history: History, policy: str) -> list[float]:
    """Return when each job starts, in minutes, by the counters of the pool."""
    jobs = history.arrivals
    workload = Workload(
        numbers=[each.job for each in jobs],
        submits=[each.at for each in jobs],
        run_times=[each.lasts for each in jobs],
        estimates=[each.request.run_time / 60 for each in jobs],
        processors=[each.request.minimum for each in jobs],
    )
    return list(replay(workload, POOL_POLICIES[policy](workload, SIZE, Ties.ENDS_FIRST), Ties.ENDS_FIRST))


@pytest.mark.parametrize("policy", POLICIES)
def test_every_job_starts_at_the_same_instant(policy: str) -> None:
    for seed in seeds(25):
        history = crowded(seed)
        starts = {
            start.job: (moment.view.now - NOW) / 60
            for moment in live(history, POLICIES[policy])
            for start in moment.plan.starts
        }
        assert [starts[each.job] for each in history.arrivals] == counted(history, policy), seed
