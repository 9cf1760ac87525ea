"""The page of one job: what it does, why it waits and when it starts, its times, tasks and output.

Also why it failed, its job file, and the forms that change its options."""

import re
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final

from starlette.responses import Response

from headnode.apps.cli.screens.efficiency import next_time
from headnode.apps.cli.screens.job import option_in_words, view
from headnode.apps.readable_values import duration, memory, time_limit
from headnode.apps.web.console.explained import explained
from headnode.apps.web.console.job_drawings import task_graph, timeline
from headnode.apps.web.console.job_output import END_OF_OUTPUT, OutputOf, output_of
from headnode.apps.web.console.job_rows import job_mark, job_row
from headnode.apps.web.console.rendering import plain_text
from headnode.apps.web.console.visit import ConsolePage, HeadAnswer, Model, Visit
from headnode.core.formats.dialects import SUBMITTED, WRITTEN
from headnode.core.model.errors import HeadnodeError, NotAllowed, NotFound
from headnode.core.model.field_rows import QUEUED, RUNNING, JobOption
from headnode.core.model.fields import OPTIONS_OF_JOBS, OPTIONS_OF_TASKS
from headnode.protocol.state_names import ENDED_STATES

FAILED_SHOWN: Final = 3
_BY_EXIT: Final = {
    126: "The shell could not execute the command: the file is not executable, or its format is wrong.",
    127: "The shell did not find the command: check its name, PATH, and the working directory.",
}
_BY_SIGNAL: Final = {
    9: "The program was killed. If it was for want of memory, the peak below is near what its node has.",
    11: "The program has read or written memory that is not its own: a fault of the program or of its input.",
    6: "The program has aborted: it says why in its last lines.",
}


async def failures_of(visit: Visit, job: HeadAnswer, *, may_read: bool) -> list[Model]:
    """Return the first failed tasks or instances, each with its node, its exit code and its last lines."""
    failed: list[HeadAnswer] = (
        await visit.ask("tasks", job=job["id"], states=["Failed"], limit=FAILED_SHOWN)
    )["tasks"]
    failures = []
    for task in failed:
        one = task
        if "instances" in task:
            page = await visit.ask("tasks", job=job["id"], expand=task["task"], states=["Failed"], limit=1)
            one = page["tasks"][0] if page["tasks"] else task
        output = None
        if may_read:
            which = OutputOf(job["id"], one["task"], one["instance"])
            output = await output_of(visit, which, END_OF_OUTPUT // 4)
        failures.append({"task": one, "output": output})
    return failures


def advice(job: HeadAnswer, failed: Iterable[HeadAnswer]) -> list[Model]:
    """Return what to change, in sentences; with options where a press may submit the job so again."""
    by_task: dict[str, Model] = {}
    for task in failed:
        for one in _about(job, task):
            by_task.setdefault(one["text"], one)
    if not by_task:
        return [_point("Its last lines say more. Change the command or its input, then run it again.")]
    return list(by_task.values())


def _about(job: HeadAnswer, task: HeadAnswer) -> list[Model]:
    message = (task["message"] or "").lower()
    if "run time" in message and "expired" in message:
        if "of the task" in message or not job["run_time"]:
            return [_point("Raise the run time limit of the task, or divide its work.")]
        limit = time_limit(2 * job["run_time"])
        return [_point("The run time limit was too short. With twice as much:", runtime=limit)]
    if "memory" in message:
        needed = task["peak_memory"]
        if not needed:
            return [_point("It needed more memory than it had. Ask for more.")]
        enough = -(-2 * needed // 1024)  # MB
        sentence = f"It needed more memory than it had; its peak was {memory(needed)}. With twice as much:"
        return [_point(sentence, estimatedprocessmemory=str(enough))]
    words = _BY_EXIT.get(task["exit_code"]) or _BY_SIGNAL.get(task["signal"])
    return [_point(words)] if words else []


def _point(text: str, **options: Any) -> Model:
    return {"text": text, "options": options}


TABS: Final = (
    ("", "Job"),
    ("tasks", "Tasks"),
    ("output", "Output"),
    ("source", "Source"),
    ("history", "History"),
)
TASKS_SHOWN: Final = 20
MAX_DRAWN: Final = 1000  # tasks of a job with dependencies
FORECASTS_KEPT: Final = 60.0  # seconds
SHELL_TAB: Final = (("shell", "Shell"),)
HISTORY_SHOWN: Final = 200


async def frame(visit: Visit, tab: str = "") -> Model:
    """Return what all pages of a job have: its head, its actions, its tabs."""
    number = visit.request.path_params["job"]
    job = (await visit.ask("job", job=number))["job"]
    if tab or job["state"] not in ("Queued", "Configuring"):  # others wait for what all jobs do
        visit.event_query = f"?job={number}"
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


def may_open_shell(visit: Visit, job: HeadAnswer) -> bool:
    """Return whether the user may open a shell in a job, which runs."""
    return bool(job["state"] == "Running" and may_read(visit, job))


def actions_of(job: HeadAnswer) -> list[str]:
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
    return (["release"] if holds and state not in ENDED_STATES else []) + by_state.get(state, [])


async def show_job(visit: Visit) -> Model:
    """Return the first page of a job."""
    model = await frame(visit)
    job, number, now = model["job"], model["id"], visit.now
    answer = await visit.ask("explain_job", job=number)
    tasks = await visit.ask("tasks", job=number, limit=TASKS_SHOWN)
    model |= {
        "why": explained(answer, job, now),
        "timeline": timeline(job, now, job["history"]),
        "tasks": tasks["tasks"],
        "more_tasks": tasks["more"] is not None,
        **await _requested_and_used(visit, job),
        "facts": [(key, value) for key, value in view(job).items() if key not in _SAID_ELSEWHERE],
        "failures": [],
        "advice": [],
        "forecasts": await _forecasts(visit) if answer["expected"] else "",
        "graph": await graph_of(visit, job),
        "output": None,
    }
    if job["state"] in ("Failed", "Canceled") and job["tasks"]["failed"]:
        model["failures"] = await failures_of(visit, job, may_read=may_read(visit, job))
        model["advice"] = advice(job, (each["task"] for each in model["failures"]))
    else:
        model["output"] = await _latest_output(visit, model)
    return model


async def graph_of(visit: Visit, job: HeadAnswer) -> Model | None:
    """Return the drawing of a job's tasks, if some depend on others."""
    tasks = job["spec"].get("tasks", ())
    if len(tasks) > MAX_DRAWN or not any(task.get("depends_on") for task in tasks):
        return None
    listed = (await visit.ask("tasks", job=job["id"], limit=MAX_DRAWN))["tasks"]
    return task_graph(tasks, {task["task"]: task["state"].lower() for task in listed})


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
        *("Expected Start", "Expected By", "Promised Start", "Recurring Job"),
    )
)


async def _latest_output(visit: Visit, model: Model) -> Model | None:
    """Return the end of the output of the only task that has begun; None if there is none, or several."""
    begun = [task for task in model["tasks"] if task["state"] not in ("Queued", "Configuring")]
    if len(model["tasks"]) != 1 or not begun or "instances" in begun[0] or not may_read(visit, model["job"]):
        return None
    return await output_of(visit, OutputOf(model["id"], begun[0]["task"]), END_OF_OUTPUT)


def may_read(visit: Visit, job: HeadAnswer) -> bool:
    """Return whether the user may read the output of a job."""
    return visit.administers or bool(job["owner"] == visit.you["user"])


# ---------------------------------------------------------------- amounts


async def _requested_and_used(visit: Visit, job: HeadAnswer) -> Model:
    """Return what a job requested beside what it used, and the options of a smaller request."""
    if not job.get("usage"):
        return {"delivered": [], "next_time": ""}
    (used,) = (await visit.ask("job_efficiency", job=job["id"]))["jobs"]
    return {"delivered": delivered(used), "next_time": next_time(used) if used["suggestion"] else ""}


def delivered(used: HeadAnswer) -> list[Model]:
    """Return what a job requested beside what it used, in pairs, as far as both are known."""
    pairs = []
    if used["run_time_share"] is not None:
        pairs.append(_pair("Time", used["run_time_limit"], used["run_time"], duration))
    if used["processor_share"] is not None and not used["so_far"]:
        pairs.append(_pair("Processor time", used["held_time"], used["processor_time"], duration))
    if used["memory_share"] is not None:
        each = (used["process_memory"] or 0) * (used["task_processors"] or 0)
        requested = 1024 * (each + (used["node_memory"] or 0))
        pairs.append(_pair("Memory of a task", requested, used["peak_memory"], memory))
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
    }


async def show_history(visit: Visit) -> Model:
    """Return what happened to a job, newest first."""
    model = await frame(visit, "history")
    history = await visit.ask("job_history", job=model["id"], limit=HISTORY_SHOWN)
    return model | {"history": history["history"][::-1], "cut": len(history["history"]) >= HISTORY_SHOWN}


JOB_PAGES: Final = (
    ConsolePage("/jobs/{job:int}", "job.html", show_job),
    ConsolePage("/jobs/{job:int}/history", "job_history.html", show_history),
)


MAX_TEXT: Final = 100_000  # characters in the page; the download has all


async def show_source(visit: Visit) -> Model:
    """Return the file of a job, or the job in the language of the address; in the native form without one."""
    model = await frame(visit, "source")
    model |= {"dialects": list(WRITTEN), "lines": [], "report": [], "problem": None, "cut": False}
    dialect, missing = visit.query.get("as", ""), ""
    try:
        try:
            answer = await visit.ask("export_job", job=model["id"], dialect=dialect or SUBMITTED)
        except (NotFound, NotAllowed) as refusal:
            if dialect:
                raise
            missing = refusal.what
            answer = await visit.ask("export_job", job=model["id"], dialect="native")
    except HeadnodeError as error:
        return model | {
            "dialect": dialect,
            "missing": "",
            "problem": {"what": error.what, "fix": error.fix},
        }
    dialect = dialect or ("native" if missing else SUBMITTED)
    text, report = answer["text"], answer["report"]
    return model | {
        "dialect": dialect,
        "missing": missing,
        "lines": with_notes(text[:MAX_TEXT].splitlines(), report if dialect == SUBMITTED else ()),
        "cut": len(text) > MAX_TEXT,
        "report": report,
    }


def with_notes(lines: Sequence[str], report: Iterable[HeadAnswer]) -> list[Model]:
    """Return lines of a file, each with what the report says of it."""
    of_line: dict[int, list[HeadAnswer]] = {}
    for item in report:
        of_line.setdefault(item["line"], []).append(item)  # 0: of no line
    return [{"text": text, "notes": of_line.get(number, [])} for number, text in enumerate(lines, 1)]


async def download_source(visit: Visit) -> Response:
    """Return a job as a file in one of the languages."""
    job, dialect = visit.request.path_params["job"], visit.query.get("as", "native")
    answer = await visit.ask("export_job", job=job, dialect=dialect)
    return plain_text(answer["text"].encode(), f"job-{job}.{dialect}.txt")


SOURCE_PAGES: Final = (ConsolePage("/jobs/{job:int}/source", "job_source.html", show_source),)


async def show_change(visit: Visit) -> Model:
    """Return the options of a job that may change in its state."""
    model = await frame(visit)
    running = model["job"]["state"] in ("Running", "Suspended")
    options = _options(OPTIONS_OF_JOBS, RUNNING if running else QUEUED, model["job"]["spec"])
    return model | {"options": options, "change_path": f"/jobs/{model['id']}/change", "task": None}


async def show_task_change(visit: Visit) -> Model:
    """Return the options of a task, which may change before its job is submitted."""
    model = await frame(visit, "tasks")
    number = visit.request.path_params["task"]
    task = (await visit.ask("task", job=model["id"], task=number))["task"]
    return model | {
        "options": _options(OPTIONS_OF_TASKS, "", task["spec"]),
        "change_path": f"/jobs/{model['id']}/tasks/{number}/change",
        "task": number,
        "command": task["command"],
    }


def _options(options: Iterable[JobOption], allowed: str, spec: HeadAnswer) -> list[Model]:
    """Return the options with a name that `allowed` lets change; with "" all of them."""
    return [
        {
            "name": f"term-{option.slash.name}",
            "label": re.sub("[Gg]pu", "GPU", option.key.replace("_", " ").capitalize()),
            "hint": option.slash.summary or option.help.replace("{whose}", "the task"),
            "now": option_in_words(option.key, spec.get(option.key)),
            "is_flag": option.form == "flag",
        }
        for option in options
        if option.slash is not None and (not allowed or allowed in option.allow)
    ]


CHANGE_PAGES: Final = (
    ConsolePage("/jobs/{job:int}/change", "job_change.html", show_change),
    ConsolePage("/jobs/{job:int}/tasks/{task:int}/change", "job_change.html", show_task_change),
)
