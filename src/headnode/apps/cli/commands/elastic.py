"""``hn elastic``: nodes that are allocations at another scheduler, made as jobs want them."""

from headnode.apps.cli.catalogue import FORMAT, CliCommand
from headnode.apps.cli.options import Arguments, CliOption, the_name, usage
from headnode.apps.cli.output import Output, for_each
from headnode.apps.cli.table import RecordTable
from headnode.apps.client.client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from headnode.apps.cli.catalogue import Run

COLUMNS = ("Name", "Resource", "Nodes", "Coming", "Node-hours", "State")
_NUMBERS = {
    "nodes-most": "most_nodes",
    "queued-most": "most_queued",
    "processors": "processors",
    "gpus": "gpus",
}
_TIMES = {"allocation-time": "allocation_time", "idle": "idle_time", "margin": "margin", "retry": "retry"}

_MONEY = {"price": "node_price", "cost-most": "most_cost"}


def add(args: Arguments, client: Client, out: Output) -> int:
    """Add an elastic pool, or change one."""
    from headnode.core.formats.text.quantities import parse_span

    fields: dict[str, Any] = {
        name: text for name in ("resource", "python") if (text := args.text(name)) is not None
    }
    for option, field in _NUMBERS.items():
        if args.number(option) is not None:
            fields[field] = args.number(option)
    if (memory := args.memory("memory")) is not None:
        fields["memory"] = memory
    for option, field in _TIMES.items():
        if (text := args.text(option)) is not None:
            fields[field] = parse_span(text)
    if args.number("node-hours-most") is not None:
        fields["most_node_hours"] = float(args.number("node-hours-most") or 0)
    for option, field in _MONEY.items():
        if (text := args.text(option)) is not None:
            fields[field] = _money(option, text)
    answer = client.ask(
        "set_elastic_pool", name=the_name(args, "elastic pool", "see: hn elastic list"), **fields
    )
    name = answer["pool"]["name"]
    out.outcome(f"Elastic pool {name} has been set. See it at work: hn elastic view {name}", answer, name)
    return 0


def _money(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise usage(f"--{option} is {text!r}", "write a number, such as 0.35") from None


def listing(args: Arguments, client: Client, out: Output) -> int:  # noqa: ARG001
    """List every elastic pool."""
    pools = client.ask("elastic_pools")["pools"]
    out.show_table(RecordTable("Name", list(map(_row, pools)), pools, columns=COLUMNS, prose=True))
    return 0


def _row(one: "Mapping[str, Any]") -> "dict[str, Any]":
    states = [each["state"] for each in one["allocations"]]
    limit = "" if one["most_node_hours"] is None else f" of {one['most_node_hours']:g}"
    most = "" if one["most_cost"] is None else f" of {one['most_cost']:g}"
    return {
        "Name": one["name"],
        "Resource": one["resource"],
        "Nodes": f"{states.count('node')} of {one['most_nodes']}",
        "Coming": str(states.count("wanted")),
        "Node-hours": f"{one['node_hours']:.1f}{limit}",
        "Cost": f"{one['cost']:.2f}{most}" if one["node_price"] else "",
        "State": _state(one),
    }


def _state(one: "Mapping[str, Any]") -> str:
    if one["removing"]:
        return "is being removed"
    return f"paused: {one['paused']}" if one["paused"] else str(one["says"])


def view(args: Arguments, client: Client, out: Output) -> int:
    """Show one elastic pool."""
    pool = client.ask("elastic_pool", name=the_name(args, "elastic pool", "see: hn elastic list"))["pool"]
    fields = {key.replace("_", " "): value for key, value in pool.items() if key != "allocations"}
    rows = [{"Property": key, "Value": "" if value is None else str(value)} for key, value in fields.items()]
    for each in pool["allocations"]:
        state = f"job {each['job']}, {each['state']}" + (f": {each['leaving']}" if each["leaving"] else "")
        rows.append({"Property": each["node"], "Value": state})
    out.show_table(RecordTable("Property", rows, pool, columns=("Property", "Value")))
    return 0


def _change(verb: str, done: str) -> "Run":
    """Return a command that asks `verb` for each elastic pool."""

    def run(args: Arguments, client: Client, out: Output) -> int:
        if not args.words:
            raise usage("no elastic pool was given", "give the names of one or more: hn elastic list")
        reason = {"reason": text} if (text := args.text("reason")) is not None else {}

        def deed(name: str) -> None:
            out.outcome(f"Elastic pool {name} {done}.", client.ask(verb, name=name, **reason), name)

        return for_each(args.words, deed, out)

    return run


_OPTIONS = (
    CliOption("resource", "NAME", "Resource where the allocations are jobs; see hn resource list"),
    CliOption("nodes-most", "N", "Most allocations at a time (default: 1)"),
    CliOption("node-hours-most", "N", "Most node-hours in all; 0: no limit (default)"),
    CliOption("price", "N", "What a node-hour costs, in your currency, such as 0.35"),
    CliOption("cost-most", "N", "Most that all allocations may cost in all; 0: no limit (default)"),
    CliOption("queued-most", "N", "Most allocations that have not become nodes yet (default: 2)"),
    CliOption("allocation-time", "SPAN", "Length of an allocation, such as 4h (default: 1h)"),
    CliOption("processors", "N", "Processors of each node (default: 1)"),
    CliOption(
        "memory", "AMOUNT", "Memory that each node requests: MB, or with a unit, such as 64G (default: none)"
    ),
    CliOption("gpus", "N", "GPUs that each node requests (default: none)"),
    CliOption("idle", "SPAN", "Time after which a node without a job is released (default: 5m)"),
    CliOption("margin", "SPAN", "Time at the end of an allocation in which no job runs (default: 1m)"),
    CliOption("retry", "SPAN", "Pause after a failed allocation; doubled for the next (default: 1m)"),
    CliOption("python", "PATH", "Python with Headnode at the resource (default: that of the head)"),
)
COMMANDS = (
    CliCommand(
        "add",
        "NAME",
        "Add an elastic pool, or change one; administrators only",
        add,
        options=_OPTIONS,
        example="hn elastic add burst --resource physics --nodes-most 8 --allocation-time 4h --processors 16",
        notes=("The head must listen: hn up --listen HOST",),
    ),
    CliCommand(
        "list",
        "",
        "List the elastic pools",
        listing,
        options=(FORMAT,),
        example="hn elastic list",
        instead="one pool: hn elastic view NAME",
    ),
    CliCommand(
        "view",
        "NAME",
        "Show one elastic pool, its allocations, and why it requests no more",
        view,
        options=(FORMAT,),
        example="hn elastic view burst",
    ),
    CliCommand(
        "pause",
        "NAME...",
        "Request no more allocations; administrators only",
        _change("pause_elastic_pool", "has been paused"),
        options=(CliOption("reason", "TEXT", "Reason, shown where a job waits"),),
        example="hn elastic pause burst --reason 'the budget is spent'",
    ),
    CliCommand(
        "resume",
        "NAME...",
        "Request allocations again, and forget failures; administrators only",
        _change("resume_elastic_pool", "has been resumed"),
        example="hn elastic resume burst",
    ),
    CliCommand(
        "remove",
        "NAME...",
        "Cancel all allocations and remove the pools; administrators only",
        _change("remove_elastic_pool", "is being removed"),
        example="hn elastic remove burst",
        notes=("Tasks on its nodes are stopped: those that are rerunnable run again elsewhere.",),
    ),
)
