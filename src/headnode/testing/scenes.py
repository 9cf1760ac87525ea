"""Small clusters, written as values: what a policy is shown, in one expression.

>>> from headnode.testing import asks, node, runs, scene
>>> view = scene(
...     nodes=[node("a", 2), node("b", 2)],
...     running=[runs(1, asks(1), ("a", 1), minutes_left=10)],
...     queue=[(2, asks(4, minutes=60)), (3, asks(1, minutes=5), 3000)],
... )
>>> [each.free for each in view.nodes.values()], len(view.queue)
([1, 2], 2)
"""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

import msgspec

from headnode.core.model.job import JobRequest, NodeGroupOp, RequestPart, UnitType
from headnode.core.model.node import NodeFacts
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.owner_limits import (
    LimitedAmount,
    LimitOwner,
    LimitScope,
    LimitShare,
    is_of_one_job,
    timed,
)
from headnode.core.model.priority_factors import QueuePosition, queue_position
from headnode.core.model.quantities import FOREVER, NEVER, Instant, JobId, Seconds
from headnode.core.scheduling.node_view import NodeView, ReservedTime
from headnode.core.scheduling.plan import Plan, Reservation, Start
from headnode.core.scheduling.view import RunningJob, View, WaitingClass
from headnode.testing.specification import gpus_with, held_of_each_node, limits_with, memory_with_each

NOW = Instant(1_000_000.0)
MINUTE = 60.0
INF = inf

Queued = tuple[int, JobRequest] | tuple[int, JobRequest, int]
"""A job that waits: its id, its request and, if it is not 2000, its priority."""


def asks(minimum: int = 1, maximum: int | None = None, minutes: float = INF, **more: Any) -> JobRequest:
    """Return a request for processors; everything else as a CCS job says nothing, but shared.

    `more` are fields of a `JobRequest`, such as `memory`, `exclusive`, `single_node` or `licences`.
    """
    plain: dict[str, Any] = {
        "unit": UnitType.PROCESSOR,
        "exclusive": False,
        "single_node": False,
        "licences": (),
        "node_groups": (),
        "node_group_op": NodeGroupOp.INTERSECT,
        "requested_nodes": (),
        "required_nodes": (),
        "excluded_nodes": (),
        "order_by": (),
        "minimum_memory": None,
        "maximum_memory": None,
        "minimum_processors_per_node": None,
        "maximum_processors_per_node": None,
        "run_time": FOREVER if minutes == INF else Seconds(minutes * MINUTE),
    }
    return JobRequest(minimum=minimum, maximum=minimum if maximum is None else maximum, **{**plain, **more})


def on_gpus(
    gpus: int = 1, maximum: int | None = None, minutes: float = INF, *, each: int = 1, **more: Any
) -> JobRequest:
    """Return a request for GPUs, with so many processors each; `more` as for `asks`."""
    return asks(gpus, maximum, minutes, unit=UnitType.GPU, processors_per_gpu=each, **more)


def limited(request: JobRequest, user: str, **most: int) -> JobRequest:
    """Return the request of a user's job, with limits of all the user's jobs: jobs, processors, gpus,
    processor_minutes, gpu_minutes, or of each of them: processor_minutes_per_job, gpu_minutes_per_job.

    >>> [share.key for share in limited(asks(2), "ann", jobs=1, processors=4).limits]
    ['user,jobs,ann', 'user,processors,ann']
    """
    shares = []
    for amount, limit in most.items():
        owner = LimitOwner(LimitScope.USER, user, LimitedAmount(amount.replace("_", "-")))
        if owner.amount is LimitedAmount.JOBS:
            shares.append(LimitShare(owner.key, limit, 1))
        elif owner.amount is LimitedAmount.PROCESSORS:
            shares.append(LimitShare(owner.key, limit))
        elif owner.amount.counts_gpus and not request.processors_per_gpu:
            continue
        elif owner.amount.counts_time:
            of_gpus = owner.amount.counts_gpus
            size = request.processors_per_gpu if of_gpus else 1
            asked = request.maximum if of_gpus and request.exclusive else None
            shares.append(timed(LimitShare(owner.key, limit, asked, size), owner.amount, request.run_time))
        else:
            shares.append(LimitShare(owner.key, limit, size=request.processors_per_gpu))
    others = tuple(limited(other, user, **most) for other in request.alternatives)
    return msgspec.structs.replace(request, limits=tuple(shares), alternatives=others)


def part(size: int = 1, times: int = 1, *, group: str = "", **more: Any) -> RequestPart:
    """Return what a task needs that asks for so many lumps of so many processors.

    `more` are fields of a `RequestPart`, such as `apart`, or of its `NodeNeeds`, such as `features`.
    """
    own = {name: more.pop(name) for name in tuple(more) if name in RequestPart.__struct_fields__}
    return RequestPart(((size, times),), **{"needs": NodeNeeds(**more), "node_group": group, **own})


def gang(*parts: RequestPart, minutes: float = INF, **more: Any) -> JobRequest:
    """Return a request whose parts are all held at once; `more` are fields of a `JobRequest`."""
    return asks(sum(each.units for each in parts), None, minutes, together=True, parts=parts, **more)


def node(
    name: str,
    processors: int = 2,
    *,
    closed: str = "",
    minutes_open: float = INF,
    kept: Sequence[ReservedTime] = (),
    switches: str = "",
    **facts: Any,
) -> NodeView:
    """Return an idle node; `kept` are the times for which it is reserved, `switches` are those above it."""
    said = NodeFacts(name=name, processors=processors, **facts)
    return NodeView(
        said,
        free=processors,
        closed=closed,
        open_for=minutes_open * MINUTE,
        reserved=tuple(kept),
        switches=tuple(switches.split()),
    )


def kept_for(name: str, begins: float, ends: float, *, limits: bool = True, says: str = "") -> ReservedTime:
    """Return a time for which nodes are reserved, in minutes from now."""
    return ReservedTime(name, begins * MINUTE, ends * MINUTE, limits, says or f"for {name}")


def runs(
    job: int,
    request: JobRequest,
    *allocation: tuple[str, int],
    minutes_left: float = INF,
    wants: int = 0,
    priority: int = 2000,
    now: Instant = NOW,
) -> RunningJob:
    """Return a job that holds processors."""
    end = NEVER if minutes_left == INF else Instant(now + minutes_left * MINUTE)
    return RunningJob(JobId(job), turn_of(job, priority), request, end, allocation, wants)


def reserved(
    job: int,
    request: JobRequest,
    *allocation: tuple[str, int],
    minutes: float,
    priority: int = 2000,
    option: int = 0,
    now: Instant = NOW,
) -> Reservation:
    """Return a reservation of the plan before, for a start in so many minutes."""
    at = NEVER if minutes == INF else Instant(now + minutes * MINUTE)
    return Reservation(JobId(job), at, allocation, turn_of(job, priority), request, option)


def turn_of(job: int, priority: int = 2000) -> QueuePosition:
    """Return the turn of a job that was submitted in the order of its id."""
    return queue_position(priority, job, job)


def scene(
    nodes: Sequence[NodeView],
    running: Sequence[RunningJob] = (),
    queue: Sequence[Queued] = (),
    licences: Mapping[str, tuple[int, int]] | None = None,
    *,
    depth: float = inf,
    before: Sequence[Reservation] | None = None,
    freed: bool = True,
    now: Instant = NOW,
) -> View:
    """Return the view: nodes idle but for what `running` holds.

    `licences` are (in all, free) by feature; limits of users are counted from the jobs.  `before`
    are the reservations of the plan before.
    """
    return View(
        now=now,
        nodes={each.facts.name: _held(each, running) for each in nodes},
        queue=waiting(queue),
        running=running,
        licences={**limits_of(running, queue), **(licences or {})},
        depth=depth,
        before=None if before is None else Plan((), (), {}, tuple(before)),
        freed=freed,
    )


def waiting(queue: Sequence[Queued]) -> list[WaitingClass]:
    """Return the queued jobs by request."""
    classes: dict[JobRequest, list[QueuePosition]] = {}
    for job, request, *priority in queue:
        classes.setdefault(request, []).append(turn_of(job, *priority))
    return [WaitingClass(request, sorted(turns)) for request, turns in classes.items()]


def limits_of(running: Sequence[RunningJob], queue: Sequence[Queued]) -> dict[str, tuple[int, int]]:
    """Return the limits of all these jobs: how much there is in all, and how much is free."""
    asked = [job.request for job in running]
    asked += [option for _, request, *_ in queue for option in (request, *request.alternatives)]
    limits = {share.key: share.limit for request in asked for share in request.limits}
    left = dict(limits)
    for job in running:
        for key, amount in limits_with(job.request, sum(count for _, count in job.allocation)).items():
            left[key] -= 0 if is_of_one_job(key) else amount
    return {key: (limit, left[key]) for key, limit in limits.items()}


def started(plan: Plan) -> list[int]:
    """Return the jobs the plan starts, in order."""
    return [start.job for start in plan.starts]


def start(job: int, *allocation: tuple[str, int], ahead_of: int | None = None) -> Start:
    """Return a start decision."""
    return Start(JobId(job), allocation, None if ahead_of is None else JobId(ahead_of))


def _held(each: NodeView, running: Sequence[RunningJob]) -> NodeView:
    mine = [(job, count) for job in running for name, count in job.allocation if name == each.facts.name]
    owner = next((job.job for job, _ in mine if job.request.exclusive), None)
    free = each.facts.processors - sum(count for _, count in mine)
    memory = sum(count * memory_with_each(job.request) for job, count in mine)
    of_nodes = [held_of_each_node(job.request) for job in {job.job: job for job, _ in mine}.values()]
    held = [sum(amounts) for amounts in zip((memory, 0, 0), *of_nodes, strict=True)]
    return NodeView(
        each.facts,
        free,
        len(mine),
        owner,
        each.closed,
        held[0],
        each.open_for,
        each.reserved,
        disk_held=held[1],
        swap_held=held[2],
        gpus_held=sum(gpus_with(job.request, count) for job, count in mine),
        switches=each.switches,
    )
