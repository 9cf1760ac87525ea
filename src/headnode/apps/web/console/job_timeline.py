"""The times of a job as a drawing: each phase from its history, and what lies ahead."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from headnode.apps.readable_values import duration
from headnode.apps.web.console.visit import Model, Told

WIDTH: Final = 640.0
_PHASES: Final = (
    ("Created", "set-up", "being created"),
    ("Given", "", ""),
    ("Reconfigured", "set-up", "being created"),
    ("Submitted", "waited", "waiting"),
    ("Passed", "waited", "waiting"),
    ("Validated", "waited", "waiting"),
    ("Hold", "held", "held"),
    ("Started on", "ran", "running"),
    ("Suspended", "held", "suspended"),
    ("Resumed on", "ran", "running"),
    ("Back in the queue", "waited", "waiting"),
    ("Requeued", "waited", "waiting"),
    ("Job Finished", "over", ""),
    ("Job Failed", "over", ""),
    ("Job Canceled", "over", ""),
)
"""How a sentence of the history begins -> the kind of the phase that begins with it, and its words."""


class Phase(NamedTuple):
    """A part of a job's life; `until` may lie ahead.  Times in seconds since 1970."""

    kind: str
    words: str
    since: float
    until: float


def timeline(job: Told, now: float, history: Iterable[Told] = ()) -> Model | None:
    """Return the drawing of a job's times; None before it was submitted.

    Its parts are in the order of time, each with its share of the width.  Without a history they are taken
    from the times of the job.
    """
    begun, submitted, ended = job["created"], job["submitted"], job["ended"]
    if submitted is None or (ended or now) <= begun:
        return None
    phases = [*(list(_told(job, now, history)) or _from_times(job, now)), *_ahead(job, now)]
    scale = WIDTH / (phases[-1].until - begun)
    return {
        "parts": [
            {
                "kind": kind,
                "words": f"{words}: {duration(until - since)}",
                "since": since,
                "x": round((since - begun) * scale, 2),
                "width": round((until - since) * scale, 2),
            }
            for kind, words, since, until in phases
            if until > since
        ],
        "now": None if ended else round((now - begun) * scale, 2),
        "points": [
            (name, at)
            for name, at in (
                ("created", begun),
                ("submitted", submitted),
                ("started", job["started"]),
                ("ended", ended),
            )
            if at is not None
        ],
    }


def _told(job: Told, now: float, history: Iterable[Told]) -> Iterator[Phase]:
    """Yield the phases that a history tells of."""
    kind, words, since = "", "", 0.0
    for entry in history:
        following = next(
            ((to, said) for begins, to, said in _PHASES if to and entry["text"].startswith(begins)), None
        )
        if entry["text"].startswith("Hold") and "released by" in entry["text"]:
            following = ("waited", "waiting") if kind == "held" else None
        if following is None or following == (kind, words) or (following[0] == "held" and kind == "set-up"):
            continue
        if kind and kind != "over":
            yield Phase(kind, words, since, entry["at"])
        (kind, words), since = following, entry["at"]
    if kind and kind != "over":
        yield Phase(kind, words, since, job["ended"] or now)


def _from_times(job: Told, now: float) -> list[Phase]:
    begun, submitted, started, ended = job["created"], job["submitted"], job["started"], job["ended"]
    last = ended or now
    phases = [
        Phase("set-up", "being created", begun, submitted),
        Phase("waited", "waiting", submitted, started or last),
    ]
    return [*phases, Phase("ran", "running", started, last)] if started else phases


def _ahead(job: Told, now: float) -> list[Phase]:
    """Return what is expected of a job that is not over."""
    if job["ended"]:
        return []
    started = job["started"] if job["state"] == "Running" else None
    limit = started + job["run_time"] if started and job["run_time"] else None
    end = limit if started else (job.get("expected") or {}).get("p50")
    if end is None or end <= now:
        return []
    return [Phase("ahead", "until its time limit" if started else "until its expected start", now, end)]
