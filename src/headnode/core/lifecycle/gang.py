"""What a gang dispatches: all that is queued of it at once, each instance on its seat of its task's part.

Source: SSS 3.1.0, "TaskGroup": the task groups of a job start together.
"""

from collections.abc import Iterable
from itertools import pairwise

from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.events import Place
from headnode.core.lifecycle.flow import Flow
from headnode.core.lifecycle.records import JobRecord
from headnode.core.lifecycle.seating import seats
from headnode.core.lifecycle.units import processors_for, units_in
from headnode.core.model.job import UnitType
from headnode.core.model.node import NodeFacts, NodeState
from headnode.core.model.quantities import Instant

TAKE_TASKS = (NodeState.READY, NodeState.PAUSED)
"""States of nodes that take tasks of jobs that they are part of."""


def has_parts(flow: Flow) -> bool:
    """Whether each task of the job has processors of its own."""
    return bool(flow.run.parts) and len(flow.run.parts) == len(flow.spec.tasks)


def gang_dispatches(
    cluster: Cluster, flow: Flow, record: JobRecord, now: Instant
) -> list[e.InstancesDispatched]:
    """Return what to dispatch now: everything that has a seat, or nothing.

    An instance that runs again has its own seat again.  While a node of the seats takes no tasks nothing
    starts: either it comes back, or it is given up and the gang with it.  Nor before all are prepared.
    """
    found: list[e.InstancesDispatched] = []
    if flow.guards_nodes and not all(map(flow.is_usable, flow.run.allocation)):
        return found
    for index in flow.ready:
        progress = flow.run.tasks[index]
        for instance, place in _seated(cluster, flow, index):
            attempt = progress.used_by(instance) + 1
            found.append(
                e.InstancesDispatched(
                    at=now, job=record.id, task=index + 1, place=place, attempts=((instance, attempt),)
                )
            )
    return found if _all_open(cluster, found) else []


def _seated(cluster: Cluster, flow: Flow, index: int) -> list[tuple[int, Place]]:
    """Return the queued instances of a task that have a seat: their own, or else one that is left over."""
    task, part = flow.spec.tasks[index], flow.run.parts[index]
    if any(node not in cluster.nodes for node, _ in part):
        return []

    def sizes_on(node: str, held: int) -> list[int]:
        return _sizes(flow.spec.unit, task.minimum, held, cluster.nodes[node].facts)

    places = seats(task, flow.spec.unit, part, sizes_on)
    queued = list(flow.run.tasks[index].queued)
    own = [(instance, places[instance - 1]) for instance in queued if instance <= len(places)]
    seated = [(instance, place) for instance, place in own if place not in flow.lanes]
    taken = {place for _, place in seated}
    spare = iter([place for place in places if place not in taken and place not in flow.lanes])
    standing = sorted(set(queued) - {instance for instance, _ in seated})
    return sorted([*seated, *zip(standing, spare, strict=False)])


def _sizes(unit: UnitType, minimum: int, held: int, facts: NodeFacts) -> list[int]:
    """Return how many processors each instance has that `held` processors of a node have room for.

    Sockets may differ by a processor, so what is left for the last of them is one too.
    """
    if unit is UnitType.PROCESSOR:
        return [minimum] * (held // minimum)
    instances = max(1, units_in(unit, held, facts) // minimum)
    ends = [min(held, processors_for(unit, count * minimum, facts)) for count in range(instances + 1)]
    return [end - begin for begin, end in pairwise(ends)]


def _all_open(cluster: Cluster, dispatches: Iterable[e.InstancesDispatched]) -> bool:
    nodes = {node for event in dispatches for node, _ in event.place}
    return all(node in cluster.nodes and cluster.nodes[node].state in TAKE_TASKS for node in nodes)
