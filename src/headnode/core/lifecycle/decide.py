"""Turn one command into the events it causes, or refuse it.  The only place that says no.

Nothing is changed here; `fold.apply` does that.  Where people repeat themselves the second time causes
nothing; where nodes repeat themselves, the same.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from headnode.core.lifecycle import attending
from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle import deciding_changes as changes
from headnode.core.lifecycle import deciding_jobs as jobs
from headnode.core.lifecycle import deciding_losses as losses
from headnode.core.lifecycle import deciding_nodes as nodes
from headnode.core.lifecycle import deciding_reports as reports
from headnode.core.lifecycle import deciding_stops as stops
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.events import Event
from headnode.core.model.quantities import Instant


def decide(cluster: Cluster, command: c.Command, now: Instant) -> list[Event]:
    """Return the events that `command` causes now.

    Raises:  Refused, with what to do about it; then nothing happens.
    """
    return _DECIDE[type(command)](cluster, command, now)


_DECIDE: Mapping[type, Callable[[Cluster, Any, Instant], list[Event]]] = MappingProxyType(
    {
        c.CreateJob: jobs.create,
        c.SubmitJob: jobs.submit,
        c.ModifyJob: changes.modify,
        c.SetProgress: jobs.set_progress,
        c.RequeueJob: jobs.requeue,
        c.StartJob: jobs.start,
        c.GrowJob: jobs.grow,
        c.Attend: attending.attend,
        c.StopJob: stops.stop_job,
        c.EndOverdue: stops.end_overdue,
        c.StopTask: stops.stop_task,
        c.RequeueTask: stops.requeue_task,
        c.ReportStarted: reports.started,
        c.ReportEnded: reports.ended,
        c.GiveUpNode: losses.give_up_node,
        c.RegisterNode: nodes.register,
        c.NodeVanished: nodes.vanished,
        c.ChangeNode: nodes.change,
        c.SetParameter: nodes.set_parameter,
    }
)
