"""Inheritance: jobs, task groups and tasks with their defaults, and what encloses them, filled in.

What is nearer overrides, property by property; what was written is kept beside, for writing back.
Properties inside and outside of Requested override each other.  Requested properties that group, conj or
preference bind together are overridden together, since half of them would say something else.
Environments are merged variable by variable.
Source: SSS 3.1.0, "Job and JobDefaults", "TaskGroup and TaskGroupDefaults", "Task and TaskDefaults".
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Set
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from headnode.core.formats.sss.conditions import Extension, Limit
from headnode.core.formats.sss.consumables import Resource
from headnode.core.formats.sss.job_object import (
    Job,
    JobGroup,
    JobRef,
    Scope,
    Task,
    TaskGroup,
    TaskGroupRef,
    TaskRef,
)
from headnode.core.formats.sss.properties import Conj, Envelope, Property
from headnode.core.formats.sss.streams import Environment, Variable
from headnode.core.formats.sss.tables import ROWS

AnyScope = TypeVar("AnyScope", bound=Scope)
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

    job: Job
    task_groups: tuple[EffectiveTaskGroup | TaskGroupRef, ...]
    written: Job


def effective_jobs(group: JobGroup) -> tuple[EffectiveJob | JobRef, ...]:
    """Return the jobs of a group; those defined elsewhere stay references."""
    defaults = group.job_defaults or Job()
    return tuple(job if isinstance(job, JobRef) else effective_job(job, defaults) for job in group.jobs)


def effective_job(job: Job, defaults: Job | None = None) -> EffectiveJob:
    """Return a job with its defaults.

    Task groups of its own replace those of the defaults; without any, it has one implicit task group.
    """
    merged = overridden(defaults or Job(), job)
    groups = job.task_groups or merged.task_groups or (None,)
    passed = _passed_on(merged)
    found = [
        group if isinstance(group, TaskGroupRef) else _task_group(merged, passed, group) for group in groups
    ]
    return EffectiveJob(job=merged, task_groups=tuple(found), written=job)


def _task_group(job: Job, of_job: Task, written: TaskGroup | None) -> EffectiveTaskGroup:
    merged = written or TaskGroup()
    for defaults in reversed(job.task_group_defaults):
        merged = overridden(defaults, merged)
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
        task = overridden(defaults, task)
    return _inside_of(passed, task)


def overridden(defaults: AnyScope, own: AnyScope) -> AnyScope:
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


_INSIDE: Mapping[type[Scope], Sequence[tuple[str, bool]]] = {
    Job: (("task_groups", False), ("task_group_defaults", True)),
    TaskGroup: (("tasks", False), ("task_defaults", True)),
}
"""The fields of parts that are in a part, and whether they are defaults of others."""


def _passed_on(outer: Scope) -> Task:
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


def _shared(properties: Sequence[Property]) -> tuple[Property, ...]:
    """Return what of `properties` is passed on; what is bound together goes together."""
    if not _are_bound(properties):
        return tuple([one for one in properties if one.name in _SHARED])
    runs = (run for run in _runs(properties) if all(one.name in _SHARED for one in run))
    return tuple(one for run in runs for one in run)


def _inside_of(passed: Task, own: AnyScope) -> AnyScope:
    """Return `own` with what is passed on to it."""
    fields = _merged(passed, own)
    return replace(own, **fields) if fields else own


def _merged(far: Scope, near: Scope) -> dict[str, object]:
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


def _envelope(far: Envelope, near: Envelope | None, taken: Set[Hashable]) -> Envelope | None:
    left = _free(far.properties, taken)
    if not left:
        return near
    own = near or replace(far, properties=())
    return replace(own, properties=(*left, *own.properties), awareness=own.awareness or far.awareness)


def _free(properties: Sequence[Property], taken: Set[Hashable]) -> Sequence[Property]:
    """Return the properties that nothing nearer overrides; what is bound together goes together."""
    if not _are_bound(properties):
        return [one for one in properties if type(one) is Environment or _slot(one) not in taken]
    runs = (
        run
        for run in _runs(properties)
        if taken.isdisjoint(map(_slot, run)) or isinstance(run[0], Environment)
    )
    return [one for run in runs for one in run]


def _are_bound(properties: Sequence[Property]) -> bool:
    """Whether group, conj or preference may bind any of `properties` together."""
    return bool([one for one in properties if one.conj is not None or one.group or one.preference])


def _runs(properties: Sequence[Property]) -> Iterator[Sequence[Property]]:
    """Yield the properties in runs that are bound together."""
    run: list[Property] = []
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


def _slots(properties: Sequence[Property]) -> set[Hashable]:
    return {_slot(one) if type(one) in _MORE_THAN_NAMES else one.name for one in properties}


def _slot(one: Property) -> Hashable:
    """Return what a property says: two of the same slot override each other."""
    more = _MORE_THAN_NAMES.get(type(one))
    return more(one) if more else one.name


_MORE_THAN_NAMES: Mapping[type[Property], Callable[[Any], Hashable]] = {
    Resource: lambda one: (one.name, one.called, one.type),
    Extension: lambda one: (one.name, one.type, one.called),
    Limit: lambda one: (one.name, one.called.lower(), one.kind),
}
"""What tells properties apart that may stand several times beside each other."""


def _environments(properties: tuple[Property, ...]) -> tuple[Property, ...]:
    """Return the properties with one environment, in which later variables replace earlier ones."""
    found = [one for one in properties if type(one) is Environment]
    if len(found) < 2:
        return properties
    variables: dict[str, Variable] = {}
    for one in found:
        variables |= {variable.name: variable for variable in one.variables}
    merged = replace(found[-1], variables=tuple(variables.values()))
    return (*(one for one in properties if not isinstance(one, Environment)), merged)
