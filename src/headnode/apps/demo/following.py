"""Follows jobs to their end: bars on a terminal, a line for every change in a pipe."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headnode.apps.cli.progress import Shown, bars, counts
from headnode.apps.client.client import Client
from headnode.apps.demo.typed import say

Job = dict[str, Any]  # a job object of the local protocol


def follow(state: Path, jobs: list[int]) -> list[Job]:
    """Show how the jobs go until all are over; return them as they ended."""
    known: dict[int, Job] = {}
    client = Client(str(state))
    try:
        with bars() if sys.stderr.isatty() else lines() as shown:
            for answer in client.follow("watch_job", job=jobs):
                known.update((job["id"], job) for job in answer["jobs"])
                shown([known[job] for job in jobs if job in known])
    finally:
        client.close()
    return [known[job] for job in jobs]


@contextmanager
def lines() -> Iterator[Shown]:
    """Print a line whenever something of a job is new."""
    last: dict[int, str] = {}

    def show(jobs: list[Job]) -> None:
        for job in jobs:
            line = f"  job {job['id']} {job['name']}: {job['state'].lower()}, {counts(job['tasks'])}"
            if last.get(job["id"]) != line:
                last[job["id"]] = line
                say(line)

    yield show
