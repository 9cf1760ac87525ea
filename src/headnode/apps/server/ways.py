"""How a job can be changed, by whom and how far; and the options and commands that do it.

A command is only given if the head would obey it: it is put to `decide` first.
"""

from collections.abc import Callable, Mapping
from shlex import quote
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from headnode.core.formats.term_wishes import NEEDS
from headnode.core.formats.terms import UNITS, read_job_terms
from headnode.core.formats.values import format_licences
from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.decide import decide
from headnode.core.lifecycle.deciding_changes import BY_CONFIGURING_WHEN_QUEUED, IN_PLACE_WHEN_QUEUED
from headnode.core.lifecycle.records import JobRecord
from headnode.core.lifecycle.requests import own_request
from headnode.core.model.checks import check
from headnode.core.model.errors import Refused
from headnode.core.model.job import JobRequest, JobSpec
from headnode.core.model.quantities import (
    ANCHORS,
    FOREVER,
    HIGHEST,
    Instant,
    JobId,
    Priority,
    Seconds,
    format_priority,
)
from headnode.core.model.time_limits import format_time_limit
from headnode.core.model.user import User
from headnode.core.scheduling.counterfactuals.axes import MINUTE, Room, What
from headnode.core.scheduling.counterfactuals.search import Change, Offer
from headnode.core.scheduling.view import Turn

Options = dict[str, str]

_FIELDS: Mapping[What, str] = MappingProxyType(
    {
        What.RUN_TIME: "run_time",
        What.SIZE: "minimum",
        What.RESERVATION: "reservation",
        What.EXCLUSIVE: "exclusive",
        What.SINGLE_NODE: "single_node",
        What.REQUESTED_NODES: "requested_nodes",
        What.EXCLUDED_NODES: "excluded_nodes",
        What.NODE_GROUP: "node_groups",
        What.NODE_NEED: "needs",
        What.UNIFORM: "node_group_op",
        What.MINIMUM_MEMORY: "minimum_memory",
        What.MAXIMUM_MEMORY: "maximum_memory",
        What.MINIMUM_PROCESSORS: "minimum_processors_per_node",
        What.MAXIMUM_PROCESSORS: "maximum_processors_per_node",
        What.LICENCES: "licences",
        What.PRIORITY: "priority",
    }
)
"""The field of a job that each change is about; what is not here is said by its tasks."""


def new_turn(cluster: Cluster, spec: JobSpec) -> Turn:
    """Return the place in the queue of a job that would be submitted now."""
    return (-spec.priority, cluster.next_order, cluster.next_job)


def room_of_queued(cluster: Cluster, spec: JobSpec, by: User) -> Room:
    """Return how far this user can change a job that queues: its tasks stay as they are."""
    changeable = IN_PLACE_WHEN_QUEUED | BY_CONFIGURING_WHEN_QUEUED
    fixed = {what for what in What if _FIELDS.get(what) not in changeable} - {What.SIZE_AGAIN}
    return _room_beside_tasks(spec, by, fixed, new_turn(cluster, spec))


def room_of_draft(spec: JobSpec, by: User) -> Room:
    """Return how far a job can be changed that was made and not submitted: its tasks stay as they are."""
    return _room_beside_tasks(spec, by, {What.REQUIRED_NODES, What.TASK_NODES, What.MEMORY})


def _room_beside_tasks(spec: JobSpec, by: User, fixed: set[What], again: Turn | None = None) -> Room:
    if any(task.exclusive for task in spec.tasks):
        fixed.add(What.EXCLUSIVE)
    return Room(
        least=max((task.minimum for task in spec.tasks), default=1),
        most=max((task.maximum for task in spec.tasks), default=1),
        shortest=_shortest(spec),
        highest=_highest(by),
        fixed=frozenset(fixed),
        again=again,
    )


def room_of_new(spec: JobSpec, by: User) -> Room:
    """Return how far a job can be changed that is not submitted yet: it can be written anew."""
    return Room(shortest=_shortest(spec), highest=_highest(by), fixed=frozenset({What.MEMORY}))


def _shortest(spec: JobSpec) -> Seconds:
    limits = (task.run_time for task in spec.tasks if task.run_time != FOREVER)
    return max(limits, default=Seconds(MINUTE))


def _highest(by: User) -> Priority:
    return HIGHEST if by.oversees else ANCHORS["Normal"]


def changer(record: JobRecord, by: User) -> User:
    """Return who would change the job: its owner, unless somebody asks who sees to everybody's jobs."""
    if by.oversees or by.uid == record.uid:
        return by
    return User(name=record.owner, uid=record.uid, gid=record.gid)


class Way(NamedTuple):
    """The options that make the changes, and the command that does it; nothing where none can."""

    options: Options
    command: str = ""


def way_of_made(
    cluster: Cluster, record: JobRecord, spec: JobSpec, offer: Offer, by: User, now: Instant
) -> Way:
    """Return how to change a job that has an id.  What must be submitted again has no command of its own."""
    options = options_of(offer)
    changed = _with(spec, options, now)
    if changed is None or not _says_so(changed, offer.subject.request) or _is_again(offer):
        return Way(options)
    fields = tuple(
        name for name in JobSpec.__struct_fields__ if getattr(spec, name) != getattr(changed, name)
    )
    try:
        decide(cluster, c.ModifyJob(by=by, job=record.id, spec=changed, fields=fields), now)
    except Refused:
        return Way(options)
    return Way(options, modify_command(record.id, options))


def _says_so(changed: JobSpec, wished: JobRequest) -> bool:
    """Return whether the changed job asks for what was wished.

    Alternatives that do not say otherwise change with the job: then it asks for less in these, too.
    """
    return own_request(changed) == msgspec.structs.replace(wished, others=())


def way_of_new(spec: JobSpec, offer: Offer, *, written: bool, now: Instant) -> Way:
    """Return with which options to submit instead.

    `written`: the tasks are written in a file and stay, so an option they contradict would be refused.
    """
    options = options_of(offer)
    if written and _with(spec, options, now) is None:
        return Way({})
    return Way(options)


def _is_again(offer: Offer) -> bool:
    return any(change.what is What.SIZE_AGAIN for change in offer.changes)


def _with(spec: JobSpec, options: Options, now: Instant) -> JobSpec | None:
    """Return the job with these options, or None where that makes no sense."""
    try:
        changed = read_job_terms(options, spec, now=now)
        check(changed)
    except Refused:
        return None
    return changed


def modify_command(job: JobId, options: Options) -> str:
    """Return the command that gives a job these options."""
    return " ".join([f"hn job modify {job}", *(typed(name, value) for name, value in options.items())])


def typed(name: str, value: str) -> str:
    """Return an option as it is typed into a shell."""
    return quote(f"/{name}:{value}")


def options_of(offer: Offer) -> Options:
    """Return the options of the command line that say what is different; nothing for what tasks say."""
    options: Options = {}
    for change in offer.changes:
        if change.what in _OPTIONS:
            options |= _OPTIONS[change.what](change, offer.subject.request)
    return options


def _size(_: Change, request: JobRequest) -> Options:
    name = next(name for name, unit in UNITS.items() if unit is request.unit)
    least, most = request.minimum, request.maximum
    return {name: f"{least}" if least == most else f"{least}-{most}"}


def _bounds(least: int | None, most: int | None) -> str:
    return str(least or "") if most is None else f"{least or 0}-{most}"


_OPTIONS: Mapping[What, Callable[[Change, JobRequest], Options]] = MappingProxyType(
    {
        What.RUN_TIME: lambda change, _: {"runtime": format_time_limit(Seconds(change.value * MINUTE))},
        What.SIZE: _size,
        What.SIZE_AGAIN: _size,
        What.RESERVATION: lambda *_: {"reservation": ""},
        What.EXCLUSIVE: lambda *_: {"exclusive": "false"},
        What.SINGLE_NODE: lambda *_: {"singlenode": "false"},
        What.REQUESTED_NODES: lambda *_: {"requestednodes": ""},
        What.EXCLUDED_NODES: lambda *_: {"excludednodes": ""},
        What.NODE_GROUP: lambda _, request: {"nodegroup": ",".join(request.node_groups)},
        What.NODE_NEED: lambda change, _: _anything_of(change.about),
        What.UNIFORM: lambda *_: {"nodegroupop": "Union"},
        What.MINIMUM_MEMORY: lambda _, request: _memory(request),
        What.MAXIMUM_MEMORY: lambda _, request: _memory(request),
        What.MINIMUM_PROCESSORS: lambda _, request: _processors(request),
        What.MAXIMUM_PROCESSORS: lambda _, request: _processors(request),
        What.LICENCES: lambda _, request: {"license": format_licences(request.licences)},
        What.PRIORITY: lambda change, _: {"priority": format_priority(Priority(change.value))},
    }
)


def _anything_of(need: str) -> Options:
    return {name: "" for name, (field, _) in NEEDS.items() if field == need}


def _memory(request: JobRequest) -> Options:
    return {"memorypernode": _bounds(request.minimum_memory, request.maximum_memory)}


def _processors(request: JobRequest) -> Options:
    span = _bounds(request.minimum_processors_per_node, request.maximum_processors_per_node)
    return {"corespernode": span}
