"""The cluster, its parameters, and its reservations of nodes."""

from headnode.apps.readable_values import counted, duration, instant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

RESERVATION_COLUMNS = ("Name", "State", "From", "To", "Nodes", "For")
_AT_END = {
    "limit": "jobs inside are over by then",
    "run-on": "jobs inside go on",
    "cancel": "jobs inside are canceled",
}


def reservation_row(told: "Mapping[str, Any]") -> dict[str, str]:
    """Return a reservation's line."""
    return {
        "Name": told["name"],
        "State": told["state"],
        "From": instant(told["begins"]),
        "To": instant(told["ends"]),
        "Nodes": told["node_set"],
        "For": _admitted(told),
    }


def reservation_view(told: "Mapping[str, Any]") -> dict[str, str]:
    """Return all that is told of one; empty values are left out."""
    chosen = ", ".join([*told["node_groups"], *told["features"]])
    optional = {
        "Chosen": f"{told['count']} of any" + (f" with {chosen}" if chosen else "") if told["count"] else "",
        "At End": _AT_END[told["at_end"]],
        "Automatic": "eligible jobs use it without naming it" if told["automatic"] else "",
        "Reason": told["reason"],
        "Made By": told["by"],
        "Running": ", ".join(map(str, told["running"])),
        "Waiting": ", ".join(map(str, told["waiting"])),
    }
    return {**reservation_row(told), **{key: value for key, value in optional.items() if value}}


def later_start(told: "Mapping[str, Any]") -> str:
    """Say what becomes of a promised start."""
    now = instant(told["now"]) or "not known any more"
    return f"job {told['job']} was promised to start at {instant(told['before'])}, and now: {now}"


def _admitted(told: "Mapping[str, Any]") -> str:
    if told["maintenance"]:
        return "maintenance"
    groups, projects = (
        [f"@{name}" for name in told["groups"]],
        [f"project {name}" for name in told["projects"]],
    )
    return ", ".join([*told["users"], *groups, *projects])


CHANGE_COLUMNS = ("When", "Name", "Before", "After", "By", "From")
PARAM_COLUMNS = ("Name", "Value", "Default", "Unit", "What it means")


def change_row(change: "Mapping[str, Any]") -> dict[str, str]:
    """Return one change of a parameter."""
    return {
        "When": instant(change["at"]),
        "Name": change["name"],
        "Before": "(default)" if change["before"] is None else change["before"],
        "After": "(default)" if change["value"] is None else change["value"],
        "By": change["by"] or "",
        "From": change["from"] or "",
    }


def cluster_view(cluster: "Mapping[str, Any]") -> dict[str, str]:
    """Return all that is told of the cluster."""
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
        **({"Licences": cluster["licence_trouble"]} if cluster.get("licence_trouble") else {}),
        **_you(cluster.get("you", {})),
        "State Directory": cluster["state_directory"],
        "Journal": f"{counted(journal['events'], 'event')}, {counted(journal['bytes'], 'byte')}",
        **({"Damaged Rows": "; ".join(journal["damage"])} if journal.get("damage") else {}),
    }


def _next_reservation(told: "Mapping[str, Any] | None") -> dict[str, str]:
    """Return the reservation that is or comes first, if there is any."""
    if not told:
        return {}
    when = f"{instant(told['begins'])} to {instant(told['ends'])}"
    return {"Reservation": f"{told['name']}, {counted(told['nodes'], 'node')}, {when}"}


def _you(you: "Mapping[str, Any]") -> dict[str, str]:
    """Return as whom the head knows the one who asks."""
    return {"You": f"{you['user']}, {you['role']}"} if you else {}


def _processors(count: "Mapping[str, int]") -> str:
    out = count["total"] - count["used"] - count["free"]
    rest = f", {out} on nodes that are not ready" if out else ""
    return f"{count['total']} total, {count['used']} in use, {count['free']} free{rest}"


def _policy(cluster: "Mapping[str, Any]") -> str:
    trouble = cluster.get("policy_trouble")
    return f"{cluster['policy']} ({trouble})" if trouble else str(cluster["policy"])


def _plug_ins(cluster: "Mapping[str, Any]") -> dict[str, str]:
    """Return the policies of other packages, if there are any."""
    told = [
        f"{each['name']} ({each['trouble']})" if each["trouble"] else each["name"]
        for each in cluster.get("plug_ins", [])
    ]
    return {"Plug-ins": "; ".join(told)} if told else {}


def _notices(notices: "Mapping[str, Any]") -> dict[str, str]:
    """Return what became of notices, while some wait or the last one was not brought."""
    problem = f" ({notices['problem']})" if notices.get("problem") else ""
    return {"Notices": f"{notices['waiting']} waiting{problem}"} if notices.get("waiting") or problem else {}


def _counts(by_state: "Mapping[str, int]") -> str:
    return ", ".join(f"{count} {state.lower()}" for state, count in by_state.items() if count) or "none"


def history_view(told: "Mapping[str, Any]") -> dict[str, str]:
    """Return what is told of the jobs that are over."""
    wait = told["wait"]
    return {
        "Cluster": told["cluster"],
        "Jobs": _counts(told["jobs"]),
        "First Submission": instant(told["first_submitted"]),
        "Last Submission": instant(told["last_submitted"]),
        "Users": str(told["users"]),
        "Never Started": str(told["never_started"]),
        "Without Limit": str(told["without_limit"]),
        "Processor Hours": f"{told['processor_seconds'] / 3600:.1f}",
        "Wait": ""
        if wait["mean"] is None
        else f"{duration(wait['median'])} median, {duration(wait['mean'])} mean",
        "Not Over": f"{told['running']} running, {told['queued']} queued",
    }


def param_row(param: "Mapping[str, Any]") -> dict[str, str]:
    """Return a parameter's line."""
    return {
        "Name": param["name"],
        "Value": _text(param["value"]),
        "Default": _text(param["default"]),
        "Unit": param["unit"],
        "What it means": _meaning(param),
    }


def _meaning(param: "Mapping[str, Any]") -> str:
    choices = param.get("choices")
    return f"{param['doc']}; choose {', '.join(choices)}" if choices else str(param["doc"])


def _text(value: object) -> str:
    return "" if value is None else str(value)
