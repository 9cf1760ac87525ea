"""``hn job list``: jobs, alive and over, newest first, a page at a time."""

from headnode.apps.cli.arguments import AGO, group_text, period
from headnode.apps.cli.catalogue import FORMAT, STATE, CliCommand
from headnode.apps.cli.job_selection import LIVING
from headnode.apps.cli.options import Arguments, CliOption, read_states, usage
from headnode.apps.cli.output import Output
from headnode.apps.cli.screens.job import WIDTHS, row
from headnode.apps.cli.table import RecordTable
from headnode.apps.client.client import Client
from headnode.apps.readable_values import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Answer = dict[str, Any]

PAGE = 100  # jobs
MAX_SORTED = 10_000  # jobs that are fetched to be sorted
MAX_PAGE = 1000  # jobs that a head gives at once
ORDERS = ("id", "name", "user", "state", "priority", "submitted", "start", "ended", "elapsed")
_PAST = ("since", "until", "group")  # with these, jobs of all states are listed


def run(args: Arguments, client: Client, out: Output) -> int:
    """List the jobs that were asked for."""
    limit = args.number("limit")
    if args.flag("site"):
        from headnode.apps.cli.site import show_jobs

        return show_jobs(args, client, out, PAGE if limit is None else limit)
    answer = _fetched(args, client, PAGE if limit is None else limit)
    data = answer["jobs"] if "group" not in answer else {"group": answer["group"], "jobs": answer["jobs"]}
    out.show_table(_sheet(answer, data, out.width))
    if not answer["jobs"] and out.for_people and _default(args) and answer.get("total"):
        out.note(
            "none of your jobs is queued or running; to list those that have ended: hn job list --state '*'"
        )
    if found := answer.get("damage"):
        rows_found = counted(len(found), "damaged row")
        out.note(f"the journal has {rows_found}, which lists leave out ({found[0]}); see: hn cluster view")
    return 0


def _sheet(answer: "Answer", data: "Any", width: int | None) -> RecordTable:
    import time

    from headnode.apps.cli.screens import job_table

    now = time.time()
    wide = width is None or width >= job_table.WIDE_FROM
    return RecordTable(
        "Id",
        [row(job) for job in answer["jobs"]],
        data,
        columns=job_table.WIDE if wide else job_table.COLUMNS,
        widths=WIDTHS,
        trailer=_trailer(answer),
        prose=True,
        cells=[job_table.cells(job, now) for job in answer["jobs"]],
        most=job_table.MAX_WHEN_WIDE if wide else job_table.MAX_WIDTHS,
        right=job_table.RIGHT,
        colours=job_table.COLOURS,
    )


def _fetched(args: Arguments, client: Client, limit: int) -> "Answer":
    """Return up to `limit` jobs; to sort them, as many as are looked at for that."""
    order = _order(args)
    since, until = period(args)
    fields = {
        "owner": _owner(args),
        "states": _states(args),
        "group": args.text("group"),
        "name": args.text("name"),
        "project": args.text("projectname"),
        "since": since,
        "until": until,
    }
    most = MAX_SORTED if order else limit
    piecewise = (
        order
        or limit > MAX_PAGE
        or any(fields[name] is not None for name in ("name", "project", "since", "until"))
    )
    answer = client.ask("jobs", before=args.number("before"), limit=most, **fields)
    while piecewise and answer["more"] is not None and len(answer["jobs"]) < most:
        further = client.ask("jobs", before=answer["more"], limit=most - len(answer["jobs"]), **fields)
        answer = further | {"jobs": answer["jobs"] + further["jobs"]}
    return _sorted(answer, order, limit) if order else answer


def _sorted(answer: "Answer", order: str, limit: int) -> "Answer":
    from headnode.apps.cli.screens.job_table import ORDERS as KEYS

    backwards = order.startswith("-")
    key, largest_first = KEYS[order.lstrip("-")]
    jobs = sorted(answer["jobs"], key=key, reverse=largest_first != backwards)
    left = len(jobs) - limit
    more = {"left": left} if left > 0 else {}
    return answer | {"jobs": jobs[:limit]} | more


def _order(args: Arguments) -> str:
    """Return what to sort by; "" for nothing.

    Raises:  BadRequest ``usage``.
    """
    order = (args.text("sort") or "").lower()
    if order and order.lstrip("-") not in ORDERS:
        raise usage(
            f"jobs cannot be sorted by {order!r}",
            f"choose from: {', '.join(ORDERS)}; -{ORDERS[0]} reverses the order",
        )
    return order


def _default(args: Arguments) -> bool:
    return not {"state", "all", "user", "group", "name", "projectname", "before", *_PAST} & {*args.options}


def _owner(args: Arguments) -> str | None:
    user = args.text("user")
    if user is not None:
        return None if user == "*" else user
    return None if args.flag("all") else ""


def _states(args: Arguments) -> "list[str] | None":
    if args.text("state") is None:
        return None if args.flag("all") or any(name in args.options for name in _PAST) else LIVING
    return read_states(args.text("state"))


def _trailer(answer: "Answer") -> str:
    """Return the line that scripts skip after the records."""
    sentence = counted(len(answer["jobs"]), "matching job")
    if "left" in answer:
        sentence = f"{sentence}, {answer['left']} more with a larger --limit"
    elif answer["more"] is not None:
        sentence = f"{sentence} on this page, more with --before {answer['more']}"
    return f"{group_text(answer['group'])}\n{sentence}" if "group" in answer else sentence


COMMANDS = (
    CliCommand(
        "list",
        "",
        "List jobs; by default your own that are queued, running or suspended",
        run,
        options=(
            CliOption("all", "", "Jobs of all users in all states, including ended ones", short="a"),
            CliOption(STATE.name, STATE.value, STATE.summary, repeats=True, short="t"),
            CliOption("user", "NAME", "Only jobs of this user; * for all", short="u"),
            CliOption(
                "name",
                "PATTERN",
                "Only jobs of this name (or of this command, if they have no name); *: any text",
                short="n",
            ),
            CliOption("projectname", "NAME", "Only jobs of this project", ("project",), short="A"),
            CliOption(
                "group", "NAME", "Only jobs of this job group, in all states, and the state of the group"
            ),
            CliOption(
                "since",
                "TIME",
                f"Only jobs created from this date and time on (local), {AGO}; in all states",
                short="S",
            ),
            CliOption(
                "until",
                "TIME",
                f"Only jobs created before this date and time (local), {AGO}; in all states",
                short="E",
            ),
            CliOption(
                "site",
                "",
                "The queue of the site over which this head runs (hn up --over); with --state ended: its "
                "newest ended jobs",
            ),
            CliOption("sort", "KEY", f"Sort by {', '.join(ORDERS)}; -KEY backwards"),
            CliOption("limit", "N", f"How many at most (default: {PAGE})"),
            CliOption("before", "ID", "Only jobs with a smaller id: the next page"),
            FORMAT,
        ),
        example="hn job list --all --since 1d --state failed --sort elapsed",
        notes=(
            "The column Tasks has finished/total tasks; 2F: two failed, 1C: one was canceled. A job without "
            "a name is shown by its command. The last column has the nodes of a running job, and the "
            "expected start and the reason of a waiting job.",
            f"A wide terminal, and a pipe, get more columns. With --sort up to {MAX_SORTED} jobs are "
            "sorted. Colours are printed to terminals only, and not if NO_COLOR is set.",
            "A job group has the latest jobs of its name, and all that have not ended.",
        ),
        instead="one job: hn job view ID; the jobs of a user: --user NAME",
    ),
)
