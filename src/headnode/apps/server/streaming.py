"""Verbs of clients that stay for a while: what they read and write goes both ways on the connection.

Such a verb is asked like any other.  Once it is granted, both sides say frames until the head says one that
is marked as done; then it hangs up.  Bytes are base64.
Source:  docs/contracts/01-local-protocol.md, "Conversations".
"""

import asyncio
import base64
import binascii
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec

from headnode.adapters.nodes.framing import frame, read_frame
from headnode.adapters.nodes.streams import Stream
from headnode.core.model.errors import BadRequest
from headnode.core.model.unreadable import UNREADABLE

LARGEST_FRAME = 1 << 20  # bytes that a client may say at once
MOST_INPUT = 64 * 1024  # bytes in one piece for a command
TO_HANG_UP = 300.0  # seconds that a client has for it once all was said: somebody may read it in a pager
NOT_RUN = 255  # exit status of what could not be run, or of which nobody knows how it ended

Object = dict[str, Any]


class Channel:
    """The connection of one client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def hear(self) -> Object | None:
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
        self._writer.write(frame(msgspec.json.encode({"ok": True, **said})))
        await self._writer.drain()

    async def let_go(self) -> None:
        """Drop what the client still says until it hangs up: closing on that would lose our last words."""
        with contextlib.suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(TO_HANG_UP):
                while await self._reader.read(LARGEST_FRAME):
                    pass


Talk = Callable[[Channel], Awaitable[None]]
"""What follows once a verb was granted, to the end of the conversation."""


class Ended(NamedTuple):
    """How a command ended: its exit status, and in a sentence what went wrong with running it.

    `known`: whoever ran it said so; else nobody knows more than that it does not run.
    """

    code: int
    problem: str = ""
    known: bool = True


async def pass_through(stream: Stream, channel: Channel, patience: float | None = None) -> Ended | None:
    """Pass on what a command on a node and a client say to each other; None when the client goes first.

    `patience` in seconds: how long the command may take.
    Raises:  BadRequest for what is no piece of a conversation.
    """
    ending = asyncio.ensure_future(_tell(stream, channel))
    leaving = asyncio.ensure_future(_hear(stream, channel))
    try:
        await asyncio.wait((ending, leaving), timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        if ending.done():
            return ending.result()
        if leaving.done():
            leaving.result()
            return None
        return Ended(NOT_RUN, f"it did not end within {patience:g} s and was killed")
    except ConnectionError:
        return None
    finally:
        for each in (ending, leaving):
            each.cancel()
        await asyncio.gather(ending, leaving, return_exceptions=True)


async def _tell(stream: Stream, channel: Channel) -> Ended:
    """Tell the client what the command writes, until it is over."""
    while True:
        piece = await stream.next()
        if piece.kind in ("out", "err"):
            await channel.say(**{piece.kind: base64.b64encode(piece.data).decode()})
        if piece.kind == "failed":
            return Ended(NOT_RUN, piece.data.decode(errors="replace"), known=False)
        stream.took()
        if piece.kind == "exit":
            return Ended(piece.code, piece.data.decode(errors="replace"))


async def _hear(stream: Stream, channel: Channel) -> None:
    """Tell the command what the client says, until that goes."""
    while (said := await channel.hear()) is not None:
        match said:
            case {"in": str(text)}:
                data = _bytes(text)
                for at in range(0, len(data), MOST_INPUT):
                    await stream.say("in", data[at : at + MOST_INPUT])
                await channel.say(took=len(data))
            case {"end": True}:
                await stream.say("in-end")
            case {"window": [int(rows), int(columns)]}:
                await stream.say("window", f"{max(rows, 0)} {max(columns, 0)}".encode())
            case _:
                raise BadRequest(
                    code="said",
                    what="this message is not possible here",
                    fix="send in, end or window: see the API",
                )


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise BadRequest(code="said", what=f"the input is not base64: {error}") from None
