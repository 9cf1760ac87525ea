"""``bacct`` of LSF: what ended jobs used, in a summary, in brief (``-b``) and at length (``-l``).

Source:  IBM Spectrum LSF 10.1, bacct(1).
"""

import sys
import time

from headnode.apps.cli.batch_programs import lsf_periods
from headnode.apps.cli.batch_programs.bjobs_fields import cpu_used, date, exit_reason, hosts_of
from headnode.apps.cli.batch_programs.lsf_rows import (
    ANY_TIME,
    NOT_DONE,
    asked_rows,
    chosen_rows,
    name_of,
    names_in,
    queue_of,
    read_line,
    state_of,
)
from headnode.apps.cli.batch_programs.lsf_text import RULE, event_line, first_line, submission_line
from headnode.apps.cli.batch_programs.rows import BatchRow, JobSource
from headnode.apps.cli.batch_programs.squeue import own_user
from headnode.apps.cli.batch_programs.values import elapsed, processors
from headnode.apps.cli.batch_programs.words import ProgramWords, acted_on, ignored, refused
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

OPTIONS = (
    acted_on(f"b! l! d! e! w! UF! {lsf_periods.OPTIONS} m q u P")
    | ignored("E! N", "times are not normalized")
    | refused("x!", "exceptions of jobs are not recorded")
    | refused("f", "the head keeps the accounting, and no other file is read")
    | refused("U", "what ran in a reservation: hn job list --state '*' and hn reservation view")
    | refused("app sla Lp", "jobs have no such property here")
)
_OVER = ("DONE", "EXIT")
_BRIEF = "{:<8} {:<10} {:<12} {:>8} {:>6} {:>10}  {:<8} {:<8} {}\n"


def run(argv: "Sequence[str]", client: Client) -> int:
    """Show the accounting of ended jobs; the exit status is 255 if a job that was named is not there."""
    line = read_line("bacct", argv, OPTIONS)
    source = JobSource(client)
    rows, missing = asked_rows(
        line, source, lambda: chosen_rows(line, source, living=False, ended=ANY_TIME, pages=None)
    )
    wanted = [state for flag, state in (("d", "DONE"), ("e", "EXIT")) if line.has(flag)] or _OVER
    rows = [
        row
        for row in rows
        if row.ended is not None and state_of(row) in wanted and lsf_periods.is_in_periods(row, line)
    ]
    sys.stdout.write(_introduction(line) + _each(line, rows) + _summary(rows, named=bool(line.words)))
    sys.stdout.flush()
    for word in missing:
        sys.stderr.write(f"Job <{word}> is not found\n")
    return NOT_DONE if missing else 0


def _introduction(line: ProgramWords) -> str:
    """Return the lines that say which jobs are counted."""
    users = names_in(line.value("u")) or ([] if line.words else [own_user()])
    everybody = not users or "all" in users
    done, exited = line.has("d"), line.has("e")
    which = "exited" if exited and not done else "completed normally"
    if done == exited:
        which = "completed normally or exited"
    lines = [
        "submitted by all users." if everybody else f"submitted by users {', '.join(users)}, ",
        _of_names("accounted on", "projects", line.value("P")),
        which,
        _of_names("executed on", "hosts", line.value("m")),
        _of_names("submitted to", "queues", line.value("q")),
        "accounted on all service classes.",
    ]
    listed = "".join(f"  - {each}\n" for each in lines)
    return f"\nAccounting information about jobs that are: \n{listed}{RULE}\n"


def _of_names(deed: str, kind: str, names: str) -> str:
    return f"{deed} {kind} {', '.join(names_in(names))}, " if names else f"{deed} all {kind}."


def _each(line: ProgramWords, rows: "Sequence[BatchRow]") -> str:
    if line.has("l") or line.has("UF"):
        return "".join(_at_length(row) for row in rows)
    if not line.has("b") or not rows:
        return ""
    heading = ("U/UID", "QUEUE", "SUBMIT_TIME", "CPU_T", "WAIT", "TURNAROUND", "FROM", "EXEC_ON", "JOB_NAME")
    return _BRIEF.format(*heading) + "".join(_brief(row) for row in rows) + RULE + "\n"


def _brief(row: BatchRow) -> str:
    return _BRIEF.format(
        str(row.job["owner"])[:8],
        queue_of(row)[:10],
        date(_submitted(row)),
        f"{cpu_used(row):.2f}",
        f"{_waited(row):.0f}",
        f"{_turnaround(row):.0f}",
        str(row.source.detail(row.id)["submit_host"] or "-")[:8],
        (hosts_of(row) or "-")[:8],
        name_of(row),
    )


def _at_length(row: BatchRow) -> str:
    text = first_line(row).lstrip("\n") + submission_line(row)
    if row.started is not None:
        text += event_line(row.started, f"Dispatched {processors(row)} Task(s) on Host(s) <{hosts_of(row)}>;")
    how, reason = ("done" if state_of(row) == "DONE" else "exit"), exit_reason(row)
    text += event_line(row.ended or 0.0, f"Completed <{how}>{f'; {reason}' if reason else ''}.")
    values = (
        f"{cpu_used(row):.2f}",
        f"{_waited(row):.0f}",
        f"{_turnaround(row):.0f}",
        how,
        f"{_hog_factor(row):.4f}",
        _memory(row),
        "-",
    )
    form = "{:>10} {:>8} {:>14} {:>8} {:>14} {:>6} {:>7}\n"
    heading = form.format("CPU_T", "WAIT", "TURNAROUND", "STATUS", "HOG_FACTOR", "MEM", "SWAP")
    return f"{text}\nAccounting information about this job:\n{heading}{form.format(*values)}{RULE}\n"


def _memory(row: BatchRow) -> str:
    """Return the peak of its memory: ``12M``; a dash where it was not measured."""
    kilobytes = float(row.course.get("peak_memory") or 0) if row.started is not None else 0.0
    if not kilobytes:
        return "-"
    for unit in "KMG":
        if kilobytes < 1024:
            return f"{kilobytes:.0f}{unit}"
        kilobytes /= 1024
    return f"{kilobytes:.1f}T"


def _submitted(row: BatchRow) -> float:
    return float(row.job["submitted"] or row.job["created"])


def _turnaround(row: BatchRow) -> float:
    return max(0.0, (row.ended or 0.0) - _submitted(row))


def _waited(row: BatchRow) -> float:
    return max(0.0, (row.started if row.started is not None else row.ended or 0.0) - _submitted(row))


def _hog_factor(row: BatchRow) -> float:
    return cpu_used(row) / _turnaround(row) if _turnaround(row) else 0.0


def _expansion_factor(row: BatchRow) -> float:
    return _turnaround(row) / elapsed(row) if elapsed(row) else 0.0


class JobSums:
    """The sum, the mean, and the extremes of a value over jobs; all 0 without jobs."""

    def __init__(self, rows: "Sequence[BatchRow]", value: "Callable[[BatchRow], float]") -> None:
        found = [value(row) for row in rows] or [0.0]
        self.total, self.most, self.least = sum(found), max(found), min(found)
        self.mean = self.total / len(found)


def _summary(rows: "Sequence[BatchRow]", *, named: bool) -> str:
    done = sum(state_of(row) == "DONE" for row in rows)
    cpu, wait = JobSums(rows, cpu_used), JobSums(rows, _waited)
    turnaround, hog = JobSums(rows, _turnaround), JobSums(rows, _hog_factor)
    expansion, ran = JobSums(rows, _expansion_factor), JobSums(rows, elapsed)
    lines = [
        "SUMMARY:      ( time unit: second ) ",
        f" Total number of done jobs:{done:8}      Total number of exited jobs:{len(rows) - done:6}",
        f" Total CPU time consumed:  {cpu.total:8.1f}      Average CPU time consumed:{cpu.mean:8.1f}",
        f" Maximum CPU time of a job:{cpu.most:8.1f}      Minimum CPU time of a job:{cpu.least:8.1f}",
        f" Total wait time in queues:{wait.total:8.1f}",
        f" Average wait time in queue:{wait.mean:7.1f}",
        f" Maximum wait time in queue:{wait.most:7.1f}      Minimum wait time in queue:{wait.least:7.1f}",
        f" Average turnaround time:{turnaround.mean:10.0f} (seconds/job)",
        f" Maximum turnaround time:{turnaround.most:10.0f}      "
        f"Minimum turnaround time:{turnaround.least:10.0f}",
        f" Average hog factor of a job:{hog.mean:6.2f} ( cpu time / turnaround time )",
        f" Maximum hog factor of a job:{hog.most:6.2f}      Minimum hog factor of a job:{hog.least:6.2f}",
        f" Average expansion factor of a job:{expansion.mean:6.2f} ( turnaround time / run time )",
        f" Maximum expansion factor of a job:{expansion.most:6.2f}",
        f" Minimum expansion factor of a job:{expansion.least:6.2f}",
        f" Total Run time consumed:{ran.total:10.0f}      Average Run time consumed:{ran.mean:8.0f}",
    ]
    if rows and not named:
        lines += _throughput(rows)
    return "".join(f"{each}\n" for each in lines)


def _throughput(rows: "Sequence[BatchRow]") -> "list[str]":
    """Return how many jobs ended in an hour between the first and the last end."""
    ends = [row.ended or 0.0 for row in rows]
    hours = (max(ends) - min(ends)) / 3600
    dates = [time.strftime("%b %e %H:%M", time.localtime(at)) for at in (min(ends), max(ends))]
    lines = [f" Beginning time:       {dates[0]:<12}      Ending time:         {dates[1]:<12}"]
    if hours:
        lines.insert(
            0, f" Total throughput:  {len(rows) / hours:11.2f} (jobs/hour)  during {hours:7.2f} hours"
        )
    return lines
