"""Progress bars for jobs on a terminal.  Imported only there: the library takes 60 ms."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from headnode.apps.cli.sheet import printable

Shown = Callable[[list[dict[str, Any]]], None]
MOST_BARS = 12  # more jobs than this share one bar


@contextmanager
def bars() -> Iterator[Shown]:
    """Show one bar per job, or one for all when there are many, until the block ends."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        TextColumn("{task.fields[counts]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield _Bars(progress).show


class _Bars:
    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._bars: dict[object, TaskID] = {}

    def show(self, jobs: list[dict[str, Any]]) -> None:
        if len(jobs) > MOST_BARS:
            over = sum(job["state"] in ("Finished", "Failed", "Canceled") for job in jobs)
            self._update("all", f"{over} of {len(jobs)} jobs ended", _sum([job["tasks"] for job in jobs]))
            return
        for job in jobs:
            name = f' "{job["name"]}"' if job["name"] else ""
            self._update(job["id"], f"Job {job['id']}{name} {job['state'].lower()}", job["tasks"])

    def _update(self, key: object, description: str, tasks: dict[str, int]) -> None:
        if key not in self._bars:
            self._bars[key] = self._progress.add_task("", total=None, counts="")
        self._progress.update(
            self._bars[key],
            description=Text(printable(description)).plain,
            total=tasks["total"] or None,
            completed=tasks["finished"] + tasks["failed"] + tasks["canceled"],
            counts=counts(tasks),
        )


def counts(tasks: dict[str, int]) -> str:
    """Return the counts of a job's tasks in words, without those that are zero."""
    parts = [f"{tasks[state]} {state}" for state in ("running", "failed", "canceled") if tasks[state]]
    return ", ".join([f"{tasks['finished']}/{tasks['total']} tasks finished", *parts])


def _sum(counts_of_each: list[dict[str, int]]) -> dict[str, int]:
    return {state: sum(tasks[state] for tasks in counts_of_each) for state in counts_of_each[0]}
