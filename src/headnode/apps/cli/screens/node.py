"""Nodes and their processors."""

from headnode.apps.readable_values import instant, local_times

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    Node = Mapping[str, Any]

COLUMNS = ("Node Name", "State", "Max", "Run", "Idle")
GPUS = "GPUs"  # a column of lists in which some node has any: how many are held, of how many
REASON = "Reason"  # a column of lists in which some node is closed
COLOURS = {
    "Ready": "32",  # green
    "Pending": "36",  # cyan
    "Paused": "33",  # yellow
    "Draining": "33",
    "Drained": "33",
    "Unreachable": "31",  # red
}
"""State -> the SGR code of its colour."""

WIDTHS = {"Node Name": 20, "State": 12}
CORE_COLUMNS = ("Node Processor", "State", "Job ID", "Task ID", "CommandLine")
CORE_STATES = ("Offline", "Idle", "JobScheduled", "ReadyForTask", "TaskScheduled", "TaskRunning")
CORE_WIDTHS = {"Node Processor": 20, "State": 16, "Job ID": 8, "Task ID": 8, "CommandLine": 22}


def row(node: "Node") -> dict[str, str]:
    """Return a node's record with the keys scripts read.

    Source:  HPC Pack ``node list``: Max, Run and Idle count processors.
    """
    closed = _why_closed(node)
    return {
        "Node Name": node["name"],
        "State": node["state"],
        "Max": str(node["processors"]),
        "Run": str(node["used"]),
        "Idle": str(node["free"]),
        "Availability": "AlwaysOn",  # what HPC Pack says of nodes that are no workstations
        **({GPUS: f"{node['gpus_held']}/{node['gpus']}"} if node.get("gpus") else {}),
        **({REASON: closed} if closed else {}),
    }


def _why_closed(node: "Node") -> str:
    """Return since when and why a node takes no jobs; empty if it does."""
    if node["state"] in ("Unreachable", "Paused", "Pending"):
        return f"since {instant(node['since'])}"
    drains = node.get("drains") or ()
    if not drains:
        return ""
    first = drains[0]
    cause = _BY.get(first["cause"]) or f"by {first['by']}"
    began = "since" if node["state"] in ("Drained", "Draining") else "from"
    sentence = f"{began} {instant(first['closes'])}, {cause}"
    return f"{sentence}: {first['reason']}" if first["reason"] else sentence


def view(node: "Node") -> dict[str, str]:
    """Return every field of one node; empty values are left out."""
    jobs = node["jobs"] if isinstance(node["jobs"], list) else []
    optional = {
        "Sockets": str(node["sockets"] or ""),
        "Cores Per Socket": str(node.get("cores_per_socket") or "not known"),
        "Threads Per Core": str(node.get("threads_per_core") or "not known"),
        "Memory": f"{node['memory']} MB" if node["memory"] else "",
        "Speed": f"{node['speed']} MHz" if node["speed"] else "",
        "Serves Only": node.get("only_user", ""),
        "Disk": f"{node['disk']} MB" if node.get("disk") else "",
        "Swap": f"{node['swap']} MB" if node.get("swap") else "",
        GPUS: f"{node['gpus']}, {node['gpus_held']} held" if node.get("gpus") else "",
        "Groups": ", ".join(node["groups"]),
        "Features": ", ".join(node["features"]),
        "Architecture": node["architecture"],
        "Operating System": node["system"],
        "Machine Processors": _numbers(node.get("machine_processors") or ()),
        "Control Groups": _GROUPS.get(node.get("control_groups") or "", ""),
        "Enforced By Kernel": _enforced_text(node),
        "Checked By Agent": _checked_text(node),
        "Comment": node.get("comment", ""),
        "Version": node.get("version", ""),
        "Address": node.get("address", ""),
        "Since": instant(node["since"]) if node["state"] != "Ready" else "",
        "Last Heartbeat": instant(node["last_heartbeat"]) if node.get("last_heartbeat") else "",
        "Load": f"{node['load']:.2f}" if node.get("load") is not None else "",
        "Given Up": _given_up(node),
        "Reserved": "; ".join(local_times(each["text"]) for each in node.get("reservations", ())),
        "Oversubscribed": _oversubscribed(node),
        "Drain": "; ".join(_drain(node["name"], drain) for drain in node.get("drains", ())),
        "Exclusive": f"held by job {node['exclusive']}" if node["exclusive"] else "",
        "Jobs": ", ".join(map(str, jobs)),
    }
    # Of the reason, Drain and Since say more.
    fields = {key: value for key, value in row(node).items() if key not in (GPUS, REASON)}
    return {**fields, **{key: value for key, value in optional.items() if value}}


_GROUPS = {"v2": "version 2", "v1": "version 1", "none": "none"}
_BOUNDS = ("memory", "processes", "processors")


def _enforced_text(node: "Node") -> str:
    """Return the limits that the kernel of a node enforces; an affinity binds without control groups too."""
    if not node.get("control_groups"):
        return ""
    bound = ("processors",) if node.get("machine_processors") else ()
    kept = {*node.get("enforced", ()), *bound}
    return ", ".join(name for name in _BOUNDS if name in kept) or "nothing"


def _checked_text(node: "Node") -> str:
    """Return the limits that the agent of a node checks periodically; its kernel does not enforce them."""
    if not node.get("control_groups") or "memory" in node.get("enforced", ()):
        return ""
    return "memory"


def _numbers(numbers: "Sequence[int]") -> str:
    """Return numbers with neighbours together: ``0-3,8``."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)


def _given_up(node: "Node") -> str:
    """Return what becomes of the tasks of a node that is away, and when."""
    if node["state"] != "Unreachable" or node.get("tasks_lost_at") is None:
        return ""
    return f"its tasks are lost at {instant(node['tasks_lost_at'])}, unless it reconnects before"


def history(entries: "Sequence[Mapping[str, Any]]") -> str:
    """Return what happened to a node, a line for each event."""
    return "\n".join(f"{instant(entry['at'])}  {entry['text']}" for entry in entries)


def _oversubscribed(node: "Mapping[str, Any]") -> str:
    """Return the jobs that hold processors which the node no longer has."""
    return "; ".join(
        f"job {each['job']} holds {each['processors']} of its processors on lost nodes"
        for each in node.get("oversubscribed", ())
    )


_PREP_STATES = ("hook", "fault", "failures", "bad-report")  # causes that nobody lifts but an administrator
_BY = {
    "health": "by its health check",
    "hook": "by a hook",
    "bad-report": "for an invalid report",
    "fault": "by a fault of the node",
    "failures": "because attempts fail to start there",
}


def _drain(name: str, drain: "Mapping[str, Any]") -> str:
    cause = _BY.get(drain["cause"]) or f"by {drain['by']}"
    sentence = f"from {instant(drain['closes'])} on, {cause}"
    sentence = f"{sentence}, by force" if drain.get("force") else sentence
    sentence = f"{sentence}: {drain['reason']}" if drain["reason"] else sentence
    return (
        f"{sentence}; when that is corrected: hn node resume {name}"
        if drain["cause"] in _PREP_STATES
        else sentence
    )


def core_rows(node: "Node") -> list[dict[str, str]]:
    """Return one record per processor of a node: the job that holds it, and what runs on it.

    Source:  HPC Pack ``node listcores``, with its words for the state of a processor.
    """
    return [
        {
            "Node Processor": f"{node['name']} - {core['processor']}",
            "State": _core_state(node, core),
            "Job ID": _text(core["job"]),
            "Task ID": _text(core["task"]),
            "CommandLine": core["command"],
        }
        for core in node["cores"]
    ]


def _core_state(node: "Node", core: "Mapping[str, Any]") -> str:
    if core["task"] is not None:
        return "TaskRunning"
    if core["job"] is not None:
        return "ReadyForTask"
    return "Idle" if node["state"] == "Ready" else "Offline"


def _text(value: object) -> str:
    return "" if value is None else str(value)
