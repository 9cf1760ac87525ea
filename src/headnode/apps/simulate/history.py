"""Job logs made here: the past of a running cluster, and an example, a week of a small machine."""

import gzip
import lzma
import random
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, Final, NamedTuple

from headnode import __version__
from headnode.apps.client.client import Client
from headnode.apps.simulate.log_files import atomic_file
from headnode.core.formats.swf import RemarkCount, SwfHeader, SwfJob, SwfLog, write_swf
from headnode.core.model.errors import BadRequest

PAGE = 500  # jobs looked at for one answer; the head writes nothing while it reads them

HistoryProgress = Callable[[int, int], None]
"""Is told how many jobs have come, and how many have ended in all."""


def _no_progress(_come: int, _ended: int) -> None:
    """Nobody wants to know."""


class ClusterHistory(NamedTuple):
    """The ended jobs of a period, and how many jobs of the cluster are not over and so not among them."""

    about: SwfHeader
    jobs: Sequence[SwfJob]
    queued: int
    running: int


def ask_history(
    client: Client,
    since: float | None = None,
    until: float | None = None,
    progress: HistoryProgress = _no_progress,
) -> ClusterHistory:
    """Return the ended jobs that were submitted from `since` and before `until`.

    Unit:    seconds since 1970.
    Raises:  what `Client.ask` raises; BadRequest ``history-empty`` when there are none.
    """
    first = _page(client, 0, since, until)
    jobs, page = list(_logged(first)), first
    while page["more"] is not None:
        page = _page(client, page["more"], since, until)
        jobs += _logged(page)
        progress(len(jobs), first["ended"])
    if not jobs:
        raise _empty(first, since, until)
    about = SwfHeader(first["cluster"], first["version"], first["processors"], first["nodes"])
    return ClusterHistory(about, sorted(jobs), first["queued"], first["running"])


def write_history(path: str, history: ClusterHistory, *, whole_seconds: bool = False) -> int:
    """Write the history in the Standard Workload Format, packed if the name ends with .gz or .xz.

    Return how many lines the header has.
    Raises:  BadRequest ``history-file`` when it cannot be written; what was there is left alone.
    """
    header, lines = write_swf(history.about, history.jobs, whole_seconds=whole_seconds)
    try:
        with atomic_file(Path(path)) as file, _packed_places(Path(path), file) as packed:
            packed.writelines(line.encode("ascii") for line in chain(header, lines))
    except OSError as trouble:
        raise BadRequest(
            code="history-file",
            what=f"history file {path!r} cannot be written: {trouble.strerror or trouble}",
            fix="name a file in a directory that exists and that you may write to",
        ) from trouble
    return len(header)


def summary(history: ClusterHistory) -> dict[str, Any]:
    """Return what the jobs were like; times in seconds."""
    jobs = history.jobs
    waits = sorted(job.started - job.submitted for job in jobs if job.started is not None)
    return {
        "cluster": history.about.cluster,
        "processors": history.about.processors,
        "jobs": dict(Counter(job.state for job in jobs)),
        "first_submitted": jobs[0].submitted,
        "last_submitted": jobs[-1].submitted,
        "users": len({job.user for job in jobs}),
        "never_started": len(jobs) - len(waits),
        "without_limit": sum(job.limit is None for job in jobs),
        "processor_seconds": sum(job.held * (job.run_time or 0.0) for job in jobs),
        "wait": {"mean": fmean(waits), "median": median(waits)} if waits else {"mean": None, "median": None},
        "queued": history.queued,
        "running": history.running,
    }


class HistoryLog(NamedTuple):
    """A history as a log file for a while; `numbers` are the ids of the jobs, line by line."""

    path: str
    header: int  # lines
    numbers: Sequence[int]
    queued: int
    running: int


@contextmanager
def history_log(
    client: Client, since: float | None, until: float | None, progress: HistoryProgress = _no_progress
) -> Iterator[HistoryLog]:
    """Write the history as a log that is gone when the block ends, so that it is replayed as any other.

    Raises:  what `ask_history` and `write_history` raise.
    """
    with TemporaryDirectory(prefix="headnode-") as folder:
        history, path = ask_history(client, since, until, progress), f"{folder}/history.swf"
        header = write_history(path, history)
        numbers = array("q", (job.number for job in history.jobs))
        yield HistoryLog(path, header, numbers, history.queued, history.running)


def remarks_on_jobs(log: SwfLog, history: HistoryLog) -> Iterator[str]:
    """Yield a sentence for everything that was noticed about the history, in terms of its jobs."""
    if history.running or history.queued:
        yield f"jobs that have not ended are left out: {history.running} running, {history.queued} queued"
    for remark, noticed in log.remarks.items():
        yield f"{_which(noticed, history)}: {remark.value}"


def _which(noticed: RemarkCount, history: HistoryLog) -> str:
    job = history.numbers[noticed.first_line - history.header - 1]
    return f"job {job}" if noticed.lines == 1 else f"{noticed.lines} jobs from job {job} on"


def _page(client: Client, after: int, since: float | None, until: float | None) -> Mapping[str, Any]:
    return client.ask("past_jobs", after=after, limit=PAGE, since=since, until=until)


def _logged(page: Mapping[str, Any]) -> Iterator[SwfJob]:
    return map(_logged_job, page["jobs"])


def _logged_job(job: Mapping[str, Any]) -> SwfJob:
    started = job["started"]
    parents = job["parents"]
    return SwfJob(
        submitted=job["submitted"],
        number=job["id"],
        started=started,
        run_time=None if started is None else job["ended"] - started,
        held=job["processors"],
        requested=_requested(job),
        limit=job["run_time"],
        memory=job["memory"],
        state=job["state"].lower(),
        user=job["owner"],
        project=job["project"],
        program=job["name"],
        parent=parents[0] if len(parents) == 1 else None,
        priority=job["priority"],
    )


def _requested(job: Mapping[str, Any]) -> int | None:
    """Return how many processors were asked for, if that is what was held, or would have been."""
    definite = job["unit"] == "processor" and job["minimum"] == job["maximum"]
    if not definite or (job["started"] is not None and job["processors"] != job["minimum"]):
        return None
    return int(job["minimum"])


@contextmanager
def _packed_places(path: Path, file: BinaryIO) -> Iterator[BinaryIO | gzip.GzipFile | lzma.LZMAFile]:
    """Write to the file through the packer that its name asks for."""
    if path.suffix.lower() == ".gz":
        with gzip.GzipFile(fileobj=file, mode="wb") as gz:
            yield gz
    elif path.suffix.lower() == ".xz":
        with lzma.LZMAFile(file, "wb") as xz:
            yield xz
    else:
        yield file


def _empty(first: Mapping[str, Any], since: float | None, until: float | None) -> BadRequest:
    if since is None and until is None:
        return BadRequest(
            code="history-empty",
            what=f"no job of cluster {first['cluster']!r} has ended yet",
            fix="name a job log instead, or wait until some jobs have ended",
        )
    return BadRequest(
        code="history-empty",
        what=f"none of the {first['ended']} ended jobs of cluster {first['cluster']!r} was submitted then",
        fix="choose another period with --since and --until",
    )


PROCESSORS: Final = 64
_DAYS: Final = 7
_HOUR: Final = 3600.0
_START: Final = 1_767_225_600.0  # 2026-01-01, a Thursday, 00:00 UTC
_SEED: Final = 1
_BUSY: Final = 19.0  # jobs in the busiest hour
_ROUND: Final = tuple(_HOUR * hours for hours in (0.25, 0.5, 1, 2, 4, 8, 12, 24, 48))  # what users write
_MOST_TIMES: Final = 4  # a user takes a limit up to so many steps above what is needed


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
    at, found = 0.0, []
    while (at := at + dice.expovariate(_BUSY / _HOUR)) < _DAYS * 24 * _HOUR:
        hour, day = at / _HOUR % 24, int(at / _HOUR // 24)
        busy = 1.0 if 9 <= hour < 18 else 0.45 if 18 <= hour < 23 else 0.12
        if dice.random() < busy * (0.35 if day in (2, 3) else 1.0):  # Saturday and Sunday
            found.append(_START + round(at))
    return found


def _example_job(dice: random.Random, number: int, submitted: float) -> SwfJob:
    kind = dice.choices(range(len(_HABITS)), [habit.share for habit in _HABITS])[0]
    habit = _HABITS[kind]
    run_time = min(float(int(habit.run_time * dice.lognormvariate(0.0, habit.spread)) + 1), _ROUND[-1])
    enough = next(step for step, limit in enumerate(_ROUND) if limit >= run_time)
    limit = _ROUND[min(enough + dice.randrange(_MOST_TIMES), len(_ROUND) - 1)]
    size = dice.choice(habit.sizes)
    return SwfJob(
        submitted, number, None, run_time, size, size, limit, None, "finished",
        f"user{dice.randrange(_USERS) + 1}", f"group{kind + 1}", "", None, 2000,
    )  # fmt: skip
