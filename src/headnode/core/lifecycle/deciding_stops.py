"""Decide about stopping: cancel, finish, run time limits, single tasks; and about running tasks again.

Source: HPC Pack success, failure, cancel, finish and requeue: a running task that is canceled ends failed, a
queued one canceled; finishing a job fails nothing.
"""

from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.deadlines import shortest
from headnode.core.lifecycle.deciding_jobs import stop_live
from headnode.core.lifecycle.events import Event, Outcome
from headnode.core.lifecycle.flow import Flow
from headnode.core.lifecycle.permission import may_change
from headnode.core.lifecycle.records import JobRecord, TaskProgress, untouched
from headnode.core.lifecycle.states import JobState
from headnode.core.model.errors import BadRequest, NotFound, WrongState
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Instant
from headnode.core.model.ranges import Ranges
from headnode.core.model.task import PREPARING, SPECIAL
from headnode.core.model.time_limits import format_time_limit

LONGEST_MESSAGE = 320  # characters; Compute Cluster's width of a message


def stop_job(cluster: Cluster, command: c.StopJob, now: Instant) -> list[Event]:
    """Cancel or finish a job, wherever it is in its life."""
    record = cluster.job(command.job)
    may_change(command.by, record)
    if len(command.message) > LONGEST_MESSAGE:
        raise BadRequest(
            code="message",
            what=f"the message has {len(command.message)} characters",
            fix=f"use at most {LONGEST_MESSAGE}",
        )
    word = "canceled" if command.outcome == "canceled" else "finished"
    message = command.message or f"{word} by {command.by.name}"
    if command.outcome == "finished" and record.state in (JobState.CONFIGURING, JobState.VALIDATING):
        raise WrongState(
            code="not-finishable",
            what=f"job {record.id} was not submitted: only queued and running jobs can be finished",
            fix=f"cancel it: hn job cancel {record.id}",
        )
    if record.state in (JobState.CONFIGURING, JobState.VALIDATING, JobState.QUEUED):
        return [
            *cancel_queued(record, tasks_of(cluster, record), now, message),
            e.JobEnded(at=now, job=record.id, outcome=command.outcome, message=message),
        ]
    if command.graceful and record.state.is_active and not command.force:
        return _stop_gracefully(record, command, message, now)
    return _stop_running(cluster, record, command, message, now)


def tasks_of(cluster: Cluster, record: JobRecord) -> list[TaskProgress]:
    """Return the progress of a job's tasks; all queued when nothing of the job was touched."""
    if record.run is not None:
        return record.run.tasks
    return untouched(cluster.spec(record))


def cancel_queued(record: JobRecord, tasks: list[TaskProgress], now: Instant, message: str) -> list[Event]:
    """Return the events that cancel every queued instance."""
    return [
        e.TaskCanceled(
            at=now, job=record.id, task=index + 1, spans=tuple(progress.queued.spans()), message=message
        )
        for index, progress in enumerate(tasks)
        if progress.queued
    ]


def _stop_gracefully(record: JobRecord, command: c.StopJob, message: str, now: Instant) -> list[Event]:
    stopped = e.DispatchStopped(
        at=now, job=record.id, outcome=command.outcome, message=message, by=command.by.name
    )
    tasks = record.run.tasks if record.run else []
    return [stopped, *cancel_queued(record, tasks, now, message)]


def _stop_running(
    cluster: Cluster, record: JobRecord, command: c.StopJob, message: str, now: Instant
) -> list[Event]:
    requeued = record.run is not None and record.run.requeue
    if record.state is JobState.ENDING and not command.force and not requeued:
        return []
    ending = e.JobEnding(
        at=now,
        job=record.id,
        outcome=command.outcome,
        message=message,
        by=command.by.name,
        force=command.force,
    )
    why = (
        "the task's job has been canceled" if command.outcome == "canceled" else "the task's job was finished"
    )
    outcome: Outcome = "failed" if command.outcome == "canceled" else "finished"
    tasks = record.run.tasks if record.run else []
    return [
        ending,
        *cancel_queued(record, tasks, now, message),
        *stop_live(record, cluster.flow(record.id), outcome, why, now, command.force),
    ]


def fail_job(record: JobRecord, flow: Flow, message: str, now: Instant) -> list[Event]:
    """Return the events that stop a running job because a task of it failed."""
    return [
        e.JobEnding(at=now, job=record.id, outcome="failed", message=message),
        *cancel_queued(record, flow.run.tasks, now, message),
        *stop_live(record, flow, "canceled", message, now),
    ]


def end_overdue(cluster: Cluster, command: c.EndOverdue, now: Instant) -> list[Event]:
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
        *cancel_queued(record, record.run.tasks, now, message),
        *stop_live(record, cluster.flow(record.id), "failed", why, now),
    ]


def end_late(cluster: Cluster, command: c.EndLate, now: Instant) -> list[Event]:
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
        *cancel_queued(record, tasks_of(cluster, record), now, message),
        e.JobEnded(at=now, job=record.id, outcome="failed", message=message),
    ]


def stop_task(cluster: Cluster, command: c.StopTask, now: Instant) -> list[Event]:
    """Cancel or finish one instance of a task, or all of them; what has not started is canceled."""
    record = cluster.job(command.job)
    may_change(command.by, record)
    progress = _progress(cluster, record, command.task, command.instance)
    if record.state is JobState.ENDING and record.run is not None and record.run.requeue:
        raise WrongState(
            code="requeueing",
            what=f"job {record.id} is being requeued with all its tasks",
            fix="cancel the task once the job is queued, or cancel the job",
        )
    spans = _only(progress.queued, command.instance)
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
            e.TaskCanceled(
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


def _progress(cluster: Cluster, record: JobRecord, task: int, instance: int | None) -> TaskProgress:
    tasks = tasks_of(cluster, record)
    if not 1 <= task <= len(tasks):
        raise NotFound(
            code="no-such-task",
            what=f"job {record.id} has no task {task}",
            fix=f"it has tasks 1 to {len(tasks)}" if tasks else "it has no tasks",
        )
    made = tasks[task - 1].made
    count = cluster.spec(record).tasks[task - 1].instances if made is None else made
    if instance is not None and not 1 <= instance <= count:
        raise NotFound(
            code="no-such-instance",
            what=f"task {record.id}.{task} has no sub-task {instance}",
            fix=f"it has sub-tasks 1 to {count}" if count else "it has none yet",
        )
    return tasks[task - 1]


def _only(numbers: Ranges, instance: int | None) -> tuple[tuple[int, int], ...]:
    if instance is None:
        return tuple(numbers.spans())
    return ((instance, instance),) if instance in numbers else ()


def requeue_task(cluster: Cluster, command: c.RequeueTask, now: Instant) -> list[Event]:
    """Run an instance that is over once more, or all that failed or were canceled."""
    record = cluster.job(command.job)
    may_change(command.by, record)
    progress = _progress(cluster, record, command.task, command.instance)
    task = cluster.spec(record).tasks[command.task - 1]
    alive = record.state is JobState.QUEUED or record.state.is_active
    if not alive or (record.run and record.run.outcome):
        raise WrongState(
            code="job-not-active",
            what=f"job {record.id} is {record.state.value}, so none of its tasks can be requeued",
            fix=f"requeue the job: hn job requeue {record.id}",
        )
    if task.kind in SPECIAL:
        raise WrongState(
            code="special-task",
            what=f"task {record.id}.{command.task} is a {task.kind.value} task: no instance runs twice",
            fix=f"run the whole job again: hn job requeue {record.id}",
        )
    if not task.rerunnable:
        raise WrongState(
            code="not-rerunnable",
            what=f"task {record.id}.{command.task} is not rerunnable",
            fix="only tasks marked with /rerunnable run twice",
        )
    over = [progress.failed, progress.canceled] + ([progress.finished] if command.instance else [])
    spans = tuple(span for numbers in over for span in _only(numbers, command.instance))
    if not spans:
        raise WrongState(
            code="not-over",
            what=f"no instance of task {record.id}.{command.task} has failed or was canceled",
            fix="only ended instances can be requeued",
        )
    return [e.TaskRequeued(at=now, job=record.id, task=command.task, spans=spans, by=command.by.name)]
