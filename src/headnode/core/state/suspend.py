"""Suspending jobs and resuming them."""

from headnode.core.model.errors import WrongState
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.model.user import User
from headnode.core.state import job_events as e
from headnode.core.state import staging
from headnode.core.state import suspension_events as sj
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.command import Command
from headnode.core.state.events import Event
from headnode.core.state.job_record import (
    JobRecord,
    JobRun,
    JobSuspension,
    end_suspension,
    started_run,
)
from headnode.core.state.job_request import moved_place, renumbered, set_limits, suspension_of
from headnode.core.state.permissions import may_change
from headnode.core.state.transitions import SUSPENDED_STATES, JobState, TaskState, job_target


class SuspendJob(Command, frozen=True):
    """Suspend a running job: stop its processes and release its resources."""

    by: User
    job: JobId


class ResumeJob(Command, frozen=True):
    """Resume a suspended job as soon as its resources are free."""

    by: User
    job: JobId


class ReportSuspended(Command, frozen=True):
    """Node: all processes of the job there are stopped, for the suspension with this number."""

    node: str
    job: JobId
    number: int


def suspend(cluster: ClusterState, command: SuspendJob, now: Instant) -> list[Event]:
    """Suspend a running job.  A resuming job no longer waits; a suspended job stays suspended."""
    record = cluster.job(command.job)
    may_change(command.by, record)
    if record.state in SUSPENDED_STATES and suspension_of(record.run).staging:
        _may_be_kept_from_start(cluster, record)
    if record.state in (JobState.SUSPENDING, JobState.SUSPENDED):
        return []
    if record.state is JobState.RESUMING:
        return [sj.JobSuspended(at=now, job=record.id, by=command.by.name)]
    if record.is_elsewhere and record.state.is_active:
        raise WrongState(
            code="elsewhere",
            what=f"job {record.id} is at a resource, which decides when it runs",
            fix=f"hold it before it starts, cancel it, or requeue it: hn job requeue {record.id}",
        )
    if record.state is not JobState.RUNNING or record.run is None:
        raise WrongState(
            code="not-running",
            what=f"job {record.id} is {record.state.value}: only a running job can be suspended",
            fix=f"hold it instead: hn job hold {record.id}"
            if record.state in (JobState.CONFIGURING, JobState.QUEUED)
            else "",
        )
    if record.run.detached:
        raise WrongState(
            code="only-transfers",
            what=f"only transfers of job {record.id} are left, and they hold no processors",
            fix=f"wait for their end: hn job wait {record.id}",
        )
    _must_be_suspendable(cluster, record)
    return [sj.JobSuspending(at=now, job=record.id, number=record.run.suspensions + 1, by=command.by.name)]


def _must_be_suspendable(cluster: ClusterState, record: JobRecord) -> None:
    if not cluster.spec(record).suspendable:
        raise WrongState(
            code="not-suspendable",
            what=f"job {record.id} is not suspendable",
            fix=f"hn job modify {record.id} /suspendable:true, or submit it with /suspendable",
        )


def _may_be_kept_from_start(cluster: ClusterState, record: JobRecord) -> None:
    """Refuse to suspend a job whose files still come: nothing of it runs that could stand still."""
    _must_be_suspendable(cluster, record)
    if record.state is not JobState.RESUMING:
        raise WrongState(
            code="staging-in",
            what=f"the input files of job {record.id} are being copied, and it holds no processors",
            fix=f"hold it, so that it does not continue when they have arrived: hn job hold {record.id}",
        )


def processes_reported_stopped(cluster: ClusterState, command: ReportSuspended, now: Instant) -> list[Event]:
    """Record that all processes of a job on a node are stopped; old and repeated reports have no effect."""
    record = cluster.jobs.get(command.job)
    if record is None or record.state is not JobState.SUSPENDING:
        return []
    suspension = suspension_of(record.run)
    if suspension.number != command.number or command.node not in suspension.pending_nodes:
        return []
    return [sj.ProcessesStopped(at=now, job=record.id, node=command.node)]


def suspended_if_stopped(record: JobRecord, now: Instant) -> list[Event]:
    """Return what follows for a job whose processes are being stopped: nothing until all nodes said so.

    What is being ended does not stand still: until it is over it has its grace, on processors of its own.
    """
    run = record.run
    if record.state is not JobState.SUSPENDING or run is None or suspension_of(run).pending_nodes:
        return []
    if any(live.state is TaskState.ENDING for progress in run.tasks for live in progress.live.values()):
        return []
    return [sj.JobSuspended(at=now, job=record.id, staging=suspension_of(run).staging)]


def resume(cluster: ClusterState, command: ResumeJob, now: Instant) -> list[Event]:
    """Queue a suspended job at its old position, for the processors that it held."""
    record = cluster.job(command.job)
    may_change(command.by, record)
    if record.state in (JobState.RUNNING, JobState.RESUMING):
        return []
    if record.state in SUSPENDED_STATES and suspension_of(record.run).staging:
        return []  # it resumes when its files are there
    if record.state is JobState.SUSPENDING and record.run is not None:
        place = tuple(record.run.allocation.items())
        return [sj.JobResumed(at=now, job=record.id, allocation=place, by=command.by.name)]
    if record.state is not JobState.SUSPENDED:
        raise WrongState(
            code="not-suspended",
            what=f"job {record.id} is {record.state.value}: only a suspended job can be resumed",
            fix=f"release its holds instead: hn job release {record.id} --all" if record.holds else "",
        )
    return [sj.JobResuming(at=now, job=record.id, by=command.by.name)]


def suspending(cluster: ClusterState, event: sj.JobSuspending) -> None:
    """Record that the nodes of the job stop its processes."""
    record = cluster.job(event.job)
    state = job_target(record.state, event)
    run = started_run(record)
    run.suspensions = event.number
    pending = tuple(run.allocation)
    run.suspension = JobSuspension(event.number, event.at, pending, staging=event.staging)
    cluster.agenda.dirty_job_views.add(record.id)
    cluster.move(record, state)


def processes_stopped(cluster: ClusterState, event: sj.ProcessesStopped) -> None:
    """One of its nodes has stopped everything."""
    record = cluster.job(event.job)
    job_target(record.state, event)
    suspension = suspension_of(record.run)
    suspension.pending_nodes = tuple(node for node in suspension.pending_nodes if node != event.node)
    cluster.agenda.dirty_jobs.add(record.id)


def suspended(cluster: ClusterState, event: sj.JobSuspended) -> None:
    """The job is stopped and releases its resources; a job that was resuming no longer waits."""
    record = cluster.job(event.job)
    state = job_target(record.state, event)
    if record.state is JobState.RESUMING:
        cluster.dequeue(record)
        _keep_suspended(started_run(record), event.at)
        cluster.move(record, state)
        return
    run = started_run(record)
    suspension = suspension_of(run)
    suspension.since, suspension.pending_nodes = event.at, ()
    suspension.allocation = dict(run.allocation)
    set_limits(run, cluster.spec(record))
    cluster.move(record, state)
    cluster.release_allocation(record)
    cluster.open_detached(record)


def resuming(cluster: ClusterState, event: sj.JobResuming) -> None:
    """The job waits for the processors that it held."""
    record = cluster.job(event.job)
    cluster.move(record, job_target(record.state, event))
    cluster.enqueue(record)


def resumed(cluster: ClusterState, event: sj.JobResumed) -> None:
    """Resume the job, perhaps on other processors of its nodes, or before all its processes were stopped."""
    record = cluster.job(event.job)
    state = job_target(record.state, event)
    run = started_run(record)
    if record.state is JobState.SUSPENDING:
        run.suspension = None
        staging.go_on(cluster, record, run, event.at)
        cluster.agenda.dirty_job_views.add(record.id)
        cluster.move(record, state)
        return
    cluster.dequeue(record)
    spec, allocation = cluster.spec(record), dict(event.allocation)
    _move_in(run, suspension_of(run), allocation)
    run.allocation = allocation
    end_suspension(run, event.at)
    staging.go_on(cluster, record, run, event.at)
    set_limits(run, spec)
    cluster.move(record, state)
    cluster.detached.discard(record.id)
    cluster.open_run(record)


def _move_in(run: JobRun, suspension: JobSuspension, allocation: dict[str, tuple[int, ...]]) -> None:
    """Give live instances, and the parts of a gang, the processors that take the place of those they had."""
    if allocation == suspension.allocation:
        return
    to = renumbered(suspension.allocation, allocation)
    for progress in run.tasks:
        for live in progress.live.values():
            place = moved_place(live.placement, to)
            live.moved = live.moved or place != live.placement
            live.placement = place
    run.parts = tuple(moved_place(part, to) for part in run.parts)


def detached_node_lost(
    cluster: ClusterState, record: JobRecord, run: JobRun, event: e.AllocationLost
) -> None:
    """Processors of a detached job's nodes are gone; a suspended one waits only for those it has left."""
    waiting = record.state is JobState.RESUMING
    if waiting:
        cluster.dequeue(record)
    places = run.places
    for node, numbers in event.removed:
        left = tuple(number for number in places[node] if number not in numbers)
        if left:
            places[node] = left
        else:
            del places[node]
            run.holdings.pop(node, None)
        cluster.agenda.dirty_node_views.add(node)
    if waiting:
        cluster.enqueue(record)
    cluster.agenda.dirty_jobs.add(record.id)


def _keep_suspended(run: JobRun, at: Instant) -> None:
    """Let a job that waits for processors for its files be suspended from now on by request."""
    suspension = run.suspension
    if suspension is None or not suspension.staging:
        return
    if run.staged_since is not None:
        run.staged_time = Seconds(run.staged_time + max(0.0, at - run.staged_since))
        run.staged_since = at
    suspension.staging, suspension.since = False, at
