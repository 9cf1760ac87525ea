"""Events as clients are told of them: a stable type, what it is about, and its data.

The number of an event is its number in the journal.  What the head keeps for itself has no type.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from msgspec import UNSET

from headnode.apps.server.api.job_views import event_sentence
from headnode.apps.server.api.nodes import node_sentences
from headnode.core.model.template import decode_template
from headnode.core.state import events as e
from headnode.core.state import job_events as j
from headnode.core.state.job_events import JobEvent, NodeCores
from headnode.core.state.transitions import JobState
from headnode.protocol.event_answers import EventObject, TaskChange

Data = dict[str, Any]


def _shares(place: NodeCores) -> Data:
    return {"nodes": {node: len(numbers) for node, numbers in place}}


def _begun(event: j.InstancesStarted) -> Data:
    return {"tasks": [TaskChange(one.task, one.instance, "running") for one in event.started]}


def _ended(event: j.InstancesEnded) -> Data:
    return {"tasks": [_change(one) for one in event.ended]}


def _change(one: j.InstanceEnd) -> TaskChange:
    message = one.outcome.message or UNSET
    return TaskChange(one.task, one.instance, one.state, one.node, one.outcome.exit_code, message)


def _job(**constant: Any) -> Callable[[Any], Data]:
    return lambda _: constant


def _parameter(event: e.ParameterSet) -> Data:
    return {"name": event.name, "value": event.value}


def _reservation(event: "e.ReservationCreated | e.ReservationModified") -> Data:
    return {"name": event.reservation.name}


def _named(event: Any) -> Data:
    return {"name": event.name}


def _nothing(_: object) -> Data:
    return {}


QUEUED: Final = JobState.QUEUED.value

EVENT_TYPES: Final[Mapping[type, tuple[str, Callable[[Any], Data]]]] = MappingProxyType(
    {
        j.JobCreated: ("job.created", _job(state=JobState.CONFIGURING.value)),
        j.JobOwnerChanged: ("job.owner_changed", _nothing),
        j.JobModified: ("job.modified", _nothing),
        j.JobSubmitted: (
            "job.submitted",
            lambda one: {"state": JobState.VALIDATING.value if one.validating else QUEUED},
        ),
        j.JobValidated: ("job.validated", _job(state=QUEUED)),
        j.FilterAnswered: ("job.filtered", _nothing),
        j.JobConfiguring: ("job.configuring", _job(state=JobState.CONFIGURING.value)),
        j.JobStarted: (
            "job.started",
            lambda one: {"state": JobState.RUNNING.value, **_shares(one.allocation)},
        ),
        j.AllocationGrown: ("job.grown", lambda one: _shares(one.added)),
        j.AllocationShrunk: ("job.shrunk", lambda one: _shares(one.removed)),
        j.AllocationLost: ("job.node_lost", lambda one: _shares(one.removed)),
        j.ProcessorsRecalled: ("job.recalled", lambda one: {"nodes": dict(one.processors)}),
        j.JobEnding: ("job.ending", _job(state=JobState.ENDING.value)),
        j.DispatchStopped: ("job.draining", _nothing),
        j.JobEnded: ("job.ended", lambda one: {"state": one.outcome}),
        j.JobRequeued: ("job.requeued", _job(state=QUEUED)),
        j.JobAutoRequeued: ("job.requeued", _job(state=QUEUED)),
        j.JobUnarchived: ("job.unarchived", _nothing),
        j.JobHeld: ("job.held", _nothing),
        j.JobReleased: ("job.released", _nothing),
        j.JobSuspending: ("job.suspending", _job(state=JobState.SUSPENDING.value)),
        j.JobSuspended: ("job.suspended", _job(state=JobState.SUSPENDED.value)),
        j.JobResuming: ("job.resuming", _job(state=JobState.RESUMING.value)),
        j.JobResumed: (
            "job.resumed",
            lambda one: {"state": JobState.RUNNING.value, **_shares(one.allocation)},
        ),
        j.ProgressSet: ("job.progress", lambda one: {"percent": one.percent}),
        j.InstancesStarted: ("task.started", _begun),
        j.InstancesEnded: ("task.ended", _ended),
        j.InstancesCanceled: ("task.canceled", _nothing),
        j.InstancesRequeued: ("task.requeued", _nothing),
        e.NodeRegistered: ("node.registered", _nothing),
        e.NodeApproved: ("node.approved", _nothing),
        e.NodePaused: ("node.paused", _nothing),
        e.NodeResumed: ("node.resumed", _nothing),
        e.NodeDrained: ("node.drained", _nothing),
        e.NodeDrainLifted: ("node.drain_lifted", _nothing),
        e.NodeUnreachable: ("node.unreachable", _nothing),
        e.NodeReachable: ("node.reachable", _nothing),
        e.NodeRemoved: ("node.removed", _nothing),
        e.NodeModified: ("node.modified", _nothing),
        e.ParameterSet: ("parameter.set", _parameter),
        e.ReservationCreated: ("reservation.created", _reservation),
        e.ReservationModified: ("reservation.modified", _reservation),
        e.ReservationCanceled: ("reservation.canceled", _named),
        e.ReservationEnded: ("reservation.ended", _named),
        e.TemplateSet: ("template.set", lambda one: {"name": decode_template(one.template).name}),
        e.TemplateRemoved: ("template.removed", _named),
    }
)
"""The type of each event that clients are told of, and its data."""

INTERNAL_EVENTS: Final[Mapping[type, str]] = MappingProxyType(
    {
        j.InstancesDispatched: "a step between two nodes: task.started follows",
        j.InstancesStopping: "task.ended follows",
        j.NodePrepared: "a step of the start: task.started follows",
        j.NodesCleaning: "a step of the end: job.shrunk or job.ended follows",
        j.ProcessesStopped: "a step of suspending: job.suspended follows",
        e.NodeInvited: "access; it is in the audit log",
        e.NodeKeyPinned: "access; it is in the audit log",
        e.LoginOffered: "access; it is in the audit log",
        e.TokenCreated: "access; it is in the audit log",
        e.TokenUsed: "access; it is in the audit log",
        e.TokenRevoked: "access; it is in the audit log",
        e.ClockSet: "of the head's clock",
        e.JobIdsSkipped: "of the restore",
        e.RequestCarriedOut: "the request has its answer",
    }
)
"""The events that clients are not told of, and why."""


def event_object(number: int, event: e.Event, owner: Callable[[int], str]) -> EventObject | None:
    """Return an event as clients see it; None for one that they are not told of.

    `owner` gives the owner of a job.
    """
    if (row := EVENT_TYPES.get(type(event))) is None:
        return None
    kind, data_of = row
    data = data_of(event)
    if isinstance(event, JobEvent):
        text = event_sentence(event)
        data |= {"job": event.job, "owner": owner(event.job)}
    elif node := e.node_of(event):
        text = next((words for _, words in node_sentences([event])), "")
        data["node"] = node
    else:
        text = ""
    if by := getattr(event, "by", ""):
        data["by"] = by
    return EventObject(number, kind, event.at, text or UNSET, **data)
