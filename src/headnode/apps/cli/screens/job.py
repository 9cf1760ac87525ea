"""What people see of a job."""

from headnode.apps.cli.words import counted, instant, limits, run_time, script_state, span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    Job = Mapping[str, Any]

COLUMNS = ("Id", "Owner", "Name", "State", "Priority", "Resource Request", "Tasks", "Submit Time", "Remark")
WITH_EXPECTED = (*COLUMNS[:-1], "Expected Start", COLUMNS[-1])
WIDTHS = {"Id": 6, "Owner": 10, "Name": 16, "State": 10, "Priority": 8}


def row(job: "Job") -> dict[str, str]:
    """Return a job's line in a list of jobs."""
    tasks = job["tasks"]
    over = tasks["finished"] + tasks["failed"] + tasks["canceled"]
    return {
        "Id": str(job["id"]),
        "Owner": job["owner"],
        "Name": job["name"],
        "State": script_state(job["state"]),
        "Priority": job["priority_name"],
        "Resource Request": request(job),
        "Tasks": f"{over}/{tasks['total']}",
        "Submit Time": instant(job["submitted"]),
        **_filled({"Expected Start": instant((job.get("expected") or {}).get("p50"))}),
        "Remark": job["pending_reason"] or job["message"] or job.get("progress_message") or "",
    }


def request(job: "Job") -> str:
    """Return what a job asked for, such as ``2-4 processors``."""
    least = limits(job)
    return f"{least} {job['unit']}" + ("" if least == "1" else "s")


def view(job: "Job", *, detailed: bool = False, history: bool = False) -> dict[str, str]:
    """Return all that is told of one job; empty values are left out, but for the keys that scripts read."""
    told = {
        "Id": str(job["id"]),
        "Name": job["name"],
        "Owner": job["owner"],
        "State": script_state(job["state"]),
        "Priority": job["priority_name"],
        **_filled(_course(job)),
        **_filled(_wishes(job.get("spec") or {}) if detailed else {}),
    }
    if history:
        told["History"] = "\n".join(f"{instant(entry['at'])}  {entry['text']}" for entry in job["history"])
    return told


def _course(job: "Job") -> dict[str, str]:
    ended = job["ended"]
    elapsed = ended - job["started"] if ended and job["started"] else None
    return {
        "Project": job["project"],
        "Resource Request": request(job),
        "Allocated Processors": str(job["allocated"] or ""),
        "Allocated Nodes": _places(job.get("allocation") or ()),
        "Run Time": run_time(job["run_time"]),
        "Create Time": instant(job["created"]),
        "Submit Time": instant(job["submitted"]),
        **expected(job.get("expected")),
        "Start Time": instant(job["started"]),
        "End Time": instant(ended),
        "Elapsed": span(elapsed) if elapsed is not None else "",
        "Tasks": tasks_in_words(job["tasks"]),
        "Progress": f"{job['progress']}%" if job.get("progress") is not None else "",
        "Progress Message": job.get("progress_message") or "",
        "Requeue Count": str(job.get("requeues") or ""),
        "Backfilled": "True" if job.get("backfilled") else "",
        "Pending Reason": job["pending_reason"],
        "Message": job["message"],
    }


def expected(told: "Mapping[str, Any] | None") -> dict[str, str]:
    """Return when a job should start, as far as that can be said."""
    if not told:
        return {}
    by_limits = "by run time limits, if nobody goes ahead of it"
    return {
        "Expected Start": instant(told["p50"]),
        "Expected By": f"{instant(told['p90'])}, nine times of ten" if told["p90"] else "",
        "Promised Start": f"{instant(told['promise'])}, {by_limits}" if told["promise"] else "",
    }


def _places(allocation: "Any") -> str:
    return ", ".join(f"{share['node']} ({len(share['processors'])})" for share in allocation)


def tasks_in_words(tasks: "Mapping[str, int]") -> str:
    """Return the counts of a job's tasks, without those that are zero."""
    states = ("queued", "running", "finished", "failed", "canceled")
    parts = [f"{tasks[state]} {state}" for state in states if tasks[state]]
    return f"{tasks['total']} total" + (f": {', '.join(parts)}" if parts else "")


def _wishes(spec: "Mapping[str, Any]") -> dict[str, str]:
    """Return what else the owner asked for, under the names it has in the native form."""
    shown = ("name", "project", "priority", "unit", "minimum", "maximum", "run_time", "tasks")
    return {
        name.replace("_", " ").title(): _plain(value) for name, value in spec.items() if name not in shown
    }


def _plain(value: "Any") -> str:
    if isinstance(value, dict):
        return "\n".join(f"{name}={_plain(item)}" for name, item in value.items())
    if isinstance(value, list):
        return ", ".join(_plain(item).replace("\n", " ") for item in value)
    return "" if value is None else str(value)


def _filled(told: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in told.items() if value}


def ending(job: "Job") -> str:
    """Return how a job ended, in a sentence for whoever waited for it."""
    tasks = job["tasks"]
    parts = [
        counted(tasks[state], "task") + f" {state}"
        for state in ("finished", "failed", "canceled")
        if tasks[state]
    ]
    name = f" {job['name']!r}" if job["name"] else ""
    said = f"Job {job['id']}{name} {_verb(job['state'])}" + (f": {', '.join(parts)}" if parts else "")
    if job["started"] and job["ended"]:
        said += f", in {span(job['ended'] - job['started'])}"
    return said + (f"; {job['message']}" if job["message"] and job["state"] != "Finished" else "")


def _verb(state: str) -> str:
    return "was canceled" if state == "Canceled" else state.lower()
