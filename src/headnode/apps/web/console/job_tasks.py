"""The tasks of a job as a table, the instances of a sweep as cells, and the output of one."""

from typing import Final

from headnode.apps.cli.screens.job import tasks_in_words
from headnode.apps.web.console.job import frame, graph_of, may_read
from headnode.apps.web.console.job_output import MAX_IN_PAGE, STREAMS, OutputOf, output_of, search_output
from headnode.apps.web.console.visit import ConsolePage, HeadAnswer, Model, Visit
from headnode.protocol.state_names import ENDED_STATES

ROWS: Final = 200
CELLS: Final = 1000
STATES: Final = ("", "Queued", "Running", *ENDED_STATES)


async def show_tasks(visit: Visit) -> Model:
    """Return a page of a job's tasks, or of the instances of one."""
    model = await frame(visit, "tasks")
    sweep, state = visit.number("sweep"), visit.query.get("state", "").capitalize()
    chosen = [state] if state in STATES and state else []
    after = visit.number("after") or 0
    view = visit.query.get("view", "")
    limit = CELLS if sweep is not None and view != "table" else ROWS
    parts = (
        await _parts(visit, model["id"], sweep)
        if limit == CELLS and not (after or chosen or visit.query.get("part"))
        else []
    )
    sole = len(model["job"]["spec"].get("tasks", ())) == 1
    answer: HeadAnswer = {"tasks": [], "more": None}
    if not parts:
        answer = await visit.ask(
            "tasks", job=model["id"], after=after, limit=limit, states=chosen, expand=sweep
        )
    return model | {
        "tasks": answer["tasks"],
        "graph": await graph_of(visit, model["job"]) if sweep is None and not after and not chosen else None,
        "parts": parts,
        "sweep": sweep,
        "cells": sweep is not None and view != "table",
        "as_table": visit.here(view="table", after=None),
        "as_cells": visit.here(view=None, after=None),
        "next": visit.here(after=answer["more"]) if answer["more"] is not None else None,
        "first": visit.here(after=None) if after else None,
        "chips": _chips(visit, state, model["job"]["tasks"] if sweep is None or sole else {}),
        "may_read": may_read(visit, model["job"]),
        "may_add": model["mine"]
        and sweep is None
        and model["job"]["state"] in ("Configuring", "Queued", "Running"),
    }


def _chips(visit: Visit, state: str, counts: HeadAnswer) -> list[Model]:
    """Return the filters by state; with `counts` of the tasks, how many are in it."""
    return [
        {
            "name": word or "All",
            "path": visit.here(state=word.lower() or None, after=None),
            "count": counts.get(word.lower() or "total"),
            "here": word == state,
        }
        for word in STATES
    ]


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


def part_state(counts: HeadAnswer) -> str:
    """Return the state that the cell of a part shows: a failure in it, or else what goes on."""
    return next((state for state in ("failed", "running", "queued", "canceled") if counts[state]), "finished")


async def show_output(visit: Visit) -> Model:
    """Return the end of the output of a task or instance, the part at an offset, or the lines with a text."""
    model = await frame(visit, "output")
    stream, find, at = visit.query.get("stream", "captured"), visit.query.get("find", ""), visit.number("at")
    output = OutputOf(model["id"], visit.number("task") or 1, visit.number("instance"), stream)
    model |= {
        "task": output.task,
        "instance": output.instance,
        "stream": stream,
        "streams": [
            {
                "name": name,
                "path": visit.here(stream=None if word == "captured" else word, at=None),
                "here": word == stream,
            }
            for word, name in STREAMS.items()
        ],
        "output": None,
        "search": find,
        "found": None,
        "may_read": may_read(visit, model["job"]),
    }
    if not model["may_read"] or stream not in STREAMS:
        return model
    if find:
        matches = await search_output(visit, output, find, at or 0)
        following = visit.here(at=matches["next"]) if matches["next"] is not None else None
        lines = [{**line, "path": visit.here(find=None, at=line["at"])} for line in matches["lines"]]
        return model | {
            "found": matches | {"lines": lines, "following": following, "first": visit.here(at=None)}
        }
    part = await output_of(visit, output, MAX_IN_PAGE, at)
    earlier = max(0, part["begin"] - MAX_IN_PAGE)
    return model | {
        "output": part,
        "earlier": visit.here(at=earlier) if part["begin"] else None,
        "later": visit.here(at=part["next"]) if part["next"] < part["size"] and at is not None else None,
        "end": visit.here(at=None) if at is not None else None,
    }


TASK_PAGES: Final = (
    ConsolePage("/jobs/{job:int}/tasks", "job_tasks.html", show_tasks),
    ConsolePage("/jobs/{job:int}/output", "job_output.html", show_output),
)
