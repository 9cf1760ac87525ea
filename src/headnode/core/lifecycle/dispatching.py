"""Which instances of a running job go where now.

Source: CCS, "Task execution": in the order of the task list, filling node by node; design, section 5.
"""

from collections.abc import Iterator, Mapping

from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.events import Place
from headnode.core.lifecycle.flow import Flow
from headnode.core.lifecycle.gang import TAKE_TASKS, gang_dispatches, has_parts
from headnode.core.lifecycle.records import JobRecord, TaskProgress
from headnode.core.lifecycle.room import Room
from headnode.core.model.job import UnitType
from headnode.core.model.node_needs import ANY_NODE, NodeNeeds
from headnode.core.model.quantities import Instant
from headnode.core.model.task import MOST_INSTANCES

AHEAD = 0.1  # seconds of work handed to a node in advance
MOST_AHEAD = 64  # instances
Where = tuple[tuple[str, ...], str, NodeNeeds]
"""Which nodes a task asks for: by name, by group, by what they are."""


def dispatches(cluster: Cluster, record: JobRecord, now: Instant) -> list[e.InstancesDispatched]:
    """Return what to dispatch now.

    Strict list order: a task for which there is no room yet keeps later ones from the nodes it could use,
    so no task starves.  Short instances of one task are handed over several at a time, to run one after the
    other at the same place, because a round trip costs more than they do.
    """
    flow = cluster.flow(record.id)
    if len(flow.ready) == 1 and not flow.lanes and _takes_all(cluster, flow):
        return [_on_all(record, flow, now)]
    if flow.run.parts and has_parts(flow):
        return gang_dispatches(cluster, flow, record, now)
    free = _usable(flow)
    if flow.service in flow.ready:
        return _serve(cluster, flow, record, free, now)
    found: list[e.InstancesDispatched] = []
    full: set[Where] = set()  # nodes that a task before has claimed
    for index in tuple(flow.ready):
        task = flow.spec.tasks[index]
        progress = flow.run.tasks[index]
        where = (task.required_nodes, task.node_group, task.needs)
        if where in full and not progress.live:
            continue
        room = Room(cluster, flow, index, free)
        batches, blocked = _fill(progress, flow, room)
        for place, attempts in batches:
            found.append(
                e.InstancesDispatched(
                    at=now, job=record.id, task=index + 1, place=place, attempts=tuple(attempts)
                )
            )
        if blocked:
            room.claim()
            full.add(where)
        if not any(free.values()):
            break
    return found


def _usable(flow: Flow) -> dict[str, list[int]]:
    """Return what is free of each node; nothing of those that are not prepared, being released or recalled.

    Its lists are replaced, never changed.
    """
    if not flow.guards_nodes and not flow.run.recalled:
        return dict(flow.free)
    return {node: free if _is_open(flow, node) else [] for node, free in flow.free.items()}


def _is_open(flow: Flow, node: str) -> bool:
    return node not in flow.run.recalled and flow.is_usable(node)


def _serve(
    cluster: Cluster, flow: Flow, record: JobRecord, free: dict[str, list[int]], now: Instant
) -> list[e.InstancesDispatched]:
    """Return an instance of the job's service wherever there is room; none while it rests."""
    index = flow.ready[0]
    progress, room = flow.run.tasks[index], Room(cluster, flow, index, free)
    found: list[e.InstancesDispatched] = []
    for instance in range(progress.made_so_far + 1, MOST_INSTANCES + 1):
        place = room.place() if now >= flow.rests_until else None
        if place is None:
            break
        attempts = ((instance, progress.used_by(instance) + 1),)
        found.append(
            e.InstancesDispatched(at=now, job=record.id, task=index + 1, place=place, attempts=attempts)
        )
    return found


def _takes_all(cluster: Cluster, flow: Flow) -> bool:
    """Whether the job is one program on all its processors, as most are: then there is nothing to place."""
    index = flow.ready[0]
    task, held = flow.spec.tasks[index], sum(map(len, flow.free.values()))
    return (
        flow.run.tasks[index].queued.count == 1
        and flow.spec.unit is UnitType.PROCESSOR
        and task.minimum <= held <= task.maximum
        and not task.required_nodes
        and not task.node_group
        and task.needs == ANY_NODE
        and task.distribution is None
        and len(flow.run.parts) < 2
        and not flow.run.recalled
        and (not flow.guards_nodes or all(map(flow.is_usable, flow.free)))
        and flow.free.keys() <= cluster.nodes.keys()
        and all(cluster.nodes[node].state in TAKE_TASKS for node in flow.free)
    )


def _on_all(record: JobRecord, flow: Flow, now: Instant) -> e.InstancesDispatched:
    index = flow.ready[0]
    progress = flow.run.tasks[index]
    instance = progress.queued.firsts[0]
    place = tuple((node, tuple(numbers)) for node, numbers in flow.free.items())
    attempts = ((instance, progress.used_by(instance) + 1),)
    return e.InstancesDispatched(at=now, job=record.id, task=index + 1, place=place, attempts=attempts)


Batch = tuple[Place, list[tuple[int, int]]]


def _fill(progress: TaskProgress, flow: Flow, room: Room) -> tuple[list[Batch], bool]:
    """Return the places with the attempts that go there, and whether instances are left without a place."""
    left = iter(progress.queued)
    waiting = len(progress.queued)
    depth = _depth(progress, waiting, flow, room) if waiting > 1 else 1
    batches: list[Batch] = [
        (place, _next(progress, left, depth - live))
        for place, live in _own_lanes(progress, flow.run.recalled)
        if live <= depth // 2 and room.is_in_service(place)
    ]
    while attempts := _next(progress, left, depth):
        place = room.place()
        if place is None:
            return [batch for batch in batches if batch[1]], True
        batches.append((place, attempts))
    return [batch for batch in batches if batch[1]], False


def _own_lanes(progress: TaskProgress, recalled: Mapping[str, int]) -> list[tuple[Place, int]]:
    lanes: dict[Place, int] = {}
    for live in progress.live.values():
        if not live.moved:  # else its lane has another name where it runs
            lanes[live.place] = lanes.get(live.place, 0) + 1
    if recalled:
        return [(place, live) for place, live in lanes.items() if not any(n in recalled for n, _ in place)]
    return list(lanes.items())


def _next(progress: TaskProgress, left: Iterator[int], most: int) -> list[tuple[int, int]]:
    taken = []
    for _ in range(most):
        instance = next(left, None)
        if instance is None:
            break
        taken.append((instance, progress.used_by(instance) + 1))
    return taken


def _depth(progress: TaskProgress, waiting: int, flow: Flow, room: Room) -> int:
    """Return how many instances one place should have; 1 unless they are known to be short.

    Never more than half of what would be a fair share, so that all places end together.
    """
    if not progress.ended:
        return 1
    lanes = max(1, len(flow.lanes) + room.count_places())
    mean = max(progress.ended_time / progress.ended, AHEAD / MOST_AHEAD)
    return max(1, min(int(AHEAD / mean), MOST_AHEAD, waiting // (2 * lanes)))
