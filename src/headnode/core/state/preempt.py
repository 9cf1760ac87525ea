"""What running jobs give up for others: some of their processors, or all."""

from collections.abc import Mapping

from headnode.core.model.errors import WrongState
from headnode.core.model.job import JobRequest, UnitType, units_in
from headnode.core.model.quantities import Instant, JobId
from headnode.core.model.task import SPECIAL
from headnode.core.state import job_events as e
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.command import Command
from headnode.core.state.events import Event
from headnode.core.state.job_events import NodeCores
from headnode.core.state.job_record import JobRecord, JobRun, started_run
from headnode.core.state.prep_release import released_first
from headnode.core.state.stop import stop_live
from headnode.core.state.task_graph import TaskGraph
from headnode.core.state.task_placement import all_could_run
from headnode.core.state.transitions import JobState, job_target, set_recalled


class RecallProcessors(Command, frozen=True):
    """Scheduler: the running job must give up these processors in all, as its tasks end.

    In place of what was recalled before; nothing: it may keep what it has.  `immediate`: tasks that run there
    are stopped, to run again.  `for_jobs` are to have the processors.
    """

    job: JobId
    shares: tuple[tuple[str, int], ...]
    immediate: bool = False
    for_jobs: tuple[JobId, ...] = ()
    message: str = ""


class PreemptJob(Command, frozen=True):
    """Scheduler: preempt the running job and requeue it; `for_job` gets its processors."""

    job: JobId
    for_job: JobId


def preempt(cluster: ClusterState, command: PreemptJob, now: Instant) -> list[Event]:
    """Stop a running job, which goes back to the queue with all that has not finished.

    Raises:  WrongState ``stale-plan`` when it must not be preempted, or something of it may not run twice.
    """
    record = cluster.jobs.get(command.job)
    if record is None or record.state is not JobState.RUNNING or record.run is None:
        return []
    if record.run.end is not None:
        return []
    if not cluster.spec(record).preemptable or runs_once(cluster.graph(record.id)):
        raise WrongState(code="stale-plan", what=f"job {record.id} cannot be stopped to run again")
    message = f"preempted by job {command.for_job}"
    ending = e.JobEnding(
        at=now, job=record.id, outcome="canceled", message=message, requeue=True, preempted_by=command.for_job
    )
    return [ending, *stop_live(record, cluster.graph(record.id), "canceled", message, now)]


def runs_once(graph: TaskGraph) -> bool:
    """Whether something runs, or has been handed to a node, that may not run twice."""
    return any(
        progress.live and progress.instances_made is None and not graph.spec.tasks[index].rerunnable
        for index, progress in enumerate(graph.run.tasks)
    )


def recall(cluster: ClusterState, command: RecallProcessors, now: Instant) -> list[Event]:
    """Recall processors of a running job, all of them if it would keep less than its minimum.

    Whole nodes only, of a job that shares none.  A job that has less than its minimum already, because of
    what was recalled before, may not keep the rest: two such jobs could wait for each other.

    Raises:  WrongState ``stale-plan`` when it does not hold them, is a gang, or ``immediate`` is more than
             can be stopped, or leaves less than its minimum.
    """
    record = cluster.jobs.get(command.job)
    if record is None or record.state is not JobState.RUNNING or record.run is None:
        return []
    run, request = record.run, cluster.request(record)
    if run.end is not None:
        return []
    wanted = _wanted(run, request, command)
    left = {node: numbers[wanted.get(node, 0) :] for node, numbers in run.allocation.items()}
    small = _is_too_small(cluster, record, request, left)
    if small and (command.immediate or not wanted):
        if not wanted:
            return []
        raise _stale(record, "would keep less than its minimum")
    if small:
        wanted = {node: len(numbers) for node, numbers in run.allocation.items()}
    stopped = _stops(record, cluster.graph(record.id), wanted, command, now) if command.immediate else []
    if wanted == run.recalled and command.for_jobs == run.recalled_for:
        return stopped
    recalled = e.ProcessorsRecalled(
        at=now,
        job=record.id,
        processors=tuple(wanted.items()),
        for_jobs=command.for_jobs,
        message=command.message,
    )
    return [recalled, *stopped]


def _wanted(run: JobRun, request: JobRequest, command: RecallProcessors) -> dict[str, int]:
    """Return what is to be given up by node, if it holds that much."""
    wanted = {node: count for node, count in command.shares if count > 0}
    held = {node: len(numbers) for node, numbers in run.allocation.items()}
    short = [node for node, count in wanted.items() if count > held.get(node, 0)]
    if short or (wanted and request.together):
        raise WrongState(
            code="stale-plan",
            what=f"job {command.job} cannot give up what is recalled of {short or 'a gang'}",
        )
    return {node: held[node] for node in wanted} if _goes_whole(request) else wanted


def _goes_whole(request: JobRequest) -> bool:
    """Return whether a node is of no use to other jobs before the job has given up all of it."""
    return request.exclusive or request.unit is UnitType.NODE


def _is_too_small(
    cluster: ClusterState, record: JobRecord, request: JobRequest, cores: Mapping[str, tuple[int, ...]]
) -> bool:
    kept = {node: numbers for node, numbers in cores.items() if numbers}
    units = sum(units_in(request, len(held), cluster.nodes[node].facts) for node, held in kept.items())
    required = {name.lower() for name in request.required_nodes}
    if units < request.minimum or not required <= {node.lower() for node in kept}:
        return True
    return bool(request.parts) and not all_could_run(cluster, cluster.graph(record.id), kept)


def _stale(record: JobRecord, why: str) -> WrongState:
    return WrongState(code="stale-plan", what=f"job {record.id} {why}")


def _stops(
    record: JobRecord, graph: TaskGraph, recalled: Mapping[str, int], command: RecallProcessors, now: Instant
) -> list[Event]:
    """Return what stops enough of what runs there: the youngest first, and nothing that may not run twice."""
    chosen: dict[NodeCores, list[tuple[int, int]]] = {}
    for node, count in recalled.items():
        missing = count - len(graph.free[node]) - sum(_on(place, node) for place in chosen)
        for place, instances in _lanes_on(graph, node):
            if missing <= 0:
                break
            if place not in chosen:
                chosen[place] = instances
                missing -= _on(place, node)
        if missing > graph.run.recalled.get(node, 0):
            raise _stale(record, f"has a task that may not run twice on node {node!r}")
    by_task: dict[int, list[int]] = {}
    for instances in chosen.values():
        for index, instance in instances:
            by_task.setdefault(index, []).append(instance)
    return [
        e.InstancesStopping(
            at=now,
            job=record.id,
            task=index + 1,
            instances=tuple(sorted(instances)),
            outcome="canceled",
            message=command.message,
            cause="preempted",
        )
        for index, instances in sorted(by_task.items())
    ]


def _on(place: NodeCores, node: str) -> int:
    return sum(len(numbers) for name, numbers in place if name == node)


def _lanes_on(graph: TaskGraph, node: str) -> list[tuple[NodeCores, list[tuple[int, int]]]]:
    """Return the places on a node that can be vacated, with the instances to be stopped for that.

    Those that are being stopped already first, then those with the youngest.
    """
    lanes: dict[NodeCores, list[tuple[int, int]]] = {}
    age: dict[NodeCores, float] = {}
    fixed: set[NodeCores] = set()
    for index, progress in enumerate(graph.run.tasks):
        for instance, live in progress.live.items():
            place = live.placement
            if not _on(place, node):
                continue
            age[place] = max(age.get(place, 0.0), float("inf") if live.started is None else live.started)
            lanes.setdefault(place, [])
            if live.outcome is None:
                lanes[place].append((index, instance))
                if graph.spec.tasks[index].kind in SPECIAL or not graph.spec.tasks[index].rerunnable:
                    fixed.add(place)
    found = [(place, instances) for place, instances in lanes.items() if place not in fixed]
    return sorted(found, key=lambda lane: (bool(lane[1]), -age[lane[0]], lane[1]))


def give_up_recalled(cluster: ClusterState, record: JobRecord, now: Instant) -> list[Event]:
    """Return events that release idle recalled processors; after the last one the job is requeued.

    A node that goes as a whole is released first.
    """
    graph, request = cluster.graph(record.id), cluster.request(record)
    run, whole = graph.run, _goes_whole(request)
    removed: list[tuple[str, tuple[int, ...]]] = []
    for node, count in run.recalled.items():
        idle = graph.free[node]
        number = min(count, len(idle))
        if number and not (whole and number < len(run.allocation[node])):
            removed.append((node, tuple(idle[len(idle) - number :])))
    if not removed:
        return []
    last = dict(removed) == run.allocation
    if last and run.end is not None:
        return []  # it ends as it was told to
    message = _for_whom(run)
    shrunk = e.AllocationShrunk(at=now, job=record.id, removed=tuple(removed), message=message)
    events = released_first(record, [shrunk], graph)
    if last and events == [shrunk]:
        by = next(iter(run.recalled_for), 0)
        why = _returned(run)
        return [e.JobAutoRequeued(at=now, job=record.id, message=why, preempted_by=by, uncounted=not by)]
    return events


def _for_whom(run: JobRun) -> str:
    return f"released for {_jobs(run)}" if run.recalled_for else "released for other jobs"


def _returned(run: JobRun) -> str:
    return f"preempted by {_jobs(run)}" if run.recalled_for else "it released all its processors"


def _jobs(run: JobRun) -> str:
    names = ", ".join(map(str, run.recalled_for))
    return f"job{'s' if len(run.recalled_for) > 1 else ''} {names}"


def processors_recalled(cluster: ClusterState, event: e.ProcessorsRecalled) -> None:
    """From now on it is to give up these, and no others."""
    record = cluster.job(event.job)
    job_target(record.state, event)
    run = started_run(record)
    counts = dict(event.processors)
    for node in {*run.recalled, *counts}:
        set_recalled(run.holdings, node, counts.get(node, 0))
    run.recalled_for = event.for_jobs
    cluster.update_releasing(record)
    cluster.agenda.dirty_job_views.add(record.id)
    cluster.agenda.dirty_jobs.add(record.id)
    if not event.processors:
        cluster.agenda.pass_needed = True  # who was to have them does not come; the job may want to grow


def settle_recall(run: JobRun, node: str, ended: int, left: int) -> None:
    """So many processors of a node went, and so many are left: that much less is to be given up there."""
    recalled = run.recalled.get(node, 0)
    if not recalled:
        return
    set_recalled(run.holdings, node, max(0, min(recalled - ended, left)))
    if not run.recalled:
        run.recalled_for = ()
