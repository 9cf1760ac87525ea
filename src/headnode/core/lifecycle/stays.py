"""The stay of a job on each of its nodes: prepared before its first task there, released after its last.

What follows from the special tasks of a running or ending job is decided here.  What the instances of these
tasks do to a stay is in `fold_stays`.
Source: HPC Pack task types NodePrep, NodeRelease and Service.
"""

from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.allocating import surplus
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.deciding_losses import is_too_small_without
from headnode.core.lifecycle.deciding_stops import fail_job
from headnode.core.lifecycle.events import Event
from headnode.core.lifecycle.flow import Flow
from headnode.core.lifecycle.gang import TAKE_TASKS
from headnode.core.lifecycle.hooks import cleaned_first
from headnode.core.lifecycle.records import JobRecord, Stay
from headnode.core.model.quantities import Instant


def see_to_stays(cluster: Cluster, record: JobRecord, now: Instant) -> list[Event]:
    """Return what a running job does about its nodes before it dispatches anything to them.

    A node whose preparation failed is given back, or the job fails; one that was released is given back, or
    prepared again when the job needs it after all; one that is new is prepared.
    """
    flow = cluster.flow(record.id)
    stays = flow.run.stays
    refused = next((node for node in flow.run.allocation if stays.get(node) is Stay.REFUSED), None)
    if refused is not None:
        return _leave_out(cluster, record, flow, refused, now)
    if flow.run.outcome is not None:
        return list(releases(cluster, record, now))
    if any(stays.get(node) is Stay.LEFT for node in flow.run.allocation):
        given = cleaned_first(cluster, record, list(surplus(cluster, record, now)))
        if given:
            return given
    return list(_preparations(cluster, record, flow, now))


def _leave_out(cluster: Cluster, record: JobRecord, flow: Flow, node: str, now: Instant) -> list[Event]:
    """The job goes on without a node that could not be prepared, or fails when it needs it."""
    message = f"node {node} could not be prepared: {flow.run.refused[node]}"
    if flow.run.outcome is None and is_too_small_without(cluster, record, flow.run, node):
        return fail_job(record, flow, message, now)
    if flow.lanes_on(node):
        return []
    removed = ((node, flow.run.allocation[node]),)
    return cleaned_first(
        cluster, record, [e.AllocationShrunk(at=now, job=record.id, removed=removed, message=message)]
    )


def _preparations(
    cluster: Cluster, record: JobRecord, flow: Flow, now: Instant
) -> list[e.InstancesDispatched]:
    if flow.prep is None:
        return []
    wanted = [
        node
        for node in flow.run.allocation
        if flow.run.stays.get(node) in (None, Stay.LEFT)
        and flow.is_entered(node)
        and _takes_tasks(cluster, node)
    ]
    return _once_on_each(record, flow, flow.prep, [node for node in wanted if not flow.lanes_on(node)], now)


def _takes_tasks(cluster: Cluster, node: str) -> bool:
    return node in cluster.nodes and cluster.nodes[node].state in TAKE_TASKS


def releases(cluster: Cluster, record: JobRecord, now: Instant) -> list[e.InstancesDispatched]:
    """Return the releases of the nodes that a job has used and on which nothing of it runs any more.

    One that cannot be reached hears it when it is back, or is given up.
    """
    flow = cluster.flow(record.id)
    run = flow.run
    if flow.release is None or run.hurried:
        return []
    used = [node for node in run.places if run.stays.get(node) is Stay.READY and node in cluster.nodes]
    return _once_on_each(record, flow, flow.release, [node for node in used if not flow.lanes_on(node)], now)


def released_first(record: JobRecord, shrunk: list[e.AllocationShrunk], flow: Flow) -> list[Event]:
    """Return what gives processors back; whole nodes that the job has used are released before."""
    if flow.release is None or not shrunk:
        return list(shrunk)
    (event,) = shrunk
    whole = {node for node, numbers in event.removed if len(numbers) == len(flow.run.allocation[node])}
    used = [node for node, _ in event.removed if node in whole and flow.run.stays.get(node) is Stay.READY]
    if not used:
        return list(shrunk)
    rest = tuple(share for share in event.removed if share[0] not in used)
    begun = _once_on_each(record, flow, flow.release, used, event.at)
    message = event.message
    left = [e.AllocationShrunk(at=event.at, job=record.id, removed=rest, message=message)] if rest else []
    return [*left, *begun]


def _once_on_each(
    record: JobRecord, flow: Flow, index: int, nodes: list[str], now: Instant
) -> list[e.InstancesDispatched]:
    """Return a new instance of a task for each node, with all that the job has there."""
    progress = flow.run.tasks[index]
    return [
        e.InstancesDispatched(
            at=now,
            job=record.id,
            task=index + 1,
            place=((node, flow.run.places[node]),),
            attempts=((instance, progress.used_by(instance) + 1),),
        )
        for instance, node in enumerate(nodes, progress.made_so_far + 1)
    ]
