"""``hn node``, all but ``list``: view and list processors, admit, pause, drain, set and remove nodes."""

from headnode.apps.cli.arguments import moment
from headnode.apps.cli.catalogue import FORMAT, STATE, CliCommand
from headnode.apps.cli.options import Arguments, CliOption, read_states, usage
from headnode.apps.cli.output import Output, for_each
from headnode.apps.cli.screens.node import CORE_COLUMNS, CORE_STATES, CORE_WIDTHS, core_rows, history, view
from headnode.apps.cli.table import RecordTable
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from headnode.apps.cli.catalogue import Run

MAX_NODES = 100_000
_DIGITS = 18  # of a number in the name of a node
_SHOWN = 200  # characters of a set that is none
_SET_CHARACTERS = frozenset("[]!&^")
ALL_NODES = CliOption("all", "", "All nodes of the cluster, in place of names")


def all_or_named(args: Arguments, client: Client) -> list[str]:
    """Return the nodes that were typed, or every node where ``/all`` was.

    Raises:  BadRequest ``usage`` for both; ``nodes``.
    """
    if not args.flag("all"):
        return names_of(args.words)
    if args.words:
        raise usage(f"all nodes were chosen, and {args.words[0]!r} too", "leave out one of them")
    return [str(node["name"]) for node in client.ask("nodes")["nodes"]]


def names_of(words: "Sequence[str]") -> list[str]:
    """Return the names that words stand for, in the order in which they were typed.

    Raises:  BadRequest ``nodes``.

    >>> names_of(["a,n[08-10]", "b"]), names_of(["n[1-4]!n3"])
    (['a', 'n08', 'n09', 'n10', 'b'], ['n1', 'n2', 'n4'])
    """
    nodes: list[str] = []
    for word in words:
        nodes += _expand_set(word) if _SET_CHARACTERS & set(word) else word.split(",")
    return [name for name in nodes if name]


def _expand_set(text: str) -> list[str]:
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

    from headnode.core.model.errors import BadRequest

    try:
        if _most_names(text) > MAX_NODES:
            raise NodeSetException(f"it names more than {MAX_NODES} nodes")
        nodes = NodeSet(text, resolver=RESOLVER_NOGROUP)
        if len(nodes) > MAX_NODES:
            raise NodeSetException(f"it names more than {MAX_NODES} nodes")
    except NodeSetException as error:
        raise BadRequest(
            code="nodes",
            what=f"{text[:_SHOWN]!r} is not a set of nodes: {error}",
            fix="write names as in node[1-8,12]",
        ) from None
    return [str(name) for name in nodes]


def _most_names(text: str) -> int:
    """Return how many names a set may have, before it is expanded: every name of its parts takes memory."""
    import re

    total, part = 0, 1
    for place, piece in enumerate(re.split(r"\[([^\[\]]*)\]", text)):
        if place % 2:
            part *= sum(map(_numbers, piece.split(",")))
        elif ends := sum(map(piece.count, ",!&^")):
            total, part = total + part + ends - 1, 1
    return total + part


def _numbers(part: str) -> int:
    """Return how many numbers a range such as ``1-20/4`` has; 1 for what is none."""
    first, _, rest = part.partition("-")
    last, _, step = rest.partition("/")
    if not (first.isdecimal() and last.isdecimal()):
        return 1
    if max(len(first), len(last), len(step)) > _DIGITS:
        return MAX_NODES + 1
    return max(1, (int(last) - int(first)) // max(1, int(step) if step.isdecimal() else 1) + 1)


SHOWN_JOBS = 20  # jobs
JOB_PAGE = 1000  # jobs
MAX_JOBS_SEARCHED = 100_000  # jobs


def view_node(args: Arguments, client: Client, out: Output) -> int:
    """Show the node."""
    if len(args.words) != 1:
        raise usage(f"{len(args.words)} nodes were given", "give the name of one node")
    if args.flag("history"):
        answer = client.ask("node_history", node=args.words[0])
        fields = {"Node Name": args.words[0], "History": history(answer["history"])}
        out.show_table(RecordTable("Node Name", [fields], answer))
        return 0
    node = client.ask("node", node=args.words[0])["node"]
    if args.flag("jobhistory"):
        return _jobs_of(node["name"], args, client, out)
    out.show_table(RecordTable("Node Name", [view(node)], node))
    return 0


def _jobs_of(node: str, args: Arguments, client: Client, out: Output) -> int:
    """List the newest jobs that used the node; looks at `MAX_JOBS_SEARCHED` jobs at most."""
    from headnode.apps.cli.screens.job import WIDTHS, row

    jobs: list[dict[str, Any]] = []
    most, before, looked_at = args.number("lastrows") or SHOWN_JOBS, None, 0
    while len(jobs) < most and looked_at < MAX_JOBS_SEARCHED:
        page = client.ask("jobs", before=before, limit=JOB_PAGE)
        looked_at += len(page["jobs"])
        ids = [job["id"] for job in page["jobs"]]
        jobs += [job for job in page["jobs"] if node in names_of([job["nodes"]])]
        before = page["more"]
        if before is None or not ids:
            break
    jobs = jobs[:most]
    columns = ("Id", "Owner", "Name", "State", "Priority")
    out.show_table(RecordTable("Id", [row(job) for job in jobs], jobs, columns=columns, widths=WIDTHS))
    return 0


def list_cores(args: Arguments, client: Client, out: Output) -> int:
    """List the processors of all nodes, or those in some states."""
    wanted = read_states(args.text("state"), CORE_STATES)
    names = [node["name"] for node in client.ask("nodes")["nodes"]]
    nodes = [client.ask("node", node=name)["node"] for name in names]
    pairs = [(node, list(zip(core_rows(node), node["cores"], strict=True))) for node in nodes]
    if (job := args.number("jobid")) is not None:
        pairs = [(node, [each for each in cores if each[0]["Job ID"] == str(job)]) for node, cores in pairs]
    if wanted:
        pairs = [(node, [each for each in cores if each[0]["State"] in wanted]) for node, cores in pairs]
    rows = [row for _, cores in pairs for row, _ in cores]
    data = [
        {"node": node["name"], "state": node["state"], "cores": [core for _, core in cores]}
        for node, cores in pairs
    ]
    out.show_table(RecordTable("Node Processor", rows, data, columns=CORE_COLUMNS, widths=CORE_WIDTHS))
    return 0


def _change_nodes(verb: str, done: str) -> "Run":
    """Return a command that asks `verb` for each node."""

    def run(args: Arguments, client: Client, out: Output) -> int:
        names = all_or_named(args, client)
        if not names:
            raise usage("no node was given", "give the names of one or more nodes")

        def deed(name: str) -> None:
            out.outcome(f"Node {name} has been {done}.", client.ask(verb, node=name), name)

        return for_each(names, deed, out)

    return run


def remove_nodes(args: Arguments, client: Client, out: Output) -> int:
    """Remove each node; say of those of the head's machine that their agents bring them back."""
    known = client.ask("nodes")["nodes"] if args.words else []
    local = [node["name"] for node in known if not node["remote"] and node["name"] in args.words]
    status = _change_nodes("remove_node", "removed")(args, client, out)
    if local:
        what = f"{', '.join(local)}: the head starts a node of its own machine again"
        out.note(f"{what}; for fewer nodes: hn down, then hn up --nodes N; for no jobs there: hn node drain")
    return status


def drain_nodes(args: Arguments, client: Client, out: Output) -> int:
    """Drain each node."""
    names = all_or_named(args, client)
    if not names:
        raise usage("no node was given", "give the names of one or more nodes")
    closes, reason = moment(args, "at", ahead=True), args.text("reason") or ""

    def deed(name: str) -> None:
        answer = client.ask("drain_node", node=name, closes=closes, reason=reason, force=args.flag("force"))
        out.outcome(f"Node {name} {drain_in_words(answer['node'], at=closes)}.", answer, name)

    return for_each(names, deed, out)


def drain_in_words(node: "dict[str, Any]", *, at: float | None) -> str:
    """Return what a node does that was drained; `at`: from then on."""
    if node["state"] == "Drained":
        return "has been drained; nothing runs there"
    if node["state"] == "Draining" and any(drain["force"] for drain in node["drains"]):
        return "is draining; its tasks are being stopped"
    if node["state"] == "Draining":
        return "is draining; running tasks continue"
    if at is not None:
        return "will start only jobs that end by then"
    return f"is {node['state'].lower()}, and will start no jobs when it is back"


def set_node(args: Arguments, client: Client, out: Output) -> int:
    """Set it for each node."""
    names = names_of(args.words)
    if not names:
        raise usage("no node was given", "give the names of one or more nodes")
    fields: dict[str, object] = {}
    for what in ("groups", "features"):
        text = args.text(what)
        if text is not None:
            fields[what] = [word.strip() for word in text.split(",") if word.strip()]
    if args.text("comment") is not None:
        fields["comment"] = args.text("comment")
    if not fields:
        raise usage("nothing was given to set", "give --groups, --features or --comment")

    def deed(name: str) -> None:
        out.outcome(f"Node {name} has been changed.", client.ask("modify_node", node=name, **fields), name)

    return for_each(names, deed, out)


def invite_node(args: Arguments, client: Client, out: Output) -> int:
    """Print the line."""
    from headnode.core.formats.text.quantities import parse_span

    lifetime = args.text("lifetime")
    wanted = args.text("for")
    names = names_of([wanted or ""])
    if wanted is not None and not names:  # as of an empty variable: without names, any machine may join
        raise usage(f"--for {wanted!r} names no node", "name nodes, or leave --for out to invite any node")
    fields: dict[str, object] = {"approve": args.flag("approve")}
    fields |= {"nodes": names} if len(names) > 1 else {"node": "".join(names)}
    if lifetime:
        fields["lifetime"] = parse_span(lifetime)
    made = client.ask("invite_node", **fields)
    name = f" --name {made['node']}" if made["node"] else ""
    out.text(f"hn agent --join {made['invitation']}{name}\n", made)
    return 0


COMMANDS = (
    CliCommand(
        "view",
        "NODE",
        "Show a node",
        view_node,
        options=(
            CliOption(
                "history",
                "",
                "Show the history of the node instead: drains with their reasons, absences, reboots",
            ),
            CliOption("jobhistory", "", "List the newest jobs that used the node, instead"),
            CliOption("lastrows", "N", f"With /jobhistory: how many (default: {SHOWN_JOBS})"),
            CliOption("detailed", "", "Accepted from older commands; everything is shown anyway"),
            FORMAT,
        ),
        example="hn node view node01 /history",
    ),
    CliCommand(
        "listcores",
        "",
        "List the processors and what runs on them",
        list_cores,
        options=(STATE, CliOption("jobid", "ID", "Only processors that this job holds"), FORMAT),
        example="hn node listcores /state:idle",
        instead="one node: hn node view NAME",
    ),
    CliCommand(
        "approve",
        "NODE...",
        "Approve new nodes, so that they accept jobs",
        _change_nodes("approve_node", "approved"),
        example="hn node approve node03",
    ),
    CliCommand(
        "pause",
        "NODE...",
        "Start only jobs of administrators on nodes; running jobs continue",
        _change_nodes("pause_node", "paused"),
        example="hn node pause node03",
    ),
    CliCommand(
        "resume",
        "NODE...",
        "Make paused and drained nodes accept jobs again",
        _change_nodes("resume_node", "resumed"),
        options=(ALL_NODES,),
        example="hn node resume node03",
    ),
    CliCommand(
        "remove",
        "NODE...",
        "Remove nodes from the cluster; to return they need a new invitation",
        remove_nodes,
        example="hn node remove node03",
    ),
    CliCommand(
        "drain",
        "NODE...",
        "Start no new jobs on nodes; running jobs continue",
        drain_nodes,
        options=(
            ALL_NODES,
            CliOption("reason", "TEXT", "Reason, shown where a job waits for the node"),
            CliOption("force", "", "Kill the tasks there: rerunnable tasks are requeued, other tasks fail"),
            CliOption(
                "at",
                "TIME",
                "Drain at this date and time (local), or 2h: in two hours; jobs that end before may start",
            ),
        ),
        example="hn node drain node03 --at 2030-01-31T18:00 --reason 'new memory'",
        notes=("hn node resume makes them accept jobs again, before and after the date.",),
    ),
    CliCommand(
        "set",
        "NODE...",
        "Set groups, features and comment of nodes; they override what the agents report",
        set_node,
        options=(
            CliOption("groups", "A,B", "Node groups; empty: none"),
            CliOption("features", "A,B", "Features; empty: none"),
            CliOption("comment", "TEXT", "Comment, shown by hn node view"),
        ),
        example="hn node set node03 --features gpu,ssd",
    ),
    CliCommand(
        "invite",
        "",
        "Print the command that makes another machine a node",
        invite_node,
        options=(
            CliOption(
                "approve", "", "The node accepts jobs at once; otherwise an administrator must approve it"
            ),
            CliOption(
                "for",
                "NAMES",
                "Only nodes of these names may join, each once; they replace existing nodes of those names",
            ),
            CliOption("lifetime", "SPAN", "How long the invitation is valid, such as 2h (default: 1d)"),
        ),
        example="hn node invite --approve",
        notes=(
            "The invitation works once, with --for once for each name. Keep it secret, like a password.",
            "With several names, as in node[001-050], each machine joins by its host name, or --name.",
            "The head must listen: hn up --listen HOST",
        ),
        instead="name the node with --for NAME",
    ),
)
