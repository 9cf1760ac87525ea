"""Write a job as a submit file of HTCondor; say what the language cannot.

The commands are in `command_lines`.
"""

from typing import Final

from msgspec.structs import replace

from headnode.core.formats.condor.command_lines import (
    WRITTEN_OF_JOB,
    WRITTEN_OF_TASK,
    WRITTEN_PARTS,
    commands_of_job,
    queue_of,
)
from headnode.core.formats.condor.task_lines import commands_of_task
from headnode.core.formats.fidelity import Fidelity, FidelityReport, LossReport, lost_fields
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec
from headnode.core.model.task import TaskSpec, TaskType

Written = tuple[bytes, FidelityReport]
_JOB, _TASK = JobSpec(), TaskSpec()
_OF_PROCESSES: Final = frozenset((
    *("name", "command", "kind", "start", "end", "increment", "standard_input", "standard_output"),
    *("standard_error", "work_directory", "environment", "run_time", "stage_in", "stage_out", "script"),
    "properties",
))  # fmt: skip
"""What may differ between the tasks of one submit file: each has its own queue command."""


def write_submit(spec: JobSpec) -> Written:
    """Return a submit file.

    Raises:  BadRequest ``one-task`` when the tasks of the job wait for each other or ask for different
             things.
    """
    losses = LossReport()
    _refuse_different(spec)
    for field in lost_fields(spec, _JOB, WRITTEN_OF_JOB, WRITTEN_PARTS):
        losses.add(Fidelity.NOT_SUPPORTED, "job", f"{field}: a submit file has no such command")
    for task in spec.tasks:
        for field in lost_fields(task, _TASK, WRITTEN_OF_TASK, WRITTEN_PARTS):
            losses.add(Fidelity.NOT_SUPPORTED, "task", f"{field}: a submit file has no such command")
    written: dict[str, str] = {}
    lines = _lines(commands_of_job(spec, losses), written)
    for task in spec.tasks:
        lines += _lines(commands_of_task(spec, task, losses), written)
        lines.append(queue_of(spec, task))
    return "".join(f"{line}\n" for line in lines).encode(), losses.report()


def _lines(commands: dict[str, str], written: dict[str, str]) -> list[str]:
    """Return the lines for commands that are not written so already."""
    found = [f"{name} = {text}".rstrip() for name, text in commands.items() if written.get(name, "") != text]
    written.update(commands)
    return found


def _refuse_different(spec: JobSpec) -> None:
    if not spec.tasks:
        raise BadRequest(code="no-tasks", what="the job has no task", fix="add one")
    if not all(task.command.strip() for task in spec.tasks):
        raise BadRequest(code="no-command", what="a task has no command line", fix="give it one")
    kinds = {task.kind for task in spec.tasks}
    first = spec.tasks[0]
    same = all(_alike(first, task) for task in spec.tasks[1:])
    waits = any(task.depends_on for task in spec.tasks) or spec.group_edges
    if waits or not same or not kinds <= {TaskType.BASIC, TaskType.SWEEP}:
        raise BadRequest(
            code="one-task",
            what="the processes of a submit file do not wait for each other, and all request the same; these "
            "tasks do not",
            fix="write the job as native or hpcpack, or each task into a job of its own",
        )


def _alike(one: TaskSpec, other: TaskSpec) -> bool:
    return replace(one, **{field: getattr(other, field) for field in _OF_PROCESSES}) == other
