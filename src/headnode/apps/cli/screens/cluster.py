"""What people see of the cluster and its parameters."""

from headnode.apps.cli.words import counted, instant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

PARAM_COLUMNS = ("Name", "Value", "Default", "Unit", "What it means")


def view(cluster: "Mapping[str, Any]") -> dict[str, str]:
    """Return all that is told of the cluster."""
    processors, journal = cluster["processors"], cluster["journal"]
    return {
        "Name": cluster["name"],
        "Version": cluster["version"],
        "Started": instant(cluster["started"]),
        "Policy": cluster["policy"],
        "Nodes": _counts(cluster["nodes"]),
        "Processors": f"{processors['total']} total, {processors['used']} in use, {processors['free']} free",
        "Jobs": _counts(cluster["jobs"]),
        "Tasks Running": str(cluster["tasks_running"]),
        "State Directory": cluster["state_directory"],
        "Journal": f"{counted(journal['events'], 'event')}, {counted(journal['bytes'], 'byte')}",
    }


def _counts(by_state: "Mapping[str, int]") -> str:
    return ", ".join(f"{count} {state.lower()}" for state, count in by_state.items() if count) or "none"


def param_row(param: "Mapping[str, Any]") -> dict[str, str]:
    """Return a parameter's line."""
    return {
        "Name": param["name"],
        "Value": _text(param["value"]),
        "Default": _text(param["default"]),
        "Unit": param["unit"],
        "What it means": param["doc"],
    }


def _text(value: object) -> str:
    return "" if value is None else str(value)
