"""What must hold between events, whatever happened: for tests, and to find a bug."""

from msgspec.structs import replace

from headnode.core.model.errors import Broken
from headnode.core.model.job import JobRequest
from headnode.core.model.owner_limits import LimitScope
from headnode.core.model.quantities import JobId
from headnode.core.model.resource import PLACE_MARK, is_elsewhere
from headnode.core.model.task import SPECIAL
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.job_record import JobRecord, JobRun, TaskProgress, awaited_by_instances, started_run
from headnode.core.state.owner_usage import usage_weights
from headnode.core.state.task_graph import TaskGraph, is_blocked
from headnode.core.state.transitions import Holding, JobState, NodePhase, phase_on


def check_cluster(cluster: ClusterState) -> None:
    """Compare everything that follows from the records with what it follows from.

    Raises:  Broken ``invariant``, saying which.
    """
    counts: dict[JobState, int] = {}
    for record in cluster.jobs.values():
        counts[record.state] = counts.get(record.state, 0) + 1
        _check_record(cluster, record)
    _must(
        counts == {s: n for s, n in cluster.counts.items() if n}, "counts {} are {}", cluster.counts, counts
    )
    _check_submitted(cluster)
    _check_requests(cluster)
    _must(cluster.waiting <= cluster.graphs.keys(), "{} have tasks to dispatch", cluster.waiting)
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
    _must(there == wanted, "submitted {}, is {}", there, wanted)


def _check_requests(cluster: ClusterState) -> None:
    """Jobs in the queue and running jobs have what they take of the limits that are set now."""
    limits = cluster.limit_index
    for record in cluster.jobs.values():
        if record.id in cluster.running or record.id in cluster.queue.requests:
            request = cluster.request(record)
            plain = replace(request, limits=()) if request.limits else request
            _must(request == limits.admit_job(record, plain), "limits of job {} are not as set", record.id)


def _check_handed(cluster: ClusterState) -> None:
    """The attempts at each resource are counted."""
    wanted: dict[str, int] = {}
    for job in cluster.resource_index.elsewhere:
        run = started_run(cluster.jobs[job])
        wanted[run.resource] = wanted.get(run.resource, 0) + sum(len(each.live) for each in run.tasks)
    there = {name: count for name, count in cluster.resource_index.handed.items() if count}
    _must(
        there == {name: count for name, count in wanted.items() if count}, "handed {}, is {}", there, wanted
    )


def _must(holds: bool, what: str, *values: object) -> None:
    """See that something holds; what it says of these values is written only if it does not."""
    if not holds:
        raise Broken(code="invariant", what=what.format(*values))


def _check_record(cluster: ClusterState, record: JobRecord) -> None:
    alive = record.state is JobState.ENDING or record.state.is_active
    _must(not record.state.is_final, "job {} is over and still in memory", record.id)
    there = alive and record.is_elsewhere
    _must(
        there == (record.id in cluster.resource_index.elsewhere), "job {}: at a resource or not?", record.id
    )
    running = alive and not record.is_detached and not there
    _must(running == (record.id in cluster.running), "job {}: running or not?", record.id)
    apart = alive and not running and not there
    _must(apart == (record.id in cluster.detached), "job {}: detached or not?", record.id)
    _must(alive == (record.id in cluster.graphs), "job {}: graph or not?", record.id)
    if record.run is not None:
        for task, progress in zip(cluster.spec(record).tasks, record.run.tasks, strict=True):
            made = progress.instances_made
            _must((made is not None) == (task.kind in SPECIAL), "job {}: special or not?", record.id)
            _check_instances(record, progress, task.instances if made is None else made)
        _must(alive or not any(p.live for p in record.run.tasks), "job {}: live while not running", record.id)
        _must(alive or not record.run.allocation, "job {} holds processors while not running", record.id)
        if alive:
            _check_flow(cluster, record, record.run)


def _check_instances(record: JobRecord, progress: TaskProgress, count: int) -> None:
    """Each instance from 1 on is queued, live or over, and only once."""
    parts = (progress.queued, progress.blocked, progress.finished, progress.failed, progress.canceled)
    spans = [span for part in parts if part for span in part.spans()]
    spans += [(instance, instance) for instance in progress.live]
    spans.sort()
    follow = [1, *(last + 1 for _, last in spans)] == [*(first for first, _ in spans), count + 1]
    _must(follow, "job {}: instances {} of {}", record.id, spans, count)
    if progress.waits is not None:
        waits = progress.waits
        reasons = (waits.held, *waits.awaiting.values())
        known = all(any(instance in each for each in reasons) for instance in waits.blocked)
        _must(known, "job {}: instances {} are blocked for nothing", record.id, list(waits.blocked))
        for each in reasons:
            held = all(instance in waits.blocked or instance in progress.live for instance in each)
            _must(held, "job {}: {} of {} are over or queued, and held", record.id, list(each), waits)
        _must(any(reasons), "job {}: nothing is waited for", record.id)
    if progress.withdrawn:
        canceled = all(instance in progress.canceled for instance in progress.withdrawn)
        _must(canceled, "job {}: withdrawn, not canceled", record.id)


def _check_flow(cluster: ClusterState, record: JobRecord, run: JobRun) -> None:
    waiting: set[JobId] = set()
    graph, fresh = cluster.graph(record.id), TaskGraph(record, run, waiting)
    _must((record.id in cluster.waiting) == bool(waiting), "job {}: waiting tasks or not?", record.id)
    for name in ("ready", "open", "free", "lanes"):
        kept, made = getattr(graph, name), getattr(fresh, name)
        _must(kept == made, "job {}: {} is {}, should be {}", record.id, name, kept, made)
    for name in ("members", "lasting"):
        kept, made = getattr(graph.lines, name), getattr(fresh.lines, name)
        _must(kept == made, "job {}: {} of its places are {}, should be {}", record.id, name, kept, made)
    _check_parents(record, graph, fresh)
    for place in graph.lanes:
        for node, numbers in place:
            there = (record.run.resource and PLACE_MARK + record.run.resource) if record.run else ""
            _must(
                node == there or set(numbers) <= set(run.places.get(node, ())),
                "job {}: {} outside allocation",
                record.id,
                place,
            )
    _check_stays(record, graph)
    _check_entered(record, run)
    held = {node: len(numbers) for node, numbers in run.allocation.items()}
    _must(
        all(0 < count <= held.get(node, 0) for node, count in run.recalled.items()),
        "job {} is to give up {} of {}",
        record.id,
        run.recalled,
        held,
    )
    gives = record.id in cluster.running and (bool(run.recalled) or record.state is JobState.ENDING)
    _must(gives == (record.id in cluster.releasing), "job {}: releasing or not?", record.id)
    used = [(node, n) for place in graph.lanes for node, numbers in place for n in numbers]
    _must(len(used) == len(set(used)), "job {}: two lanes share a processor", record.id)


def _check_parents(record: JobRecord, graph: TaskGraph, fresh: TaskGraph) -> None:
    for name in ("soon", "failed"):
        kept, made = getattr(graph.parents, name), getattr(fresh.parents, name)
        _must(kept == made, "job {}: {} is {}, should be {}", record.id, name, kept, made)


def _check_entered(record: JobRecord, run: JobRun) -> None:
    """Nothing of a job is on nodes that are being cleaned."""
    for node, holding in run.holdings.items():
        cleaned = (holding.phase is NodePhase.CLEANING) == (holding.clean_by is not None)
        _must(cleaned, "job {}: {} is {}", record.id, node, holding)
    lives = {node for progress in run.tasks for one in progress.live.values() for node, _ in one.placement}
    dirty = run.cleaning.keys() & lives
    _must(not dirty, "job {} has something on {}, which are being cleaned", record.id, dirty)


def _check_stays(record: JobRecord, graph: TaskGraph) -> None:
    """Nodes are prepared before anything else of the job is there, and released when nothing is there."""
    run, mine = graph.run, f"job {record.id}"
    _must(
        bool(graph.tends_nodes)
        or {each.phase for each in run.holdings.values()} <= {NodePhase.ASSIGNED, NodePhase.CLEANING},
        "{} does nothing on its nodes, and has {}",
        mine,
        run.holdings,
    )
    _must(
        run.holdings.keys() <= run.places.keys() and Holding() not in run.holdings.values(),
        "{}: holdings {} beyond {}, or of nothing",
        mine,
        run.holdings,
        list(run.places),
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
        for doing, task in ((NodePhase.PREPARING, graph.prep), (NodePhase.RELEASING, graph.release)):
            as_said = (phase is doing) == (task in there)
            _must(as_said, "{}: {} is {} and has {}", mine, node, phase, there)
        alone = not {graph.prep, graph.release} & there or len(there) == 1
        _must(alone, "{}: tasks {} are on {} together", mine, there, node)


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
        and not is_blocked(record)
        and record.id not in cluster.resource_index.outbound
        and not _chooses_elsewhere(cluster, record)
    )
    _must(found == wanted, "the queue has {}, should have {}", found, wanted)
    for turns in cluster.queue.by_request.values():
        _must(turns == sorted(turns) and bool(turns), "a class of the queue is out of order or empty")


def _check_usage(cluster: ClusterState) -> None:
    wanted = {}
    for job in cluster.running:
        record = cluster.jobs[job]
        nodes = [] if record.run is None else [*map(len, record.run.allocation.values())]
        request = cluster.started_request(record)
        each = request.processors_per_gpu
        if any(nodes):
            gpus = sum(count // each for count in nodes) if each else 0
            gpus = request.maximum if each and request.exclusive else gpus
            owner = record.owner, cluster.spec(record).project
            wanted[job] = owner, (sum(nodes), gpus, _weighted_rate(cluster, record, request))
    _must(cluster.usage.held() == wanted, "usage counts {}, should count {}", cluster.usage.held(), wanted)


def _weighted_rate(cluster: ClusterState, record: JobRecord, request: JobRequest) -> int:
    """Return how much a running job uses each second with the weights and nodes of now, in millionths."""
    weights = usage_weights(cluster.parameters)
    held = {} if record.run is None else record.run.allocation
    if weights is None:
        return 1_000_000 * sum(map(len, held.values()))
    return sum(weights.rate(request, len(mine), cluster.nodes[node].facts) for node, mine in held.items())


def _check_children(cluster: ClusterState) -> None:
    wanted: dict[int, set[JobId]] = {}
    elements: dict[int, dict[int, set[JobId]]] = {}
    for record in cluster.jobs.values():
        if record.state is JobState.QUEUED:
            for parent in record.parents:
                wanted.setdefault(parent, set()).add(record.id)
            for parent, number in record.elements:
                elements.setdefault(parent, {}).setdefault(number, set()).add(record.id)
    _must(cluster.children == wanted, "children {}, should be {}", cluster.children, wanted)
    of_elements = cluster.element_children
    _must(of_elements == elements, "children of elements {}, should be {}", of_elements, elements)
    followers: dict[int, set[JobId]] = {}
    for record in cluster.jobs.values():
        for task in record.run.tasks if record.run is not None else ():
            for parent in task.waits.awaiting if task.waits is not None else ():
                followers.setdefault(parent, set()).add(record.id)
        named = {parent for parent, jobs in followers.items() if record.id in jobs}
        _must(set(awaited_by_instances(record)) == named, "job {}: follows others than {}", record.id, named)
    _must(cluster.followers == followers, "followers {}, should be {}", cluster.followers, followers)


def _check_processors(cluster: ClusterState) -> None:
    free_processors = sum(map(len, cluster.cores.free.values()))
    _must(cluster.cores.count == free_processors, "{} processors counted as free", cluster.cores.count)
    for name, node in cluster.nodes.items():
        held: list[int] = []
        for job in cluster.cores.holders.get(name, ()):
            run = cluster.jobs[job].run
            held += run.allocation.get(name, ()) if run is not None else ()
        _must(len(held) == len(set(held)), "node {}: a processor is held twice: {}", name, sorted(held))
        free = [n for n in range(node.facts.processors) if n not in held]
        _must(
            cluster.cores.free[name] == free,
            "node {}: free {}, should be {}",
            name,
            cluster.cores.free[name],
            free,
        )
        owners = [
            job for job in cluster.cores.holders.get(name, ()) if cluster.request(cluster.jobs[job]).exclusive
        ]
        _must(
            not owners or len(cluster.cores.holders[name]) == 1,
            "node {}: shared with exclusive job {}",
            name,
            owners,
        )
