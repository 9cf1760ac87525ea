"""From shares of nodes to processors with numbers, and back."""

from collections.abc import Sequence
from itertools import chain, islice

from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.events import Place
from headnode.core.lifecycle.flow import Flow
from headnode.core.lifecycle.paused import starts_paused
from headnode.core.lifecycle.records import JobRecord, NodeRecord
from headnode.core.lifecycle.reserving import must_take
from headnode.core.lifecycle.room import all_could_run
from headnode.core.lifecycle.units import processors_for, units_in
from headnode.core.model.errors import WrongState
from headnode.core.model.job import JobRequest, UnitType
from headnode.core.model.node import NodeState
from headnode.core.model.quantities import Instant, JobId

Shares = tuple[tuple[str, int], ...]


def pick(
    cluster: Cluster, job: JobId, request: JobRequest, shares: Shares, now: Instant, end: Instant
) -> Place:
    """Return numbered processors for the shares, the lowest free numbers first.

    `end` is when whatever runs there is surely over.

    Raises:  WrongState ``stale-plan`` when the node no longer has them.
    """
    for node, _ in shares:
        if cluster.bookings.on or request.reservation:
            must_take(cluster.bookings.on.get(node, ()), request, node, now, end)
        if node in cluster.nodes and cluster.nodes[node].closes < end:
            raise WrongState(
                code="stale-plan", what=f"node {node!r} closes before job {job} is certain to end"
            )
    return tuple((node, tuple(_free(cluster, job, request, node, count)[:count])) for node, count in shares)


def pick_parts(job: JobId, allocation: Place, parts: Sequence[Shares]) -> tuple[Place, ...]:
    """Return which processors of an allocation are for each part of a gang, in their order.

    Raises:  WrongState ``stale-plan`` when the allocation has not so many.
    """
    left = {node: iter(numbers) for node, numbers in allocation}
    found: list[Place] = []
    for shares in parts:
        found.append(tuple((node, tuple(islice(left.get(node, iter(())), count))) for node, count in shares))
        if [(node, len(numbers)) for node, numbers in found[-1]] != list(shares):
            raise WrongState(
                code="stale-plan", what=f"part {len(found)} of job {job} is not in its allocation"
            )
    return tuple(found)


def _free(cluster: Cluster, job: JobId, request: JobRequest, node: str, count: int) -> list[int]:
    known = cluster.nodes.get(node)
    free = cluster.free_on(node)
    if known is None or not _is_open(cluster, job, known) or len(free) < count or count < 1:
        raise WrongState(
            code="stale-plan", what=f"node {node!r} no longer has {count} free processors for job {job}"
        )
    others = cluster.holders.get(node, set()) - {job}
    if others and (request.exclusive or exclusive_holder(cluster, node) in others):
        raise WrongState(code="stale-plan", what=f"node {node!r} cannot be shared with job {job}")
    return free


def _is_open(cluster: Cluster, job: JobId, node: NodeRecord) -> bool:
    if node.state is NodeState.PAUSED:
        return starts_paused(cluster.jobs[job])
    return node.state is NodeState.READY


def exclusive_holder(cluster: Cluster, node: str) -> JobId | None:
    """Return the job that owns all of a node, if one does: then nobody else holds anything there."""
    holders = cluster.holders.get(node, ())
    if len(holders) != 1:
        return None
    (job,) = holders
    return job if cluster.request(cluster.jobs[job]).exclusive else None


def surplus(cluster: Cluster, record: JobRecord, now: Instant) -> list[e.AllocationShrunk]:
    """Return what the job does not need any more: idle processors beyond its minimum and its waiting tasks.

    Whole nodes go first, the last taken first.  A job that runs until canceled keeps all it has,
    and so does a gang.
    """
    flow = cluster.flow(record.id)
    request = cluster.request(record)
    if flow.spec.run_until_canceled or request.together or not any(flow.free.values()):
        return []
    spare = held_units(cluster, record) - _units_needed(cluster, record, request)
    named = {node.lower() for node in request.required_nodes}
    removed: list[tuple[str, tuple[int, ...]]] = []
    for node in reversed(flow.run.allocation):
        if spare < 1:
            break
        units, numbers = (0, ()) if node.lower() in named else _gift(cluster, flow, node, spare)
        while units and not _leaves_room(cluster, flow, request, (*removed, (node, numbers))):
            units, numbers = _gift(cluster, flow, node, units - 1)
        if units and (len(numbers) == len(flow.run.allocation[node]) or not request.exclusive):
            removed.append((node, numbers))
            spare -= units
    if not removed:
        return []
    return [e.AllocationShrunk(at=now, job=record.id, removed=tuple(removed))]


def _leaves_room(cluster: Cluster, flow: Flow, request: JobRequest, removed: Place) -> bool:
    """Whether what is left serves every task that asks for nodes of a kind."""
    if not request.parts:
        return True
    gone = dict(removed)
    left = {
        node: [number for number in numbers if number not in gone.get(node, ())]
        for node, numbers in flow.run.allocation.items()
    }
    return all_could_run(cluster, flow, left)


def _gift(cluster: Cluster, flow: Flow, node: str, spare: int) -> tuple[int, tuple[int, ...]]:
    """Return the most units of a node, up to `spare`, that are idle, and their processors: the last ones."""
    held, free = len(flow.run.allocation[node]), flow.free[node]
    unit, facts = flow.spec.unit, cluster.nodes[node].facts
    units = units_in(unit, held, facts)
    for give in range(min(units, spare), 0, -1):
        number = held - processors_for(unit, units - give, facts)
        if number <= len(free):
            return give, tuple(free[len(free) - number :])
    return 0, ()


def held_units(cluster: Cluster, record: JobRecord) -> int:
    """Return how many of its units a job holds and may keep."""
    run = cluster.flow(record.id).run
    unit = cluster.request(record).unit
    return sum(
        units_in(unit, len(held) - run.recalled.get(node, 0), cluster.nodes[node].facts)
        for node, held in run.allocation.items()
    )


def idle_units(cluster: Cluster, record: JobRecord) -> int:
    """Return how many of the units that a job holds none of its tasks uses; they may be prepared just now."""
    flow = cluster.flow(record.id)
    unit, idle = cluster.request(record).unit, flow.idle()
    if unit is UnitType.NODE:
        return sum(len(idle[node]) == len(held) for node, held in flow.run.allocation.items())
    return sum(units_in(unit, len(free), cluster.nodes[node].facts) for node, free in idle.items())


def _units_needed(cluster: Cluster, record: JobRecord, request: JobRequest) -> int:
    """Return how many units the job must keep: its minimum, and what its tasks use or wait for."""
    flow = cluster.flow(record.id)
    held = held_units(cluster, record)
    needed = held - idle_units(cluster, record)
    if flow.service in flow.ready:
        return held
    for index in chain(flow.ready, flow.blocks):
        needed += flow.spec.tasks[index].maximum * len(flow.run.tasks[index].queued)
        if needed >= held:
            return held
    return max(request.minimum, needed)
