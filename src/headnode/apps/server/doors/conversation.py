"""The protocol of clients on a stream: JSON objects, requests answered in order.

It is the same for all doors with a stream.  They differ in how they identify the user, and may differ in the
form of messages on the stream (`MessageForm`).
Source:  docs/contracts/01-local-protocol.md.
"""

import asyncio
import contextlib
import select
from functools import partial
from typing import Any, Protocol

import msgspec

from headnode.adapters.wire.frame_codec import frame
from headnode.adapters.wire.frames import arrived_frame, has_arrived, read_rest, read_size
from headnode.apps.server.api.pipeline import Caller, ClientSession, Updates, client_session
from headnode.apps.server.api.streams import MAX_FRAME, ClientStream, StreamHandler
from headnode.apps.server.api.verbs import decoded_size, encode_answer, refusal, submits_new_job
from headnode.apps.server.server_context import ServerContext
from headnode.core.model import bounds as b
from headnode.core.model.bounds import UNREADABLE
from headnode.core.model.errors import BadRequest, HeadnodeError
from headnode.protocol.answers import VerbAnswer
from headnode.protocol.stream_frames import ClientFrame, HeadFrame

MAX_REQUEST = b.REQUEST.most  # bytes
MAX_TOGETHER = 64  # submissions of a connection that are carried out together: others wait about 10 ms
HANG_UP_TIME = 300.0  # seconds for a client to read the last answers, for example in a pager

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class MessageForm(Protocol):
    """How messages are separated on a stream."""

    async def next_size(self, most: int) -> int | None:
        """Wait for the next message; return how many bytes it has at most, or None when the stream has ended.

        What is read here is in memory without being counted: at most `SMALL_REQUEST` bytes.
        Raises:  BadRequest ``frame`` for more than `most`, or an end inside of a message; ConnectionError.
        """

    async def read(self, size: int) -> bytes:
        """Return this message.

        Raises:  BadRequest ``frame``; ConnectionError.
        """

    def arrived(self, most: int) -> bytes | None:  # noqa: ARG002
        """Return the next message, without reading it, if all of it is here and it has at most so many bytes.

        A form that does not know returns None; then requests are carried out one after the other.
        """
        return None

    def is_here(self, size: int) -> bool:  # noqa: ARG002
        """Return whether a message of this size can be read without waiting, as far as the form knows."""
        return False

    def written(self, message: bytes) -> bytes:
        """Return a message as it is written."""


class LengthPrefixed(MessageForm):
    """Messages behind their length."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def next_size(self, most: int) -> int | None:
        return await read_size(self._reader, most)

    async def read(self, size: int) -> bytes:
        return await read_rest(self._reader, size)

    def arrived(self, most: int) -> bytes | None:
        return arrived_frame(self._reader, most)

    def is_here(self, size: int) -> bool:
        return has_arrived(self._reader, size)

    def written(self, message: bytes) -> bytes:
        return frame(message)


async def serve_client(
    context: ServerContext,
    caller: Caller,
    streams: Streams,
    greeting: dict[str, Any] | None = None,
    form: MessageForm | None = None,
) -> None:
    """Answer the requests of a client on a stream until it goes away; `greeting` tells it that it may ask.

    Messages stand behind their length, if they have no other `form`.

    Raises:  BadRequest ``frame``; NotAllowed if the client has no valid user;
             Unavailable ``too-many-connections``; ConnectionError; TimeoutError if the client is too slow.
    """
    with client_session(context, caller, partial(has_hung_up, streams[1])) as session:
        if greeting is not None:
            send(streams[1], greeting, form)
        await ServedConversation(session, streams, form or LengthPrefixed(streams[0])).go_on()


def has_hung_up(writer: asyncio.StreamWriter) -> bool:
    """Return whether a client has closed its connection, so that nobody reads an answer.

    The end of its requests is not that: it may still read.
    """
    if writer.is_closing():
        return True
    connection = writer.get_extra_info("socket")
    look = select.poll()
    look.register(connection.fileno(), 0)  # POLLHUP and POLLERR are always told
    return bool(look.poll(0))


class ServedConversation:
    """One client's requests."""

    def __init__(self, session: ClientSession, streams: Streams, form: MessageForm) -> None:
        self._session, self._form = session, form
        self._reader, self._writer = streams
        self._ahead: asyncio.Task[int | None] | None = None  # reads the length of the next request

    async def go_on(self) -> None:
        """Answer requests until the client goes away; what it had still asked for is dropped.

        Raises:  BadRequest ``frame``; ConnectionError; TimeoutError for a client that is too slow.
        """
        try:
            await self._serve()
        finally:
            if self._ahead is not None:
                self._ahead.cancel()

    async def _serve(self) -> None:
        while (size := await self._next_size()) is not None:
            async with self._session.room_for(size):
                stream = await self._answer_next(await self._read(size))  # nothing here keeps the bytes
            if stream is not None:  # it takes the connection over, to its end
                client = SocketStream(self._reader, self._writer, self._form)
                await stream(client)
                await client.let_go()
                return
            if self._form.is_here(1):  # it waits for nothing, but others may wait for it
                await asyncio.sleep(0)

    async def _next_size(self) -> int | None:
        """Return the length of the next request; None when the client has gone.

        Raises:  BadRequest ``frame``; ConnectionError.
        """
        ahead, self._ahead = self._ahead, None
        return await (self._form.next_size(MAX_REQUEST) if ahead is None else ahead)

    async def _read(self, size: int) -> bytes:
        """Return the request that has begun.

        Raises:  BadRequest ``frame``; ConnectionError; TimeoutError for a client that is too slow.
        """
        if self._form.is_here(size):  # as most are: no timer for them
            return await self._form.read(size)
        async with asyncio.timeout(b.REQUEST_TIME.most):
            return await self._form.read(size)

    async def _answer_next(self, request: bytes) -> StreamHandler | None:
        """Answer a request, and if it is a submission the submissions behind it that have arrived.

        Return the conversation that follows, if one does.
        """
        if self._form.arrived(b.SMALL_REQUEST.most) is not None and submits_new_job(request):
            together = [request, *await self._more_submissions(len(request), decoded_size(request))]
            if len(together) > 1:
                del request
                await self._answer_together(together)
                return None
        answered = self._answer(request)
        del request
        return await answered

    async def _more_submissions(self, size: int, decoded: int) -> list[bytes]:
        """Return the next submissions that have arrived, as long as all of them count as one small request.

        size, decoded:  bytes of the submission before them
        """
        requests: list[bytes] = []
        while len(requests) + 1 < MAX_TOGETHER:
            ahead = self._form.arrived(b.SMALL_REQUEST.most - size)
            if ahead is None or not submits_new_job(ahead):
                break
            size, decoded = size + len(ahead), decoded + decoded_size(ahead)
            if decoded > b.SMALL_DECODED.most:
                break
            await self._form.next_size(MAX_REQUEST)
            requests.append(await self._form.read(len(ahead)))
        return requests

    async def _answer_together(self, requests: list[bytes]) -> None:
        """Carry out submissions in their order, with one commit if possible; send the answers in that order.

        Raises:  what ends the connection.
        """
        begun = [self._session.carry_out(request) for request in requests]
        requests.clear()
        answers = []
        for reply in await asyncio.gather(*begun, return_exceptions=True):
            if isinstance(reply, HeadnodeError):
                answers.append(msgspec.json.encode(refusal(reply)))
            elif isinstance(reply, VerbAnswer):
                answers.append(encode_answer(reply))
            elif isinstance(reply, BaseException):
                raise reply
        await self._send(*answers)

    async def _answer(self, request: bytes) -> StreamHandler | None:
        """Answer one request; return the conversation that follows it, if one does."""
        carried_out = self._session.carry_out(request)
        del request
        try:
            reply = await carried_out
            if callable(reply):
                return reply
            if not isinstance(reply, VerbAnswer):
                await self._send_updates(reply)
                return None
            answer = encode_answer(reply)
        except HeadnodeError as error:
            answer = msgspec.json.encode(refusal(error))
        await self._send(answer)  # not above: what fails here would hold on to the refusal
        return None

    async def _send_updates(self, updates: Updates) -> None:
        """Send the answers of a verb that has several, as long as the client is there."""
        self._ahead = ahead = asyncio.ensure_future(self._form.next_size(MAX_REQUEST))
        async with contextlib.aclosing(updates):
            while True:
                update = asyncio.ensure_future(_next_update(updates))
                try:
                    await asyncio.wait((update, ahead), return_when=asyncio.FIRST_COMPLETED)
                    if not update.done() and not _asks_more(ahead):
                        return
                    answer = await update
                finally:
                    update.cancel()
                    await asyncio.wait((update,))
                if answer is None:
                    return
                await self._send(encode_answer(answer))

    async def _send(self, *answers: bytes) -> None:
        """Send answers, and wait until most of them is read.

        Raises:  ConnectionError; TimeoutError when it is not.
        """
        data = b"".join(map(self._form.written, answers))
        try:
            if self._writer.is_closing():
                return
            self._writer.write(data)
            if self._writer.transport.get_write_buffer_size():  # else the socket has taken all of it
                with self._session.sending(len(data)):
                    async with asyncio.timeout(b.UNREAD_TIME.most):
                        await self._writer.drain()
        finally:
            self._session.answered()


async def _next_update(updates: Updates) -> VerbAnswer | None:
    """Return the next answer; None after the last."""
    return await anext(updates, None)


def _asks_more(ahead: "asyncio.Task[int | None]") -> bool:
    """Return whether the client is there and has sent its next request already."""
    return ahead.exception() is None and ahead.result() is not None


_CLIENT_FRAMES = msgspec.json.Decoder(ClientFrame)


class SocketStream(ClientStream):
    """A client that has a stream for itself: JSON in both directions."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, form: MessageForm) -> None:
        self._reader, self._writer, self._form = reader, writer, form

    async def receive(self) -> ClientFrame | None:
        size = await self._form.next_size(MAX_FRAME)
        data = None if size is None else await self._form.read(size)
        try:
            return None if data is None else _CLIENT_FRAMES.decode(data)
        except UNREADABLE as error:
            raise BadRequest(
                code="said", what=f"this message is not possible here: {error}", fix="send in, end or window"
            ) from None

    async def send(self, frame: HeadFrame) -> None:
        if self._writer.is_closing():
            raise ConnectionResetError("the client has disconnected")
        self._writer.write(self._form.written(encode_answer(frame)))
        await self._writer.drain()

    async def let_go(self) -> None:
        """Drop what the client still says until it hangs up: closing on that would lose our last words."""
        with contextlib.suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(HANG_UP_TIME):
                while await self._reader.read(MAX_FRAME):
                    pass


def send(writer: asyncio.StreamWriter, message: dict[str, Any], form: MessageForm | None = None) -> None:
    """Send one answer, unless the client has gone."""
    if not writer.is_closing():
        data = msgspec.json.encode(message)
        writer.write(frame(data) if form is None else form.written(data))
