"""The facts of an explanation: what a job asks for, its turn, when it should start, what it holds."""

from headnode.apps.cli.screens.explain_layout import places
from headnode.apps.cli.screens.job import request, tasks_in_words
from headnode.apps.cli.words import counted, instant, span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    Told = Mapping[str, Any]

SAME = 60.0  # seconds between two instants that are told as one


def numbers(told: "Told", job: "Told", now: float) -> "Iterator[tuple[str, str]]":
    """Yield each fact with its name; facts that there are not are left out."""
    facts = {
        "requests": f"{request(job)}, run time {_run_time(job['run_time'])}, priority {job['priority_name']}",
        "submitted": _ago(job["submitted"], now),
        "turn": _turn(told),
        "expected": _expected(told, now),
        "promised": _promised(told),
        "deadline": _deadline(told),
        "holds": _holds(job),
        "share": f"{counted(job['share'], 'processor')} in balanced mode" if job.get("share") else "",
        "ends by": _ends(job, now),
        "tasks": tasks_in_words(job["tasks"]) if job["tasks"]["total"] else "none",
    }
    return ((key, value) for key, value in facts.items() if value)


def _deadline(told: "Told") -> str:
    """Return when it must have ended, and by how much it would be late by what is known of its start."""
    deadline = told.get("deadline")
    if not deadline:
        return ""
    said = f"it must end by {instant(deadline['at'])}"
    words = {
        "expected": "as things stand",
        "at_worst": "in 1 of 10 cases",
        "by_limits": "by run time limits",
    }
    late = next(((how, deadline[how]) for how in words if (deadline[how] or 0) > 0), None)
    if late is None:
        return said
    how, seconds = late
    return f"{said}; at risk: {words[how]} it would start {span(seconds)} too late"


def _run_time(seconds: float | None) -> str:
    return "without limit" if seconds is None else span(seconds)


def _ago(at: float | None, now: float) -> str:
    return f"{instant(at)}, {span(max(0.0, now - at))} ago" if at else ""


def _waits(told: "Told") -> bool:
    return told["state"] in ("Queued", "Configuring") and not told["would_start"] and not told["refused"]


def _turn(told: "Told") -> str:
    if not _waits(told):
        return ""
    if not told["ahead"]:
        return "first in the queue"
    named = ", ".join(map(_other, told["jobs_ahead"]))
    more = told["ahead"] - len(told["jobs_ahead"])
    some = f": {named}" + (f" and {more} more" if more else "") if named else ""
    return f"{counted(told['ahead'], 'job')} ahead of it in the queue{some}"


def _other(job: "Told") -> str:
    priority = "" if job["priority_name"] == "Normal" else f", {job['priority_name']}"
    return f"{job['job']} of {job['owner']} ({request(job)}, {_short(job['run_time'])}{priority})"


def _short(seconds: float | None) -> str:
    return "no limit" if seconds is None else span(seconds)


def _expected(told: "Told", now: float) -> str:
    """Return when the run times of the past let it start, unless that is what is promised."""
    expected = told["expected"]
    if not expected or expected["p50"] is None or _alike(expected["p50"], expected["promise"]):
        return ""
    late = expected["p90"] is not None and not _alike(expected["p50"], expected["p90"])
    nine = f"; in 9 of 10 cases by {instant(expected['p90'])}" if late else ""
    wait = span(max(0.0, expected["p50"] - now))
    return f"{instant(expected['p50'])} (in {wait}), from past run times{nine}"


def _alike(one: float, other: float | None) -> bool:
    return other is not None and abs(one - other) < SAME


def _promised(told: "Told") -> str:
    if not _waits(told):
        return ""
    expected = told["expected"] or {"promise": None}
    at = told["not_before"] or expected["promise"]
    if at is None:
        return "no start can be promised yet"
    held = told["reservation"]
    where = f"; then on {places(held['nodes'])}" if held else ""
    return f"{instant(at)} or sooner, if running jobs end by their limits{where}"


def _holds(job: "Told") -> str:
    if not job["allocated"]:
        return ""
    allocation = [
        {"node": share["node"], "processors": len(share["processors"])}
        for share in job.get("allocation") or ()
    ]
    where = f": {places(allocation)}" if allocation else ""
    return counted(job["allocated"], "processor") + where


def _ends(job: "Told", now: float) -> str:
    if job["state"] != "Running" or job["run_time"] is None or not job["started"]:
        return ""
    end = job["started"] + job["run_time"]
    return f"{instant(end)} at the latest, in {span(max(0.0, end - now))}"
