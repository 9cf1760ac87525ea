"""The verbs `events` and `watch_events`: what happens in the cluster, as objects."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from itertools import islice
from typing import Final

from headnode.apps.server.api.event_types import EVENT_TYPES, OBJECTS
from headnode.apps.server.api.streams import DESCRIBED, description_bytes
from headnode.apps.server.api.verbs import READS, verb
from headnode.apps.server.api.watch import WatchingClient, all_instances, state_changes
from headnode.apps.server.job_lookup import JobLookup
from headnode.apps.server.server_context import ServerContext
from headnode.core.formats.text.source_text import nearest_name
from headnode.core.model.bounds import EVENT_PAGE, PAGE_BYTES
from headnode.core.model.errors import BadRequest, WrongState
from headnode.core.model.quantities import JobId
from headnode.core.model.user import User
from headnode.core.state import job_events as j
from headnode.core.state.events import Event
from headnode.core.state.job_events import JobEvent
from headnode.protocol.event_answers import (
    EventObject,
    EventsAnswer,
    EventsRequest,
    JobStatesAnswer,
    JobStatesRequest,
)

MAX_SEEN: Final = 5_000  # events that are looked at for one answer
MAX_OWNERS: Final = 65_536  # jobs whose owners are remembered: those that are over are in the archive
BETWEEN_ANSWERS: Final = 0.1  # seconds
MAX_SILENCE: Final = 15.0  # seconds; then an answer without events shows that the head is there

Numbered = tuple[int, Event]


class EventPages:
    """The events that a client asked for, page by page."""

    def __init__(self, context: ServerContext, request: EventsRequest) -> None:
        """Begin where the request says.

        Raises:  BadRequest ``event-type``; WrongState ``events-gone`` for a number that is not known here.
        """
        self._context = context
        self._limit = min(max(1, request.limit), EVENT_PAGE.most)
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
            if (fitting := self._fits(number, event)) is not None:
                chosen.append(fitting)
            if type(event) in DESCRIBED:
                read += description_bytes(event)
            if len(chosen) == self._limit or read > PAGE_BYTES.most:
                break
        return EventsAnswer(chosen, self.after, self._context.engine.number)

    def _following(self) -> Iterable[Numbered]:
        recent = self._context.feed.after(self.after)
        if recent is None:
            recent = self._context.engine.journal.replay(self.after)
        return islice(recent, MAX_SEEN)

    def _skip_to_jobs(self, jobs: Sequence[int]) -> None:
        """Leave out the events before the first of these jobs, which are those of others."""
        spans = [self._context.lookups.archive.event_span(JobId(job)) for job in jobs]
        first = [span[0] for span in spans if span is not None]
        if jobs and len(first) == len(jobs):
            self.after = max(self.after, min(first) - 1)


def _condition(context: ServerContext, request: EventsRequest) -> Callable[[int, Event], EventObject | None]:
    """Return what gives the object of an event that the request asks for, None for another."""
    objects = {event: OBJECTS[event] for event in _types_named(request.types)}
    jobs, owners, narrow = (
        frozenset(request.jobs),
        _Owners(context.lookups),
        bool(request.jobs or request.owner),
    )

    def fits(number: int, event: Event) -> EventObject | None:
        kind = type(event)
        if kind in _NAMING_OWNERS:
            owners.note(event)
        object_of = objects.get(kind)
        if object_of is None:
            return None
        if narrow:
            if not isinstance(event, JobEvent) or (jobs and event.job not in jobs):
                return None
            if request.owner and owners.of(event.job) != request.owner:
                return None
        return object_of(number, event, owners.of)

    return fits


_NAMING_OWNERS: Final = frozenset({j.JobCreated, j.JobOwnerChanged})


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
        known = self._known.get(job)
        if known is not None:
            return known
        record = self._lookups.record(job)
        owner = record.owner if record is not None else ""
        self._remember(job, owner)
        return owner

    def _remember(self, job: int, owner: str) -> None:
        if len(self._known) >= MAX_OWNERS:
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
        began = False  # that the head has begun
        while True:
            by.user()  # a token may have been revoked meanwhile
            follower.clear()
            answer = pages.next()
            context.feed.seen(follower, pages.after)
            if answer.events or not began:
                yield answer
                began = True
            if not pages.at_end:
                await by.turn()
                continue
            try:
                async with asyncio.timeout(MAX_SILENCE):
                    await follower.wait()
            except TimeoutError:
                began = False
            else:
                await asyncio.sleep(BETWEEN_ANSWERS)  # collect what belongs together
                await by.turn()


def _state_by(event: Event) -> str:
    """Return the state of the job after an event; empty if the event changes none."""
    event_type = EVENT_TYPES.get(type(event)) if isinstance(event, JobEvent) else None
    return "" if event_type is None else event_type[1](event).get("state", "")


@verb(READS)
async def job_states(context: ServerContext, by: User, request: JobStatesRequest) -> JobStatesAnswer:  # noqa: ARG001
    """Show when a job and the instances of its tasks came into each state, and why, oldest first."""
    known = context.lookups.job(request.job)
    job, whole = known.record.id, all_instances(known.spec)
    limit = min(max(1, request.limit), EVENT_PAGE.most)
    events = context.lookups.archive.job_events(job, request.after, limit)
    changes = [
        change
        for number, event in events
        for change in state_changes(number, event, _state_by(event), whole)
        if request.task is None or change.task == request.task
    ]
    last = events[-1][0] if events else request.after
    more = bool(events) and bool(context.lookups.archive.job_events(job, last, 1))
    return JobStatesAnswer(changes, last, more)
