"""``hn standby``: a second machine that has all that the head has, and takes over in one command."""

from headnode.apps.cli.catalogue import FORMAT, CliCommand
from headnode.apps.cli.options import Arguments, CliOption, the_name, usage
from headnode.apps.cli.output import Output
from headnode.apps.cli.screens.cluster import STANDBY_STATES, standby_wait
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

COLUMNS = ("Name", "Address", "State", "Event", "Behind", "Wait", "Problem")
FIRST_COPY = 60.0  # seconds that hn standby join waits for the first copy
PAUSE = 0.1  # seconds


def invite(args: Arguments, client: Client, out: Output) -> int:
    """Print the line for the other machine."""
    from headnode.core.formats.text.quantities import parse_span

    fields: dict[str, object] = {"name": args.text("for") or ""}
    if lifetime := args.text("lifetime"):
        fields["lifetime"] = parse_span(lifetime)
    made = client.ask("invite_standby", **fields)
    name = f" --name {made['name']}" if made["name"] else ""
    out.text(f"hn standby join {made['invitation']}{name}\n", made)
    return 0


def join(args: Arguments, client: Client, out: Output) -> int:
    """Make this machine a standby, start it, and wait for the first copy."""
    import socket
    import sys
    from pathlib import Path

    from headnode.adapters.files.local_daemons import host_name
    from headnode.adapters.nodes.membership import read_invitation
    from headnode.apps.cli import standby_daemon
    from headnode.apps.cli.commands.services import own_directory
    from headnode.apps.standby.join import join as join_head
    from headnode.core.formats.text.quantities import parse_span
    from headnode.core.model.errors import HeadnodeError

    if len(args.words) != 1:
        raise usage("no invitation is given", "write the line that `hn standby invite` prints")
    directory = own_directory(args, client)
    text = sys.stdin.readline() if args.words[0] == "-" else args.words[0]
    invitation = read_invitation(text.strip().removeprefix("hn standby join "), "hn standby invite")
    where = args.text("name") or host_name(), args.text("listen") or socket.getfqdn()
    span = args.text("takeover-after")
    ran = standby_daemon.is_standby(directory) and standby_daemon.stop_standby(directory) is not None
    try:
        place = join_head(Path(directory), invitation, *where, parse_span(span) if span else 0.0)
    except HeadnodeError:
        if ran:
            standby_daemon.start_standby(directory)  # it goes on as before
        raise
    if args.flag("foreground"):
        standby_daemon.become_standby(directory)
    status = _first_copy(directory, standby_daemon.start_standby(directory))
    for sentence in (*_not_reached(status), *status["missing"], *status["lost"]):
        out.note(sentence)
    out.outcome(
        f"This machine is the standby {place.name} of cluster {place.cluster}; it listens at {place.listen}. "
        f"{_has(status)}\nIf the head is lost: hn standby takeover",
        status,
        place.name,
    )
    return 0


def _first_copy(directory: str, status: "dict[str, Any]") -> "dict[str, Any]":
    import time

    from headnode.apps.cli import standby_daemon

    deadline = time.monotonic() + FIRST_COPY
    while not status["number"] and time.monotonic() < deadline:
        time.sleep(PAUSE)
        status = standby_daemon.ask_standby(directory, "status")
    return status


def _not_reached(status: "dict[str, Any]") -> "list[str]":
    if status["number"]:
        return []
    return [
        f"the head has not reached this machine at {status['listen']} yet; it goes on trying. "
        "Check the firewall, then see: hn standby list"
    ]


def _has(status: "dict[str, Any]") -> str:
    from headnode.apps.readable_values import counted

    if not status["number"]:
        return "It has no copy of the journal yet."
    jobs = counted(status["jobs"], "job that has not ended", "jobs that have not ended")
    return f"It has all events up to number {status['number']}, and {jobs}."


def show(args: Arguments, client: Client, out: Output) -> int:  # noqa: ARG001
    """Show the standby of this machine; elsewhere, all standby heads of the head."""
    from headnode.apps.cli import standby_daemon
    from headnode.apps.cli.table import RecordTable

    if client.login is None and standby_daemon.is_standby(client.state_directory):
        status = standby_daemon.ask_standby(client.state_directory, "status")
        for sentence in status["missing"]:
            out.note(sentence)
        out.outcome(_status_text(status), status, status["name"])
        return 0
    answer = client.ask("standbys")
    standbys = answer["standbys"]
    if not standbys:
        out.note("there is no standby head; make one with: hn standby invite")
    out.show_table(RecordTable("Name", list(map(_row, standbys)), answer, columns=COLUMNS, prose=True))
    return 0


def _row(standby: "dict[str, Any]") -> dict[str, str]:
    return {
        "Name": standby["name"],
        "Address": standby["address"],
        "State": STANDBY_STATES[standby["state"]],
        "Event": str(standby["event"]),
        "Behind": str(standby["behind"]),
        "Wait": standby_wait(standby),
        "Problem": standby["problem"],
    }


def _status_text(status: "dict[str, Any]") -> str:
    name = f"Standby {status['name']} of cluster {status['cluster']}, process {status['pid']}, listens at "
    received = status["heard"]
    if status["connected"]:
        head = f"The head at {status['head']} is connected."
    elif received is None:
        head = f"The head at {status['head']} has not connected yet."
    else:
        head = f"The head at {status['head']} has been away for {received:.0f} s."
    problem = f"\nProblem: {status['problem']}" if status["problem"] else ""
    return f"{name}{status['listen']}.\n{head} {_has(status)}{problem}"


def take_over(args: Arguments, client: Client, out: Output) -> int:
    """Make the standby of this machine the head, and wait until it serves."""
    from headnode.apps.cli import daemons, standby_daemon
    from headnode.apps.cli.commands.services import own_directory

    directory = own_directory(args, client)
    if not standby_daemon.is_standby(directory):
        raise usage(f"{directory!r} is no standby", "run this on the machine of the standby")
    was = standby_daemon.ask_standby(directory, "take over", force=args.flag("force"))
    for sentence in was["missing"]:
        out.note(sentence)
    cluster = daemons.wait_for_head(directory)
    out.outcome(
        f"This machine is the head of cluster {cluster['name']} now, after event {was['number']}. "
        "Nodes and clients of other machines find it by themselves.",
        cluster,
        cluster["name"],
    )
    return 0


def remove(args: Arguments, client: Client, out: Output) -> int:
    """Remove a standby."""
    name = the_name(args, "standby", "see: hn standby list")
    client.ask("remove_standby", name=name)
    out.outcome(
        f"Standby {name} gets no more events. It keeps the keys of the cluster: delete its state directory.",
        {"removed": name},
        name,
    )
    return 0


COMMANDS = (
    CliCommand(
        "invite",
        "",
        "Print the command that makes another machine a standby head",
        invite,
        options=(
            CliOption("for", "NAME", "Only a standby of this name may join"),
            CliOption("lifetime", "SPAN", "How long the invitation is valid, such as 2h (default: 1h)"),
        ),
        example="hn standby invite",
        notes=(
            "The invitation works once, and gives the other machine the keys of the cluster: keep it secret.",
            "The head must listen: hn up --listen HOST",
        ),
        instead="name the standby with --for NAME",
    ),
    CliCommand(
        "join",
        "INVITATION",
        "Make this machine a standby of the head that invites it",
        join,
        options=(
            CliOption(
                "listen",
                "HOST[:PORT]",
                "Where this machine listens, as standby and as head (default: its name, port 5817)",
            ),
            CliOption("name", "NAME", "Name of the standby (default: the machine's)"),
            CliOption(
                "takeover-after",
                "SPAN",
                "Take over without a command after so long without the head, such as 3m, if most nodes have "
                "lost it, too (default: never)",
            ),
            CliOption("foreground", "", "Stay in the foreground, for service managers"),
        ),
        example="hn standby join head.example.org:5817/... --listen head2.example.org",
        notes=(
            "hn up starts the standby again, for example after a reboot; hn down stops it.",
            "INVITATION -: read it from standard input, so that it is in no process list.",
        ),
    ),
    CliCommand(
        "list",
        "",
        "List the standby heads, or show the standby of this machine",
        show,
        options=(FORMAT,),
        example="hn standby list",
        notes=(
            "in step: no acknowledged change is lost if the head is lost now.",
            "Wait: how long half of the changes of the last minute waited for the standby at most, and 99 %.",
        ),
    ),
    CliCommand(
        "takeover",
        "",
        "Make the standby of this machine the head",
        take_over,
        options=(
            CliOption(
                "force", "", "The head is lost: do not ask it; make sure that it does not run any more"
            ),
        ),
        example="hn standby takeover",
        notes=("A head that runs writes what it has, hands over, and ends. Running tasks continue.",),
    ),
    CliCommand(
        "remove",
        "NAME",
        "Send no more events to a standby head",
        remove,
        example="hn standby remove head2",
    ),
)
