"""``hn node drain``: start nothing new on nodes, now or from a date on."""

from headnode.apps.cli.command import Command
from headnode.apps.cli.each import for_each
from headnode.apps.cli.node_names import ALL_NODES, all_or_named
from headnode.apps.cli.options import Option, usage
from headnode.apps.cli.period import moment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client


def run(asked: "Asked", client: "Client", out: "Output") -> int:
    """Drain each node."""
    names = all_or_named(asked, client)
    if not names:
        raise usage("no node was given", "give the names of one or more nodes")
    closes, reason = moment(asked, "at", ahead=True), asked.text("reason") or ""

    def deed(name: str) -> None:
        answer = client.ask("drain_node", node=name, closes=closes, reason=reason, force=asked.flag("force"))
        out.said(f"Node {name} {_said(answer['node'])}.", answer, name)

    return for_each(names, deed, out)


def _said(node: "dict[str, Any]") -> str:
    if node["state"] == "Drained":
        return "has been drained; nothing runs there"
    if node["state"] == "Draining" and any(drain["force"] for drain in node["drains"]):
        return "is draining; what runs there is being stopped"
    if node["state"] == "Draining":
        return "is draining; what runs there goes on"
    return "will start only jobs that end by then"


COMMANDS = (
    Command(
        "drain",
        "NODE...",
        "Start no new jobs on nodes; running jobs continue",
        run,
        options=(
            ALL_NODES,
            Option("reason", "TEXT", "Reason, shown where a job waits for the node"),
            Option("force", "", "Kill the tasks there: rerunnable tasks are requeued, other tasks fail"),
            Option(
                "at",
                "TIME",
                "Drain at this date and time (UTC), or 2h: in two hours; jobs that end before may start",
            ),
        ),
        example="hn node drain node03 --at 2030-01-31T18:00 --reason 'new memory'",
        notes=("hn node resume makes them accept jobs again, before and after the date.",),
    ),
)
