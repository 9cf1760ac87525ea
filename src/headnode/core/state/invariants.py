"""What must hold between events, whatever happened: for tests, and to find a bug."""

from msgspec.structs import replace

from headnode.core.model.errors import Broken
from headnode.core.model.job import JobRequest
from headnode.core.model.owner_limits import LimitScope
from headnode.core.model.quantities import JobId
from headnode.core.model.resource import PLACE_MARK, is_elsewhere
from headnode.core.model.task import SPECIAL
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.job_record import JobRecord, JobRun, TaskProgress, started_run
from headnode.core.state.owner_usage import usage_weights
from headnode.core.state.task_graph import TaskGraph
from headnode.core.state.transitions import Holding, JobState, NodePhase, phase_on


def check_cluster(cluster: ClusterState) -> None:
    """Compare everything that follows from the records with what it follows from.

    Raises:  Broken ``invariant``, saying which.
    """
    counts: dict[JobState, int] = {}
    for record in cluster.jobs.values():
        counts[record.state] = counts.get(record.state, 0) + 1
        _check_record(cluster, record)
    _must(counts == {s: n for s, n in cluster.counts.items() if n}, f"counts {cluster.counts} are {counts}")
    _check_submitted(cluster)
    _check_requests(cluster)
    _must(cluster.waiting <= cluster.graphs.keys(), f"{cluster.waiting} have tasks to dispatch")
    _check_queue(cluster)
    _check_usage(cluster)
    _check_children(cluster)
    _check_processors(cluster)
    _check_handed(cluster)


def _check_submitted(cluster: ClusterState) -> None:
    """The jobs that count as submitted are counted, where a limit asks for it."""
    if not cluster.limit_index.counts_submitted:
        return
    wanted: dict[tuple[LimitScope, str], int] = {}
    for record in cluster.jobs.values():
        counted = record.state is not JobState.CONFIGURING
        project = cluster.written(record).project
        for owner in cluster.limit_index.owners(record.owner, project):
            wanted[owner] = wanted.get(owner, 0) + counted
    there = {owner: cluster.limit_index.submitted(*owner) for owner in wanted}
    _must(there == wanted, f"submitted {there}, is {wanted}")


def _check_requests(cluster: ClusterState) -> None:
    """Jobs in the queue and running jobs have what they take of the limits that are set now."""
    limits = cluster.limit_index
    for record in cluster.jobs.values():
        if record.id in cluster.running or record.id in cluster.queue.requests:
            request = cluster.request(record)
            plain = replace(request, limits=()) if request.limits else request
            _must(request == limits.admit_job(record, plain), f"limits of job {record.id} are not as set")


def _check_handed(cluster: ClusterState) -> None:
    """The attempts at each resource are counted."""
    wanted: dict[str, int] = {}
    for job in cluster.resource_index.elsewhere:
        run = started_run(cluster.jobs[job])
        wanted[run.resource] = wanted.get(run.resource, 0) + sum(len(each.live) for each in run.tasks)
    there = {name: count for name, count in cluster.resource_index.handed.items() if count}
    _must(there == {name: count for name, count in wanted.items() if count}, f"handed {there}, is {wanted}")


def _must(holds: bool, what: str) -> None:
    if not holds:
        raise Broken(code="invariant", what=what)


def _check_record(cluster: ClusterState, record: JobRecord) -> None:
    alive = record.state is JobState.ENDING or record.state.is_active
    _must(not record.state.is_final, f"job {record.id} is over and still in memory")
    there = alive and record.is_elsewhere
    _must(there == (record.id in cluster.resource_index.elsewhere), f"job {record.id}: at a resource or not?")
    running = alive and not record.is_detached and not there
    _must(running == (record.id in cluster.running), f"job {record.id}: running or not?")
    apart = alive and not running and not there
    _must(apart == (record.id in cluster.detached), f"job {record.id}: detached or not?")
    _must(alive == (record.id in cluster.graphs), f"job {record.id}: graph or not?")
    if record.run is not None:
        specs = zip(cluster.spec(record).tasks, record.run.tasks, strict=True)
        instances = [task.instances if p.instances_made is None else p.instances_made for task, p in specs]
        for task, progress in zip(cluster.spec(record).tasks, record.run.tasks, strict=True):
            _must(
                (progress.instances_made is not None) == (task.kind in SPECIAL),
                f"job {record.id}: special or not?",
            )
        _must(len(record.run.tasks) == len(instances), f"job {record.id}: tasks without progress")
        for progress, count in zip(record.run.tasks, instances, strict=True):
            _check_instances(record, progress, count)
        _must(alive or not any(p.live for p in record.run.tasks), f"job {record.id}: live while not running")
        _must(alive or not record.run.allocation, f"job {record.id} holds processors while not running")
        if alive:
            _check_flow(cluster, record, record.run)


def _check_instances(record: JobRecord, progress: TaskProgress, count: int) -> None:
    parts = [progress.queued, progress.finished, progress.failed, progress.canceled]
    seen = sorted([n for part in parts for n in part] + list(progress.live))
    _must(seen == list(range(1, count + 1)), f"job {record.id}: instances {seen} of {count}")
    _must(
        all(n in progress.canceled for n in progress.withdrawn), f"job {record.id}: withdrawn, not canceled"
    )


def _check_flow(cluster: ClusterState, record: JobRecord, run: JobRun) -> None:
    waiting: set[JobId] = set()
    graph, fresh = cluster.graph(record.id), TaskGraph(record, run, waiting)
    _must((record.id in cluster.waiting) == bool(waiting), f"job {record.id}: waiting tasks or not?")
    for name in ("ready", "open", "free", "lanes"):
        kept, made = getattr(graph, name), getattr(fresh, name)
        _must(kept == made, f"job {record.id}: {name} is {kept}, should be {made}")
    for name in ("members", "lasting"):
        kept, made = getattr(graph.lines, name), getattr(fresh.lines, name)
        _must(kept == made, f"job {record.id}: {name} of its places are {kept}, should be {made}")
    _check_parents(record, graph, fresh)
    for place in graph.lanes:
        for node, numbers in place:
            there = (record.run.resource and PLACE_MARK + record.run.resource) if record.run else ""
            _must(
                node == there or set(numbers) <= set(run.places.get(node, ())),
                f"job {record.id}: {place} outside allocation",
            )
    _check_stays(record, graph)
    _check_entered(record, run)
    held = {node: len(numbers) for node, numbers in run.allocation.items()}
    _must(
        all(0 < count <= held.get(node, 0) for node, count in run.recalled.items()),
        f"job {record.id} is to give up {run.recalled} of {held}",
    )
    gives = record.id in cluster.running and (bool(run.recalled) or record.state is JobState.ENDING)
    _must(gives == (record.id in cluster.releasing), f"job {record.id}: releasing or not?")
    used = [(node, n) for place in graph.lanes for node, numbers in place for n in numbers]
    _must(len(used) == len(set(used)), f"job {record.id}: two lanes share a processor")


def _check_parents(record: JobRecord, graph: TaskGraph, fresh: TaskGraph) -> None:
    for name in ("soon", "failed"):
        kept, made = getattr(graph.parents, name), getattr(fresh.parents, name)
        _must(kept == made, f"job {record.id}: {name} is {kept}, should be {made}")


def _check_entered(record: JobRecord, run: JobRun) -> None:
    """Nothing of a job is on nodes that are being cleaned."""
    for node, holding in run.holdings.items():
        cleaned = (holding.phase is NodePhase.CLEANING) == (holding.clean_by is not None)
        _must(cleaned, f"job {record.id}: {node} is {holding}")
    lives = {node for progress in run.tasks for one in progress.live.values() for node, _ in one.placement}
    dirty = run.cleaning.keys() & lives
    _must(not dirty, f"job {record.id} has something on {dirty}, which are being cleaned")


def _check_stays(record: JobRecord, graph: TaskGraph) -> None:
    """Nodes are prepared before anything else of the job is there, and released when nothing is there."""
    run, mine = graph.run, f"job {record.id}"
    _must(
        bool(graph.tends_nodes)
        or {each.phase for each in run.holdings.values()} <= {NodePhase.ASSIGNED, NodePhase.CLEANING},
        f"{mine} does nothing on its nodes, and has {run.holdings}",
    )
    _must(
        run.holdings.keys() <= run.places.keys() and Holding() not in run.holdings.values(),
        f"{mine}: holdings {run.holdings} beyond {list(run.places)}, or of nothing",
    )
    if not graph.tends_nodes:
        return
    live: dict[str, set[int]] = {}
    for index, progress in enumerate(run.tasks):
        for one in progress.live.values():
            for node, _ in one.placement:
                live.setdefault(node, set()).add(index)
    for node in run.places:
        there, phase = live.get(node, set()), phase_on(run.holdings, node)
        _must(
            (phase is NodePhase.PREPARING) == (graph.prep in there),
            f"{mine}: {node} is {phase} and has {there}",
        )
        _must(
            (phase is NodePhase.RELEASING) == (graph.release in there),
            f"{mine}: {node} is {phase} and has {there}",
        )
        alone = not {graph.prep, graph.release} & there or len(there) == 1
        _must(alone, f"{mine}: tasks {there} are on {node} together")


def _chooses_elsewhere(cluster: ClusterState, record: JobRecord) -> bool:
    return record.id in cluster.resource_index.choosing and is_elsewhere(cluster.spec(record).resource)


def _check_queue(cluster: ClusterState) -> None:
    found = sorted(turn for turns in cluster.queue.by_request.values() for turn in turns)
    wanted = sorted(
        record.turn
        for record in cluster.jobs.values()
        if record.state.is_queued
        and record.id not in cluster.queue.held
        and not record.waits_for
        and not record.holds
        and record.id not in cluster.resource_index.outbound
        and not _chooses_elsewhere(cluster, record)
    )
    _must(found == wanted, f"the queue has {found}, should have {wanted}")
    for turns in cluster.queue.by_request.values():
        _must(turns == sorted(turns) and bool(turns), "a class of the queue is out of order or empty")


def _check_usage(cluster: ClusterState) -> None:
    wanted = {}
    for job in cluster.running:
        record = cluster.jobs[job]
        nodes = [] if record.run is None else [*map(len, record.run.allocation.values())]
        given = cluster.given(record)
        each = given.processors_per_gpu
        if any(nodes):
            gpus = sum(count // each for count in nodes) if each else 0
            gpus = given.maximum if each and given.exclusive else gpus
            owner = record.owner, cluster.spec(record).project
            wanted[job] = owner, (sum(nodes), gpus, _weighted_rate(cluster, record, given))
    _must(cluster.usage.held() == wanted, f"usage counts {cluster.usage.held()}, should count {wanted}")


def _weighted_rate(cluster: ClusterState, record: JobRecord, given: JobRequest) -> int:
    """Return how much a running job uses each second with the weights and nodes of now, in millionths."""
    weights = usage_weights(cluster.parameters)
    held = {} if record.run is None else record.run.allocation
    if weights is None:
        return 1_000_000 * sum(map(len, held.values()))
    return sum(weights.rate(given, len(mine), cluster.nodes[node].facts) for node, mine in held.items())


def _check_children(cluster: ClusterState) -> None:
    wanted: dict[int, set[JobId]] = {}
    for record in cluster.jobs.values():
        if record.state is JobState.QUEUED:
            for parent in (*record.waits_for, *record.satisfied):
                wanted.setdefault(parent, set()).add(record.id)
    _must(cluster.children == wanted, f"children {cluster.children}, should be {wanted}")


def _check_processors(cluster: ClusterState) -> None:
    for name, node in cluster.nodes.items():
        held: list[int] = []
        for job in cluster.cores.holders.get(name, ()):
            run = cluster.jobs[job].run
            held += run.allocation.get(name, ()) if run is not None else ()
        _must(len(held) == len(set(held)), f"node {name}: a processor is held twice: {sorted(held)}")
        free = [n for n in range(node.facts.processors) if n not in held]
        _must(
            cluster.cores.free[name] == free,
            f"node {name}: free {cluster.cores.free[name]}, should be {free}",
        )
        owners = [
            job for job in cluster.cores.holders.get(name, ()) if cluster.request(cluster.jobs[job]).exclusive
        ]
        _must(
            not owners or len(cluster.cores.holders[name]) == 1,
            f"node {name}: shared with exclusive job {owners}",
        )
