"""Which instances of a running job go where now.

Source: CCS, "Task execution": in the order of the task list, filling node by node; design, section 5.
"""

from collections.abc import Iterator

from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.events import Place
from headnode.core.lifecycle.flow import Flow
from headnode.core.lifecycle.records import JobRecord, TaskProgress
from headnode.core.lifecycle.units import units_in
from headnode.core.model.job import UnitType
from headnode.core.model.node import NodeState
from headnode.core.model.quantities import Instant
from headnode.core.model.task import TaskSpec

AHEAD = 0.1  # seconds of work handed to a node in advance
MOST_AHEAD = 64  # instances
TAKE_TASKS = (NodeState.READY, NodeState.PAUSED)
"""States of nodes that take tasks of jobs that they are part of."""


def dispatches(cluster: Cluster, record: JobRecord, now: Instant) -> list[e.InstancesDispatched]:
    """Return what to dispatch now.

    Strict list order: a task for which there is no room yet keeps later ones from the nodes it could use,
    so no task starves.  Short instances of one task are handed over several at a time, to run one after the
    other at the same place, because a round trip costs more than they do.
    """
    flow = cluster.flow(record.id)
    if len(flow.ready) == 1 and not flow.lanes and _takes_all(cluster, flow):
        return [_on_all(record, flow, now)]
    free = dict(flow.free)  # its lists are replaced, never changed
    found: list[e.InstancesDispatched] = []
    full: set[tuple[tuple[str, ...], str]] = set()  # nodes and groups that a task before has claimed
    for index in tuple(flow.ready):
        task = flow.spec.tasks[index]
        progress = flow.run.tasks[index]
        where = (task.required_nodes, task.node_group)
        if where in full and not progress.live:
            continue
        room = _Room(cluster, flow, task, free)
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


def _fill(progress: TaskProgress, flow: Flow, room: "_Room") -> tuple[list[Batch], bool]:
    """Return the places with the attempts that go there, and whether instances are left without a place."""
    left = iter(progress.queued)
    waiting = len(progress.queued)
    depth = _depth(progress, waiting, flow, room) if waiting > 1 else 1
    batches: list[Batch] = [
        (place, _next(progress, left, depth - live))
        for place, live in _own_lanes(progress)
        if live <= depth // 2
    ]
    while attempts := _next(progress, left, depth):
        place = room.place()
        if place is None:
            return [batch for batch in batches if batch[1]], True
        batches.append((place, attempts))
    return [batch for batch in batches if batch[1]], False


def _own_lanes(progress: TaskProgress) -> list[tuple[Place, int]]:
    lanes: dict[Place, int] = {}
    for live in progress.live.values():
        lanes[live.place] = lanes.get(live.place, 0) + 1
    return list(lanes.items())


def _next(progress: TaskProgress, left: Iterator[int], most: int) -> list[tuple[int, int]]:
    taken = []
    for _ in range(most):
        instance = next(left, None)
        if instance is None:
            break
        taken.append((instance, progress.used_by(instance) + 1))
    return taken


def _depth(progress: TaskProgress, waiting: int, flow: Flow, room: "_Room") -> int:
    """Return how many instances one place should have; 1 unless they are known to be short.

    Never more than half of what would be a fair share, so that all places end together.
    """
    if not progress.ended:
        return 1
    lanes = max(1, len(flow.lanes) + room.count_places())
    mean = max(progress.ended_time / progress.ended, AHEAD / MOST_AHEAD)
    return max(1, min(int(AHEAD / mean), MOST_AHEAD, waiting // (2 * lanes)))


class _Room:
    """Where in the job's free processors one task may go."""

    def __init__(self, cluster: Cluster, flow: Flow, task: TaskSpec, free: dict[str, list[int]]) -> None:
        self._flow, self._task, self._free = flow, task, free
        self._cluster = cluster
        self._named = {name.lower() for name in task.required_nodes}
        self.nodes = [node for node in flow.run.allocation if self._may_use(node)]

    def _may_use(self, node: str) -> bool:
        record = self._cluster.nodes.get(node)
        if record is None or record.state not in TAKE_TASKS:
            return False
        if self._named and node.lower() not in self._named:
            return False
        group = self._task.node_group.lower()
        return not group or group in {known.lower() for known in record.facts.groups}

    def count_places(self) -> int:
        """Return about how many instances fit beside each other."""
        return sum(len(self._free.get(node, ())) for node in self.nodes) // max(1, self._task.minimum)

    def claim(self) -> None:
        """Keep what is free of this task's nodes from the tasks behind it."""
        for node in self.nodes:
            self._free[node] = []

    def place(self) -> Place | None:
        """Take room for one instance out of the free processors; None when there is not enough."""
        offers = self._offers()
        required = len(self._named)
        if required > 1 and len(offers) < required:
            return None
        if sum(units for _, _, units in offers) < self._task.minimum:
            return None
        place: list[tuple[str, tuple[int, ...]]] = []
        wanted = max(self._task.maximum, required)
        must = required > 1
        for at, (node, numbers, units) in enumerate(offers):
            later = len(offers) - at - 1 if must else 0
            if wanted <= later:
                break
            used = min(units, wanted - later)
            whole = self._task.exclusive or used == self._held_units(node)
            taken = len(numbers) if whole else used * self._per_unit(node)
            place.append((node, tuple(numbers[:taken])))
            self._free[node] = numbers[taken:]
            wanted -= used
            if wanted == 0:
                break
        return tuple(place)

    def _offers(self) -> list[tuple[str, list[int], int]]:
        """Return nodes with their free processors and how many of the job's units these are."""
        offers = []
        for node in self.nodes:
            numbers = self._free.get(node, [])
            held = self._flow.run.allocation[node]
            whole = len(numbers) == len(held)
            if self._task.exclusive and not whole:
                continue
            units = len(numbers) if self._flow.spec.unit is UnitType.PROCESSOR else self._units(node, numbers)
            if units:
                offers.append((node, numbers, units))
        return offers

    def _units(self, node: str, numbers: list[int]) -> int:
        return min(len(numbers) // self._per_unit(node), self._held_units(node))

    def _held_units(self, node: str) -> int:
        """Return how many of the job's units it has on a node; a rest that is less than one counts as one."""
        held = len(self._flow.run.allocation[node])
        return max(1, units_in(self._flow.spec.unit, held, self._cluster.nodes[node].facts))

    def _per_unit(self, node: str) -> int:
        """Return how many processors of a node each of the job's units there has."""
        return max(1, len(self._flow.run.allocation[node]) // self._held_units(node))
