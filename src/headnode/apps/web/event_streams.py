"""Event streams: Server-Sent Events of CloudEvents, whose ids are the numbers of the events.

Source:  HTML Living Standard, "Server-sent events"; docs/contracts/05-rest-api.md, "Event streams".
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterable
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from headnode.apps.web.event_hub import EventBatch, EventHub, EventQueue, StreamedEvent, pieces_of
from headnode.apps.web.gateway import Gateway
from headnode.apps.web.head_client import WebCaller
from headnode.apps.web.http_server import ChunkedStream, SharedChunk
from headnode.apps.web.problems import problem_of, problem_response, wrong
from headnode.core.model.bounds import LIST
from headnode.core.model.errors import HeadnodeError
from headnode.protocol.event_answers import EventObject, EventsAnswer, EventsRequest
from headnode.protocol.rest_routes import PREFIX

STREAM_PATH: Final = f"{PREFIX}/event-stream"
PAGE_CHANGES_PATH: Final = "/news"
BETWEEN_NEWS: Final = 1.0  # seconds, at least
SILENCE: Final = 15.0  # seconds after which a comment shows that the stream is open
BETWEEN_CHECKS: Final = 60.0  # seconds after which it is checked that the user is still one
REPLAY_PAGE: Final = 1000  # events
ASKING: Final = 8  # streams that ask the head at a time: after a restart all come back at once
_NUMBER: Final = re.compile(r"[0-9]{1,15}")


def stream_routes(gateway: Gateway) -> list[BaseRoute]:
    """Return the address of event streams."""
    hub, asking = EventHub(gateway.head), asyncio.Semaphore(ASKING)

    async def stream(request: Request) -> Response:
        try:
            caller = gateway.identity.caller(request)
            wanted = _wanted(request)
            check = EventsRequest(wanted.after, wanted.jobs, wanted.owner, wanted.types, limit=1)
            async with asking:
                await gateway.head.ask(caller, "events", check, EventsAnswer)
        except HeadnodeError as error:
            return problem_response(error)
        return ChunkedStream(request, EventStream(gateway, hub, asking, request, caller, wanted).frames())

    async def news(request: Request) -> Response:
        try:
            caller = gateway.identity.caller(request)
            wanted = _wanted(request)
            async with asking:
                await gateway.head.admit(caller)
        except HeadnodeError as error:
            return problem_response(error)
        return ChunkedStream(request, PageChanges(gateway, hub, asking, request, caller, wanted).frames())

    return [Route(STREAM_PATH, stream, methods=["GET"]), Route(PAGE_CHANGES_PATH, news, methods=["GET"])]


def _wanted(request: Request) -> EventsRequest:
    """Return what events a stream is to have.

    Raises:  BadRequest ``query``.
    """
    query = request.query_params
    for name in query:
        if name not in ("after", "job", "owner", "type"):
            raise wrong("query", f"there is no parameter {name[:64]!r}", "use after, job, owner and type")
    jobs, types = query.getlist("job"), query.getlist("type")
    if not all(map(_NUMBER.fullmatch, jobs)) or len(jobs) + len(types) > LIST.most:
        raise wrong("query", "`job` is not the id of a job", "write job=7&job=8", ("job",))
    after = _after(request.headers.get("last-event-id") or query.get("after", "now"))
    return EventsRequest(after, tuple(map(int, jobs)), query.get("owner", ""), tuple(types), REPLAY_PAGE)


def _after(text: str) -> int | None:
    if text == "now":
        return None
    if text == "beginning":
        return 0
    if not _NUMBER.fullmatch(text):
        raise wrong(
            "query", f"{text[:64]!r} is not the id of an event", "use an id, `now` or `beginning`", ("after",)
        )
    return int(text)


class EventStream:
    """One stream: the past from the head, then what comes; each event once."""

    def __init__(
        self,
        gateway: Gateway,
        hub: EventHub,
        asking: asyncio.Semaphore,
        request: Request,
        caller: WebCaller,
        wanted: EventsRequest,
    ) -> None:
        """`asking`: room for questions of all streams, which may come back all at once."""
        self._asking = asking
        self._gateway, self._hub, self._request = gateway, hub, request
        self._caller, self._wanted = caller, wanted
        self._jobs, self._types = frozenset(wanted.jobs), frozenset(wanted.types)
        self._checked = time.monotonic()

    async def frames(self) -> AsyncIterator[bytes | SharedChunk]:
        """Yield the frames of the stream until the client has gone."""
        try:
            async with self._hub.following(self._caller) as queue:
                yield b": headnode\n\n"
                begin = queue.position or 0
                if self._wanted.after is not None:
                    async for frame in self._past(self._wanted.after, begin):
                        yield frame
                async for piece in self._live(queue, max(begin, self._wanted.after or 0)):
                    yield piece
        except HeadnodeError as error:
            yield b"event: end\ndata: " + msgspec.json.encode(problem_of(error)) + b"\n\n"

    async def _past(self, after: int, until: int) -> AsyncIterator[bytes]:
        """Yield the events up to a number."""
        while after < until:
            wanted = msgspec.structs.replace(self._wanted, after=after)
            async with self._asking:
                page = await self._gateway.head.ask(self._caller, "events", wanted, EventsAnswer)
            events = [StreamedEvent(one, self._hub.cluster) for one in page.events if one.number <= until]
            for piece in pieces_of(events):
                yield piece
            after = page.after

    async def _live(self, queue: EventQueue, after: int) -> AsyncIterator[bytes | SharedChunk]:
        """Yield the events that come.

        Raises:  NotAllowed when the user has no right any more; the refusal of the head.
        """
        while True:
            batches = await queue.take(SILENCE)
            if queue.refused is not None:
                raise queue.refused
            if queue.is_behind:
                yield b"event: reset\ndata: events were left out; begin again after the last id\n\n"
                return
            await self._check()
            for batch in batches:
                for piece in self._pieces(batch, after):
                    yield piece
            if not batches:
                yield b":\n\n"

    def _pieces(self, batch: EventBatch, after: int) -> Iterable[bytes | SharedChunk]:
        """Return the bytes of the events in a batch that the stream is to have."""
        if batch.events[0].event.number > after and not (self._types or self._jobs or self._wanted.owner):
            return batch.pieces()
        return pieces_of([one for one in batch.events if one.event.number > after and self._fits(one.event)])

    async def _check(self) -> None:
        """See now and then whether the user is still logged in, and known to the head."""
        if time.monotonic() - self._checked < BETWEEN_CHECKS:
            return
        self._checked = time.monotonic()
        async with self._asking:
            await self._gateway.head.admit(self._gateway.identity.caller(self._request))

    def _fits(self, event: EventObject) -> bool:
        """Whether the stream is to have an event, as the head decides it for the past."""
        if self._types and not self._types & {event.type, event.type.partition(".")[0]}:
            return False
        if self._jobs and event.job not in self._jobs:
            return False
        return not self._wanted.owner or event.owner == self._wanted.owner


class PageChanges(EventStream):
    """The stream of a page of the console: it says that something has changed, at most once a second.

    Pages fetch themselves again, so that they need no events; a burst of thousands costs a browser one line.
    """

    async def frames(self) -> AsyncIterator[bytes | SharedChunk]:
        """Yield the frames of the stream until the browser has gone."""
        try:
            async with self._hub.following(self._caller) as queue:
                yield b"retry: 2000\n: headnode\n\n"
                while not queue.is_behind:
                    batches = await queue.take(SILENCE)
                    if queue.refused is not None:
                        raise queue.refused
                    await self._check()
                    if any(self._fits(one.event) for batch in batches for one in batch.events):
                        yield b"data: changed\n\n"
                        await asyncio.sleep(BETWEEN_NEWS)
                    elif not batches:
                        yield b":\n\n"
        except HeadnodeError as error:
            yield b"event: end\ndata: " + msgspec.json.encode(problem_of(error)) + b"\n\n"
