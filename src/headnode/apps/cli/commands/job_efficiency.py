"""``hn job efficiency``: what jobs used of what they held and requested, and smaller requests."""

from headnode.apps.cli.arguments import AGO, DAY, job_ids, period
from headnode.apps.cli.catalogue import FORMAT, STATE, CliCommand
from headnode.apps.cli.commands.job_list import MAX_PAGE, MAX_SORTED, PAGE
from headnode.apps.cli.options import Arguments, CliOption, read_states, usage
from headnode.apps.cli.output import Output, for_each
from headnode.apps.cli.screens import efficiency
from headnode.apps.cli.table import RecordTable
from headnode.apps.client.client import Client
from headnode.apps.readable_values import counted
from headnode.protocol.state_names import ENDED_STATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Answer = dict[str, Any]

WIDE_FROM = 130  # columns of a terminal
_OF_LISTS = ("since", "until", "user", "state", "project", "limit")


def run(args: Arguments, client: Client, out: Output) -> int:
    """Show the jobs that were named, or list those of a period."""
    if not args.words:
        return _list(args, client, out)
    if other := next((name for name in _OF_LISTS if name in args.options), None):
        raise usage(f"option {other!r} is about lists, and ids were given", "leave one of them out")
    jobs: list[Answer] = []

    def look(job: int) -> None:
        jobs.extend(client.ask("job_efficiency", job=job)["jobs"])

    status = for_each(job_ids(args.words), look, out)
    if jobs:
        data = jobs[0] if len(jobs) == 1 else jobs
        out.show_table(RecordTable("Id", [efficiency.view(job) for job in jobs], data))
    return status


def _list(args: Arguments, client: Client, out: Output) -> int:
    limit = args.number("limit")
    jobs, more = _fetched(args, client)
    jobs.sort(key=efficiency.by_waste)
    users = efficiency.totals(jobs)
    page = jobs[: PAGE if limit is None else max(0, limit)]
    wide = out.width is None or out.width >= WIDE_FROM
    out.show_table(
        RecordTable(
            "Id",
            [efficiency.view(job) for job in page],
            {"jobs": page, "users": users, "more": more},
            columns=efficiency.WIDE if wide else efficiency.COLUMNS,
            trailer=_trailer(len(page), len(jobs), more, efficiency.totals_in_words(users)),
            cells=[efficiency.cells(job) for job in page],
            most={"Name": 24, "Owner": 16, "Project": 16} if wide else {"Name": 14, "Owner": 8},
            right=efficiency.RIGHT,
        )
    )
    return 0


def _fetched(args: Arguments, client: Client) -> "tuple[list[Answer], int | None]":
    """Return the jobs of the period, the newest of them if there are too many; and where the others begin."""
    import time

    since, until = period(args)
    if since is None and until is None:
        since = time.time() - 7 * DAY
    states = args.text("state")
    user = args.text("user")
    fields = {
        "owner": "" if user is None else None if user == "*" else user,
        "states": ENDED_STATES if states is None else read_states(states),
        "project": args.text("project"),
        "since": since,
        "until": until,
    }
    jobs: list[Answer] = []
    before: int | None = None
    while len(jobs) < MAX_SORTED:
        page = min(MAX_PAGE, MAX_SORTED - len(jobs))
        answer = client.ask("job_efficiency", before=before, limit=page, **fields)
        jobs += answer["jobs"]
        before = answer["more"]
        if before is None:
            break
    return jobs, before


def _trailer(count: int, matching: int, more: int | None, users: "list[str]") -> str:
    sentence = counted(count, "matching job")
    if matching > count:
        sentence += f", {matching - count} more with a larger --limit"
    if more is not None:
        sentence += f"; jobs before {more + 1} were not looked at: choose a shorter period with --until"
    return "\n".join([*users, sentence])


COMMANDS = (
    CliCommand(
        "efficiency",
        "[ID ...]",
        "Show how much of its request a job used, and a smaller request",
        run,
        options=(
            CliOption(
                "since",
                "TIME",
                f"Only jobs created from this time on (local), {AGO} (default: 7d)",
                short="S",
            ),
            CliOption("until", "TIME", f"Only jobs created before this time (local), {AGO}", short="E"),
            CliOption("user", "NAME", "Only jobs of this user instead of your own; * for all", short="u"),
            CliOption("project", "NAME", "Only jobs of this project", ("projectname",), short="A"),
            CliOption(
                STATE.name,
                STATE.value,
                "Only jobs in these states; * for all (default: ended jobs)",
                repeats=True,
                short="t",
            ),
            CliOption("limit", "N", f"How many at most (default: {PAGE})"),
            FORMAT,
        ),
        example="hn job efficiency --since 7d --user '*'",
        notes=(
            "CPU is the processor time of the tasks, divided by the processor time that the job held. Memory "
            "is the largest peak of a task, divided by the memory that the task requested. Time is the run "
            "time divided by its limit. Unused are the processor hours that the job held and did not use; "
            "the job with the most is first. A dash was not measured.",
            "Next Time has options for a smaller request: 1.5 times what was used, rounded up. There is none "
            "for jobs that failed, were canceled or ran for less than 10 s. The use of GPUs is not measured.",
            f"Without ids, up to {MAX_SORTED} jobs are read and sorted.",
        ),
    ),
)
