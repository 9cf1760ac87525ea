"""Progress of jobs on a terminal.  Imported only there: the library takes 60 ms."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import Progress, ProgressColumn, Task, TaskID, TextColumn, TimeElapsedColumn
from rich.progress_bar import ProgressBar
from rich.text import Text

from headnode.apps.cli.screens.job_table import waits_in_words
from headnode.apps.cli.table import printable
from headnode.protocol.state_names import ENDED_STATES

ShowJobs = Callable[[list[dict[str, Any]]], None]
MAX_BARS = 12  # more jobs than this share one bar
BAR = 30  # columns


@contextmanager
def bars() -> Iterator[ShowJobs]:
    """Show one bar per job, or one for all when there are many, until the block ends.

    A job that waits has no bar but a line that says why, and when it should start.
    """
    progress = Progress(
        TextColumn("{task.description}", markup=False),
        _Bar(),
        TextColumn("{task.fields[counts]}", markup=False),
        TimeElapsedColumn(),
    )
    with Live(progress, console=Console(stderr=True), transient=True, refresh_per_second=4) as live:
        yield _Bars(progress, live).show


class _Bar(ProgressColumn):
    """A bar that is red once a task has failed, and never looks like success then."""

    def render(self, task: Task) -> ProgressBar:
        """Return the bar as it is now."""
        done = "red" if task.fields["failed"] else "green"
        return ProgressBar(
            total=max(0, task.total) if task.total is not None else None,
            completed=max(0, task.completed),
            width=BAR,
            pulse=not task.started,
            animation_time=task.get_time(),
            complete_style=done,
            finished_style=done,
        )


class _Bars:
    def __init__(self, progress: Progress, live: Live) -> None:
        self._progress, self._live = progress, live
        self._bars: dict[object, TaskID] = {}

    def show(self, jobs: list[dict[str, Any]]) -> None:
        if len(jobs) > MAX_BARS:
            over = sum(job["state"] in ENDED_STATES for job in jobs)
            self._update("all", f"{over} of {len(jobs)} jobs ended", _sum([job["tasks"] for job in jobs]))
            return
        waiting = [job for job in jobs if job["state"] == "Queued"]
        for job in jobs:
            if job["state"] != "Queued":
                self._update(job["id"], f"{job_name(job)} {job['state'].lower()}", job["tasks"])
            elif job["id"] in self._bars:  # it is back in the queue
                self._progress.update(self._bars[job["id"]], visible=False)
        lines = [f"{job_name(job)} queued: {waits_in_words(job, time.time())}" for job in waiting]
        self._live.update(Group(self._progress, Text("\n".join(map(printable, lines)))), refresh=True)

    def _update(self, key: object, description: str, tasks: dict[str, int]) -> None:
        if key not in self._bars:
            self._bars[key] = self._progress.add_task("", total=None, counts="", failed=0)
        self._progress.update(
            self._bars[key],
            visible=True,
            description=Text(printable(description)).plain,
            total=tasks["total"] or None,
            completed=tasks["finished"] + tasks["failed"] + tasks["canceled"],
            counts=counts(tasks),
            failed=tasks["failed"] + tasks["canceled"],
        )


def job_name(job: dict[str, Any]) -> str:
    """Return a job by its id and its name, if it has one."""
    return f"Job {job['id']}" + (f' "{job["name"]}"' if job["name"] else "")


def counts(tasks: dict[str, int]) -> str:
    """Return the counts of a job's tasks in words, without those that are zero."""
    parts = [f"{tasks[state]} {state}" for state in ("running", "failed", "canceled") if tasks[state]]
    return ", ".join([f"{tasks['finished']}/{tasks['total']} tasks finished", *parts])


def _sum(counts_of_each: list[dict[str, int]]) -> dict[str, int]:
    return {state: sum(tasks[state] for tasks in counts_of_each) for state in counts_of_each[0]}
