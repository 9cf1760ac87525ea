"""Tasks and their instances."""

from headnode.apps.readable_values import (
    duration,
    elapsed,
    instant,
    limits,
    local_times,
    measured_counts,
    memory,
    time_limit,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    Task = Mapping[str, Any]

COLUMNS = ("Task Id", "Name", "State", "Exit Code", "Node", "Command Line", "Remark")
WIDTHS = {"Task Id": 8, "Name": 12, "State": 10}
_SHOWN = (
    *("name", "command", "kind", "start", "end", "increment", "run_time", "work_directory"),
    *("standard_input", "standard_output", "standard_error", "environment"),
)
"""Options of a task that have a field of their own on the screen."""


def address(task: "Task") -> str:
    """Return ``job.task``, or ``job.task.instance`` for an instance of a sweep."""
    instance = task.get("instance")
    return f"{task['job']}.{task['task']}" + (f".{instance}" if instance is not None else "")


def row(task: "Task") -> dict[str, str]:
    """Return a task's line in a list of tasks.  ``Exit Code`` is there even when there is none yet."""
    return {
        "Task Id": address(task),
        "Name": task["name"],
        "State": task["state"],
        "Exit Code": _exit(task),
        "Node": task["node"] or "",
        "Command Line": task["command"],
        "Remark": _remark(task),
    }


def failure(task: "Task") -> str:
    """Return how a task or instance failed, in one sentence for the client that waited for its job."""
    message = _remark(task) or f"its exit code is {_exit(task) or 'not known'}"
    return f"task {address(task)} failed: {message}"


def _exit(task: "Task") -> str:
    if task.get("signal"):
        return str(-task["signal"])
    return "" if task["exit_code"] is None else str(task["exit_code"])


def _remark(task: "Task") -> str:
    instances = task.get("instances")
    if instances:
        from headnode.apps.cli.screens.job import tasks_in_words

        return tasks_in_words(instances)
    return local_times(task.get("pending_reason") or "") or task["message"] or ""


def view(task: "Task") -> dict[str, str]:
    """Return every field of one task; empty values are left out, but for the keys that scripts read."""
    optional = {**_use(task), **_files(task), **_requested(task)}
    return {**row(task), **{key: value for key, value in optional.items() if value}}


def _requested(task: "Task") -> dict[str, str]:
    """Return what else the task asks for, such as its time limit and the tasks that it depends on."""
    from headnode.apps.cli.screens.job import requested

    spec = task.get("spec") or {}
    first, last, step = spec.get("start", 0), spec.get("end", 0), spec.get("increment", 1)
    sweep = f"{first}-{last}:{step}" if task["kind"] == "sweep" else ""
    limit = time_limit(spec["run_time"]) if "run_time" in spec else ""
    others = requested({name: value for name, value in spec.items() if name not in _SHOWN})
    return {"Run Time": limit, "Sweep": sweep, **others}


def _use(task: "Task") -> dict[str, str]:
    started, ended = task["started"], task["ended"]
    return {
        "Type": task["kind"],
        "Resource Request": limits(task),
        "Processor Numbers": _places(task),
        "Start Time": instant(started),
        "End Time": instant(ended),
        "Elapsed": "" if (took := elapsed(started, ended)) is None else duration(took),
        "User Time": _seconds(task["user_time"]),
        "System Time": _seconds(task["system_time"]),
        "Peak Memory": memory(task["peak_memory"]),
        "Average Memory": memory(task.get("average_memory")),
        **measured_counts(task),
        "Attempt": str(task["attempt"] or ""),
        "Signal": str(task.get("signal") or ""),
    }


def _places(task: "Task") -> str:
    """Return the numbers of the processors on each node: ``n1: 0,1; n2: 4``."""
    nodes, numbers = (task["node"] or "").split(), task["processors"] or ()
    return "; ".join(
        f"{node}: {','.join(map(str, taken))}" for node, taken in zip(nodes, numbers, strict=False)
    )


def _files(task: "Task") -> dict[str, str]:
    environment = task.get("environment") or {}
    written = "\n".join(f"{name}={value}" for name, value in environment.items())
    return {
        "Work Directory": task.get("work_directory") or "",
        "Standard Input": task.get("standard_input") or "",
        "Standard Output": task.get("standard_output") or "",
        "Standard Error": task.get("standard_error") or "",
        "Environment": "private to its owner" if task.get("environment_hidden") else written,
    }


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.3f} s"
