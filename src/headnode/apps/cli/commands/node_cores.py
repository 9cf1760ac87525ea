"""``hn node listcores``: what each processor does."""

from headnode.apps.cli.command import FORMAT, Command
from headnode.apps.cli.screens.node import CORE_COLUMNS, CORE_WIDTHS, core_rows
from headnode.apps.cli.sheet import Sheet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client


def run(_asked: "Asked", client: "Client", out: "Output") -> int:
    """List the processors of all nodes."""
    names = [node["name"] for node in client.ask("nodes")["nodes"]]
    nodes = [client.ask("node", node=name)["node"] for name in names]
    rows = [row for node in nodes for row in core_rows(node)]
    data = [{"node": node["name"], "state": node["state"], "cores": node["cores"]} for node in nodes]
    out.sheet(Sheet("Node Processor", rows, data, columns=CORE_COLUMNS, widths=CORE_WIDTHS))
    return 0


COMMANDS = (
    Command(
        "listcores",
        "",
        "List the processors and what runs on them",
        run,
        options=(FORMAT,),
        example="hn node listcores",
    ),
)
