"""Job groups, jobs, task groups and tasks, with what they request; and inheritance between them."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Set
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from headnode.core.formats.fidelity import Awareness
from headnode.core.formats.sss.properties import (
    Conj,
    Environment,
    Extension,
    Resource,
    SssCategory,
    SssLimit,
    SssProperty,
    Value,
    Variable,
)
from headnode.core.formats.sss.property_rows import ROWS
from headnode.core.formats.sss.value_types import SssVersion


class SssPart(msgspec.Struct, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """What all parts of a document have: properties, an awareness policy, attributes nobody understood."""

    properties: tuple[SssProperty, ...] = ()
    awareness: Awareness | None = None
    kept: tuple[tuple[str, str], ...] = ()

    def all(self, name: str) -> Iterator[SssProperty]:
        """Yield the properties called `name` in 3.1.0, outside of Requested and Delivered."""
        return (found for found in self.properties if found.name == name)

    def value(self, name: str) -> Value:
        """Return the value of the first property called `name`; None when it is not set."""
        for found in self.properties:
            if found.name == name:
                return found.value
        return None

    def values(self) -> dict[str, Value]:
        """Return the values of all properties by their names; of several of a name that of the first."""
        return {found.name: found.value for found in reversed(self.properties)}

    def structured(self) -> dict[type[SssProperty], list[SssProperty]]:
        """Return the properties with a structure of their own, by their structs."""
        by_type: dict[type[SssProperty], list[SssProperty]] = {}
        for one in self.properties:
            if type(one) is not SssProperty:
                by_type.setdefault(type(one), []).append(one)
        return by_type

    @property
    def id(self) -> str:
        """The identifier; "" when there is none."""
        return str(self.value("Id") or "")

    @property
    def name(self) -> str:
        """The name; "" when there is none."""
        return str(self.value("Name") or "")


class SssScope(SssPart, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """A part whose properties may also be those requested and those delivered."""

    requested: SssCategory | None = None
    delivered: SssCategory | None = None


class Task(SssScope, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """A task, or the defaults of tasks."""


class SssReference(msgspec.Struct, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """A part that is defined elsewhere, by its id."""

    id: str
    awareness: Awareness | None = None
    kept: tuple[tuple[str, str], ...] = ()


class TaskRef(SssReference, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """A task that is defined elsewhere."""


class TaskGroupRef(SssReference, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """A task group that is defined elsewhere."""


class JobRef(SssReference, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """A job that is defined elsewhere."""


class JobGroupRef(SssReference, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """A job group that is defined elsewhere."""


class TaskGroup(SssScope, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """Tasks with common properties, or the defaults of task groups.

    Several defaults may stand beside each other; the later ones override the earlier.
    """

    tasks: tuple[Task | TaskRef, ...] = ()
    task_defaults: tuple[Task, ...] = ()


class SssJob(SssScope, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """A job, or the defaults of jobs."""

    task_groups: tuple[TaskGroup | TaskGroupRef, ...] = ()
    task_group_defaults: tuple[TaskGroup, ...] = ()


class JobGroup(SssPart, frozen=True, kw_only=True, tag=True, omit_defaults=True, gc=False):
    """Jobs that depend on one another."""

    jobs: tuple[SssJob | JobRef, ...] = ()
    job_defaults: SssJob | None = None


class File(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A file that travels with jobs: the script that an Executable ``#id`` means.  Blanks count."""

    id: str
    body: str = ""
    awareness: Awareness | None = None
    kept: tuple[tuple[str, str], ...] = ()  # such as name, owner, mode


Entry = SssJob | JobGroup | JobRef | JobGroupRef
ENTRY_NAMES: dict[type[msgspec.Struct], str] = {
    SssJob: "Job",
    JobRef: "Job",
    JobGroup: "JobGroup",
    JobGroupRef: "JobGroup",
}
"""The names of the elements of entries."""


class SssDocument(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What a file holds.

    One job or group alone is the outermost element; anything else stands in a Data element, as do files.
    """

    version: SssVersion = SssVersion.V3_1
    entries: tuple[Entry, ...] = ()
    files: tuple[File, ...] = ()
    in_data: bool = False  # written in a Data element though it need not be
    namespace: str = ""
    awareness: Awareness | None = None  # of the Data element, as are `kept` and `unknown`
    kept: tuple[tuple[str, str], ...] = ()
    unknown: tuple[SssProperty, ...] = ()

    @property
    def needs_data(self) -> bool:
        """Whether it can be written in a Data element only."""
        alone = len(self.entries) == 1 and not isinstance(self.entries[0], SssReference)
        return not alone or bool(self.files or self.unknown or self.kept or self.awareness)


AnyScope = TypeVar("AnyScope", bound=SssScope)
_SHARED = frozenset(row.name for row in ROWS if row.shared)


class EffectiveTaskGroup(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A task group with its defaults.

    `within` is the same with what its job says for all of its task groups; so are the `tasks`, each with
    what its group says.  References stay what they are.  `written` is None when the group is implicit,
    `silent` is whether its only task is, which says nothing of its own.
    """

    task_group: TaskGroup
    within: TaskGroup
    tasks: tuple[Task | TaskRef, ...]
    written: TaskGroup | None
    silent: bool = False

    @property
    def count(self) -> int:
        """How many tasks there are: TaskCount, else those written, else the implicit one."""
        count = self.task_group.value("TaskCount")
        return count if isinstance(count, int) else len(self.tasks)


class EffectiveJob(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A job with its defaults, its task groups filled in; `written` as it was."""

    job: SssJob
    task_groups: tuple[EffectiveTaskGroup | TaskGroupRef, ...]
    written: SssJob


def effective_jobs(group: JobGroup) -> tuple[EffectiveJob | JobRef, ...]:
    """Return the jobs of a group; those defined elsewhere stay references."""
    defaults = group.job_defaults or SssJob()
    return tuple(job if isinstance(job, JobRef) else effective_job(job, defaults) for job in group.jobs)


def effective_job(job: SssJob, defaults: SssJob | None = None) -> EffectiveJob:
    """Return a job with its defaults.

    Task groups of its own replace those of the defaults; without any, it has one implicit task group.
    """
    merged = with_overrides(defaults or SssJob(), job)
    groups = job.task_groups or merged.task_groups or (None,)
    passed = _passed_on(merged)
    effective = [
        group if isinstance(group, TaskGroupRef) else _task_group(merged, passed, group) for group in groups
    ]
    return EffectiveJob(job=merged, task_groups=tuple(effective), written=job)


def _task_group(job: SssJob, of_job: Task, written: TaskGroup | None) -> EffectiveTaskGroup:
    merged = written or TaskGroup()
    for defaults in reversed(job.task_group_defaults):
        merged = with_overrides(defaults, merged)
    within = _inside_of(of_job, merged)
    passed = _passed_on(within)
    silent = not (merged.tasks or merged.task_defaults)
    tasks = (passed,) if silent else tuple(_tasks(merged, passed))
    return EffectiveTaskGroup(task_group=merged, within=within, tasks=tasks, written=written, silent=silent)


def _tasks(group: TaskGroup, passed: Task) -> Iterator[Task | TaskRef]:
    for task in group.tasks or (Task(),):
        yield task if isinstance(task, TaskRef) else _task(group, passed, task)


def _task(group: TaskGroup, passed: Task, task: Task) -> Task:
    for defaults in reversed(group.task_defaults):
        task = with_overrides(defaults, task)
    return _inside_of(passed, task)


def with_overrides(defaults: AnyScope, own: AnyScope) -> AnyScope:
    """Return `own` with what only `defaults` says; parts inside are taken from `own` when it has any.

    An Id is not inherited: it names one object.
    """
    if any(one.name == "Id" for one in defaults.properties):
        unnamed = tuple(one for one in defaults.properties if one.name != "Id")
        defaults = replace(defaults, properties=unnamed)
    fields = _merged(defaults, own)
    for field, are_defaults in _INSIDE.get(type(own), ()):
        far = getattr(defaults, field)
        if far:
            near = getattr(own, field)
            fields[field] = (*far, *near) if are_defaults else near or far
    return replace(own, **fields, awareness=own.awareness or defaults.awareness)


_INSIDE: Mapping[type[SssScope], Sequence[tuple[str, bool]]] = {
    SssJob: (("task_groups", False), ("task_group_defaults", True)),
    TaskGroup: (("tasks", False), ("task_defaults", True)),
}
"""The fields of parts that are in a part, and whether they are defaults of others."""


def _passed_on(outer: SssScope) -> Task:
    """Return what a part says for those that it encloses: how tasks run and what they need.

    What a job is called, who pays, and what it was delivered is not its task groups' own.
    """
    requested = outer.requested
    if requested:
        shared = _shared(requested.properties)
        if len(shared) < len(requested.properties):
            requested = replace(requested, properties=shared) if shared else None
    properties = tuple([one for one in outer.properties if one.name in _SHARED])
    return Task(properties=_environments(properties), requested=requested)


def _shared(properties: Sequence[SssProperty]) -> tuple[SssProperty, ...]:
    """Return what of properties is passed on; what is bound together goes together."""
    if not _are_bound(properties):
        return tuple([one for one in properties if one.name in _SHARED])
    runs = (run for run in _runs(properties) if all(one.name in _SHARED for one in run))
    return tuple(one for run in runs for one in run)


def _inside_of(passed: Task, own: AnyScope) -> AnyScope:
    """Return `own` with what is passed on to it."""
    fields = _merged(passed, own)
    return replace(own, **fields) if fields else own


def _merged(far: SssScope, near: SssScope) -> dict[str, object]:
    """Return the properties of both, where `near` overrides."""
    taken = _slots((*near.properties, *near.requested.properties) if near.requested else near.properties)
    fields: dict[str, object] = {}
    free = _free(far.properties, taken)
    properties = _environments((*free, *near.properties) if free else near.properties)
    if properties is not near.properties:
        fields["properties"] = properties
    if far.requested:
        fields["requested"] = _envelope(far.requested, near.requested, taken)
    if far.delivered:
        known = _slots(near.delivered.properties if near.delivered else ())
        fields["delivered"] = _envelope(far.delivered, near.delivered, known)
    return fields


def not_overridden(far: Sequence[SssProperty], near: Sequence[SssProperty]) -> Sequence[SssProperty]:
    """Return the properties of `far` that no property of `near`, which is inside of it, overrides."""
    return _free(far, _slots(near))


def _envelope(far: SssCategory, near: SssCategory | None, taken: Set[Hashable]) -> SssCategory | None:
    left = _free(far.properties, taken)
    if not left:
        return near
    own = near or replace(far, properties=())
    return replace(own, properties=(*left, *own.properties), awareness=own.awareness or far.awareness)


def _free(properties: Sequence[SssProperty], taken: Set[Hashable]) -> Sequence[SssProperty]:
    """Return the properties that nothing nearer overrides; what is bound together goes together."""
    if not _are_bound(properties):
        return [one for one in properties if type(one) is Environment or _slot(one) not in taken]
    runs = (
        run
        for run in _runs(properties)
        if taken.isdisjoint(map(_slot, run)) or isinstance(run[0], Environment)
    )
    return [one for run in runs for one in run]


def _are_bound(properties: Sequence[SssProperty]) -> bool:
    """Whether group, conj or preference may bind any of properties together."""
    return bool([one for one in properties if one.conj is not None or one.group or one.preference])


def _runs(properties: Sequence[SssProperty]) -> Iterator[Sequence[SssProperty]]:
    """Yield the properties in runs that are bound together."""
    run: list[SssProperty] = []
    depth = 0
    for one in properties:
        joined = one.conj not in (None, Conj.AND) or (run and one.preference and one.name == run[-1].name)
        if run and not joined and depth == 0:
            yield run
            run = []
        run.append(one)
        depth += one.group
    if run:
        yield run


def _slots(properties: Sequence[SssProperty]) -> set[Hashable]:
    return {_slot(one) if type(one) in _MORE_THAN_NAMES else one.name for one in properties}


def _slot(one: SssProperty) -> Hashable:
    """Return what a property says: two of the same slot override each other."""
    more = _MORE_THAN_NAMES.get(type(one))
    return more(one) if more else one.name


_MORE_THAN_NAMES: Mapping[type[SssProperty], Callable[[Any], Hashable]] = {
    Resource: lambda one: (one.name, one.called, one.type),
    Extension: lambda one: (one.name, one.type, one.called),
    SssLimit: lambda one: (one.name, one.called.lower(), one.kind),
}
"""What tells properties apart that may stand several times beside each other."""


def _environments(properties: tuple[SssProperty, ...]) -> tuple[SssProperty, ...]:
    """Return the properties with one environment, in which later variables replace earlier ones."""
    if list(map(type, properties)).count(Environment) < 2:
        return properties
    environments = [one for one in properties if type(one) is Environment]
    variables: dict[str, Variable] = {}
    for one in environments:
        variables |= {variable.name: variable for variable in one.variables}
    merged = replace(environments[-1], variables=tuple(variables.values()))
    return (*(one for one in properties if not isinstance(one, Environment)), merged)
