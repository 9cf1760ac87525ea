"""Task groups and their tasks as tasks of a job."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import msgspec
from msgspec.structs import replace

from headnode.core.formats.fidelity import Awareness
from headnode.core.formats.sss.constraints import Bounds
from headnode.core.formats.sss.conversion.extensions import ConversionFindings, extensions_of, own_extensions
from headnode.core.formats.sss.conversion.programs import home, limits_of, program_of, streams_of
from headnode.core.formats.sss.conversion.request_reading import (
    ANYTHING,
    AcceptedRequest,
    RequestOption,
    accept_request,
)
from headnode.core.formats.sss.conversion.resource_reading import SizedTask
from headnode.core.formats.sss.conversion.resource_table import with_rest
from headnode.core.formats.sss.conversion.simple_fields import SortedScope, distribution_of, each_of, numbered
from headnode.core.formats.sss.job_object import (
    EffectiveTaskGroup,
    Task,
    TaskGroup,
    TaskRef,
    not_overridden,
)
from headnode.core.formats.sss.properties import (
    Environment,
    SssCategory,
    SssDistribution,
    SssProperty,
    SssStream,
    Value,
)
from headnode.core.formats.sss.property_rows import OUTCOMES, ROWS, ElementPlace, meaning_of
from headnode.core.model.errors import BadRequest
from headnode.core.model.task import MAX_INSTANCES, ResourceLimit, TaskType
from headnode.core.model.task import Distribution as Placed

Fields = dict[str, Any]
_COUNTED = ("processors", "nodes")
_PATHS = ("command", "standard_input", "standard_output", "standard_error", "work_directory")


Ways = list[tuple[RequestOption, ...]]
"""The ways of each scope: of the job, of its task groups and of their tasks."""


class TaskDraft(msgspec.Struct, frozen=True):
    """A task to be: its fields, and the numbers of the scopes that ask for its group and for itself."""

    fields: Fields
    findings: ConversionFindings
    instances: int
    each: Bounds | None
    distribution: Placed | None
    group: int
    task: int
    sharing: int = 1  # instances of its task group

    def part(self, ways: Ways, choice: Sequence[int], which: str) -> SizedTask:
        """Return what it asks for when of each scope the way is taken that `choice` says.

        `which` is what the report adds to the place for this alternative.
        """
        findings = self.findings.at(f"{self.findings.where}{which}") if which else self.findings
        job, group = ways[0][choice[0]].request, ways[self.group][choice[self.group]].request
        own, each = group, self.each
        if self.task != self.group:
            task = dict(ways[self.task][choice[self.task]].request)
            each = task.pop("processors", each)
            own = with_rest(task, group)
        asked = with_rest(own, {field: value for field, value in job.items() if field not in _COUNTED})
        if own is not group:
            asked |= {"nodes": group.get("nodes")}
        return SizedTask(findings, asked, own, self.instances, each, self.distribution, self.sharing)


class TaskExtras(msgspec.Struct, frozen=True, gc=False):
    """What a task says beyond its group: all of it, what of that is kept, what it asks for, its limits."""

    task: Task = Task()
    kept: tuple[SssProperty, ...] = ()
    taken: AcceptedRequest = ANYTHING
    limits: tuple[ResourceLimit, ...] = ()


NO_EXTRAS = TaskExtras()


class SssTaskReader:
    """Reads the task groups of one job; `scripts` are the bodies of Files by their ids.

    What the task groups and their tasks ask for is added to `ways`.
    """

    def __init__(
        self,
        job: Mapping[str, Value],
        ways: Ways,
        scripts: Mapping[str, str],
        policy: Awareness,
    ) -> None:
        self._job, self._ways, self._scripts = job, ways, scripts
        self._policy = policy

    def group(self, group: EffectiveTaskGroup, findings: ConversionFindings) -> Iterator[TaskDraft]:
        """Yield the tasks of a task group: one for all its instances, or one for each that differs.

        Raises:  BadRequest ``interactive``, ``too-many-instances``, and as `accept_request`.
        """
        own = group.task_group
        scope = SortedScope(own, ElementPlace.TASK_GROUP, self._policy, findings)
        taken, values = accept_request(scope), scope.values
        limits = limits_of(scope)
        number_of_group = inner = self._added(taken.options)
        different = self._different(group, values, findings)
        sharing = sum([count for _, count in different])
        laid = [one for one in group.within.properties if type(one) is SssDistribution]
        placed, each = (distribution_of(laid), each_of(laid)) if laid else (None, None)
        kept = (*scope.kept, *taken.outside)
        more = NO_EXTRAS
        for number, (task, count) in enumerate(different):
            if not group.silent:
                more = self._more(task, group.within, scope.policy, findings)
                inner = self._added(more.taken.options)
            rest = _rest(own, kept, taken, more, first=not number)
            fields = self._fields(task, more.task, own, values, findings)
            fields["extensions"] = (
                extensions_of(rest) | fields["extensions"] if rest else fields["extensions"]
            )
            fields["resource_limits"] = _nearest(more.limits, limits)
            if count != 1:
                _sweep(fields, count)
            yield TaskDraft(fields, findings, count, each, placed, number_of_group, inner, sharing)

    def _more(
        self, task: Task, within: TaskGroup, policy: Awareness, findings: ConversionFindings
    ) -> TaskExtras:
        """Return what a task says beyond its group."""
        own = _beyond(task, within)
        scope = SortedScope(own, ElementPlace.TASK, policy, findings)
        taken = accept_request(scope)
        limits = limits_of(scope)
        return TaskExtras(own, (*scope.kept, *taken.outside), taken, limits)

    def _added(self, options: tuple[RequestOption, ...]) -> int:
        self._ways.append(options)
        return len(self._ways) - 1

    def _different(
        self, group: EffectiveTaskGroup, values: Mapping[str, Value], findings: ConversionFindings
    ) -> list[tuple[Task, int]]:
        """Return the tasks that differ in more than where they ran, with the number of each."""
        tasks = [task for task in group.tasks if isinstance(task, Task)]
        if len(tasks) < len(group.tasks):
            self._report_elsewhere(group.tasks, findings)
        written = values.get("TaskCount")
        count = written if isinstance(written, int) else len(group.tasks)
        if len(tasks) < len(group.tasks):
            count = min(count, len(tasks))
        if written is None and group.written and len(group.tasks) == 1:
            count = numbered(group.within.properties) or count
        if count > MAX_INSTANCES:
            raise BadRequest(
                code="too-many-instances",
                what=f"{findings.where}: TaskCount {count} is more than a task may have instances",
                fix=f"write {MAX_INSTANCES} or less",
                path=("TaskCount",),
            )
        if count == 0:
            findings.approximated("TaskCount 0: nothing of the task group is run")
        if not tasks or count == 0:
            return []
        if len(tasks) == 1 or len({_essence(task) for task in tasks}) == 1:
            return [(tasks[0], count)]
        counted = [(task, 1) for task in tasks]
        if count > len(tasks):
            others = Task(properties=group.within.properties, requested=group.within.requested)
            counted.append((others, count - len(tasks)))
        return counted

    def _report_elsewhere(self, tasks: Iterable[Task | TaskRef], findings: ConversionFindings) -> None:
        for task in tasks:
            if isinstance(task, TaskRef):
                what = f"task {task.id!r} is defined elsewhere: it is not run"
                findings.unsupported(task.awareness or self._policy, what)

    def _fields(
        self, task: Task, own: Task, group: TaskGroup, of: Mapping[str, Value], findings: ConversionFindings
    ) -> Fields:
        """Return the fields of `task`, which says `own` beyond its `group`, whose values are `of`."""
        values = task.values()
        if values.get("Interactive") and not self._job.get("Interactive"):
            refuse_interactive(findings.where)
        command, streams = self._run(task, values, findings)
        properties = (*group.properties, *own.properties) if own.properties else group.properties
        structured = [one for one in properties if type(one) is not SssProperty]
        ours = own_extensions(structured)
        return {
            "name": str(own.value("Name") or of.get("Name") or ""),
            "command": command,
            "work_directory": home(str(values.get("InitialWorkingDirectory") or "")),
            "rerunnable": _is_restartable(values, of, self._job),
            "environment": environment_of(structured),
            "extensions": ours.extensions,
            "properties": ours.properties,
            **streams,
        }

    def _run(
        self, task: Task, values: Mapping[str, Value], findings: ConversionFindings
    ) -> tuple[str, Mapping[str, str | bool]]:
        """Return the command line of a task, and the fields of its streams."""
        executable, arguments = str(values.get("Executable") or ""), str(values.get("Arguments") or "")
        program = program_of(executable, arguments, str(values.get("Shell") or ""), self._scripts)
        streams = streams_of(task.structured().get(SssStream, ()))
        for what in (program.changed, *streams.translated):
            if what:
                findings.translated(what)
        if program.lost:
            name = "Executable" if executable else "Arguments"
            findings.unsupported(self._policy, program.lost, name)
        for one in streams.unsaid:
            redirects = ", ".join(one.redirects)
            policy = one.awareness or self._policy
            findings.unsupported(policy, f"{one.name}: not all of {redirects}", one.name)
        return program.command, streams.fields


def _is_restartable(*scopes: Mapping[str, Value]) -> bool:
    """Return True if the nearest scope that defines the property sets it to True."""
    for values in scopes:
        value = values.get("Restartable")
        if value is not None:
            return bool(value)
    return False


def _rest(
    own: TaskGroup, kept: Sequence[SssProperty], taken: AcceptedRequest, more: TaskExtras, *, first: bool
) -> TaskGroup | None:
    """Return what must be kept of a task group and of what one of its tasks says `more`; None: nothing."""
    if not (kept or more.kept or more.taken.requested or taken.requested or own.kept):
        return None
    own_kept = [one for one in not_overridden(kept, more.kept) if first or one.name != "Id"]
    return TaskGroup(
        properties=(*own_kept, *more.kept),
        requested=more.taken.requested or taken.requested,
        kept=own.kept,
    )


def _nearest(own: tuple[ResourceLimit, ...], group: tuple[ResourceLimit, ...]) -> tuple[ResourceLimit, ...]:
    """Return the limits of a group, with those of its task in place of those of the same name."""
    if not own:
        return group
    names = {one.name for one in own}
    return (*(one for one in group if one.name not in names), *own)


def refuse_interactive(where: str) -> NoReturn:
    """Refuse a task that is interactive: jobs are, as a whole.

    Raises:  BadRequest ``interactive``, always.
    """
    raise BadRequest(
        code="interactive",
        what=f"{where}: Interactive true: a task alone cannot be interactive",
        fix="write it as a property of the job, which then has this one task",
        path=("Interactive",),
    )


def _beyond(task: Task, within: TaskGroup) -> Task:
    """Return what a task says beyond its group."""
    inside = within.requested.properties if within.requested else ()
    asked = tuple(one for one in (task.requested.properties if task.requested else ()) if one not in inside)
    return replace(
        task,
        properties=tuple(_own(task.properties, within.properties)),
        requested=replace(task.requested, properties=asked) if task.requested and asked else None,
    )


def _own(properties: Sequence[SssProperty], outer: Sequence[SssProperty]) -> Iterator[SssProperty]:
    around = {one.name: one for one in outer if isinstance(one, Environment)}
    for one in properties:
        if one in outer or (one.name == "Node" and one.name in _OUTCOMES):
            continue
        if isinstance(one, Environment) and one.name in around:
            known = around[one.name].variables
            yield replace(one, variables=tuple(each for each in one.variables if each not in known))
        else:
            yield one


_OUTCOMES = frozenset(
    row.name
    for row in ROWS
    if ElementPlace.TASK in row.places and meaning_of(row.name, ElementPlace.TASK).role in OUTCOMES
)


def _essence(task: Task) -> tuple[tuple[SssProperty, ...], SssCategory | None]:
    """Return what makes a task another one: not its number, nor where and when it ran, nor how it ended."""
    return tuple(one for one in task.properties if one.name not in _OUTCOMES), task.requested


def environment_of(properties: Iterable[SssProperty]) -> dict[str, str]:
    """Return the variables that the Environments among `properties` set."""
    variables: dict[str, str] = {}
    for one in properties:
        if isinstance(one, Environment):
            variables |= {each.name: each.value for each in one.variables}
    return variables


def _sweep(fields: Fields, count: int) -> None:
    """Make the fields those of a task of `count` instances, in which no asterisk stands for their number."""
    for name in _PATHS:
        text = fields.get(name)
        if text:
            fields[name] = text.replace("^", "^^").replace("*", "^*")
    fields.update(kind=TaskType.SWEEP, start=1, end=count)
