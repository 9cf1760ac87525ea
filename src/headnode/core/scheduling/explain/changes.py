"""The job to be explained, and in which directions and by how much its request can be changed.

Every change asks for less, so when one lets a job start, a larger one of its kind does too."""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from math import ceil, isfinite
from typing import NamedTuple

import msgspec

from headnode.core.model.job import JobRequest, Licence, NodeGroupOp
from headnode.core.model.node_needs import ANY_NODE, NodeNeeds
from headnode.core.model.priority_factors import QueuePosition
from headnode.core.model.quantities import FOREVER, HIGHEST, NEVER, Instant, JobId, Priority, Seconds
from headnode.core.scheduling.limit_checks import times_within_limits
from headnode.core.scheduling.node_view import instants_of
from headnode.core.scheduling.plan import Plan, Shares
from headnode.core.scheduling.view import View, WaitingClass, with_limits


class Subject(NamedTuple):
    """The job whose changes are tried: its request and its queue position; queued or not yet submitted."""

    turn: QueuePosition
    request: JobRequest
    owner: str = ""
    project: str = ""

    @property
    def job(self) -> JobId:
        """The job it is."""
        return self.turn.job


class PlannedStart(NamedTuple):
    """The start of the subject in a plan: its nodes if it starts now, else the promised time, or NEVER."""

    at: Instant
    starts: Shares = ()

    @property
    def now(self) -> bool:
        """Whether the plan starts it at once."""
        return bool(self.starts)


def planned_start(plan: Plan, view: View, subject: Subject) -> PlannedStart:
    """Return what the plan, made from this view, does for the subject."""
    started = next((start for start in plan.starts if start.job == subject.job), None)
    if started is not None:
        return PlannedStart(view.now, started.allocation)
    return PlannedStart(expected_start(plan, view, subject))


def expected_start(plan: Plan, view: View, subject: Subject) -> Instant:
    """Return when a job that waits is promised to start; NEVER if the plan promises it nothing."""
    for kept in plan.reservations:
        if kept.job == subject.job:
            return kept.at
    wait = plan.waits.get(subject.request)
    if wait is None or _first_of_class(view, subject.request) != subject.turn:
        return NEVER
    return wait.not_before


def _first_of_class(view: View, request: JobRequest) -> QueuePosition | None:
    return min((waiting.turns[0] for waiting in view.queue if waiting.request == request), default=None)


def without_job(view: View, job: Subject) -> View:
    """Return the view in which this job does not queue; the view itself if it does not.

    Cost:  O(classes + jobs of its class).
    """
    queue = list(view.queue)
    for place, waiting in enumerate(queue):
        if waiting.request == job.request and _has(waiting, job.turn):
            left = [turn for turn in waiting.turns if turn != job.turn]
            queue[place : place + 1] = [msgspec.structs.replace(waiting, turns=left)] if left else []
            return msgspec.structs.replace(view, queue=queue)
    return view


def with_job(view: View, subject: Subject) -> View:
    """Return the view in which the subject queues too, in its turn.

    Cost:  O(classes + jobs of its class).
    """
    queue, of = list(view.queue), (subject.owner, subject.project)
    if view.positions is None:
        of = ("", "")  # classes are of all owners
    for place, waiting in enumerate(queue):
        if waiting.request == subject.request and (waiting.owner, waiting.project) == of:
            turns = list(waiting.turns)
            insort(turns, subject.turn)
            queue[place] = msgspec.structs.replace(waiting, turns=turns)
            break
    else:
        queue.append(WaitingClass(subject.request, (subject.turn,), *of))
    return msgspec.structs.replace(view, queue=queue, licences=with_limits(view.licences, subject.request))


def _has(waiting: WaitingClass, turn: QueuePosition) -> bool:
    place = bisect_left(waiting.turns, turn)
    return place < len(waiting.turns) and waiting.turns[place] == turn


MAX_LIMIT = 366 * 1440  # minutes; the longest run time limit proposed to a job that has none
NO_BOUND = 0  # for a bound of a node's memory or processors: any will do
REMOVED = 0  # for what a job has or has not: it has it no more
MINUTE = 60.0
_NodeDemand = tuple[NodeNeeds, str]
"""What parts demand of nodes, and their node group."""


class ChangeKind(StrEnum):
    """The property of a job that a change is about."""

    RUN_TIME = "run-time"  # minutes
    SIZE = "size"  # of the job as it queues; counts its unit
    SIZE_AGAIN = "size-submitted-again"  # of the job submitted anew, because its tasks ask for as much
    RESERVATION = "reservation"
    EXCLUSIVE = "exclusive"
    SINGLE_NODE = "single-node"
    CONTIGUOUS = "contiguous"
    REQUESTED_NODES = "requested-nodes"
    EXCLUDED_NODES = "excluded-nodes"
    REQUIRED_NODES = "required-nodes"
    NODE_NEED = "node-need"  # `about` is a field of `NodeNeeds`
    TASK_NODES = "task-nodes"  # `about` are numbers of parts of the request, such as ``2,3``
    NODE_GROUP = "node-group"  # `about` names it, or is empty for all of them
    UNIFORM = "uniform-node-group"
    MINIMUM_MEMORY = "minimum-memory"  # MB of a node
    MAXIMUM_MEMORY = "maximum-memory"
    MINIMUM_PROCESSORS = "minimum-processors-per-node"
    MAXIMUM_PROCESSORS = "maximum-processors-per-node"
    MEMORY = "memory"  # MB with each processor
    PROCESSORS_PER_GPU = "processors-per-gpu"
    LICENCES = "licences"  # `about` is the feature
    PRIORITY = "priority"


class ChangeLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of changes to a job that keeps its place in the queue.

    `least` and `most` are what its tasks need: no minimum below, no maximum below; `shortest` is the longest
    limit among its tasks.  `again` is the turn it would have if it was submitted anew; None: not asked.
    """

    least: int = 1
    most: int = 1
    shortest: Seconds = Seconds(MINUTE)
    highest: Priority = HIGHEST
    fixed: frozenset[ChangeKind] = frozenset()
    again: QueuePosition | None = None


class ChangeAxis(NamedTuple):
    """One kind of change: its values from the smallest to the largest, and a function that applies one.

    `guesses` are indexes of values that may be the mildest to help, in ascending order.
    """

    what: ChangeKind
    about: str
    values: Sequence[int]
    change: Callable[[Subject, int], Subject]
    guesses: tuple[int, ...] = ()


def axes_of(subject: Subject, view: View, plan: Plan, room: ChangeLimits) -> tuple[ChangeAxis, ...]:
    """Return every direction in which the job can be changed, what people change most readily first."""
    found = (
        *_run_time(subject, view, plan, room),
        *_sizes(subject, room),
        *_flags(subject),
        *_licences(subject),
        *_memory(subject),
        *_processors_per_gpu(subject),
        *_nodes(subject),
        *_needs(subject),
        *_bounds(subject, view),
        *_priority(subject, view, room),
    )
    return tuple(axis for axis in found if axis.values and axis.what not in room.fixed)


def _set(**fields: object) -> Callable[[Subject, int], Subject]:
    return lambda subject, _: _asking(subject, **fields)


def _asking(subject: Subject, **fields: object) -> Subject:
    return subject._replace(request=msgspec.structs.replace(subject.request, **fields))


def _run_time(subject: Subject, view: View, plan: Plan, room: ChangeLimits) -> Iterator[ChangeAxis]:
    asked = subject.request.run_time
    longest = MAX_LIMIT if asked == FOREVER else ceil(asked / MINUTE) - 1
    least = max(1, ceil(room.shortest / MINUTE))
    reserved = instants_of(node.reserved for node in view.nodes.values())
    due = {edge // MINUTE for edge in reserved} | {
        (kept.at - view.now) // MINUTE for kept in plan.reservations if isfinite(kept.at)
    }
    due |= {seconds // MINUTE for seconds in times_within_limits(subject.request, view)}
    unlimited = {0} if asked == FOREVER else set[int]()
    guesses = sorted(unlimited.union(longest - int(limit) for limit in due if least <= limit <= longest))
    yield ChangeAxis(
        ChangeKind.RUN_TIME,
        "",
        range(longest, least - 1, -1),
        lambda job, minutes: job._replace(request=job.request.option(0, Seconds(minutes * MINUTE))),
        tuple(guesses),
    )


def size_to_start(request: JobRequest) -> int:
    """Return how much must be there for the job to start, in its unit."""
    return request.maximum if request.start_at_maximum else request.minimum


def _sizes(subject: Subject, room: ChangeLimits) -> Iterator[ChangeAxis]:
    """Yield how much smaller it could be; a gang is as large as its tasks."""
    request = subject.request
    if request.together:
        return
    needed = max(1, request.node_share, len({name.casefold() for name in request.required_nodes}))
    size = size_to_start(request)
    least = max(needed, min(size, room.most if request.start_at_maximum else room.least))

    def resized(subject: Subject, size: int) -> Subject:
        return _resized(subject, size, room.most)

    def submitted_again(subject: Subject, size: int) -> Subject:
        turn = msgspec.structs.replace(room.again or subject.turn, key=subject.turn.key)
        return _resized(subject, size, 1)._replace(turn=turn)

    yield ChangeAxis(ChangeKind.SIZE, "", range(size - 1, least - 1, -1), resized)
    if room.again is not None:
        yield ChangeAxis(
            ChangeKind.SIZE_AGAIN, "", range(min(size, least) - 1, needed - 1, -1), submitted_again
        )


def _resized(subject: Subject, size: int, most: int) -> Subject:
    """Return the subject with less: of a job of one size its size, of others the minimum."""
    request = subject.request
    rigid = request.minimum >= request.maximum or request.start_at_maximum
    maximum = max(size, most) if rigid else request.maximum
    return _asking(subject, minimum=min(size, request.minimum), maximum=min(maximum, request.maximum))


def _flags(subject: Subject) -> Iterator[ChangeAxis]:
    request = subject.request
    if request.reservation:
        yield ChangeAxis(ChangeKind.RESERVATION, request.reservation, (REMOVED,), _set(reservation=""))
    if request.exclusive:
        yield ChangeAxis(ChangeKind.EXCLUSIVE, "", (REMOVED,), _set(exclusive=False))
    if request.single_node:
        yield ChangeAxis(ChangeKind.SINGLE_NODE, "", (REMOVED,), _set(single_node=False))
    if request.contiguous:
        yield ChangeAxis(ChangeKind.CONTIGUOUS, "", (REMOVED,), _set(contiguous=False))


def _licences(subject: Subject) -> Iterator[ChangeAxis]:
    for licence in subject.request.licences:
        fewer = (REMOVED,) if licence.amount is None else range(licence.amount - 1, -1, -1)
        yield ChangeAxis(ChangeKind.LICENCES, licence.feature, fewer, _fewer_licences(licence))


def _memory(subject: Subject) -> Iterator[ChangeAxis]:
    if subject.request.memory:
        less = range(subject.request.memory - 1, -1, -1)
        yield ChangeAxis(ChangeKind.MEMORY, "", less, lambda subject, memory: _asking(subject, memory=memory))


def _processors_per_gpu(subject: Subject) -> Iterator[ChangeAxis]:
    fewer = range(subject.request.processors_per_gpu - 1, 0, -1)
    yield ChangeAxis(ChangeKind.PROCESSORS_PER_GPU, "", fewer, lambda s, n: _asking(s, processors_per_gpu=n))


def _fewer_licences(licence: Licence) -> Callable[[Subject, int], Subject]:
    def change(subject: Subject, amount: int) -> Subject:
        kept = [each for each in subject.request.licences if each.feature != licence.feature or amount]
        fewer = [Licence(each.feature, amount) if each == licence else each for each in kept]
        return _asking(subject, licences=tuple(fewer))

    return change


def _nodes(subject: Subject) -> Iterator[ChangeAxis]:
    request = subject.request
    if request.requested_nodes:
        yield ChangeAxis(ChangeKind.REQUESTED_NODES, "", (REMOVED,), _set(requested_nodes=()))
    if request.excluded_nodes:
        yield ChangeAxis(ChangeKind.EXCLUDED_NODES, "", (REMOVED,), _set(excluded_nodes=()))
    if request.required_nodes:
        yield ChangeAxis(ChangeKind.REQUIRED_NODES, "", (REMOVED,), _without_required)
    groups = tuple(dict.fromkeys(request.node_groups))
    if len(groups) > 1 and request.node_group_op is NodeGroupOp.UNIFORM:
        yield ChangeAxis(ChangeKind.UNIFORM, "", (REMOVED,), _set(node_group_op=NodeGroupOp.UNION))
    if len(groups) > 1 and request.node_group_op is NodeGroupOp.INTERSECT:
        for group in groups:
            yield ChangeAxis(ChangeKind.NODE_GROUP, group, (REMOVED,), _outside(group))
    elif groups:
        yield ChangeAxis(ChangeKind.NODE_GROUP, "", (REMOVED,), _set(node_groups=()))


def _needs(subject: Subject) -> Iterator[ChangeAxis]:
    """Yield each thing that it demands of all its nodes, and the nodes that tasks of one kind demand."""
    for field in NodeNeeds.__struct_fields__:
        if getattr(subject.request.needs, field) != getattr(ANY_NODE, field):
            yield ChangeAxis(ChangeKind.NODE_NEED, field, (REMOVED,), _without_need(field))
    for asked, numbers in _parts_by_nodes(subject.request).items():
        yield ChangeAxis(ChangeKind.TASK_NODES, ",".join(map(str, numbers)), (REMOVED,), _on_any_node(asked))


def _without_need(field: str) -> Callable[[Subject, int], Subject]:
    def change(subject: Subject, _: int) -> Subject:
        left = msgspec.structs.replace(subject.request.needs, **{field: getattr(ANY_NODE, field)})
        return _asking(subject, needs=left)

    return change


def _parts_by_nodes(request: JobRequest) -> dict[_NodeDemand, list[int]]:
    """Return the numbers (from 1) of the parts that demand something of their nodes, by what that is."""
    alike: dict[_NodeDemand, list[int]] = {}
    for number, part in enumerate(request.parts, start=1):
        if part.needs != ANY_NODE or part.node_group:
            alike.setdefault((part.needs, part.node_group), []).append(number)
    return alike


def _on_any_node(demand: _NodeDemand) -> Callable[[Subject, int], Subject]:
    """Let parts that demand this of their nodes demand nothing; of what is shared they are then no part."""

    def change(subject: Subject, _: int) -> Subject:
        together, parts = subject.request.together, []
        for part in subject.request.parts:
            if (part.needs, part.node_group) != demand:
                parts.append(part)
            elif together or part.apart or part.whole:
                parts.append(msgspec.structs.replace(part, needs=ANY_NODE, node_group=""))
        return _asking(subject, parts=tuple(parts))

    return change


def _without_required(subject: Subject, _: int) -> Subject:
    parts = tuple(msgspec.structs.replace(part, required_nodes=()) for part in subject.request.parts)
    return _asking(subject, required_nodes=(), parts=parts)


def _outside(group: str) -> Callable[[Subject, int], Subject]:
    def change(subject: Subject, _: int) -> Subject:
        left = tuple(each for each in subject.request.node_groups if each != group)
        return _asking(subject, node_groups=left)

    return change


def _bounds(subject: Subject, view: View) -> Iterator[ChangeAxis]:
    memories = sorted({node.facts.memory for node in view.nodes.values()} - {0})
    sizes = sorted({node.facts.processors for node in view.nodes.values()} - {0})
    for what, field, there, up in (
        (ChangeKind.MINIMUM_MEMORY, "minimum_memory", memories, False),
        (ChangeKind.MAXIMUM_MEMORY, "maximum_memory", memories, True),
        (ChangeKind.MINIMUM_PROCESSORS, "minimum_processors_per_node", sizes, False),
        (ChangeKind.MAXIMUM_PROCESSORS, "maximum_processors_per_node", sizes, True),
    ):
        bound: int | None = getattr(subject.request, field)
        if bound is not None:
            wider = [each for each in there if each > bound] if up else [e for e in there[::-1] if e < bound]
            yield ChangeAxis(what, "", (*wider, NO_BOUND), _bound(field))


def _bound(field: str) -> Callable[[Subject, int], Subject]:
    return lambda subject, bound: _asking(subject, **{field: bound or None})


def _priority(subject: Subject, view: View, room: ChangeLimits) -> Iterator[ChangeAxis]:
    """Yield the priorities at which the job overtakes another: the same if it is older, or one more."""
    ahead = {turn.priority for waiting in view.queue for turn in waiting.turns if turn < subject.turn}
    ahead |= {job.turn.priority for job in view.running if job.wants and job.turn < subject.turn}
    worth = {value for theirs in ahead for value in (theirs, theirs + 1)}
    higher = sorted(value for value in worth if subject.turn.priority < value <= room.highest)
    yield ChangeAxis(ChangeKind.PRIORITY, "", higher, _of_priority)


def _of_priority(subject: Subject, priority: int) -> Subject:
    return subject._replace(turn=msgspec.structs.replace(subject.turn, minus_priority=-priority))
