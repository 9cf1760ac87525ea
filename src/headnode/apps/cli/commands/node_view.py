"""``hn node view``: all that is known of a node."""

from headnode.apps.cli.command import FORMAT, Command
from headnode.apps.cli.options import Option, usage
from headnode.apps.cli.screens.node import view
from headnode.apps.cli.sheet import Sheet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client


def run(asked: "Asked", client: "Client", out: "Output") -> int:
    """Show the node."""
    if len(asked.words) != 1:
        raise usage(f"{len(asked.words)} nodes were given", "give the name of one node")
    node = client.ask("node", node=asked.words[0])["node"]
    out.sheet(Sheet("Node Name", [view(node)], node))
    return 0


COMMANDS = (
    Command(
        "view",
        "NODE",
        "Show a node",
        run,
        options=(Option("detailed", "", "Accepted from older commands; everything is shown anyway"), FORMAT),
        example="hn node view node01",
    ),
)
