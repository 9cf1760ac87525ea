"""What the SDK does with its connections when answers are lost, and when a program has many descriptors."""

import asyncio
import contextlib
import json
import os
import resource
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headnode.adapters.wire.frame_codec import HEADER, frame
from headnode.apps.client import client
from headnode.apps.client.local_addresses import WebRoute
from headnode.apps.client.web_connection import web_route
from headnode.core.model.errors import Unavailable
from headnode.sdk.asynchronous import connection
from headnode.sdk.asynchronous.connection import AsyncHeadTransport

TIMEOUT = 30.0  # seconds
SELECTABLE = 1024  # descriptors from this one on are too large for select()


class SlowHead:
    """A head that loses the first answer, and gives the second when a third request has come."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.repeated = asyncio.Event()
        self.go_on = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while header := await reader.read(HEADER):
                size = int.from_bytes(header, "big")
                verb = json.loads(await reader.readexactly(size))["verb"]
                self.asked.append(verb)
                if len(self.asked) == 1:
                    return
                if len(self.asked) == 2:
                    self.repeated.set()
                    await self.go_on.wait()
                writer.write(frame(json.dumps({"ok": True, "answer_to": verb}).encode()))
        finally:
            writer.close()


def test_a_repeated_request_that_is_canceled_gives_no_answer_to_the_next(tmp_path: Path) -> None:
    async def ask() -> None:
        head = SlowHead()
        server = await asyncio.start_unix_server(head.serve, tmp_path / "head.sock")
        transport = AsyncHeadTransport(str(tmp_path))
        async with server:
            submission = asyncio.create_task(transport.ask("submit_job", {"idempotency": "k" * 32}))
            await head.repeated.wait()
            submission.cancel()
            await asyncio.wait((submission,))
            head.go_on.set()
            assert await transport.ask("nodes", {}) == {"answer_to": "nodes"}
            await transport.close()

    asyncio.run(asyncio.wait_for(ask(), TIMEOUT))


@pytest.fixture
def vanishing_gateway() -> Iterator[WebRoute]:
    """Serve a gateway that ends with the first request, before it answers."""
    door = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        client, _ = door.accept()
        client.recv(1 << 16)
        door.close()
        client.close()

    serving = threading.Thread(target=serve)
    serving.start()
    yield web_route(f"http://127.0.0.1:{door.getsockname()[1]}", "token", "")
    serving.join(TIMEOUT)


def test_a_lost_submission_is_repeated_while_the_gateway_is_away(
    vanishing_gateway: WebRoute, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "RETRY_TIME", 1.0)
    with pytest.raises(Unavailable, match="head-gone") as found:
        client.Client(vanishing_gateway).ask("create_job", idempotency="k" * 32)
    assert "k" * 32 in found.value.fix  # a repetition with the key does not create a second job


def test_a_coroutine_repeats_a_lost_submission_while_the_gateway_is_away(
    vanishing_gateway: WebRoute, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "RETRY_TIME", 1.0)
    with pytest.raises(Unavailable, match="head-gone") as found:
        asyncio.run(AsyncHeadTransport(vanishing_gateway).ask("create_job", {"idempotency": "k" * 32}))
    assert "k" * 32 in found.value.fix


def test_a_program_with_many_descriptors_asks_again_and_again(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < SELECTABLE + 100:
        pytest.skip("this process may not open so many files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, SELECTABLE + 100), hard))
    with contextlib.ExitStack() as opened, socket.socket(socket.AF_UNIX) as door:
        opened.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        door.bind(str(tmp_path / "head.sock"))
        door.listen()
        while opened.enter_context(Path(os.devnull).open("rb")).fileno() < SELECTABLE:
            pass
        serving = threading.Thread(target=answer_twice, args=(door,))
        serving.start()
        asking = client.Client(str(tmp_path))
        assert [asking.ask("nodes"), asking.ask("nodes")] == [{}, {}]
        asking.close()
        serving.join(TIMEOUT)


def answer_twice(door: socket.socket) -> None:
    head, _ = door.accept()
    with head:
        for _ in range(2):
            size = int.from_bytes(head.recv(HEADER, socket.MSG_WAITALL), "big")
            head.recv(size, socket.MSG_WAITALL)
            head.sendall(frame(b'{"ok":true}'))
