"""Job logs in the Standard Workload Format, read and written: one line for each job, 18 numbers, -1 for
unknown.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from math import ceil, isfinite
from typing import NamedTuple

from headnode.core.formats.text.quantities import format_date_time
from headnode.core.model.errors import BadRequest
from headnode.core.model.quantities import Instant
from headnode.core.model.workload import Workload

FIELDS = 18
_STATUS = 10  # where the status stands; 2, 3 and 4 mark a part of a job that was swapped out or restarted
_PARTS = frozenset(("2", "3", "4"))
_SHOWN = 60  # characters of a bad line in an error
_USED_MEMORY, _REQUESTED_MEMORY = 6, 9  # where they stand; kB for each processor
_USER, _GROUP, _EXECUTABLE, _QUEUE = 11, 12, 13, 14
_KILOBYTES = 1024  # in a MB
_LATEST = 10**12  # seconds, 30,000 years: times beyond are no times


class Remark(StrEnum):
    """What was noticed about lines of a log, in words that follow their number."""

    PART = "left out: a part of a job that has a line of its own"
    NO_SUBMIT = "left out: no submit time"
    NO_PROCESSORS = "left out: no processors, neither requested nor allocated"
    TOO_LARGE = "left out: more processors than the machine has"
    NEVER_FITS = "left out: the nodes described could not run them, even if nothing else ran"
    ABOVE_LIMIT = (
        "left out: larger than a limit of the user, project or group allows; the head would refuse them"
    )
    NO_RUN_TIME = "left out: no run time, or none above zero"
    NO_ESTIMATE = "left out: no estimate, or none above zero"
    ESTIMATED = "run times taken as estimates: the log has none at all"
    CUT = "run times cut at the estimate, where the job would have been stopped"
    ALLOCATED = "processors taken from what was allocated: none were requested"
    OUT_OF_ORDER = "came before the job on the line above; put in order of submit time, then number"
    MORE_FIELDS = "lines with more than 18 fields, the rest not looked at"
    FEWER_FIELDS = "lines with fewer than 18 fields, the missing ones taken as unknown"


NeverRuns = Callable[[int, int, float, str, str], Remark | None]
"""Why a job of so many processors with so many MB for each and so many seconds, of a user and a group, could
never run."""


class RemarkCount(NamedTuple):
    """On how many lines something was noticed, and on which first; lines count from 1."""

    lines: int
    first_line: int


class SwfLog(NamedTuple):
    """A log that was read.  `header` has the lines before the jobs, such as MaxProcs, by their labels."""

    workload: Workload
    processors: int  # of the machine
    header: Mapping[str, str]
    remarks: Mapping[Remark, RemarkCount]


class _SwfRow(NamedTuple):
    number: int
    submit: float
    run_time: float
    allocated: int
    requested: int
    estimate: float
    line: int
    memory: int = 0
    whose: "_AccountFields" = ("", "", "", "")


_AccountFields = tuple[str, str, str, str]
"""User, name, group and queue; "" is unknown."""

_JobRow = tuple[float, int, float, float, int, int, str, str, str, str]
"""(submit, number, run time, estimate, processors, memory, user, name, group, queue) of a job replayed."""


def read_swf(
    lines: Iterable[str], processors: int | None = None, never: NeverRuns | None = None, whose: bool = False
) -> SwfLog:
    """Read a log for a machine of so many processors; None takes what the log's header says.

    Memory is read only where `never` is there to look at it: most logs say nothing of it.  With `whose`,
    users, names, groups and queues are read too: the numbers that stand there, names being executables.
    Raises:  BadRequest ``workload-line`` for a line that is not in the format, ``workload-machine`` when
             nobody says how large the machine is, ``workload-empty`` when no job can be replayed.
    """
    reader = _SwfReader(never, whose)
    rows = reader.rows(lines)
    size = processors if processors is not None else _machine(reader.header)
    kept = reader.kept(rows, size)
    if not kept:
        raise _empty(len(rows), size)
    kept.sort()
    submits, numbers, run_times, estimates, wanted, *known = zip(*kept, strict=True)
    memories, *whose_are = (column if any(column) else () for column in known)
    workload = Workload(numbers, submits, run_times, estimates, wanted, memories, *whose_are)
    return SwfLog(workload, size, reader.header, reader.remarks())


class _SwfReader:
    """Keeps count of what it notices."""

    def __init__(self, never: NeverRuns | None, whose: bool) -> None:
        self._never, self._account_fields = never, whose
        self.header: dict[str, str] = {}
        self._lines: dict[Remark, list[int]] = {remark: [] for remark in Remark}

    def remarks(self) -> dict[Remark, RemarkCount]:
        """Return what was noticed at all."""
        return {remark: RemarkCount(len(lines), min(lines)) for remark, lines in self._lines.items() if lines}

    def rows(self, lines: Iterable[str]) -> list[_SwfRow]:
        """Return the jobs as they stand there; keep the header."""
        rows = []
        for line, text in enumerate(lines, start=1):
            if text.startswith(";"):
                label, _, value = text[1:].partition(":")
                self.header.setdefault(label.strip(), value.strip())
            elif text and not text.isspace():
                fields = text.split()
                if self._is_whole(line, fields):
                    rows.append(self._row(line, text, fields))
        return rows

    def _row(self, line: int, text: str, fields: Sequence[str]) -> _SwfRow:
        row = _row(line, text, fields)
        if self._never is not None:
            row = row._replace(memory=_memory(line, text, fields))
        if self._account_fields:
            row = row._replace(whose=_account_fields(fields))
        return row

    def _is_whole(self, line: int, fields: Sequence[str]) -> bool:
        if len(fields) != FIELDS:
            self._lines[Remark.MORE_FIELDS if len(fields) > FIELDS else Remark.FEWER_FIELDS].append(line)
        if len(fields) > _STATUS and fields[_STATUS] in _PARTS:
            self._lines[Remark.PART].append(line)
            return False
        return True

    def kept(self, rows: Sequence[_SwfRow], size: int) -> list[_JobRow]:
        """Return the jobs that can be replayed, in the order of the log."""
        estimated = any(row.estimate > 0 for row in rows)
        if not estimated:
            self._lines[Remark.ESTIMATED] = [row.line for row in rows]
        kept: list[_JobRow] = []
        last = 0.0
        for number, submit, run_time, allocated, requested, estimate, line, memory, whose in rows:
            limit = estimate if estimated else run_time
            processors = requested if requested > 0 else allocated
            if submit < 0 or not 0 < processors <= size or run_time <= 0 or limit <= 0:
                self._lines[_why_not(submit, processors, size, run_time)].append(line)
                continue
            never = (
                None if self._never is None else self._never(processors, memory, limit, whose[0], whose[2])
            )
            if never:
                self._lines[never].append(line)
                continue
            if requested <= 0 or run_time > limit or submit < last:
                self._notice(line, requested <= 0, run_time > limit, submit < last)
            last = submit
            kept.append((submit, number, min(run_time, limit), limit, processors, memory, *whose))
        return kept

    def _notice(self, line: int, allocated: bool, cut: bool, out_of_order: bool) -> None:
        seen = {Remark.ALLOCATED: allocated, Remark.CUT: cut, Remark.OUT_OF_ORDER: out_of_order}
        for remark in (remark for remark, is_so in seen.items() if is_so):
            self._lines[remark].append(line)


def _why_not(submit: float, processors: int, size: int, run_time: float) -> Remark:
    """Return why a job cannot be replayed: the first thing that is wrong with it."""
    if submit < 0:
        return Remark.NO_SUBMIT
    if processors <= 0:
        return Remark.NO_PROCESSORS
    if processors > size:
        return Remark.TOO_LARGE
    return Remark.NO_RUN_TIME if run_time <= 0 else Remark.NO_ESTIMATE


def _row(line: int, text: str, fields: Sequence[str]) -> _SwfRow:
    try:  # nearly every log has whole numbers only
        submit, run_time, estimate = int(fields[1]), int(fields[3]), int(fields[8])
        row = _SwfRow(int(fields[0]), submit, run_time, int(fields[4]), int(fields[7]), estimate, line)
    except (IndexError, ValueError):
        row = _row_of_fractions(line, text, fields)
    if row.submit > _LATEST or row.run_time > _LATEST or row.estimate > _LATEST:
        raise _bad_line(line, text)
    return row


def _memory(line: int, text: str, fields: Sequence[str]) -> int:
    """Return the MB for each processor that were requested, else those that were used; 0 if unknown."""
    try:
        amounts = [
            _number(fields[field]) for field in (_REQUESTED_MEMORY, _USED_MEMORY) if field < len(fields)
        ]
    except ValueError:
        raise _bad_line(line, text) from None
    return ceil(next((kilobytes for kilobytes in amounts if kilobytes > 0), 0) / _KILOBYTES)


def _account_fields(fields: Sequence[str]) -> _AccountFields:
    return _known(fields, _USER), _known(fields, _EXECUTABLE), _known(fields, _GROUP), _known(fields, _QUEUE)


def _known(fields: Sequence[str], at: int) -> str:
    """Return what stands there, "" if that is a number below zero or nothing."""
    return "" if at >= len(fields) or fields[at].startswith("-") else fields[at]


def _row_of_fractions(line: int, text: str, fields: Sequence[str]) -> _SwfRow:
    try:
        submit, run_time, estimate = map(_number, (fields[1], fields[3], fields[8]))
        return _SwfRow(int(fields[0]), submit, run_time, int(fields[4]), int(fields[7]), estimate, line)
    except (IndexError, ValueError):
        raise _bad_line(line, text) from None


def _number(text: str) -> float:
    """Read a number of seconds; whole ones stay whole, so that sums of them are exact."""
    try:
        return int(text)
    except ValueError:
        value = float(text)
        if not isfinite(value):
            raise
        return value


def _bad_line(line: int, text: str) -> BadRequest:
    shown = text.strip()
    shown = shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "…"
    return BadRequest(
        code="workload-line",
        what=f"line {line} is not a job in the Standard Workload Format: {shown!r}",
        fix="write 18 numbers with blanks between them, -1 for unknown, and ; before comments",
    )


def _machine(header: Mapping[str, str]) -> int:
    for label in ("MaxProcs", "MaxNodes"):
        value = header.get(label, "").split(maxsplit=1)
        if value and value[0].isascii() and value[0].isdigit() and int(value[0]) > 0:
            return int(value[0])
    raise BadRequest(
        code="workload-machine",
        what="the log does not say how many processors the machine has",
        fix="give their number, for example --processors 128",
    )


def _empty(lines: int, size: int) -> BadRequest:
    return BadRequest(
        code="workload-empty",
        what=f"none of {lines} jobs of the log can be replayed on {size} processors",
        fix="check that it is a log in the Standard Workload Format, and that the machine is large enough",
    )


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
