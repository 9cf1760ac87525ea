"""States with their marks, and jobs as rows of a table; the words are those of ``hn job list``."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headnode.apps.cli.screens import job_table
from headnode.apps.web.console.visit import HeadAnswer, Model

if TYPE_CHECKING:
    from collections.abc import Mapping


_SAME_SYMBOL = {"suspended": "held", "draining": "paused", "drained": "paused"}


def symbol_of(mark: str) -> str:
    """Return the drawing of a mark: several marks share one, and differ in colour and words."""
    return _SAME_SYMBOL.get(mark, mark)


def job_mark(job: "Mapping[str, Any]") -> str:
    """Return the mark of a job, in lower case as style sheets name it."""
    if job["state"] == "Queued" and (job.get("holds") or job.get("held")):
        return "held"
    return str(job["state"]).lower()


def node_mark(node: "Mapping[str, Any]") -> str:
    """Return the mark of a node: ready ones by how much of them is used."""
    state = str(node["state"]).lower()
    if state != "ready" or not node["used"]:
        return state
    return "full" if not node["free"] else "busy"


class JobColumn(NamedTuple):
    """A column of a table of jobs: its title, and the word of its order; "" if jobs are not sorted by it."""

    title: str
    order: str = ""


COLUMNS: Final = {
    "id": JobColumn("Job", "id"),
    "name": JobColumn("Name", "name"),
    "owner": JobColumn("Owner", "user"),
    "project": JobColumn("Project"),
    "group": JobColumn("Group"),
    "state": JobColumn("State", "state"),
    "priority": JobColumn("Priority", "priority"),
    "tasks": JobColumn("Tasks"),
    "progress": JobColumn("Progress"),
    "size": JobColumn("Size"),
    "created": JobColumn("Created"),
    "submitted": JobColumn("Submitted", "submitted"),
    "start": JobColumn("Start", "start"),
    "ended": JobColumn("Ended", "ended"),
    "time": JobColumn("Time", "elapsed"),
    "remark": JobColumn("Where or why"),
}
USUAL: Final = ("id", "name", "owner", "project", "tasks", "size", "time", "remark")


def chosen_columns(names: Iterable[str]) -> list[str]:
    """Return the columns that were chosen, in the order of the table; the usual ones if none is known."""
    chosen = set(names) & set(COLUMNS)
    return ["id", *(word for word in COLUMNS if word in (chosen or USUAL) and word != "id")]


def columns_named(names: Iterable[str]) -> list[dict[str, str]]:
    """Return columns as a table needs them."""
    return [{"word": word, "title": COLUMNS[word].title} for word in names]


def job_row(job: HeadAnswer, now: float) -> Model:
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
        "state_words": cells["State"],
        "priority": job["priority_name"],
        "tasks": job["tasks"],
        "tasks_words": cells["Tasks"],
        "size": cells["Cores"],
        "time": f"{elapsed or '–'} / {limit}",
        "group": job["group"],
        "progress": job["progress"],
        "created": job["created"],
        "submitted": job["submitted"],
        "start": job["started"] or (job.get("expected") or {}).get("p50"),
        "started": job["started"],
        "ended": job["ended"],
        "remark": cells[job_table.LAST],
    }


def job_rows(jobs: Iterable[HeadAnswer], now: float) -> list[dict[str, Any]]:
    """Return the rows of jobs, in their order."""
    return [job_row(job, now) for job in jobs]


def task_actions(task: HeadAnswer) -> list[str]:
    """Return what can be done with a task, or an instance, in its state."""
    counts = task.get("instances")
    alive = counts["queued"] + counts["running"] if counts else task["state"] in ("Queued", "Running")
    again = counts["failed"] + counts["canceled"] if counts else task["state"] in ("Failed", "Canceled")
    running = counts["running"] if counts else task["state"] == "Running"
    return ["cancel"] * bool(alive) + ["finish"] * bool(running) + ["requeue"] * bool(again)


def as_listed(job: HeadAnswer) -> HeadAnswer:
    """Return a job as lists have it."""
    tasks = job["spec"].get("tasks", ())
    nodes = ", ".join(share["node"] for share in job["allocation"][:3])
    return {**job, "command": str(tasks[0].get("command", "")) if tasks else "", "nodes": nodes}
