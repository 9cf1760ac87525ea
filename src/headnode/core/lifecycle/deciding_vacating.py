"""Decide what jobs give up of a node that is taken out of service by force, or has come back smaller.

What runs on processors that are out of service is stopped and runs again elsewhere if it may run twice.  Else
it fails where an administrator asked for that, and goes on where the node has only fewer processors than
before.  What is idle is given back; a job that has less than its minimum left goes back to the queue.

Source: HPC Pack, node offline with ``/force``: running jobs are canceled.
"""

from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.events import Event
from headnode.core.lifecycle.flow import Flow
from headnode.core.lifecycle.hooks import cleaned_first
from headnode.core.lifecycle.records import JobRecord, LiveInstance
from headnode.core.lifecycle.room import all_could_run, uses_from
from headnode.core.lifecycle.states import STANDING_STILL, TaskState
from headnode.core.lifecycle.stays import released_first
from headnode.core.lifecycle.units import units_in
from headnode.core.model.quantities import Instant
from headnode.core.model.task import SPECIAL


def vacated(
    cluster: Cluster, node: str, usable: int, message: str, now: Instant, *, force: bool = False
) -> list[Event]:
    """Stop what uses processors of a node with numbers of `usable` or more; with `force` all of it.

    What a suspended job has there cannot go on elsewhere: by force it is sent back to the queue as a whole.
    """
    found: list[Event] = []
    for job in sorted(cluster.on_node(node)):
        record = cluster.jobs[job]
        if job not in cluster.flows or record.run is None or not record.state.is_active:
            continue
        if record.state not in STANDING_STILL:
            found += _stops(record, cluster.flow(job), node, usable, message, now, force=force)
        elif force:
            found += sent_back(record, cluster.flow(job), message, now)
    return found


def sent_back(record: JobRecord, flow: Flow, message: str, now: Instant) -> list[Event]:
    """Stop all that a job has and queue it again; what may not run twice fails."""
    stops = [
        stop
        for index, progress in enumerate(flow.run.tasks)
        for stop in _stop(record, flow, index, progress.live, message, now)
    ]
    lost = e.AllocationLost(at=now, job=record.id, removed=(), too_small=True, message=message, forgiven=True)
    return [*stops, lost]


def _stops(
    record: JobRecord, flow: Flow, node: str, usable: int, message: str, now: Instant, *, force: bool
) -> list[Event]:
    found: list[Event] = []
    for index, progress in enumerate(flow.run.tasks):
        task = flow.spec.tasks[index]
        if task.kind not in SPECIAL and (force or task.rerunnable):
            there = {n: live for n, live in progress.live.items() if uses_from(live.place, node, usable)}
            found += _stop(record, flow, index, there, message, now)
    return found


def _stop(
    record: JobRecord,
    flow: Flow,
    index: int,
    live: dict[int, LiveInstance],
    message: str,
    now: Instant,
) -> list[Event]:
    fresh = tuple(sorted(n for n, each in live.items() if each.state is not TaskState.ENDING))
    if not fresh:
        return []
    again = flow.spec.tasks[index].rerunnable and flow.spec.tasks[index].kind not in SPECIAL
    return [
        e.InstancesStopping(
            at=now,
            job=record.id,
            task=index + 1,
            instances=fresh,
            outcome="canceled" if again else "failed",
            message=message,
            cause="preempted" if again else "system",
        )
    ]


def leaves(cluster: Cluster, record: JobRecord, now: Instant) -> list[Event]:
    """Return what gives back processors that are out of service and idle; whole nodes are released first.

    When a job would have too little left it starts nothing more, and goes back to the queue.
    """
    flow = cluster.flow(record.id)
    if not flow.run.allocation.keys() & cluster.reduced or flow.run.outcome is not None:
        return []
    idle, kept = [], {}
    for node, held in flow.run.allocation.items():
        usable = cluster.usable(node)
        gone = tuple(number for number in flow.free[node] if number >= usable)
        if gone:
            idle.append((node, gone))
        kept[node] = tuple(number for number in held if number < usable)
    if not idle:
        return []
    message = "nodes were taken out of service" if len(idle) > 1 else f"{idle[0][0]} is out of service"
    if _is_too_small(cluster, record, flow, kept):
        parts = tuple(share for share in idle if len(share[1]) < len(flow.run.allocation[share[0]]))
        return [
            e.AllocationLost(
                at=now, job=record.id, removed=parts, too_small=True, message=message, forgiven=True
            )
        ]
    shrunk = e.AllocationShrunk(at=now, job=record.id, removed=tuple(idle), message=message)
    return cleaned_first(cluster, record, released_first(record, [shrunk], flow))


def _is_too_small(cluster: Cluster, record: JobRecord, flow: Flow, kept: dict[str, tuple[int, ...]]) -> bool:
    request = cluster.given(record)
    if request.together:
        return True
    left = {node: numbers for node, numbers in kept.items() if numbers}
    units = sum(units_in(request.unit, len(held), cluster.nodes[node].facts) for node, held in left.items())
    required = {name.lower() for name in request.required_nodes}
    if units < request.minimum or not required <= {node.lower() for node in left}:
        return True
    return bool(request.parts) and not all_could_run(cluster, flow, left)
