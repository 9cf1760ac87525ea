"""``hn node listcores``: what each processor does."""

from headnode.apps.cli.command import FORMAT, Command
from headnode.apps.cli.screens.node import CORE_COLUMNS, CORE_WIDTHS, core_rows
from headnode.apps.cli.sheet import Sheet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client

PAGE = 1000


def run(_asked: "Asked", client: "Client", out: "Output") -> int:
    """List the processors of all nodes."""
    nodes = client.ask("nodes")["nodes"]
    jobs = [client.ask("job", job=job["id"])["job"] for job in _running_jobs(client)]
    tasks = [task for job in jobs for task in _running_tasks(client, job["id"])]
    rows = core_rows(nodes, jobs, tasks)
    data = [{key: core.get(key) for key in CORE_COLUMNS} for core in rows]
    out.sheet(Sheet("Node Processor", rows, data, columns=CORE_COLUMNS, widths=CORE_WIDTHS))
    return 0


def _running_jobs(client: "Client") -> "list[dict[str, Any]]":
    return _all(client, "jobs", "before", states=["Running"])


def _running_tasks(client: "Client", job: int) -> "list[dict[str, Any]]":
    running: list[dict[str, Any]] = []
    for task in _all(client, "tasks", "after", job=job, states=["Running"]):
        if task.get("instances"):
            running += _all(client, "tasks", "after", job=job, expand=task["task"], states=["Running"])
        else:
            running.append(task)
    return running


def _all(client: "Client", question: str, cursor: str, **fields: "Any") -> "list[dict[str, Any]]":
    """Return all pages of an answer; each names where the next begins."""
    found: list[dict[str, Any]] = []
    more: int | None = None
    while True:
        answer = client.ask(question, limit=PAGE, **fields, **{cursor: more})
        found += answer[question]
        more = answer["more"]
        if more is None:
            return found


COMMANDS = (
    Command(
        "listcores",
        "",
        "List the processors and what runs on them",
        run,
        options=(FORMAT,),
        example="hn node listcores",
        notes=("Processors are counted, not numbered, by the head: the numbers only tell them apart.",),
    ),
)
