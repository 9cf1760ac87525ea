"""What follows for a job after something of it changed: dispatch, release, end, or go back to the queue.

Source: CCS, "Task execution"; HPC Pack, growth, shrinkage and JobRetryCount.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from headnode.core.model.quantities import Instant, JobId
from headnode.core.state import job_events as e
from headnode.core.state import staging
from headnode.core.state import suspension_events as sj
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.command import Command
from headnode.core.state.dispatch import dispatches
from headnode.core.state.drain import leave_nodes
from headnode.core.state.events import Event
from headnode.core.state.hooks import cleaned_first, cleans_nodes, overdue_epilogs, start_epilogs
from headnode.core.state.job_record import JobRecord, RunEnd, awaited_by_instances
from headnode.core.state.job_usage import why_it_failed
from headnode.core.state.node_faults import job_retries, requeue_held_for_prologs
from headnode.core.state.preempt import give_up_recalled
from headnode.core.state.prep_release import prepare_nodes, release_tasks, released_first, spare_processors
from headnode.core.state.resources import dispatch_there, hand_over
from headnode.core.state.stop import cancel_queued, stop_live
from headnode.core.state.suspend import suspended_if_stopped
from headnode.core.state.task_graph import TaskGraph
from headnode.core.state.transitions import JobState, NodePhase


class AdvanceJob(Command, frozen=True):
    """Engine: dispatch tasks of a changed job, shrink its allocation, or end it."""

    job: JobId


Rule = Callable[[ClusterState, JobRecord, TaskGraph, Instant], list[Event] | None]
"""Returns what follows for the job, [] if nothing does yet, or None if the next rule is to be tried."""


def advance_job(cluster: ClusterState, command: AdvanceJob, now: Instant) -> list[Event]:
    """Return what follows for a job: of the rules for its state the first that applies decides."""
    record = cluster.jobs.get(command.job)
    if record is None:
        return []
    if record.state is JobState.QUEUED:
        vain = _cancel_in_vain(cluster, record, now) or _fail_lost(cluster, record, now)
        return vain or hand_over(cluster, record, now)
    rules = (RULES_ELSEWHERE if record.is_elsewhere else RULES).get(record.state, ())
    if not rules:
        return []
    graph = cluster.graph(record.id)
    for rule in rules:
        events = rule(cluster, record, graph, now)
        if events is not None:
            return events
    return []


def _cancel_in_vain(cluster: ClusterState, record: JobRecord, now: Instant) -> list[Event]:
    """End a job that waits for what can never happen any more."""
    if not record.waits_for and not record.spare:
        return []
    from headnode.core.state.children import cancel_if_in_vain  # few jobs wait for others

    skipped = cancel_if_in_vain(cluster, record, now)
    canceled = cancel_queued(record, now, skipped[0].message) if skipped else []
    return [*canceled, *skipped]


def _fail_lost(cluster: ClusterState, record: JobRecord, now: Instant) -> list[Event]:
    """End instances that wait for those of another job that has ended without them."""
    if not awaited_by_instances(record):
        return []
    from headnode.core.state.instance_waits import fail_lost  # of few jobs

    return fail_lost(cluster, record, now)


def fail_instances(
    cluster: ClusterState, record: JobRecord, _graph: TaskGraph, now: Instant
) -> list[Event] | None:
    """Instances that wait for those of another job fail when that has ended without them."""
    return _fail_lost(cluster, record, now) or None


def return_blocked(
    cluster: ClusterState, record: JobRecord, graph: TaskGraph, now: Instant
) -> list[Event] | None:
    """A job whose instances are all held, or wait for those of other jobs, goes back to the queue."""
    if graph.ready or graph.lanes or all(progress.waits is None for progress in graph.run.tasks):
        return None
    if graph.run.end is not None or graph.spec.run_until_canceled or cluster.agenda.closing:
        return None
    message = "what is left of it is held, or waits for instances of other jobs"
    return [
        e.JobEnding(at=now, job=record.id, outcome="canceled", message=message, requeue=True, uncounted=True)
    ]


def end_when_done(
    cluster: ClusterState, record: JobRecord, graph: TaskGraph, now: Instant
) -> list[Event] | None:
    """A job whose tasks are all over ends; if its nodes are to be released or cleaned, it is ending first."""
    run = graph.run
    if graph.open or graph.spec.run_until_canceled or (run.end is not None and not run.end.requeue):
        return None
    over = _over(record, graph, now)
    tended = graph.tends_nodes and (
        graph.lanes or any(each.phase is not NodePhase.ASSIGNED for each in run.holdings.values())
    )
    cleaned = run.allocation and (run.cleaning or cleans_nodes(cluster))
    if not tended and not cleaned:
        return [over]
    ending = e.JobEnding(at=now, job=record.id, outcome=over.outcome, message=over.message)
    return [ending, *stop_live(record, graph, "canceled", "the job is over", now)]


def give_back_recalled(
    cluster: ClusterState, record: JobRecord, graph: TaskGraph, now: Instant
) -> list[Event] | None:
    """Processors that were recalled for other jobs are given back when they are idle."""
    if not graph.run.recalled:
        return None
    return cleaned_first(cluster, record, give_up_recalled(cluster, record, now)) or None


def tend_nodes(
    cluster: ClusterState, record: JobRecord, graph: TaskGraph, now: Instant
) -> list[Event] | None:
    """Nodes are prepared before their first task and released after their last."""
    if not graph.tends_nodes or cluster.agenda.closing:
        return None
    return prepare_nodes(cluster, record, now) or None


def end_when_stopped(
    cluster: ClusterState, record: JobRecord, graph: TaskGraph, now: Instant
) -> list[Event] | None:
    """A job that starts nothing more ends when nothing of it runs, or goes back to the queue."""
    run, end = graph.run, graph.run.end
    if end is None or graph.lanes:
        return None
    cleaning = start_epilogs(cluster, record, now)
    if cleaning is not None:
        return cleaning
    if not end.requeue:
        return [e.JobEnded(at=now, job=record.id, outcome=end.outcome, message=record.message)]
    if end.uncounted or run.auto_requeues < job_retries(cluster):
        by = next(iter(run.recalled_for), 0) if end.uncounted else 0
        message, free = record.message, end.uncounted
        returned = e.JobAutoRequeued(at=now, job=record.id, message=message, preempted_by=by, uncounted=free)
        return [returned, *requeue_held_for_prologs(cluster, record, message, now)]
    message = f"{record.message}, after {run.auto_requeues} returns to the queue"
    return [
        *cancel_queued(record, now, message),
        e.JobEnded(at=now, job=record.id, outcome="failed", message=message),
    ]


def detach(cluster: ClusterState, record: JobRecord, graph: TaskGraph, now: Instant) -> list[Event] | None:
    """A job of which nothing is left but transfers from its nodes gives back all its processors.

    Not where a node has something to do after the job, or where a task may be tried again.
    """
    run, spec = graph.run, graph.spec
    if not run.stages or not run.allocation or graph.ready or graph.blocks or run.end is not None:
        return None
    if graph.tends_nodes or run.holdings or spec.run_until_canceled or spec.task_retry_limit:
        return None
    lives = [live for progress in run.tasks for live in progress.live.values()]
    if not lives or any(live.staging != "out" for live in lives) or cleans_nodes(cluster):
        return None
    return [e.AllocationReleased(at=now, job=record.id)]


def release_while_staging(
    cluster: ClusterState, record: JobRecord, graph: TaskGraph, now: Instant
) -> list[Event] | None:
    """A job for which only files have come for some time gives back its processors until they are there."""
    if not staging.may_release(cluster, graph, now):
        return None
    return [sj.JobSuspending(at=now, job=record.id, number=graph.run.suspensions + 1, staging=True)]


def resume_staged(
    cluster: ClusterState, record: JobRecord, graph: TaskGraph, now: Instant
) -> list[Event] | None:
    """A job that gave back its processors while files came waits for them when those of a task are there."""
    return None if cluster.agenda.closing else list(staging.resume_when_brought(record, graph, now)) or None


def requeue_detached(
    _cluster: ClusterState, record: JobRecord, graph: TaskGraph, now: Instant
) -> list[Event] | None:
    """Queue a job again that has released its processors and has tasks to run."""
    if not graph.run.detached or not graph.ready or graph.lanes:
        return None
    message = "it had released its processors, and tasks of it are to run again"
    return [e.JobAutoRequeued(at=now, job=record.id, message=message, uncounted=True)]


def leave_reduced_nodes(
    cluster: ClusterState, record: JobRecord, _graph: TaskGraph, now: Instant
) -> list[Event] | None:
    """Processors that are out of service are given back when they are idle."""
    return leave_nodes(cluster, record, now) or None


def dispatch(cluster: ClusterState, record: JobRecord, graph: TaskGraph, now: Instant) -> list[Event] | None:
    """Instances that may run are dispatched to free processors of the job, and short ones behind others."""
    if not (graph.ready or graph.parents.soon) or graph.run.end is not None or cluster.agenda.closing:
        return None
    return list(dispatches(cluster, record, now)) or None


def give_back_spare(
    cluster: ClusterState, record: JobRecord, graph: TaskGraph, now: Instant
) -> list[Event] | None:
    """Processors that no task of the job needs are given back, down to its minimum."""
    spare = spare_processors(cluster, record, now)
    return cleaned_first(cluster, record, released_first(record, spare, graph)) or None


def give_back_overdue(
    cluster: ClusterState, record: JobRecord, _graph: TaskGraph, now: Instant
) -> list[Event] | None:
    """A node whose epilog should have ended long ago is given back, and drains."""
    return overdue_epilogs(cluster, record, now) or None


def suspend(_cluster: ClusterState, record: JobRecord, _graph: TaskGraph, now: Instant) -> list[Event] | None:
    """A job is suspended when all of its nodes have stopped its processes."""
    return suspended_if_stopped(record, now) or None


def release_nodes(
    cluster: ClusterState, record: JobRecord, _graph: TaskGraph, now: Instant
) -> list[Event] | None:
    """Nodes that the job has used are released when nothing of it runs there."""
    return list(release_tasks(cluster, record, now)) or None


def wait_for_attempts(
    _cluster: ClusterState, _record: JobRecord, graph: TaskGraph, _now: Instant
) -> list[Event] | None:
    """Nothing more happens before all attempts have ended."""
    return [] if any(progress.live for progress in graph.run.tasks) else None


def clean_nodes(
    cluster: ClusterState, record: JobRecord, _graph: TaskGraph, now: Instant
) -> list[Event] | None:
    """The epilogs run, and the job waits until each has ended or is overdue."""
    return start_epilogs(cluster, record, now)


def end_run(_cluster: ClusterState, record: JobRecord, graph: TaskGraph, now: Instant) -> list[Event] | None:
    """The job ends with the outcome that was decided, or goes back to the queue."""
    end = graph.run.end or RunEnd(outcome="canceled")
    if end.requeue and (end.preempted_by or end.uncounted):
        by, message = end.preempted_by, record.message
        return [
            e.JobAutoRequeued(
                at=now, job=record.id, message=message, preempted_by=by, uncounted=end.uncounted
            )
        ]
    if end.requeue:
        return [e.JobRequeued(at=now, job=record.id, message=record.message)]
    return [e.JobEnded(at=now, job=record.id, outcome=end.outcome, message=record.message)]


RULES: Mapping[JobState, tuple[Rule, ...]] = MappingProxyType(
    {
        JobState.RUNNING: (
            fail_instances,
            end_when_done,
            give_back_recalled,
            tend_nodes,
            end_when_stopped,
            requeue_detached,
            return_blocked,
            leave_reduced_nodes,
            dispatch,
            detach,
            release_while_staging,
            give_back_spare,
            give_back_overdue,
        ),
        JobState.SUSPENDING: (end_when_done, end_when_stopped, suspend),
        JobState.SUSPENDED: (end_when_done, end_when_stopped, resume_staged),
        JobState.RESUMING: (end_when_done, end_when_stopped),
        JobState.ENDING: (release_nodes, wait_for_attempts, clean_nodes, end_run),
    }
)
"""What is tried for a job in each state, in this order.

The events of a rule make the job dirty, so the first rule is tried again after them.
"""


RULES_ELSEWHERE: Mapping[JobState, tuple[Rule, ...]] = MappingProxyType(
    {
        JobState.HANDED: (fail_instances, end_when_done, end_when_stopped, dispatch_there),
        JobState.RUNNING: (fail_instances, end_when_done, end_when_stopped, dispatch_there),
        JobState.ENDING: (wait_for_attempts, end_run),
    }
)
"""The same for a job that was handed over to a resource."""


def _over(record: JobRecord, graph: TaskGraph, now: Instant) -> e.JobEnded:
    """Return how a job ends all of whose tasks are over; preparing and releasing nodes does not count."""
    progresses = enumerate(graph.run.tasks)
    failed = [index + 1 for index, progress in progresses if progress.failed and graph.counts(index)]
    if not failed:
        return e.JobEnded(at=now, job=record.id, outcome="finished")
    named = ", ".join(map(str, failed[:5])) + (" and others" if len(failed) > 5 else "")
    message = f"task{'s' if len(failed) > 1 else ''} {named} failed"
    usage = graph.run.usage
    if usage.failed_task in failed:
        first = f"; task {usage.failed_task}" if len(failed) > 1 else ""
        message = f"{message}{first}{why_it_failed(usage.failure)}"
    return e.JobEnded(at=now, job=record.id, outcome="failed", message=message)
