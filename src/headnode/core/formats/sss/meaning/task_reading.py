"""Task groups and their tasks become tasks of a job.

Source: SSS 3.1.0, "TaskGroup and TaskGroupDefaults", "Task and TaskDefaults".
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from headnode.core.formats.fidelity import Awareness, Kind
from headnode.core.formats.sss.conditions import Distribution, DistributionKind
from headnode.core.formats.sss.inheritance import EffectiveTaskGroup
from headnode.core.formats.sss.job_object import Job, Scope, Task, TaskGroup, TaskRef
from headnode.core.formats.sss.meaning.findings import Findings
from headnode.core.formats.sss.meaning.keeping import extensions_of, named
from headnode.core.formats.sss.meaning.programs import program_of
from headnode.core.formats.sss.meaning.requesting import Asking, Taken, take
from headnode.core.formats.sss.meaning.rows import Role, meaning_of
from headnode.core.formats.sss.meaning.sizes import Part
from headnode.core.formats.sss.meaning.streams import home, streams_of
from headnode.core.formats.sss.meaning.walking import Walk
from headnode.core.formats.sss.meaning.wishes import Bounds, Wishes
from headnode.core.formats.sss.properties import Envelope, Property
from headnode.core.formats.sss.rows import Place
from headnode.core.formats.sss.streams import Environment
from headnode.core.formats.sss.tables import ROWS
from headnode.core.model.errors import BadRequest
from headnode.core.model.task import MOST_INSTANCES, TaskType

Fields = dict[str, Any]
_PATHS = ("command", "standard_input", "standard_output", "standard_error", "work_directory")
_SWEPT = re.compile(r"[*^]")
_NOTHING = Wishes()
_MANY = {row.name for row in ROWS if row.many}


class Read(NamedTuple):
    """A task to be: its fields, what it asks for, and what it asks for beyond its job."""

    fields: Fields
    part: Part
    own: Wishes


class TaskReader:
    """Reads the task groups of one job; `scripts` are the bodies of Files by their ids."""

    def __init__(
        self, job: Job, wishes: Wishes, scripts: Mapping[str, str], policy: Awareness, findings: Findings
    ) -> None:
        self._job, self._wishes, self._scripts = job, wishes, dict(scripts)
        self._policy, self._findings = policy, findings

    def group(self, group: EffectiveTaskGroup, where: str) -> Iterator[Read]:
        """Yield the tasks of a task group: one for all its instances, or one for each that differs.

        Raises:  BadRequest ``interactive``, ``too-many-instances``, and as `take`.
        """
        own = group.task_group
        policy = own.awareness or self._policy
        walk = Walk(Place.TASK_GROUP, where, policy, self._findings)
        walk.over(own, own.properties)
        taken = take(Asking(own, Place.TASK_GROUP, where, policy, self._findings))
        wishes = _over(taken.wishes, self._wishes)
        for number, (task, count) in enumerate(self._different(group, where)):
            kept = Walk(Place.TASK, where, task.awareness or policy, self._findings)
            own_task = _beyond(task, group.within)
            kept.over(task, own_task.properties)
            asked = take(Asking(own_task, Place.TASK, where, task.awareness or policy, self._findings))
            each = asked.wishes.processors or _each(own)
            nearer = (*kept.kept, *asked.kept.properties)
            hidden = {one.name for one in nearer} - _MANY | ({"Id"} if number else set())
            of_group = (one for one in (*walk.kept, *taken.kept.properties) if one.name not in hidden)
            rest = TaskGroup(
                properties=(*of_group, *nearer),
                requested=asked.kept.requested or taken.kept.requested,
                kept=own.kept,
            )
            fields = self._fields(task, group, rest, count, where)
            part = Part(where, _over(replace(asked.wishes, processors=None), wishes), count, each)
            mine = _over(asked.wishes, taken.wishes)
            yield Read(fields, self._told_size(part, taken), mine)

    def _told_size(self, part: Part, taken: Taken) -> Part:
        """Return the part as asked for by its own group: what only the job says is the job's."""
        own = replace(part.asked, processors=taken.wishes.processors, nodes=taken.wishes.nodes)
        return part._replace(asked=own)

    def _different(self, group: EffectiveTaskGroup, where: str) -> Iterator[tuple[Task, int]]:
        """Yield the tasks that differ in more than where they ran, with the number of each."""
        tasks = [task for task in group.tasks if isinstance(task, Task)]
        for task in group.tasks:
            if isinstance(task, TaskRef):
                what = f"task {task.id!r} is defined elsewhere: it is not run"
                self._findings.unsupported(task.awareness or self._policy, where, what)
        count = group.count if len(tasks) == len(group.tasks) else min(group.count, len(tasks))
        if count > MOST_INSTANCES:
            raise BadRequest(
                code="too-many-instances",
                what=f"{where}: TaskCount {count} is more than a task may have instances",
                fix=f"write {MOST_INSTANCES} or less",
            )
        if not tasks or count == 0:
            return
        if all(_essence(task) == _essence(tasks[0]) for task in tasks):
            yield tasks[0], count
            return
        yield from ((task, 1) for task in tasks)
        if count > len(tasks):
            yield (
                Task(properties=group.within.properties, requested=group.within.requested),
                count - len(tasks),
            )

    def _fields(
        self, task: Task, group: EffectiveTaskGroup, rest: TaskGroup, count: int, where: str
    ) -> Fields:
        refuse_interactive(task, where)
        executable, arguments, shell = (
            str(task.value(name) or "") for name in ("Executable", "Arguments", "Shell")
        )
        program = program_of(executable, arguments, shell, self._scripts)
        streams = streams_of(task)
        for what in filter(None, (program.changed, *streams.translated)):
            self._findings.add(Kind.TRANSLATED, where, what)
        if program.lost:
            self._findings.unsupported(self._policy, where, program.lost)
        for one in streams.unsaid:
            words = ", ".join(one.redirects)
            self._findings.unsupported(
                one.awareness or self._policy, where, f"{one.name}: not all of {words}"
            )
        command = program.command + streams.ending if program.command else ""
        own = _beyond(task, group.within)
        ours = named((*group.task_group.properties, *own.properties))
        fields: Fields = {
            "name": str(own.value("Name") or group.task_group.name),
            "command": command,
            "work_directory": home(str(task.value("InitialWorkingDirectory") or "")),
            "rerunnable": self._restartable(task, group.task_group),
            "environment": environment_of(group.task_group) | environment_of(own),
            "extensions": extensions_of(rest) | ours.extensions,
            "properties": ours.properties,
            **streams.fields,
        }
        return _sweep(fields, count) if count != 1 else fields

    def _restartable(self, task: Task, group: TaskGroup) -> bool:
        said = (part.value("Restartable") for part in (task, group, self._job))
        return next((bool(value) for value in said if value is not None), False)


def refuse_interactive(scope: Scope, where: str) -> None:
    """Refuse a job or task that is interactive.

    Raises:  BadRequest ``interactive``.
    """
    if scope.value("Interactive"):
        raise BadRequest(
            code="interactive",
            what=f"{where}: the job is interactive, and Headnode has no interactive jobs",
            fix="write Interactive false, or leave it out",
        )


def _each(group: TaskGroup) -> Bounds | None:
    """Return the processors of each task, when a TaskDistribution says so."""
    for one in group.properties:
        if isinstance(one, Distribution) and one.kind is DistributionKind.PROCESSORS_PER_TASK:
            return one.number, one.number
    return None


def _over(own: Wishes, far: Wishes) -> Wishes:
    """Return what `own` asks for, and `far` where it asks for nothing."""
    said = {
        field: value
        for field in own.__struct_fields__
        if (value := getattr(own, field)) != getattr(_NOTHING, field)
    }
    return replace(far, **said)


def _beyond(task: Task, within: TaskGroup) -> Task:
    """Return what a task says beyond its group."""
    inside = within.requested.properties if within.requested else ()
    asked = tuple(one for one in (task.requested.properties if task.requested else ()) if one not in inside)
    return replace(
        task,
        properties=tuple(_own(task.properties, within.properties)),
        requested=replace(task.requested, properties=asked) if task.requested and asked else None,
    )


def _own(properties: Sequence[Property], outer: Sequence[Property]) -> Iterator[Property]:
    around = {one.name: one for one in outer if isinstance(one, Environment)}
    for one in properties:
        if one in outer or (one.name == "Node" and one.name in _OUTCOMES):
            continue
        if isinstance(one, Environment) and one.name in around:
            known = around[one.name].variables
            yield replace(one, variables=tuple(each for each in one.variables if each not in known))
        else:
            yield one


_OUTCOMES = [
    name for name in ("Id", "Node", "Session", "Process") if meaning_of(name, Place.TASK).role is Role.OUTCOME
]


def _essence(task: Task) -> tuple[tuple[Property, ...], Envelope | None]:
    """Return what makes a task another one: not its number, nor where it ran."""
    return tuple(one for one in task.properties if one.name not in _OUTCOMES), task.requested


def environment_of(scope: Scope) -> dict[str, str]:
    """Return the variables that `scope` itself sets."""
    return {
        one.name: one.value
        for found in scope.properties
        if isinstance(found, Environment)
        for one in found.variables
    }


def _sweep(fields: Fields, count: int) -> Fields:
    """Return the fields of a task of `count` instances, in which no asterisk stands for their number."""
    texts = {name: _SWEPT.sub(r"^\g<0>", fields[name]) for name in _PATHS if fields.get(name)}
    return fields | texts | {"kind": TaskType.SWEEP, "start": 1, "end": count}
