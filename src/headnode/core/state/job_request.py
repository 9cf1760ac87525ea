"""What a job asks of the scheduler: nodes and processors, also to go on, and the time it may take."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import ceil, floor, log2

import msgspec
from msgspec.structs import replace

from headnode.core.model.errors import BadRequest, Broken
from headnode.core.model.job import (
    NOTHING_HELD,
    JobRequest,
    JobSpec,
    NodeGroupOp,
    RequestPart,
    UnitType,
    gpus_with,
    places_named,
    with_option,
)
from headnode.core.model.node_needs import ANY_NODE, NodeNeeds
from headnode.core.model.quantities import FOREVER, NEVER, Instant, Seconds, format_time_limit
from headnode.core.model.resource import HERE, places_in
from headnode.core.model.task import MAX_INSTANCES, TaskSpec, TaskType
from headnode.core.state.job_events import NodeCores
from headnode.core.state.job_record import (
    MAX_REMEMBERED,
    SMALL,
    JobRecord,
    JobRun,
    JobSuspension,
    decode_spec,
    encode_spec,
    without_texts,
)
from headnode.core.state.task_layout import gang_parts, is_gang, shared_parts


class JobNames(msgspec.Struct, frozen=True):
    """The names in a description."""

    name: str = ""
    project: str = ""


_names_decoder = msgspec.msgpack.Decoder(JobNames)


def job_names(data: bytes) -> JobNames:
    """Return the names in the description that `data` holds, without reading the rest of it."""
    return _small_names(data) if len(data) <= SMALL else _names_decoder.decode(data)


_small_names = lru_cache(MAX_REMEMBERED)(_names_decoder.decode)


def request_of(spec: JobSpec) -> JobRequest:
    """Return the request with its alternatives; sizes that were left open are calculated from the tasks."""
    own = own_request(spec)
    if not spec.alternatives:
        return own
    return replace(own, alternatives=others(spec), resource=_joined(places_named(spec)))


def others(spec: JobSpec) -> tuple[JobRequest, ...]:
    """Return the request of each alternative for own nodes, in their order; even if they ask for the same.

    So the n-th of them is option n of the job: those for resources come last.
    """
    local = sum(1 for other in spec.alternatives if other.resource is None)
    return tuple(own_request(with_option(spec, option)) for option in range(1, local + 1))


def own_request(spec: JobSpec) -> JobRequest:
    """Return the request without its alternatives: that of a job that runs.

    A gang is as large as its tasks need to run beside each other, whatever size the job says.
    """
    plain = _plain(spec)
    if not spec.tasks:
        return plain
    if not is_gang(spec):
        parts = shared_parts(spec)
        return replace(plain, parts=parts) if parts else plain
    parts = gang_parts(spec)
    size = sum(part.units for part in parts)
    return replace(plain, minimum=size, maximum=size, node_share=0, together=True, parts=parts)


def _plain(spec: JobSpec) -> JobRequest:
    smallest = max((task.minimum for task in spec.tasks), default=1)
    minimum = smallest if spec.minimum is None else spec.minimum
    largest = sum(task.maximum * _beside(task) for task in spec.tasks) or 1
    maximum = largest if spec.maximum is None else spec.maximum
    required = {node: None for task in spec.tasks for node in task.required_nodes}
    return JobRequest(
        unit=spec.unit,
        minimum=minimum,
        maximum=max(minimum, maximum),
        exclusive=spec.exclusive,
        single_node=spec.single_node,
        run_time=spec.run_time,
        minimum_run_time=spec.minimum_run_time,
        licences=spec.licences,
        node_groups=spec.node_groups,
        resource=_joined(places_in(spec.resource)) if spec.resource else "",
        node_group_op=spec.node_group_op,
        requested_nodes=spec.requested_nodes,
        required_nodes=tuple(required),
        excluded_nodes=spec.excluded_nodes,
        order_by=spec.order_by,
        minimum_memory=spec.minimum_memory,
        maximum_memory=spec.maximum_memory,
        minimum_processors_per_node=spec.minimum_processors_per_node,
        maximum_processors_per_node=spec.maximum_processors_per_node,
        memory=spec.process_memory or 0,
        held=spec.held,
        node_share=max((task.minimum for task in spec.tasks if task.exclusive), default=0),
        processors_per_gpu=spec.processors_per_gpu if spec.unit is UnitType.GPU else 0,
        needs=spec.needs,
        reservation=spec.reservation.lower(),
        switches=spec.switches,
        switches_until=NEVER if spec.switches_wait == FOREVER else Instant(0.0),
        contiguous=spec.contiguous,
    )


def _joined(places: tuple[str, ...]) -> str:
    """Return what a request has as its resource: empty for own nodes, a name, or several places."""
    return "" if places == (HERE,) else ",".join(places)


def _beside(task: TaskSpec) -> int:
    """Return how many instances of a task may run beside each other; a service fills whatever it is given."""
    return MAX_INSTANCES if task.kind is TaskType.SERVICE else task.instances


def request_in(data: bytes) -> JobRequest:
    """Return the request of the description that `data` holds; equal small ones of late share one."""
    return _request_in_small(data) if len(data) <= SMALL else request_of(decode_spec(data))


def request_taken(data: bytes, run: JobRun | None) -> JobRequest:
    """Return the request under which a job with the description in `data` runs, or would without a run."""
    whole = request_in(data)
    option, limit = (0, None) if run is None else (run.alternative, run.lowered_limit)
    taken = whole.option(option, limit) if option or limit is not None else whole
    return replace(taken, alternatives=()) if taken.alternatives else taken


def without_refused(request: JobRequest, run: JobRun | None) -> JobRequest:
    """Return the request of a job without the nodes that could not be prepared for it."""
    if run is None or not run.refused:
        return request
    return replace(request, excluded_nodes=(*request.excluded_nodes, *run.refused))


@lru_cache(MAX_REMEMBERED)
def _request_in_small(data: bytes) -> JobRequest:
    return _request_without_texts(encode_spec(without_texts(decode_spec(data))))


@lru_cache(MAX_REMEMBERED)
def _request_without_texts(data: bytes) -> JobRequest:
    return request_of(decode_spec(data))


Places = dict[str, tuple[int, ...]]


def suspension_of(run: JobRun | None) -> JobSuspension:
    """Return the suspension of a job that is suspended.

    Raises:  Broken ``not-suspended``.
    """
    if run is None or run.suspension is None:
        raise Broken(code="not-suspended", what="a job is suspended and has no suspension")
    return run.suspension


def request_to_resume(spec: JobSpec, suspension: JobSuspension) -> JobRequest:
    """Return the request of a suspended job that waits to go on: one part for each of its nodes.

    It takes its licences again.  Its memory, disk, swap and GPUs it never gave back.
    """
    processors = sum(map(len, suspension.allocation.values()))
    left = FOREVER if suspension.remaining is None else suspension.remaining
    if spec.end_by is not None:
        left = min(left, Seconds(max(0.0, spec.end_by - suspension.since)))
    return replace(
        own_request(spec),
        unit=UnitType.PROCESSOR,
        minimum=processors,
        maximum=processors,
        run_time=left,
        minimum_run_time=None,
        single_node=False,
        node_groups=(),
        node_group_op=NodeGroupOp.INTERSECT,
        contiguous=False,
        requested_nodes=(),
        required_nodes=(),
        excluded_nodes=(),
        order_by=(),
        minimum_memory=None,
        maximum_memory=None,
        minimum_processors_per_node=None,
        maximum_processors_per_node=None,
        memory=0,
        held=NOTHING_HELD,
        processors_per_gpu=0,
        node_share=0,
        needs=ANY_NODE,
        switches=0,
        together=True,
        parts=tuple(_part(node, len(numbers)) for node, numbers in suspension.allocation.items()),
    )


def gpus_while_suspended(record: JobRecord) -> int:
    """Return how many GPUs a suspended job has."""
    run = record.run
    if run is None or run.suspension is None:
        return 0
    return gpus_of(request_taken(record.spec, run), map(len, run.suspension.allocation.values()))


def gpus_of(request: JobRequest, sizes: Iterable[int]) -> int:
    """Return how many GPUs a job has with so many processors of each of its nodes.

    One that owns its nodes has those that it asks for: its processors are all those of the nodes.
    """
    if request.exclusive and request.processors_per_gpu:
        return request.maximum
    return sum(gpus_with(size, request.processors_per_gpu) for size in sizes)


def _part(node: str, processors: int) -> RequestPart:
    return RequestPart(lumps=((processors, 1),), needs=NodeNeeds(names=(node,)))


def renumbered(before: Places, now: Places) -> dict[str, dict[int, int]]:
    """Return, by node, which processor takes the place of each one that a job had.

    One that it has again keeps its place.
    """
    found: dict[str, dict[int, int]] = {}
    for node, had in before.items():
        has = now.get(node, ())
        fresh = iter(sorted(set(has) - set(had)))
        found[node] = {number: number if number in has else next(fresh) for number in sorted(had)}
    return found


def moved_place(place: NodeCores, to: dict[str, dict[int, int]]) -> NodeCores:
    """Return a place with its processors renumbered; nodes that `to` does not know are left alone."""
    return tuple(
        (node, tuple(to[node].get(number, number) for number in numbers) if node in to else numbers)
        for node, numbers in place
    )


MINUTE = 60
TRANSFER_HOLD_PARAMETER, TRANSFER_HOLD_TIME = "TransferHoldTime", 10
"""For how many seconds a job keeps processors for which it only waits for files, unless a parameter says."""


STAGING_WAKE_UP = ":staging"
"""In place of a node's name: when a job whose files come is looked at again."""


def wake_ups(run: JobRun, parameters: Mapping[str, str]) -> dict[str, Instant]:
    """Return when a job is looked at again that holds processors, by node or reason."""
    if run.staged_since is None:
        return run.cleaning
    return {**run.cleaning, STAGING_WAKE_UP: hold_end(parameters, run.staged_since)}


def hold_end(parameters: Mapping[str, str], since: Instant) -> Instant:
    """Return until when a job keeps its processors for which nothing but transfers goes on since then."""
    return Instant(since + float(parameters.get(TRANSFER_HOLD_PARAMETER, TRANSFER_HOLD_TIME)))


def limit_end(spec: JobSpec, run: JobRun) -> Instant:
    """Return when the run time limit of a started job is over, without the time that it stood still."""
    if run.started is None or run.staged_since is not None:
        return NEVER
    return Instant(run.started + spec.run_time + run.not_run)


def deadline_of(spec: JobSpec, run: JobRun) -> Instant | None:
    """Return when a job that runs is ended: the earlier of its limit and its deadline; None for never."""
    end = min(limit_end(spec, run), NEVER if spec.end_by is None else spec.end_by)
    return None if end == NEVER else end


def shortest(spec: JobSpec) -> Seconds:
    """Return the lowest run time limit under which the job would run; a job without any needs 0."""
    least = spec.minimum_run_time
    limits = [with_option(spec, option).run_time for option in range(len(spec.alternatives) + 1)]
    return min(least or Seconds(0.0) if limit == FOREVER else min(limit, least or limit) for limit in limits)


def last_start(spec: JobSpec) -> Instant | None:
    """Return when a job must have started to end by its deadline; None when it has none."""
    return None if spec.end_by is None else Instant(spec.end_by - shortest(spec))


def request_within(request: JobRequest, span: Seconds) -> JobRequest:
    """Return the request with run time limits of at most `span`: those of a job with a deadline."""
    others = tuple(request_within(other, span) for other in request.alternatives)
    return replace(request, run_time=min(request.run_time, span), alternatives=others)


def rounded_span(span: Seconds) -> Seconds:
    """Return a span that is at most a sixteenth longer: such jobs are few classes in the queue, not one each.

    >>> rounded_span(Seconds(90.0)), rounded_span(Seconds(3600.0)), rounded_span(Seconds(0.0))
    (92.0, 3712.0, 0.0)
    """
    if span <= 0:
        return Seconds(0.0)
    step = 2.0 ** (floor(log2(span)) - 4)
    return Seconds(ceil(span / step) * step)


def queued_request(record: JobRecord) -> JobRequest:
    """Return the request of a job that has not started: its run time ends by its deadline."""
    request = request_in(record.spec)
    if request.switches:
        from headnode.core.state.switch_wait import waiting_for_switches  # few jobs ask for it

        request = waiting_for_switches(record, request)
    if record.last_start is None or record.submitted is None:
        return request
    end = decode_spec(record.spec).end_by
    if end is None:
        return request
    return request_within(request, rounded_span(Seconds(end - record.submitted)))


def check_still_ahead(spec: JobSpec, now: Instant) -> None:
    """Refuse a deadline that is over.

    Raises:  BadRequest ``end-by``.
    """
    if spec.end_by is not None and spec.end_by <= now:
        raise BadRequest(
            code="end-by",
            what="the deadline of the job has passed",
            fix="give it a later deadline, or none",
            path=("end_by",),
        )


def check_end_by(spec: JobSpec, now: Instant) -> None:
    """Refuse a deadline that cannot be kept.

    Raises:  BadRequest ``end-by`` with the longest run time limit that would fit.
    """
    if spec.end_by is None:
        return
    begin = max(now, spec.hold_until or now)
    room = spec.end_by - begin
    if room > 0 and room >= shortest(spec):
        return
    after = "from now" if begin == now else "after its hold ends"
    if room < MINUTE:
        raise BadRequest(
            code="end-by",
            what="the deadline of the job has passed" if spec.end_by <= now
            else f"the deadline of the job comes less than a minute {after}",
            fix="give it a later deadline, or none",
            path=("end_by",),
        )  # fmt: skip
    fits = format_time_limit(Seconds(room // MINUTE * MINUTE))
    limit = format_time_limit(shortest(spec))
    raise BadRequest(
        code="end-by",
        what=f"the run time limit {limit} of the job, counted {after}, exceeds its deadline",
        fix=f"give it a run time limit of at most {fits}, or a later deadline",
        path=("end_by",),
    )


def set_limits(run: JobRun, spec: JobSpec) -> None:
    """Compute the rest of a suspended job's time limit, or when the limit of a running job is over."""
    suspension = run.suspension
    if suspension is None or not suspension.allocation:
        run.deadline = deadline_of(spec, run)
        return
    staged = 0.0 if run.staged_since is None else max(0.0, suspension.since - run.staged_since)
    used = 0.0 if run.started is None else max(0.0, suspension.since - run.started - run.not_run - staged)
    unlimited = run.started is None or spec.run_time == FOREVER
    suspension.remaining = None if unlimited else Seconds(max(0.0, spec.run_time - used))
    run.deadline = spec.end_by
