"""A made-up site on a real Slurm: three users with habits of their own, whose jobs sleep."""

import random
import time
from collections.abc import Iterator
from typing import NamedTuple

from testbed.slurm_peer import SlurmPeer


class Habit(NamedTuple):
    """What one user submits: times in seconds, limits in minutes."""

    user: str
    name: str
    processors: tuple[int, ...]
    lasts: tuple[float, float]
    limit: int
    share: float


HABITS = (
    Habit("games", "fit-", (1,), (3.0, 12.0), 1, 0.6),
    Habit("man", "simulate-", (2, 4), (8.0, 20.0), 2, 0.25),
    Habit("nobody", "all of it ", (8,), (4.0, 12.0), 5, 0.15),
)
"""Users whom every machine has."""


def submit_jobs(peer: SlurmPeer, count: int, apart: float, seed: int = 1) -> Iterator[str]:
    """Submit so many jobs, some seconds apart in the mean; yield their ids as they are accepted."""
    chance = random.Random(seed)
    for number in range(count):
        (habit,) = chance.choices(HABITS, [each.share for each in HABITS])
        lasts, processors = chance.uniform(*habit.lasts), chance.choice(habit.processors)
        yield peer.run(
            "sbatch", "--parsable", f"--uid={habit.user}", "--chdir=/", "--output=/dev/null",
            f"--job-name={habit.name}{number}", f"--ntasks={processors}", f"--time={habit.limit}",
            f"--wrap=sleep {lasts:.1f}",
        ).strip()  # fmt: skip
        time.sleep(chance.expovariate(1 / apart))
