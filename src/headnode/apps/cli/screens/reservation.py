"""What people see of a reservation of nodes."""

from headnode.apps.cli.words import instant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

COLUMNS = ("Name", "State", "From", "To", "Nodes", "For")
_AT_END = {
    "limit": "jobs inside are over by then",
    "run-on": "jobs inside go on",
    "cancel": "jobs inside are canceled",
}


def row(told: "Mapping[str, Any]") -> dict[str, str]:
    """Return a reservation's line."""
    return {
        "Name": told["name"],
        "State": told["state"],
        "From": instant(told["begins"]),
        "To": instant(told["ends"]),
        "Nodes": told["node_set"],
        "For": _whom(told),
    }


def view(told: "Mapping[str, Any]") -> dict[str, str]:
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
    return {**row(told), **{key: value for key, value in optional.items() if value}}


def later(told: "Mapping[str, Any]") -> str:
    """Say what becomes of a promised start."""
    now = instant(told["now"]) or "not known any more"
    return f"job {told['job']} was promised to start at {instant(told['before'])}, and now: {now}"


def _whom(told: "Mapping[str, Any]") -> str:
    if told["maintenance"]:
        return "maintenance"
    groups, projects = (
        [f"@{name}" for name in told["groups"]],
        [f"project {name}" for name in told["projects"]],
    )
    return ", ".join([*told["users"], *groups, *projects])
