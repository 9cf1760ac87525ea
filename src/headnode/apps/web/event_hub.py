"""Events of the head for many streams: followed once, handed to all, without a gap when the head was away."""

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Final

import msgspec

from headnode.apps.web.head_client import HeadClient, WebCaller
from headnode.apps.web.http_server import SharedChunk
from headnode.core.model.bounds import EVENT_STREAMS, EVENT_STREAMS_OF_USER, STREAM_QUEUE
from headnode.core.model.errors import HeadnodeError, NotAllowed, Unavailable
from headnode.protocol.event_answers import EventObject, EventsAnswer, EventsRequest, cloud_event

PAGE: Final = 1000  # events in one answer of the head
BETWEEN_TRIES: Final = 0.5  # seconds, while the head is away


class StreamedEvent:
    """An event, and the frame of an event stream that it is for every client."""

    __slots__ = ("event", "frame")

    def __init__(self, event: EventObject, cluster: str) -> None:
        self.event = event
        body = msgspec.json.encode(cloud_event(event, cluster))
        self.frame = b"id: %d\nevent: %s\ndata: %s\n\n" % (event.number, event.type.encode(), body)


PIECE: Final = 64 * 1024  # bytes


def pieces_of(events: Sequence[StreamedEvent]) -> Iterator[bytes]:
    """Yield the frames of events in pieces of about `PIECE` bytes: each is read before the next is made."""
    frames: list[bytes] = []
    size = 0
    for one in events:
        frames.append(one.frame)
        size += len(one.frame)
        if size >= PIECE:
            yield b"".join(frames)
            frames, size = [], 0
    if frames:
        yield b"".join(frames)


class EventBatch:
    """Events that came together, oldest first.  Streams that want all of them share their bytes."""

    __slots__ = ("_pieces", "events")

    def __init__(self, events: list[StreamedEvent]) -> None:
        self.events = events
        self._pieces: list[SharedChunk] | None = None

    def pieces(self) -> list[SharedChunk]:
        """Return the frames of all, in pieces."""
        if self._pieces is None:
            self._pieces = [SharedChunk(piece) for piece in pieces_of(self.events)]
        return self._pieces


class EventQueue:
    """The events that one stream has not sent yet."""

    def __init__(self) -> None:
        self.position: int | None = None  # later events than this come from here; None: not known yet
        self.is_behind = False  # it has not read for too long: events are missing
        self.refused: HeadnodeError | None = None
        self._batches: deque[EventBatch] = deque()
        self._size = 0  # events in them
        self._changed = asyncio.Event()
        self._begun = asyncio.Event()

    def begin(self, position: int) -> None:
        """Later events than this one will come."""
        if self.position is None:
            self.position = position
            self._begun.set()

    async def begun(self) -> None:
        """Wait until events come, or the stream is refused."""
        await self._begun.wait()

    def put(self, batch: EventBatch) -> None:
        """Add events; drop all if the stream does not read."""
        self._size += len(batch.events)
        if self._size > STREAM_QUEUE.most:
            self.is_behind = True
            self._batches.clear()
        elif not self.is_behind:
            self._batches.append(batch)
        self._changed.set()

    def refuse(self, error: HeadnodeError) -> None:
        """End the stream."""
        self.refused = error
        self._changed.set()
        self._begun.set()

    async def take(self, timeout: float) -> list[EventBatch]:
        """Return what has come, after at most so many seconds."""
        timer = asyncio.get_running_loop().call_later(timeout, self._changed.set)
        try:  # cheaper than asyncio.timeout: hundreds of streams come here ten times a second
            await self._changed.wait()
        finally:
            timer.cancel()
        self._changed.clear()
        taken, self._size = list(self._batches), 0
        self._batches.clear()
        return taken


class EventHub:
    """Follows the head as long as there is a stream; as the user of one of the streams."""

    def __init__(self, head: HeadClient) -> None:
        self._head = head
        self._queues: dict[EventQueue, WebCaller] = {}
        self._position: int | None = None
        self._cluster = ""
        self._task: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def following(self, caller: WebCaller) -> AsyncIterator[EventQueue]:
        """Give a queue of the events that come from now on.

        Raises:  Unavailable ``too-many-streams``; the refusal of the head.
        """
        self._admit(caller)
        queue = EventQueue()
        self._queues[queue] = caller
        try:
            if self._task is None:
                self._task = asyncio.create_task(self._follow())
            if self._position is not None:
                queue.begin(self._position)
            await queue.begun()
            if queue.refused is not None:
                raise queue.refused
            yield queue
        finally:
            self._queues.pop(queue, None)
            if not self._queues and self._task is not None:
                self._task.cancel()
                self._end()

    @property
    def cluster(self) -> str:
        """The name of the cluster."""
        return self._cluster

    def _admit(self, caller: WebCaller) -> None:
        of_user = Counter(each.whose for each in self._queues.values())[caller.whose]
        if len(self._queues) >= EVENT_STREAMS.most or of_user >= EVENT_STREAMS_OF_USER.most:
            raise Unavailable(
                code="too-many-streams",
                what=f"{of_user} event streams of yours are open, {len(self._queues)} of all users",
                fix="close one: pages of one browser share a stream",
            )

    def _end(self) -> None:
        self._task, self._position = None, None

    async def _follow(self) -> None:
        while self._queues:
            caller = next(iter(self._queues.values()))
            try:
                await self._follow_as(caller)
            except Unavailable:
                await asyncio.sleep(BETWEEN_TRIES)
            except NotAllowed as error:
                self._refuse(error, caller)
            except HeadnodeError as error:  # such as a number of before a restore
                self._refuse(error)
        self._end()

    async def _follow_as(self, caller: WebCaller) -> None:
        """Hand out what the head tells a user, until it ends.

        Raises:  HeadnodeError.
        """
        self._cluster = (await self._head.ask_plain(caller, "ping"))["cluster"]
        request = EventsRequest(after=self._position, limit=PAGE)
        async for answer in self._head.updates(caller, "watch_events", request, EventsAnswer):
            known, self._position = self._position, answer.after
            for queue in self._queues:
                queue.begin(answer.after if known is None else known)
            events = [StreamedEvent(event, self._cluster) for event in answer.events]
            batch = EventBatch(events)
            for queue in self._queues if events else ():
                queue.put(batch)

    def _refuse(self, error: HeadnodeError, only: WebCaller | None = None) -> None:
        """End the streams of a user, or all."""
        for queue, caller in list(self._queues.items()):
            if only is None or caller == only:
                del self._queues[queue]
                queue.refuse(error)
