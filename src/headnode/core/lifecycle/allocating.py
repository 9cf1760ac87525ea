"""From shares of nodes to processors with numbers, and back."""

from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.events import Place
from headnode.core.lifecycle.records import JobRecord
from headnode.core.model.errors import WrongState
from headnode.core.model.job import JobRequest, UnitType
from headnode.core.model.node import NodeState
from headnode.core.model.quantities import Instant, JobId


def pick(cluster: Cluster, record: JobRecord, shares: tuple[tuple[str, int], ...]) -> Place:
    """Return numbered processors for the shares, the lowest free numbers first.

    Raises:  WrongState ``stale-plan`` when the node no longer has them.
    """
    return tuple((node, tuple(_free(cluster, record, node, count)[:count])) for node, count in shares)


def _free(cluster: Cluster, record: JobRecord, node: str, count: int) -> list[int]:
    known = cluster.nodes.get(node)
    free = cluster.free.get(node, [])
    if known is None or known.state is not NodeState.READY or len(free) < count or count < 1:
        raise WrongState(
            code="stale-plan", what=f"node {node!r} no longer has {count} free processors for job {record.id}"
        )
    others = cluster.holders.get(node, set()) - {record.id}
    if others and (cluster.request(record).exclusive or exclusive_holder(cluster, node) in others):
        raise WrongState(code="stale-plan", what=f"node {node!r} cannot be shared with job {record.id}")
    return free


def exclusive_holder(cluster: Cluster, node: str) -> JobId | None:
    """Return the job that owns all of a node, if one does."""
    for job in cluster.holders.get(node, ()):
        if cluster.request(cluster.jobs[job]).exclusive:
            return job
    return None


def surplus(cluster: Cluster, record: JobRecord, now: Instant) -> list[e.AllocationShrunk]:
    """Return what the job does not need any more: idle processors beyond its minimum and its waiting tasks.

    Whole nodes go first, the last taken first.  A job that runs until canceled keeps all it has.
    """
    flow = cluster.flow(record.id)
    request = cluster.request(record)
    if flow.spec.run_until_canceled or not any(flow.free.values()):
        return []
    keep = _processors_needed(cluster, record, request)
    spare = sum(map(len, flow.run.allocation.values())) - keep
    named = {node.lower() for node in request.required_nodes}
    removed = []
    for node in reversed(flow.run.allocation):
        held, free = flow.run.allocation[node], flow.free[node]
        step = _step(cluster, node, request)
        give = min(len(free), spare) // step * step
        if give and node.lower() not in named and (give == len(held) or not request.exclusive):
            removed.append((node, tuple(free[len(free) - give :])))
            spare -= give
    if not removed:
        return []
    return [e.AllocationShrunk(at=now, job=record.id, removed=tuple(removed))]


def _step(cluster: Cluster, node: str, request: JobRequest) -> int:
    """Return how many processors of a node go together."""
    facts = cluster.nodes[node].facts if node in cluster.nodes else None
    if facts is None or request.unit is UnitType.PROCESSOR:
        return 1
    if request.unit is UnitType.NODE:
        return max(1, facts.processors)
    return max(1, facts.processors // max(1, facts.sockets))


def _processors_needed(cluster: Cluster, record: JobRecord, request: JobRequest) -> int:
    """Return how many processors the job must keep: its minimum, and what its tasks use or wait for."""
    flow = cluster.flow(record.id)
    busy = sum(len(numbers) for place in flow.lanes for _, numbers in place)
    largest = max((_step(cluster, node, request) for node in flow.run.allocation), default=1)
    held = sum(map(len, flow.run.allocation.values()))
    wanted = 0
    for task, progress in zip(flow.spec.tasks, flow.run.tasks, strict=True):
        wanted += task.maximum * len(progress.queued)
        if busy + wanted * largest >= held:
            return held
    return max(request.minimum * largest, busy + wanted * largest)
