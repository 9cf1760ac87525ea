"""Resources with their own schedulers: added and removed, jobs handed over to them, and what they accept."""

import re
from collections.abc import Iterator, Mapping
from itertools import islice

from msgspec.structs import replace

from headnode.core.model.errors import BadRequest, NotFound, WrongState
from headnode.core.model.job import JobSpec, UnitType, places_named, with_option
from headnode.core.model.node_needs import ANY_NODE, NodeNeeds
from headnode.core.model.quantities import Instant, JobId
from headnode.core.model.resource import ANY, HERE, BatchResource, InstanceHandOff, check_resource, places_in
from headnode.core.model.resource_system import ResourceSystem
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.model.user import User
from headnode.core.state import events as n
from headnode.core.state import job_events as e
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.command import Command
from headnode.core.state.events import Event
from headnode.core.state.job_record import JobRecord
from headnode.core.state.permissions import must_administer
from headnode.core.state.task_graph import TaskGraph
from headnode.core.state.transitions import JobState

MAX_RESOURCES = 100
_FEATURE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:=+-]{0,255}\Z", re.ASCII)  # & | * [ ] are operators there
_PROPERTY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}\Z", re.ASCII)  # of nodes of PBS
_PLAIN_JOB, _PLAIN_TASK = JobSpec(), TaskSpec()
_OURS_OF_JOBS = (
    *("node_groups", "requested_nodes", "excluded_nodes", "minimum_memory", "maximum_memory"),
    *("minimum_processors_per_node", "maximum_processors_per_node", "resource_limits", "reservation"),
    *("licences", "interactive", "together", "alternatives", "run_until_canceled", "minimum_run_time"),
    *("switches", "contiguous"),
)
_OURS_OF_TASKS = (
    *("required_nodes", "node_group", "needs", "exclusive", "private_directory", "temporary_directory"),
    "resource_limits",
)
"""What only own nodes can do, and no other scheduler is told."""


class SetResource(Command, frozen=True):
    """Add a resource, or change the one of this name."""

    by: User
    resource: BatchResource


class RemoveResource(Command, frozen=True):
    """Remove a resource."""

    by: User
    name: str


class ReportHanded(Command, frozen=True):
    """Hand-off: a resource has accepted these attempts."""

    resource: str
    job: JobId
    handed: tuple[InstanceHandOff, ...]


def resource_named(resources: Mapping[str, BatchResource], name: str) -> BatchResource:
    """Return a resource.

    Raises:  NotFound ``no-such-resource``.
    """
    found = resources.get(name.lower())
    if found is None:
        known = ", ".join(["here", *(each.name for each in resources.values())])
        raise NotFound(
            code="no-such-resource",
            what=f"there is no resource {name!r}",
            fix=f"choose from: {known}; see `hn resource list`",
            path=("resource",),
        )
    return found


def overlay_of(resources: Mapping[str, BatchResource]) -> BatchResource | None:
    """Return the resource to which jobs go that name none; None if they run on own nodes."""
    return next((each for each in resources.values() if each.overlay), None)


def with_resource(resources: Mapping[str, BatchResource], spec: JobSpec) -> JobSpec:
    """Return the job with the resource where it goes if it names none."""
    known = overlay_of(resources) if resources and not spec.resource else None
    return spec if known is None else replace(spec, resource=known.name)


def check_may_be_handed(resources: Mapping[str, BatchResource], spec: JobSpec) -> None:
    """Refuse a job that a resource which it names cannot run as it is written; own nodes run every job.

    `any` means each resource that can run it.
    Raises:  NotFound ``no-such-resource``; BadRequest ``resource``.
    """
    if not spec.resource and not spec.alternatives:
        return
    for place in places_named(spec):
        if place in (HERE, ANY):
            continue
        option = option_at(spec, place)
        known = resource_named(resources, place)
        for what, field in _obstacles(spec_at(spec, place), known):
            raise BadRequest(
                code="resource",
                what=f"resource {known.name!r} does not support {what}",
                fix="leave that out, or run the job on own nodes: /resource:here",
                path=("alternatives", option - 1, field) if option else (field,),
            )


def why_not_there(spec: JobSpec, resource: BatchResource) -> str:
    """Return what of a job a resource cannot do, in words; empty if it can run the job."""
    there = _obstacles(spec_at(spec, resource.key), resource)
    return next((f"it does not support {what}" for what, _ in there), "")


def _obstacles(spec: JobSpec, resource: BatchResource) -> Iterator[tuple[str, str]]:
    if any(task.kind not in (TaskType.BASIC, TaskType.SWEEP) for task in spec.tasks):
        yield "tasks other than basic tasks and sweeps", "tasks"
    if any(task.stages for task in spec.tasks):
        yield from _obstacles_to_staging(spec, resource)
    if any(task.distribution is not None and task.distribution.geometry for task in spec.tasks):
        yield "a distribution with a geometry", "tasks"
    for field in _OURS_OF_JOBS:
        if getattr(spec, field) != getattr(_PLAIN_JOB, field):
            yield f"{field.replace('_', ' ')}: that is for own nodes", field
    for field in _OURS_OF_TASKS:
        if any(getattr(task, field) != getattr(_PLAIN_TASK, field) for task in spec.tasks):
            yield f"{field.replace('_', ' ')} of tasks: that is for own nodes", "tasks"
    if spec.unit is UnitType.GPU:
        yield from _obstacles_to_gpus(spec, resource)
    elif spec.unit is not UnitType.PROCESSOR:
        yield f"{spec.unit.word}s as the unit of a job: that is for own nodes", "unit"
    yield from _obstacles_to_needs(spec.needs, resource.system)
    if not all(_FEATURE.match(name) for choice in spec.needs.features for name in choice):
        yield "features with characters other than letters, digits and _ . : = + -", "needs"
    if spec.signal:
        yield from _obstacles_to_signals(spec.signal, resource.system)
    if resource.system is ResourceSystem.GRID_ENGINE:
        yield from _obstacles_of_grid_engine(spec, resource)
    if resource.system is ResourceSystem.PBS:
        yield from _obstacles_of_pbs(spec)


def _obstacles_to_needs(needs: NodeNeeds, system: ResourceSystem) -> Iterator[tuple[str, str]]:
    others = replace(needs, features=())
    if system is ResourceSystem.SLURM:
        others = replace(others, minimum_sockets=0, minimum_cores_per_socket=0, minimum_threads_per_core=0)
    if others != ANY_NODE:
        known = "features, sockets, cores and threads" if system is ResourceSystem.SLURM else "features"
        yield f"node requirements other than {known}", "needs"


def _obstacles_to_staging(spec: JobSpec, resource: BatchResource) -> Iterator[tuple[str, str]]:
    if resource.host:
        yield f"staged files: its commands run on {resource.host}, where Headnode can copy none", "tasks"
    files = (file for task in spec.tasks for file in (*task.stage_in, *task.stage_out))
    if any(file.path.startswith("/") for file in files):
        yield "absolute paths of staged files: only paths below the directory of the task", "tasks"


def _obstacles_to_signals(signal: str, system: ResourceSystem) -> Iterator[tuple[str, str]]:
    from headnode.core.model.signals import UNHEARD_BESIDE_A_SHELL, read_limit_signal, signal_number

    asked = read_limit_signal(signal)
    if system is ResourceSystem.PBS:
        yield "a signal before the run time limit: PBS has no option for it", "signal"
    elif system is ResourceSystem.GRID_ENGINE:
        if (asked.number, asked.target) != (signal_number("USR1"), "all"):
            what = "another signal before the limit than USR1 to all processes"
            yield f"{what}: Grid Engine sends this one", "signal"
    elif asked.target != "steps" and asked.number in UNHEARD_BESIDE_A_SHELL:
        yield "INT and QUIT: the shell that starts the program there lets it ignore them", "signal"


def _obstacles_to_gpus(spec: JobSpec, resource: BatchResource) -> Iterator[tuple[str, str]]:
    if resource.system is ResourceSystem.GRID_ENGINE:
        yield "GPUs: in Grid Engine they are a complex of the site", "unit"
    layouts = [(task.minimum, task.distribution) for task in spec.tasks if task.distribution is not None]
    uneven = any(layout.per_node and gpus % layout.per_node for gpus, layout in layouts)
    if uneven and resource.system is ResourceSystem.SLURM:
        yield "a number of GPUs that differs between nodes", "tasks"


def _obstacles_of_pbs(spec: JobSpec) -> Iterator[tuple[str, str]]:
    if spec.exclusive:
        yield "exclusive nodes: the systems of the PBS family have no common word for them", "exclusive"
    if any(len(choice) > 1 or not _PROPERTY.match(choice[0]) for choice in spec.needs.features):
        what = "features with characters other than letters, digits, dots, dashes and underscores"
        yield f"alternative features, or {what}", "needs"


def _obstacles_of_grid_engine(spec: JobSpec, resource: BatchResource) -> Iterator[tuple[str, str]]:
    if spec.needs.features:
        yield "features: Grid Engine has none", "needs"
    if spec.exclusive:
        yield "exclusive nodes: they are a complex of the site", "exclusive"
    if spec.held.memory:
        yield (
            "memory of each node: Grid Engine counts it for each slot; use /estimatedprocessmemory",
            "held",
        )
    if any(task.distribution is not None for task in spec.tasks):
        yield "a distribution: the parallel environment of the site sets it", "tasks"
    if any(task.minimum > 1 for task in spec.tasks) and not resource.parallel:
        yield "tasks with several processors: it has no parallel environment", "tasks"


def set_resource(cluster: ClusterState, command: SetResource, now: Instant) -> list[Event]:
    """An administrator adds a resource, or changes it; what is there stays there.

    Raises:  NotAllowed; BadRequest as `check_resource`; WrongState ``resource-in-use``.
    """
    must_administer(command.by, "change resources")
    resource = command.resource
    check_resource(resource)
    known = cluster.resource_index.named.get(resource.key)
    _check_overlay(cluster.resource_index.named, resource)
    if known == resource:
        return []
    if known is None and len(cluster.resource_index.named) >= MAX_RESOURCES:
        raise WrongState(
            code="resources", what=f"there are {MAX_RESOURCES} resources", fix="remove one first"
        )
    moved = known is not None and any(
        getattr(known, field) != getattr(resource, field)
        for field in ("system", "host", "settings", "directory")
    )
    if moved and cluster.resource_index.handed.get(resource.key):
        raise _in_use(cluster, resource.key)
    return [n.ResourceSet(at=now, resource=resource, by=command.by.name)]


def _check_overlay(resources: Mapping[str, BatchResource], resource: BatchResource) -> None:
    other = overlay_of(resources)
    if resource.overlay and resource.system is ResourceSystem.PBS:
        raise BadRequest(
            code="resource-overlay",
            what=f"the queue of {resource.system.value} cannot be shown",
            fix="a head can run over Slurm or Grid Engine; send jobs to the resource by name: /resource:NAME",
        )
    if resource.overlay and other is not None and other.key != resource.key:
        raise WrongState(
            code="resource-overlay",
            what=f"this head runs over the resource {other.name!r} already",
            fix="start another head for another site: hn up --state DIRECTORY --over slurm",
        )


def remove_resource(cluster: ClusterState, command: RemoveResource, now: Instant) -> list[Event]:
    """An administrator removes a resource of which nothing of ours is left.

    Raises:  NotAllowed; NotFound ``no-such-resource``; WrongState ``resource-in-use``.
    """
    must_administer(command.by, "change resources")
    known = resource_named(cluster.resource_index.named, command.name)
    there = [
        job
        for job in cluster.resource_index.elsewhere
        if cluster.resource_index.resource_of(job) == known.key
    ]
    if there or known.key in cluster.resource_index.outbound.values():
        raise _in_use(cluster, known.key)
    for record in cluster.elastic.named.values():
        if record.pool.resource == known.key:
            raise WrongState(
                code="resource-in-use",
                what=f"the elastic pool {record.pool.name!r} has its nodes from the resource {known.name!r}",
                fix=f"remove that first: hn elastic remove {record.pool.name}",
            )
    return [n.ResourceRemoved(at=now, name=known.name, by=command.by.name)]


def _in_use(cluster: ClusterState, key: str) -> WrongState:
    jobs = [job for job in cluster.resource_index.elsewhere if cluster.resource_index.resource_of(job) == key]
    jobs += [job for job, wanted in cluster.resource_index.outbound.items() if wanted == key]
    named = ", ".join(map(str, sorted(jobs)[:5])) + (" and others" if len(jobs) > 5 else "")
    return WrongState(
        code="resource-in-use",
        what=f"resource {key!r} has jobs, or jobs wait for it: {named}",
        fix="wait for their end, or cancel them",
    )


def resource_set(cluster: ClusterState, event: n.ResourceSet) -> None:
    """Keep a resource; jobs may wait for it, or for the room that it has now."""
    cluster.resource_index.named[event.resource.key] = event.resource
    cluster.resource_index.wake(event.resource.key, cluster.waiting)


def resource_removed(cluster: ClusterState, event: n.ResourceRemoved) -> None:
    """Forget a resource."""
    del cluster.resource_index.named[event.name.lower()]


def hand_over(cluster: ClusterState, record: JobRecord, now: Instant) -> list[Event]:
    """Start a queued job at its resource, if that has room for the first of it; nothing of it runs yet."""
    wanted = cluster.resource_index.outbound.get(record.id)
    if wanted is None or cluster.agenda.closing or not cluster.resource_index.room(wanted):
        return []
    option = option_at(cluster.written(record), wanted)
    return [e.JobStarted(at=now, job=record.id, allocation=(), resource=wanted, alternative=option)]


def dispatch_there(
    cluster: ClusterState, record: JobRecord, graph: TaskGraph, now: Instant
) -> list[Event] | None:
    """Dispatch instances that may run to the resource, as many as it takes.

    This is the intention: it is durable before anything is submitted there, and names the attempt for ever.
    """
    known = cluster.resource_index.named.get(graph.run.resource)
    if not graph.ready or graph.run.end is not None or cluster.agenda.closing or known is None:
        return None
    if record.holds and record.state is JobState.HANDED:
        return None
    room, found = cluster.resource_index.room(known.key), list[Event]()
    for index in graph.ready:
        progress = graph.run.tasks[index]
        next_ones = (number for number, _ in zip(progress.queued, range(room), strict=False))
        attempts = tuple((number, progress.used_by(number) + 1) for number in next_ones)
        if attempts:
            place = ((known.place, ()),)
            room -= len(attempts)
            found.append(
                e.InstancesDispatched(
                    at=now, job=record.id, task=index + 1, placement=place, attempts=attempts
                )
            )
    return found or None


def handed(cluster: ClusterState, command: ReportHanded, now: Instant) -> list[Event]:
    """Note which attempts a resource has accepted; what is known or over causes nothing."""
    record = cluster.jobs.get(command.job)
    if record is None or record.run is None or record.run.resource != command.resource:
        return []
    if record.state not in (JobState.HANDED, JobState.RUNNING, JobState.ENDING):
        return []
    fresh = []
    for each in command.handed:
        live = record.run.tasks[each.task - 1].live.get(each.instance)
        if live is not None and live.attempt == each.attempt and live.foreign != each.id:
            fresh.append(each)
    return [n.InstancesHanded(at=now, job=record.id, handed=tuple(fresh))] if fresh else []


def ids_there(record: JobRecord) -> list[str]:
    """Return the ids of the live attempts of a job at its resource, at most 100."""
    lives = (live for each in (record.run.tasks if record.run else ()) for live in each.live.values())
    return list(islice((live.foreign for live in lives if live.foreign), MAX_IDS))


MAX_IDS = 100


def option_at(spec: JobSpec, place: str) -> int:
    """Return the option under which a job runs at a resource (in lower case): its own if that names it."""
    if place not in places_in(spec.resource):
        for number, other in enumerate(spec.alternatives, start=1):
            if other.resource is not None and place in places_in(other.resource):
                return number
    return 0


def spec_at(spec: JobSpec, place: str) -> JobSpec:
    """Return the job as it is written for a resource: without what is for other places."""
    option = option_at(spec, place)
    kept = () if option else tuple(other for other in spec.alternatives if other.resource is None)
    return replace(with_option(spec, option), alternatives=kept) if spec.alternatives else spec
