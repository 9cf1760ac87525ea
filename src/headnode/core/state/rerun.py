"""Instances of tasks that run again at request, while the rest of their job goes on.

Source:  Slurm, scontrol(1), requeue and requeuehold of an element of an array.
"""

from collections.abc import Sequence

from headnode.core.model.errors import WrongState
from headnode.core.model.quantities import Instant
from headnode.core.model.task import SPECIAL, TaskSpec
from headnode.core.state import job_events as e
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.events import Event
from headnode.core.state.job_record import JobRecord, started_run
from headnode.core.state.permissions import may_change
from headnode.core.state.stop import RequeueTask, progress_named, spans_named
from headnode.core.state.transitions import JobState


def requeue_task(cluster: ClusterState, command: RequeueTask, now: Instant) -> list[Event]:
    """Run an instance that is over or runs once more, or all that failed or were canceled."""
    record = cluster.job(command.job)
    may_change(command.by, record)
    progress = progress_named(cluster, record, command.task, command.instance)
    task = cluster.spec(record).tasks[command.task - 1]
    alive = record.state is JobState.QUEUED or record.state.is_active
    if not alive or (record.run and record.run.end):
        raise WrongState(
            code="job-not-active",
            what=f"job {record.id} is {record.state.value}, so none of its tasks can be requeued",
            fix=way_to_run_again(record),
        )
    if task.kind in SPECIAL:
        raise WrongState(
            code="special-task",
            what=f"task {record.id}.{command.task} is a {task.kind.value} task: no instance runs twice",
            fix=f"run the whole job again: hn job requeue {record.id}",
        )
    _refuse_rerun(record, task, command.task)
    if command.instance in progress.live:
        why = f"requeued by {command.by.name}"
        return stop_to_requeue(cluster, record, command.task, [command.instance], why, now)
    over = [progress.failed, progress.canceled] + ([progress.finished] if command.instance else [])
    spans = tuple(span for numbers in over for span in spans_named(numbers, command.instance))
    if not spans:
        raise WrongState(
            code="not-over",
            what=f"no instance of task {record.id}.{command.task} has failed or was canceled",
            fix="only instances that have ended can be requeued, or one that runs if you name it",
        )
    return [e.InstancesRequeued(at=now, job=record.id, task=command.task, spans=spans, by=command.by.name)]


def way_to_run_again(record: JobRecord) -> str:
    """Return what to type so that a job that is not in the queue and does not run is run."""
    if record.state is JobState.CONFIGURING:
        return f"submit the job: hn job submit /id:{record.id}"
    if record.state is JobState.FINISHED:
        return f"make a copy of the job, and submit that: hn job clone {record.id}"
    return f"requeue the job: hn job requeue {record.id}"


def _refuse_rerun(record: JobRecord, task: TaskSpec, number: int) -> None:
    if not task.rerunnable:
        raise WrongState(
            code="not-rerunnable",
            what=f"task {record.id}.{number} is not rerunnable",
            fix="only tasks marked with /rerunnable run twice",
        )


def stop_to_requeue(
    cluster: ClusterState,
    record: JobRecord,
    number: int,
    instances: Sequence[int],
    message: str,
    now: Instant,
) -> list[Event]:
    """Return the events that stop live instances of a task, which run again when they have ended.

    Raises:  WrongState ``not-rerunnable``; ``job-not-active`` when the job is to end.
    """
    if not instances:
        return []
    _refuse_rerun(record, cluster.spec(record).tasks[number - 1], number)
    run = started_run(record)
    if run.end is not None and not run.end.requeue:
        raise WrongState(
            code="job-not-active",
            what=f"job {record.id} is to end when what runs of it has ended",
            fix=f"requeue the job then: hn job requeue {record.id}",
        )
    live = run.tasks[number - 1].live
    fresh = tuple(instance for instance in instances if not live[instance].requeue)
    if not fresh:
        return []
    return [
        e.InstancesStopping(
            at=now,
            job=record.id,
            task=number,
            instances=fresh,
            outcome="failed",
            message=message,
            requeue=True,
        )
    ]
