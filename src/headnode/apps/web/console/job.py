"""The page of one job: what it does, why it waits and when it starts, its times, tasks and output."""

from functools import partial
from typing import Any, Final

from headnode.apps.cli.screens.job import view
from headnode.apps.readable_values import duration, elapsed, memory
from headnode.apps.web.console.explained import explained
from headnode.apps.web.console.job_failures import advice, failures_of
from headnode.apps.web.console.job_graph import task_graph
from headnode.apps.web.console.job_output import END_OF_OUTPUT, OutputOf, output_of
from headnode.apps.web.console.job_rows import job_row
from headnode.apps.web.console.job_timeline import timeline
from headnode.apps.web.console.marks import job_mark
from headnode.apps.web.console.site import ConsolePage
from headnode.apps.web.console.visit import Model, Told, Visit

TABS: Final = (
    ("", "Job"),
    ("tasks", "Tasks"),
    ("output", "Output"),
    ("source", "Source"),
    ("history", "History"),
)
TASKS_SHOWN: Final = 20
MOST_DRAWN: Final = 1000  # tasks of a job with dependencies
FORECASTS_KEPT: Final = 60.0  # seconds
SHELL_TAB: Final = (("shell", "Shell"),)
HISTORY_SHOWN: Final = 200
OVER: Final = ("Finished", "Failed", "Canceled")


async def frame(visit: Visit, tab: str = "") -> Model:
    """Return what all pages of a job have: its head, its actions, its tabs."""
    number = visit.request.path_params["job"]
    job = (await visit.ask("job", job=number))["job"]
    if tab or job["state"] not in ("Queued", "Configuring"):  # others wait for what all jobs do
        visit.news = f"?job={number}"
    name = job["name"] or next((str(task.get("command", "")) for task in job["spec"].get("tasks", ())), "")
    return {
        "title": f"Job {number}",
        "id": number,
        "job": job,
        "name": name[:256],
        "mark": job_mark(job),
        "row": job_row({**job, "command": name, "nodes": ""}, visit.now),
        "actions": actions_of(job),
        "mine": visit.oversees or job["owner"] == visit.you["user"],
        "tabs": [
            {"path": f"/jobs/{number}" + (f"/{word}" if word else ""), "name": title, "here": word == tab}
            for word, title in (*TABS, *SHELL_TAB * may_open_shell(visit, job))
        ],
    }


def may_open_shell(visit: Visit, job: Told) -> bool:
    """Return whether the user may open a shell in a job, which runs."""
    return bool(job["state"] == "Running" and may_read(visit, job))


def actions_of(job: Told) -> list[str]:
    """Return what can be done with a job in its state, the most likely first."""
    state, holds = job["state"], [hold["name"] for hold in job["holds"]]
    by_state = {
        "Configuring": ["submit", "hold", "cancel"],
        "Queued": ["hold", "cancel"],
        "Running": ["suspend", "requeue", "finish", "cancel"],
        "Suspended": ["resume", "cancel"],
        "Finished": [],
        "Failed": ["requeue"],
        "Canceled": ["requeue"],
    }
    return (["release"] if holds and state not in OVER else []) + by_state.get(state, [])


async def show_job(visit: Visit) -> Model:
    """Return the first page of a job."""
    shown = await frame(visit)
    job, number, now = shown["job"], shown["id"], visit.now
    told = await visit.ask("explain_job", job=number)
    tasks = await visit.ask("tasks", job=number, limit=TASKS_SHOWN)
    shown |= {
        "why": explained(told, job, now),
        "timeline": timeline(job, now, job["history"]),
        "tasks": tasks["tasks"],
        "more_tasks": tasks["more"] is not None,
        "delivered": delivered(job, now),
        "facts": [(key, value) for key, value in view(job).items() if key not in _SAID_ELSEWHERE],
        "failures": [],
        "advice": [],
        "forecasts": await _forecasts(visit) if told["expected"] else "",
        "graph": await graph_of(visit, job),
        "output": None,
    }
    if job["state"] in ("Failed", "Canceled") and job["tasks"]["failed"]:
        shown["failures"] = await failures_of(visit, job, may_read=may_read(visit, job))
        shown["advice"] = advice(job, (each["task"] for each in shown["failures"]))
    else:
        shown["output"] = await _latest_output(visit, shown)
    return shown


async def graph_of(visit: Visit, job: Told) -> Model | None:
    """Return the drawing of a job's tasks, if some depend on others."""
    tasks = job["spec"].get("tasks", ())
    if len(tasks) > MOST_DRAWN or not any(task.get("depends_on") for task in tasks):
        return None
    told = (await visit.ask("tasks", job=job["id"], limit=MOST_DRAWN))["tasks"]
    return task_graph(tasks, {task["task"]: task["state"].lower() for task in told})


async def _forecasts(visit: Visit) -> str:
    """Return how often predictions of starts have held here; "" if there were none."""
    answer = await visit.kept("predictions", FORECASTS_KEPT, partial(visit.ask, "predictions"))
    score = answer["all"]
    if not score["jobs"] or score["p90_held"] is None:
        return ""
    return (
        f"Of the last {score['jobs']:,} predicted starts here, {100 * score['p90_held']:.0f} % came no later "
        "than “9 of 10” said."
    )


_SAID_ELSEWHERE: Final = frozenset(
    (
        *("Id", "Name", "State", "Tasks", "Pending Reason", "Depends On", "Progress", "Progress Message"),
        *("Create Time", "Submit Time", "Start Time", "End Time", "Elapsed Time"),
        *("Expected Start", "Expected By", "Promised Start"),
    )
)


async def _latest_output(visit: Visit, shown: Model) -> Model | None:
    """Return the end of the output of the only task that has begun; None if there is none, or several."""
    begun = [task for task in shown["tasks"] if task["state"] not in ("Queued", "Configuring")]
    if len(shown["tasks"]) != 1 or not begun or "instances" in begun[0] or not may_read(visit, shown["job"]):
        return None
    return await output_of(visit, OutputOf(shown["id"], begun[0]["task"]), END_OF_OUTPUT)


def may_read(visit: Visit, job: Told) -> bool:
    """Return whether the user may read the output of a job."""
    return visit.administers or bool(job["owner"] == visit.you["user"])


# ---------------------------------------------------------------- amounts


def delivered(job: Told, now: float) -> list[Model]:
    """Return what was requested beside what was used, in pairs, with advice where half was not used."""
    used = job.get("usage")
    if not used:
        return []
    pairs = []
    took = elapsed(job["started"], job["ended"] or now)
    if job["run_time"] is not None and took is not None:
        pairs.append(_pair("Time", job["run_time"], took, duration))
    held = used["processors"]
    if used["wall_time"] and held and job["state"] in OVER:
        pairs.append(_pair("Processors", held, used["cpu_time"] / used["wall_time"], _processors))
    asked = job["spec"].get("process_memory")
    if asked and used["peak_memory"]:
        pairs.append(_pair("Memory of a process", asked * 1024, used["peak_memory"], memory))
    for pair in pairs:
        if job["state"] == "Finished" and pair["used"] < 0.5 * pair["asked"]:
            pair["advice"] = "less than half was used; a smaller request starts sooner"
    return pairs


def _pair(name: str, asked: float, used: float, words: Any) -> Model:
    most = max(asked, used) or 1.0
    return {
        "name": name,
        "asked": asked,
        "used": used,
        "asked_words": words(asked),
        "used_words": words(used),
        "asked_width": round(100 * asked / most, 1),
        "used_width": round(100 * used / most, 1),
        "advice": "",
    }


def _processors(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


async def show_history(visit: Visit) -> Model:
    """Return what happened to a job, newest first."""
    shown = await frame(visit, "history")
    history = await visit.ask("job_history", job=shown["id"], limit=HISTORY_SHOWN)
    return shown | {"history": history["history"][::-1], "cut": len(history["history"]) >= HISTORY_SHOWN}


JOB_PAGES: Final = (
    ConsolePage("/jobs/{job:int}", "job.html", show_job),
    ConsolePage("/jobs/{job:int}/history", "job_history.html", show_history),
)
