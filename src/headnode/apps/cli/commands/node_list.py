"""``hn node list``: the nodes and how busy they are."""

from headnode.apps.cli.catalogue import FORMAT, STATE, CliCommand
from headnode.apps.cli.options import NODE_STATES, Arguments, CliOption, read_states
from headnode.apps.cli.output import Output
from headnode.apps.cli.screens.node import COLOURS, COLUMNS, GPUS, REASON, WIDTHS, row
from headnode.apps.cli.table import RecordTable
from headnode.apps.client.client import Client


def run(args: Arguments, client: Client, out: Output) -> int:
    """List the nodes."""
    if args.flag("site"):
        from headnode.apps.cli.site import show_nodes

        return show_nodes(client, out)
    nodes = client.ask("nodes", states=read_states(args.text("state"), NODE_STATES))["nodes"]
    if not nodes and any(one["overlay"] for one in client.ask("resources")["resources"]):
        out.note("this head has no nodes of its own; those of the site: hn node list --site")
    group = args.text("group")
    if group is not None:
        nodes = [node for node in nodes if group in node["groups"]]
    rows = [row(node) for node in nodes]
    columns = (*COLUMNS, *(name for name in (GPUS, REASON) if any(name in each for each in rows)))
    out.show_table(
        RecordTable("Node Name", rows, nodes, columns=columns, widths=WIDTHS, prose=True, colours=COLOURS)
    )
    return 0


COMMANDS = (
    CliCommand(
        "list",
        "",
        "List the nodes",
        run,
        options=(
            STATE,
            CliOption("group", "NAME", "Only nodes of this group"),
            CliOption("site", "", "The nodes of the site over which this head runs (hn up --over)"),
            CliOption("all", "", "Accepted from older commands; all nodes are listed anyway"),
            FORMAT,
        ),
        example="hn node list /format:list",
        notes=("Max, Run and Idle count processors: all, in use, free. GPUs: held by jobs, and all.",),
        instead="one node: hn node view NAME",
    ),
)
