"""Preparing each node of a job before its first task and releasing it after its last; processors to spare."""

from itertools import chain

from headnode.core.model.errors import Broken
from headnode.core.model.job import JobRequest, UnitType, processors_for, units_in
from headnode.core.model.quantities import Instant, Seconds
from headnode.core.model.task import MAX_INSTANCES
from headnode.core.state import job_events as e
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.events import Event
from headnode.core.state.hooks import cleaned_first
from headnode.core.state.job_events import NodeCores
from headnode.core.state.job_record import JobRecord, LiveAttempt, TaskProgress
from headnode.core.state.node_loss import is_too_small_without
from headnode.core.state.stop import fail_job
from headnode.core.state.task_graph import SERVING_STATES, TaskGraph
from headnode.core.state.task_placement import all_could_run
from headnode.core.state.transitions import NodePhase, phase_on, set_phase


def spare_processors(cluster: ClusterState, record: JobRecord, now: Instant) -> list[e.AllocationShrunk]:
    """Return what the job does not need any more: idle processors beyond its minimum and its waiting tasks.

    Whole nodes go first, the last taken first.  A job that runs until canceled keeps all it has,
    and so does a gang.
    """
    graph = cluster.graph(record.id)
    request = cluster.request(record)
    if graph.spec.run_until_canceled or request.together or not any(graph.free.values()):
        return []
    spare = held_units(cluster, record) - _units_needed(cluster, record, request)
    named = {node.lower() for node in request.required_nodes}
    cleaning = graph.run.cleaning
    removed: list[tuple[str, tuple[int, ...]]] = []
    for node in reversed(graph.run.allocation):
        if spare < 1:
            break
        if node in cleaning:
            continue
        units, numbers = (0, ()) if node.lower() in named else _gift(cluster, graph, node, spare)
        while units and not _leaves_room(cluster, graph, request, (*removed, (node, numbers))):
            units, numbers = _gift(cluster, graph, node, units - 1)
        if units and (len(numbers) == len(graph.run.allocation[node]) or not request.exclusive):
            removed.append((node, numbers))
            spare -= units
    if not removed:
        return []
    return [e.AllocationShrunk(at=now, job=record.id, removed=tuple(removed))]


def _leaves_room(cluster: ClusterState, graph: TaskGraph, request: JobRequest, removed: NodeCores) -> bool:
    """Return whether the remaining nodes serve every task with node requirements."""
    if not request.parts:
        return True
    gone = dict(removed)
    left = {
        node: [number for number in numbers if number not in gone.get(node, ())]
        for node, numbers in graph.run.allocation.items()
    }
    return all_could_run(cluster, graph, left)


def _gift(cluster: ClusterState, graph: TaskGraph, node: str, spare: int) -> tuple[int, tuple[int, ...]]:
    """Return the most units of a node, up to `spare`, that are idle, and their processors: the last ones."""
    held, free = len(graph.run.allocation[node]), graph.free[node]
    spec, facts = graph.spec, cluster.nodes[node].facts
    units = units_in(spec, held, facts)
    for give in range(min(units, spare), 0, -1):
        number = held - processors_for(spec, units - give, facts)
        if number <= len(free):
            return give, tuple(free[len(free) - number :])
    return 0, ()


def held_units(cluster: ClusterState, record: JobRecord) -> int:
    """Return how many of its units a job holds and may keep; on a node that is being cleaned, none."""
    run = cluster.graph(record.id).run
    request, recalled, cleaning = cluster.request(record), run.recalled, run.cleaning
    return sum(
        units_in(request, len(held) - recalled.get(node, 0), cluster.nodes[node].facts)
        for node, held in run.allocation.items()
        if node not in cleaning
    )


def idle_units(cluster: ClusterState, record: JobRecord) -> int:
    """Return how many units a job may keep that no task uses; they may be prepared just now."""
    graph = cluster.graph(record.id)
    cleaning = graph.run.cleaning
    request = cluster.request(record)
    idle = {node: free for node, free in graph.idle().items() if node not in cleaning}
    if request.unit is UnitType.NODE:
        return sum(len(free) == len(graph.run.allocation[node]) for node, free in idle.items())
    return sum(units_in(request, len(free), cluster.nodes[node].facts) for node, free in idle.items())


def _units_needed(cluster: ClusterState, record: JobRecord, request: JobRequest) -> int:
    """Return how many units the job must keep: its minimum, and what its tasks use or wait for."""
    graph = cluster.graph(record.id)
    held = held_units(cluster, record)
    needed = held - idle_units(cluster, record)
    if graph.service in graph.ready:
        return held
    for index in chain(graph.ready, graph.blocks):
        needed += graph.spec.tasks[index].maximum * len(graph.run.tasks[index].queued)
        if needed >= held:
            return held
    return max(request.minimum, needed)


def named_nodes(request: JobRequest) -> frozenset[str]:
    """Return the nodes that a request names, as names are compared: it runs on these, or needs them."""
    names = (*request.requested_nodes, *request.required_nodes, *request.needs.names)
    return frozenset(name.casefold() for name in names)


def starts_paused(record: JobRecord) -> bool:
    """Return whether a job may start on a node though it is paused."""
    return record.privileged


def prepare_nodes(cluster: ClusterState, record: JobRecord, now: Instant) -> list[Event]:
    """Return what a running job does about its nodes before it dispatches anything to them.

    A node whose preparation failed is given back, or the job fails; one that was released is given back, or
    prepared again when the job needs it after all; one that is new is prepared.
    """
    graph = cluster.graph(record.id)
    phases = {node: phase_on(graph.run.holdings, node) for node in graph.run.allocation}
    for node, phase in phases.items():
        if phase is NodePhase.REFUSED and (events := _leave_out(cluster, record, graph, node, now)):
            return events
    if graph.run.end is not None:
        return list(release_tasks(cluster, record, now))
    if NodePhase.RELEASED in phases.values():
        given = cleaned_first(cluster, record, list(spare_processors(cluster, record, now)))
        if given:
            return given
    return list(_preparations(cluster, record, graph, now))


def _leave_out(
    cluster: ClusterState, record: JobRecord, graph: TaskGraph, node: str, now: Instant
) -> list[Event]:
    """The job goes on without a node that could not be prepared, or fails when it needs it."""
    message = f"node {node} could not be prepared: {graph.run.refused[node]}"
    if graph.run.end is None and is_too_small_without(cluster, record, graph.run, node):
        return fail_job(record, graph, message, now)
    if graph.lanes_on(node):
        return []
    removed = ((node, graph.run.allocation[node]),)
    return cleaned_first(
        cluster, record, [e.AllocationShrunk(at=now, job=record.id, removed=removed, message=message)]
    )


def _preparations(
    cluster: ClusterState, record: JobRecord, graph: TaskGraph, now: Instant
) -> list[e.InstancesDispatched]:
    if graph.prep is None:
        return []
    wanted = [
        node
        for node in graph.run.allocation
        if phase_on(graph.run.holdings, node) in (NodePhase.ASSIGNED, NodePhase.RELEASED)
        and graph.is_entered(node)
        and _takes_tasks(cluster, node)
    ]
    return _once_on_each(
        record, graph, graph.prep, [node for node in wanted if not graph.lanes_on(node)], now
    )


def _takes_tasks(cluster: ClusterState, node: str) -> bool:
    return node in cluster.nodes and cluster.nodes[node].state in SERVING_STATES


def release_tasks(cluster: ClusterState, record: JobRecord, now: Instant) -> list[e.InstancesDispatched]:
    """Return the releases of the nodes that a job has used and on which nothing of it runs any more.

    One that cannot be reached hears it when it is back, or is given up.
    """
    graph = cluster.graph(record.id)
    run = graph.run
    if graph.release is None or (run.end is not None and run.end.skip_release):
        return []
    used = [
        node
        for node in run.places
        if phase_on(run.holdings, node) is NodePhase.READY and node in cluster.nodes
    ]
    return _once_on_each(
        record, graph, graph.release, [node for node in used if not graph.lanes_on(node)], now
    )


def released_first(record: JobRecord, shrunk: list[e.AllocationShrunk], graph: TaskGraph) -> list[Event]:
    """Return what gives processors back; whole nodes that the job has used are released before."""
    if graph.release is None or not shrunk:
        return list(shrunk)
    (event,) = shrunk
    whole = {node for node, numbers in event.removed if len(numbers) == len(graph.run.allocation[node])}
    used = [
        node
        for node, _ in event.removed
        if node in whole and phase_on(graph.run.holdings, node) is NodePhase.READY
    ]
    if not used:
        return list(shrunk)
    rest = tuple(share for share in event.removed if share[0] not in used)
    begun = _once_on_each(record, graph, graph.release, used, event.at)
    message = event.message
    left = [e.AllocationShrunk(at=event.at, job=record.id, removed=rest, message=message)] if rest else []
    return [*left, *begun]


def _once_on_each(
    record: JobRecord, graph: TaskGraph, index: int, nodes: list[str], now: Instant
) -> list[e.InstancesDispatched]:
    """Return a new instance of a task for each node, with all that the job has there."""
    progress = graph.run.tasks[index]
    return [
        e.InstancesDispatched(
            at=now,
            job=record.id,
            task=index + 1,
            placement=((node, graph.run.places[node]),),
            attempts=((instance, progress.used_by(instance) + 1),),
        )
        for instance, node in enumerate(nodes, progress.made_so_far + 1)
    ]


SHORT_SERVICE = Seconds(1.0)
"""An instance of a service that ends sooner is followed by the next one no sooner than so long after it."""


def make_special_instance(progress: TaskProgress, instance: int) -> None:
    """An instance of a special task comes into being, with the next number."""
    if instance != progress.made_so_far + 1:
        raise Broken(
            code="not-next", what=f"instance {instance} of a task that has {progress.instances_made}"
        )
    progress.instances_made = instance
    if instance >= MAX_INSTANCES:
        progress.endless = False


def prep_or_release_dispatched(graph: TaskGraph, index: int, event: e.InstancesDispatched) -> None:
    """An instance was handed to nodes: one of a usual task makes them nodes that the job has used."""
    phase = {graph.prep: NodePhase.PREPARING, graph.release: NodePhase.RELEASING}.get(index, NodePhase.READY)
    for node, _ in event.placement:
        if phase is not phase_on(graph.run.holdings, node):
            set_phase(graph.run.holdings, node, event, phase)


def prep_or_release_ended(
    graph: TaskGraph, index: int, live: LiveAttempt, how: e.InstanceEnd, event: e.InstancesEnded
) -> None:
    """An instance of a special task is over."""
    run, node = graph.run, live.placement[0][0]
    if node not in run.places or index not in (graph.prep, graph.release):
        return
    after = {"finished": NodePhase.READY, "failed": NodePhase.REFUSED}
    phase = NodePhase.RELEASED if index == graph.release else after.get(how.state, NodePhase.ASSIGNED)
    set_phase(run.holdings, node, event, phase)
    if phase is NodePhase.REFUSED:
        run.refused[node] = how.outcome.message


def service_pause(how: e.InstanceEnd, at: Instant) -> Instant:
    """Return until when a service waits after this end of an instance of it; the past if it need not."""
    lasted = how.outcome.lasted or 0.0
    return Instant(at + SHORT_SERVICE) if lasted < SHORT_SERVICE else Instant(0.0)
