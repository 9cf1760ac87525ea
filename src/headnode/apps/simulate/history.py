"""Job logs made here: the past of a running cluster, and an example, a week of a small machine."""

import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from headnode import __version__
from headnode.adapters.files.job_logs import ClusterHistory, write_history
from headnode.apps.simulate.submissions import LogOwners
from headnode.core.formats.swf import RemarkCount, SwfHeader, SwfJob, SwfLog


class HistoryLog(NamedTuple):
    """A history as a log file for a while, with so many lines of header and a line for each job."""

    path: str
    header: int
    history: ClusterHistory

    @property
    def owners(self) -> LogOwners:
        """The names of the users and projects, which are numbers in the log, in the order they came."""
        jobs = self.history.jobs
        return LogOwners(_by_number(job.user for job in jobs), _by_number(job.project for job in jobs))


def _by_number(names: Iterable[str]) -> dict[str, str]:
    """Return the names by the numbers that `write_swf` writes for them."""
    return {str(number): name for number, name in enumerate(dict.fromkeys(filter(None, names)), start=1)}


@contextmanager
def history_log(history: ClusterHistory) -> Iterator[HistoryLog]:
    """Write the history as a log that is gone when the block ends, so that it is replayed as any other.

    Raises:  what `write_history` raises.
    """
    with TemporaryDirectory(prefix="headnode-") as folder:
        path = f"{folder}/history.swf"
        yield HistoryLog(path, write_history(path, history), history)


def remarks_on_jobs(log: SwfLog, past: HistoryLog) -> Iterator[str]:
    """Yield a sentence for everything that was noticed about the history, in terms of its jobs."""
    running, queued = past.history.running, past.history.queued
    if running or queued:
        yield f"jobs that have not ended are left out: {running} running, {queued} queued"
    for remark, noticed in log.remarks.items():
        yield f"{_which(noticed, past)}: {remark.value}"


def _which(noticed: RemarkCount, past: HistoryLog) -> str:
    job = past.history.jobs[noticed.first_line - past.header - 1].number
    return f"job {job}" if noticed.lines == 1 else f"{noticed.lines} jobs from job {job} on"


PROCESSORS: Final = 64
_DAYS: Final = 7
_HOUR: Final = 3600.0
_START: Final = 1_767_225_600.0  # 2026-01-01, a Thursday, 00:00 UTC
_SEED: Final = 1
_BUSY: Final = 19.0  # jobs in the busiest hour
_ROUND: Final = tuple(_HOUR * hours for hours in (0.25, 0.5, 1, 2, 4, 8, 12, 24, 48))  # what users write
_MAX_TIMES: Final = 4  # a user takes a limit up to so many steps above what is needed


class _UserHabit(NamedTuple):
    share: float  # of all jobs
    sizes: tuple[int, ...]  # processors
    run_time: float  # seconds, of the middle job
    spread: float


_HABITS: Final = (
    _UserHabit(0.45, (1, 1, 1, 2, 2, 4), 200.0, 1.2),  # tests
    _UserHabit(0.30, (1, 2, 4, 8), 1800.0, 1.0),  # everyday work
    _UserHabit(0.18, (4, 8, 16, 16), 4500.0, 0.8),  # long computations
    _UserHabit(0.07, (24, 32, 48, 64), 1800.0, 0.9),  # jobs for most of the machine
)
_USERS: Final = 12


def example_history() -> ClusterHistory:
    """Return the week as a history of jobs that have ended."""
    dice = random.Random(_SEED)  # noqa: S311 (the same week for everybody)
    jobs = [_example_job(dice, number, at) for number, at in enumerate(_arrivals(dice), start=1)]
    return ClusterHistory(SwfHeader("example", __version__, PROCESSORS, 1), jobs, 0, 0)


def _arrivals(dice: random.Random) -> list[float]:
    """Return when jobs are submitted: a Poisson process, thinned by the hour of the day and the week."""
    at, arrivals = 0.0, []
    while (at := at + dice.expovariate(_BUSY / _HOUR)) < _DAYS * 24 * _HOUR:
        hour, day = at / _HOUR % 24, int(at / _HOUR // 24)
        busy = 1.0 if 9 <= hour < 18 else 0.45 if 18 <= hour < 23 else 0.12
        if dice.random() < busy * (0.35 if day in (2, 3) else 1.0):  # Saturday and Sunday
            arrivals.append(_START + round(at))
    return arrivals


def _example_job(dice: random.Random, number: int, submitted: float) -> SwfJob:
    kind = dice.choices(range(len(_HABITS)), [habit.share for habit in _HABITS])[0]
    habit = _HABITS[kind]
    run_time = min(float(int(habit.run_time * dice.lognormvariate(0.0, habit.spread)) + 1), _ROUND[-1])
    enough = next(step for step, limit in enumerate(_ROUND) if limit >= run_time)
    limit = _ROUND[min(enough + dice.randrange(_MAX_TIMES), len(_ROUND) - 1)]
    size = dice.choice(habit.sizes)
    return SwfJob(
        submitted, number, None, run_time, size, size, limit, None, "finished",
        f"user{dice.randrange(_USERS) + 1}", f"group{kind + 1}", "", None, 2000,
    )  # fmt: skip
