"""``hn cluster view``, ``params`` and ``history``: the cluster as a whole."""

from headnode.apps.cli.command import FORMAT, Command
from headnode.apps.cli.options import Option, nearest, usage
from headnode.apps.cli.period import DAY, SINCE, UNTIL, period, told_on_terminal
from headnode.apps.cli.screens.cluster import CHANGE_COLUMNS, PARAM_COLUMNS, change_row, param_row, past, view
from headnode.apps.cli.screens.judged import NONE_YET, PREDICTION_COLUMNS, prediction_rows, trailer
from headnode.apps.cli.sheet import Sheet
from headnode.apps.cli.words import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from headnode.apps.cli.options import Asked
    from headnode.apps.cli.output import Output
    from headnode.apps.client.client import Client

DAYS = 30  # of predictions that are told, if nobody says otherwise


def show(asked: "Asked", client: "Client", out: "Output") -> int:
    """Show what the cluster is and does, or how often it said rightly when jobs would start."""
    if asked.flag("predictions"):
        return _show_predictions(asked, client, out)
    if "days" in asked.options:
        raise usage("only predictions are those of some days", "give --predictions too, or leave out --days")
    cluster = client.ask("cluster")["cluster"]
    out.sheet(Sheet("Name", [view(cluster)], cluster))
    return 0


def _show_predictions(asked: "Asked", client: "Client", out: "Output") -> int:
    import time

    days = asked.number("days")
    days = DAYS if days is None else days
    told = client.ask("predictions", since=max(0.0, time.time() - days * DAY))
    rows = prediction_rows(told)
    if not rows:
        out.note(NONE_YET.format(days=counted(days, "day")))
    if rows or not out.for_people:
        out.sheet(Sheet("Jobs", rows, told, columns=PREDICTION_COLUMNS, trailer=trailer(told, days)))
    return 0


def params(asked: "Asked", client: "Client", out: "Output") -> int:
    """List the parameters named, or all; set those that are given as NAME=VALUE."""
    if asked.flag("history"):
        return _show_changes(asked, client, out)
    changes = dict(word.split("=", 1) for word in asked.words if "=" in word)
    names = [word for word in asked.words if "=" not in word]
    if changes:
        values = {name: value or None for name, value in changes.items()}  # nothing: back to the default
        listed = client.ask("set_params", values=values)["params"]
    else:
        listed = client.ask("params")["params"]
    shown = _chosen(listed, [*names, *changes])
    rows = [param_row(param) for param in shown]
    out.sheet(Sheet("Name", rows, shown, columns=PARAM_COLUMNS, prose=True))
    return 0


def _show_changes(asked: "Asked", client: "Client", out: "Output") -> int:
    wrong = next((word for word in asked.words if "=" in word), None)
    if wrong is not None:
        raise usage(f"{wrong!r} would change a parameter", "leave out --history, or write only its name")
    found = client.ask("params_history", names=list(asked.words))["changes"]
    if not found:
        out.note("No parameter was ever changed.")
    if found or not out.for_people:
        out.sheet(Sheet("When", [change_row(change) for change in found], found, columns=CHANGE_COLUMNS))
    return 0


def history(asked: "Asked", client: "Client", out: "Output") -> int:
    """Tell what the jobs that are over were like, or write them as a job log."""
    from headnode.apps.simulate.history import ask_history, summary, write_history

    path, whole = asked.text("swf"), asked.flag("whole-seconds")
    if whole and path is None:
        raise usage("only a log has seconds that could be rounded", "give --swf FILE too, or leave it out")
    found = ask_history(client, *period(asked), told_on_terminal())
    if path is None:
        told = summary(found)
        out.sheet(Sheet("Cluster", [past(told)], told))
        return 0
    write_history(path, found, whole_seconds=whole)
    jobs = counted(len(found.jobs), "job")
    out.said(f"{jobs} written to {path}.", {"file": path, "jobs": len(found.jobs)}, path)
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
    Command(
        "view",
        "",
        "Show the cluster, or the accuracy of its predicted starts",
        show,
        options=(
            Option("predictions", "", "How often predicted starts were right, and by how much they were off"),
            Option("days", "N", f"With --predictions: of jobs that started in the last N days ({DAYS})"),
            FORMAT,
        ),
        example="hn cluster view --predictions --days 7",
    ),
    Command(
        "params",
        "[NAME | NAME=VALUE | NAME=]...",
        "List or set the cluster's parameters; NAME= sets the default",
        params,
        options=(
            Option("history", "", "Show changes with their times; for administrators also user and origin"),
            FORMAT,
        ),
        example="hn cluster params HeartbeatInterval=30",
    ),
    Command(
        "history",
        "",
        "Summarize ended jobs, or write them as a job log",
        history,
        options=(
            Option(
                "swf", "FILE", "Write them in the Standard Workload Format; packed if it ends with .gz or .xz"
            ),
            Option("whole-seconds", "", "With --swf: round times, for programs that read whole numbers only"),
            SINCE,
            UNTIL,
            FORMAT,
        ),
        example="hn cluster history --since 30d --swf last-month.swf.gz",
        notes=("The log has numbers for users, not their names.",),
    ),
)
