"""The tasks of any job as tasks of a grid job: each with an id, none a sweep, each with its children."""

import re
from collections.abc import Iterator, Sequence

import msgspec

from headnode.core.formats.fidelity import Kind
from headnode.core.formats.grid.losses import Losses
from headnode.core.formats.grid.values import ID
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec
from headnode.core.model.sweep import substitute
from headnode.core.model.task import TaskSpec, TaskType

MOST_EXPANDED = 10_000  # tasks written for one sweep
MOST_CHILDREN = 200_000  # in one job
_NO_ID = re.compile(r"[^A-Za-z0-9_-]+")
_SWEPT = ("command", "standard_input", "standard_output", "standard_error", "work_directory")
_SHORT = 60  # characters of a name that become an id


class GridTask(msgspec.Struct):
    """A task as a grid job has it."""

    id: str
    task: TaskSpec
    children: list[str] = []


def grid_tasks(spec: JobSpec, losses: Losses) -> list[GridTask]:
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
            losses.add(Kind.NOT_SUPPORTED, called(number, task), what)
            continue
        ids = _Ids(number, task, taken, given, numbers, losses)
        found.append((task, [GridTask(ids.next(), one) for one in _instances(number, task, losses)]))
    _add_children(spec, found)
    return [one for _, instances in found for one in instances]


def called(number: int, task: TaskSpec) -> str:
    """Return how a report calls a task."""
    return f"task {task.name!r}" if task.name else f"task {number}"


class _Ids:
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
        losses: Losses,
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
        kind = Kind.APPROXIMATED if name else Kind.TRANSLATED
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


def _instances(number: int, task: TaskSpec, losses: Losses) -> Iterator[TaskSpec]:
    if task.kind is not TaskType.SWEEP:
        yield task
        return
    if task.instances > MOST_EXPANDED:
        _refuse(f"task {number} has {task.instances} instances, which would each be written")
    losses.add(Kind.APPROXIMATED, called(number, task), "each instance of a sweep is written as a task")
    if task.distribution is not None:
        what = "distribution: the distribution of the instances of a sweep over nodes cannot be written"
        losses.add(Kind.NOT_SUPPORTED, called(number, task), what)
    for instance in range(1, task.instances + 1):
        value = task.value(instance)
        swept = {field: substitute(getattr(task, field), value) for field in _SWEPT}
        plain = {"kind": TaskType.BASIC, "start": 0, "end": 0, "increment": 1, "distribution": None}
        yield msgspec.structs.replace(task, **swept, **plain)


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
        if total > MOST_CHILDREN:
            _refuse(f"more than {MOST_CHILDREN} dependencies between single instances")
        for parent in {parent.id: parent for parent in parents}.values():
            parent.children = [*parent.children, *(one.id for one in instances)]


def _refuse(what: str) -> None:
    raise BadRequest(code="too-large", what=what, fix="write the job in the native form, or as hpcpack")
