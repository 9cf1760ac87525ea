"""Stopping jobs and tasks: cancel, finish, run time limits, deadlines."""

from typing import Literal

from headnode.core.model.errors import BadRequest, NotFound, WrongState
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Instant, JobId, format_time_limit
from headnode.core.model.ranges import Ranges
from headnode.core.model.task import PREPARING, SPECIAL
from headnode.core.model.user import User
from headnode.core.state import job_events as e
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.command import Command
from headnode.core.state.events import Event
from headnode.core.state.job_events import Outcome
from headnode.core.state.job_record import JobRecord, TaskProgress, untouched
from headnode.core.state.job_request import check_end_by, shortest
from headnode.core.state.permissions import may_change
from headnode.core.state.task_graph import TaskGraph
from headnode.core.state.transitions import JobState


class StopJob(Command, frozen=True):
    """Cancel or finish a job, or let it fail.

    force: kill without grace.  graceful: start nothing new and let what runs end by itself.
    """

    by: User
    job: JobId
    outcome: Outcome
    message: str = ""
    force: bool = False
    graceful: bool = False


class EndOverdue(Command, frozen=True):
    """Engine: end the job if its run time limit is over."""

    job: JobId


class EndLate(Command, frozen=True):
    """Engine: end the queued job if it can no longer end by its deadline."""

    job: JobId


class StopTask(Command, frozen=True):
    """Stop one instance of a task; if `instance` is None, all that are not over.

    `outcome` is the outcome of running instances: finished if the task is finished, failed if it is canceled.
    """

    by: User
    job: JobId
    task: int
    instance: int | None = None
    message: str = ""
    force: bool = False
    outcome: Literal["failed", "finished"] = "failed"


class RequeueTask(Command, frozen=True):
    """Requeue one instance of a task, also one that runs; if None, all that failed or were canceled."""

    by: User
    job: JobId
    task: int
    instance: int | None = None


def stop_live(
    record: JobRecord, graph: TaskGraph, outcome: e.Outcome, message: str, now: Instant, force: bool = False
) -> list[Event]:
    """Return the events that stop whatever of the job is live; only `force` stops releases of its nodes."""
    return [
        e.InstancesStopping(
            at=now,
            job=record.id,
            task=index + 1,
            instances=tuple(sorted(progress.live)),
            outcome=outcome,
            message=message,
            force=force,
        )
        for index, progress in enumerate(graph.run.tasks)
        if progress.live and (force or index != graph.release)
    ]


MAX_MESSAGE = 320  # characters; Compute Cluster's width of a message


def stop_job(cluster: ClusterState, command: StopJob, now: Instant) -> list[Event]:
    """Cancel or finish a job, wherever it is in its life."""
    record = cluster.job(command.job)
    may_change(command.by, record)
    if len(command.message) > MAX_MESSAGE:
        raise BadRequest(
            code="message",
            what=f"the message has {len(command.message)} characters",
            fix=f"use at most {MAX_MESSAGE}",
        )
    message = command.message or f"{command.outcome} by {command.by.name}"
    if command.outcome == "finished" and record.state in (JobState.CONFIGURING, JobState.VALIDATING):
        raise WrongState(
            code="not-finishable",
            what=f"job {record.id} was not submitted: only queued and running jobs can be finished",
            fix=f"cancel it: hn job cancel {record.id}",
        )
    if record.state in (JobState.CONFIGURING, JobState.VALIDATING, JobState.QUEUED):
        return [
            *cancel_queued(record, now, message),
            e.JobEnded(at=now, job=record.id, outcome=command.outcome, message=message),
        ]
    if command.graceful and record.state.is_active and not command.force:
        return _stop_gracefully(record, command, message, now)
    return _stop_running(cluster, record, command, message, now)


def tasks_of(cluster: ClusterState, record: JobRecord) -> list[TaskProgress]:
    """Return the progress of a job's tasks; all queued when nothing of the job was touched."""
    if record.run is not None:
        return record.run.tasks
    return untouched(cluster.spec(record))


def cancel_queued(record: JobRecord, now: Instant, message: str) -> list[Event]:
    """Return the event that cancels every queued instance, however many there are; none if none is queued.

    A job of which nothing was ever dispatched or changed must end with it.
    """
    if record.run is None:
        return [e.TasksCanceled(at=now, job=record.id, message=message)]
    queued = tuple(
        (index + 1, (*progress.queued.spans(), *progress.blocked.spans()))
        for index, progress in enumerate(record.run.tasks)
        if progress.queued or (progress.waits is not None and progress.blocked)
    )
    return [e.TasksCanceled(at=now, job=record.id, tasks=queued, message=message)] if queued else []


def _stop_gracefully(record: JobRecord, command: StopJob, message: str, now: Instant) -> list[Event]:
    stopped = e.DispatchStopped(
        at=now, job=record.id, outcome=command.outcome, message=message, by=command.by.name
    )
    return [stopped, *cancel_queued(record, now, message)]


def return_to_queue(
    cluster: ClusterState, record: JobRecord, by: User, message: str, now: Instant
) -> list[Event]:
    """Stop the tasks of a running job; it waits again when they have ended.

    Raises:  WrongState ``not-rerunnable``.
    """
    spec, graph = cluster.spec(record), cluster.graph(record.id)
    tasks = [] if record.run is None else record.run.tasks
    refuse_rerun(record, spec, [i for i, p in enumerate(tasks) if p.live or p.failed])
    check_end_by(cluster.written(record), now)
    ending = e.JobEnding(at=now, job=record.id, outcome="canceled", message=message, by=by.name, requeue=True)
    return [ending, *stop_live(record, graph, "canceled", "the job was requeued", now)]


def refuse_rerun(record: JobRecord, spec: JobSpec, indexes: list[int]) -> None:
    """Refuse to run tasks again that may not run twice.

    Raises:  WrongState ``not-rerunnable``.
    """
    tasks = [(i, spec.tasks[i]) for i in indexes]
    fixed = [str(i + 1) for i, task in tasks if not task.rerunnable and task.kind not in SPECIAL]
    if fixed:
        raise WrongState(
            code="not-rerunnable",
            what=f"job {record.id} cannot be requeued: its tasks {', '.join(fixed[:10])} are not rerunnable",
            fix="mark tasks that may run twice with /rerunnable, or submit a copy with `hn job clone`",
        )


def is_requeued(record: JobRecord) -> bool:
    """Whether a job that is ending goes back to the queue."""
    return record.run is not None and record.run.end is not None and record.run.end.requeue


def _stop_running(
    cluster: ClusterState, record: JobRecord, command: StopJob, message: str, now: Instant
) -> list[Event]:
    if record.state is JobState.ENDING and not command.force and not is_requeued(record):
        return []
    ending = e.JobEnding(
        at=now,
        job=record.id,
        outcome=command.outcome,
        message=message,
        by=command.by.name,
        force=command.force,
    )
    why = {
        "canceled": "the task's job has been canceled",
        "failed": "the task's job has failed",
        "finished": "the task's job was finished",
    }[command.outcome]
    outcome: Outcome = "finished" if command.outcome == "finished" else "failed"
    return [
        ending,
        *cancel_queued(record, now, message),
        *stop_live(record, cluster.graph(record.id), outcome, why, now, command.force),
    ]


def fail_job(record: JobRecord, graph: TaskGraph, message: str, now: Instant) -> list[Event]:
    """Return the events that stop a running job because a task of it failed."""
    return [
        e.JobEnding(at=now, job=record.id, outcome="failed", message=message),
        *cancel_queued(record, now, message),
        *stop_live(record, graph, "canceled", message, now),
    ]


def end_overdue(cluster: ClusterState, command: EndOverdue, now: Instant) -> list[Event]:
    """Cancel a job whose run time limit is over, or its deadline."""
    record = cluster.jobs.get(command.job)
    if record is None or record.run is None or not record.state.is_active:
        return []
    deadline = record.run.deadline
    if deadline is None or now < deadline:
        return []
    late = deadline == cluster.spec(record).end_by
    message = "its deadline has passed" if late else "run time expired"
    why = "the job's deadline has passed" if late else "the job's run time expired"
    return [
        e.JobEnding(at=now, job=record.id, outcome="canceled", message=message),
        *cancel_queued(record, now, message),
        *stop_live(record, cluster.graph(record.id), "failed", why, now),
    ]


def end_late(cluster: ClusterState, command: EndLate, now: Instant) -> list[Event]:
    """Fail a queued job that can no longer end by its deadline."""
    record = cluster.jobs.get(command.job)
    if record is None or record.state is not JobState.QUEUED or record.last_start is None:
        return []
    if now <= record.last_start:
        return []
    limit = shortest(cluster.written(record))
    message = (
        f"it can no longer end by its deadline: its run time limit is {format_time_limit(limit)}"
        if limit
        else "its deadline has passed, and it has not started"
    )
    return [
        *cancel_queued(record, now, message),
        e.JobEnded(at=now, job=record.id, outcome="failed", message=message),
    ]


def stop_task(cluster: ClusterState, command: StopTask, now: Instant) -> list[Event]:
    """Cancel or finish one instance of a task, or all of them; what has not started is canceled."""
    record = cluster.job(command.job)
    may_change(command.by, record)
    progress = progress_named(cluster, record, command.task, command.instance)
    if record.state is JobState.ENDING and is_requeued(record):
        raise WrongState(
            code="requeueing",
            what=f"job {record.id} is being requeued with all its tasks",
            fix="cancel the task once the job is queued, or cancel the job",
        )
    spans = open_spans(progress, command.instance)
    live = [n for n in sorted(progress.live) if command.instance in (None, n)]
    if command.instance is None:
        _refuse_whole(cluster.spec(record), record, command.task)
    if not spans and not live and not (progress.endless and command.instance is None):
        return []
    word = "finished" if command.outcome == "finished" else "canceled"
    message = command.message or f"{word} by {command.by.name}"
    events: list[Event] = []
    if spans or (progress.endless and command.instance is None):
        events.append(
            e.InstancesCanceled(
                at=now, job=record.id, task=command.task, spans=spans, message=message, withdrawn=True
            )
        )
    if live:
        events.append(
            e.InstancesStopping(
                at=now,
                job=record.id,
                task=command.task,
                instances=tuple(live),
                outcome=command.outcome,
                message=message,
                force=command.force,
            )
        )
    return events


def _refuse_whole(spec: JobSpec, record: JobRecord, task: int) -> None:
    """A job cannot do without preparing or releasing the nodes that it is yet to have."""
    kind = spec.tasks[task - 1].kind
    if kind in PREPARING:
        raise WrongState(
            code="special-task",
            what=f"task {record.id}.{task} is a {kind.value} task, which runs once on each node of the job",
            fix=f"cancel one of its sub-tasks, such as {record.id}.{task}.1, or the job",
        )


def progress_named(cluster: ClusterState, record: JobRecord, task: int, instance: int | None) -> TaskProgress:
    """Return the progress of a task by its number.

    Raises:  NotFound ``no-such-task``, or ``no-such-instance`` for one that it does not have.
    """
    tasks = tasks_of(cluster, record)
    if not 1 <= task <= len(tasks):
        raise NotFound(
            code="no-such-task",
            what=f"job {record.id} has no task {task}",
            fix=f"it has tasks 1 to {len(tasks)}" if tasks else "it has no tasks",
        )
    made = tasks[task - 1].instances_made
    count = cluster.spec(record).tasks[task - 1].instances if made is None else made
    if instance is not None and not 1 <= instance <= count:
        raise NotFound(
            code="no-such-instance",
            what=f"task {record.id}.{task} has no sub-task {instance}",
            fix=f"it has sub-tasks 1 to {count}" if count else "it has none yet",
        )
    return tasks[task - 1]


def open_spans(progress: TaskProgress, instance: int | None) -> tuple[tuple[int, int], ...]:
    """Return the instances that were not dispatched, queued or blocked: all, or only this one if it is."""
    return (*spans_named(progress.queued, instance), *spans_named(progress.blocked, instance))


def spans_named(numbers: Ranges, instance: int | None) -> tuple[tuple[int, int], ...]:
    """Return all of these numbers, or only this one if it is one of them."""
    if instance is None:
        return tuple(numbers.spans())
    return ((instance, instance),) if instance in numbers else ()
