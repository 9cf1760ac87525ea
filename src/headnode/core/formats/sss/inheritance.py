"""Inheritance: jobs, task groups and tasks with their defaults, and what encloses them, filled in.

What is nearer overrides, property by property; what was written is kept beside, for writing back.
Properties inside and outside of Requested override each other.  Requested properties that group, conj or
preference bind together are overridden together, since half of them would say something else.
Environments are merged variable by variable.
Source: SSS 3.1.0, "Job and JobDefaults", "TaskGroup and TaskGroupDefaults", "Task and TaskDefaults".
"""

from collections.abc import Hashable, Iterator, Sequence
from typing import TypeVar

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


class EffectiveTaskGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A task group with its defaults.

    `within` is the same with what its job says for all of its task groups; so are the `tasks`, each with
    what its group says.  References stay what they are.  `written` is None when the group is implicit.
    """

    task_group: TaskGroup
    within: TaskGroup
    tasks: tuple[Task | TaskRef, ...]
    written: TaskGroup | None

    @property
    def count(self) -> int:
        """How many tasks there are: TaskCount, else those written, else the implicit one."""
        count = self.task_group.value("TaskCount")
        return count if isinstance(count, int) else len(self.tasks)


class EffectiveJob(msgspec.Struct, frozen=True, kw_only=True):
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
    found = tuple(
        group if isinstance(group, TaskGroupRef) else _task_group(merged, group) for group in groups
    )
    return EffectiveJob(job=merged, task_groups=found, written=job)


def _task_group(job: Job, written: TaskGroup | None) -> EffectiveTaskGroup:
    merged = written or TaskGroup()
    for defaults in reversed(job.task_group_defaults):
        merged = overridden(defaults, merged)
    within = shared(job, merged)
    tasks = tuple(
        task if isinstance(task, TaskRef) else _task(merged, within, task)
        for task in merged.tasks or (Task(),)
    )
    return EffectiveTaskGroup(task_group=merged, within=within, tasks=tasks, written=written)


def _task(group: TaskGroup, within: TaskGroup, task: Task) -> Task:
    for defaults in reversed(group.task_defaults):
        task = overridden(defaults, task)
    return shared(within, task)


def overridden(defaults: AnyScope, own: AnyScope) -> AnyScope:
    """Return `own` with what only `defaults` says; parts inside are taken from `own` when it has any."""
    fields = _merged(defaults, own)
    for field in own.__struct_fields__:
        if field in ("tasks", "task_groups"):
            fields[field] = getattr(own, field) or getattr(defaults, field)
        elif field in ("task_defaults", "task_group_defaults"):
            fields[field] = (*getattr(defaults, field), *getattr(own, field))
    return replace(own, **fields, awareness=own.awareness or defaults.awareness)


def shared(outer: Scope, own: AnyScope) -> AnyScope:
    """Return `own` with what `outer`, which encloses it, says about how tasks run and what they need.

    What a job is called, who pays, and what it was delivered is not its task groups' own.
    """
    requested = outer.requested
    properties = tuple(one for one in outer.properties if one.name in _SHARED)
    runs = requested and _shared_runs(requested.properties)
    passed = Task(
        properties=properties,
        requested=requested and replace(requested, properties=runs) if runs else None,
    )
    if own.properties or own.requested or own.delivered:
        return replace(own, **_merged(passed, own))
    return replace(own, properties=_environments(passed.properties), requested=passed.requested)


def _shared_runs(properties: Sequence[Property]) -> tuple[Property, ...]:
    runs = (run for run in _bound(properties) if all(one.name in _SHARED for one in run))
    return tuple(one for run in runs for one in run)


def _merged(far: Scope, near: Scope) -> dict[str, object]:
    """Return the properties of both, where `near` overrides."""
    asked = [*near.properties, *_inside(near.requested)]
    taken = {_slot(one) for one in asked}
    return {
        "properties": _environments([*_free(far.properties, taken), *near.properties]),
        "requested": _envelope(far.requested, near.requested, taken),
        "delivered": _envelope(
            far.delivered, near.delivered, {_slot(one) for one in _inside(near.delivered)}
        ),
    }


def _inside(envelope: Envelope | None) -> tuple[Property, ...]:
    return envelope.properties if envelope else ()


def _envelope(far: Envelope | None, near: Envelope | None, taken: set[Hashable]) -> Envelope | None:
    left = tuple(_free(_inside(far), taken))
    if far is None or not left:
        return near
    own = near or replace(far, properties=())
    return replace(own, properties=(*left, *own.properties), awareness=own.awareness or far.awareness)


def _free(properties: Sequence[Property], taken: set[Hashable]) -> Iterator[Property]:
    """Yield the properties that nothing nearer overrides; what is bound together goes together."""
    for run in _bound(properties):
        if not any(_slot(one) in taken for one in run) or isinstance(run[0], Environment):
            yield from run


def _bound(properties: Sequence[Property]) -> Iterator[list[Property]]:
    """Yield the properties in runs that group, conj or preference bind together."""
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


def _slot(one: Property) -> Hashable:
    """Return what a property says: two of the same slot override each other."""
    if isinstance(one, Resource):
        return one.name, one.called, one.type
    if isinstance(one, Extension):
        return one.name, one.type, one.called
    if isinstance(one, Limit):
        return one.name, one.called.lower(), one.kind
    return one.name


def _environments(properties: Sequence[Property]) -> tuple[Property, ...]:
    """Return the properties with one environment, in which later variables replace earlier ones."""
    found = [one for one in properties if isinstance(one, Environment)]
    if len(found) < 2:
        return tuple(properties)
    variables: dict[str, Variable] = {}
    for one in found:
        variables |= {variable.name: variable for variable in one.variables}
    merged = replace(found[-1], variables=tuple(variables.values()))
    return (*(one for one in properties if not isinstance(one, Environment)), merged)
