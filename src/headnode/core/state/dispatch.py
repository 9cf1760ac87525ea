"""Which instances of a running job go to which nodes now."""

from collections.abc import Iterable, Iterator, Mapping, Set
from itertools import islice, pairwise

from headnode.core.model.job import CountsUnits, UnitType, processors_for, units_in
from headnode.core.model.node import NodeFacts
from headnode.core.model.node_needs import ANY_NODE, NodeNeeds
from headnode.core.model.outcome import AttemptOfTask
from headnode.core.model.quantities import Instant
from headnode.core.model.task import MAX_INSTANCES
from headnode.core.state import job_events as e
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.job_events import NodeCores
from headnode.core.state.job_record import JobRecord, TaskProgress
from headnode.core.state.task_graph import SERVING_STATES, TaskGraph, has_parts
from headnode.core.state.task_layout import instance_places
from headnode.core.state.task_lines import ahead, deal, on_nodes, share
from headnode.core.state.task_placement import TaskPlacement

Where = tuple[tuple[str, ...], str, NodeNeeds]
"""The node requirements of a task: names, group and properties."""


def dispatches(cluster: ClusterState, record: JobRecord, now: Instant) -> list[e.InstancesDispatched]:
    """Return what to dispatch now.

    Strict list order: a task for which there is no room yet keeps later ones from the nodes it could use,
    so no task starves.  Short instances, and short tasks that are alike, go several at a time to a place.
    """
    graph = cluster.graph(record.id)
    if len(graph.ready) == 1 and not graph.lanes and _takes_all(cluster, graph):
        return [_on_all(record, graph, now)]
    if graph.run.parts and has_parts(graph):
        return gang_dispatches(cluster, graph, record, now)
    free = _usable(graph)
    if not graph.ready:
        return behind_parents(cluster, graph, record, now)
    if graph.service in graph.ready:
        return _serve(cluster, graph, record, free, now)
    return _of_ready_tasks(cluster, record, free, now)


def _of_ready_tasks(
    cluster: ClusterState, record: JobRecord, free: dict[str, list[int]], now: Instant
) -> list[e.InstancesDispatched]:
    """Return what to dispatch of the tasks that may start, in their order."""
    graph = cluster.graph(record.id)
    events: list[e.InstancesDispatched] = []
    full: set[Where] = set()  # nodes that a task before has claimed
    past, places = 0, len(graph.lanes) + sum(map(len, free.values()))
    for position, index in enumerate(graph.ready):
        if position < past:
            continue  # it was handed over in a line
        task = graph.spec.tasks[index]
        where = (task.required_nodes, task.node_group, task.needs)
        if where in full and not graph.run.tasks[index].live:
            continue
        line = graph.lines.line(graph.ready, position, places) if not full else []
        past = position + len(line)
        room = TaskPlacement(cluster, graph, index, free)
        batches, blocked = _fill_line(graph, line, room) if line else _fill(index, graph, room)
        events += [
            e.InstancesDispatched(
                at=now, job=record.id, task=number + 1, placement=place, attempts=tuple(who)
            )
            for number, place, who in batches
        ]
        if blocked:
            room.claim()
            full.add(where)
        if not any(free.values()):
            break
    return events


def _usable(graph: TaskGraph) -> dict[str, list[int]]:
    """Return what is free of each node; nothing of those that are not prepared, being released or recalled.

    Its lists are replaced, never changed.
    """
    if not graph.guards_nodes:
        return dict(graph.free)
    return {node: free if _is_open(graph, node) else [] for node, free in graph.free.items()}


def _is_open(graph: TaskGraph, node: str) -> bool:
    holding = graph.run.holdings.get(node)
    return (holding is None or not holding.recalled) and graph.is_usable(node)


def _serve(
    cluster: ClusterState, graph: TaskGraph, record: JobRecord, free: dict[str, list[int]], now: Instant
) -> list[e.InstancesDispatched]:
    """Return an instance of the job's service wherever there is room; none while it rests."""
    index = graph.ready[0]
    progress, room = graph.run.tasks[index], TaskPlacement(cluster, graph, index, free)
    events: list[e.InstancesDispatched] = []
    for instance in range(progress.made_so_far + 1, MAX_INSTANCES + 1):
        place = room.place() if now >= graph.paused_until else None
        if place is None:
            break
        attempts = ((instance, progress.used_by(instance) + 1),)
        events.append(
            e.InstancesDispatched(at=now, job=record.id, task=index + 1, placement=place, attempts=attempts)
        )
    return events


def _takes_all(cluster: ClusterState, graph: TaskGraph) -> bool:
    """Whether the job is one program on all its processors, as most are: then there is nothing to place."""
    index = graph.ready[0]
    task, held = graph.spec.tasks[index], sum(map(len, graph.free.values()))
    return (
        graph.run.tasks[index].queued.count == 1
        and graph.spec.unit is UnitType.PROCESSOR
        and task.minimum <= held <= task.maximum
        and not task.required_nodes
        and not task.node_group
        and task.needs == ANY_NODE
        and task.distribution is None
        and len(graph.run.parts) < 2
        and (not graph.guards_nodes or all(_is_open(graph, node) for node in graph.free))
        and graph.free.keys() <= cluster.nodes.keys()
        and all(cluster.nodes[node].state in SERVING_STATES for node in graph.free)
    )


def _on_all(record: JobRecord, graph: TaskGraph, now: Instant) -> e.InstancesDispatched:
    index = graph.ready[0]
    progress = graph.run.tasks[index]
    instance = progress.queued.firsts[0]
    place = tuple([(node, tuple(numbers)) for node, numbers in graph.free.items()])
    attempts = ((instance, progress.used_by(instance) + 1),)
    return e.InstancesDispatched(at=now, job=record.id, task=index + 1, placement=place, attempts=attempts)


Batch = tuple[int, NodeCores, list[tuple[int, int]]]
"""The index of a task, a place, and the attempts that go there."""


def _fill(index: int, graph: TaskGraph, room: TaskPlacement) -> tuple[list[Batch], bool]:
    """Return the places with the attempts that go there, and whether instances are left without a place."""
    progress = graph.run.tasks[index]
    left = iter(progress.queued)
    waiting = len(progress.queued)
    depth = _depth(progress, waiting, graph, room) if waiting > 1 else 1
    batches: list[Batch] = [
        (index, place, _next(progress, left, depth - live))
        for place, live in _own_lanes(progress, graph.run.recalled)
        if live <= depth // 2 and room.is_in_service(place)
    ]
    while attempts := _next(progress, left, depth):
        place = room.place()
        if place is None:
            return [batch for batch in batches if batch[2]], True
        batches.append((index, place, attempts))
    return [batch for batch in batches if batch[2]], False


def _fill_line(graph: TaskGraph, line: list[int], room: TaskPlacement) -> tuple[list[Batch], bool]:
    """Return where alike tasks go, and whether some are left: to free places, and behind others of them."""
    waiting = len(line) + len(graph.parents.soon)
    depth = share(waiting, graph.lines.depth, len(graph.lanes) + room.count_places())
    nodes = set(room.nodes) - graph.run.recalled.keys()
    rooms = _rooms(graph, line, room, nodes, depth)
    spare = sum(rooms.values())
    while spare < len(line):
        free = room.place()
        if free is None:
            break
        rooms[free] = depth if on_nodes(free, nodes) else 1
        spare += rooms[free]
    dealt = deal(line, rooms)
    tasks = graph.run.tasks
    batches: list[Batch] = []
    for index, place in dealt:
        instance = tasks[index].queued.firsts[0]
        batches.append((index, place, [(instance, tasks[index].used_by(instance) + 1)]))
    return batches, len(dealt) < len(line)


def _rooms(
    graph: TaskGraph, line: list[int], room: TaskPlacement, nodes: Set[str], depth: int
) -> dict[NodeCores, int]:
    """Return the places in use on some nodes that take tasks like those of a line, and how many."""
    lanes = graph.lines.lanes(line, depth) if depth > 1 else []
    return {
        place: more
        for place, more in lanes
        if on_nodes(place, nodes) and _takes(graph, place) and room.is_in_service(place)
    }


def behind_parents(
    cluster: ClusterState, graph: TaskGraph, record: JobRecord, now: Instant
) -> list[e.InstancesDispatched]:
    """Return which alike tasks go to a node before their parents have ended there.

    They take turns at the places that the job uses there, and at idle ones if they are more than these.
    """
    if graph.lines.depth == 1 or "NodeFilterDirectory" in cluster.parameters:
        return []  # filters may take long, so that a task comes after the word that its parent has ended
    events: list[e.InstancesDispatched] = []
    for node, after in _soon_by_node(graph).items():
        line = list(after)
        room = TaskPlacement(cluster, graph, line[0], _usable(graph))
        if node not in room.nodes or node in graph.run.recalled:
            continue
        rooms = _rooms(graph, line, room, {node}, graph.lines.depth)
        for _ in range(len(line) - sum(on_nodes(place, {node}) for place in graph.lanes)):
            free = room.place()
            if free is None or not on_nodes(free, {node}):
                break
            rooms[free] = graph.lines.depth
        for index, place in deal(line, rooms):
            progress = graph.run.tasks[index]
            instance = progress.queued.firsts[0]
            attempts = ((instance, progress.used_by(instance) + 1),)
            events.append(
                e.InstancesDispatched(
                    at=now,
                    job=record.id,
                    task=index + 1,
                    placement=place,
                    attempts=attempts,
                    after=after[index],
                )
            )
    return events


def _soon_by_node(graph: TaskGraph) -> dict[str, dict[int, tuple[AttemptOfTask, ...]]]:
    """Return the tasks that may be dispatched behind their parents, by the node of these; alike on each."""
    found: dict[str, dict[int, tuple[AttemptOfTask, ...]]] = {}
    for index in islice(graph.parents.soon, 2 * len(graph.lanes) * graph.lines.depth):
        told = graph.parents.after(graph.awaited(index))
        if told is not None:
            node, after = told
            line = found.setdefault(node, {})
            if not line or graph.lines.are_alike(next(iter(line)), index):
                line[index] = after
    return found


def _takes(graph: TaskGraph, place: NodeCores) -> bool:
    return not graph.guards_nodes or all(_is_open(graph, node) for node, _ in place)


def _own_lanes(progress: TaskProgress, recalled: Mapping[str, int]) -> list[tuple[NodeCores, int]]:
    lanes: dict[NodeCores, int] = {}
    for live in progress.live.values():
        if not live.moved:  # else its lane has another name where it runs
            lanes[live.placement] = lanes.get(live.placement, 0) + 1
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


def _depth(progress: TaskProgress, waiting: int, graph: TaskGraph, room: TaskPlacement) -> int:
    """Return how many instances one place should have; 1 unless they are known to be short.

    Never more than half of what would be a fair share, so that all places end together.
    """
    if not progress.attempts_ended:
        return 1
    lanes = max(1, len(graph.lanes) + room.count_places())
    return max(1, min(ahead(progress.ended_run_time / progress.attempts_ended), waiting // (2 * lanes)))


def gang_dispatches(
    cluster: ClusterState, graph: TaskGraph, record: JobRecord, now: Instant
) -> list[e.InstancesDispatched]:
    """Return what to dispatch now: everything that has a seat, or nothing.

    An instance that runs again has its own seat again.  While a node of the seats takes no tasks nothing
    starts: either it comes back, or it is given up and the gang with it.  Nor before all are prepared.
    """
    events: list[e.InstancesDispatched] = []
    if graph.guards_nodes and not all(map(graph.is_usable, graph.run.allocation)):
        return events
    for index in graph.ready:
        progress = graph.run.tasks[index]
        for instance, place in _seated(cluster, graph, index):
            attempt = progress.used_by(instance) + 1
            events.append(
                e.InstancesDispatched(
                    at=now, job=record.id, task=index + 1, placement=place, attempts=((instance, attempt),)
                )
            )
    return events if _all_open(cluster, events) else []


def _seated(cluster: ClusterState, graph: TaskGraph, index: int) -> list[tuple[int, NodeCores]]:
    """Return the queued instances of a task that have a seat: their own, or else one that is left over."""
    task, part = graph.spec.tasks[index], graph.run.parts[index]
    if any(node not in cluster.nodes for node, _ in part):
        return []

    def sizes_on(node: str, held: int) -> list[int]:
        return _sizes(graph.spec, task.minimum, held, cluster.nodes[node].facts)

    places = instance_places(task, graph.spec.unit, part, sizes_on)
    queued = list(graph.run.tasks[index].queued)
    own = [(instance, places[instance - 1]) for instance in queued if instance <= len(places)]
    seated = [(instance, place) for instance, place in own if place not in graph.lanes]
    taken = {place for _, place in seated}
    spare = iter([place for place in places if place not in taken and place not in graph.lanes])
    standing = sorted(set(queued) - {instance for instance, _ in seated})
    return sorted([*seated, *zip(standing, spare, strict=False)])


def _sizes(request: CountsUnits, minimum: int, held: int, facts: NodeFacts) -> list[int]:
    """Return how many processors each instance has that `held` processors of a node have room for.

    Sockets may differ by a processor, so what is left for the last of them is one too.
    """
    if request.unit is UnitType.PROCESSOR:
        return [minimum] * (held // minimum)
    instances = max(1, units_in(request, held, facts) // minimum)
    ends = [min(held, processors_for(request, count * minimum, facts)) for count in range(instances + 1)]
    return [end - begin for begin, end in pairwise(ends)]


def _all_open(cluster: ClusterState, dispatches: Iterable[e.InstancesDispatched]) -> bool:
    nodes = {node for event in dispatches for node, _ in event.placement}
    return all(node in cluster.nodes and cluster.nodes[node].state in SERVING_STATES for node in nodes)
