"""A made-up site on a real Slurm: three users with habits of their own, whose jobs sleep."""

import random
import time
from collections.abc import Iterator, Sequence
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
OTHER_HABITS = (
    Habit("games", "screen-", (1, 2), (1.0, 25.0), 3, 0.5),
    Habit("man", "train-", (4,), (2.0, 40.0), 10, 0.2),
    Habit("nobody", "daily-", (2, 6), (5.0, 10.0), 1, 0.3),
)
"""Of a site on which nothing was tuned: run times that differ more, and jobs that come together."""


def submit_jobs(
    peer: SlurmPeer,
    count: int,
    apart: float,
    seed: int = 1,
    *,
    habits: Sequence[Habit] = HABITS,
    together: int = 1,
) -> Iterator[str]:
    """Submit so many jobs, some seconds apart in the mean; yield their ids as they are accepted.

    together: at most so many come at once, then none for as long as they would have taken
    """
    chance = random.Random(seed)
    left = chance.randint(1, together)
    for number in range(count):
        (habit,) = chance.choices(habits, [each.share for each in habits])
        lasts, processors = chance.uniform(*habit.lasts), chance.choice(habit.processors)
        yield peer.run(
            "sbatch", "--parsable", f"--uid={habit.user}", "--chdir=/", "--output=/dev/null",
            f"--job-name={habit.name}{number}", f"--ntasks={processors}", f"--time={habit.limit}",
            f"--wrap=sleep {lasts:.1f}",
        ).strip()  # fmt: skip
        left -= 1
        if left == 0:
            left = chance.randint(1, together)
            time.sleep(chance.expovariate(1 / (apart * (1 + together) / 2)))
