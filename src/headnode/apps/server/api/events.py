"""The verbs `events` and `watch_events`: what happens in the cluster, as objects."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

from msgspec import UNSET

from headnode.apps.server.api.elastic import ELASTIC_EVENTS
from headnode.apps.server.api.job_views import event_sentence
from headnode.apps.server.api.nodes import node_sentences
from headnode.apps.server.api.streams import description_bytes
from headnode.apps.server.api.verbs import READS, verb
from headnode.apps.server.api.watch import WatchingClient, all_instances, state_changes
from headnode.apps.server.job_lookup import JobLookup
from headnode.apps.server.server_context import ServerContext
from headnode.core.formats.text.source_text import nearest_name
from headnode.core.model.bounds import PAGE_BYTES
from headnode.core.model.errors import BadRequest, WrongState
from headnode.core.model.quantities import JobId
from headnode.core.model.template import decode_template
from headnode.core.model.user import User
from headnode.core.state import events as e
from headnode.core.state import job_events as j
from headnode.core.state.events import Event
from headnode.core.state.job_events import JobEvent, NodeCores
from headnode.core.state.transitions import JobState
from headnode.protocol.event_answers import (
    EventObject,
    EventsAnswer,
    EventsRequest,
    JobStatesAnswer,
    JobStatesRequest,
    TaskChange,
)

Data = dict[str, Any]


def _started(one: j.JobStarted) -> Data:
    return {"state": RUNNING, **_shares(one.allocation)}


def _handed(one: j.JobStarted) -> Data:
    """Return what is told of a job that a resource has: nothing of it runs yet."""
    return {"state": QUEUED, "resource": one.resource}


def _shares(place: NodeCores) -> Data:
    return {"nodes": {node: len(numbers) for node, numbers in place}}


def _begun(event: j.InstancesStarted) -> Data:
    return {"tasks": [TaskChange(one.task, one.instance, "running") for one in event.started]}


def _staging(event: j.InstancesStaging) -> Data:
    words = {"in": "staging in", "out": "staging out", "ready": "staged in"}
    return {"tasks": [TaskChange(one.task, one.instance, words[one.direction]) for one in event.staging]}


def _ended(event: j.InstancesEnded) -> Data:
    return {"tasks": [_change(one) for one in event.ended]}


def _change(one: j.InstanceEnd) -> TaskChange:
    message = one.outcome.message or UNSET
    return TaskChange(one.task, one.instance, one.state, one.node, one.outcome.exit_code, message)


def _job(**constant: Any) -> Callable[[Any], Data]:
    return lambda _: constant


def _standing(state: JobState) -> Callable[[Any], Data]:
    """Return what is told of a suspended job; one that only waits for its files has not stopped running."""
    return lambda one: {"state": RUNNING if one.staging else state.value}


def _parameter(event: e.ParameterSet) -> Data:
    return {"name": event.name, "value": event.value}


def _reservation(event: "e.ReservationCreated | e.ReservationModified") -> Data:
    return {"name": event.reservation.name}


def _named(event: Any) -> Data:
    return {"name": event.name}


def _nothing(_: object) -> Data:
    return {}


QUEUED, RUNNING = JobState.QUEUED.value, JobState.RUNNING.value

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
        j.JobStarted: ("job.started", lambda one: _handed(one) if one.resource else _started(one)),
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
        j.JobSuspending: ("job.suspending", _standing(JobState.SUSPENDING)),
        j.JobSuspended: ("job.suspended", _standing(JobState.SUSPENDED)),
        j.JobResuming: ("job.resuming", _standing(JobState.RESUMING)),
        j.JobResumed: (
            "job.resumed",
            lambda one: {"state": RUNNING, **_shares(one.allocation)},
        ),
        e.BankNoted: ("job.bank", _nothing),
        j.ProgressSet: ("job.progress", lambda one: {"percent": one.percent}),
        j.InstancesStaging: ("task.staging", _staging),
        j.InstancesStarted: ("task.started", _begun),
        j.InstancesEnded: ("task.ended", _ended),
        j.InstancesCanceled: ("task.canceled", _nothing),
        j.TasksCanceled: ("job.tasks_canceled", _nothing),
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
        e.ResourceSet: ("resource.set", lambda one: {"name": one.resource.name}),
        e.ResourceRemoved: ("resource.removed", _named),
        **ELASTIC_EVENTS,
        e.TemplateSet: ("template.set", lambda one: {"name": decode_template(one.template).name}),
        e.TemplateRemoved: ("template.removed", _named),
    }
)
"""The type of each event that clients are told of, and its data."""

INTERNAL_EVENTS: Final[Mapping[type, str]] = MappingProxyType(
    {
        j.InstancesDispatched: "a step between two nodes: task.started follows",
        j.InstancesStopping: "task.ended follows",
        e.InstancesHanded: "a step at a resource: task.started follows",
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


MOST_EVENTS: Final = 1_000  # in one answer
MOST_SEEN: Final = 5_000  # events that are looked at for one answer
MOST_OWNERS: Final = 65_536  # jobs whose owners are remembered: those that are over are in the archive
BETWEEN_ANSWERS: Final = 0.1  # seconds
LONGEST_SILENCE: Final = 15.0  # seconds; then an answer without events shows that the head is there

Numbered = tuple[int, Event]


class EventPages:
    """The events that a client asked for, page by page."""

    def __init__(self, context: ServerContext, request: EventsRequest) -> None:
        """Begin where the request says.

        Raises:  BadRequest ``event-type``; WrongState ``events-gone`` for a number that is not known here.
        """
        self._context = context
        self._limit = min(max(1, request.limit), MOST_EVENTS)
        self._fits = _condition(context, request)
        newest = context.engine.number
        self.after = newest if request.after is None else request.after
        if not 0 <= self.after <= newest:
            raise WrongState(
                code="events-gone",
                what=f"there is no event {self.after}: the newest is {newest}",
                fix="the cluster was restored or is another one: begin anew, without `after`",
            )
        self._skip_to_jobs(request.jobs)

    @property
    def at_end(self) -> bool:
        """Whether every event so far was looked at."""
        return self.after >= self._context.engine.number

    def next(self) -> EventsAnswer:
        """Return the next page.

        Raises:  Unavailable ``journal-damaged``.
        """
        chosen: list[EventObject] = []
        read = 0
        for number, event in self._following():
            self.after = number
            if (found := self._fits(number, event)) is not None:
                chosen.append(found)
            read += description_bytes(event)
            if len(chosen) == self._limit or read > PAGE_BYTES.most:
                break
        return EventsAnswer(chosen, self.after, self._context.engine.number)

    def _following(self) -> Iterable[Numbered]:
        recent = self._context.feed.after(self.after)
        if recent is None:
            recent = self._context.engine.journal.replay(self.after)
        return islice(recent, MOST_SEEN)

    def _skip_to_jobs(self, jobs: Sequence[int]) -> None:
        """Leave out the events before the first of these jobs, which are those of others."""
        spans = [self._context.lookups.archive.event_span(JobId(job)) for job in jobs]
        first = [span[0] for span in spans if span is not None]
        if jobs and len(first) == len(jobs):
            self.after = max(self.after, min(first) - 1)


def _condition(context: ServerContext, request: EventsRequest) -> Callable[[int, Event], EventObject | None]:
    """Return what gives the object of an event that the request asks for, None for another."""
    types = _types_named(request.types)
    jobs, owners = frozenset(request.jobs), _Owners(context.lookups)

    def fits(number: int, event: Event) -> EventObject | None:
        owners.note(event)
        if type(event) not in types:
            return None
        if jobs or request.owner:
            if not isinstance(event, JobEvent) or (jobs and event.job not in jobs):
                return None
            if request.owner and owners.of(event.job) != request.owner:
                return None
        return event_object(number, event, owners.of)

    return fits


class _Owners:
    """The owners of jobs.  Events tell them: a job may be in the archive when its events are shown."""

    def __init__(self, lookups: JobLookup) -> None:
        self._lookups, self._known = lookups, dict[int, str]()

    def note(self, event: Event) -> None:
        """Learn the owner that an event names."""
        if type(event) is j.JobCreated or type(event) is j.JobOwnerChanged:
            self._remember(event.job, event.owner)

    def of(self, job: int) -> str:
        """Return the owner of a job; "" if the job is not known."""
        if job not in self._known:
            record = self._lookups.record(job)
            self._remember(job, record.owner if record is not None else "")
        return self._known[job]

    def _remember(self, job: int, owner: str) -> None:
        if len(self._known) >= MOST_OWNERS:
            del self._known[next(iter(self._known))]
        self._known[job] = owner


def _types_named(names: Sequence[str]) -> frozenset[type]:
    """Return the events of these types; all when none is named.

    Raises:  BadRequest ``event-type``.
    """
    if not names:
        return frozenset(EVENT_TYPES)
    known = {kind for kind, _ in EVENT_TYPES.values()}
    known |= {kind.partition(".")[0] for kind in known}
    for name in names:
        if name not in known:
            close = nearest_name(name, sorted(known))
            raise BadRequest(
                code="event-type",
                what=f"there is no event of type {name[:64]!r}",
                fix=f"did you mean {close!r}?" if close else "see docs/contracts/01-local-protocol.md",
                path=("types",),
            )
    wanted = set(names)
    return frozenset(
        event for event, (kind, _) in EVENT_TYPES.items() if wanted & {kind, kind.partition(".")[0]}
    )


@verb(READS)
async def events(context: ServerContext, by: User, request: EventsRequest) -> EventsAnswer:  # noqa: ARG001
    """Show a page of events, oldest first.  An answer looks at no more than 5,000, and may have none."""
    return EventPages(context, request).next()


@verb(READS)
async def watch_events(
    context: ServerContext, by: WatchingClient, request: EventsRequest
) -> AsyncGenerator[EventsAnswer, None]:
    """Show events as they happen, at most ten times a second, until the client disconnects.

    First come those after `after`.  An answer without events comes at once, and after 15 quiet seconds.
    """
    pages = EventPages(context, request)
    with context.feed.following() as follower:
        told = False  # that the head has begun
        while True:
            by.user()  # a token may have been revoked meanwhile
            follower.clear()
            answer = pages.next()
            context.feed.seen(follower, pages.after)
            if answer.events or not told:
                yield answer
                told = True
            if not pages.at_end:
                await by.turn()
                continue
            try:
                async with asyncio.timeout(LONGEST_SILENCE):
                    await follower.wait()
            except TimeoutError:
                told = False
            else:
                await asyncio.sleep(BETWEEN_ANSWERS)  # collect what belongs together
                await by.turn()


def _state_by(event: Event) -> str:
    """Return the state of the job after an event; empty if the event changes none."""
    told = EVENT_TYPES.get(type(event)) if isinstance(event, JobEvent) else None
    return "" if told is None else told[1](event).get("state", "")


@verb(READS)
async def job_states(context: ServerContext, by: User, request: JobStatesRequest) -> JobStatesAnswer:  # noqa: ARG001
    """Show when a job and the instances of its tasks came into each state, and why, oldest first."""
    known = context.lookups.job(request.job)
    job, whole = known.record.id, all_instances(known.spec)
    limit = min(max(1, request.limit), MOST_EVENTS)
    found = context.lookups.archive.job_events(job, request.after, limit)
    changes = [
        change
        for number, event in found
        for change in state_changes(number, event, _state_by(event), whole)
        if request.task is None or change.task == request.task
    ]
    last = found[-1][0] if found else request.after
    more = bool(found) and bool(context.lookups.archive.job_events(job, last, 1))
    return JobStatesAnswer(changes, last, more)
