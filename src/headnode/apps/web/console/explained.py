"""Why a job waits and what would help, for pages: the sentences are those of ``hn job explain``."""

from headnode.apps.cli.screens import explain
from headnode.apps.cli.screens.explain_facts import facts, nodes_by_reason, places, score_in_words
from headnode.apps.readable_values import counted, duration
from headnode.apps.web.console.site_queue import queue_row
from headnode.apps.web.console.visit import HeadAnswer, Model
from headnode.protocol.state_names import ENDED_STATES


def explained(answer: HeadAnswer, job: HeadAnswer, now: float, *, dry_run: bool = False) -> Model:
    """Return what a page shows of an explanation; `job` is the job that it is about."""
    first, then = explain.reasons_in_words(answer, now)
    return {
        "sentence": explain.headline(answer, job, now, dry_run=dry_run),
        "heading": explain.heading(job, dry_run=dry_run),
        "refused": answer["refused"],
        "reasons": first,
        "reasons_then": then,
        "facts": list(facts(answer, job, now)),
        "nodes": [
            {"nodes": nodes, "text": text}
            for nodes, text in nodes_by_reason(filter(explain.about_node, answer["reasons"]), now)
        ],
        "ahead": answer["ahead"],
        "jobs_ahead": answer["jobs_ahead"],
        "score": score_in_words(answer),
        "there": _there(answer),
        "would_start": places(answer["would_start"]) if answer["would_start"] else "",
        "when": _when(answer, now),
        "changes": [_change(change, now) for change in answer["changes"]],
        "searched": answer["searched"],
        "cut": answer["incomplete"],
        "waiting_tasks": explain.waiting_tasks_in_words(answer["tasks"]),
        "dependencies": [
            {**one, "text": text}
            for one, text in zip(
                answer["dependencies"], explain.dependencies_in_words(answer["dependencies"]), strict=True
            )
        ],
    }


def _there(answer: HeadAnswer) -> Model | None:
    """Return the jobs before a job at a site, and the start that the site expects; or None."""
    site = answer.get("site")
    if not site:
        return None
    learned = (
        f"corrected by {counted(site['judged'], 'start')} seen" if site["judged"] else "not corrected yet"
    )
    return {
        **site,
        "jobs_ahead": [queue_row(job) for job in site["jobs_ahead"]],
        "learned": f"Predicted times are {learned}.",
    }


def _change(change: HeadAnswer, now: float) -> Model:
    """Return a change with what it does, and the options that a press sends."""
    where = f", on {places(change['nodes'])}" if change["nodes"] else ""
    effect = f"starts now{where}" if change["now"] else f"in {duration(max(0.0, change['at'] - now))}"
    return {
        "text": change["text"],
        "effect": effect,
        "now": change["now"],
        "at": change["at"],
        "options": change["options"],
        "again": not change["command"],  # it must be submitted anew
    }


WIDTH, LEFT, RIGHT = 640.0, 8.0, 632.0  # of the drawing


def _when(answer: HeadAnswer, now: float) -> Model | None:
    """Return the drawing of when a job may start: half, nine of ten, the promise; or why nothing is known."""
    expected = answer["expected"] or {}
    promise = expected.get("promise") or answer["planned_start"]
    named = {"half": expected.get("p50"), "nine": expected.get("p90"), "promise": promise}
    named["files"] = expected.get("files_by")
    known = {name: at for name, at in named.items() if at is not None}
    why = expected.get("reason") or ""
    if (
        not (known or why)
        or answer["state"] in ENDED_STATES
        or (answer["state"] == "Running" and not expected)
    ):
        return None
    span = max([1.0, *(at - now for at in known.values())]) * 1.05
    return {
        **dict.fromkeys(named),
        **{
            name: {"at": at, "x": round(LEFT + (RIGHT - LEFT) * min(1.0, max(0.0, at - now) / span), 1)}
            for name, at in known.items()
        },
        "known": bool(known),
        "why": why,
    }
