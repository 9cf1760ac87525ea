"""``hn up``, ``hn down`` and ``hn agent``: start and end the head and the agents of this machine."""

import os

from headnode.apps.cli.catalogue import CliCommand
from headnode.apps.cli.options import Arguments, CliOption, usage
from headnode.apps.cli.output import Output
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def end_head(args: Arguments, client: Client, out: Output) -> int:
    """End the head and wait until it is gone; say what goes on without it."""
    if client.login is None and _is_standby(client.state_directory):
        from headnode.apps.cli.standby_daemon import stop_standby

        ended = stop_standby(client.state_directory)
        out.outcome("The standby has ended." if ended else "The standby does not run.", {"pid": ended})
        return 0
    from headnode.apps.cli import daemons
    from headnode.core.model.errors import Unavailable

    process, cancel_jobs = client.ask("ping")["pid"], args.flag("cancel-jobs")
    if client.state_directory:
        from headnode.apps.cli.web_gateway import stop_gateway

        stop_gateway(client.state_directory)
    try:
        answer = client.ask("stop_head", cancel_jobs=cancel_jobs or None)
    except Unavailable as no:
        if no.code != "audit" or cancel_jobs or client.login is not None:
            raise
        daemons.end_head_by_signal(client, no)
        out.note("the audit log cannot be written; the head was ended by a signal, without a line in the log")
        out.outcome("The head has ended. Tasks that run continue without it.", {"ended_by_signal": True})
        return 0
    client.close()
    if client.login is None:
        daemons.wait_for_end_of_head(process)
    running = answer["running_tasks"]
    message = "The head has ended."
    if running:
        from headnode.apps.readable_values import counted

        message += (
            f" {counted(running, 'task continues', 'tasks continue')} without it; the next hn up reconnects."
        )
    for job in answer.get("unended_jobs", ()):  # a head of before has none
        message += f"\nJob {job['id']} is canceled, but has not ended at {', '.join(job['places'])}."
    out.outcome(message, answer)
    return 0


def _is_standby(directory: str) -> bool:
    return os.path.exists(os.path.join(directory, "standby.json"))  # noqa: PTH110, PTH118 (pathlib costs 6 ms)


def _start_standby(args: Arguments, directory: str, out: Output) -> int:
    """Start the standby in a state directory that belongs to one."""
    from headnode.apps.cli import standby_daemon

    if args.flag("foreground"):
        standby_daemon.become_standby(directory)
    runs = standby_daemon.standby_runs(directory)
    status = (
        standby_daemon.ask_standby(directory, "status") if runs else standby_daemon.start_standby(directory)
    )
    if not status:
        from headnode.apps.cli import daemons

        cluster = daemons.wait_for_head(directory)
        out.outcome(
            f"The takeover begun here is finished: this machine is the head of cluster {cluster['name']}.",
            cluster,
            cluster["name"],
        )
        return 0
    state = "runs already" if runs else "is up"
    if useless := [name for name in _HEAD_SETTINGS if args.text(name) is not None]:
        out.note(f"--{useless[0]} is not used: a standby has it from hn standby join, and from its head")
    out.outcome(
        f"The standby {status['name']} of cluster {status['cluster']} {state}; see: hn standby list\n"
        "To make it the head: hn standby takeover",
        status,
        status["name"],
    )
    return 0


_AGENT_SETTINGS = (
    *("name", "processors", "sockets", "cores-per-socket", "threads-per-core", "memory", "speed"),
    *("disk", "swap", "gpus", "gpu-files", "groups", "features"),
)  # fmt: skip

_INVITED = "hn agent --join "  # how the line begins that hn node invite prints
_SIZES = ("memory", "disk", "swap")  # the agent reads them in MB


def run_agent(args: Arguments, client: Client, out: Output) -> int:  # noqa: ARG001
    """Join where that is requested, then start the agent in the background or become it."""
    from headnode.apps.cli import daemons
    from headnode.apps.client.local_addresses import own_agent_directory

    if args.text("state-directory") is not None:
        raise usage(
            "--state names the directory of a head", "write --directory for the directory of the agent"
        )
    directory = args.text("directory") or own_agent_directory(os.environ, os.geteuid())
    if args.flag("stop"):
        return _end_agent(directory, out)
    if (head := args.text("head")) is not None:
        from headnode.apps.cli.agent_head import change_head

        if change_head(directory, head, out):
            return 0
    settings = {name: args.text(name) for name in _AGENT_SETTINGS}
    settings |= {name: str(args.memory(name) or "") for name in _SIZES if settings[name]}
    settings |= daemons.remembered_settings(directory, settings)
    invitation = (args.text("join") or "").removeprefix(_INVITED).strip()
    if args.flag("foreground"):
        daemons.become_agent(directory, settings, invitation)
    if invitation:
        daemons.join_cluster(directory, settings, invitation)
    number = daemons.start_agent(directory, settings)
    log = daemons.agent_log(directory)
    _warn_of_closed_places(out)
    out.outcome(f"The agent runs as process {number}; its log is {log}.", {"pid": number, "log": log}, number)
    return 0


def _end_agent(directory: str, out: Output) -> int:
    """End the agent; what runs on this node goes on."""
    from headnode.apps.cli import daemons

    number = daemons.stop_agent(directory)
    if number is None:
        out.note(f"no agent runs in {directory}")
        return 0
    out.outcome(
        "The agent has ended. Tasks continue without it; hn agent reconnects to them.",
        {"pid": number},
        number,
    )
    return 0


_HEAD_SETTINGS = ("name", "nodes", "processors", "listen", "gateway-user")


def start_head_and_agents(args: Arguments, client: Client, out: Output) -> int:
    """Start the head unless one runs; say what to do next once a node is ready."""
    from headnode.apps.cli import daemons
    from headnode.core.model.errors import WrongState

    if _is_standby(directory := own_directory(args, client)):
        return _start_standby(args, directory, out)
    settings = {name: args.text(name) for name in _HEAD_SETTINGS}
    if args.number("processors") == 0:
        raise usage("a node without processors runs nothing", "leave --processors out for all of the machine")
    over = args.text("over")
    if over is not None:
        from headnode.apps.cli.site import check_site

        check_site(over)
        settings["nodes"] = settings["nodes"] or "0"
    client = daemons.client_of(directory)
    running = daemons.ping(client)
    if running:
        return _keep_running(running, settings, args, client, out)
    if args.flag("foreground"):
        daemons.become_head(directory, settings)
    nodes = 0 if over is not None and args.number("nodes") is None else _nodes(args, directory)
    try:
        started = daemons.start_head(directory, settings, nodes=nodes)
    except WrongState as refused:
        if refused.code != daemons.ANOTHER_HEAD:
            raise
        daemons.wait_for_head(directory)  # another hn up was faster
        return _keep_running(daemons.ping(client) or {}, settings, args, client, out)
    except KeyboardInterrupt:
        out.note("no longer waiting; the head goes on starting in the background; to stop it: hn down")
        raise
    message, answer = _console(args, directory)
    if over is not None:
        message = _over(client, over) + message
    runs = daemons.ping(client) or {}  # programs get what a head that ran already answers, too
    _warn_of_closed_places(out, directory)
    out.text(_welcome(started, directory, needs_node=over is None) + message, runs | started | answer)
    return 0


def _keep_running(
    running: "dict[str, Any]",
    settings: "dict[str, str | None]",
    args: Arguments,
    client: Client,
    out: Output,
) -> int:
    """Say that a head runs already; a service manager, which is to start one in the foreground, fails."""
    runs = (
        f"head is running already: cluster {running['cluster']}, process {running['pid']}, "
        f"state in {running['state_directory']}"
    )
    if args.flag("foreground"):
        from headnode.core.model.errors import WrongState

        raise WrongState(code="head-runs", what=f"a {runs}", fix="stop it with: hn down")
    message, answer = _console(args, client.state_directory)
    if (over := args.text("over")) is not None:
        message, settings["nodes"] = message + _over(client, over), args.text("nodes")
    out.outcome(f"A {runs}.{message}", running | answer, running["cluster"])
    for lost in [name for name, value in settings.items() if value is not None]:
        out.note(f"--{lost} has no effect, because the head runs already; stop it first: hn down")
    return 0


def _warn_of_closed_places(out: Output, state: str = "/") -> None:
    """Warn root if tasks of other users cannot run Headnode, as they cannot enter where it is installed.

    No other user submits to a head whose `state` they cannot reach.
    """
    if os.geteuid() != 0:
        return
    from pathlib import Path

    from headnode.adapters.own_python import closed_to_others

    if closed_to_others([Path(state).absolute()]) is None and (closed := closed_to_others()) is not None:
        out.note(
            f"other users cannot enter {str(closed)!r}, where Headnode or its Python is: their tasks have no "
            "hn, launch nothing on other nodes and stage no files; install both where all users can read, "
            "such as /opt/headnode"
        )


def _over(client: Client, over: str) -> str:
    """Make the head an overlay of the site; return what people read about it."""
    from headnode.apps.cli.site import set_overlay

    return f"\n{set_overlay(client, over)}\n"


def _console(args: Arguments, directory: str) -> "tuple[str, dict[str, Any]]":
    """Start the gateway if that is requested; return what people and programs read about it."""
    if not args.flag("web"):
        return "", {}
    from headnode.apps.cli import web_gateway
    from headnode.apps.cli.commands.web import address_text

    answer = web_gateway.ask_gateway(directory, "login") or web_gateway.start_gateway(directory, {})
    return f"\n{address_text(answer['address'])}\n", {"console": answer["address"]}


def _nodes(args: Arguments, directory: str) -> int:
    """Return how many nodes of this machine to wait for."""
    wanted = args.number("nodes")
    if wanted is None and args.number("processors") is None:
        from pathlib import Path

        from headnode.adapters.files.local_daemons import nodes_as_before

        return nodes_as_before(Path(directory))[0]
    return 1 if wanted is None else wanted


def own_directory(args: Arguments, client: Client) -> str:
    """Return where to start: where the user said, else the user's own place, never another's head."""
    from headnode.apps.client.local_addresses import own_state_directory

    if (args.text("scheduler") or args.text("state-directory")) and client.login is not None:
        raise usage("a head is started on its own machine", "log in there, and start it: hn up")
    choices = (args.text("state-directory"), args.text("scheduler"), os.environ.get("HEADNODE_STATE"))
    return client.state_directory if any(choices) else own_state_directory(os.environ, os.geteuid())


def _welcome(started: "dict[str, Any]", directory: str, *, needs_node: bool) -> str:
    """Return what to do next; on a cluster that `needs_node` to run a job and has none, add one first."""
    from headnode.apps.readable_values import counted

    processors = counted(started["processors"]["ready"], "processor")
    nodes, states = counted(sum(started["nodes"].values()), "node"), started["nodes"]
    closed = [f"{number} {state.lower()}" for state, number in sorted(states.items()) if state != "Ready"]
    which = f" ({', '.join([str(states.get('Ready', 0)) + ' ready', *closed])})" if closed else ""
    first = "" if started["nodes"] or not needs_node else "  add a node   hn node invite --approve\n"
    return (
        f"Cluster {started['name']} is up: {nodes}{which}, {processors}. State and log are in {directory}.\n"
        "\n"
        f"{first}"
        "  first job    hn job submit --wait echo hello from job %CCP_JOBID%\n"
        "  a sweep      hn job submit --wait /parametric:1-100 echo '*'\n"
        "  your jobs    hn job list '/state:*'\n"
        "  the nodes    hn node list\n"
        "  stop it      hn down\n"
    )


COMMANDS = (
    CliCommand(
        "down",
        "",
        "Stop the cluster of this machine",
        end_head,
        options=(CliOption("cancel-jobs", "", "Cancel all jobs first (default: their tasks continue)"),),
        example="hn down",
        notes=("Running tasks continue; the next hn up reconnects to them. Queued jobs stay queued.",),
        instead="this ends the head; to close a node: hn node drain NODE; to cancel a job: hn job cancel ID",
    ),
    CliCommand(
        "agent",
        "",
        "Make this machine a node of a cluster, or start its agent again",
        run_agent,
        options=(
            CliOption(
                "join", "INVITATION", "Invitation printed by hn node invite; -: read it from standard input"
            ),
            CliOption("head", "HOST[:PORT]", "New address of the head; the node stays in its cluster"),
            CliOption("name", "NAME", "Name of this node (default: the machine's)"),
            CliOption("processors", "N", "Processors of this node (default: as before, else the machine's)"),
            CliOption("sockets", "N", "Sockets (default: as before, else the machine's)"),
            CliOption("cores-per-socket", "N", "Cores of a socket (default: as before, else the machine's)"),
            CliOption("threads-per-core", "N", "Threads of a core (default: as before, else the machine's)"),
            CliOption(
                "memory",
                "AMOUNT",
                "Memory: MB, or with a unit, such as 64G (default: as before, else the machine's)",
            ),
            CliOption("speed", "MHZ", "Speed of a processor (default: as before, else the machine's)"),
            CliOption(
                "disk",
                "AMOUNT",
                "Disk space for tasks (default: as before, else that of the directory for temporary files)",
            ),
            CliOption("swap", "AMOUNT", "Swap (default: as before, else the machine's)"),
            CliOption("gpus", "N", "GPUs (default: as before, else the machine's; 0: none)"),
            CliOption(
                "gpu-files",
                "FILE,...",
                "Device file of each GPU, which only its job can open (default: as before, else those found)",
            ),
            CliOption("groups", "A,B", "Node groups that this node is in (default: as before)"),
            CliOption("features", "A,B", "Features that this node has (default: as before)"),
            CliOption("directory", "DIRECTORY", "State directory of the agent"),
            CliOption(
                "stop", "", "Stop the agent of this machine; tasks continue, and hn agent reconnects to them"
            ),
            CliOption("foreground", "", "Stay in the foreground, for service managers"),
        ),
        example="hn agent --join head.example.org:5817/...",
        notes=(
            "After joining, hn agent without options starts it again, with the options of before.",
            "An empty value, as in --gpus=, ends what was given before.",
            "Started by root, it runs each job as its owner; started by a user, only jobs of that user.",
        ),
    ),
    CliCommand(
        "up",
        "",
        "Start a cluster on this machine",
        start_head_and_agents,
        options=(
            CliOption("name", "NAME", "Name of the cluster (default: as before)"),
            CliOption(
                "nodes",
                "N",
                "Nodes to run on this machine (default: as before; 1 if only /processors is given)",
            ),
            CliOption(
                "processors",
                "N",
                "Processors of each node (default: as before; the machine's if only /nodes is given)",
            ),
            CliOption(
                "listen", "HOST[:PORT]", "Listen on this address for nodes and clients on other machines"
            ),
            CliOption(
                "over",
                "SYSTEM",
                "Run no node here, send jobs to the slurm or gridengine of this site, and show its queue and "
                "nodes",
            ),
            CliOption("web", "", "Start the gateway too, and print an address that opens the console"),
            CliOption(
                "gateway-user",
                "NAME",
                "Account whose gateway may act for all users (default: as before; none: no account)",
            ),
            CliOption("foreground", "", "Stay in the foreground, for service managers"),
        ),
        example="hn up --processors 4",
        notes=("Its log is head.log in the state directory.",),
    ),
)
