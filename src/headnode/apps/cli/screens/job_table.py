"""Jobs as a table, one line each: what users of ``squeue`` look for."""

import time

from headnode.apps.readable_values import (
    instant_short,
    limits,
    local_times,
    short_duration,
    state_word,
    time_limit,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Job = Mapping[str, Any]

LAST = "Nodes or Reason"
COLUMNS = ("Id", "Name", "Owner", "State", "Tasks", "Elapsed", "Limit", LAST)
WIDE = (
    "Id",
    "Name",
    "Owner",
    "State",
    "Priority",
    "Tasks",
    "Cores",
    "Submitted",
    "Start",
    "Elapsed",
    "Limit",
    LAST,
)
WIDE_FROM = 130  # columns of a terminal
MAX_WIDTHS = {"Name": 14, "Owner": 8}
MAX_WHEN_WIDE = {"Name": 32, "Owner": 16}
RIGHT = ("Elapsed", "Limit", "Cores", "Tasks")
COLOURS = {
    "Configuring": "2",  # dim
    "Queued": "33",  # yellow
    "Running": "32",  # green
    "Suspended": "36",  # cyan
    "Staging": "36",
    "Failed": "31",  # red
    "Canceled": "35",  # magenta
}
"""State -> the SGR code of its colour."""


def cells(job: "Job", now: float) -> dict[str, str]:
    """Return a job's line; `now` in seconds since 1970."""
    return {
        "Id": str(job["id"]),
        "Name": job["name"] or job.get("command") or "",
        "Owner": job["owner"],
        "State": state_word(job),
        "Priority": job["priority_name"],
        "Tasks": _tasks(job["tasks"]),
        "Cores": str(job.get("allocated") or "") or _wanted(job),
        "Submitted": instant_short(job["submitted"], now),
        "Start": _start(job, now),
        "Elapsed": short_duration(elapsed(job, now)),
        "Limit": time_limit(job["run_time"]),
        LAST: _last(job, now),
    }


def _wanted(job: "Job") -> str:
    """Return the size of a job that has nothing yet; GPUs are told as such, they come with several cores."""
    size = limits(job)
    return f"{size} GPU{'' if size == '1' else 's'}" if job["unit"] == "gpu" else size


def elapsed(job: "Job", now: float) -> float | None:
    """Return for how long a job has run, in seconds, or did until it ended; None before its start."""
    started = job["started"]
    if started is None or job["state"] in ("Queued", "Configuring"):
        return None
    return max(0.0, float(job["ended"] or now) - float(started))


def _tasks(tasks: "Mapping[str, int]") -> str:
    """Return how many tasks have finished, of how many; those that failed or were canceled apart: 3/10 2F."""
    apart = [
        f"{tasks[state]}{letter}" for state, letter in (("failed", "F"), ("canceled", "C")) if tasks[state]
    ]
    return " ".join([f"{tasks['finished']}/{tasks['total']}", *apart])


def _start(job: "Job", now: float) -> str:
    if job["started"] is not None and job["state"] != "Queued" and state_word(job) != "Staging":
        return instant_short(job["started"], now)
    return expected_in(job, now)


def expected_in(job: "Job", now: float) -> str:
    """Return when a queued job is expected to start, such as ``in 9m30s``; "" where nobody can say."""
    at = (job.get("expected") or {}).get("p50")
    if at is None:
        return ""
    return f"in {short_duration(at - now)}" if at - now >= 1 else "soon"


def waits_in_words(job: "Job", now: float) -> str:
    """Return why a queued job waits, and in how long it is expected to start."""
    soon, why = expected_in(job, now), local_times(job["pending_reason"])
    why = why or "waits for the next scheduling pass"
    return f"{why}; it should start {soon}" if soon else str(why)


def _last(job: "Job", now: float) -> str:
    """Return where a job runs or ran, or why it waits and when it should start."""
    reason = local_times(job["pending_reason"] or "")
    if reason and (job["state"] == "Queued" or state_word(job) == "Staging"):
        soon = expected_in(job, now)
        return f"{soon}: {reason}" if soon else str(reason)
    nodes = job.get("nodes") or ""
    remark = reason or job["message"] or job.get("progress_message") or ""
    if job["state"] == "Finished" and nodes:
        return str(nodes)
    return f"{nodes}: {remark}" if nodes and remark else str(nodes or remark)


def _by_start(job: "Job") -> float:
    if job["started"] is not None:
        return float(job["started"])
    expected: float | None = (job.get("expected") or {}).get("p50")
    return float("inf") if expected is None else expected


ORDERS: "Mapping[str, tuple[Callable[[Job], Any], bool]]" = {
    "id": (lambda job: job["id"], False),
    "name": (lambda job: ((job["name"] or job.get("command") or "").lower(), job["id"]), False),
    "user": (lambda job: (job["owner"], job["id"]), False),
    "state": (lambda job: (job["state"], job["id"]), False),
    "priority": (lambda job: (-job["priority"], job["id"]), False),
    "submitted": (lambda job: (job["submitted"] or float("inf"), job["id"]), False),
    "start": (lambda job: (_by_start(job), job["id"]), False),
    "ended": (lambda job: (job["ended"] or float("inf"), job["id"]), False),
    "elapsed": (lambda job: (elapsed(job, time.time()) or 0.0, job["id"]), True),
}
"""What jobs may be sorted by -> the key, and whether the largest is first."""
