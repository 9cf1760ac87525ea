"""The tables of condor_q and condor_history.

Source:  HTCondor 24, condor_q(1) and condor_history(1).
"""

import time

from headnode.apps.cli.condor_programs.ad_output import run_time
from headnode.apps.cli.condor_programs.job_ads import JobAd
from headnode.apps.cli.condor_programs.processes import (
    COMPLETED,
    HELD,
    IDLE,
    LETTERS,
    REMOVED,
    RUNNING,
    SUSPENDED,
    CondorProcess,
)
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

_COUNTED = (
    (COMPLETED, "completed"),
    (REMOVED, "removed"),
    (IDLE, "idle"),
    (RUNNING, "running"),
    (HELD, "held"),
    (SUSPENDED, "suspended"),
)


def banner(client: Client) -> str:
    """Return the line above each table: the queue, and when it was asked."""
    name = client.ask("cluster")["cluster"]["name"]
    at = time.strftime("%m/%d/%y %H:%M:%S")
    return f"\n\n-- Schedd: {name} : <127.0.0.1:9618?... @ {at}\n"


def date(at: float | None) -> str:
    """Return a date as HTCondor writes it in tables."""
    if at is None:
        return " ???"
    local = time.localtime(at)
    return f"{local.tm_mon:>2}/{local.tm_mday:<2} {local.tm_hour:02}:{local.tm_min:02}"


class StatusCounts:
    """How many processes are in each state."""

    def __init__(self) -> None:
        self._counts = dict.fromkeys((state for state, _ in _COUNTED), 0)

    def add(self, status: int, times: int = 1) -> None:
        """Count processes in a state."""
        self._counts[status] += times

    def add_job(self, job: "Mapping[str, Any]") -> None:
        """Count the processes of a job that have not ended."""
        tasks = job["tasks"]
        self.add(HELD if job["held"] else IDLE, tasks["queued"])
        self.add(SUSPENDED if job["state"] == "Suspended" else RUNNING, tasks["running"])

    def __str__(self) -> str:
        """Return the counts in a line."""
        counts = ", ".join(f"{self._counts[state]} {word}" for state, word in _COUNTED)
        return f"{sum(self._counts.values())} jobs; {counts}"


def _id(row: CondorProcess) -> str:
    return f"{row.cluster:>4}.{row.number:<3}"


def _command(ad: JobAd) -> str:
    program, *arguments = ad.words()
    return " ".join([program.rpartition("/")[2], *arguments])


class ProcessTable:
    """A table with a line for each process: its heading, and what a line shows; cut off at 80 columns."""

    def __init__(self, heading: str, line: "Callable[[CondorProcess, JobAd], str]") -> None:
        self._heading, self._line = heading, line

    def lines(self, rows: "Iterable[CondorProcess]", *, wide: bool) -> "Iterator[str]":
        """Yield the lines; those of a `wide` table are whole."""
        width = None if wide else 80
        yield f"{self._heading}\n"
        for row in rows:
            yield self._line(row, JobAd(row)).rstrip()[:width] + "\n"


def _process_line(row: CondorProcess, ad: JobAd) -> str:
    size = (row.task["peak_memory"] or 0) / 1024
    return f"{_begun(row, ad)} {LETTERS[row.status]:<2} {ad('jobprio'):<3} {size:<4.1f} {_command(ad)}"


def _held_line(row: CondorProcess, ad: JobAd) -> str:
    since = date(float(ad("enteredcurrentstatus") or 0))
    return f"{_id(row)} {row.job['owner'][:14]:<14} {since:<11} {ad('holdreason') or ''}"


def _running_line(row: CondorProcess, ad: JobAd) -> str:
    return f"{_begun(row, ad)} {ad('remotehost') or '[????????????????]'}"


def _ended_line(row: CondorProcess, ad: JobAd) -> str:
    completed = date(ad.ended) if row.status == COMPLETED else " ???"
    return f"{_begun(row, ad)} {LETTERS[row.status]:<2} {completed:<11} {' '.join(ad.words())}"


def _begun(row: CondorProcess, ad: JobAd) -> str:
    """Return the columns up to the run time."""
    return f"{_id(row)} {row.job['owner'][:14]:<14} {date(ad.queued):<11} {run_time(ad.wall_time()):>12}"


PROCESSES = ProcessTable(" ID      OWNER            SUBMITTED     RUN_TIME ST PRI SIZE CMD", _process_line)
HELD_ONES = ProcessTable(" ID      OWNER          HELD_SINCE  HOLD_REASON", _held_line)
RUNNING_ONES = ProcessTable(" ID      OWNER            SUBMITTED     RUN_TIME HOST(S)", _running_line)
ENDED_ONES = ProcessTable(
    " ID     OWNER          SUBMITTED   RUN_TIME     ST COMPLETED   CMD            ", _ended_line
)
_STATES = ("DONE", "RUN", "IDLE", "HOLD")


class _Batch:
    """A line of the batch view: the jobs of one name, of one owner."""

    def __init__(self, owner: str, name: str, submitted: str) -> None:
        self.owner, self.name, self.submitted = owner, name, submitted
        self.counts = dict.fromkeys(_STATES, 0)
        self.ids: list[tuple[int, int, int]] = []  # cluster, first and last process

    def add(self, job: "Mapping[str, Any]") -> None:
        """Count a job."""
        tasks = job["tasks"]
        self.counts["DONE"] += tasks["finished"] + tasks["failed"] + tasks["canceled"]
        self.counts["RUN"] += tasks["running"]
        self.counts["HOLD" if job["held"] else "IDLE"] += tasks["queued"]
        self.ids.append((int(job["id"]), 0, tasks["total"] - 1))

    def cells(self, states: "Sequence[str]") -> "list[str]":
        """Return the texts of its line."""
        counts = [self.counts[state] for state in states]
        total = sum(self.counts.values())
        return [
            self.owner,
            self.name,
            self.submitted,
            *(f"{count or '_':>6}" for count in counts),
            f"{total:>6}",
            self._ids(),
        ]

    def _ids(self) -> str:
        self.ids.sort()
        (cluster, first, last), (final, _, end) = self.ids[0], self.ids[-1]
        if len(self.ids) == 1:
            return f"{cluster}.{first}" if first == last else f"{cluster}.{first}-{last}"
        return f"{cluster}.{first} ... {final}.{end}"


def batch_lines(jobs: "Iterable[Mapping[str, Any]]", names: "Mapping[int, str]") -> "Iterator[str]":
    """Yield the lines of the batch view; `names` has those of jobs that have a batch name."""
    batches: dict[tuple[str, str], _Batch] = {}
    for job in jobs:
        name = names.get(job["id"]) or f"ID: {job['id']}"
        key = (str(job["owner"]), name)
        if key not in batches:
            batches[key] = _Batch(*key, date(job["submitted"] or job["created"]))
        batches[key].add(job)
    held = not batches or any(batch.counts["HOLD"] for batch in batches.values())
    states = _STATES if held else _STATES[:-1]
    heads = ["OWNER", "BATCH_NAME", "  SUBMITTED", *(f"{state:>6}" for state in states), " TOTAL", "JOB_IDS"]
    rows = [heads, *(batch.cells(states) for batch in batches.values())]
    widths = [max(len(row[at]) for row in rows) for at in range(len(heads) - 1)]
    for row in rows:
        yield " ".join(text.ljust(width) for text, width in zip(row, widths, strict=False)) + f" {row[-1]}\n"
