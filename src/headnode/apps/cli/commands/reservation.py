"""``hn reservation``: make, list, view, change and cancel reservations of nodes."""

from headnode.apps.cli.catalogue import FORMAT, CliCommand
from headnode.apps.cli.options import Arguments, CliOption, the_name, usage
from headnode.apps.cli.output import Output, for_each
from headnode.apps.cli.screens.cluster import (
    RESERVATION_COLUMNS,
    later_start,
    reservation_row,
    reservation_view,
)
from headnode.apps.cli.table import RecordTable
from headnode.apps.client.client import Client
from headnode.apps.readable_values import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MINUTE = 60.0  # seconds
_LISTS = {
    "nodegroup": "node_groups",
    "features": "features",
    "users": "users",
    "groups": "groups",
    "projects": "projects",
}


def new(args: Arguments, client: Client, out: Output) -> int:
    """Reserve nodes."""
    return _set(args, client, out, "create_reservation", "has been made")


def modify(args: Arguments, client: Client, out: Output) -> int:
    """Change a reservation."""
    return _set(args, client, out, "modify_reservation", "has been changed")


def _set(args: Arguments, client: Client, out: Output, verb: str, done: str) -> int:
    answer = client.ask(
        verb,
        name=the_name(args, "reservation", "give it before the options, such as upgrade"),
        **_requested(args),
    )
    reservation = answer["reservation"]
    out.outcome(
        f"Reservation {reservation['name']} {done}: {reservation['node_set']}.", answer, reservation["name"]
    )
    for each in answer["delayed"]:
        out.note(later_start(each))
    return 0


def listing(args: Arguments, client: Client, out: Output) -> int:  # noqa: ARG001
    """List every reservation."""
    reservations = client.ask("reservations")["reservations"]
    out.show_table(
        RecordTable(
            "Name",
            [reservation_row(each) for each in reservations],
            reservations,
            columns=RESERVATION_COLUMNS,
            prose=True,
        )
    )
    return 0


def show(args: Arguments, client: Client, out: Output) -> int:
    """Show one reservation."""
    reservation = client.ask(
        "reservation", name=the_name(args, "reservation", "give it before the options, such as upgrade")
    )["reservation"]
    out.show_table(RecordTable("Name", [reservation_view(reservation)], reservation))
    return 0


def cancel(args: Arguments, client: Client, out: Output) -> int:
    """Cancel each reservation."""
    if not args.words:
        raise usage("no reservation was given", "give the names of one or more: see hn reservation list")

    def deed(name: str) -> None:
        answer = client.ask("cancel_reservation", name=name)
        out.outcome(f"Reservation {answer['canceled']} has been canceled.", answer, name)
        if answer["waiting"]:
            jobs = ", ".join(map(str, answer["waiting"]))
            several = counted(len(answer["waiting"]), "job")
            out.note(f"{several} wait for it, and will not start: {jobs}; hn job modify ID /reservation:")

    return for_each(args.words, deed, out)


def _requested(args: Arguments) -> "dict[str, Any]":
    """Return the fields that were typed."""
    fields: dict[str, Any] = {
        field: [name.strip() for name in text.split(",") if name.strip()]
        for option, field in _LISTS.items()
        if (text := args.text(option)) is not None
    }
    if args.text("to") is not None and args.text("for") is not None:
        raise usage("an end and a length were given", "leave out --to or --for")
    for option, field in (("from", "start"), ("to", "end")):
        if (text := args.text(option)) is not None:
            fields[field] = _moment(option, text)
    if (text := args.text("for")) is not None:
        from headnode.apps.cli.slurm_and_pbs import refuse_ambiguous_time
        from headnode.core.model.quantities import parse_time_limit

        refuse_ambiguous_time(text)
        fields["duration"] = parse_time_limit(text)
        if fields["duration"] == float("inf"):
            raise usage("a reservation needs an end", "write --for 2h, for example")
    for option, field in (("nodes", "nodes"), ("reason", "reason"), ("atend", "at_end")):
        if (text := args.text(option)) is not None:
            fields[field] = text.lower() if option == "atend" else text
    if fields.get("at_end", "limit") not in ("limit", "run-on", "cancel"):
        raise usage(f"{fields['at_end']!r} is not an end of jobs", "write limit, run-on or cancel")
    if args.number("count") is not None:
        fields["count"] = args.number("count")
    if args.text("automatic") is not None:
        fields["automatic"] = args.flag("automatic")
    return fields | {"ignore_running": args.flag("ignore-running")}


def _moment(option: str, text: str) -> float:
    """Return a point of time in seconds since 1970: a date and time (local), or minutes from now."""
    if text.isascii() and text.isdigit() and len(text) <= 9:
        import time

        return time.time() + int(text) * MINUTE
    from headnode.apps.cli.typed_dates import IN_MINUTES, typed_date

    return typed_date(option, text, IN_MINUTES, ahead=True)


_OPTIONS = (
    CliOption("nodes", "NODES", "These nodes: names and sets of them, such as node[01-04],big2"),
    CliOption("count", "N", "Reserve N nodes of any name; a lost node is replaced"),
    CliOption("nodegroup", "NAME,...", "With --count: nodes in all of these groups", ("nodegroups",)),
    CliOption("features", "NAME,...", "With --count: nodes with all of these features"),
    CliOption("from", "TIME", "Start: a date and time (local), 2h or minutes from now (default: now)"),
    CliOption("to", "TIME", "End: a date and time (local), 2h or minutes from now"),
    CliOption("for", "TIME", "Duration: 90 (minutes), 1h30m, 2d"),
    CliOption("users", "NAME,...", "These users may run jobs in it"),
    CliOption("groups", "NAME,...", "Members of these system groups, as of now, may run jobs in it"),
    CliOption("projects", "NAME,...", "Jobs of these projects may run in it"),
    CliOption(
        "atend", "WHAT", "Jobs inside must end with it (limit), continue (run-on) or are canceled (cancel)"
    ),
    CliOption("automatic", "", "Eligible jobs use it without naming it"),
    CliOption("reason", "TEXT", "Purpose, shown in lists"),
    CliOption(
        "ignore-running", "", "Reserve nodes even if jobs may still run on them then; these jobs continue"
    ),
)
COMMANDS = (
    CliCommand(
        "new",
        "NAME",
        "Reserve nodes for users or projects, or, if none are named, for maintenance",
        new,
        options=_OPTIONS,
        example="hn reservation new upgrade --nodes 'node[01-04]' --from 2030-01-31T18:00 --for 2h",
        notes=(
            "Without --from it begins at once. Submit jobs to it with hn job submit /reservation:NAME. "
            "Other jobs start on its nodes only if they end before it begins.",
        ),
    ),
    CliCommand(
        "list",
        "",
        "List the reservations",
        listing,
        options=(FORMAT,),
        example="hn reservation list",
        instead="one reservation: hn reservation view NAME",
    ),
    CliCommand(
        "view",
        "NAME",
        "Show one reservation and its jobs",
        show,
        options=(FORMAT,),
        example="hn reservation view upgrade",
    ),
    CliCommand(
        "modify",
        "NAME",
        "Change a reservation; other properties stay as they are",
        modify,
        options=_OPTIONS,
        example="hn reservation modify upgrade --for 3h",
    ),
    CliCommand(
        "cancel",
        "NAME...",
        "Cancel reservations; jobs inside continue",
        cancel,
        example="hn reservation cancel upgrade",
    ),
)
