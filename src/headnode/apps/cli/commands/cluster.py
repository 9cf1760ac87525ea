"""``hn cluster view``, ``limits``, ``params``, ``history``, ``envs``, ``audit``: the cluster as a whole."""

from shlex import quote

from headnode.apps.cli.arguments import AGO, DAY, SINCE, UNTIL, moment, period
from headnode.apps.cli.catalogue import FORMAT, CliCommand
from headnode.apps.cli.options import Arguments, CliOption, nearest, usage
from headnode.apps.cli.output import Output, history_progress
from headnode.apps.cli.screens.cluster import (
    CHANGE_COLUMNS,
    LIMIT_COLUMNS,
    LIMIT_NUMBERS,
    NO_PREDICTIONS,
    PARAM_COLUMNS,
    PREDICTION_COLUMNS,
    SHARE_COLUMNS,
    SHARE_NUMBERS,
    change_row,
    cluster_view,
    history_view,
    limit_row,
    no_limits,
    param_row,
    prediction_rows,
    prediction_trailer,
    share_place,
    share_row,
)
from headnode.apps.cli.table import RecordTable
from headnode.apps.client.client import Client
from headnode.apps.readable_values import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PARAMETER = "ClusterEnvironment"
LIMITS_SHOWN = 100  # users, projects and groups, of which each may have several limits


def environment(args: Arguments, client: Client, out: Output) -> int:
    """List the variables; set those that are given as NAME=VALUE, remove those given as NAME=."""
    variables = _cluster_variables(client)
    changes = dict(word.split("=", 1) for word in args.words if "=" in word)
    names = [word for word in args.words if "=" not in word]
    if changes:
        if wrong := next((name for name in changes if not name or ";" in changes[name]), None):
            raise usage(f"variable {wrong!r} cannot be set so", "write NAME=VALUE, without a semicolon")
        variables = {name: value for name, value in (variables | changes).items() if value}
        text = ";".join(f"{name}={value}" for name, value in variables.items())
        client.ask("set_parameters", values={PARAMETER: text or None})
    chosen = {name: value for name, value in variables.items() if not names or name in names}
    if missing := [name for name in names if name not in variables]:
        raise usage(f"the cluster has no variable {missing[0]!r}", f"set it with: {missing[0]}=VALUE")
    if changes and out.for_people:
        return 0
    rows = [{"Name": name, "Value": value} for name, value in chosen.items()]
    out.show_table(RecordTable("Name", rows, chosen, columns=("Name", "Value")))
    return 0


def _cluster_variables(client: Client) -> "dict[str, str]":
    params = client.ask("parameters")["parameters"]
    text = next(str(param["value"] or "") for param in params if param["name"] == PARAMETER)
    pairs = (piece.partition("=") for piece in text.split(";") if piece)
    return {name: value for name, _, value in pairs}


AUDIT_COLUMNS = (
    "When",
    "User",
    "Verb",
    "Outcome",
    "About",
    "From",
)  # where a terminal is narrow, the last are cut
_OWN_COLUMNS = frozenset({"when", "user", "uid", "from", "verb", "outcome"})


def audit(args: Arguments, client: Client, out: Output) -> int:
    """List the newest entries, in the order in which they were written."""
    fields = {
        "job": args.number("job"),
        "user": args.text("user"),
        "since": moment(args, "since"),
        "limit": args.number("limit"),
    }
    entries = client.ask("audit_log", **fields)["entries"]
    out.show_table(
        RecordTable("When", [_audit_row(entry) for entry in entries], entries, columns=AUDIT_COLUMNS)
    )
    return 0


def _audit_row(entry: "dict[str, Any]") -> dict[str, str]:
    about = {name: value for name, value in entry.items() if name not in _OWN_COLUMNS}
    return {
        "When": str(entry.get("when", "")),
        "User": str(entry.get("user", "")),
        "From": str(entry.get("from", "")),
        "Verb": str(entry.get("verb", "")),
        "About": " ".join(f"{name}={_audit_text(value)}" for name, value in about.items()),
        "Outcome": str(entry.get("outcome", "")),
    }


def _audit_text(value: object) -> str:
    if isinstance(value, dict):
        return ",".join(f"{name}:{text}" for name, text in value.items())
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


DAYS = 30  # of predictions that are told, if nobody says otherwise


def show(args: Arguments, client: Client, out: Output) -> int:
    """Show what the cluster is and does, or how often it said rightly when jobs would start."""
    if args.flag("predictions"):
        return _show_predictions(args, client, out)
    if "days" in args.options:
        raise usage("option --days needs --predictions", "give --predictions too, or leave out --days")
    cluster = client.ask("cluster")["cluster"]
    out.show_table(RecordTable("Name", [cluster_view(cluster)], cluster))
    return 0


def _show_predictions(args: Arguments, client: Client, out: Output) -> int:
    import time

    days = args.number("days")
    days = DAYS if days is None else days
    answer = client.ask("predictions", since=max(0.0, time.time() - days * DAY))
    rows = prediction_rows(answer)
    if not rows:
        out.note(NO_PREDICTIONS.format(days=counted(days, "day")))
    if rows or not out.for_people:
        out.show_table(
            RecordTable(
                "Jobs", rows, answer, columns=PREDICTION_COLUMNS, trailer=prediction_trailer(answer, days)
            )
        )
    return 0


def params(args: Arguments, client: Client, out: Output) -> int:
    """List the parameters named, or all; set those that are given as NAME=VALUE."""
    if args.flag("history"):
        return _show_changes(args, client, out)
    changes = dict(word.split("=", 1) for word in args.words if "=" in word)
    names = [word for word in args.words if "=" not in word]
    if changes:
        values = {name: value or None for name, value in changes.items()}  # nothing: back to the default
        answer = client.ask("set_parameters", values=values)
        listed = answer["parameters"]
        for note in answer.get("notes", ()):  # a head of 0.2.0 has none
            out.note(note)
    else:
        listed = client.ask("parameters")["parameters"]
    chosen = _chosen(listed, [*names, *changes])
    rows = [param_row(param) for param in chosen]
    out.show_table(RecordTable("Name", rows, chosen, columns=PARAM_COLUMNS, prose=True))
    return 0


def limits(args: Arguments, client: Client, out: Output) -> int:
    """List the limits of users, projects and groups, with what is in use of each."""
    after, names = args.text("after") or "", list(args.words)
    answer = client.ask("limits", names=names, after=after, limit=args.number("limit") or LIMITS_SHOWN)
    limits = answer["limits"]
    if not limits:
        out.note(no_limits(answer, named=bool(names)))
    if limits or not out.for_people:
        rows = [limit_row(use) for use in limits]
        more = f"more with --after {quote(answer['more'])}" if answer["more"] else ""
        out.show_table(
            RecordTable("Name", rows, limits, columns=LIMIT_COLUMNS, right=LIMIT_NUMBERS, trailer=more)
        )
    return 0


def shares(args: Arguments, client: Client, out: Output) -> int:
    """List the shares of users and projects, with what they have used."""
    all_shares: list[dict[str, Any]] = []
    projects: dict[str, dict[str, Any]] = {}  # a project with many users is on several pages
    answer, after = client.ask("shares"), ""
    while True:
        all_shares, after = [*all_shares, *answer["users"]], answer["more"] or ""
        projects |= {each["project"]: each for each in answer["projects"]}
        if not after:
            break
        answer = client.ask("shares", after=after)
    every = sorted([*projects.values(), *all_shares], key=share_place)
    names = set(args.words)
    chosen = [each for each in every if not names or names & {each["user"], each["project"]} - {""}]
    if not answer["weighted"]:
        out.note("Waiting jobs are not ordered by shares: PriorityWeights has no fair-share.")
    elif chosen and not names:
        out.note(
            "Fair share here counts what was used. That of a waiting job (hn job explain) also counts what "
            "running jobs may still use, and the jobs before it, and is multiplied by its weight."
        )
    if not chosen and names:
        out.note("These users and projects have no jobs and no usage, or you may not see them.")
    elif not chosen:
        out.note("No user and no project has jobs or usage yet.")
    if chosen or not out.for_people:
        rows = [share_row(each) for each in chosen]
        out.show_table(RecordTable("Project", rows, chosen, columns=SHARE_COLUMNS, right=SHARE_NUMBERS))
    return 0


def _show_changes(args: Arguments, client: Client, out: Output) -> int:
    wrong = next((word for word in args.words if "=" in word), None)
    if wrong is not None:
        raise usage(f"{wrong!r} would change a parameter", "leave out --history, or write only its name")
    changes = client.ask("parameter_history", names=list(args.words))["changes"]
    if not changes:
        out.note("No parameter was ever changed.")
    if changes or not out.for_people:
        out.show_table(
            RecordTable("When", [change_row(change) for change in changes], changes, columns=CHANGE_COLUMNS)
        )
    return 0


def history(args: Arguments, client: Client, out: Output) -> int:
    """Tell what the jobs that are over were like, or write them as a job log."""
    from headnode.adapters.files.job_logs import write_history
    from headnode.apps.client.history import ask_history, summary

    path, whole = args.text("swf"), args.flag("whole-seconds")
    if whole and path is None:
        raise usage("option --whole-seconds needs --swf", "give --swf FILE too, or leave it out")
    past = ask_history(client, *period(args), history_progress())
    if path is None:
        text = summary(past)
        out.show_table(RecordTable("Cluster", [history_view(text)], text))
        return 0
    write_history(path, past, whole_seconds=whole)
    jobs = counted(len(past.jobs), "job")
    out.outcome(f"{jobs} written to {path}.", {"file": path, "jobs": len(past.jobs)}, path)
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
    CliCommand(
        "envs",
        "[NAME | NAME=VALUE | NAME=]...",
        "List or set the variables that every task gets; NAME= removes one",
        environment,
        options=(FORMAT,),
        example="hn cluster envs LM_LICENSE_FILE=27000@licences SCRATCH=/scratch",
        notes=(
            "Variables of a job or task override those of the cluster.",
            "They are the cluster parameter ClusterEnvironment. Tasks that run already keep theirs.",
        ),
    ),
    CliCommand(
        "audit",
        "",
        "List changes and refused changes with their users; for administrators",
        audit,
        options=(
            CliOption("job", "ID", "Only about this job"),
            CliOption("user", "NAME", "Only changes by this user, or of jobs made for this user"),
            CliOption("since", "TIME", f"Only from this date and time on (local), {AGO}"),
            CliOption("limit", "N", "The newest N (default: 1000)"),
            FORMAT,
        ),
        example="hn cluster audit --since 7d",
    ),
    CliCommand(
        "view",
        "",
        "Show the cluster, or the accuracy of its predicted starts",
        show,
        options=(
            CliOption(
                "predictions", "", "How often predicted starts were right, and by how much they were off"
            ),
            CliOption("days", "N", f"With --predictions: of jobs that started in the last N days ({DAYS})"),
            FORMAT,
        ),
        example="hn cluster view --predictions --days 7",
        instead="one node: hn node view NAME; one job: hn job view ID",
    ),
    CliCommand(
        "limits",
        "[NAME]...",
        "List the limits of users, projects and groups that apply to you, and what is in use of them",
        limits,
        options=(
            CliOption("limit", "N", f"How many users, projects and groups at most (default: {LIMITS_SHOWN})"),
            CliOption("after", "PLACE", "Only those after this place: the next page"),
            FORMAT,
        ),
        example="hn cluster limits ann climate",
        notes=(
            "NAME is a user, project or group; without one, all that you may see are listed. "
            "Operators and administrators see those of all users, projects and groups.",
            "Limits are the cluster parameters UserLimits, ProjectLimits and GroupLimits.",
        ),
    ),
    CliCommand(
        "shares",
        "[NAME]...",
        "List the shares of users and projects, and what they have used of them",
        shares,
        options=(FORMAT,),
        example="hn cluster shares climate",
        notes=(
            "NAME is a user or project; without one, all that you may see are listed. "
            "Operators and administrators see those of all users and projects.",
            "Shares are the cluster parameters UserShares and ProjectShares. They order waiting jobs if "
            "PriorityWeights has fair-share.",
        ),
    ),
    CliCommand(
        "params",
        "[NAME | NAME=VALUE | NAME=]...",
        "List or set the cluster's parameters; NAME= restores the default",
        params,
        options=(
            CliOption(
                "history", "", "Show changes with their times; for administrators also user and origin"
            ),
            FORMAT,
        ),
        example="hn cluster params HeartbeatInterval=30s",
    ),
    CliCommand(
        "history",
        "",
        "Summarize ended jobs, or write them as a job log",
        history,
        options=(
            CliOption(
                "swf", "FILE", "Write them in the Standard Workload Format; packed if it ends with .gz or .xz"
            ),
            CliOption(
                "whole-seconds", "", "With --swf: round times, for programs that read whole numbers only"
            ),
            SINCE,
            UNTIL,
            FORMAT,
        ),
        example="hn cluster history --since 30d --swf last-month.swf.gz",
        notes=("The log has numbers for users, not their names.",),
    ),
)
