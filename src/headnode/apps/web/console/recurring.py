"""Recurring jobs: a list, a page for each with its times and its last jobs, and what their buttons do."""

import time
from collections.abc import Mapping
from typing import Any, Final

from starlette.datastructures import FormData

from headnode.apps.web.console.visit import (
    ConsoleAction,
    ConsolePage,
    FormAgain,
    GoTo,
    HeadAnswer,
    Model,
    PageMessage,
    Visit,
    instant_in,
    texts,
    whole_number_in,
)
from headnode.core.model.errors import HeadnodeError

SHOWN: Final = 500  # recurring jobs on the list
OVERLAP: Final = (
    ("skip", "the time is skipped"),
    ("wait", "the next job waits for its end"),
    ("allow", "both jobs run"),
)
MISSED: Final = (("one", "one job is made at once"), ("none", "no job is made"))
SIMPLE: Final[Mapping[str, tuple[str, str]]] = {
    "suspend": ("suspend_recurring_job", "{name} makes no jobs until it is resumed."),
    "resume": ("resume_recurring_job", "{name} makes jobs again."),
}
"""The word of the address -> the verb, and the message."""
_MARKS: Final = {
    "Waiting": "queued",
    "Refused": "failed",
    **dict.fromkeys(("Skipped", "Missed", "Removed"), "canceled"),
}
"""A result without a job, or whose job is not known any more -> the mark of a state of jobs."""


async def show_list(visit: Visit) -> Model:
    """Return the recurring jobs of a user, or of all, those with the earliest time first."""
    everybody = visit.query.get("of") == "all"
    user = None if everybody else visit.you["user"]
    found = (await visit.ask("recurring_jobs", user=user))["recurring_jobs"]
    found.sort(key=lambda each: (_next(each) is None, _next(each) or 0.0, each["number"]))
    return {
        "title": "Recurring jobs",
        "everybody": everybody,
        "rows": [_row(each) for each in found[:SHOWN]],
        "more": len(found) - SHOWN if len(found) > SHOWN else 0,
    }


def _next(recurring: HeadAnswer) -> float | None:
    """Return the next time at which it makes a job; None if it makes none."""
    return recurring["next"][0] if recurring["next"] and recurring["state"] == "Active" else None


def _row(recurring: HeadAnswer) -> Model:
    last = recurring["last"][0] if recurring["last"] else None
    return {**recurring, "at": _next(recurring), "latest": None if last is None else _run(last)}


def _run(run: HeadAnswer) -> Model:
    """Return what became of a time, with the mark of the state of its job."""
    return {**run, "mark": _MARKS.get(run["state"], run["state"].lower())}


async def show_one(visit: Visit) -> Model:
    """Return a recurring job: its next times, what became of the last ones, and the form that changes it."""
    asked = await visit.ask("recurring_job", recurring=str(visit.request.path_params["number"]))
    recurring = asked["recurring_job"]
    mine = recurring["owner"] == visit.you["user"]
    return {
        "title": f"Recurring job {recurring['name']}",
        "one": recurring,
        "at": _next(recurring),
        "runs": [_run(each) for each in recurring["last"]],
        "may_act": mine or visit.oversees,
        "may_change": (mine or visit.administers) and not recurring["table"],
        "overlap": OVERLAP,
        "missed": MISSED,
        "filled": _filled(recurring),
        "errors": {},
        "error": None,
    }


def _filled(recurring: HeadAnswer) -> dict[str, str]:
    """Return the values of the form that changes a recurring job, as they are now."""
    end = recurring["end"]
    return {
        **{name: recurring[name] for name in ("schedule", "zone", "overlap", "missed")},
        "keep": str(recurring["keep"]),
        "runs": str(recurring["runs"] or ""),
        "end": "" if end is None else time.strftime("%Y-%m-%dT%H:%M", time.localtime(end)),
    }


async def change(visit: Visit, form: FormData) -> GoTo | FormAgain:
    """Change when a recurring job makes jobs; fields that are as before are not sent."""
    number = visit.request.path_params["number"]
    try:
        now = (await visit.ask("recurring_job", recurring=str(number)))["recurring_job"]
        fields = _changes(form, _filled(now))
        if fields:
            await visit.ask("modify_recurring_job", recurring=str(number), **fields)
    except HeadnodeError as error:
        model = await show_one(visit)
        words = f"{error.what}; {error.fix}" if error.fix else error.what
        sent = {key: value for key, value in form.multi_items() if isinstance(value, str)}
        model |= {"filled": model["filled"] | sent, "errors": {str(part): words for part in error.path[:1]}}
        model["error"] = {"what": error.what, "fix": error.fix}
        return FormAgain("recurring_one.html", model)
    done = "has been changed" if fields else "was not changed: all is as before"
    return GoTo(f"/recurring/{number}", PageMessage(f"{now['name']} {done}."))


def _changes(form: FormData, before: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of the verb that differ from what is there.

    Raises:  BadRequest ``time``, ``count``.
    """
    changed: dict[str, Any] = {
        name: value for name in before if (value := texts(form, name)) != before[name] and name in form
    }
    for name, what in (("keep", "times"), ("runs", "jobs")):
        if name in changed:
            changed[name] = whole_number_in(form, name, what) or 0
    if "end" in changed:
        changed["end"] = instant_in(form, "end") or 0.0
    return changed


async def simply(visit: Visit, form: FormData) -> GoTo:  # noqa: ARG001
    """Suspend or resume a recurring job."""
    verb, past = SIMPLE[visit.request.url.path.rpartition("/")[2]]
    number = visit.request.path_params["number"]
    name = (await visit.ask(verb, recurring=str(number)))["recurring_job"]["name"]
    return GoTo(f"/recurring/{number}", PageMessage(past.format(name=name)))


async def run_now(visit: Visit, form: FormData) -> GoTo:  # noqa: ARG001
    """Make a job now, beside the schedule."""
    number = visit.request.path_params["number"]
    job = (await visit.ask("run_recurring_job", recurring=str(number)))["job"]
    return GoTo(f"/jobs/{job}", PageMessage(f"Job {job} has been submitted, beside the schedule."))


async def remove(visit: Visit, form: FormData) -> GoTo:  # noqa: ARG001
    """Remove a recurring job; the message names its jobs that go on."""
    number = visit.request.path_params["number"]
    left = (await visit.ask("remove_recurring_job", recurring=str(number)))["unfinished"]
    on = f"These jobs of it go on: {', '.join(map(str, left[:10]))}." if left else ""
    message = PageMessage(f"Recurring job {number} has been removed.", "warning" if on else "", on)
    return GoTo("/recurring", message)


RECURRING_PAGES: Final = (
    ConsolePage("/recurring", "recurring.html", show_list),
    ConsolePage("/recurring/{number:int}", "recurring_one.html", show_one),
)
RECURRING_ACTIONS: Final = (
    ConsoleAction("/recurring/{number:int}", change),
    *(ConsoleAction(f"/recurring/{{number:int}}/{word}", simply) for word in SIMPLE),
    ConsoleAction("/recurring/{number:int}/run", run_now),
    ConsoleAction("/recurring/{number:int}/remove", remove),
)
