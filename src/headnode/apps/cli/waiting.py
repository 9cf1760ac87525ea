"""Waits for jobs to end: progress on a terminal, nothing but the end of each job in a pipe."""

import os
import time

from headnode.apps.cli.screens.job import ending

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager
    from typing import Any

    from headnode.apps.cli.output import Output
    from headnode.apps.cli.progress import Shown
    from headnode.apps.client.client import Client

PATIENCE = 60.0  # seconds a head may be away, for a restart, before waiting for it is given up
PAUSE = 0.25  # seconds between two attempts to reach it


def wait_for(jobs: "Sequence[int]", client: "Client", out: "Output", *, show_output: bool = False) -> int:
    """Wait until all of these jobs are over; tell how each ended; return 0 if all finished, else 1.

    With `show_output`, a job of one task whose output was captured shows it, as if it had run here.
    """
    ended: list[dict[str, Any]] = []
    try:
        with _display(out) as shown:
            for ended in _states(list(jobs), client):
                shown(ended)
    except KeyboardInterrupt:
        out.note(f"no longer waiting; {'the job goes' if len(jobs) == 1 else 'the jobs go'} on")
        raise
    for job in ended:
        out.said(ending(job), job, job["id"])
        if show_output and out.for_people and job["tasks"]["total"] == 1:
            _show_output(job["id"], client, out)
    return 0 if all(job["state"] == "Finished" for job in ended) else 1


def _states(jobs: "list[int]", client: "Client") -> "Iterator[list[dict[str, Any]]]":
    """Yield all job objects whenever one changed, across restarts of the head."""
    from headnode.core.model.errors import Unavailable

    known: dict[int, dict[str, Any]] = {}
    away_since: float | None = None
    while True:
        try:
            for answer in client.follow("watch_job", job=jobs):
                away_since = None
                known.update((job["id"], job) for job in answer["jobs"])
                yield [known[job] for job in jobs if job in known]
        except Unavailable:
            away_since = away_since or time.monotonic()
            if not known or time.monotonic() - away_since > PATIENCE:
                raise
            time.sleep(PAUSE)
        else:
            return


def _display(out: "Output") -> "AbstractContextManager[Shown]":
    if out.for_people and os.isatty(1) and os.isatty(2):
        from headnode.apps.cli.progress import bars

        return bars()
    from contextlib import nullcontext

    return nullcontext(_shown_to_nobody)


def _shown_to_nobody(_jobs: "list[dict[str, Any]]") -> None:
    """A pipe gets no progress."""


def _show_output(job: int, client: "Client", out: "Output") -> None:
    from headnode.apps.cli.task_files import copy_file

    files = client.ask("output", job=job, task=1)
    if files.get("captured") and files.get("standard_output"):
        copy_file(files["standard_output"], out.raw, captured=True)
