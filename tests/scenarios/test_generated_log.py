"""A log that is made here: the fast replay, the whole head and kept starts agree, for every policy.

Logs of real machines are compared in `test_reference_starts`, where they are.
"""

import hashlib
import random
from functools import lru_cache

import pytest
from golden_files import compare

from headnode.apps.simulate.engine_replay import EngineReplay
from headnode.apps.simulate.machine import pool
from headnode.core.model.workload import Workload
from headnode.core.scheduling.pool.policies import POOL_POLICIES
from headnode.core.scheduling.pool.replay import Ties, replay

JOBS, PROCESSORS = 800, 64
MAX_PROCESSORS = (1, 1, 1, 2, 4, 8, 16, 32, 64)


@lru_cache(maxsize=1)
def workload() -> Workload:
    """Return jobs that come in bursts, most of them small; limits are up to eight times the run time."""
    dice, submits = random.Random(2026), [0.0]
    for _ in range(JOBS - 1):
        submits.append(submits[-1] + dice.choice((0, 0, 10, 120, 750)))
    run_times = [float(int(dice.expovariate(1 / 900)) + 1) for _ in range(JOBS)]
    return Workload(
        numbers=range(1, JOBS + 1),
        submits=submits,
        run_times=run_times,
        estimates=[each * dice.choice((1, 2, 4, 8)) for each in run_times],
        processors=[dice.choice(MAX_PROCESSORS) for _ in range(JOBS)],
    )


def starts(policy: str, ties: Ties) -> list[float]:
    jobs = workload()
    return [float(each) for each in replay(jobs, POOL_POLICIES[policy](jobs, PROCESSORS, ties), ties)]


def test_every_start_is_the_one_that_was_kept() -> None:
    cases = [(policy, ties) for policy in POOL_POLICIES for ties in Ties]
    lines = [
        f"{policy} {ties.name}: {hashlib.sha256(repr(starts(policy, ties)).encode()).hexdigest()}\n"
        for policy, ties in cases
        if (policy, ties) != ("conservative-replan", Ties.ARRIVALS_FIRST)
    ]
    compare("starts", {"digests.txt": "".join(lines)})


@pytest.mark.parametrize("policy", POOL_POLICIES)
def test_the_whole_head_starts_every_job_when_the_fast_replay_does(policy: str) -> None:
    found = EngineReplay(workload(), pool(PROCESSORS), policy).run(Ties.ENDS_FIRST)
    assert [float(each) for each in found] == starts(policy, Ties.ENDS_FIRST)


@pytest.mark.parametrize("policy", POOL_POLICIES)
def test_jobs_really_wait_in_this_log(policy: str) -> None:
    waits = [
        start - submit
        for start, submit in zip(starts(policy, Ties.ENDS_FIRST), workload().submits, strict=True)
    ]
    assert sum(wait > 0 for wait in waits) > JOBS / 3
