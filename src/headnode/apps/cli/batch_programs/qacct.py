"""``qacct`` of Grid Engine: jobs and elements that have ended, with what they used (``-j``), or sums of it.

What is not measured here is 0, as for Grid Engine where a node does not measure it.
Source:  Grid Engine 8.1, qacct(1), accounting(5), and what Grid Engine 8.1.9 prints.
"""

import sys
import time
from fnmatch import fnmatchcase

from headnode.apps.cli.batch_programs.gridengine_rows import QUEUE, read_line
from headnode.apps.cli.batch_programs.rows import BatchRow, JobSource, rows_of, typed_numbers
from headnode.apps.cli.batch_programs.values import FIELDS, elapsed, exit_code
from headnode.apps.cli.batch_programs.words import ProgramRefusal, ProgramWords, acted_on, number_of
from headnode.apps.client.client import Client
from headnode.protocol.state_names import ENDED_STATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

_RULE = "=" * 62
_NONE = ("ixrss", "ismrss", "idrss", "isrss")
_COUNTS = (
    "minflt",
    "majflt",
    "nswap",
    "inblock",
    "oublock",
    "msgsnd",
    "msgrcv",
    "nsignals",
    "nvcsw",
    "nivcsw",
)
_NARROW = ("taskid", "qsub_time", "start_time", "end_time", "failed")
_FAILED = "100 : assumedly after job"
OPTIONS = acted_on("j? t? o? u? P? q? h? d?")
_OLDER = 7 * 86400.0  # seconds for which a job that counts may have waited for its start


def run(argv: "Sequence[str]", client: Client) -> int:
    """Show jobs that have ended, oldest first, or sums of what they used."""
    args = read_line("qacct", argv, OPTIONS)
    _check(args)
    source, count = JobSource(client), 0
    rows = (row for row in _rows(args, source) if row.ended is not None and _is_meant(row, args))
    if not args.has("j"):
        _print_sums(args, (row for row in rows if row.started is not None))
        return 0
    for row in rows:
        if all(args.value(key) in ("", place) for key, place in _place_of(row).items()):
            sys.stdout.write("".join(f"{line}\n" for line in lines_of(row)))
            count += 1
    name = args.value("j")
    if name and not count:
        what = "id" if name.isdigit() else "name"
        raise ProgramRefusal(f"error: job {what} {name} not found", prefix="bare")
    return 0


def _check(args: ProgramWords) -> None:
    """Let ``-u`` be ``-o``; refuse what is asked for wrongly.

    Raises:  ProgramRefusal.
    """
    args.merge("u", "o")
    if args.has("t"):
        if not args.text("j"):
            raise ProgramRefusal("-t option requires -j option with a job")
        typed_numbers(args.value("t"))
    days = args.value("d") if args.has("d") else "1"
    if number_of(days, 5) is None:
        raise ProgramRefusal(f"-d {days[:20]} is no number of days")


def _rows(args: ProgramWords, source: JobSource) -> "Iterator[BatchRow]":
    name = args.value("j")
    if (number := number_of(name)) is not None:
        jobs = source.listed([number])
    else:
        since = _begin(args) - _OLDER if args.has("d") else None
        owner = args.text("o") or None
        jobs = list(source.pages((*ENDED_STATES, "Running"), owner=owner, name=name, since=since))[::-1]
    for job in jobs:
        yield from rows_of(source, job, expand=True)


def _begin(args: ProgramWords) -> float:
    """Return since when a job must have started."""
    return time.time() - 86400 * int(args.text("d") or "1")


def _place_of(row: BatchRow) -> "dict[str, str]":
    """Return the queue and the host of a row."""
    return {"q": QUEUE, "h": FIELDS["batchhost"](row) or "UNKNOWN"}


def _is_meant(row: BatchRow, args: ProgramWords) -> bool:
    name, owner, project = args.value("j"), args.text("o"), args.text("P")
    by_name = not name or name.isdigit() or fnmatchcase(FIELDS["name"](row) or "", name)
    element = not args.has("t") or row.number in typed_numbers(args.value("t"))
    of_owner = not owner or row.job["owner"] == owner
    if args.has("d") and (row.started or row.ended or 0) < _begin(args):
        return False
    return by_name and element and of_owner and (not project or row.job["project"] == project)


def lines_of(row: BatchRow) -> "list[str]":
    """Return the lines of a job or an element."""
    table = {name: value if name in _NARROW else f"{value:<20}" for name, value in _about(row).items()}
    table |= _used(row)
    return [_RULE, *(f"{name:<13}{value}" for name, value in table.items())]


def _about(row: BatchRow) -> "dict[str, str]":
    """Return what the job was, and how it ended."""
    code, number = exit_code(row)
    spoiled = row.started is None or row.state in ("NODE_FAIL", "TIMEOUT", "OUT_OF_MEMORY", "CANCELLED")
    return {
        "qname": QUEUE,
        "hostname": FIELDS["batchhost"](row) or "UNKNOWN",
        "group": FIELDS["group"](row) or "",
        "owner": str(row.job["owner"]),
        "project": row.job["project"] or "NONE",
        "department": "defaultdepartment",
        "jobname": FIELDS["name"](row) or "",
        "jobnumber": str(row.id),
        "taskid": "undefined" if row.number is None else str(row.number),
        "account": row.job["project"] or "sge",
        "priority": "0",
        "qsub_time": _date(row.job["submitted"] or row.job["created"]),
        "start_time": _date(row.started),
        "end_time": _date(row.ended),
        "granted_pe": "NONE",
        "slots": FIELDS["cpus"](row) or "1",
        "failed": _FAILED if spoiled or number else "0    ",
        "exit_status": str(128 + number if number else code),
    }


def _used(row: BatchRow) -> "dict[str, str]":
    """Return what the job used."""
    course = row.course
    user, system = (float(course.get(f"{kind}_time") or 0) for kind in ("user", "system"))
    peak = _size(int(course.get("peak_memory") or 0))
    return {
        "ru_wallclock": f"{elapsed(row):.0f}s",
        "ru_utime": f"{user:.3f}s",
        "ru_stime": f"{system:.3f}s",
        "ru_maxrss": peak,
        **{f"ru_{name}": "0.000B" for name in _NONE},
        **{f"ru_{name}": f"{0:<20}" for name in _COUNTS},
        "cpu": f"{user + system:.3f}s",
        "mem": "0.000Bs",
        "io": "0.000B",
        "iow": "0.000s",
        "maxvmem": peak,
        "arid": "undefined",
        "ar_sub_time": "undefined",
        "category": "NONE",
    }


def _date(at: float | None) -> str:
    return "-/-" if at is None else time.strftime("%a %b %e %H:%M:%S %Y", time.localtime(at))


def _size(kilobytes: float) -> str:
    """Write an amount of memory.

    >>> _size(3072), _size(0)
    ('3.000MB', '0.000B')
    """
    if not kilobytes:
        return "0.000B"
    for unit in "KMG":
        if kilobytes < 1024:
            return f"{kilobytes:.3f}{unit}B"
        kilobytes /= 1024
    return f"{kilobytes:.3f}TB"


_HEADINGS = f"{'WALLCLOCK':>13}{'UTIME':>14}{'STIME':>14}{'CPU':>14}{'MEMORY':>19}{'IO':>19}{'IOW':>19}"
_TOTAL = "Total System Usage"
_KEYS: "Mapping[str, tuple[str, Callable[[BatchRow], str]]]" = {
    "h": ("HOST", lambda row: FIELDS["batchhost"](row) or "UNKNOWN"),
    "q": ("CLUSTER QUEUE", lambda _row: QUEUE),
    "o": ("OWNER", lambda row: str(row.job["owner"])),
    "P": ("PROJECT", lambda row: row.job["project"] or "NONE"),
}
"""By what options sums are made: the heading, and the value of a row; in the order of the columns."""


def _print_sums(args: "ProgramWords", rows: "Iterable[BatchRow]") -> None:
    """Print a line for each host, queue, owner and project, as far as these are asked for."""
    keys = [key for key in _KEYS if args.has(key) or (key == "h" and args.text("q"))]
    sums: dict[tuple[str, ...], tuple[float, float, float]] = {}
    for row in rows:
        found = tuple(_KEYS[key][1](row) for key in keys)
        if all(args.value(key) in ("", value) for key, value in zip(keys, found, strict=True)):
            before = sums.get(found, (0.0, 0.0, 0.0))
            sums[found] = tuple(a + b for a, b in zip(before, _used_by(row), strict=True))  # type: ignore[assignment]
    widths = [
        max(map(len, (_KEYS[key][0], args.value(key), *(found[column] for found in sums))))
        for column, key in enumerate(keys)
    ]
    heading = _sum_line([_KEYS[key][0] for key in keys], widths, _HEADINGS)
    lines = [heading, "=" * len(heading)]
    lines += [_sum_line(found, widths, _sum_amounts(*sums[found])) for found in sorted(sums)]
    sys.stdout.write("".join(f"{line}\n" for line in ([] if keys else [_TOTAL]) + lines))


def _sum_line(values: "Iterable[str]", widths: "Iterable[int]", rest: str) -> str:
    return "".join(f"{value:<{width}} " for value, width in zip(values, widths, strict=True)) + rest


def _sum_amounts(wall: float, user: float, system: float) -> str:
    times = f"{wall:13.0f}{user:14.3f}{system:14.3f}{user + system:14.3f}"
    return times + f"{0:19.3f}" * 3


def _used_by(row: "BatchRow") -> tuple[float, float, float]:
    """Return for how long a job or an element ran, and the processor time of its tasks."""
    tasks = [row.task] if row.task is not None else row.source.tasks(row.id)
    user, system = (
        sum(float(task.get(f"{kind}_time") or 0) for task in tasks) for kind in ("user", "system")
    )
    return elapsed(row), user, system
