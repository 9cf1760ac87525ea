"""A connection of the gateway to the head: requests, their answers, conversations, and what goes wrong.

Source:  docs/contracts/01-local-protocol.md, "Gateways".
"""

import asyncio
import time
from pathlib import Path
from typing import Any, Final

import msgspec

from headnode.adapters.wire.frame_codec import HEADER, frame
from headnode.adapters.wire.frames import PIECE, read_frame
from headnode.adapters.wire.peers import unix_address
from headnode.apps.client.failures import refusal_in
from headnode.core.model.bounds import UNREADABLE
from headnode.core.model.errors import BadRequest, Broken, HeadnodeError, Unavailable

MAX_ANSWER: Final = 32 * 1024 * 1024  # bytes
ANSWER_TIME: Final = 60.0  # seconds that an answer may take
GRANTED: Final = b'{"ok":true'
"""How every answer begins that is no refusal."""


class HeadConnection:
    """One connection, which speaks for one user."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.used = time.monotonic()

    async def send(self, request: bytes) -> None:
        """Send a request, piece by piece: a large one is not copied into a buffer.

        Raises:  ConnectionError; TimeoutError.
        """
        async with asyncio.timeout(ANSWER_TIME):
            if len(request) <= PIECE:
                self._writer.write(frame(request))
            else:
                self._writer.write(len(request).to_bytes(HEADER, "big"))
                view = memoryview(request)
                for at in range(0, len(view), PIECE):
                    self._writer.write(view[at : at + PIECE])
                    await self._writer.drain()
            await self._writer.drain()

    async def receive(self, timeout: float | None = ANSWER_TIME) -> bytes:
        """Return the next answer.

        Raises:  ConnectionError; TimeoutError; BadRequest ``frame``.
        """
        async with asyncio.timeout(timeout):
            answer = await read_frame(self._reader, MAX_ANSWER)
        if answer is None:
            raise ConnectionResetError("the head closed the connection")
        self.used = time.monotonic()
        return answer

    @property
    def is_open(self) -> bool:
        """Whether neither side has closed it."""
        return not (self._writer.is_closing() or self._reader.at_eof())

    def close(self) -> None:
        """Hang up."""
        self._writer.close()


def without_ok(answer: bytes) -> bytes:
    """Return an answer that is no refusal as clients of the gateway get it.

    >>> without_ok(b'{"ok":true,"job":7}'), without_ok(b'{"ok":true}')
    (b'{"job":7}', b'{}')
    """
    return b"{" + answer[len(GRANTED) :].lstrip(b",")


class HeadConversation:
    """A conversation with the head: frames of JSON in both directions."""

    def __init__(self, connection: HeadConnection) -> None:
        self._connection = connection

    async def send(self, frame_of_client: bytes) -> None:
        """Say something, as soon as the head has read most of what was said before.

        Raises:  Unavailable ``head-gone``.
        """
        try:
            await self._connection.send(frame_of_client)
        except (ConnectionError, TimeoutError) as trouble:
            raise gone(trouble) from None

    async def receive(self) -> bytes:
        """Return what the head says next, as a JSON object without ``ok``.

        Raises:  its refusal; Unavailable ``head-gone``.
        """
        try:
            reply = await self._connection.receive(timeout=None)
        except (ConnectionError, BadRequest) as trouble:
            raise gone(trouble) from None
        if not reply.startswith(GRANTED):
            raise refusal_of(reply)
        return without_ok(reply)


async def exchange(connection: HeadConnection, request: bytes) -> bytes:
    """Return the answer to a request.

    Raises:  Unavailable ``no-answer``, ``head-gone``.
    """
    try:
        await connection.send(request)
        return await connection.receive()
    except TimeoutError:
        raise Unavailable(code="no-answer", what="the head does not answer", fix="try again later") from None
    except (ConnectionError, BadRequest) as trouble:
        raise gone(trouble) from None


async def open_socket(path: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to a Unix socket."""
    with unix_address(path) as address:
        return await asyncio.open_unix_connection(address)


def refusal_of(reply: bytes) -> HeadnodeError:
    """Return the error that an answer is."""
    try:
        return refusal_in(msgspec.json.decode(reply, type=dict[str, Any]))
    except UNREADABLE:
        return Broken(code="head-answer", what="the head has sent an answer that is not JSON")


def gone(trouble: Exception) -> Unavailable:
    return Unavailable(
        code="head-gone",
        what=f"the head has gone ({trouble}); whether the request was carried out is not known",
        fix="what was acknowledged is kept; repeat a creation with the same Idempotency-Key",
    )
