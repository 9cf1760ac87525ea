"""Write job logs in the Standard Workload Format, so that `swf_reading` reads the same back."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import NamedTuple

from headnode.core.formats.text.quantities import format_date_time
from headnode.core.model.quantities import Instant

UNKNOWN = -1
_Write = Callable[[float | None, bool], str]
STATUS: Mapping[str, int] = {"failed": 0, "finished": 1, "canceled": 5}
"""How a job ended, as the format says it."""


class SwfJob(NamedTuple):
    """A job as the log tells it.  Instants since 1970; spans in seconds; None: unknown, or it never was.

    `requested` processors are None when what it held was not of its own choosing; `memory` is in MB for each
    processor.
    """

    submitted: float
    number: int
    started: float | None
    run_time: float | None
    held: int
    requested: int | None
    limit: float | None
    memory: int | None
    state: str
    user: str
    project: str
    program: str
    parent: int | None
    priority: int  # 0 (lowest) to 4000 (highest)


class SwfHeader(NamedTuple):
    """What the header of a log tells of the cluster."""

    cluster: str
    version: str
    processors: int
    nodes: int


def write_swf(
    about: SwfHeader, jobs: Sequence[SwfJob], *, whole_seconds: bool = False
) -> tuple[Sequence[str], Iterator[str]]:
    """Return the lines of the header, and those of the jobs, in the order of `jobs`; each with its end.

    The jobs must be sorted.  Times are kept to the millisecond; with `whole_seconds` they are rounded, run
    times up, as the format strictly wants it.
    """
    start = int(jobs[0].submitted) if jobs else 0
    return [f"; {label}: {value}\n" for label, value in _header(about, jobs, start)], _lines(
        jobs, start, _whole if whole_seconds else _exact
    )


def _lines(jobs: Iterable[SwfJob], start: int, write: _Write) -> Iterator[str]:
    numbers = _NameNumbers(), _NameNumbers(), _NameNumbers()
    return (_line(job, start, numbers, write) for job in jobs)


def _header(about: SwfHeader, jobs: Sequence[SwfJob], start: int) -> Iterator[tuple[str, object]]:
    yield "Version", "2.2"
    yield "Computer", f"cluster {about.cluster!a}"
    yield "Conversion", f"written by Headnode {about.version}"
    yield "MaxJobs", len(jobs)
    yield "MaxRecords", len(jobs)
    yield "UnixStartTime", start
    yield "TimeZoneString", "Etc/UTC"
    if jobs:
        yield "StartTime", format_date_time(Instant(start))
        yield "EndTime", format_date_time(Instant(max(_last_sign(job) for job in jobs)))
    yield "MaxNodes", about.nodes
    yield "MaxProcs", about.processors
    yield "Note", "users, groups (projects) and programs (job names) are numbers, in the order they came"
    yield "Note", "queues are the priorities of jobs, from 0 (lowest) to 4000 (highest)"
    yield "Note", "job numbers are those of the cluster; -1 is unknown"


def _last_sign(job: SwfJob) -> float:
    return job.submitted if job.started is None else job.started + (job.run_time or 0.0)


class _NameNumbers(dict[str, int]):
    """Gives every name a number, from 1, when it is first asked for; no name has none."""

    def __missing__(self, name: str) -> int:
        if not name:
            return UNKNOWN
        self[name] = number = len(self) + 1
        return number


def _line(
    job: SwfJob, start: int, numbers: tuple[_NameNumbers, _NameNumbers, _NameNumbers], write: _Write
) -> str:
    users, projects, programs = numbers
    wait = None if job.started is None else job.started - job.submitted
    fields = (
        job.number,
        write(job.submitted - start, False),
        write(wait, False),
        write(job.run_time, True),
        job.held or UNKNOWN,
        UNKNOWN,  # average CPU time used
        UNKNOWN,  # used memory
        UNKNOWN if job.requested is None else job.requested,
        write(job.limit, True),
        UNKNOWN if job.memory is None else job.memory * 1024,
        STATUS.get(job.state, UNKNOWN),
        users[job.user],
        projects[job.project],
        programs[job.program],
        job.priority,  # as the queue: the format has no priorities
        UNKNOWN,  # partition
        UNKNOWN if job.parent is None else job.parent,
        UNKNOWN,  # think time
    )
    return " ".join(map(str, fields)) + "\n"


def _exact(seconds: float | None, _up: bool) -> str:
    """Write a span to the millisecond; a clock that was set back leaves no negative ones."""
    if seconds is None:
        return str(UNKNOWN)
    return f"{max(0.0, seconds):.3f}".rstrip("0").rstrip(".")


def _whole(seconds: float | None, up: bool) -> str:
    if seconds is None:
        return str(UNKNOWN)
    return str(max(0, ceil(seconds) if up else int(seconds)))
