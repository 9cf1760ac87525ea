"""Turn one command into the events it causes, or refuse it.  The only place that says no.

Nothing is changed here; `fold.apply` does that.  Where people repeat themselves the second time causes
nothing; where nodes repeat themselves, the same.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from headnode.core.lifecycle import attending, hooks, receipts, tokens
from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle import deciding_changes as changes
from headnode.core.lifecycle import deciding_drains as drains
from headnode.core.lifecycle import deciding_filters as filters
from headnode.core.lifecycle import deciding_groups as groups
from headnode.core.lifecycle import deciding_holds as holds
from headnode.core.lifecycle import deciding_jobs as jobs
from headnode.core.lifecycle import deciding_joins as joins
from headnode.core.lifecycle import deciding_losses as losses
from headnode.core.lifecycle import deciding_nodes as nodes
from headnode.core.lifecycle import deciding_preemption as preemption
from headnode.core.lifecycle import deciding_reports as reports
from headnode.core.lifecycle import deciding_reservations as reservations
from headnode.core.lifecycle import deciding_stops as stops
from headnode.core.lifecycle import deciding_suspension as suspension
from headnode.core.lifecycle import deciding_templates as templates
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.events import Event
from headnode.core.model.quantities import Instant


def decide(cluster: Cluster, command: c.Command, now: Instant) -> list[Event]:
    """Return the events that `command` causes now.

    Raises:  Refused, with what to do about it; then nothing happens.
    """
    asked = receipts.once_of(command)
    if asked is None:
        return _DECIDE[type(command)](cluster, command, now)
    receipts.refuse_repeated(cluster, *asked, now)
    events = _DECIDE[type(command)](cluster, command, now)
    return [*events, receipts.receipt_event(cluster, command, events, *asked, now)]


_DECIDE: Mapping[type, Callable[[Cluster, Any, Instant], list[Event]]] = MappingProxyType(
    {
        c.CreateJob: jobs.create,
        c.CreateJobs: groups.create_several,
        c.SubmitJob: jobs.submit,
        c.SubmitJobs: groups.submit_several,
        c.ValidateJob: filters.validate,
        c.RejectJob: filters.reject,
        c.TakeVerdict: filters.take_verdict,
        c.ModifyJob: changes.modify,
        c.SetProgress: jobs.set_progress,
        c.RequeueJob: jobs.requeue,
        c.StartJob: jobs.start,
        c.GrowJob: jobs.grow,
        c.RecallProcessors: preemption.recall,
        c.PreemptJob: preemption.preempt,
        c.Attend: attending.attend,
        c.StopJob: stops.stop_job,
        c.EndOverdue: stops.end_overdue,
        c.EndLate: stops.end_late,
        c.SuspendJob: suspension.suspend,
        c.ResumeJob: suspension.resume,
        c.ReportSuspended: suspension.stopped,
        c.HoldJob: holds.hold,
        c.ReleaseJob: holds.release,
        c.StopTask: stops.stop_task,
        c.RequeueTask: stops.requeue_task,
        c.ReportStarted: reports.started,
        c.ReportEnded: reports.ended,
        c.GiveUpNode: losses.give_up_node,
        c.RegisterNode: nodes.register,
        c.InviteNode: joins.invite,
        c.AdmitNode: joins.admit,
        c.SetNode: joins.set_node,
        c.NodeVanished: nodes.vanished,
        c.ChangeNode: nodes.change,
        c.DrainNode: drains.drain,
        c.MakeReservation: reservations.make,
        c.ChangeReservation: reservations.change,
        c.CancelReservation: reservations.cancel,
        c.AttendReservation: reservations.attend,
        c.ReportHealth: drains.health,
        c.ReportNonsense: drains.nonsense,
        c.ReportReady: hooks.ready,
        c.ReportClosed: hooks.cleaned,
        c.ReportHook: hooks.failed,
        c.OfferLogin: tokens.offer,
        c.TakeLogin: tokens.take,
        c.UseToken: tokens.use,
        c.RevokeToken: tokens.revoke,
        c.SetParameter: nodes.set_parameter,
        c.ShiftLimits: nodes.shift_limits,
        c.SkipNumbers: nodes.skip_numbers,
        c.SetTemplate: templates.set_template,
        c.RemoveTemplate: templates.remove_template,
    }
)
