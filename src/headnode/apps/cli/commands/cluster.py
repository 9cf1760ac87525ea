"""``hn cluster view`` and ``params``: the cluster as a whole."""

from headnode.apps.cli.command import FORMAT, Command
from headnode.apps.cli.options import nearest, usage
from headnode.apps.cli.screens.cluster import PARAM_COLUMNS, param_row, view
from headnode.apps.cli.sheet import Sheet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client


def show(_asked: "Asked", client: "Client", out: "Output") -> int:
    """Show what the cluster is and does."""
    cluster = client.ask("cluster")["cluster"]
    out.sheet(Sheet("Name", [view(cluster)], cluster))
    return 0


def params(asked: "Asked", client: "Client", out: "Output") -> int:
    """List the parameters named, or all; set those that are given as NAME=VALUE."""
    changes = dict(word.split("=", 1) for word in asked.words if "=" in word)
    names = [word for word in asked.words if "=" not in word]
    if changes:
        values = {name: value or None for name, value in changes.items()}  # nothing: back to the default
        listed = client.ask("set_params", values=values)["params"]
    else:
        listed = client.ask("params")["params"]
    shown = _chosen(listed, [*names, *changes])
    rows = [param_row(param) for param in shown]
    out.sheet(Sheet("Name", rows, shown, columns=PARAM_COLUMNS))
    return 0


def _chosen(listed: "list[dict[str, Any]]", names: list[str]) -> "list[dict[str, Any]]":
    by_name = {param["name"].lower(): param for param in listed}
    for name in names:
        if name.lower() not in by_name:
            near = nearest(name.lower(), by_name)
            raise usage(
                f"there is no parameter {name!r}", f"did you mean {near}?" if near else "leave it out for all"
            )
    return [by_name[name.lower()] for name in names] if names else listed


COMMANDS = (
    Command("view", "", "Show the cluster", show, options=(FORMAT,), example="hn cluster view"),
    Command(
        "params",
        "[NAME | NAME=VALUE | NAME=]...",
        "List or set the cluster's parameters; NAME= sets the default",
        params,
        options=(FORMAT,),
        example="hn cluster params HeartbeatInterval=30",
    ),
)
