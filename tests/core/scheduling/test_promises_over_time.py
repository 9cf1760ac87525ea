"""What each policy promises, in long random histories.

A hundred times as many: ``--depth 10000``.
"""

from itertools import product
from math import inf

import pytest

from depth import every, share_of
from headnode.core.model.job import JobRequest
from headnode.core.scheduling.policies import POLICIES
from headnode.testing import MANNERS, OURS, Arrival, History, Manner, PromiseBroken, asks, check_history, node
from headnode.testing.checking import random_histories

CASES = [
    *((name, inf) for name in POLICIES),
    *((name, depth) for name in POLICIES if name.startswith("conservative") for depth in (1, 2)),
]


@pytest.mark.parametrize(("policy", "depth"), CASES)
@pytest.mark.parametrize("manner", MANNERS, ids=lambda manner: manner.name)
def test_promises_hold_in_random_histories(manner: Manner, policy: str, depth: float) -> None:
    for seed, history in random_histories(manner, share_of(8), depth=depth):
        try:
            check_history(POLICIES[policy], history, OURS[policy])
        except PromiseBroken as broken:
            pytest.fail(f"seed {seed}: {broken}", pytrace=False)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("early", [1, 3], ids=["jobs use their limit", "every other job ends early"])
def test_promises_hold_in_every_history_of_three_kinds_of_job(policy: str, early: int) -> None:
    kinds = [
        asks(1, 3, 1),
        asks(2, minutes=3, memory=4),
        asks(4, minutes=2),
        asks(2, minutes=2, exclusive=True),
        asks(2, minutes=2, single_node=True),
    ]
    nodes = [node("a", 2, memory=8), node("b", 2, memory=12), node("c", 1, memory=4)]
    for number, chosen in enumerate(product(kinds, repeat=4)):
        if number % every(5) == 0:
            check_history(POLICIES[policy], History(nodes, _one_after_the_other(chosen, early)), OURS[policy])


def _one_after_the_other(kinds: tuple[JobRequest, ...], early: int) -> list[Arrival]:
    arrivals = []
    for job, kind in enumerate(kinds, start=1):
        limit = kind.run_time / 60
        lasts = limit / early if job % 2 else limit
        priority = 3000 if job == 4 else 2000
        arrivals.append(Arrival(job, kind, float(job // 2), lasts, priority, wants=1))
    return arrivals
