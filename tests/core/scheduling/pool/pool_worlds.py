"""Small worlds: few jobs on few processors, so that every one of them can be tried."""

import random
from collections.abc import Iterable, Iterator
from itertools import product

from headnode.core.model.workload import Workload

Job = tuple[int, int, int, int]
"""(seconds after the job before, processors, estimate, run time)."""

LENGTHS = ((1, 1), (2, 1), (3, 1), (3, 3))  # estimate, run time


def workload(jobs: Iterable[Job]) -> Workload:
    rows, submit = [], 0
    for number, (gap, processors, estimate, run_time) in enumerate(jobs, start=1):
        submit += gap
        rows.append((number, submit, run_time, estimate, processors))
    return Workload(*map(list, zip(*rows, strict=True)))


def every_small_world() -> Iterator[Workload]:
    """Three jobs of every kind on two processors."""
    kinds = [(gap, size, *length) for gap, size, length in product((0, 1), (1, 2), LENGTHS)]
    return (workload(jobs) for jobs in product(kinds, repeat=3))


def random_worlds(count: int, jobs: int, size: int, seed: int) -> Iterator[Workload]:
    dice = random.Random(seed)
    return (workload(_random_job(dice, size) for _ in range(jobs)) for _ in range(count))


def crowded_worlds(count: int, jobs: int, size: int, seed: int) -> Iterator[Workload]:
    """Many jobs of few kinds, which come faster than they go and often end early."""
    dice = random.Random(seed)
    for _ in range(count):
        kinds = [(dice.randint(1, size), dice.randint(2, 12)) for _ in range(4)]
        chosen = [dice.choice(kinds) for _ in range(jobs)]
        yield workload((dice.choice((0, 1, 2)), *kind, dice.randint(1, kind[1])) for kind in chosen)


def _random_job(dice: random.Random, size: int) -> Job:
    estimate = dice.randint(1, 9)
    run_time = dice.choice((estimate, dice.randint(1, estimate)))
    return (dice.choice((0, 0, 1, 2, 4)), dice.randint(1, size), estimate, run_time)
