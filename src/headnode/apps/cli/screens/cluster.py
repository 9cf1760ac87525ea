"""The cluster, its parameters, its reservations of nodes, and how often predicted starts held."""

from headnode.apps.cli.arguments import DAY
from headnode.apps.readable_values import counted, duration, instant, parameter_text, parameter_unit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

RESERVATION_COLUMNS = ("Name", "State", "From", "To", "Nodes", "For", "Reason")
_AT_END = {
    "limit": "jobs inside must end by then",
    "run-on": "jobs inside continue",
    "cancel": "jobs inside are canceled",
}


def reservation_row(reservation: "Mapping[str, Any]") -> dict[str, str]:
    """Return a reservation's line."""
    return {
        "Name": reservation["name"],
        "State": reservation["state"],
        "From": instant(reservation["start"]),
        "To": instant(reservation["end"]),
        "Nodes": reservation["node_set"],
        "For": _admitted(reservation),
        "Reason": reservation["reason"],
    }


def reservation_view(reservation: "Mapping[str, Any]") -> dict[str, str]:
    """Return every field of a reservation; empty values are left out."""
    chosen = ", ".join([*reservation["node_groups"], *reservation["features"]])
    optional = {
        "Chosen": f"{reservation['count']} of any" + (f" with {chosen}" if chosen else "")
        if reservation["count"]
        else "",
        "At End": _AT_END[reservation["at_end"]],
        "Automatic": "eligible jobs use it without naming it" if reservation["automatic"] else "",
        "Made By": reservation["by"],
        "Running": ", ".join(map(str, reservation["running"])),
        "Waiting": ", ".join(map(str, reservation["waiting"])),
    }
    return {key: value for key, value in (reservation_row(reservation) | optional).items() if value}


def later_start(promise: "Mapping[str, Any]") -> str:
    """Say what becomes of a promised start."""
    now = instant(promise["now"]) or "not known any more"
    return f"job {promise['job']} was promised to start at {instant(promise['before'])}, and now: {now}"


def _admitted(reservation: "Mapping[str, Any]") -> str:
    if reservation["maintenance"]:
        return "maintenance"
    groups, projects = (
        [f"@{name}" for name in reservation["groups"]],
        [f"project {name}" for name in reservation["projects"]],
    )
    return ", ".join([*reservation["users"], *groups, *projects])


CHANGE_COLUMNS = ("When", "Name", "Before", "After", "By", "From")
PARAM_COLUMNS = ("Name", "Value", "Default", "Unit", "Meaning")


def change_row(change: "Mapping[str, Any]") -> dict[str, str]:
    """Return one change of a parameter."""
    return {
        "When": instant(change["at"]),
        "Name": change["name"],
        "Before": _changed_value(change, "before"),
        "After": _changed_value(change, "value"),
        "By": change["by"] or "",
        "From": change["from"] or "",
    }


def _changed_value(change: "Mapping[str, Any]", which: str) -> str:
    value = change[which]
    return "(default)" if value is None else parameter_text(value, change.get("unit", ""))


def cluster_view(cluster: "Mapping[str, Any]") -> dict[str, str]:
    """Return every field of the cluster."""
    journal = cluster["journal"]
    return {
        "Name": cluster["name"],
        "Version": cluster["version"],
        "Started": instant(cluster["started"]),
        "Policy": _policy(cluster),
        "Mode": cluster.get("mode", ""),
        **_plug_ins(cluster),
        "Nodes": _counts(cluster["nodes"]),
        "Processors": _processors(cluster["processors"]),
        "Jobs": _counts(cluster["jobs"]),
        "Tasks Running": str(cluster["tasks_running"]),
        **_next_reservation(cluster.get("next_reservation")),
        **_notices(cluster.get("notices", {})),
        **({"Licences": cluster["licence_problem"]} if cluster.get("licence_problem") else {}),
        **_you(cluster.get("requesting_user", {})),
        "State Directory": cluster["state_directory"],
        "Journal": f"{counted(journal['events'], 'event')}, {counted(journal['bytes'], 'byte')}",
        **({"Journal Problem": journal["problem"]} if journal.get("problem") else {}),
        **({"Damaged Rows": "; ".join(journal["damage"])} if journal.get("damage") else {}),
    }


def _next_reservation(reservation: "Mapping[str, Any] | None") -> dict[str, str]:
    """Return the reservation that is or comes first, if there is any."""
    if not reservation:
        return {}
    when = f"{instant(reservation['start'])} to {instant(reservation['end'])}"
    return {"Reservation": f"{reservation['name']}, {counted(reservation['nodes'], 'node')}, {when}"}


def _you(you: "Mapping[str, Any]") -> dict[str, str]:
    """Return the user that the head knows the client as, with its role."""
    return {"You": f"{you['user']}, {you['role']}"} if you else {}


def _processors(count: "Mapping[str, int]") -> str:
    out = count["total"] - count["used"] - count["free"]
    rest = f", {out} on nodes that are not ready" if out else ""
    return f"{count['total']} total, {count['used']} in use, {count['free']} free{rest}"


def _policy(cluster: "Mapping[str, Any]") -> str:
    trouble = cluster.get("policy_problem")
    return f"{cluster['policy']} ({trouble})" if trouble else str(cluster["policy"])


def _plug_ins(cluster: "Mapping[str, Any]") -> dict[str, str]:
    """Return policies of other packages, failed parts of the head, and standby heads, if there are any."""
    policies = [
        f"{each['name']} ({each['problem']})" if each["problem"] else each["name"]
        for each in cluster.get("plug_ins", [])
    ]
    parts = [f"{name} ({what})" for name, what in cluster.get("failed_parts", {}).items()]
    standbys = [f"{name} ({how})" for name, how in cluster.get("standbys", {}).items()]
    rows = {"Plug-ins": policies, "Failed Parts": parts, "Standby Heads": standbys}
    return {row: "; ".join(texts) for row, texts in rows.items() if texts}


def _notices(notices: "Mapping[str, Any]") -> dict[str, str]:
    """Return what became of notices, while some wait or the last one was not brought."""
    problem = f" ({notices['problem']})" if notices.get("problem") else ""
    return {"Notices": f"{notices['waiting']} waiting{problem}"} if notices.get("waiting") or problem else {}


def _counts(by_state: "Mapping[str, int]") -> str:
    return ", ".join(f"{count} {state.lower()}" for state, count in by_state.items() if count) or "none"


def history_view(answer: "Mapping[str, Any]") -> dict[str, str]:
    """Return the fields of ended jobs."""
    wait = answer["wait"]
    return {
        "Cluster": answer["cluster"],
        "Jobs": _counts(answer["jobs"]),
        "First Submission": instant(answer["first_submitted"]),
        "Last Submission": instant(answer["last_submitted"]),
        "Users": str(answer["users"]),
        "Never Started": str(answer["never_started"]),
        "Without Limit": str(answer["without_limit"]),
        "Processor Hours": f"{answer['processor_seconds'] / 3600:.1f}",
        "Wait": ""
        if wait["mean"] is None
        else f"{duration(wait['median'])} median, {duration(wait['mean'])} mean",
        "Not Over": f"{answer['running']} running, {answer['queued']} queued",
    }


def param_row(param: "Mapping[str, Any]") -> dict[str, str]:
    """Return a parameter's line."""
    return {
        "Name": param["name"],
        "Value": parameter_text(_text(param["value"]), param["unit"]),
        "Default": parameter_text(_text(param["default"]), param["unit"]),
        "Unit": parameter_unit(param["unit"]),
        "Meaning": _meaning(param),
    }


def _meaning(param: "Mapping[str, Any]") -> str:
    choices = param.get("choices")
    return f"{param['doc']}; choose {', '.join(choices)}" if choices else str(param["doc"])


def _text(value: object) -> str:
    return "" if value is None else str(value)


LIMIT_COLUMNS = ("Name", "Kind", "Amount", "Limit", "In Use", "Left", "Entry")
LIMIT_NUMBERS = ("Limit", "In Use", "Left")
_AMOUNTS = {
    "jobs": "running jobs",
    "gpus": "GPUs",
    "submitted": "submitted jobs",
    "processor-minutes-per-job": "processor-minutes per job",
    "processor-minutes-running": "processor-minutes of running jobs",
    "gpu-minutes": "GPU-minutes",
    "gpu-minutes-per-job": "GPU-minutes per job",
    "gpu-minutes-running": "GPU-minutes of running jobs",
}


STANDBY_STATES = {
    "InStep": "in step",
    "CatchingUp": "catching up",
    "HeadReplica": "following",
    "Away": "away",
}


def standby_wait(standby: "Mapping[str, Any]") -> str:
    """Return what half of the writes and 99 % of them waited for a standby at most, in milliseconds."""
    half, most = standby["wait_p50"], standby["wait_p99"]
    return "-" if half is None or most is None else f"{1000 * half:.3g}/{1000 * most:.3g} ms"


"""The states of a standby head in words."""


def limit_row(use: "Mapping[str, Any]") -> dict[str, str]:
    """Return a limit of a user, project or group, with what its jobs have of it."""
    return {
        "Name": use["name"],
        "Kind": use["scope"],
        "Amount": _AMOUNTS.get(use["amount"], use["amount"]),
        "Limit": str(use["limit"]),
        "In Use": str(use["used"]),
        "Left": str(max(0, use["limit"] - use["used"])),
        "Entry": use["entry"],
    }


SHARE_COLUMNS = ("Project", "User", "Share", "Of Cluster", "Hours Used", "Of Usage", "Fair Share")
SHARE_NUMBERS = SHARE_COLUMNS[2:]


def share_place(share: "Mapping[str, Any]") -> tuple[bool, str, str]:
    """Return the place in a list: each project before its users, and then the users without one."""
    return not share["project"], share["project"], share["user"]


def share_row(share: "Mapping[str, Any]") -> dict[str, str]:
    """Return the share of a project, or of a user in it, with what is used of it in processor-hours."""
    return {
        "Project": share["project"],
        "User": share["user"] or "(all)",
        "Share": str(share["shares"]),
        "Of Cluster": f"{100 * share['part']:.1f} %",
        "Hours Used": f"{share['used'] / 3600:.1f}",
        "Of Usage": f"{100 * share['used_part']:.1f} %",
        "Fair Share": f"{share['fair_share']:.3f}",
    }


def no_limits(answer: "Mapping[str, Any]", *, named: bool = False) -> str:
    """Return why there are no limits to show."""
    if not answer["exist"]:
        return (
            "No limits of users, projects and groups are set. "
            'Administrators set them: hn cluster params "UserLimits=*:jobs=10,processors=64"'
        )
    if named:
        return "No limits apply to these users, projects and groups, or you may not see them."
    if answer["every"]:
        return "Limits are set, but no user, project or group to which they apply has jobs."
    return "No limits apply to you, to your groups or to the projects of your jobs."


NO_PREDICTIONS = (
    "no job that had to wait has started in the last {days}; predictions are judged when jobs start"
)
PREDICTION_COLUMNS = (
    "Predicted Wait",
    "Jobs",
    "P50 Held",
    "Off By",
    "P90 Held",
    "P50 To P90",
    "Promise Held",
    "Promise Off By",
)


def prediction_rows(answer: "Mapping[str, Any]") -> list[dict[str, str]]:
    """Return a line for all, for each length of predicted wait, and for each policy if there were several."""
    scores = dict(answer["by_predicted_wait"])
    if len(answer["by_policy"]) > 1:
        scores |= {f"under {policy}": score for policy, score in answer["by_policy"].items()}
    lines = {"any time": answer["all"], **scores}
    return [_prediction_row(name, score) for name, score in lines.items() if score["jobs"]]


def _prediction_row(name: str, score: "Mapping[str, Any]") -> dict[str, str]:
    return {
        "Predicted Wait": name,
        "Jobs": str(score["jobs"]),
        "P50 Held": _part(score["p50_held"]),
        "Off By": _offset(score["p50_error"]),
        "P90 Held": _part(score["p90_held"]),
        "P50 To P90": _offset(score["spread"]),
        "Promise Held": _part(score["promise_held"]),
        "Promise Off By": _offset(score["promise_error"]),
    }


def prediction_trailer(answer: "Mapping[str, Any]", days: int) -> str:
    """Return what the numbers mean."""
    if not answer["all"]["jobs"]:
        return ""
    return (
        f"Jobs that had to wait and started in the last {counted(days, 'day')}. P50 should hold for\n"
        "half of them, P90 for nine of ten. Off by: the median distance from it."
    )


def _part(part: float | None) -> str:
    return "" if part is None else f"{part:.1%}".replace("%", " %")


def _offset(seconds: float | None) -> str:
    return "" if seconds is None else duration(seconds)


LOG_COLUMNS = ("Policy", *PREDICTION_COLUMNS)


def log_rows(entries: "Sequence[Mapping[str, Any]]") -> list[dict[str, str]]:
    """Return rows for each policy: all jobs, those that waited, and these by what was predicted."""
    return [row for outcome in entries for row in _policy_rows(outcome)]


def _policy_rows(policies: "Mapping[str, Any]") -> "Iterator[dict[str, str]]":
    by_wait = {score["predicted_wait"]: score for score in policies["by_predicted_wait"]}
    for row in prediction_rows({"all": policies["all"], "by_predicted_wait": {}, "by_policy": {}}):
        yield {"Policy": policies["policy"], **row, "Predicted Wait": "any or none"}
    for row in prediction_rows({"all": policies["waited"], "by_predicted_wait": by_wait, "by_policy": {}}):
        yield {"Policy": policies["policy"], **row}


def how_to_read(warm_up: float) -> str:
    """Return what the numbers mean; the jobs of the first `warm_up` seconds are only learnt from."""
    return (
        "P50 should hold for half of the jobs that had to wait, P90 for nine of ten; the promise is the\n"
        "plan by the limits users gave. Off by: the median distance from the start. Any or none: with the\n"
        "jobs that started at once. Only jobs that came after "
        f"{warm_up / DAY:.3g} days count; earlier ones are learnt from."
    )
