"""What people see of a node."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    Node = Mapping[str, Any]

COLUMNS = ("Node Name", "State", "Max", "Run", "Idle")
WIDTHS = {"Node Name": 20, "State": 12}
CORE_COLUMNS = ("Node Processor", "State", "Job ID", "Task ID", "CommandLine")
CORE_WIDTHS = {"Node Processor": 20, "State": 16, "Job ID": 8, "Task ID": 8, "CommandLine": 22}


def row(node: "Node") -> dict[str, str]:
    """Return a node's record with the keys scripts read.

    Source:  HPC Pack ``node list``: Max, Run and Idle count processors.
    """
    return {
        "Node Name": node["name"],
        "State": node["state"],
        "Max": str(node["processors"]),
        "Run": str(node["used"]),
        "Idle": str(node["free"]),
        "Availability": "AlwaysOn",  # what HPC Pack says of nodes that are no workstations
    }


def view(node: "Node") -> dict[str, str]:
    """Return all that is told of one node; empty values are left out."""
    jobs = node["jobs"] if isinstance(node["jobs"], list) else []
    optional = {
        "Sockets": str(node["sockets"] or ""),
        "Memory": f"{node['memory']} MB" if node["memory"] else "",
        "Speed": f"{node['speed']} MHz" if node["speed"] else "",
        "Groups": ", ".join(node["groups"]),
        "Features": ", ".join(node["features"]),
        "Architecture": node["architecture"],
        "Operating System": node["system"],
        "Exclusive": "True" if node["exclusive"] else "",
        "Jobs": ", ".join(map(str, jobs)),
    }
    return {**row(node), **{key: value for key, value in optional.items() if value}}


def core_rows(
    nodes: "Iterable[Node]", jobs: "Iterable[Mapping[str, Any]]", tasks: "Iterable[Mapping[str, Any]]"
) -> list[dict[str, str]]:
    """Return one record per processor: who holds it, and what runs on it.

    The head counts processors and does not number them; the numbers here only tell them apart.
    Source:  HPC Pack ``node listcores``.
    """
    held, running = _held(jobs), _running(tasks)
    rows = []
    for node in nodes:
        busy = [
            core for job, count in held.get(node["name"], ()) for core in _of_job(job, count, node, running)
        ]
        idle = {"State": "Idle" if node["state"] == "Ready" else "Offline"}
        cores = [*busy, *[idle] * (node["processors"] - len(busy))]
        rows += [{"Node Processor": f"{node['name']} - {at}", **core} for at, core in enumerate(cores)]
    return rows


def _held(jobs: "Iterable[Mapping[str, Any]]") -> "dict[str, list[tuple[int, int]]]":
    held: dict[str, list[tuple[int, int]]] = {}
    for job in jobs:
        for share in job["allocation"]:
            held.setdefault(share["node"], []).append((job["id"], share["processors"]))
    return held


def _running(tasks: "Iterable[Mapping[str, Any]]") -> "dict[tuple[int, str], list[Mapping[str, Any]]]":
    running: dict[tuple[int, str], list[Mapping[str, Any]]] = {}
    for task in tasks:
        # A task over several nodes is shown on its first: only that one runs the program.
        running.setdefault((task["job"], task["node"] or ""), []).extend([task] * (task["processors"] or 1))
    return running


def _of_job(
    job: int, count: int, node: "Node", running: "Mapping[tuple[int, str], Sequence[Mapping[str, Any]]]"
) -> "list[dict[str, str]]":
    tasks = running.get((job, node["name"]), ())[:count]
    cores = [
        {
            "State": "TaskRunning",
            "Job ID": str(job),
            "Task ID": f"{task['task']}" + (f".{task['instance']}" if task.get("instance") else ""),
            "CommandLine": task["command"],
        }
        for task in tasks
    ]
    return cores + [{"State": "ReadyForTask", "Job ID": str(job)}] * (count - len(tasks))
