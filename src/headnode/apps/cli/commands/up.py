"""``hn up``: start a head and its agents on this machine, in one command."""

import os

from headnode.apps.cli.command import Command
from headnode.apps.cli.options import Option, usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client


def run(asked: "Asked", client: "Client", out: "Output") -> int:
    """Start the head unless one runs; say what to do next once a node is ready."""
    from headnode.apps.cli import head_process

    if asked.words:
        raise usage(f"{asked.words[0]!r} is not understood", "see: hn up --help")
    directory = _directory(asked, client)
    settings = {name: asked.text(name) for name in ("name", "nodes", "processors", "listen")}
    if asked.number("processors") == 0:
        raise usage("a node without processors runs nothing", "leave --processors out for all of the machine")
    client = head_process.at(directory)
    running = head_process.answers(client)
    if running:
        out.said(_runs_already(running), running, running["cluster"])
        for lost in [name for name, given in settings.items() if given is not None]:
            out.note(f"--{lost} has no effect on a head that runs: hn down first, then this again")
        return 0
    if asked.flag("foreground"):
        head_process.become(directory, settings)
    started = head_process.start(directory, settings, nodes=_nodes(asked, directory))
    out.text(_welcome(started, directory), started)
    return 0


def _nodes(asked: "Asked", directory: str) -> int:
    """Return how many nodes of this machine to wait for."""
    wanted = asked.number("nodes")
    if wanted is None and asked.number("processors") is None:
        from pathlib import Path

        from headnode.apps.server.options import nodes_as_before

        return nodes_as_before(Path(directory))[0]
    return 1 if wanted is None else wanted


def _directory(asked: "Asked", client: "Client") -> str:
    """Return where to start: where the user said, else the user's own place, never another's head."""
    from headnode.apps.client.where import own_state_directory

    if (asked.text("scheduler") or asked.text("state-directory")) and client.login is not None:
        raise usage("a head is started on its own machine", "log in there, and start it: hn up")
    said = (asked.text("state-directory"), asked.text("scheduler"), os.environ.get("HEADNODE_STATE"))
    return client.state_directory if any(said) else own_state_directory(os.environ, os.geteuid())


def _runs_already(running: "dict[str, Any]") -> str:
    return (
        f"A head is running already: cluster {running['cluster']}, process {running['pid']}, "
        f"state in {running['state_directory']}."
    )


def _welcome(started: "dict[str, Any]", directory: str) -> str:
    from headnode.apps.cli.words import counted

    processors = counted(started["processors"]["ready"], "processor")
    nodes, states = counted(sum(started["nodes"].values()), "node"), started["nodes"]
    closed = [f"{number} {state.lower()}" for state, number in sorted(states.items()) if state != "Ready"]
    which = f" ({', '.join([str(states.get('Ready', 0)) + ' ready', *closed])})" if closed else ""
    return (
        f"Cluster {started['name']} is up: {nodes}{which}, {processors}. State and log are in {directory}.\n"
        "\n"
        "  first job    hn job submit --wait echo hello from job %CCP_JOBID%\n"
        "  a sweep      hn job submit --wait /parametric:1-100 echo '*'\n"
        "  your jobs    hn job list /state:*\n"
        "  the nodes    hn node list\n"
        "  stop it      hn down\n"
    )


COMMANDS = (
    Command(
        "up",
        "",
        "Start a cluster on this machine",
        run,
        options=(
            Option("name", "NAME", "Name of the cluster (default: as before)"),
            Option(
                "nodes",
                "N",
                "Nodes to run on this machine (default: as before; 1 if only /processors is given)",
            ),
            Option(
                "processors",
                "N",
                "Processors of each node (default: as before; the machine's if only /nodes is given)",
            ),
            Option(
                "listen",
                "HOST[:PORT]",
                "Listen on this address for nodes and clients on other machines",
            ),
            Option("foreground", "", "Stay in the foreground, for service managers"),
        ),
        example="hn up --processors 4",
        notes=("Its log is head.log in the state directory.",),
    ),
)
