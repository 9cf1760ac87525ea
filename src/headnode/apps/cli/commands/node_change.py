"""``hn node approve``, ``pause``, ``resume`` and ``remove``: for administrators."""

from headnode.apps.cli.command import Command
from headnode.apps.cli.each import for_each
from headnode.apps.cli.node_names import ALL_NODES, all_or_named
from headnode.apps.cli.options import usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client


def approve(asked: "Asked", client: "Client", out: "Output") -> int:
    """Let each node take jobs for the first time."""
    return _each(asked, client, out, "approve_node", "approved")


def pause(asked: "Asked", client: "Client", out: "Output") -> int:
    """Give each node no new jobs; those it runs go on."""
    return _each(asked, client, out, "pause_node", "paused")


def resume(asked: "Asked", client: "Client", out: "Output") -> int:
    """Let each node take jobs again."""
    return _each(asked, client, out, "resume_node", "resumed")


def remove(asked: "Asked", client: "Client", out: "Output") -> int:
    """Let each node be part of the cluster no longer."""
    return _each(asked, client, out, "remove_node", "removed")


def _each(asked: "Asked", client: "Client", out: "Output", question: str, done: str) -> int:
    names = all_or_named(asked, client)
    if not names:
        raise usage("no node was given", "give the names of one or more nodes")

    def deed(name: str) -> None:
        out.said(f"Node {name} has been {done}.", client.ask(question, node=name), name)

    return for_each(names, deed, out)


COMMANDS = (
    Command(
        "approve",
        "NODE...",
        "Approve new nodes, so that they accept jobs",
        approve,
        example="hn node approve node03",
    ),
    Command(
        "pause",
        "NODE...",
        "Start only jobs of administrators on nodes; running jobs continue",
        pause,
        example="hn node pause node03",
    ),
    Command(
        "resume",
        "NODE...",
        "Make paused and drained nodes accept jobs again",
        resume,
        options=(ALL_NODES,),
        example="hn node resume node03",
    ),
    Command(
        "remove",
        "NODE...",
        "Remove nodes from the cluster; to return they need a new invitation",
        remove,
        example="hn node remove node03",
    ),
)
