"""``hn node set``: what an administrator knows of a node beside what its machine says."""

from headnode.apps.cli.command import Command
from headnode.apps.cli.each import for_each
from headnode.apps.cli.node_names import names_of
from headnode.apps.cli.options import Option, usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client


def run(asked: "Asked", client: "Client", out: "Output") -> int:
    """Set it for each node."""
    names = names_of(asked.words)
    if not names:
        raise usage("no node was given", "give the names of one or more nodes")
    wish: dict[str, object] = {}
    for what in ("groups", "features"):
        text = asked.text(what)
        if text is not None:
            wish[what] = [word.strip() for word in text.split(",") if word.strip()]
    if asked.text("comment") is not None:
        wish["comment"] = asked.text("comment")
    if not wish:
        raise usage("nothing was given to set", "give --groups, --features or --comment")

    def deed(name: str) -> None:
        out.said(f"Node {name} has been changed.", client.ask("set_node", node=name, **wish), name)

    return for_each(names, deed, out)


COMMANDS = (
    Command(
        "set",
        "NODE...",
        "Set groups, features and comment of nodes; they override what the agents report",
        run,
        options=(
            Option("groups", "A,B", "Node groups; empty: none"),
            Option("features", "A,B", "Features; empty: none"),
            Option("comment", "TEXT", "Comment, shown by hn node view"),
        ),
        example="hn node set node03 --features gpu,ssd",
    ),
)
