"""Jobs as rows of a table: the words are those of ``hn job list``."""

from collections.abc import Iterable
from typing import Any

from headnode.apps.cli.screens import job_table
from headnode.apps.web.console.marks import job_mark
from headnode.apps.web.console.visit import Model, Told


def job_row(job: Told, now: float) -> Model:
    """Return what a row shows of a job; `now` in seconds since 1970."""
    cells = job_table.cells(job, now)
    elapsed, limit = cells["Elapsed"], cells["Limit"]
    return {
        "id": job["id"],
        "name": cells["Name"],
        "owner": job["owner"],
        "project": job["project"],
        "state": job["state"],
        "mark": job_mark(job),
        "state_words": job["state"],
        "priority": job["priority_name"],
        "tasks": job["tasks"],
        "tasks_words": cells["Tasks"],
        "size": cells["Cores"],
        "time": f"{elapsed or '–'} / {limit}",
        "submitted": job["submitted"],
        "started": job["started"],
        "ended": job["ended"],
        "remark": cells[job_table.LAST],
    }


def job_rows(jobs: Iterable[Told], now: float) -> list[dict[str, Any]]:
    """Return the rows of jobs, in their order."""
    return [job_row(job, now) for job in jobs]
