"""Apply events and the time to the state: the only code that changes it.  Each event has one function.

A function checks the transition first and changes things afterwards, so a refused event leaves no trace.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from headnode.core.model.quantities import Instant, Seconds
from headnode.core.model.user import Receipt, packed_receipt, receipt_in
from headnode.core.state import (
    bank,
    elastic,
    filters,
    hold,
    hooks,
    job_end,
    job_request,
    modify,
    nodes,
    place_choice,
    preempt,
    reservations,
    resources,
    start,
    submit,
    suspend,
    task_progress,
    templates,
    tokens,
)
from headnode.core.state import elastic_events as ep
from headnode.core.state import events as e
from headnode.core.state import job_events as j
from headnode.core.state import recurring_record as rc
from headnode.core.state import suspension_events as sj
from headnode.core.state.cluster_state import ClusterState

MAX_RECEIPTS = 20_000  # of one user; each takes about 400 bytes


def apply_event(cluster: ClusterState, event: e.Event) -> None:
    """Change the cluster as the event says.

    Raises:  Broken when the event cannot follow what went before: a bug, never bad input.
    """
    cluster.usage.now = event.at
    APPLY[type(event)](cluster, event)


def pass_time(cluster: ClusterState, now: Instant) -> None:
    """Let time pass: jobs whose earliest start has come enter the queue."""
    cluster.release_due(now)


def _clock_set(cluster: ClusterState, event: e.ClockSet) -> None:
    for job in cluster.running | cluster.detached | cluster.resource_index.elsewhere:
        record = cluster.jobs[job]
        run = start.run_of(cluster, record)
        if run.started is None or not record.state.is_active:
            continue
        run.clock_shift = Seconds(run.clock_shift + event.seconds)
        run.usage.shift(event.seconds)
        if run.suspension is not None:
            run.suspension.since = Instant(run.suspension.since + event.seconds)
        if run.staged_since is not None:
            run.staged_since = Instant(run.staged_since + event.seconds)
        job_request.set_limits(run, cluster.spec(record))
        cluster.agenda.set_deadline(job, run.deadline)
        cluster.agenda.dirty_job_views.add(job)
    cluster.usage.shift(event.seconds)
    cluster.bank.shift(event.seconds)
    cluster.agenda.pass_needed = True


def _recurring(cluster: ClusterState, event: e.Event) -> None:
    """Apply an event of recurring jobs; few clusters have any, so its function is imported here."""
    from headnode.core.state.recurring_table import RECURRING_CHANGES

    RECURRING_CHANGES[type(event)](cluster, event)


def _carried_out(cluster: ClusterState, event: e.RequestCarriedOut) -> None:
    keep_receipt(cluster, event.receipt, event.at)


def keep_receipt(cluster: ClusterState, receipt: Receipt, now: Instant) -> None:
    """Keep what a request made; drop what has expired, and the oldest of too many of the user."""
    kept = cluster.receipts.setdefault(receipt.uid, {})
    kept.pop(receipt.key, None)
    while kept:
        oldest = next(iter(kept))
        if receipt_in(kept[oldest], receipt.uid, oldest).expires > now and len(kept) < MAX_RECEIPTS:
            break
        del kept[oldest]
    kept[receipt.key] = packed_receipt(receipt)


APPLY: Mapping[type, Callable[[ClusterState, Any], None]] = MappingProxyType(
    {
        j.JobCreated: submit.job_created,
        j.JobOwnerChanged: submit.owner_changed,
        j.JobModified: modify.job_modified,
        j.JobSubmitted: submit.job_submitted,
        j.JobValidated: filters.job_validated,
        j.FilterAnswered: filters.filter_answered,
        j.JobConfiguring: submit.job_configured,
        j.JobStarted: bank.counted(start.job_started),
        j.AllocationGrown: bank.counted(start.allocation_grown),
        j.AllocationShrunk: bank.counted(start.allocation_shrunk),
        j.AllocationReleased: bank.counted(start.allocation_released),
        j.AllocationLost: bank.counted(start.allocation_lost),
        j.NodePrepared: hooks.readied,
        j.NodesCleaning: hooks.cleaning,
        j.ProcessorsRecalled: preempt.processors_recalled,
        j.InstancesDispatched: task_progress.instances_dispatched,
        j.InstancesStaging: task_progress.instances_staging,
        e.InstancesHanded: task_progress.instances_handed,
        j.InstancesStarted: task_progress.instances_started,
        j.InstancesEnded: task_progress.instances_ended,
        j.InstancesStopping: task_progress.instances_stopping,
        j.InstancesCanceled: task_progress.task_canceled,
        j.TasksCanceled: task_progress.tasks_canceled,
        j.InstancesRequeued: task_progress.task_requeued,
        j.InstancesHeld: task_progress.instances_held,
        j.InstancesReleased: task_progress.instances_held,
        j.JobEnding: job_end.job_ending,
        j.DispatchStopped: job_end.dispatch_stopped,
        j.JobEnded: bank.counted(job_end.job_ended),
        j.JobRequeued: bank.counted(job_end.job_requeued),
        j.JobAutoRequeued: bank.counted(job_end.job_returned),
        j.JobUnarchived: job_end.job_revived,
        j.JobHeld: hold.hold_set,
        j.JobReleased: hold.hold_released,
        e.JobPlaced: place_choice.placed,
        sj.JobSuspending: suspend.suspending,
        sj.ProcessesStopped: suspend.processes_stopped,
        sj.JobSuspended: bank.counted(suspend.suspended),
        sj.JobResuming: suspend.resuming,
        sj.JobResumed: bank.counted(suspend.resumed),
        j.ProgressSet: modify.progress_set,
        e.BankNoted: bank.bank_noted,
        e.NodeRegistered: nodes.node_registered,
        e.NodeApproved: nodes.node_state_changed,
        e.NodePaused: nodes.node_state_changed,
        e.NodeResumed: nodes.node_state_changed,
        e.NodeDrained: nodes.node_drained,
        e.NodeDrainLifted: nodes.drain_lifted,
        e.NodeUnreachable: nodes.node_state_changed,
        e.NodeReachable: nodes.node_state_changed,
        e.NodeRemoved: nodes.node_removed,
        e.NodeInvited: nodes.node_invited,
        e.NodeKeyPinned: nodes.key_pinned,
        e.JobsPurged: job_end.jobs_purged,
        e.StandbyAdmitted: nodes.standby_admitted,
        e.StandbyRemoved: nodes.standby_removed,
        e.HeadTakenOver: nodes.head_taken_over,
        e.LoginOffered: tokens.offered,
        e.TokenCreated: tokens.made,
        e.TokenUsed: tokens.used,
        e.TokenRevoked: tokens.revoked,
        e.NodeModified: nodes.node_set,
        e.ParameterSet: nodes.parameter_set,
        e.UserGroupsSet: nodes.user_groups_set,
        e.ClockSet: _clock_set,
        e.JobIdsSkipped: nodes.numbers_skipped,
        e.RequestCarriedOut: _carried_out,
        e.ReservationCreated: reservations.reservation_kept,
        e.ReservationModified: reservations.reservation_kept,
        e.ReservationCanceled: reservations.reservation_gone,
        e.ReservationEnded: reservations.reservation_gone,
        e.ResourceSet: resources.resource_set,
        e.ResourceRemoved: resources.resource_removed,
        ep.ElasticPoolSet: elastic.pool_set,
        ep.ElasticPoolPaused: elastic.pool_paused,
        ep.ElasticPoolResumed: elastic.pool_resumed,
        ep.ElasticPoolRemoved: elastic.pool_removed,
        ep.ElasticNodeWanted: elastic.node_wanted,
        ep.ElasticNodeLeaving: elastic.node_leaving,
        ep.ElasticNodeGone: elastic.node_gone,
        e.TemplateSet: templates.template_set,
        e.TemplateRemoved: templates.template_removed,
        **dict.fromkeys(rc.RECURRING_EVENTS, _recurring),
    }
)
