"""The HTTP server: bounds for slow and greedy clients, and responses that share their bytes.

Shared responses are framed for HTTP once.  The layers of the application and of HTTP cost more for each piece
than the system call that sends it.
Source:  RFC 9112, 7.1 "Chunked Transfer Coding"; ASGI 3.0, "Extensions"."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from ipaddress import ip_address, ip_network
from typing import Final, cast

import h11
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from headnode.core.model.bounds import UNREAD_TIME, WEB_BODY_TIME, WEB_CONNECTIONS_OF_ADDRESS, WEB_HEAD_TIME

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
        self._has_body = request.method != "HEAD"
        is_chunked = request.method == "GET" and request.scope["http_version"] == "1.1"
        extensions = request.scope.get("extensions") or {}
        self._write: WriteChunk | None = (
            extensions.get(WRITES_CHUNKS, {}).get("write") if is_chunked else None
        )

    async def stream_response(self, send: Send) -> None:
        """Send the response until its pieces end; at once if a client asks for the headers alone."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        if self._has_body:
            await self._send_pieces(send)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_pieces(self, send: Send) -> None:
        async for piece in self._pieces:
            if not isinstance(piece, SharedChunk):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            elif self._write is not None:
                await self._write(piece.chunk)
            else:
                await send({"type": "http.response.body", "body": piece.body, "more_body": True})


_LOOPBACK: Final = ("127.0.0.1", "::1")


class BoundedHttp(H11Protocol):
    """One connection; it ends if the rest of a request does not come, or its address has too many."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        address = self.client[0] if self.client else ""
        if not self._is_of_many(address) and self._of_address(address) > WEB_CONNECTIONS_OF_ADDRESS.most:
            transport.abort()
            return
        self._await_rest(WEB_HEAD_TIME.most)

    def _is_of_many(self, address: str) -> bool:
        """Whether connections of an address may be those of many clients: loopback, or a trusted proxy."""
        if address in _LOOPBACK:
            return True
        proxies = self.config.forwarded_allow_ips if self.config.proxy_headers else ()
        return any(ip_address(address) in ip_network(each) for each in proxies or ())

    def _of_address(self, address: str) -> int:
        """Return how many connections an address has."""
        peers = (getattr(each, "client", None) for each in self.connections)
        return sum(peer is not None and peer[0] == address for peer in peers)

    def data_received(self, data: bytes) -> None:
        """Read what has come; part of a request must be followed by its rest soon."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._await_rest(WEB_HEAD_TIME.most)
        elif (
            self.cycle is not None and self.cycle.response_complete
        ):  # nobody waits for the rest of this body
            self._await_rest(WEB_BODY_TIME.most)
        else:
            self._stop_waiting()

    def handle_events(self) -> None:
        """Begin the requests that have come; their answers may have chunks that are shared with others."""
        super().handle_events()  # their tasks have not run yet
        if self.cycle is not None and not self.cycle.response_started:
            writes = partial(_write_chunk, self.cycle)
            self.cycle.scope.setdefault("extensions", {})[WRITES_CHUNKS] = {"write": writes}

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _await_rest(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(seconds, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


async def _write_chunk(cycle: RequestResponseCycle, chunk: bytes) -> None:
    """Write a chunk behind what was sent, when the client has read most of that; as `cycle.send` does.

    Raises:  TimeoutError when the client does not read.
    """
    if cycle.flow.write_paused and not cycle.disconnected:
        async with asyncio.timeout(UNREAD_TIME.most):
            await cycle.flow.drain()
    if not cycle.disconnected:
        cycle.transport.write(chunk)


class SlowReaders:
    """Gives up answers that their client does not read."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""

        async def send_on(message: Message) -> None:
            async with asyncio.timeout(UNREAD_TIME.most):
                await send(message)

        await self._app(scope, receive, send_on)
