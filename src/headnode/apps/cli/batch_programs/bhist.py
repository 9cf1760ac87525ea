"""``bhist`` of LSF: how long jobs were in each state, and what happened to them.

Source:  IBM Spectrum LSF 10.1, bhist(1).
"""

import sys
import time

from headnode.apps.cli.batch_programs import lsf_periods
from headnode.apps.cli.batch_programs.bjobs_fields import hosts_of
from headnode.apps.cli.batch_programs.lsf_rows import (
    ANY_TIME,
    CHOICES,
    NOT_DONE,
    address_of,
    asked_rows,
    chosen_rows,
    name_of,
    read_line,
    state_of,
)
from headnode.apps.cli.batch_programs.lsf_text import (
    RULE,
    event_line,
    first_line,
    how_it_ended,
    submission_line,
)
from headnode.apps.cli.batch_programs.rows import BatchRow, JobSource
from headnode.apps.cli.batch_programs.values import processors
from headnode.apps.cli.batch_programs.words import (
    ProgramRefusal,
    ProgramWords,
    acted_on,
    ignored,
    number_of,
    refused,
)
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

_CHRONICLE = "the events of the whole cluster are in: hn cluster history"
OPTIONS = (
    acted_on(f"a! d! e! p! r! s! l! w! UF! n {lsf_periods.OPTIONS} {CHOICES}")
    | ignored("b!", "the table is brief")
    | refused("t! T", _CHRONICLE)
    | refused("f", "the head keeps the events, and no other file is read")
)
_LIVING = {"p": ("PEND", "PSUSP"), "r": ("RUN",), "s": ("PSUSP", "USUSP", "SSUSP")}
_COLUMNS = ("PEND", "PSUSP", "RUN", "USUSP", "SSUSP", "UNKWN")
_TITLE = "Summary of time in seconds spent in various states"
_HEADING = f"{'JOBID':<8}{'USER':<8}{'JOB_NAME':<10}" + "".join(f"{each:<8}" for each in _COLUMNS) + "TOTAL\n"
_WIDTHS = (7, 7, 9)


def run(argv: "Sequence[str]", client: Client) -> int:
    """Show the history of jobs; the exit status is 255 if a job that was named is not there."""
    line = read_line("bhist", argv, OPTIONS)
    source = JobSource(client)
    rows, missing = asked_rows(line, source, lambda: _chosen(line, source))
    rows = [row for row in rows if lsf_periods.is_in_periods(row, line)]
    if line.has("l") or line.has("UF"):
        sys.stdout.write(RULE.join(_at_length(row) for row in rows))
    elif rows:
        sys.stdout.write(f"{_TITLE}:\n{_HEADING}" + "".join(_line(row, line) for row in rows))
    sys.stdout.flush()
    for word in missing:
        sys.stderr.write(f"Job <{word}> is not found\n")
    if not rows and not missing:
        sys.stderr.write("No matching job found\n")
    return NOT_DONE if missing or not rows else 0


def _chosen(line: ProgramWords, source: JobSource) -> "list[BatchRow]":
    """Return the rows that the options choose: without one of states those that have not ended."""
    every = line.has("a")
    over = every or line.has("d") or line.has("e") or line.has("C")
    wanted = [state for flag, states in _LIVING.items() if line.has(flag) for state in states]
    wanted += ["DONE", "EXIT"] if line.has("d") or (line.has("C") and not line.has("e")) else []
    wanted += ["EXIT"] if line.has("e") else []
    living = every or not over or bool(line.has_any(_LIVING))
    rows = chosen_rows(line, source, living=living, ended=ANY_TIME if over else 0.0, pages=_pages(line))
    if not wanted and not every:
        wanted = ["PEND", "PSUSP", "RUN", "USUSP", "SSUSP"]
    return [row for row in rows if every or state_of(row) in wanted]


def _pages(line: ProgramWords) -> "int | None":
    """Return in how many thousands of the newest ended jobs to look; None: in all.

    LSF begins a new file of events after 1,000 jobs, and ``-n`` is the number of files.
    """
    if not line.has("n"):
        return None if line.has_any(lsf_periods.OPTIONS.split()) else 1
    files = number_of(line.value("n").rpartition(",")[2].strip(), 6)
    if files is None:
        what = f"{line.value('n')[:40]}: Illegal number of event log files"
        raise ProgramRefusal(what, status=NOT_DONE, prefix="bare")
    return files or None


class StateTimes:
    """For how long a job or an element was in each state, in seconds."""

    def __init__(self, row: BatchRow, changes: "Sequence[dict[str, Any]]") -> None:
        self.end = row.ended or time.time()
        spans = list(_spans(changes, self.end))
        stopped = [span for state, *span in spans if state == "USUSP"]
        if row.number is not None:
            spans = _element_spans(row, self.end)
        held = _held_spans(row, self.end)
        self.seconds = dict.fromkeys(_COLUMNS, 0.0)
        for state, begin, end in spans:
            apart = held if state == "PEND" else stopped if row.number is not None else []
            taken = sum(max(0.0, min(end, last) - max(begin, first)) for first, last in apart)
            self.seconds[state] += end - begin - taken
            self.seconds["PSUSP" if state == "PEND" else "USUSP"] += taken

    def cells(self) -> "list[str]":
        """Return the seconds of each state, and in all."""
        whole = [round(self.seconds[state]) for state in _COLUMNS]
        return [str(each) for each in (*whole, sum(whole))]


_STATES = {
    "queued": "PEND", "handed": "PEND", "validating": "PEND", "running": "RUN", "suspending": "RUN",
    "ending": "RUN", "suspended": "USUSP", "resuming": "USUSP",
}  # fmt: skip


def _changes(row: BatchRow) -> "list[dict[str, Any]]":
    """Return the changes of the state of a job itself, the oldest first."""
    changes: list[dict[str, Any]] = []
    after, more = 0, True
    while more:
        answer = row.source.client.ask("job_states", job=row.id, after=after)
        changes += [change for change in answer["changes"] if "task" not in change]
        after, more = answer["after"], answer["more"]
    return changes


def _spans(changes: "Sequence[dict[str, Any]]", now: float) -> "Iterator[tuple[str, float, float]]":
    ends = [*(change["at"] for change in changes[1:]), now]
    for change, end in zip(changes, ends, strict=True):
        if state := _STATES.get(change["state"]):
            yield state, change["at"], max(end, change["at"])


def _element_spans(row: BatchRow, end: float) -> "list[tuple[str, float, float]]":
    submitted = float(row.job["submitted"] or row.job["created"])
    started = row.started if row.started is not None else end
    return [("PEND", submitted, max(started, submitted)), ("RUN", started, max(end, started))]


def _held_spans(row: BatchRow, now: float) -> "list[tuple[float, float]]":
    """Return when it was held; one that was submitted so was held from then on.

    The sentences are those of `core/state/report`.
    """
    submitted = float(row.job["submitted"] or row.job["created"])
    spans: list[tuple[float, float]] = []
    detail = row.source.detail(row.id)
    since: float | None = None
    first = True
    for entry in detail["history"]:
        if not entry["text"].startswith("Hold "):
            continue
        if " set by " in entry["text"]:
            since = entry["at"] if since is None else since
        elif since is not None or first:
            spans.append((submitted if since is None else since, entry["at"]))
            since = None
        first = False
    if since is not None or (first and detail["holds"]):
        spans.append((submitted if since is None else since, now))
    return spans


def _line(row: BatchRow, line: ProgramWords) -> str:
    texts = (address_of(row), str(row.job["owner"]), name_of(row))
    if line.has("w"):
        names = [text.ljust(width) for text, width in zip(texts, _WIDTHS, strict=True)]
    else:
        names = [_cut(text, width) for text, width in zip(texts, _WIDTHS, strict=True)]
    cells = StateTimes(row, _changes(row)).cells()
    return f"{' '.join(names)} " + "".join(f"{cell:<8}" for cell in cells).rstrip() + "\n"


def _cut(text: str, width: int) -> str:
    return ("*" + text[1 - width :] if len(text) > width else text).ljust(width)


def _at_length(row: BatchRow) -> str:
    changes = _changes(row)
    text = first_line(row) + submission_line(row)
    text += "".join(_events(row, changes))
    if row.ended is not None:
        text += event_line(row.ended, how_it_ended(row))
    times = StateTimes(row, changes)
    at = time.strftime("%a %b %e %H:%M:%S", time.localtime(times.end))
    heading = "".join(f"{state:<9}" for state in _COLUMNS) + "TOTAL"
    cells = "".join(f"{cell:<9}" for cell in times.cells()).rstrip()
    return f"{text}\n{_TITLE} by  {at}\n  {heading}\n  {cells}\n"


def _events(row: BatchRow, changes: "Sequence[dict[str, Any]]") -> "Iterator[str]":
    """Yield the lines of what happened between the submission and the end."""
    before = ""
    for change in changes:
        state, at = change["state"], change["at"]
        if state == "running" and before == "resuming":
            yield event_line(at, "Running;")
        elif state == "running":
            count = processors(row)
            yield event_line(at, f"Dispatched {count} Task(s) on Host(s) <{hosts_of(row) or '-'}>;")
        elif state == "suspended":
            yield event_line(at, "Suspended by user or administrator;")
        elif state == "queued" and before not in ("", "configuring", "validating"):
            yield event_line(at, "Pending: Job has been requeued;")
        before = state
