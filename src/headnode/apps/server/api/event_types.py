"""Events as clients get them: the type, the data, and the object that has both."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from msgspec import UNSET

from headnode.apps.server.api.job_views import event_sentence
from headnode.apps.server.api.nodes import node_sentences
from headnode.apps.server.api.resources import ELASTIC_EVENTS
from headnode.core.model.template import decode_template
from headnode.core.state import events as e
from headnode.core.state import job_events as j
from headnode.core.state import recurring_record as rc
from headnode.core.state import suspension_events as sj
from headnode.core.state.job_events import JobEvent, NodeCores
from headnode.core.state.transitions import JobState
from headnode.protocol.event_answers import EventObject, TaskChange

Data = dict[str, Any]


def _started(one: j.JobStarted) -> Data:
    return {"state": RUNNING, **_shares(one.allocation)}


def _handed(one: j.JobStarted) -> Data:
    """Return the data of a job that was handed over to a resource: nothing of it runs yet."""
    return {"state": QUEUED, "resource": one.resource}


def _shares(place: NodeCores) -> Data:
    return {"nodes": {node: len(numbers) for node, numbers in place}}


def _started_tasks(event: j.InstancesStarted) -> list[TaskChange]:
    return [TaskChange(one.task, one.instance, "running") for one in event.started]


def _staging(event: j.InstancesStaging) -> Data:
    words = {"in": "staging in", "out": "staging out", "ready": "staged in"}
    return {"tasks": [TaskChange(one.task, one.instance, words[one.direction]) for one in event.staging]}


def _ended_tasks(event: j.InstancesEnded) -> list[TaskChange]:
    return [_change(one) for one in event.ended]


def _change(one: j.InstanceEnd) -> TaskChange:
    message = one.outcome.message or UNSET
    return TaskChange(one.task, one.instance, one.state, one.node, one.outcome.exit_code, message)


def _job(**constant: Any) -> Callable[[Any], Data]:
    return lambda _: constant


def _standing(state: JobState) -> Callable[[Any], Data]:
    """Return the data of a suspended job; a job that only waits for its files still counts as running."""
    return lambda one: {"state": RUNNING if one.staging else state.value}


def _parameter(event: e.ParameterSet) -> Data:
    return {"name": event.name, "value": event.value}


def _reservation(event: "e.ReservationCreated | e.ReservationModified") -> Data:
    return {"name": event.reservation.name}


def _named(event: Any) -> Data:
    return {"name": event.name}


def _recurring(event: rc.RecurringJobSet) -> Data:
    return {"name": event.recurring.name, "recurring": event.recurring.number}


def _recurring_run(event: rc.RecurringJobRan) -> Data:
    return {"recurring": event.number, "time": event.time, "job": event.job}


def _recurring_skip(event: rc.RecurringTimeSkipped) -> Data:
    return {"recurring": event.number, "time": event.time, "reason": event.reason}


def _standby(event: "e.StandbyAdmitted | e.HeadTakenOver") -> Data:
    return {"name": event.name, "address": event.address}


def _nothing(_: object) -> Data:
    return {}


QUEUED: Final = JobState.QUEUED.value
RUNNING: Final = JobState.RUNNING.value

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
            lambda one: _handed(one) if one.resource else _started(one),
        ),
        j.AllocationGrown: ("job.grown", lambda one: _shares(one.added)),
        j.AllocationShrunk: ("job.shrunk", lambda one: _shares(one.removed)),
        j.AllocationReleased: ("job.detached", _nothing),
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
        e.JobPlaced: ("job.placed", lambda one: {"resource": one.resource}),
        sj.JobSuspending: ("job.suspending", _standing(JobState.SUSPENDING)),
        sj.JobSuspended: ("job.suspended", _standing(JobState.SUSPENDED)),
        sj.JobResuming: ("job.resuming", _standing(JobState.RESUMING)),
        sj.JobResumed: ("job.resumed", lambda one: {"state": RUNNING, **_shares(one.allocation)}),
        e.BankNoted: ("job.bank", _nothing),
        j.ProgressSet: ("job.progress", lambda one: {"percent": one.percent}),
        j.InstancesStaging: ("task.staging", _staging),
        j.InstancesStarted: ("task.started", lambda one: {"tasks": _started_tasks(one)}),
        j.InstancesEnded: ("task.ended", lambda one: {"tasks": _ended_tasks(one)}),
        j.InstancesCanceled: ("task.canceled", _nothing),
        j.TasksCanceled: ("job.tasks_canceled", _nothing),
        j.InstancesRequeued: ("task.requeued", _nothing),
        j.InstancesHeld: ("task.held", _nothing),
        j.InstancesReleased: ("task.released", _nothing),
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
        e.UserGroupsSet: ("users.groups_set", _nothing),
        rc.RecurringJobSet: ("recurring.set", _recurring),
        rc.RecurringJobRemoved: ("recurring.removed", lambda one: {"recurring": one.number}),
        rc.RecurringJobRan: ("recurring.ran", _recurring_run),
        rc.RecurringTimeSkipped: ("recurring.skipped", _recurring_skip),
        e.ReservationCreated: ("reservation.created", _reservation),
        e.ReservationModified: ("reservation.modified", _reservation),
        e.ReservationCanceled: ("reservation.canceled", _named),
        e.ReservationEnded: ("reservation.ended", _named),
        e.ResourceSet: ("resource.set", lambda one: {"name": one.resource.name}),
        e.ResourceRemoved: ("resource.removed", _named),
        **ELASTIC_EVENTS,
        e.TemplateSet: ("template.set", lambda one: {"name": decode_template(one.template).name}),
        e.TemplateRemoved: ("template.removed", _named),
        e.JobsPurged: ("jobs.purged", lambda one: {"jobs": list(one.jobs)}),
        e.StandbyAdmitted: ("standby.admitted", _standby),
        e.StandbyRemoved: ("standby.removed", _named),
        e.HeadTakenOver: ("head.taken_over", _standby),
    }
)
"""The type of each event that clients get, and its data."""

INTERNAL_EVENTS: Final[Mapping[type, str]] = MappingProxyType(
    {
        j.InstancesDispatched: "a step between two nodes: task.started follows",
        j.InstancesStopping: "task.ended follows",
        e.InstancesHanded: "a step at a resource: task.started follows",
        j.NodePrepared: "a step of the start: task.started follows",
        j.NodesCleaning: "a step of the end: job.shrunk or job.ended follows",
        sj.ProcessesStopped: "a step of suspending: job.suspended follows",
        e.NodeInvited: "access; it is in the audit log",
        e.NodeKeyPinned: "access; it is in the audit log",
        e.LoginOffered: "access; it is in the audit log",
        e.TokenCreated: "access; it is in the audit log",
        e.TokenUsed: "access; it is in the audit log",
        e.TokenRevoked: "access; it is in the audit log",
        e.ClockSet: "of the head's clock",
        e.JobIdsSkipped: "of the restore",
        rc.RecurringTableSet: "recurring.set and recurring.removed of its entries follow",
        e.RequestCarriedOut: "the request has its answer",
    }
)
"""The events that clients are not told of, and why."""


OwnerOf = Callable[[int], str]
ObjectOf = Callable[[int, Any, OwnerOf], EventObject]
"""Returns the object of an event of one type: of its number, itself, and what gives the owner of a job."""


# Fields are passed by position: names take longer than all the rest, and streams need thousands a second.


def _of_tasks(kind: str, changes_of: Callable[[Any], list[TaskChange]]) -> ObjectOf:
    """Return what makes the objects of the most frequent events: no sentence, no `by`."""

    def made(number: int, event: JobEvent, owner: OwnerOf) -> EventObject:
        job = event.job
        changes = changes_of(event)
        return EventObject(number, kind, event.at, UNSET, job, owner(job), UNSET, UNSET, changes)

    return made


def _of_job(kind: str, data_of: Callable[[Any], Data]) -> ObjectOf:
    """Return what makes the objects of frequent events of jobs, whose data is a state or nodes."""

    def made(number: int, event: JobEvent, owner: OwnerOf) -> EventObject:
        job, text, get = event.job, event_sentence(event) or UNSET, data_of(event).get
        by = getattr(event, "by", UNSET) or UNSET
        state, nodes = get("state", UNSET), get("nodes", UNSET)
        return EventObject(number, kind, event.at, text, job, owner(job), state, by, UNSET, nodes)

    return made


def _of_start(kind: str, data_of: Callable[[Any], Data]) -> ObjectOf:
    to_node, elsewhere = _of_job(kind, data_of), _of_others(kind, data_of)

    def made(number: int, event: j.JobStarted, owner: OwnerOf) -> EventObject:
        return (elsewhere if event.resource else to_node)(number, event, owner)

    return made


def _of_others(kind: str, data_of: Callable[[Any], Data]) -> ObjectOf:
    """Return what makes the objects of all other events, whatever their data."""

    def made(number: int, event: e.Event, owner: OwnerOf) -> EventObject:
        data, text = dict(data_of(event)), ""
        if isinstance(event, JobEvent):
            text = event_sentence(event)
            data |= {"job": event.job, "owner": owner(event.job)}
        elif node := e.node_of(event):
            text = next((sentence for _, sentence in node_sentences([event])), "")
            data["node"] = node
        if by := getattr(event, "by", ""):
            data["by"] = by
        return EventObject(number, kind, event.at, text or UNSET, **data)

    return made


_FREQUENT: Final[Mapping[type, Callable[[str, Callable[[Any], Data]], ObjectOf]]] = MappingProxyType(
    {
        j.JobCreated: _of_job,
        j.JobSubmitted: _of_job,
        j.JobStarted: _of_start,
        j.InstancesStarted: lambda kind, _: _of_tasks(kind, _started_tasks),
        j.InstancesEnded: lambda kind, _: _of_tasks(kind, _ended_tasks),
        j.AllocationShrunk: _of_job,
        j.JobEnded: _of_job,
    }
)
OBJECTS: Final[Mapping[type, ObjectOf]] = MappingProxyType(
    {event: _FREQUENT.get(event, _of_others)(kind, data_of) for event, (kind, data_of) in EVENT_TYPES.items()}
)
"""What makes the objects of each type: chosen once."""
