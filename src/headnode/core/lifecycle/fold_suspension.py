"""Apply the events of suspending and holding jobs."""

from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.arrows import job_target
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.deadlines import deadline_of, limit_end
from headnode.core.lifecycle.fold_hooks import leave
from headnode.core.lifecycle.records import Hold, JobRecord, Run, Suspension
from headnode.core.lifecycle.resuming import moved, renumbered, suspension_of
from headnode.core.lifecycle.states import JobState
from headnode.core.model.errors import Broken
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import NEVER, Instant, Seconds


def _run(record: JobRecord) -> Run:
    if record.run is None:
        raise Broken(code="no-run", what=f"job {record.id} is {record.state} and has no run")
    return record.run


def suspending(cluster: Cluster, event: e.JobSuspending) -> None:
    """Its nodes are told to stop its processes."""
    record = cluster.job(event.job)
    state = job_target(record.state, event)
    run = _run(record)
    run.suspensions = event.number
    run.suspension = Suspension(number=event.number, since=event.at, awaited=tuple(run.allocation))
    cluster.redraw.add(record.id)
    cluster.move(record, state)


def processes_stopped(cluster: Cluster, event: e.ProcessesStopped) -> None:
    """One of its nodes has stopped everything."""
    record = cluster.job(event.job)
    job_target(record.state, event)
    suspension = suspension_of(record.run)
    suspension.awaited = tuple(node for node in suspension.awaited if node != event.node)
    cluster.touched.add(record.id)


def suspended(cluster: Cluster, event: e.JobSuspended) -> None:
    """Nothing of it runs: it gives everything back.  One that waited to go on waits no more."""
    record = cluster.job(event.job)
    state = job_target(record.state, event)
    if record.state is JobState.RESUMING:
        cluster.dequeue(record)
        cluster.move(record, state)
        return
    run = _run(record)
    suspension = suspension_of(run)
    suspension.since, suspension.awaited = event.at, ()
    suspension.places = dict(run.allocation)
    set_limits(run, cluster.spec(record))
    cluster.move(record, state)
    cluster.give_back_all(record)
    cluster.set_aside(record)


def set_limits(run: Run, spec: JobSpec) -> None:
    """Work out what is left of a standing job's limit, or when that of a running one is over."""
    suspension = run.suspension
    if suspension is None or not suspension.places:
        run.deadline = deadline_of(spec, run)
        return
    end = limit_end(spec, run)
    suspension.left = None if end == NEVER else Seconds(max(0.0, end - suspension.since))
    run.deadline = spec.end_by


def resuming(cluster: Cluster, event: e.JobResuming) -> None:
    """It waits for what it held."""
    record = cluster.job(event.job)
    cluster.move(record, job_target(record.state, event))
    cluster.enqueue(record)


def resumed(cluster: Cluster, event: e.JobResumed) -> None:
    """It goes on, perhaps with other processors of its nodes, or before everything of it stood still."""
    record = cluster.job(event.job)
    state = job_target(record.state, event)
    run = _run(record)
    if record.state is JobState.SUSPENDING:
        run.suspension = None
        cluster.redraw.add(record.id)
        cluster.move(record, state)
        return
    cluster.dequeue(record)
    spec, allocation = cluster.spec(record), dict(event.allocation)
    _move_in(run, suspension_of(run), allocation)
    run.allocation = allocation
    end_suspension(run, event.at)
    set_limits(run, spec)
    cluster.move(record, state)
    cluster.aside.discard(record.id)
    cluster.open_run(record)


def _move_in(run: Run, suspension: Suspension, allocation: dict[str, tuple[int, ...]]) -> None:
    """Give live instances, and the parts of a gang, the processors that take the place of those they had."""
    if allocation == suspension.places:
        return
    to = renumbered(suspension.places, allocation)
    for progress in run.tasks:
        for live in progress.live.values():
            place = moved(live.place, to)
            live.moved = live.moved or place != live.place
            live.place = place
    run.parts = tuple(moved(part, to) for part in run.parts)


def end_suspension(run: Run, at: Instant) -> None:
    """Note how long a job stood still that now goes on, ends, or goes back to the queue."""
    suspension, run.suspension = run.suspension, None
    if suspension is not None and suspension.places:
        run.stood_still = Seconds(run.stood_still + max(0.0, at - suspension.since))


def lose(cluster: Cluster, record: JobRecord, run: Run, event: e.AllocationLost) -> None:
    """Processors of a suspended job's nodes are gone; it waits only for those it has left."""
    waiting = record.state is JobState.RESUMING
    if waiting:
        cluster.dequeue(record)
    places = suspension_of(run).places
    for node, numbers in event.removed:
        left = tuple(number for number in places[node] if number not in numbers)
        if left:
            places[node] = left
        else:
            del places[node]
            run.stays.pop(node, None)
            leave(run, node)
        cluster.redraw_nodes.add(node)
    if waiting:
        cluster.enqueue(record)
    cluster.touched.add(record.id)


def held(cluster: Cluster, event: e.JobHeld) -> None:
    """It waits until this hold, too, is released."""
    record = cluster.job(event.job)
    fresh = Hold(name=event.name, at=event.at, by=event.by, message=event.message)
    kept = tuple(hold for hold in record.holds if hold.name != event.name)
    _have_holds(cluster, record, event, (*kept, fresh))


def released(cluster: Cluster, event: e.JobReleased) -> None:
    """These holds keep it no longer."""
    record = cluster.job(event.job)
    kept = tuple(hold for hold in record.holds if hold.name not in event.names)
    _have_holds(cluster, record, event, kept)


def _have_holds(
    cluster: Cluster, record: JobRecord, event: e.JobHeld | e.JobReleased, holds: tuple[Hold, ...]
) -> None:
    state = job_target(record.state, event)
    if state.is_queued:
        cluster.dequeue(record)
    record.holds = holds
    if state.is_queued:
        cluster.enqueue(record)
