"""The page of all jobs, living and ended: filters in the address, pages by cursor, actions on several."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from starlette.datastructures import FormData

from headnode.apps.cli.screens.job_table import ORDERS
from headnode.apps.readable_values import counted
from headnode.apps.web.console.job_rows import job_rows
from headnode.apps.web.console.site import ConsoleAction, ConsolePage, GoTo, numbers, texts
from headnode.apps.web.console.visit import Model, PageMessage, Told, Visit
from headnode.core.model.errors import BadRequest, HeadnodeError

ROWS: Final = 100
MOST_AT_ONCE: Final = 1000  # jobs of one action
STATES: Final = ("Configuring", "Queued", "Running", "Suspended", "Finished", "Failed", "Canceled")
LIVING: Final = ("Configuring", "Queued", "Running", "Suspended")
SHOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "": LIVING,
    "ended": ("Finished", "Failed", "Canceled"),
    "all": STATES,
    **{state.lower(): (state,) for state in STATES},
}
"""The word of the filter -> the states of the jobs that it shows."""
_NAMES: Final = {"": "Not ended", "ended": "Ended", "all": "All"}
_SORTED_BY: Final = {"Job": "id", "Name": "name", "Owner": "user", "Time": "elapsed"}


def question(visit: Visit) -> dict[str, Any]:
    """Return the fields of the verb `jobs` that the address asks for.

    Raises:  BadRequest ``state`` or ``time`` for a word that is none.
    """
    word = visit.query.get("state", "").lower()
    if word not in SHOWN:
        raise BadRequest(
            code="state", what=f"there is no state {word!r}", fix=f"choose one of {', '.join(SHOWN)}"
        )
    name = visit.query.get("name", "").strip()
    owner = visit.query.get("owner", "").strip()
    return {
        "states": list(SHOWN[word]) if word != "all" else [],
        "owner": visit.you["user"] if owner == "me" else owner or None,
        "name": name if not name or any(char in name for char in "*?[") else f"*{name}*",
        "project": visit.query.get("project", "").strip(),
        "group": visit.query.get("group", "").strip() or None,
        "since": _instant(visit.query.get("since", "")),
        "until": _instant(visit.query.get("until", "")),
    }


def _instant(text: str) -> float | None:
    """Return the instant that a date (and time) means in local time; None for no text."""
    if not text.strip():
        return None
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError):
        raise BadRequest(
            code="time", what=f"{text!r} is no date", fix="write it as 2026-12-31 or 2026-12-31T18:00"
        ) from None


async def show_jobs(visit: Visit) -> Model:
    """Return a page of jobs that fit the address, newest first."""
    asked = question(visit)
    answer = await visit.ask("jobs", **asked, before=visit.number("before"), limit=ROWS)
    cluster = (await visit.ask("cluster"))["cluster"]
    jobs = answer["jobs"]
    sort = visit.query.get("sort", "")
    if sort in ORDERS:
        key, downwards = ORDERS[sort]
        jobs = sorted(jobs, key=key, reverse=downwards)
    return {
        "title": "Jobs",
        "rows": job_rows(jobs, visit.now),
        "more": answer["more"],
        "total": answer["total"],
        "damage": answer.get("damage") or [],
        "group": answer.get("group"),
        "chips": _chips(visit, cluster["jobs"]),
        "query": {
            name: visit.query.get(name, "")
            for name in ("state", "owner", "name", "project", "since", "until", "group")
        },
        "filtered": any(
            visit.query.get(name) for name in ("owner", "name", "project", "since", "until", "group")
        ),
        "sort": _sorting(visit, sort),
        "next": visit.here(before=answer["more"]) if answer["more"] is not None else None,
        "first": visit.here(before=None) if visit.number("before") is not None else None,
    }


def _chips(visit: Visit, counts: Mapping[str, int]) -> list[Model]:
    """Return the choices of states with the number of all jobs in each."""
    now = visit.query.get("state", "").lower()
    return [
        {
            "name": _NAMES.get(word, states[0]),
            "count": sum(counts.get(state, 0) for state in states),
            "path": visit.here(state=word or None, before=None),
            "here": word == now,
        }
        for word, states in SHOWN.items()
    ]


def _sorting(visit: Visit, sort: str) -> Model:
    column = next((title for title, word in _SORTED_BY.items() if word == sort), "")
    ways = {word: "descending" if ORDERS[word][1] else "ascending" for word in _SORTED_BY.values()}
    return {
        "column": column,
        "way": ways.get(sort, "none"),
        "links": {
            title: visit.here(sort=None if word == sort else word) for title, word in _SORTED_BY.items()
        },
    }


# ---------------------------------------------------------------- several at once

ACTIONS: Final[Mapping[str, tuple[str, str, str, tuple[str, ...]]]] = {
    "cancel": ("Cancel", "cancel_job", "are canceled; their running tasks are stopped", LIVING),
    "requeue": (
        "Requeue",
        "requeue_job",
        "run again, except for what has finished",
        ("Running", "Failed", "Canceled"),
    ),
    "hold": ("Hold", "hold_job", "do not start until the hold is released", ("Configuring", "Queued")),
    "release": ("Release", "release_job", "lose the hold 'user'", ("Configuring", "Queued")),
    "suspend": ("Suspend", "suspend_job", "stop and release their processors", ("Running",)),
    "resume": ("Resume", "resume_job", "go on when their processors are free", ("Suspended",)),
}
"""The word -> the button, the verb, what happens to the jobs, and the states in which they may be."""


async def show_choice(visit: Visit) -> Model:
    """Return what an action would do to the chosen jobs.  Nothing is changed."""
    word = visit.query.get("do", "")
    if word not in ACTIONS:
        raise BadRequest(code="action", what="no action was chosen", fix=f"choose {', '.join(ACTIONS)}")
    button, _, effect, states = ACTIONS[word]
    jobs = await _chosen(visit)
    fit = [job for job in jobs if job["state"] in states]
    rest = [job for job in jobs if job["state"] not in states]
    return {
        "title": f"{button} {counted(len(fit), 'job')}",
        "do": word,
        "button": f"{button} {counted(len(fit), 'job')}",
        "effect": effect,
        "rows": job_rows(fit, visit.now),
        "left_out": job_rows(rest, visit.now),
        "cut": len(jobs) >= MOST_AT_ONCE,
        "most": MOST_AT_ONCE,
    }


async def _chosen(visit: Visit) -> list[Told]:
    """Return the jobs whose boxes are ticked, or with `all` those that fit the address."""
    if visit.query.get("all"):
        return list((await visit.ask("jobs", **question(visit), limit=MOST_AT_ONCE))["jobs"])
    found = []
    for job in numbers(visit.request.query_params.getlist("job"))[:MOST_AT_ONCE]:
        found.append((await visit.ask("job", job=job))["job"])
    return found


async def act_on_jobs(visit: Visit, form: FormData) -> GoTo:
    """Carry out an action on each job; say how many took it, and why the first did not.

    Raises:  BadRequest ``action``.
    """
    word = texts(form, "do")
    if word not in ACTIONS:
        raise BadRequest(code="action", what="no action was chosen", fix=f"choose {', '.join(ACTIONS)}")
    button, verb, _, _ = ACTIONS[word]
    done, refused = 0, []
    for job in numbers(form.getlist("job"))[:MOST_AT_ONCE]:
        try:
            await visit.ask(verb, job=job)
            done += 1
        except HeadnodeError as error:
            refused.append((job, error))
    said = f"{button}: {counted(done, 'job')}"
    if not refused:
        return GoTo("/jobs", PageMessage(f"{said}."))
    job, why = refused[0]
    return GoTo(
        "/jobs",
        PageMessage(f"{said}; {len(refused)} refused. Job {job}: {why.what}.", "problem", why.fix),
    )


JOBS_PAGES: Final = (
    ConsolePage("/jobs", "jobs.html", show_jobs),
    ConsolePage("/jobs/choice", "jobs_choice.html", show_choice),
)
JOBS_ACTIONS: Final = (ConsoleAction("/jobs/choice", act_on_jobs),)
