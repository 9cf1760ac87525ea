"""``hn job listtasks``: the tasks of a job."""

from headnode.apps.cli.command import FORMAT, STATE, Command
from headnode.apps.cli.ids import job_id
from headnode.apps.cli.options import Option
from headnode.apps.cli.screens.task import COLUMNS, WIDTHS, row
from headnode.apps.cli.sheet import Sheet
from headnode.apps.cli.words import counted, states

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client

PAGE = 1000  # tasks


def run(asked: "Asked", client: "Client", out: "Output") -> int:
    """List the tasks; with ``/expandparametric`` the instances of sweeps too."""
    job, wanted, limit = job_id(asked.words), states(asked.text("state")), asked.number("limit")
    most = PAGE if limit is None else limit
    tasks, more = _page(client, most, job=job, after=asked.number("after"), states=wanted)
    if asked.flag("expandparametric"):
        tasks = _with_instances(client, tasks, wanted, most)
    trailer = counted(len(tasks), "task")
    if more is not None:
        trailer += f", more with --after {more}"
    rows = [row(task) for task in tasks]
    from headnode.apps.cli.screens.job_table import COLOURS

    sheet = Sheet(
        "Task Id", rows, tasks, columns=COLUMNS, widths=WIDTHS, trailer=trailer, prose=True, colours=COLOURS
    )
    out.sheet(sheet)
    return 0


def _page(client: "Client", most: int, **fields: "Any") -> "tuple[list[dict[str, Any]], int | None]":
    answer = client.ask("tasks", limit=most, **fields)
    return answer["tasks"], answer["more"]


def _with_instances(
    client: "Client", tasks: "list[dict[str, Any]]", wanted: "list[str] | None", most: int
) -> "list[dict[str, Any]]":
    shown: list[dict[str, Any]] = []
    for task in tasks:
        shown.append(task)
        after: int | None = None
        while task.get("instances") and len(shown) < most:
            found, after = _page(
                client, most - len(shown), job=task["job"], expand=task["task"], after=after, states=wanted
            )
            shown += found
            if after is None:
                break
    return shown


COMMANDS = (
    Command(
        "listtasks",
        "ID",
        "List the tasks of a job",
        run,
        options=(
            STATE,
            Option("expandparametric", "", "List the instances of sweeps, services and tasks of nodes, too"),
            Option("limit", "N", f"How many at most ({PAGE} if not given)"),
            Option("after", "TASK", "Only tasks with a larger number: the next page"),
            FORMAT,
        ),
        example="hn job listtasks 12 /state:failed /expandparametric",
    ),
)
