"""A log to try policies on: a week of a small machine, made up here, and always the same.

The jobs come by day more than by night, from users with habits of their own: many short tests, some long
computations, and a few jobs that want most of the machine.  Estimates are round and mostly too long.
"""

import random
from typing import Final, NamedTuple

from headnode import __version__
from headnode.apps.simulate.history import History
from headnode.core.formats.swf_writing import About, LoggedJob

PROCESSORS: Final = 64
_DAYS: Final = 7
_HOUR: Final = 3600.0
_START: Final = 1_767_225_600.0  # 2026-01-01, a Thursday, 00:00 UTC
_SEED: Final = 1
_BUSY: Final = 19.0  # jobs in the busiest hour
_ROUND: Final = tuple(_HOUR * hours for hours in (0.25, 0.5, 1, 2, 4, 8, 12, 24, 48))  # what users write
_MOST_TIMES: Final = 4  # a user takes a limit up to so many steps above what is needed


class _Habit(NamedTuple):
    share: float  # of all jobs
    sizes: tuple[int, ...]  # processors
    run_time: float  # seconds, of the middle job
    spread: float


_HABITS: Final = (
    _Habit(0.45, (1, 1, 1, 2, 2, 4), 200.0, 1.2),  # tests
    _Habit(0.30, (1, 2, 4, 8), 1800.0, 1.0),  # everyday work
    _Habit(0.18, (4, 8, 16, 16), 4500.0, 0.8),  # long computations
    _Habit(0.07, (24, 32, 48, 64), 1800.0, 0.9),  # jobs for most of the machine
)
_USERS: Final = 12


def example() -> History:
    """Return the week as a history of jobs that have ended."""
    dice = random.Random(_SEED)  # noqa: S311 (the same week for everybody)
    jobs = [_job(dice, number, at) for number, at in enumerate(_arrivals(dice), start=1)]
    return History(About("example", __version__, PROCESSORS, 1), jobs, 0, 0)


def _arrivals(dice: random.Random) -> list[float]:
    """Return when jobs are submitted: a Poisson process, thinned by the hour of the day and the week."""
    at, found = 0.0, []
    while (at := at + dice.expovariate(_BUSY / _HOUR)) < _DAYS * 24 * _HOUR:
        hour, day = at / _HOUR % 24, int(at / _HOUR // 24)
        busy = 1.0 if 9 <= hour < 18 else 0.45 if 18 <= hour < 23 else 0.12
        if dice.random() < busy * (0.35 if day in (2, 3) else 1.0):  # Saturday and Sunday
            found.append(_START + round(at))
    return found


def _job(dice: random.Random, number: int, submitted: float) -> LoggedJob:
    kind = dice.choices(range(len(_HABITS)), [habit.share for habit in _HABITS])[0]
    habit = _HABITS[kind]
    run_time = min(float(int(habit.run_time * dice.lognormvariate(0.0, habit.spread)) + 1), _ROUND[-1])
    enough = next(step for step, limit in enumerate(_ROUND) if limit >= run_time)
    limit = _ROUND[min(enough + dice.randrange(_MOST_TIMES), len(_ROUND) - 1)]
    size = dice.choice(habit.sizes)
    return LoggedJob(
        submitted, number, None, run_time, size, size, limit, None, "finished",
        f"user{dice.randrange(_USERS) + 1}", f"group{kind + 1}", "", None, 2000,
    )  # fmt: skip
