"""Writing grid descriptions of jobs and of single tasks.

Source: grid; the schemas of the Pilot service.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from headnode.core.formats.fidelity import Kind, Report, lost_fields
from headnode.core.formats.grid.expanding import GridTask, called, grid_tasks
from headnode.core.formats.grid.graph import connects
from headnode.core.formats.grid.keys import ITEM_ROWS, JOB_ROWS, TASK_ROWS
from headnode.core.formats.grid.losses import Losses
from headnode.core.formats.grid.needs import merged
from headnode.core.formats.grid.needs_writing import NeedsWriter, extended, in_order
from headnode.core.formats.grid.reading import JOB, TASK
from headnode.core.formats.grid.task_writing import DefinitionWriter
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec
from headnode.core.model.task import TaskSpec, TaskType

Found = dict[str, Any]
DIALECTS = {JOB: "grid job description", TASK: "grid task description"}
"""The dialects by the names that jobs and commands give them."""

_SAID = {
    *("name", "requested_nodes", "minimum_memory", "minimum_processors_per_node", "single_node", "unit"),
    *("valid_exit_codes", "environment", "tasks", "group_edges", "properties", "extensions", "dialect"),
    *("fail_on_task_failure", "fail_dependent_tasks", "needs", "template"),
}
_DEFAULTS = JobSpec()
_IN_TASKS = {
    "environment": "it is written for each task",
    "valid_exit_codes": "they are written for each task",
    "group_edges": "dependencies are between tasks (children)",
    "fail_dependent_tasks": "a task whose parent failed never runs",
}
"""Fields of a job that the tasks of a grid job say, and how."""


def write_job(spec: JobSpec, dialect: str = JOB) -> tuple[bytes, Report]:
    """Write a job as a grid job, or a job of one task as a grid task; say what the form cannot.

    Raises:  BadRequest ``dialect`` when there is no such dialect, ``no-tasks``, ``one-task`` when several
             tasks should become one, ``too-large``, ``not-unicode``.
    """
    if dialect not in DIALECTS:
        raise BadRequest(
            code="dialect", what=f"there is no grid dialect {dialect!r}", fix=f"write {', '.join(DIALECTS)}"
        )
    writer = _Writer(spec)
    found = writer.job() if dialect == JOB else writer.task()
    try:
        text = msgspec.json.format(msgspec.json.encode(found), indent=2)
    except UnicodeEncodeError as wrong:
        what = "a text of the job is not Unicode: it contains half of a surrogate pair"
        raise BadRequest(code="not-unicode", what=what, fix="correct the job's texts") from wrong
    return text + b"\n", writer.losses.report()


class _Writer:
    """Writes one job."""

    def __init__(self, spec: JobSpec) -> None:
        self._spec = spec
        self.losses = Losses()
        self._needs = NeedsWriter(spec, self.losses)
        self._used = self._needs.used
        self._definitions = DefinitionWriter(spec, self._needs, self.losses)

    def job(self) -> Found:
        """Return the job as a grid job."""
        self._tell_unsaid()
        tasks = grid_tasks(self._spec, self.losses)
        if not tasks:
            raise BadRequest(
                code="no-tasks", what="the job has no task, and a grid job has one or more", fix="add a task"
            )
        values, used = extended(self._spec.extensions, "", JOB_ROWS)
        self._used |= used
        values |= self._together([one.id for one in tasks], values.get("groups"))
        values |= {
            "version": 2,
            "description": self._spec.name,
            "tasks": [self._item(one, number) for number, one in enumerate(tasks, 1)],
            "requirements": self._needs.job,
            "meta": {**self._spec.properties, **values.get("meta", {})},
        }
        self._tell_extensions("job", self._spec.extensions, self._used)
        return in_order(values, JOB_ROWS)

    def task(self) -> Found:
        """Return the one task as a grid task."""
        if len(self._spec.tasks) != 1 or self._spec.tasks[0].kind is not TaskType.BASIC:
            raise BadRequest(
                code="one-task",
                what=f"the job has {len(self._spec.tasks)} tasks, and one task is to be written",
                fix=f"write it as {JOB!r}",
            )
        self._tell_unsaid()
        task = self._spec.tasks[0]
        found, used = self._definitions.write(task, "task")
        needs = merged(self._needs.job, found.get("requirements", {}))
        found |= {"description": found.get("description") or self._name(task), "requirements": needs}
        found |= {"meta": self._meta(task, found.get("meta", {}))}
        if not task.command:
            raise BadRequest(
                code="no-command",
                what="the task has no command",
                fix="write a command line, or write a grid job",
            )
        self._tell_extensions("task", task.extensions, used)
        self._tell_extensions("job", self._spec.extensions, self._used)
        return in_order(found, TASK_ROWS)

    def _meta(self, task: TaskSpec, kept: Found) -> Found:
        """Return the own words of the job and of the task, which are one object there."""
        words = {**self._spec.properties, **task.properties}
        if self._spec.properties:
            self.losses.add(Kind.TRANSLATED, "job", "properties: they are written as properties of the task")
        if len(words) < len(self._spec.properties) + len(task.properties):
            what = "properties: a property of the job that the task also has is left out"
            self.losses.add(Kind.NOT_SUPPORTED, "job", what)
        return {**words, **kept}

    def _name(self, task: TaskSpec) -> str:
        """Return what a task on its own can be called by: it has no name, only a description."""
        name = task.name or self._spec.name
        if name:
            self.losses.add(Kind.APPROXIMATED, "task", "name: it is written as the description")
        return name

    def _tell_unsaid(self) -> None:
        for field in lost_fields(self._spec, _DEFAULTS, _SAID):
            self.losses.add(Kind.NOT_SUPPORTED, "job", f"{field}: a grid job has no such property")
        for field, how in _IN_TASKS.items():
            if getattr(self._spec, field) != getattr(_DEFAULTS, field):
                self.losses.add(Kind.TRANSLATED, "job", f"{field}: {how}")
        if any(task.group is not None for task in self._spec.tasks):
            self.losses.add(Kind.TRANSLATED, "job", "group: groups of tasks wait task by task (children)")
        several = len(self._spec.tasks) > 1 or any(task.instances > 1 for task in self._spec.tasks)
        if several and not self._spec.fail_on_task_failure:
            what = "fail_on_task_failure: the first failed task always fails a grid job"
            self.losses.add(Kind.APPROXIMATED, "job", what)

    def _together(self, ids: list[str], kept: list[list[str]] | None) -> Found:
        """Return the groups: those that were kept, if they say the same as the job does now."""
        known = kept is not None and all(name in ids for group in kept for name in group)
        if kept is not None and known and connects(kept, ids) is self._spec.single_node:
            return {}
        self._used.discard("groups")
        if not self._spec.single_node:
            return {"groups": None}
        if len(ids) > 1:
            self.losses.add(Kind.TRANSLATED, "job", "single_node: all tasks are in one group")
            return {"groups": [ids]}
        if any(task.minimum > 1 for task in self._spec.tasks):
            what = "single_node: the processors of one task may come from several nodes"
            self.losses.add(Kind.NOT_SUPPORTED, "job", what)
        return {"groups": None}

    def _item(self, one: GridTask, number: int) -> Found:
        where = called(number, one.task)
        definition, used = self._definitions.write(one.task, where)
        values, own = extended(one.task.extensions, "", ITEM_ROWS)
        if one.task.name and one.task.name != one.id:
            values.setdefault("description", one.task.name)
        values |= {"id": one.id, "children": one.children, "definition": definition}
        values["meta"] = {**one.task.properties, **values.get("meta", {})}
        self._tell_extensions(where, one.task.extensions, used | own)
        return in_order(values, ITEM_ROWS)

    def _tell_extensions(self, where: str, extensions: Mapping[str, str], used: set[str]) -> None:
        for name in extensions:
            if name not in used:
                what = f"extension {name[:80]!r}: a grid description has no place for it"
                self.losses.add(Kind.NOT_SUPPORTED, where, what)
