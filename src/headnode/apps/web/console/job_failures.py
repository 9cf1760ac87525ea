"""Why a job failed: its first failed tasks, their last lines, and what to change before it runs again."""

from collections.abc import Iterable
from typing import Any, Final

from headnode.apps.readable_values import memory, time_limit
from headnode.apps.web.console.job_output import END_OF_OUTPUT, OutputOf, output_of
from headnode.apps.web.console.visit import Model, Told, Visit

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


async def failures_of(visit: Visit, job: Told, *, may_read: bool) -> list[Model]:
    """Return the first failed tasks or instances, each with its node, its exit code and its last lines."""
    failed: list[Told] = (await visit.ask("tasks", job=job["id"], states=["Failed"], limit=FAILED_SHOWN))[
        "tasks"
    ]
    found = []
    for task in failed:
        one = task
        if "instances" in task:
            page = await visit.ask("tasks", job=job["id"], expand=task["task"], states=["Failed"], limit=1)
            one = page["tasks"][0] if page["tasks"] else task
        output = None
        if may_read:
            which = OutputOf(job["id"], one["task"], one["instance"])
            output = await output_of(visit, which, END_OF_OUTPUT // 4)
        found.append({"task": one, "output": output})
    return found


def advice(job: Told, failed: Iterable[Told]) -> list[Model]:
    """Return what to change, in sentences; with options where a press may submit the job so again."""
    found: dict[str, Model] = {}
    for task in failed:
        for one in _about(job, task):
            found.setdefault(one["text"], one)
    if not found:
        return [_point("Its last lines say more. Change the command or its input, then run it again.")]
    return list(found.values())


def _about(job: Told, task: Told) -> list[Model]:
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
        said = f"It needed more memory than it had; its peak was {memory(needed)}. With twice as much:"
        return [_point(said, estimatedprocessmemory=str(enough))]
    words = _BY_EXIT.get(task["exit_code"]) or _BY_SIGNAL.get(task["signal"])
    return [_point(words)] if words else []


def _point(text: str, **options: Any) -> Model:
    return {"text": text, "options": options}
