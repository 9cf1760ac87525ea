"""Decide what follows for a job after something of it changed: dispatch, give back, end, or go back.

Source: CCS, "Task execution"; HPC Pack, growth, shrinkage and JobRetryCount.
"""

from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.allocating import surplus
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.deciding_stops import cancel_queued, tasks_of
from headnode.core.lifecycle.deciding_suspension import stand_still
from headnode.core.lifecycle.deciding_waits import in_vain
from headnode.core.lifecycle.dispatching import dispatches
from headnode.core.lifecycle.events import Event
from headnode.core.lifecycle.records import JobRecord, Run
from headnode.core.lifecycle.states import JobState
from headnode.core.model.quantities import Instant

MOST_RETURNS = 3  # to the queue because nodes were lost; HPC Pack JobRetryCount


def attend(cluster: Cluster, command: c.Attend, now: Instant) -> list[Event]:
    """Dispatch what can be, give back what is not needed, end what is over."""
    record = cluster.jobs.get(command.job)
    if record is not None and record.state is JobState.QUEUED:
        return _skip_if_in_vain(cluster, record, now)
    if record is None or record.run is None:
        return []
    if record.state is JobState.ENDING:
        return _end_if_still(record, record.run, now)
    if not record.state.is_active:
        return []
    flow = cluster.flow(record.id)
    stopped = record.run.outcome is not None
    if flow.open == 0 and not flow.spec.run_until_canceled and (not stopped or record.run.requeue):
        return [_over(record, record.run, now)]
    if stopped and not flow.lanes:
        return _leave_allocation(record, record.run, now)
    if record.state is not JobState.RUNNING:
        return stand_still(record, now)
    placed = dispatches(cluster, record, now) if flow.ready and not stopped else []
    return list(placed) or list(surplus(cluster, record, now))


def _skip_if_in_vain(cluster: Cluster, record: JobRecord, now: Instant) -> list[Event]:
    """End a job that waits for what can never happen any more."""
    skipped = in_vain(cluster, record, now)
    canceled = cancel_queued(record, tasks_of(cluster, record), now, skipped[0].message) if skipped else []
    return [*canceled, *skipped]


def _end_if_still(record: JobRecord, run: Run, now: Instant) -> list[Event]:
    if any(progress.live for progress in run.tasks):
        return []
    if run.requeue:
        return [e.JobRequeued(at=now, job=record.id, message=record.message)]
    return [e.JobEnded(at=now, job=record.id, outcome=run.outcome or "canceled", message=record.message)]


def _leave_allocation(record: JobRecord, run: Run, now: Instant) -> list[Event]:
    """Nothing of a job that starts nothing new runs any more: it ends, or goes back to the queue."""
    if not run.requeue:
        outcome = run.outcome or "canceled"
        return [e.JobEnded(at=now, job=record.id, outcome=outcome, message=record.message)]
    if run.returns < MOST_RETURNS:
        return [e.JobReturned(at=now, job=record.id, message=record.message)]
    message = f"{record.message}, after {run.returns} returns to the queue"
    return [
        *cancel_queued(record, run.tasks, now, message),
        e.JobEnded(at=now, job=record.id, outcome="failed", message=message),
    ]


def _over(record: JobRecord, run: Run, now: Instant) -> e.JobEnded:
    failed = [index + 1 for index, progress in enumerate(run.tasks) if progress.failed]
    if not failed:
        return e.JobEnded(at=now, job=record.id, outcome="finished")
    named = ", ".join(map(str, failed[:5])) + (" and others" if len(failed) > 5 else "")
    return e.JobEnded(
        at=now,
        job=record.id,
        outcome="failed",
        message=f"task{'s' if len(failed) > 1 else ''} {named} failed",
    )
