"""``hn agent``: make this machine a node of a cluster, or start its agent again."""

import os

from headnode.apps.cli.command import Command
from headnode.apps.cli.options import Option, usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client

_HANDED_ON = ("name", "processors", "sockets", "memory", "speed", "disk", "swap", "groups", "features")


def run(asked: "Asked", client: "Client", out: "Output") -> int:  # noqa: ARG001
    """Join where that is wished, then start the agent in the background or become it."""
    from headnode.apps.cli import agent_process
    from headnode.apps.client.where import own_agent_directory

    if asked.words:
        raise usage(f"{asked.words[0]!r} is not understood", "see: hn agent --help")
    directory = asked.text("directory") or own_agent_directory(os.environ, os.geteuid())
    if asked.flag("stop"):
        return _stop(directory, out)
    settings = {name: asked.text(name) for name in _HANDED_ON}
    invitation = asked.text("join")
    if asked.flag("foreground"):
        agent_process.become(directory, settings, invitation)
    if invitation:
        agent_process.join(directory, settings, invitation)
    number = agent_process.start(directory, settings)
    log = agent_process.log_of(directory)
    out.said(f"The agent runs as process {number}; its log is {log}.", {"pid": number, "log": log}, number)
    return 0


def _stop(directory: str, out: "Output") -> int:
    """End the agent; what runs on this node goes on."""
    from headnode.apps.cli import agent_process

    number = agent_process.stop(directory)
    if number is None:
        out.note(f"no agent runs in {directory}")
        return 0
    out.said(
        "The agent has ended. Tasks continue without it; hn agent reconnects to them.",
        {"pid": number},
        number,
    )
    return 0


COMMANDS = (
    Command(
        "agent",
        "",
        "Make this machine a node of a cluster, or start its agent again",
        run,
        options=(
            Option(
                "join", "INVITATION", "Invitation printed by hn node invite; -: read it from standard input"
            ),
            Option("name", "NAME", "Name of this node (default: the machine's)"),
            Option("processors", "N", "Processors of this node (default: the machine's)"),
            Option("sockets", "N", "Sockets (default: the machine's)"),
            Option("memory", "MB", "Memory (default: the machine's)"),
            Option("speed", "MHZ", "Speed of a processor (default: the machine's)"),
            Option(
                "disk",
                "MB",
                "Disk space for tasks (default: that of the directory for temporary files)",
            ),
            Option("swap", "MB", "Swap (default: the machine's)"),
            Option("groups", "A,B", "Node groups that this node is in"),
            Option("features", "A,B", "Features that this node has"),
            Option("directory", "DIRECTORY", "State directory of the agent"),
            Option(
                "stop", "", "Stop the agent of this machine; tasks continue, and hn agent reconnects to them"
            ),
            Option("foreground", "", "Stay in the foreground, for service managers"),
        ),
        example="hn agent --join head.example.org:5817/...",
        notes=(
            "After joining, hn agent without options starts it again.",
            "Started by root, it runs each job as its owner; started by a user, only jobs of that user.",
        ),
    ),
)
