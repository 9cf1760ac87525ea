"""Holds with names: several may be on a job, and it waits until each is released."""

from collections.abc import Collection

from headnode.core.model.errors import BadRequest, NotAllowed, NotFound, Path, WrongState
from headnode.core.model.quantities import Instant, JobId
from headnode.core.model.ranges import Ranges
from headnode.core.model.user import User
from headnode.core.model.value_checks import DEFAULT_HOLD, MAX_HOLDS, PRIVILEGED_HOLDS, check_hold_name
from headnode.core.state import job_events as e
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.command import Command
from headnode.core.state.events import Event
from headnode.core.state.job_record import JobHold, JobRecord, TaskProgress
from headnode.core.state.permissions import may_change
from headnode.core.state.stop import (
    is_requeued,
    open_spans,
    progress_named,
    return_to_queue,
    spans_named,
)
from headnode.core.state.transitions import JobState, job_target


class HoldJob(Command, frozen=True):
    """Put a hold of this name on a job: the job does not start until the hold is released.

    `requeue`: a running job is stopped and goes back to the queue.
    """

    by: User
    job: JobId
    name: str
    message: str = ""
    requeue: bool = False


class ReleaseJob(Command, frozen=True):
    """Release the hold of this name; None: every hold of the job."""

    by: User
    job: JobId
    name: str | None


class HoldTask(Command, frozen=True):
    """Hold one instance of a task; if `instance` is None, all that are queued.

    `requeue`: also those that run, which are stopped and go back to the queue.
    """

    by: User
    job: JobId
    task: int
    instance: int | None = None
    requeue: bool = False


class ReleaseTask(Command, frozen=True):
    """Release the hold of one instance of a task; if `instance` is None, of all of them."""

    by: User
    job: JobId
    task: int
    instance: int | None = None


MAX_MESSAGE = 320  # characters; Compute Cluster's width of a message
_CAN_WAIT = frozenset(
    {JobState.CONFIGURING, JobState.QUEUED, JobState.HANDED, JobState.SUSPENDED, JobState.RESUMING}
)


def hold(cluster: ClusterState, command: HoldJob, now: Instant) -> list[Event]:
    """Keep a job from starting, a suspended one from going on, or let a running one wait again.

    A hold that is there is left as it is.
    """
    record = cluster.job(command.job)
    may_change(command.by, record)
    check_hold_name(command.name)
    _check_message(command.message)
    may_hold(command.by, (command.name,))
    running = command.requeue and record.state is JobState.RUNNING
    if not running and not _can_wait(record):
        raise WrongState(
            code="not-waiting",
            what=f"job {record.id} is {record.state.value}: only queued jobs can be held",
            fix=f"suspend it: hn job suspend {record.id}, or hold it and let it run again: "
            f"hn job hold {record.id} --requeue"
            if record.state is JobState.RUNNING
            else "",
        )
    returning: list[Event] = []
    if running:
        returning = return_to_queue(cluster, record, command.by, f"held by {command.by.name}", now)
    if _found(record, command.name):
        return returning
    if len(record.holds) >= MAX_HOLDS:
        raise WrongState(
            code="too-many-holds",
            what=f"job {record.id} has {len(record.holds)} holds, which is the maximum",
            fix=f"release some first: hn job release {record.id} --name NAME",
        )
    name, by = command.name, command.by.name
    held = e.JobHeld(at=now, job=record.id, name=name, by=by, message=command.message)
    return [*returning, held]


def _can_wait(record: JobRecord) -> bool:
    """Return whether a job waits, or will when its tasks have been stopped."""
    return record.state in _CAN_WAIT or (record.state is JobState.ENDING and is_requeued(record))


def _check_message(message: str) -> None:
    if len(message) > MAX_MESSAGE:
        raise BadRequest(
            code="message",
            what=f"the message has {len(message)} characters",
            fix=f"use at most {MAX_MESSAGE}",
        )


def release(cluster: ClusterState, command: ReleaseJob, now: Instant) -> list[Event]:
    """Release one hold of a job, or all of them; nothing happens where there is none."""
    record = cluster.job(command.job)
    may_change(command.by, record)
    names = _to_release(record, command)
    may_hold(command.by, names)
    if names and not _can_wait(record):
        raise WrongState(
            code="not-waiting",
            what=f"job {record.id} is {record.state.value}, so its holds have no effect",
            fix=f"if it goes back to the queue, release it there: hn job release {record.id}",
        )
    return [e.JobReleased(at=now, job=record.id, names=names, by=command.by.name)] if names else []


def _to_release(record: JobRecord, command: ReleaseJob) -> tuple[str, ...]:
    if command.name is None:
        return tuple(hold.name for hold in record.holds)
    name = _found(record, command.name)
    if name:
        return (name,)
    if record.holds:
        there = ", ".join(repr(hold.name) for hold in record.holds)
        raise NotFound(
            code="no-such-hold",
            what=f"job {record.id} has no hold {command.name!r}",
            fix=f"its holds are {there}",
        )
    return ()


def _found(record: JobRecord, name: str) -> str:
    """Return the name as the hold of a job has it; empty when there is none.  Case does not matter."""
    return next((hold.name for hold in record.holds if hold.name.casefold() == name.casefold()), "")


def may_hold(by: User, names: Collection[str], path: Path = ("name",)) -> None:
    """Allow a hold, unless only operators and administrators may set and release it.

    path: where the request names it

    Raises:  NotAllowed ``hold-privilege``.
    """
    if not names:
        return
    above = sorted(name for name in names if name.casefold() in PRIVILEGED_HOLDS)
    if above and not by.oversees:
        raise NotAllowed(
            code="hold-privilege",
            what=f"only operators and administrators may set and release the hold {above[0]!r}",
            fix=f"use another name, such as {DEFAULT_HOLD!r}, or ask an operator",
            path=path,
        )


def hold_set(cluster: ClusterState, event: e.JobHeld) -> None:
    """Add the hold: the job waits until all its holds are released."""
    record = cluster.job(event.job)
    fresh = JobHold(name=event.name, at=event.at, by=event.by, message=event.message)
    kept = tuple(hold for hold in record.holds if hold.name != event.name)
    _have_holds(cluster, record, event, (*kept, fresh))


def hold_released(cluster: ClusterState, event: e.JobReleased) -> None:
    """These holds keep it no longer."""
    record = cluster.job(event.job)
    kept = tuple(hold for hold in record.holds if hold.name not in event.names)
    _have_holds(cluster, record, event, kept)


def _have_holds(
    cluster: ClusterState, record: JobRecord, event: e.JobHeld | e.JobReleased, holds: tuple[JobHold, ...]
) -> None:
    state = job_target(record.state, event)
    if state.is_queued:
        cluster.dequeue(record)
    record.holds = holds
    if state is JobState.HANDED:
        cluster.agenda.dirty_jobs.add(record.id)
    if state.is_queued:
        cluster.enqueue(record)


def hold_task(cluster: ClusterState, command: HoldTask, now: Instant) -> list[Event]:
    """Keep instances of a task from starting, and stop them if that is requested."""
    from headnode.core.state.rerun import stop_to_requeue  # few instances are held

    record, progress = _task_of(cluster, command)
    if cluster.spec(record).together:
        raise WrongState(
            code="gang",
            what=f"all tasks of job {record.id} start together, so none of them can be held alone",
            fix=f"hold the job: hn job hold {record.id}",
        )
    open_ones = open_spans(progress, command.instance)
    live = [number for number in sorted(progress.live) if command.instance in (None, number)]
    if live and not command.requeue and not open_ones:
        raise WrongState(
            code="not-waiting",
            what=f"task {record.id}.{command.task}.{live[0]} runs: only queued instances can be held",
            fix=f"hold it and let it run again: hn task hold {record.id}.{command.task}.{live[0]} --requeue",
        )
    stopped = live if command.requeue else []
    if not open_ones and not stopped:
        raise WrongState(
            code="not-waiting",
            what=f"no instance of task {record.id}.{command.task} waits that could be held",
            fix=f"see: hn job listtasks {record.id}",
        )
    stops = stop_to_requeue(cluster, record, command.task, stopped, f"held by {command.by.name}", now)
    spans = (*open_ones, *((number, number) for number in stopped))
    held = e.InstancesHeld(at=now, job=record.id, task=command.task, spans=spans, by=command.by.name)
    return [held, *stops]


def release_task(cluster: ClusterState, command: ReleaseTask, now: Instant) -> list[Event]:
    """Release holds of instances; nothing happens where there is none."""
    record, progress = _task_of(cluster, command)
    held = progress.waits.held if progress.waits is not None else Ranges()
    spans = spans_named(held, command.instance)
    if not spans:
        return []
    by = command.by.name
    return [e.InstancesReleased(at=now, job=record.id, task=command.task, spans=spans, by=by)]


def _task_of(cluster: ClusterState, command: HoldTask | ReleaseTask) -> tuple[JobRecord, TaskProgress]:
    """Return the job and the progress of a task whose instances may wait.

    Raises:  WrongState ``job-not-active``, ``special-task``; NotFound; NotAllowed.
    """
    record = cluster.job(command.job)
    may_change(command.by, record)
    progress = progress_named(cluster, record, command.task, command.instance)
    if record.state is not JobState.QUEUED and not record.state.is_active:
        raise WrongState(
            code="job-not-active",
            what=f"job {record.id} is {record.state.value}, so none of its tasks can be held or released",
            fix=f"see: hn job view {record.id}",
        )
    if progress.instances_made is not None:
        raise WrongState(
            code="special-task",
            what=f"task {record.id}.{command.task} makes its instances when they start: none can be held",
            fix=f"hold the job: hn job hold {record.id}",
        )
    return record, progress
