"""What follows for a job after something of it changed: dispatch, release, end, or go back to the queue."""

from headnode.core.model.quantities import Instant, JobId
from headnode.core.state import job_events as e
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.command import Command
from headnode.core.state.depend import cancel_if_in_vain
from headnode.core.state.dispatch import dispatches
from headnode.core.state.drain import leave_nodes
from headnode.core.state.events import Event
from headnode.core.state.hooks import cleaned_first, cleans_nodes, overdue_epilogs, start_epilogs
from headnode.core.state.job_record import JobRecord, JobRun
from headnode.core.state.node_faults import job_retries, requeue_held_for_prologs
from headnode.core.state.preempt import give_up_recalled
from headnode.core.state.prep_release import prepare_nodes, release_tasks, released_first, spare_processors
from headnode.core.state.stop import cancel_queued, stop_live, tasks_of
from headnode.core.state.suspend import suspended_if_stopped
from headnode.core.state.task_graph import TaskGraph
from headnode.core.state.transitions import JobState, NodePhase


class AdvanceJob(Command, frozen=True):
    """Engine: something of this job changed; dispatch, shrink or end it."""

    job: JobId


def advance_job(cluster: ClusterState, command: AdvanceJob, now: Instant) -> list[Event]:
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
    graph = cluster.graph(record.id)
    stopped = record.run.outcome is not None
    if graph.open == 0 and not graph.spec.run_until_canceled and (not stopped or record.run.requeue):
        return _end_of(cluster, record, graph, _over(record, graph, now), now)
    if record.state is JobState.RUNNING and record.run.recalled:
        given = cleaned_first(cluster, record, give_up_recalled(cluster, record, now))
        if given:
            return given
    if (
        record.state is JobState.RUNNING
        and graph.tends_nodes
        and (first := prepare_nodes(cluster, record, now))
    ):
        return first
    if stopped and not graph.lanes:
        return _leave_allocation(cluster, record, record.run, now)
    if record.state is not JobState.RUNNING:
        return suspended_if_stopped(record, now)
    if left := leave_nodes(cluster, record, now):
        return left
    placed = dispatches(cluster, record, now) if graph.ready and not stopped else []
    if placed:
        return list(placed)
    given = cleaned_first(
        cluster, record, released_first(record, spare_processors(cluster, record, now), graph)
    )
    return given or overdue_epilogs(cluster, record, now)


def _skip_if_in_vain(cluster: ClusterState, record: JobRecord, now: Instant) -> list[Event]:
    """End a job that waits for what can never happen any more."""
    skipped = cancel_if_in_vain(cluster, record, now)
    canceled = cancel_queued(record, tasks_of(cluster, record), now, skipped[0].message) if skipped else []
    return [*canceled, *skipped]


def _end_if_still(cluster: ClusterState, record: JobRecord, run: JobRun, now: Instant) -> list[Event]:
    left = release_tasks(cluster, record, now)
    if left or any(progress.live for progress in run.tasks):
        return list(left)
    cleaning = start_epilogs(cluster, record, now)
    if cleaning is not None:
        return cleaning
    if run.requeue and run.preempted_by:
        by = run.preempted_by
        return [e.JobReturned(at=now, job=record.id, message=record.message, preempted_by=by)]
    if run.requeue:
        return [e.JobRequeued(at=now, job=record.id, message=record.message)]
    return [e.JobEnded(at=now, job=record.id, outcome=run.outcome or "canceled", message=record.message)]


def _leave_allocation(cluster: ClusterState, record: JobRecord, run: JobRun, now: Instant) -> list[Event]:
    """Nothing of a job that starts nothing new runs any more: it ends, or goes back to the queue."""
    cleaning = start_epilogs(cluster, record, now)
    if cleaning is not None:
        return cleaning
    if not run.requeue:
        outcome = run.outcome or "canceled"
        return [e.JobEnded(at=now, job=record.id, outcome=outcome, message=record.message)]
    if run.forgiven or run.returns < job_retries(cluster):
        by = next(iter(run.recalled_for), 0) if run.forgiven else 0
        message, free = record.message, run.forgiven
        returned = e.JobReturned(at=now, job=record.id, message=message, preempted_by=by, forgiven=free)
        return [returned, *requeue_held_for_prologs(cluster, record, message, now)]
    message = f"{record.message}, after {run.returns} returns to the queue"
    return [
        *cancel_queued(record, run.tasks, now, message),
        e.JobEnded(at=now, job=record.id, outcome="failed", message=message),
    ]


def _end_of(
    cluster: ClusterState, record: JobRecord, graph: TaskGraph, over: e.JobEnded, now: Instant
) -> list[Event]:
    """Return the end of a job all of whose tasks are over; its nodes are released and cleaned first."""
    begun = any(each.phase is not NodePhase.ASSIGNED for each in graph.run.holdings.values())
    tended = graph.tends_nodes and (graph.lanes or begun)
    cleaned = graph.run.allocation and (graph.run.cleaning or cleans_nodes(cluster))
    if not tended and not cleaned:
        return [over]
    ending = e.JobEnding(at=now, job=record.id, outcome=over.outcome, message=over.message)
    return [ending, *stop_live(record, graph, "canceled", "the job is over", now)]


def _over(record: JobRecord, graph: TaskGraph, now: Instant) -> e.JobEnded:
    """Return how a job ends all of whose tasks are over; preparing and releasing nodes does not count."""
    progresses = enumerate(graph.run.tasks)
    failed = [index + 1 for index, progress in progresses if progress.failed and graph.counts(index)]
    if not failed:
        return e.JobEnded(at=now, job=record.id, outcome="finished")
    named = ", ".join(map(str, failed[:5])) + (" and others" if len(failed) > 5 else "")
    return e.JobEnded(
        at=now,
        job=record.id,
        outcome="failed",
        message=f"task{'s' if len(failed) > 1 else ''} {named} failed",
    )
