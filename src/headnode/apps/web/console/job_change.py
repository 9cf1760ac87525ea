"""The pages that change the options of a job or a task: those that its state lets change, as they are now."""

from collections.abc import Iterable
from typing import Final

from headnode.apps.cli.screens.job import option_in_words
from headnode.apps.web.console.job import frame
from headnode.apps.web.console.site import ConsolePage
from headnode.apps.web.console.visit import Model, Told, Visit
from headnode.core.model.field_rows import QUEUED, RUNNING, JobOption
from headnode.core.model.fields import OPTIONS_OF_JOBS, OPTIONS_OF_TASKS


async def show_change(visit: Visit) -> Model:
    """Return the options of a job that may change in its state."""
    shown = await frame(visit)
    running = shown["job"]["state"] in ("Running", "Suspended")
    options = _options(OPTIONS_OF_JOBS, RUNNING if running else QUEUED, shown["job"]["spec"])
    return shown | {"options": options, "change_path": f"/jobs/{shown['id']}/change", "task": None}


async def show_task_change(visit: Visit) -> Model:
    """Return the options of a task, which may change before its job is submitted."""
    shown = await frame(visit, "tasks")
    number = visit.request.path_params["task"]
    task = (await visit.ask("task", job=shown["id"], task=number))["task"]
    return shown | {
        "options": _options(OPTIONS_OF_TASKS, "", task["spec"]),
        "change_path": f"/jobs/{shown['id']}/tasks/{number}/change",
        "task": number,
        "command": task["command"],
    }


def _options(options: Iterable[JobOption], allowed: str, spec: Told) -> list[Model]:
    """Return the options with a name that `allowed` lets change; with "" all of them."""
    return [
        {
            "name": f"term-{option.slash.name}",
            "label": option.key.replace("_", " ").capitalize(),
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
