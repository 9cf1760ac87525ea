"""Recurring jobs as people see them."""

from headnode.apps.readable_values import instant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

RECURRING_COLUMNS = ("Number", "Name", "Owner", "State", "Schedule", "Next", "Last", "Last State")


def recurring_row(recurring: "Mapping[str, Any]") -> dict[str, str]:
    """Return a recurring job's line."""
    last: Mapping[str, Any] = recurring["last"][0] if recurring["last"] else {"time": None, "state": ""}
    return {
        "Number": str(recurring["number"]),
        "Name": recurring["name"],
        "Owner": recurring["owner"],
        "State": recurring["state"],
        "Schedule": recurring["schedule"],
        "Next": next_times(recurring, 1),
        "Last": instant(last["time"]),
        "Last State": last["state"],
    }


def next_times(recurring: "Mapping[str, Any]", most: int) -> str:
    """Return the next times, as clocks here show them; nothing while it is suspended."""
    return ", ".join(map(instant, recurring["next"][:most])) if recurring["state"] == "Active" else ""


def recurring_view(recurring: "Mapping[str, Any]") -> dict[str, str]:
    """Return every field of a recurring job; empty values are left out."""
    row = recurring_row(recurring)
    runs = f"{recurring['made']} of {recurring['runs']}" if recurring["runs"] else str(recurring["made"])
    fields = {
        "Name": row["Name"],
        "Number": row["Number"],
        "Owner": row["Owner"],
        "State": row["State"],
        "Problem": recurring["problem"],
        "Schedule": row["Schedule"],
        "Time Zone": recurring["zone"],
        "Overlap": recurring["overlap"],
        "Missed": recurring["missed"],
        "Until": instant(recurring["end"]),
        "Jobs Made": runs,
        "Command": recurring["command"],
        "Of Table": "yes" if recurring["table"] else "",
        "Next": next_times(recurring, 5),
        "Waiting": instant(recurring["waiting"]),
        "Not Ended": ", ".join(map(str, recurring["unfinished"])),
        "Last": "; ".join(map(_last, recurring["last"])),
    }
    return {name: value for name, value in fields.items() if value}


def _last(run: "Mapping[str, Any]") -> str:
    """Return what became of a time, in words."""
    job = f"job {run['job']} " if run["job"] else ""
    by = f" (asked for by {run['by']})" if run["by"] else ""
    reason = f": {run['reason']}" if run["reason"] else ""
    return f"{instant(run['time'])} {job}{run['state']}{by}{reason}"
