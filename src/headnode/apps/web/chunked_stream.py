"""Responses that share their bytes: framed for HTTP once, written by each connection as they are.

The layers of the application and of HTTP cost more for each piece than the system call that sends it.
Source:  RFC 9112, 7.1 "Chunked Transfer Coding"; ASGI 3.0, "Extensions".
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, cast

from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Send

WRITES_CHUNKS: Final = "headnode.writes_chunks"
"""The extension of a server whose `write` writes a chunk of HTTP/1.1, as it is, behind what was sent."""
WriteChunk = Callable[[bytes], Awaitable[None]]


class SharedChunk:
    """Bytes of a body that many responses have, as a chunk of HTTP/1.1."""

    __slots__ = ("chunk",)

    def __init__(self, body: bytes) -> None:
        """`body` is not empty: a chunk without bytes is the last one."""
        self.chunk = b"%x\r\n%s\r\n" % (len(body), body)

    @property
    def body(self) -> bytes:
        """The bytes themselves."""
        return self.chunk[self.chunk.index(b"\r\n") + 2 : -2]


class ChunkedStream(StreamingResponse):
    """A response without an end, some of whose pieces are shared with others."""

    def __init__(self, request: Request, pieces: AsyncIterator[bytes | SharedChunk]) -> None:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(
            cast("AsyncIterator[bytes]", pieces), headers=headers, media_type="text/event-stream"
        )
        self._pieces = pieces  # the base would send them as they are
        is_chunked = request.method == "GET" and request.scope["http_version"] == "1.1"
        extensions = request.scope.get("extensions") or {}
        self._write: WriteChunk | None = (
            extensions.get(WRITES_CHUNKS, {}).get("write") if is_chunked else None
        )

    async def stream_response(self, send: Send) -> None:
        """Send the response until its pieces end."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for piece in self._pieces:
            if not isinstance(piece, SharedChunk):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            elif self._write is not None:
                await self._write(piece.chunk)
            else:
                await send({"type": "http.response.body", "body": piece.body, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
