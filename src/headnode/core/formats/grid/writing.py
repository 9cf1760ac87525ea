"""Write grid descriptions of jobs, whose tasks are expanded first, and of single tasks."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from headnode.core.formats.fidelity import Fidelity, FidelityReport, LossReport, WrittenParts, lost_fields
from headnode.core.formats.grid.keys import ID, ITEM_ROWS, JOB_FIELDS, JOB_ROWS, TASK_ROWS
from headnode.core.formats.grid.reading import JOB, TASK
from headnode.core.formats.grid.requirement_reading import merged
from headnode.core.formats.grid.source import ATTEMPTS, BASE, connects
from headnode.core.formats.grid.task_writing import DefinitionWriter, RequirementWriter, extended, in_order
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import GroupEdge, JobSpec
from headnode.core.model.task import StagedFile, TaskSpec, TaskType, substitute

MAX_EXPANDED = 10_000  # tasks written for one sweep
MAX_CHILDREN = 200_000  # in one job
_NO_ID = re.compile(r"[^A-Za-z0-9_-]+")
_SWEPT = ("command", "standard_input", "standard_output", "standard_error", "work_directory")
_SHORT = 60  # characters of a name that become an id


class GridTask(msgspec.Struct):
    """A task as a grid job has it."""

    id: str
    task: TaskSpec
    children: list[str] = []


def grid_tasks(spec: JobSpec, losses: LossReport) -> list[GridTask]:
    """Return the tasks with ids and children.

    Raises:  BadRequest ``too-large`` when a sweep or the dependencies are too many to be written one by one.
    """
    taken: set[str] = {task.name for task in spec.tasks if ID.fullmatch(task.name)}
    given: set[str] = set()
    numbers: dict[str, int] = {}
    found: list[tuple[TaskSpec, list[GridTask]]] = []
    for number, task in enumerate(spec.tasks, 1):
        if task.kind not in (TaskType.BASIC, TaskType.SWEEP):
            what = f"a grid job has no {task.kind.value} tasks: it is left out"
            losses.add(Fidelity.NOT_SUPPORTED, called(number, task), what)
            continue
        ids = _TaskIds(number, task, taken, given, numbers, losses)
        found.append((task, [GridTask(ids.next(), one) for one in _instances(number, task, losses)]))
    _add_children(spec, found)
    return [one for _, instances in found for one in instances]


def called(number: int, task: TaskSpec) -> str:
    """Return how a report calls a task."""
    return f"task {task.name!r}" if task.name else f"task {number}"


class _TaskIds:
    """Gives the instances of a task their ids: the name, if it is one and still free.

    `numbers` holds the last number that was tried after each beginning, for all tasks of the job.
    """

    def __init__(
        self,
        number: int,
        task: TaskSpec,
        taken: set[str],
        given: set[str],
        numbers: dict[str, int],
        losses: LossReport,
    ) -> None:
        self._task, self._taken, self._given, self._numbers = task, taken, given, numbers
        self._stem = _NO_ID.sub("-", task.name)[:_SHORT].strip("-") or f"task-{number}"
        self._where, self._losses = called(number, task), losses

    def next(self) -> str:
        """Return an id that no other task has."""
        name = self._task.name
        single = self._task.kind is not TaskType.SWEEP
        if single and name not in self._given and ID.fullmatch(name):
            self._given.add(name)
            return name
        kind = Fidelity.APPROXIMATED if name else Fidelity.TRANSLATED
        own = self._free()
        what = "its name cannot be an id, or occurs twice: another id is used" if name else "an id is added"
        self._losses.add(kind, self._where, what)
        self._given.add(own)
        return own

    def _free(self) -> str:
        """Return the stem, or with the first number that makes it free."""
        sweep = self._task.kind is TaskType.SWEEP
        own = f"{self._stem}-1" if sweep else self._stem
        number = self._numbers.get(own, 1)
        while own in self._given or own in self._taken:
            number += 1
            own = f"{self._stem}-{number}"
        self._numbers[f"{self._stem}-1" if sweep else self._stem] = number
        return own


def _instances(number: int, task: TaskSpec, losses: LossReport) -> Iterator[TaskSpec]:
    if task.kind is not TaskType.SWEEP:
        yield task
        return
    if task.instances > MAX_EXPANDED:
        _refuse(f"task {number} has {task.instances} instances, which would each be written")
    losses.add(Fidelity.APPROXIMATED, called(number, task), "each instance of a sweep is written as a task")
    if task.distribution is not None:
        what = "distribution: the distribution of the instances of a sweep over nodes cannot be written"
        losses.add(Fidelity.NOT_SUPPORTED, called(number, task), what)
    for instance in range(1, task.instances + 1):
        value = task.value(instance)
        swept = {field: substitute(getattr(task, field), value) for field in _SWEPT}
        plain = {"kind": TaskType.BASIC, "start": 0, "end": 0, "increment": 1, "distribution": None}
        plain |= {field: _swept_files(getattr(task, field), value) for field in ("stage_in", "stage_out")}
        yield msgspec.structs.replace(task, **swept, **plain)


def _swept_files(files: tuple[StagedFile, ...], value: int) -> tuple[StagedFile, ...]:
    return tuple(
        msgspec.structs.replace(one, path=substitute(one.path, value), url=substitute(one.url, value))
        for one in files
    )


def _add_children(spec: JobSpec, found: Sequence[tuple[TaskSpec, list[GridTask]]]) -> None:
    by_name: dict[str, list[GridTask]] = {}
    by_group: dict[int, list[GridTask]] = {}
    for task, instances in found:
        by_name.setdefault(task.name, []).extend(instances)
        if task.group is not None:
            by_group.setdefault(task.group, []).extend(instances)
    awaited: dict[int, list[int]] = {}
    for edge in spec.group_edges:
        awaited.setdefault(edge.child, []).append(edge.parent)
    total = 0
    for task, instances in found:
        parents = [parent for name in task.depends_on for parent in by_name.get(name, ())]
        groups = awaited.get(task.group, ()) if task.group is not None else ()
        parents += [parent for group in groups for parent in by_group.get(group, ())]
        total += len(parents) * len(instances)
        if total > MAX_CHILDREN:
            _refuse(f"more than {MAX_CHILDREN} dependencies between single instances")
        for parent in {parent.id: parent for parent in parents}.values():
            parent.children = [*parent.children, *(one.id for one in instances)]


def _refuse(what: str) -> None:
    raise BadRequest(code="too-large", what=what, fix="write the job in the native form, or as hpcpack")


Found = dict[str, Any]
DIALECTS = {JOB: "grid job description", TASK: "grid task description"}
"""The dialects by the names that jobs and commands give them."""

_SAID = {
    *JOB_FIELDS.values(),
    *("requested_nodes", "minimum_memory", "minimum_processors_per_node", "single_node", "unit"),
    *("valid_exit_codes", "environment", "tasks", "group_edges", "properties", "extensions", "dialect"),
    *("fail_on_task_failure", "fail_dependent_tasks", "needs", "template"),
}
_SAID_INSIDE: WrittenParts = {GroupEdge: frozenset({"parent", "child"})}
_DEFAULTS = JobSpec()
_IN_TASKS = {
    "environment": "it is written for each task",
    "valid_exit_codes": "they are written for each task",
    "group_edges": "dependencies are between tasks (children)",
    "fail_dependent_tasks": "a task whose parent failed never runs",
}
"""Fields of a job that the tasks of a grid job say, and how."""


def write_job(spec: JobSpec, dialect: str = JOB) -> tuple[bytes, FidelityReport]:
    """Write a job as a grid job, or a job of one task as a grid task; say what the form cannot.

    Raises:  BadRequest ``dialect`` when there is no such dialect, ``no-tasks``, ``one-task`` when several
             tasks should become one, ``too-large``, ``not-unicode``.
    """
    if dialect not in DIALECTS:
        raise BadRequest(
            code="dialect", what=f"there is no grid dialect {dialect!r}", fix=f"write {', '.join(DIALECTS)}"
        )
    writer = _GridWriter(spec)
    found = writer.job() if dialect == JOB else writer.task()
    try:
        text = msgspec.json.format(msgspec.json.encode(found), indent=2)
    except UnicodeEncodeError as wrong:
        what = "a text of the job is not Unicode: it contains half of a surrogate pair"
        raise BadRequest(code="not-unicode", what=what, fix="correct the job's texts") from wrong
    return text + b"\n", writer.losses.report()


class _GridWriter:
    """Writes one job."""

    def __init__(self, spec: JobSpec) -> None:
        self._spec = spec
        self.losses = LossReport()
        self._needs = RequirementWriter(spec, self.losses)
        self._used = self._needs.used
        self._definitions = DefinitionWriter(spec, self._needs, self.losses)

    def job(self) -> Found:
        """Return the job as a grid job."""
        self._report_unwritten()
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
            **{key: getattr(self._spec, field) for key, field in JOB_FIELDS.items()},
            "tasks": [self._item(one, number) for number, one in enumerate(tasks, 1)],
            "requirements": self._needs.job,
            "meta": {**self._spec.properties, **values.get("meta", {})},
        }
        self._report_extensions("job", self._spec.extensions, self._used)
        return in_order(values, JOB_ROWS)

    def task(self) -> Found:
        """Return the one task as a grid task."""
        if len(self._spec.tasks) != 1 or self._spec.tasks[0].kind is not TaskType.BASIC:
            raise BadRequest(
                code="one-task",
                what=f"the job has {len(self._spec.tasks)} tasks, and one task is to be written",
                fix=f"write it as {JOB!r}",
            )
        self._report_unwritten()
        task = self._spec.tasks[0]
        found, used = self._definitions.write(task, "task")
        needs = merged(self._needs.job, found.get("requirements", {}))
        found |= {"description": found.get("description") or self._name(task), "requirements": needs}
        found |= {"meta": self._meta(task, found.get("meta", {}))}
        found.setdefault(BASE, self._spec.storage_base)
        found.setdefault(ATTEMPTS, self._spec.transfer_attempts)
        if not task.command:
            raise BadRequest(
                code="no-command",
                what="the task has no command",
                fix="write a command line, or write a grid job",
            )
        self._report_extensions("task", task.extensions, used)
        self._report_extensions("job", self._spec.extensions, self._used)
        return in_order(found, TASK_ROWS)

    def _meta(self, task: TaskSpec, kept: Found) -> Found:
        """Return the own words of the job and of the task, which are one object there."""
        words = {**self._spec.properties, **task.properties}
        if self._spec.properties:
            self.losses.add(
                Fidelity.TRANSLATED, "job", "properties: they are written as properties of the task"
            )
        if len(words) < len(self._spec.properties) + len(task.properties):
            what = "properties: a property of the job that the task also has is left out"
            self.losses.add(Fidelity.NOT_SUPPORTED, "job", what)
        return {**words, **kept}

    def _name(self, task: TaskSpec) -> str:
        """Return what a task on its own can be called by: it has no name, only a description."""
        name = task.name or self._spec.name
        if name:
            self.losses.add(Fidelity.APPROXIMATED, "task", "name: it is written as the description")
        return name

    def _report_unwritten(self) -> None:
        for field in lost_fields(self._spec, _DEFAULTS, _SAID, _SAID_INSIDE):
            self.losses.add(Fidelity.NOT_SUPPORTED, "job", f"{field}: a grid job has no such property")
        for field, how in _IN_TASKS.items():
            if getattr(self._spec, field) != getattr(_DEFAULTS, field):
                self.losses.add(Fidelity.TRANSLATED, "job", f"{field}: {how}")
        if any(task.group is not None for task in self._spec.tasks):
            self.losses.add(Fidelity.TRANSLATED, "job", "group: groups of tasks wait task by task (children)")
        several = len(self._spec.tasks) > 1 or any(task.instances > 1 for task in self._spec.tasks)
        if several and not self._spec.fail_on_task_failure:
            what = "fail_on_task_failure: the first failed task always fails a grid job"
            self.losses.add(Fidelity.APPROXIMATED, "job", what)

    def _together(self, ids: list[str], kept: list[list[str]] | None) -> Found:
        """Return the groups: those that were kept, if they say the same as the job does now."""
        known = kept is not None and all(name in ids for group in kept for name in group)
        if kept is not None and known and connects(kept, ids) is self._spec.single_node:
            return {}
        self._used.discard("groups")
        if not self._spec.single_node:
            return {"groups": None}
        if len(ids) > 1:
            self.losses.add(Fidelity.TRANSLATED, "job", "single_node: all tasks are in one group")
            return {"groups": [ids]}
        if any(task.minimum > 1 for task in self._spec.tasks):
            what = "single_node: the processors of one task may come from several nodes"
            self.losses.add(Fidelity.NOT_SUPPORTED, "job", what)
        return {"groups": None}

    def _item(self, one: GridTask, number: int) -> Found:
        where = called(number, one.task)
        definition, used = self._definitions.write(one.task, where)
        values, own = extended(one.task.extensions, "", ITEM_ROWS)
        if one.task.name and one.task.name != one.id:
            values.setdefault("description", one.task.name)
        values |= {"id": one.id, "children": one.children, "definition": definition}
        values["meta"] = {**one.task.properties, **values.get("meta", {})}
        self._report_extensions(where, one.task.extensions, used | own)
        return in_order(values, ITEM_ROWS)

    def _report_extensions(self, where: str, extensions: Mapping[str, str], used: set[str]) -> None:
        for name in extensions:
            if name not in used:
                what = f"extension {name[:80]!r}: a grid description has no place for it"
                self.losses.add(Fidelity.NOT_SUPPORTED, where, what)
