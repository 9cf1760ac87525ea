"""The past of a running cluster as a job log: asked of its head page by page, written as a file."""

import gzip
import lzma
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, NamedTuple

from headnode.apps.client.client import Client
from headnode.apps.simulate.whole_file import written_whole
from headnode.core.formats.swf import Log, Noticed
from headnode.core.formats.swf_writing import About, LoggedJob, write_swf
from headnode.core.model.errors import BadRequest

PAGE = 500  # jobs looked at for one answer; the head writes nothing while it reads them

Progress = Callable[[int, int], None]
"""Is told how many jobs have come, and how many have ended in all."""


def _untold(_come: int, _ended: int) -> None:
    """Nobody wants to know."""


class History(NamedTuple):
    """The ended jobs of a period, and how many jobs of the cluster are not over and so not among them."""

    about: About
    jobs: Sequence[LoggedJob]
    queued: int
    running: int


def ask_history(
    client: Client, since: float | None = None, until: float | None = None, progress: Progress = _untold
) -> History:
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
    about = About(first["cluster"], first["version"], first["processors"], first["nodes"])
    return History(about, sorted(jobs), first["queued"], first["running"])


def write_history(path: str, history: History, *, whole_seconds: bool = False) -> int:
    """Write the history in the Standard Workload Format, packed if the name ends with .gz or .xz.

    Return how many lines the header has.
    Raises:  BadRequest ``history-file`` when it cannot be written; what was there is left alone.
    """
    header, lines = write_swf(history.about, history.jobs, whole_seconds=whole_seconds)
    try:
        with written_whole(Path(path)) as file, _packed(Path(path), file) as packed:
            packed.writelines(line.encode("ascii") for line in chain(header, lines))
    except OSError as trouble:
        raise BadRequest(
            code="history-file",
            what=f"history file {path!r} cannot be written: {trouble.strerror or trouble}",
            fix="name a file in a directory that exists and that you may write to",
        ) from trouble
    return len(header)


def summary(history: History) -> dict[str, Any]:
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
    client: Client, since: float | None, until: float | None, progress: Progress = _untold
) -> Iterator[HistoryLog]:
    """Write the history as a log that is gone when the block ends, so that it is replayed as any other.

    Raises:  what `ask_history` and `write_history` raise.
    """
    with TemporaryDirectory(prefix="headnode-") as folder:
        history, path = ask_history(client, since, until, progress), f"{folder}/history.swf"
        header = write_history(path, history)
        numbers = array("q", (job.number for job in history.jobs))
        yield HistoryLog(path, header, numbers, history.queued, history.running)


def remarks_on_jobs(log: Log, history: HistoryLog) -> Iterator[str]:
    """Yield a sentence for everything that was noticed about the history, in terms of its jobs."""
    if history.running or history.queued:
        yield f"jobs that have not ended are left out: {history.running} running, {history.queued} queued"
    for remark, noticed in log.remarks.items():
        yield f"{_which(noticed, history)}: {remark.value}"


def _which(noticed: Noticed, history: HistoryLog) -> str:
    job = history.numbers[noticed.first_line - history.header - 1]
    return f"job {job}" if noticed.lines == 1 else f"{noticed.lines} jobs from job {job} on"


def _page(client: Client, after: int, since: float | None, until: float | None) -> Mapping[str, Any]:
    return client.ask("past_jobs", after=after, limit=PAGE, since=since, until=until)


def _logged(page: Mapping[str, Any]) -> Iterator[LoggedJob]:
    return map(_logged_job, page["jobs"])


def _logged_job(job: Mapping[str, Any]) -> LoggedJob:
    started = job["started"]
    parents = job["parents"]
    return LoggedJob(
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
def _packed(path: Path, file: BinaryIO) -> Iterator[BinaryIO | gzip.GzipFile | lzma.LZMAFile]:
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
