"""The protocol of clients on a stream: length-prefixed JSON, requests answered in order.

It is the same for all doors with a stream; only how they identify the user differs.
Source:  docs/contracts/01-local-protocol.md.
"""

import asyncio
import contextlib
from typing import Any

import msgspec

from headnode.adapters.wire.frame_codec import frame
from headnode.adapters.wire.frames import read_frame, read_rest, read_size
from headnode.apps.server.api.pipeline import Caller, ClientSession, client_session
from headnode.apps.server.api.streams import LARGEST_FRAME, ClientStream, StreamHandler
from headnode.apps.server.api.verbs import encode_answer, refusal
from headnode.apps.server.server_context import ServerContext
from headnode.core.model import bounds as b
from headnode.core.model.bounds import UNREADABLE
from headnode.core.model.errors import BadRequest, HeadnodeError
from headnode.protocol.answers import VerbAnswer

LARGEST_REQUEST = b.REQUEST.most  # bytes
HANG_UP_TIME = 300.0  # seconds for a client to read the last answers, for example in a pager

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def serve_client(context: ServerContext, caller: Caller, streams: Streams) -> None:
    """Answer the requests of a client on a stream until it goes away.

    Raises:  BadRequest ``frame``; NotAllowed if the client has no valid user;
             Unavailable ``too-many-connections``; ConnectionError; TimeoutError if the client is too slow.
    """
    with client_session(context, caller, streams[1].is_closing) as session:
        await ServedConversation(session, streams).go_on()


class ServedConversation:
    """One client's requests."""

    def __init__(self, session: ClientSession, streams: Streams) -> None:
        self._session = session
        self._reader, self._writer = streams

    async def go_on(self) -> None:
        """Answer requests until the client goes away; what it had still asked for is dropped.

        Raises:  BadRequest ``frame``; ConnectionError; TimeoutError for a client that is too slow.
        """
        while (size := await read_size(self._reader, LARGEST_REQUEST)) is not None:
            async with self._session.room_for(size):
                stream = await self._answer(await self._read(size))  # no name here keeps the bytes in memory
            if stream is not None:  # it takes the connection over, to its end
                client = SocketStream(self._reader, self._writer)
                await stream(client)
                await client.let_go()
                return

    async def _read(self, size: int) -> bytes:
        """Return the request behind its length.

        Raises:  BadRequest ``frame``; ConnectionError; TimeoutError for a client that is too slow.
        """
        async with asyncio.timeout(b.REQUEST_TIME.most):
            return await read_rest(self._reader, size)

    async def _answer(self, request: bytes) -> StreamHandler | None:
        """Answer one request; return the conversation that follows it, if one does."""
        carried_out = self._session.carry_out(request)
        del request
        try:
            reply = await carried_out
            if isinstance(reply, VerbAnswer):
                await self._send(encode_answer(reply))
            elif callable(reply):
                return reply
            else:
                async with contextlib.aclosing(reply):
                    async for answer in reply:
                        await self._send(encode_answer(answer))
        except HeadnodeError as error:
            await self._send(msgspec.json.encode(refusal(error)))
        return None

    async def _send(self, answer: bytes) -> None:
        """Send one answer, and wait until most of it is read.

        Raises:  ConnectionError; TimeoutError when it is not.
        """
        if self._writer.is_closing():
            return
        data = frame(answer)
        with self._session.sending(len(data)):
            self._writer.write(data)
            async with asyncio.timeout(b.UNREAD_TIME.most):
                await self._writer.drain()
        self._session.answered()


class SocketStream(ClientStream):
    """A client that has a stream for itself: frames of JSON in both directions."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def hear(self) -> dict[str, Any] | None:
        """Return what the client says next; None when it is gone.

        Raises:  BadRequest ``frame`` or ``said``.
        """
        data = await read_frame(self._reader, LARGEST_FRAME)
        if data is None:
            return None
        try:
            said = msgspec.json.decode(data)
        except UNREADABLE as error:
            raise BadRequest(code="said", what=f"the request is not JSON:  {error}") from None
        if not isinstance(said, dict):
            raise BadRequest(code="said", what="the request is not a JSON object")
        return said

    async def say(self, **said: Any) -> None:
        """Say something, as soon as the client has read most of what was said before.

        Raises:  ConnectionError.
        """
        if self._writer.is_closing():
            raise ConnectionResetError("the client has disconnected")
        self._writer.write(frame(encode_answer(said)))
        await self._writer.drain()

    async def let_go(self) -> None:
        """Drop what the client still says until it hangs up: closing on that would lose our last words."""
        with contextlib.suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(HANG_UP_TIME):
                while await self._reader.read(LARGEST_FRAME):
                    pass


def send(writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
    """Send one answer, unless the client has gone."""
    if not writer.is_closing():
        writer.write(frame(msgspec.json.encode(message)))
