"""Slow, huge, half and crowded connections at a real listener in this process, with short bounds."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from headnode.adapters.wire.sssrmap import read_site_key, request_frame
from headnode.apps.web.head_client import HeadClient
from headnode.apps.web.sssrmap import __main__ as listener
from headnode.apps.web.sssrmap.__main__ import ACTIONS, JOIN, RmapListener, read_options
from headnode.apps.web.sssrmap.service import RmapRules, RmapService
from headnode.core.formats.sss.sssrmap.messages import envelope
from headnode.core.formats.sss.sssrmap.signatures import METHODS, signature_of
from headnode.core.model.bounds import RMAP_HEAD, Bound
from headnode.core.model.errors import BadRequest

KEY, TIMEOUT = b"sss", 20.0
BODY = '<Body><Request action="Query" actor="ann"><Object>Job</Object></Request></Body>'
GOOD = request_frame(envelope(BODY, signature_of(BODY, KEY)))
HEAD = GOOD.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
NO_HEAD = b"<Code>730</Code>"  # it was believed, and its head is away


def bound(most: int) -> Bound:
    return Bound("of a test", most, "", "")


@asynccontextmanager
async def serving() -> AsyncIterator[int]:
    """Yield the port of a listener whose head is away."""
    service = RmapService(
        HeadClient(Path("/nowhere")), RmapRules(KEY, frozenset(METHODS)), ACTIONS, JOIN, started=0.0
    )
    server = await asyncio.start_server(RmapListener(service).serve, "127.0.0.1", 0, limit=RMAP_HEAD.most)
    async with server:
        yield server.sockets[0].getsockname()[1]


def run(scene: Callable[[int], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with asyncio.timeout(TIMEOUT), serving() as port:
            await scene(port)

    asyncio.run(whole())


async def exchange(port: int, data: bytes, *, ends: bool = False) -> bytes:
    """Send bytes, and return what is answered until the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    found = b""
    with suppress(ConnectionError):
        writer.write(data)
        if ends:
            writer.write_eof()
        found = await reader.read()
    writer.close()
    return found


async def is_well(port: int) -> None:
    assert NO_HEAD in await exchange(port, GOOD)


def test_a_message_that_does_not_come_costs_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "RMAP_TIME", bound(1)._replace(most=0.2))

    async def scene(port: int) -> None:
        slow = [b"", b"POST", HEAD, HEAD + b"FF\r\nhel"]
        answers = asyncio.gather(*(exchange(port, data) for data in slow))
        await is_well(port)
        for answer in await answers:
            assert answer.startswith(b"HTTP/1.1 408 ")
            assert b"<Code>232</Code>" in answer

    run(scene)


def test_half_a_message_is_answered_and_costs_its_connection() -> None:
    async def scene(port: int) -> None:
        for cut in (10, len(HEAD), len(HEAD) + 30, len(GOOD) - 4):
            assert b"<Code>246</Code>" in await exchange(port, GOOD[:cut], ends=True)
        await is_well(port)

    run(scene)


def test_a_huge_message_is_refused_before_it_is_received() -> None:
    async def scene(port: int) -> None:
        assert b"<Code>236</Code>" in await exchange(port, HEAD + b"FFFFFFF\r\n")
        assert b"<Code>236</Code>" in await exchange(port, HEAD + b"10\r\n" + b"x" * 16 + b"3FFFFF\r\n")
        assert b"<Code>242</Code>" in await exchange(port, b"x" * 100_000)
        await is_well(port)

    run(scene)


def test_all_messages_that_are_being_received_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "RMAP_BODIES", bound(3000))

    async def scene(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HEAD + b"9C4\r\n" + b"x" * 100)  # 2,500 bytes, most of which do not come
        while b"<Code>234</Code>" not in await exchange(port, HEAD + b"3E8\r\n" + b"x" * 1000 + b"0\r\n"):
            await asyncio.sleep(0)  # until the first has been seen
        writer.close()
        await reader.read()
        await is_well(port)

    run(scene)


def test_connections_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "RMAP_CONNECTIONS", bound(3))

    async def scene(port: int) -> None:
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        for _, writer in held:
            writer.write(b"POST")
        while b"<Code>234</Code>" not in await exchange(port, GOOD):
            await asyncio.sleep(0)
        for reader, writer in held:
            writer.close()
            await reader.read()
        await is_well(port)

    run(scene)


def test_a_replayed_query_is_only_answered_again() -> None:
    async def scene(port: int) -> None:
        for _ in range(3):
            await is_well(port)

    run(scene)


def test_an_answer_that_is_not_read_costs_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "RMAP_TIME", bound(1)._replace(most=0.3))

    async def scene(port: int) -> None:
        message = request_frame(envelope(BODY, signature_of(BODY, KEY)), keep_alive=True)
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1000)
        with suppress(ConnectionError, TimeoutError):
            while not reader.at_eof():  # sends requests and reads nothing, until the listener gives it up
                writer.write(message * 1000)
                async with asyncio.timeout(2):
                    await writer.drain()
        await is_well(port)
        writer.transport.abort()

    run(scene)


def refused_actors(tmp_path: Path, actors: Path) -> str:
    """Return why a listener does not start with a table of actors."""
    key = tmp_path / "auth_key"
    key.write_bytes(KEY + b"\n")
    key.chmod(0o600)
    with pytest.raises(BadRequest) as refused:
        read_options(["--state", "/nowhere", "--key-file", str(key), "--actors", str(actors)])
    assert refused.value.code == "actors"
    return refused.value.what


def test_a_table_of_actors_is_read_whole_or_not_at_all(tmp_path: Path) -> None:
    actors = tmp_path / "actors"
    filled = "#" * (listener.MAX_TABLE - len("\nmaui op"))
    actors.write_text(f"{filled}\nmaui operator\n")  # cut, it would name the user "op"
    actors.chmod(0o600)
    assert "larger than" in refused_actors(tmp_path, actors)


def test_an_actor_with_two_users_is_refused(tmp_path: Path) -> None:
    actors = tmp_path / "actors"
    actors.write_text("maui ann\nmaui bob\n")
    assert "line 2" in refused_actors(tmp_path, actors)


def test_a_table_that_others_could_replace_or_that_is_no_file_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "actors").write_text("maui ann\n")
    (tmp_path / "link").symlink_to(shared / "actors")
    shared.chmod(0o777)
    assert "can be changed by everybody" in refused_actors(tmp_path, shared / "actors")
    assert "can be changed by everybody" in refused_actors(tmp_path, tmp_path / "link")
    os.mkfifo(tmp_path / "pipe", 0o600)  # opening it must not wait for a writer
    assert "is not a file" in refused_actors(tmp_path, tmp_path / "pipe")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a file of another user")
def test_a_key_of_another_user_is_refused(tmp_path: Path) -> None:
    key = tmp_path / "auth_key"
    key.write_bytes(KEY + b"\n")
    key.chmod(0o600)
    assert read_site_key(key) == KEY
    os.chown(key, 65534, -1)
    with pytest.raises(BadRequest, match="belongs to user"):
        read_site_key(key)


def test_a_key_that_others_could_replace_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "auth_key").write_bytes(KEY)
    (shared / "auth_key").chmod(0o600)
    shared.chmod(0o777)
    with pytest.raises(BadRequest, match="changed by everybody"):
        read_site_key(shared / "auth_key")
