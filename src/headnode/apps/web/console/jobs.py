"""The page of all jobs, living and ended: filters in the address, pages by cursor, actions on several."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from heapq import nlargest, nsmallest
from typing import Any, Final, NamedTuple, Self, cast
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import FormData

from headnode.apps.cli.screens.job_table import ORDERS
from headnode.apps.readable_values import counted
from headnode.apps.web.console.job_rows import (
    COLUMNS,
    USUAL,
    as_listed,
    chosen_columns,
    columns_named,
    job_rows,
)
from headnode.apps.web.console.visit import (
    ConsoleAction,
    ConsolePage,
    GoTo,
    HeadAnswer,
    Model,
    PageMessage,
    Visit,
    numbers,
    texts,
)
from headnode.core.model.errors import BadRequest, HeadnodeError
from headnode.protocol.state_names import ENDED_STATES, JOB_STATES, OPEN_STATES

ROWS: Final = 100
MAX_AT_ONCE: Final = 1000  # jobs of one action
SHOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "": OPEN_STATES,
    "ended": ENDED_STATES,
    "all": JOB_STATES,
    **{state.lower(): (state,) for state in JOB_STATES},
}
"""The word of the filter -> the states of the jobs that it shows."""
_NAMES: Final = {"": "Not ended", "ended": "Ended", "all": "All"}
MAX_SORTED: Final = 10_000  # of the newest jobs that fit
SORTED_AT_ONCE: Final = 1000
SORTED_KEPT: Final = 10.0  # seconds


def question(visit: Visit) -> dict[str, Any]:
    """Return the fields of the verb `jobs` that the address asks for.

    Raises:  BadRequest ``state`` or ``time`` for a word that is none.
    """
    word = visit.query.get("state", "").lower()
    if word not in SHOWN:
        raise BadRequest(
            code="state",
            what=f"there is no state {word!r}",
            fix=f"choose one of {', '.join(filter(None, SHOWN))}",
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
            code="time", what=f"{text!r} is not a date", fix="write it as 2026-12-31 or 2026-12-31T18:00"
        ) from None


async def show_jobs(visit: Visit) -> Model:
    """Return a page of jobs that fit the address: newest first, or sorted over all pages."""
    asked = question(visit)
    order = SortOrder.of(visit.query.get("sort", ""))
    cluster = (await visit.ask("cluster"))["cluster"]
    columns = chosen_columns(visit.request.query_params.getlist("col"))
    if order is None:
        answer = await visit.ask("jobs", **asked, before=visit.number("before"), limit=ROWS)
        following = {"before": answer["more"], "skip": None} if answer["more"] is not None else None
    else:
        answer = await _sorted_page(visit, asked, order)
        following = {"skip": answer["skip"] + ROWS} if answer["more"] else None
    return {
        "title": "Jobs",
        "rows": job_rows(answer["jobs"], visit.now),
        "columns": columns_named(columns),
        "all_columns": [
            {"word": word, "title": each.title, "on": word in columns} for word, each in COLUMNS.items()
        ],
        "usual_columns_chosen": tuple(columns) == USUAL,
        "cut": answer.get("cut", False),
        "most_sorted": MAX_SORTED,
        "total": answer["total"],
        "damage": answer.get("damage") or [],
        "group": answer.get("group"),
        "chips": _chips(visit, cluster["jobs"]),
        "query": {name: visit.query.get(name, "") for name in ("state", *_FILTERS)},
        "kept": [(key, value) for key, value in visit.request.query_params.multi_items() if key in _KEPT],
        "filtered": any(visit.query.get(name) for name in _FILTERS),
        "no_filter": visit.here(**dict.fromkeys((*_FILTERS, "before", "skip"))),
        "sort": _sorting(visit, order),
        "next": visit.here(**following) if following is not None else None,
        "first": visit.here(before=None, skip=None)
        if visit.query.get("before") or visit.number("skip")
        else None,
    }


_FILTERS: Final = ("owner", "name", "project", "since", "until", "group")
_KEPT: Final = ("state", "group", "sort", "col")
"""Parameters of the address that other filters do not change."""


class SortOrder(NamedTuple):
    """An order of jobs; `reverse`: the other way round than it usually is."""

    word: str
    reverse: bool

    @classmethod
    def of(cls, text: str) -> Self | None:
        """Return the order that an address names, such as ``elapsed`` or ``-elapsed``; None: newest first."""
        word = text.removeprefix("-")
        return cls(word, text.startswith("-")) if word in ORDERS else None

    @property
    def downwards(self) -> bool:
        """Whether the largest is first."""
        return ORDERS[self.word][1] != self.reverse

    def first_of(self, jobs: Iterable[HeadAnswer], most: int) -> list[HeadAnswer]:
        """Return the first jobs in this order."""
        choose = nlargest if self.downwards else nsmallest
        return choose(most, jobs, key=ORDERS[self.word][0])


async def _sorted_page(visit: Visit, asked: dict[str, Any], order: SortOrder) -> Model:
    """Return a page of all jobs that fit, sorted; of many the newest, see `MAX_SORTED`.

    It is kept for some seconds: the head reads all of these jobs for it.
    """
    skip = min(visit.number("skip") or 0, MAX_SORTED)

    async def find() -> Model:
        best: list[HeadAnswer] = []
        before, examined, total, fit = None, 0, 0, 0
        while True:
            answer = await visit.ask("jobs", **asked, before=before, limit=SORTED_AT_ONCE)
            fit += len(answer["jobs"])
            best = order.first_of([*best, *answer["jobs"]], skip + ROWS)
            before, total, examined = answer["more"], answer["total"], examined + SORTED_AT_ONCE
            if before is None or examined >= MAX_SORTED:
                break
        page = {"jobs": best[skip:], "more": fit > skip + ROWS, "cut": before is not None}
        return page | {
            "total": total,
            "skip": skip,
            "damage": answer.get("damage"),
            "group": answer.get("group"),
        }

    key = f"sorted for {visit.you['user']} {sorted(asked.items(), key=str)} {order} {skip}"
    return cast("Model", await visit.kept(key, SORTED_KEPT, find))


def _chips(visit: Visit, counts: Mapping[str, int]) -> list[Model]:
    """Return the choices of states with the number of all jobs in each."""
    now = visit.query.get("state", "").lower()
    return [
        {
            "name": _NAMES.get(word, states[0]),
            "count": sum(counts.get(state, 0) for state in states),
            "path": visit.here(state=word or None, before=None, skip=None),
            "here": word == now,
        }
        for word, states in SHOWN.items()
    ]


def _sorting(visit: Visit, order: SortOrder | None) -> Model:
    """Return the order of the table, and the addresses of others: one way, the other way, newest first."""
    links = {}
    for word, column in COLUMNS.items():
        if column.order:
            now = order.reverse if order is not None and order.word == column.order else None
            following = {None: column.order, False: f"-{column.order}", True: None}[now]
            links[word] = visit.here(sort=following, before=None, skip=None)
    if order is None:
        return {"column": "", "way": "none", "links": links}
    by = next((word for word, each in COLUMNS.items() if each.order == order.word), "")
    return {"column": by, "way": "descending" if order.downwards else "ascending", "links": links}


# ---------------------------------------------------------------- several at once

ACTIONS: Final[Mapping[str, tuple[str, str, str, tuple[str, ...]]]] = {
    "cancel": ("Cancel", "cancel_job", "are canceled; their running tasks are stopped", OPEN_STATES),
    "requeue": (
        "Requeue",
        "requeue_job",
        "run again, except for what has finished",
        ("Running", "Failed", "Canceled"),
    ),
    "hold": ("Hold", "hold_job", "do not start until the hold is released", ("Configuring", "Queued")),
    "release": ("Release", "release_job", "lose the hold 'user'", ("Configuring", "Queued")),
    "suspend": ("Suspend", "suspend_job", "stop and release their processors", ("Running",)),
    "resume": ("Resume", "resume_job", "continue when their processors are free", ("Suspended",)),
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
        "back": _back(visit.request.url.query),
        "cut": len(jobs) >= MAX_AT_ONCE,
        "most": MAX_AT_ONCE,
    }


def _back(query: str) -> str:
    """Return the address of the list from which jobs were chosen."""
    kept = [(key, value) for key, value in parse_qsl(query) if key not in ("do", "job", "all") and value]
    return "/jobs" + (f"?{urlencode(kept)}" if kept else "")


async def _chosen(visit: Visit) -> list[HeadAnswer]:
    """Return the jobs whose boxes are ticked, or with `all` those that fit the address."""
    if visit.query.get("all"):
        return list((await visit.ask("jobs", **question(visit), limit=MAX_AT_ONCE))["jobs"])
    chosen = []
    for job in numbers(visit.request.query_params.getlist("job"))[:MAX_AT_ONCE]:
        chosen.append(as_listed((await visit.ask("job", job=job))["job"]))
    return chosen


async def act_on_jobs(visit: Visit, form: FormData) -> GoTo:
    """Carry out an action on each job; say how many took it, and why the first did not.

    Raises:  BadRequest ``action``.
    """
    word = texts(form, "do")
    if word not in ACTIONS:
        raise BadRequest(code="action", what="no action was chosen", fix=f"choose {', '.join(ACTIONS)}")
    button, verb, _, _ = ACTIONS[word]
    done, refused = 0, []
    for job in numbers(form.getlist("job"))[:MAX_AT_ONCE]:
        try:
            await visit.ask(verb, job=job)
            done += 1
        except HeadnodeError as error:
            refused.append((job, error))
    message, back = f"{button}: {counted(done, 'job')}", _back(texts(form, "back").partition("?")[2])
    if not refused:
        return GoTo(back, PageMessage(f"{message}."))
    job, why = refused[0]
    return GoTo(
        back,
        PageMessage(f"{message}; {len(refused)} refused. Job {job}: {why.what}.", "problem", why.fix),
    )


JOBS_PAGES: Final = (
    ConsolePage("/jobs", "jobs.html", show_jobs),
    ConsolePage("/jobs/choice", "jobs_choice.html", show_choice),
)
JOBS_ACTIONS: Final = (ConsoleAction("/jobs/choice", act_on_jobs),)
