"""Which changes of a job would let it start, how far its user may make them, and the commands that do it.

The policy is asked in a thread with a snapshot of the cluster, so the head goes on meanwhile.
A command is only given if the head would obey it: it is put to `decide` first.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from shlex import quote
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from headnode.apps.server.server_context import ServerContext
from headnode.core.formats.hpc_values import format_licences
from headnode.core.formats.slash_options import NEEDS
from headnode.core.formats.slash_terms import UNITS, read_job_terms
from headnode.core.model.errors import Refused
from headnode.core.model.job import JobRequest, JobSpec
from headnode.core.model.job_checks import check_job
from headnode.core.model.priority_factors import QueuePosition, queue_position
from headnode.core.model.quantities import (
    ANCHORS,
    FOREVER,
    HIGHEST,
    NEVER,
    Instant,
    JobId,
    Priority,
    Seconds,
    format_priority,
    format_time_limit,
)
from headnode.core.model.user import User
from headnode.core.scheduling.balanced.balanced_pass import minimums_only
from headnode.core.scheduling.explain.changes import (
    MINUTE,
    ChangeKind,
    ChangeLimits,
    Subject,
    with_job,
    without_job,
)
from headnode.core.scheduling.explain.counterfactual import (
    RequestChange,
    Suggestion,
    Suggestions,
    search_changes,
)
from headnode.core.scheduling.plan import Plan
from headnode.core.scheduling.policies import Policy
from headnode.core.scheduling.view import View, WaitingClass
from headnode.core.state import modify as c
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.decide import decide
from headnode.core.state.job_record import JobRecord
from headnode.core.state.job_request import own_request
from headnode.core.state.modify import WHEN_QUEUED
from headnode.engine.activation_gate import explanation_view
from headnode.engine.simulate_ahead import simulate_ahead, to_the_limits

MAX_PLANNING = 1.0  # seconds for all plans of one search
MAX_RUNNING_AHEAD = 1.0  # seconds


class PolicySnapshot(msgspec.Struct, frozen=True):
    """The cluster with the job that is asked about in its queue, and what the policy would do now.

    `order` puts a view with changed jobs into the order of the policy.
    """

    view: View
    order: Callable[[View], View]
    policy: Policy
    plan: Plan
    subject: Subject
    spent: float  # seconds that the plan took


def view_now(context: ServerContext, job: JobId, also: WaitingClass | None = None) -> View:
    """Return the cluster as a policy may see it for a job, unchanged by what happens from now on.

    What filters keep for other jobs is not free for it.  `also` is for a job that is not in the queue.
    """
    seen = context.engine.view(context.now(), also)
    view = explanation_view(seen, context.engine.offers, context.cluster, job)
    queue = [msgspec.structs.replace(waiting, turns=tuple(waiting.turns)) for waiting in view.queue]
    return msgspec.structs.replace(view, queue=queue)


async def snapshot_with(context: ServerContext, subject: Subject) -> PolicySnapshot:
    """Return the snapshot with the subject where it stands, whether it queues already or not.

    Cost:  one pass, in a thread.
    """
    waits = subject.job in context.cluster.queue.requests
    alone = WaitingClass(subject.request, (subject.turn,), subject.owner, subject.project)
    view = view_now(context, subject.job, None if waits else alone)
    if subject.request.limits:
        from headnode.engine.usage_decay import limits_left  # few clusters have limits

        left = limits_left(context.cluster, subject.request, view.now)
        view = msgspec.structs.replace(view, licences={**left, **view.licences})
    subject = subject._replace(turn=view.position(subject.turn))
    view = with_job(without_job(view, subject), subject)
    policy = context.engine.policy()
    async with context.searching:
        began = time.monotonic()
        plan = await asyncio.to_thread(policy, view)
        return PolicySnapshot(view, context.engine.order(), policy, plan, subject, time.monotonic() - began)


async def found_changes(context: ServerContext, snapshot: PolicySnapshot, room: ChangeLimits) -> Suggestions:
    """Return what would let the subject start.

    Stops when all plans together took `MAX_PLANNING`, and says so.  One search goes on at a time, however
    many ask: the head is not slowed down by more than one.
    """
    async with context.searching:
        return await asyncio.to_thread(_searched, snapshot, room)


def _searched(snapshot: PolicySnapshot, room: ChangeLimits) -> Suggestions:
    end = time.monotonic() + MAX_PLANNING - snapshot.spent
    search = search_changes(snapshot.view, snapshot.plan, snapshot.subject, room)
    try:
        asked = next(search)
        while True:
            plan = snapshot.policy(snapshot.order(asked)) if time.monotonic() < end else None
            asked = search.send(plan)
    except StopIteration as ended:
        suggestions: Suggestions = ended.value
        return suggestions


async def start_by_limits(context: ServerContext, snapshot: PolicySnapshot) -> Instant | None:
    """Return when the subject will start if all jobs run to their limits and no job is submitted later.

    None if that is never, or not known within `MAX_RUNNING_AHEAD`.
    """
    async with context.searching:
        return await asyncio.to_thread(_start_by_limits, snapshot)


def _start_by_limits(snapshot: PolicySnapshot) -> Instant | None:
    """Run the plan ahead over the jobs that go before the subject; those behind do not delay it."""
    subject, view = snapshot.subject, snapshot.view
    queue = [
        msgspec.structs.replace(waiting, turns=turns)
        for waiting in view.queue
        if (turns := tuple(turn for turn in waiting.turns if turn <= subject.turn))
    ]
    end = time.monotonic() + MAX_RUNNING_AHEAD
    ahead = minimums_only(msgspec.structs.replace(view, queue=queue))
    course = simulate_ahead(ahead, snapshot.policy, {}, to_the_limits(ahead), lambda: time.monotonic() > end)
    return known_instant(course.starts.get(subject.job, NEVER))


def known_instant(at: Instant) -> Instant | None:
    """Return an instant as clients get it; None if it is NEVER."""
    return None if at == NEVER else at


ChangeOptions = dict[str, str]

_FIELDS: Mapping[ChangeKind, str] = MappingProxyType(
    {
        ChangeKind.RUN_TIME: "run_time",
        ChangeKind.SIZE: "minimum",
        ChangeKind.RESERVATION: "reservation",
        ChangeKind.EXCLUSIVE: "exclusive",
        ChangeKind.SINGLE_NODE: "single_node",
        ChangeKind.CONTIGUOUS: "contiguous",
        ChangeKind.REQUESTED_NODES: "requested_nodes",
        ChangeKind.EXCLUDED_NODES: "excluded_nodes",
        ChangeKind.NODE_GROUP: "node_groups",
        ChangeKind.NODE_NEED: "needs",
        ChangeKind.UNIFORM: "node_group_op",
        ChangeKind.MINIMUM_MEMORY: "minimum_memory",
        ChangeKind.MAXIMUM_MEMORY: "maximum_memory",
        ChangeKind.MINIMUM_PROCESSORS: "minimum_processors_per_node",
        ChangeKind.MAXIMUM_PROCESSORS: "maximum_processors_per_node",
        ChangeKind.PROCESSORS_PER_GPU: "processors_per_gpu",
        ChangeKind.LICENCES: "licences",
        ChangeKind.PRIORITY: "priority",
    }
)
"""The field of a job that each change is about; what is not here is said by its tasks."""


def new_turn(cluster: ClusterState, spec: JobSpec) -> QueuePosition:
    """Return the place in the queue of a job that would be submitted now."""
    return queue_position(spec.priority, cluster.next_order, cluster.next_job)


def room_of_queued(cluster: ClusterState, spec: JobSpec, by: User) -> ChangeLimits:
    """Return how far this user can change a job that queues: its tasks stay as they are."""
    fixed = {what for what in ChangeKind if _FIELDS.get(what) not in WHEN_QUEUED} - {ChangeKind.SIZE_AGAIN}
    return _room_beside_tasks(spec, by, fixed, new_turn(cluster, spec))


def room_of_draft(spec: JobSpec, by: User) -> ChangeLimits:
    """Return how far a job can be changed that was made and not submitted: its tasks stay as they are."""
    return _room_beside_tasks(spec, by, {ChangeKind.REQUIRED_NODES, ChangeKind.TASK_NODES, ChangeKind.MEMORY})


def _room_beside_tasks(
    spec: JobSpec, by: User, fixed: set[ChangeKind], again: QueuePosition | None = None
) -> ChangeLimits:
    if any(task.exclusive for task in spec.tasks):
        fixed.add(ChangeKind.EXCLUSIVE)
    return ChangeLimits(
        least=max((task.minimum for task in spec.tasks), default=1),
        most=max((task.maximum for task in spec.tasks), default=1),
        shortest=_shortest(spec),
        highest=_highest(by),
        fixed=frozenset(fixed),
        again=again,
    )


def room_of_new(spec: JobSpec, by: User) -> ChangeLimits:
    """Return how far a job can be changed that is not submitted yet: it can be written anew."""
    return ChangeLimits(shortest=_shortest(spec), highest=_highest(by), fixed=frozenset({ChangeKind.MEMORY}))


def _shortest(spec: JobSpec) -> Seconds:
    limits = (task.run_time for task in spec.tasks if task.run_time != FOREVER)
    return max(limits, default=Seconds(MINUTE))


def _highest(by: User) -> Priority:
    return HIGHEST if by.oversees else ANCHORS["Normal"]


def changer(record: JobRecord, by: User) -> User:
    """Return the user that would change the job: its owner, or `by` as operator or administrator."""
    if by.oversees or by.uid == record.uid:
        return by
    return User(name=record.owner, uid=record.uid, gid=record.gid)


class ChangeCommand(NamedTuple):
    """The options that make the changes, and the command that does it; nothing where none can."""

    options: ChangeOptions
    command: str = ""


def change_of_job(
    cluster: ClusterState, record: JobRecord, spec: JobSpec, offer: Suggestion, by: User, now: Instant
) -> ChangeCommand:
    """Return how to change a job that has an id.  What must be submitted again has no command of its own."""
    options = options_of(offer)
    changed = _with_options(spec, options, now)
    if changed is None or not _asks_for(changed, offer.subject.request) or _needs_submission(offer):
        return ChangeCommand(options)
    fields = tuple(
        name for name in JobSpec.__struct_fields__ if getattr(spec, name) != getattr(changed, name)
    )
    try:
        decide(cluster, c.ModifyJob(by=by, job=record.id, spec=changed, fields=fields), now)
    except Refused:
        return ChangeCommand(options)
    return ChangeCommand(options, modify_command(record.id, options))


def _asks_for(changed: JobSpec, requested: JobRequest) -> bool:
    """Return whether the changed job asks for what was requested.

    Alternatives that do not say otherwise change with the job: then it asks for less in these, too.
    """
    return own_request(changed) == msgspec.structs.replace(requested, alternatives=())


def change_of_draft(spec: JobSpec, offer: Suggestion, *, written: bool, now: Instant) -> ChangeCommand:
    """Return with which options to submit instead.

    `written`: the tasks are written in a file and stay, so an option they contradict would be refused.
    """
    options = options_of(offer)
    if written and _with_options(spec, options, now) is None:
        return ChangeCommand({})
    return ChangeCommand(options)


def _needs_submission(offer: Suggestion) -> bool:
    return any(change.what is ChangeKind.SIZE_AGAIN for change in offer.changes)


def _with_options(spec: JobSpec, options: ChangeOptions, now: Instant) -> JobSpec | None:
    """Return the job with these options, or None where that makes no sense."""
    try:
        changed = read_job_terms(options, spec, now=now)
        check_job(changed)
    except Refused:
        return None
    return changed


def modify_command(job: JobId, options: ChangeOptions) -> str:
    """Return the command that gives a job these options."""
    return " ".join([f"hn job modify {job}", *(typed_option(name, value) for name, value in options.items())])


def typed_option(name: str, value: str) -> str:
    """Return an option as it is typed into a shell."""
    return quote(f"/{name}:{value}")


def options_of(offer: Suggestion) -> ChangeOptions:
    """Return the options of the command line that say what is different; nothing for what tasks say."""
    options: ChangeOptions = {}
    for change in offer.changes:
        if change.what in _OPTIONS:
            options |= _OPTIONS[change.what](change, offer.subject.request)
    return options


def _size(_: RequestChange, request: JobRequest) -> ChangeOptions:
    name = next(name for name, unit in UNITS.items() if unit is request.unit)
    least, most = request.minimum, request.maximum
    return {name: f"{least}" if least == most else f"{least}-{most}"}


def _bounds(least: int | None, most: int | None) -> str:
    return str(least or "") if most is None else f"{least or 0}-{most}"


_OPTIONS: Mapping[ChangeKind, Callable[[RequestChange, JobRequest], ChangeOptions]] = MappingProxyType(
    {
        ChangeKind.RUN_TIME: lambda change, _: {"runtime": format_time_limit(Seconds(change.value * MINUTE))},
        ChangeKind.SIZE: _size,
        ChangeKind.SIZE_AGAIN: _size,
        ChangeKind.RESERVATION: lambda *_: {"reservation": ""},
        ChangeKind.EXCLUSIVE: lambda *_: {"exclusive": "false"},
        ChangeKind.SINGLE_NODE: lambda *_: {"singlenode": "false"},
        ChangeKind.CONTIGUOUS: lambda *_: {"contiguous": "false"},
        ChangeKind.REQUESTED_NODES: lambda *_: {"requestednodes": ""},
        ChangeKind.EXCLUDED_NODES: lambda *_: {"excludednodes": ""},
        ChangeKind.NODE_GROUP: lambda _, request: {"nodegroup": ",".join(request.node_groups)},
        ChangeKind.NODE_NEED: lambda change, _: _anything_of(change.about),
        ChangeKind.UNIFORM: lambda *_: {"nodegroupop": "Union"},
        ChangeKind.MINIMUM_MEMORY: lambda _, request: _memory(request),
        ChangeKind.MAXIMUM_MEMORY: lambda _, request: _memory(request),
        ChangeKind.MINIMUM_PROCESSORS: lambda _, request: _processors(request),
        ChangeKind.MAXIMUM_PROCESSORS: lambda _, request: _processors(request),
        ChangeKind.PROCESSORS_PER_GPU: lambda change, _: {"corespergpu": str(change.value)},
        ChangeKind.LICENCES: lambda _, request: {"license": format_licences(request.licences)},
        ChangeKind.PRIORITY: lambda change, _: {"priority": format_priority(Priority(change.value))},
    }
)


def _anything_of(need: str) -> ChangeOptions:
    return {name: "" for name, (field, _) in NEEDS.items() if field == need}


def _memory(request: JobRequest) -> ChangeOptions:
    return {"memorypernode": _bounds(request.minimum_memory, request.maximum_memory)}


def _processors(request: JobRequest) -> ChangeOptions:
    span = _bounds(request.minimum_processors_per_node, request.maximum_processors_per_node)
    return {"corespernode": span}
