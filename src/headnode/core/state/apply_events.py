"""Apply events and the time to the state: the only code that changes it.  Each event has one function.

A function checks the transition first and changes things afterwards, so a refused event leaves no trace.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from headnode.core.model.quantities import Instant, Seconds
from headnode.core.model.user import Receipt
from headnode.core.state import filters, hold, hooks, job_request, nodes, reservations, suspend, tokens
from headnode.core.state import preempt as preemption
from headnode.core.state import task_progress as instances
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.events import (
    ClockSet,
    Event,
    LoginOffered,
    NodeApproved,
    NodeDrained,
    NodeDrainLifted,
    NodeInvited,
    NodeKeyPinned,
    NodePaused,
    NodeReachable,
    NodeRegistered,
    NodeRemoved,
    NodeResumed,
    NodeSet,
    NodeUnreachable,
    NumbersSkipped,
    ParameterSet,
    RequestCarriedOut,
    ReservationCanceled,
    ReservationChanged,
    ReservationEnded,
    ReservationMade,
    TemplateRemoved,
    TemplateSet,
    TokenMade,
    TokenRevoked,
    TokenUsed,
)
from headnode.core.state.job_end import (
    dispatch_stopped,
    job_ended,
    job_ending,
    job_requeued,
    job_returned,
    job_revived,
)
from headnode.core.state.job_events import (
    AllocationGrown,
    AllocationLost,
    AllocationShrunk,
    DispatchStopped,
    FilterAnswered,
    InstancesDispatched,
    InstancesEnded,
    InstancesStarted,
    InstancesStopping,
    JobConfigured,
    JobCreated,
    JobEnded,
    JobEnding,
    JobGiven,
    JobHeld,
    JobModified,
    JobReleased,
    JobRequeued,
    JobResumed,
    JobResuming,
    JobReturned,
    JobRevived,
    JobStarted,
    JobSubmitted,
    JobSuspended,
    JobSuspending,
    JobValidated,
    NodeReadied,
    NodesCleaning,
    ProcessesStopped,
    ProcessorsRecalled,
    ProgressSet,
    TaskCanceled,
    TaskRequeued,
)
from headnode.core.state.modify import job_modified, progress_set
from headnode.core.state.nodes import numbers_skipped, parameter_set
from headnode.core.state.start import (
    allocation_grown,
    allocation_lost,
    allocation_shrunk,
    job_started,
    run_of,
)
from headnode.core.state.submit import job_configured, job_created, job_submitted, owner_changed
from headnode.core.state.templates import template_removed, template_set

MOST_RECEIPTS = 20_000  # of one user; each takes about 400 bytes


def apply_event(cluster: ClusterState, event: Event) -> None:
    """Change the cluster as the event says.

    Raises:  Broken when the event cannot follow what went before: a bug, never bad input.
    """
    cluster.usage.now = event.at
    APPLY[type(event)](cluster, event)


def pass_time(cluster: ClusterState, now: Instant) -> None:
    """Change the state as the time does: queued jobs whose start time has come enter the queue."""
    cluster.release_due(now)


def _clock_set(cluster: ClusterState, event: ClockSet) -> None:
    for job in cluster.running | cluster.suspended:
        record = cluster.jobs[job]
        run = run_of(cluster, record)
        if run.started is None or not record.state.is_active:
            continue
        run.clock_set = Seconds(run.clock_set + event.by)
        if run.suspension is not None:
            run.suspension.since = Instant(run.suspension.since + event.by)
        job_request.set_limits(run, cluster.spec(record))
        cluster.agenda.set_deadline(job, run.deadline)
        cluster.agenda.dirty_job_views.add(job)
    cluster.usage.shift(event.by)
    cluster.agenda.pass_needed = True


def _carried_out(cluster: ClusterState, event: RequestCarriedOut) -> None:
    keep_receipt(cluster, event.receipt, event.at)


def keep_receipt(cluster: ClusterState, receipt: Receipt, now: Instant) -> None:
    """Keep what a request made; drop what has expired, and the oldest of too many of the user."""
    kept = cluster.receipts.setdefault(receipt.uid, {})
    kept.pop(receipt.key, None)
    while kept:
        oldest = next(iter(kept.values()))
        if oldest.expires > now and len(kept) < MOST_RECEIPTS:
            break
        del kept[oldest.key]
    kept[receipt.key] = receipt


APPLY: Mapping[type, Callable[[ClusterState, Any], None]] = MappingProxyType(
    {
        JobCreated: job_created,
        JobGiven: owner_changed,
        JobModified: job_modified,
        JobSubmitted: job_submitted,
        JobValidated: filters.job_validated,
        FilterAnswered: filters.filter_answered,
        JobConfigured: job_configured,
        JobStarted: job_started,
        AllocationGrown: allocation_grown,
        AllocationShrunk: allocation_shrunk,
        AllocationLost: allocation_lost,
        NodeReadied: hooks.readied,
        NodesCleaning: hooks.cleaning,
        ProcessorsRecalled: preemption.processors_recalled,
        InstancesDispatched: instances.instances_dispatched,
        InstancesStarted: instances.instances_started,
        InstancesEnded: instances.instances_ended,
        InstancesStopping: instances.instances_stopping,
        TaskCanceled: instances.task_canceled,
        TaskRequeued: instances.task_requeued,
        JobEnding: job_ending,
        DispatchStopped: dispatch_stopped,
        JobEnded: job_ended,
        JobRequeued: job_requeued,
        JobReturned: job_returned,
        JobRevived: job_revived,
        JobHeld: hold.hold_set,
        JobReleased: hold.hold_released,
        JobSuspending: suspend.suspending,
        ProcessesStopped: suspend.processes_stopped,
        JobSuspended: suspend.suspended,
        JobResuming: suspend.resuming,
        JobResumed: suspend.resumed,
        ProgressSet: progress_set,
        NodeRegistered: nodes.node_registered,
        NodeApproved: nodes.node_state_changed,
        NodePaused: nodes.node_state_changed,
        NodeResumed: nodes.node_state_changed,
        NodeDrained: nodes.node_drained,
        NodeDrainLifted: nodes.drain_lifted,
        NodeUnreachable: nodes.node_state_changed,
        NodeReachable: nodes.node_state_changed,
        NodeRemoved: nodes.node_removed,
        NodeInvited: nodes.node_invited,
        NodeKeyPinned: nodes.key_pinned,
        LoginOffered: tokens.offered,
        TokenMade: tokens.made,
        TokenUsed: tokens.used,
        TokenRevoked: tokens.revoked,
        NodeSet: nodes.node_set,
        ParameterSet: parameter_set,
        ClockSet: _clock_set,
        NumbersSkipped: numbers_skipped,
        RequestCarriedOut: _carried_out,
        ReservationMade: reservations.reservation_kept,
        ReservationChanged: reservations.reservation_kept,
        ReservationCanceled: reservations.reservation_gone,
        ReservationEnded: reservations.reservation_gone,
        TemplateSet: template_set,
        TemplateRemoved: template_removed,
    }
)
