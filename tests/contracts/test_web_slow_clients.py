"""Slow clients at a real HTTP server in this process, with short bounds: each loses its connection only."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext, suppress

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from headnode.apps.web import gateway, http_server
from headnode.apps.web.gateway import BodyRoom
from headnode.apps.web.http_server import BoundedHttp
from headnode.apps.web.problems import answering

SHORT, TIMEOUT = 0.2, 20.0  # seconds


async def _read_body(request: Request) -> Response:
    async with BodyRoom().body_of(request, 1000) as body:
        return PlainTextResponse(str(len(body)))


@asynccontextmanager
async def server() -> AsyncIterator[int]:
    """Yield the port of a server."""
    application = Starlette(routes=[Route("/", answering(_read_body), methods=["GET", "POST"])])
    settings = uvicorn.Config(application, http=BoundedHttp, ws="none", lifespan="off", log_config=None)
    listening = socket.create_server(("127.0.0.1", 0))
    running = uvicorn.Server(settings)
    running.capture_signals = _no_signals  # pytest keeps its own
    task = asyncio.create_task(running.serve([listening]))
    try:
        yield listening.getsockname()[1]
    finally:
        running.should_exit = True
        await task


def _no_signals() -> AbstractContextManager[None]:
    return nullcontext()


def run(scene: Callable[[int], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(TIMEOUT), server() as port:
            await scene(port)

    asyncio.run(whole())


@pytest.fixture(autouse=True)
def short_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    class Short:
        most = SHORT

    monkeypatch.setattr(http_server, "WEB_HEAD_TIME", Short)
    monkeypatch.setattr(gateway, "WEB_BODY_TIME", Short)
    monkeypatch.setattr(http_server, "WEB_BODY_TIME", Short)


@pytest.mark.parametrize("text", [b"", b"GET", b"GET / HTTP/1.1\r\nHost: x\r\n"])
def test_a_request_whose_headers_do_not_end_loses_its_connection(text: bytes) -> None:
    async def scene(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(text)
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()

    run(scene)


def test_a_second_request_on_a_connection_has_the_same_time() -> None:
    async def scene(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n0")).startswith(b"HTTP/1.1 200")
        writer.write(b"GET / HTTP/1.1\r\n")
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()

    run(scene)


def test_a_request_that_is_answered_before_its_body_has_come_holds_no_connection() -> None:
    """One byte of the body ends the wait for the next request: nobody waited for the others."""

    async def scene(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\nNot Found")).startswith(b"HTTP/1.1 404")
        writer.write(b"x")
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()

    run(scene)


def test_a_body_that_does_not_come_is_answered_as_too_slow() -> None:
    async def scene(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc")
        assert (await reader.readuntil(b"too-slow")).startswith(b"HTTP/1.1 408")
        writer.close()

    run(scene)
