"""``hn node view``: all that is known of a node."""

from headnode.apps.cli.command import FORMAT, Command
from headnode.apps.cli.options import Option, usage
from headnode.apps.cli.screens.node import history, view
from headnode.apps.cli.sheet import Sheet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client

ROWS = 20  # jobs
PAGE = 1000  # jobs
LOOKED_AT = 100_000  # jobs


def run(asked: "Asked", client: "Client", out: "Output") -> int:
    """Show the node."""
    if len(asked.words) != 1:
        raise usage(f"{len(asked.words)} nodes were given", "give the name of one node")
    if asked.flag("history"):
        told = client.ask("node_history", node=asked.words[0])
        shown = {"Node Name": asked.words[0], "History": history(told["history"])}
        out.sheet(Sheet("Node Name", [shown], told))
        return 0
    node = client.ask("node", node=asked.words[0])["node"]
    if asked.flag("jobhistory"):
        return _jobs_of(node["name"], asked, client, out)
    out.sheet(Sheet("Node Name", [view(node)], node))
    return 0


def _jobs_of(node: str, asked: "Asked", client: "Client", out: "Output") -> int:
    """List the newest jobs that used the node; looks at `LOOKED_AT` jobs at most."""
    from headnode.apps.cli.node_names import names_of
    from headnode.apps.cli.screens.job import WIDTHS, row

    found: list[dict[str, Any]] = []
    most, before, looked_at = asked.number("lastrows") or ROWS, None, 0
    while len(found) < most and looked_at < LOOKED_AT:
        page = client.ask("jobs", before=before, limit=PAGE)
        looked_at += len(page["jobs"])
        ids = [job["id"] for job in page["jobs"]]
        found += [job for job in page["jobs"] if node in names_of([job["nodes"]])]
        before = page["more"]
        if before is None or not ids:
            break
    found = found[:most]
    columns = ("Id", "Owner", "Name", "State", "Priority")
    out.sheet(Sheet("Id", [row(job) for job in found], found, columns=columns, widths=WIDTHS))
    return 0


COMMANDS = (
    Command(
        "view",
        "NODE",
        "Show a node",
        run,
        options=(
            Option("history", "", "Show what happened to it, instead: drained and why, away, rebooted"),
            Option("jobhistory", "", "List the newest jobs that used the node, instead"),
            Option("lastrows", "N", f"With /jobhistory: how many ({ROWS} if not given)"),
            Option("detailed", "", "Accepted from older commands; everything is shown anyway"),
            FORMAT,
        ),
        example="hn node view node01 /history",
    ),
)
