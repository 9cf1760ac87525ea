"""The tasks of a job as a table, the instances of a sweep as cells, and the output of one."""

from typing import Final

from headnode.apps.cli.screens.job import tasks_in_words
from headnode.apps.web.console.job import frame, may_read
from headnode.apps.web.console.job_output import MOST_IN_PAGE, STREAMS, output_of
from headnode.apps.web.console.site import ConsolePage
from headnode.apps.web.console.visit import Model, Told, Visit

ROWS: Final = 200
CELLS: Final = 1000
STATES: Final = ("", "Queued", "Running", "Finished", "Failed", "Canceled")


async def show_tasks(visit: Visit) -> Model:
    """Return a page of a job's tasks, or of the instances of one."""
    shown = await frame(visit, "tasks")
    sweep, state = visit.number("sweep"), visit.query.get("state", "").capitalize()
    chosen = [state] if state in STATES and state else []
    after = visit.number("after") or 0
    view = visit.query.get("view", "")
    limit = CELLS if sweep is not None and view != "table" else ROWS
    parts = (
        await _parts(visit, shown["id"], sweep)
        if limit == CELLS and not (after or chosen or visit.query.get("part"))
        else []
    )
    answer: Told = {"tasks": [], "more": None}
    if not parts:
        answer = await visit.ask(
            "tasks", job=shown["id"], after=after, limit=limit, states=chosen, expand=sweep
        )
    return shown | {
        "tasks": answer["tasks"],
        "parts": parts,
        "sweep": sweep,
        "cells": sweep is not None and view != "table",
        "as_table": visit.here(view="table", after=None),
        "as_cells": visit.here(view=None, after=None),
        "next": visit.here(after=answer["more"]) if answer["more"] is not None else None,
        "first": visit.here(after=None) if after else None,
        "chips": [
            {
                "name": word or "All",
                "path": visit.here(state=word.lower() or None, after=None),
                "here": word == state,
            }
            for word in STATES
        ],
        "may_read": may_read(visit, shown["job"]),
    }


async def _parts(visit: Visit, job: int, sweep: int | None) -> list[Model]:
    """Return the parts of a sweep that has more instances than there are cells; nothing for others."""
    answer = await visit.ask("instance_counts", job=job, task=sweep, parts=CELLS)
    if answer["total"] <= CELLS:
        return []
    return [
        {
            **part,
            "state": part_state(part["counts"]),
            "words": tasks_in_words(part["counts"]),
            "path": visit.here(after=part["first"] - 1 or None, part=part["first"]),
        }
        for part in answer["parts"]
    ]


def part_state(counts: Told) -> str:
    """Return the state that the cell of a part shows: a failure in it, or else what goes on."""
    return next((state for state in ("failed", "running", "queued", "canceled") if counts[state]), "finished")


async def show_output(visit: Visit) -> Model:
    """Return the end of the output of one task or instance."""
    shown = await frame(visit, "output")
    task, instance = visit.number("task") or 1, visit.number("instance")
    stream = visit.query.get("stream", "captured")
    shown |= {
        "task": task,
        "instance": instance,
        "stream": stream,
        "streams": [
            {
                "name": name,
                "path": visit.here(stream=None if word == "captured" else word),
                "here": word == stream,
            }
            for word, name in STREAMS.items()
        ],
        "output": None,
        "search": visit.query.get("find", ""),
        "may_read": may_read(visit, shown["job"]),
    }
    if shown["may_read"] and stream in STREAMS:
        shown["output"] = await output_of(visit, shown["id"], task, instance, MOST_IN_PAGE, stream)
        if shown["search"]:
            shown["lines"] = _lines_with(shown["output"], shown["search"])
    return shown


def _lines_with(output: Model, word: str) -> list[Model]:
    """Return the lines of an output that have a word in them, with their numbers from the first shown."""
    text = "".join(piece["text"] for piece in output["pieces"])
    return [
        {"number": number, "text": line}
        for number, line in enumerate(text.split("\n"), start=1)
        if word.lower() in line.lower()
    ]


TASK_PAGES: Final = (
    ConsolePage("/jobs/{job:int}/tasks", "job_tasks.html", show_tasks),
    ConsolePage("/jobs/{job:int}/output", "job_output.html", show_output),
)
