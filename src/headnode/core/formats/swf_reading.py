"""Read job logs in the Standard Workload Format: one line for each job, 18 numbers, -1 for unknown."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from math import ceil, isfinite
from typing import NamedTuple

from headnode.core.model.errors import BadRequest
from headnode.core.model.workload import Workload

FIELDS = 18
_STATUS = 10  # where the status stands; 2, 3 and 4 mark a part of a job that was swapped out or restarted
_PARTS = frozenset(("2", "3", "4"))
_SHOWN = 60  # characters of a bad line in an error
_USED_MEMORY, _REQUESTED_MEMORY = 6, 9  # where they stand; kB for each processor
_USER, _GROUP, _EXECUTABLE, _QUEUE = 11, 12, 13, 14
_KILOBYTES = 1024  # in a MB
_LATEST = 10**12  # seconds, 30,000 years: times beyond are no times

Fits = Callable[[int, int], bool]
"""Whether a job of so many processors with so many MB for each could ever run."""


class Remark(StrEnum):
    """What was noticed about lines of a log, in words that follow their number."""

    PART = "left out: a part of a job that has a line of its own"
    NO_SUBMIT = "left out: no submit time"
    NO_PROCESSORS = "left out: no processors, neither requested nor allocated"
    TOO_LARGE = "left out: more processors than the machine has"
    NEVER_FITS = "left out: the nodes described could not run them, even if nothing else ran"
    NO_RUN_TIME = "left out: no run time, or none above zero"
    NO_ESTIMATE = "left out: no estimate, or none above zero"
    ESTIMATED = "run times taken as estimates: the log has none at all"
    CUT = "run times cut at the estimate, where the job would have been stopped"
    ALLOCATED = "processors taken from what was allocated: none were requested"
    OUT_OF_ORDER = "came before the job on the line above; put in order of submit time, then number"
    MORE_FIELDS = "lines with more than 18 fields, the rest not looked at"
    FEWER_FIELDS = "lines with fewer than 18 fields, the missing ones taken as unknown"


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
    whose: "_Whose" = ("", "", "", "")


_Whose = tuple[str, str, str, str]
"""User, name, group and queue; "" is unknown."""

_JobRow = tuple[float, int, float, float, int, int, str, str, str, str]
"""(submit, number, run time, estimate, processors, memory, user, name, group, queue) of a job replayed."""


def read_swf(
    lines: Iterable[str], processors: int | None = None, fits: Fits | None = None, whose: bool = False
) -> SwfLog:
    """Read a log for a machine of so many processors; None takes what the log's header says.

    Memory is read only where `fits` is there to look at it: most logs say nothing of it.  With `whose`,
    users, names, groups and queues are read too: the numbers that stand there, names being executables.
    Raises:  BadRequest ``workload-line`` for a line that is not in the format, ``workload-machine`` when
             nobody says how large the machine is, ``workload-empty`` when no job can be replayed.
    """
    reader = _SwfReader(fits, whose)
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

    def __init__(self, fits: Fits | None, whose: bool) -> None:
        self._fits, self._whose = fits, whose
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
        if self._fits is not None:
            row = row._replace(memory=_memory(line, text, fields))
        if self._whose:
            row = row._replace(whose=_whose(fields))
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
            if self._fits is not None and not self._fits(processors, memory):
                self._lines[Remark.NEVER_FITS].append(line)
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
        said = [_number(fields[field]) for field in (_REQUESTED_MEMORY, _USED_MEMORY) if field < len(fields)]
    except ValueError:
        raise _bad_line(line, text) from None
    return ceil(next((kilobytes for kilobytes in said if kilobytes > 0), 0) / _KILOBYTES)


def _whose(fields: Sequence[str]) -> _Whose:
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
        what=f"line {line} is no job in the Standard Workload Format: {shown!r}",
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
