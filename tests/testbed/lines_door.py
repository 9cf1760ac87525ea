"""A door whose messages are lines of JSON: its form is not that of the other doors."""

import asyncio

from headnode.apps.server.api.verbs import refusal
from headnode.apps.server.doors.conversation import MessageForm, send, serve_client
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.errors import BadRequest, HeadnodeError
from headnode.core.model.user import User
from testbed.function_door import KnownCaller


class Lines(MessageForm):
    """Messages that end with a newline."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader, self._line = reader, b""

    async def next_size(self, most: int) -> int | None:
        self._line = await self._piece()
        return None if not self._line else len(self._line) if self._line.endswith(b"\n") else most

    async def read(self, size: int) -> bytes:
        line, self._line = bytearray(self._line), b""
        while not line.endswith(b"\n"):
            piece = await self._piece()
            if not piece:
                raise _cut()
            line += piece
            if len(line) > size:
                raise BadRequest(code="frame", what="a line is too long", fix=f"send at most {size} bytes")
        return bytes(line)

    def written(self, message: bytes) -> bytes:
        return message + b"\n"

    async def _piece(self) -> bytes:
        """Return the rest of a line, or as much of it as the buffer of the stream holds (64 KiB)."""
        try:
            return await self._reader.readuntil(b"\n")
        except asyncio.LimitOverrunError as error:
            return await self._reader.read(error.consumed)
        except asyncio.IncompleteReadError as error:
            if error.partial:
                raise _cut() from None
            return b""


def _cut() -> BadRequest:
    return BadRequest(code="frame", what="the stream ended inside a line")


class LinesDoor:
    """Serves one user, whoever comes."""

    def __init__(self, context: ServerContext, user: User) -> None:
        self._context, self._user = context, user

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        form = Lines(reader)
        try:
            await serve_client(self._context, KnownCaller(self._user), (reader, writer), form=form)
        except HeadnodeError as error:
            send(writer, refusal(error), form)
        except (ConnectionError, TimeoutError):
            writer.transport.abort()
        finally:
            writer.close()
