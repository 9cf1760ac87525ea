"""Decide what follows for a job after something of it changed: dispatch, give back, end, or go back.

Source: CCS, "Task execution"; HPC Pack, growth, shrinkage and JobRetryCount.
"""

from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.allocating import surplus
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.deciding_jobs import stop_live
from headnode.core.lifecycle.deciding_preemption import give_up
from headnode.core.lifecycle.deciding_stops import cancel_queued, tasks_of
from headnode.core.lifecycle.deciding_suspension import stand_still
from headnode.core.lifecycle.deciding_vacating import leaves
from headnode.core.lifecycle.deciding_waits import in_vain
from headnode.core.lifecycle.dispatching import dispatches
from headnode.core.lifecycle.events import Event
from headnode.core.lifecycle.failed_prologs import goes_back
from headnode.core.lifecycle.flow import Flow
from headnode.core.lifecycle.hook_settings import cleans_nodes
from headnode.core.lifecycle.hooks import cleaned_first, overdue, see_off
from headnode.core.lifecycle.records import JobRecord, Run
from headnode.core.lifecycle.retries import job_retries
from headnode.core.lifecycle.states import JobState
from headnode.core.lifecycle.stays import released_first, releases, see_to_stays
from headnode.core.model.quantities import Instant


def attend(cluster: Cluster, command: c.Attend, now: Instant) -> list[Event]:
    """Dispatch what can be, give back what is not needed, end what is over."""
    record = cluster.jobs.get(command.job)
    if record is not None and record.state is JobState.QUEUED:
        return _skip_if_in_vain(cluster, record, now)
    if record is None or record.run is None:
        return []
    if record.state is JobState.ENDING:
        return _end_if_still(cluster, record, record.run, now)
    if not record.state.is_active:
        return []
    flow = cluster.flow(record.id)
    stopped = record.run.outcome is not None
    if flow.open == 0 and not flow.spec.run_until_canceled and (not stopped or record.run.requeue):
        return _end_of(cluster, record, flow, _over(record, flow, now), now)
    if record.state is JobState.RUNNING and record.run.recalled:
        given = cleaned_first(cluster, record, give_up(cluster, record, now))
        if given:
            return given
    if (
        record.state is JobState.RUNNING
        and flow.tends_nodes
        and (first := see_to_stays(cluster, record, now))
    ):
        return first
    if stopped and not flow.lanes:
        return _leave_allocation(cluster, record, record.run, now)
    if record.state is not JobState.RUNNING:
        return stand_still(record, now)
    if left := leaves(cluster, record, now):
        return left
    placed = dispatches(cluster, record, now) if flow.ready and not stopped else []
    if placed:
        return list(placed)
    given = cleaned_first(cluster, record, released_first(record, surplus(cluster, record, now), flow))
    return given or overdue(cluster, record, now)


def _skip_if_in_vain(cluster: Cluster, record: JobRecord, now: Instant) -> list[Event]:
    """End a job that waits for what can never happen any more."""
    skipped = in_vain(cluster, record, now)
    canceled = cancel_queued(record, tasks_of(cluster, record), now, skipped[0].message) if skipped else []
    return [*canceled, *skipped]


def _end_if_still(cluster: Cluster, record: JobRecord, run: Run, now: Instant) -> list[Event]:
    left = releases(cluster, record, now)
    if left or any(progress.live for progress in run.tasks):
        return list(left)
    cleaning = see_off(cluster, record, now)
    if cleaning is not None:
        return cleaning
    if run.requeue and run.preempted_by:
        by = run.preempted_by
        return [e.JobReturned(at=now, job=record.id, message=record.message, preempted_by=by)]
    if run.requeue:
        return [e.JobRequeued(at=now, job=record.id, message=record.message)]
    return [e.JobEnded(at=now, job=record.id, outcome=run.outcome or "canceled", message=record.message)]


def _leave_allocation(cluster: Cluster, record: JobRecord, run: Run, now: Instant) -> list[Event]:
    """Nothing of a job that starts nothing new runs any more: it ends, or goes back to the queue."""
    cleaning = see_off(cluster, record, now)
    if cleaning is not None:
        return cleaning
    if not run.requeue:
        outcome = run.outcome or "canceled"
        return [e.JobEnded(at=now, job=record.id, outcome=outcome, message=record.message)]
    if run.forgiven or run.returns < job_retries(cluster):
        by = next(iter(run.recalled_for), 0) if run.forgiven else 0
        message, free = record.message, run.forgiven
        returned = e.JobReturned(at=now, job=record.id, message=message, preempted_by=by, forgiven=free)
        return [returned, *goes_back(cluster, record, message, now)]
    message = f"{record.message}, after {run.returns} returns to the queue"
    return [
        *cancel_queued(record, run.tasks, now, message),
        e.JobEnded(at=now, job=record.id, outcome="failed", message=message),
    ]


def _end_of(cluster: Cluster, record: JobRecord, flow: Flow, over: e.JobEnded, now: Instant) -> list[Event]:
    """Return the end of a job all of whose tasks are over; its nodes are released and cleaned first."""
    tended = flow.tends_nodes and (flow.lanes or flow.run.stays)
    cleaned = flow.run.allocation and (flow.run.cleaning or cleans_nodes(cluster))
    if not tended and not cleaned:
        return [over]
    ending = e.JobEnding(at=now, job=record.id, outcome=over.outcome, message=over.message)
    return [ending, *stop_live(record, flow, "canceled", "the job is over", now)]


def _over(record: JobRecord, flow: Flow, now: Instant) -> e.JobEnded:
    """Return how a job ends all of whose tasks are over; preparing and releasing nodes does not count."""
    progresses = enumerate(flow.run.tasks)
    failed = [index + 1 for index, progress in progresses if progress.failed and flow.counts(index)]
    if not failed:
        return e.JobEnded(at=now, job=record.id, outcome="finished")
    named = ", ".join(map(str, failed[:5])) + (" and others" if len(failed) > 5 else "")
    return e.JobEnded(
        at=now,
        job=record.id,
        outcome="failed",
        message=f"task{'s' if len(failed) > 1 else ''} {named} failed",
    )
