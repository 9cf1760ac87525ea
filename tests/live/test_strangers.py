"""Who is not known gets little of the head: nobody is kept out by silence, and no log filled with garbage."""

import asyncio
import contextlib
import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from joined_nodes import JoinedNode, invite, wait_for_state

from headnode.adapters.wire.frame_codec import frame
from headnode.adapters.wire.tls import dial, stranger_side
from headnode.core.model import bounds as b
from heads import RealHead, real_head
from testbed.processes import free_address

MANY = 260  # connections: as many as kept new machines out before
VERY_MANY = min(2000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)  # 60 KB each for TLS: 120 MB
MAX_GROWTH = 30.0  # MB


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealHead]:
    with real_head(tmp_path_factory.mktemp("strangers"), nodes=0, listen=free_address()) as found:
        yield found


def place(head: RealHead) -> tuple[str, int]:
    host, _, port = head.options[-1].rpartition(":")
    return host, int(port)


def memory(head: RealHead) -> float:
    status = Path(f"/proc/{head.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def whole_log(head: RealHead) -> str:
    return (head.state.parent / "head.log").read_text()


def join_and_leave(head: RealHead, directory: Path, name: str) -> None:
    """A new machine joins and becomes ready."""
    node = JoinedNode(directory, name)
    try:
        assert node.join(invite(head, approve=True)).returncode == 0
        node.start()
        wait_for_state(head, name, "Ready")
    finally:
        node.stop()


@pytest.mark.parametrize("words", [b"", b"\x16\x03\x01\x02\x00\x01\x00"], ids=["nothing", "half a handshake"])
def test_connections_that_never_shake_hands_cost_no_memory_and_keep_no_machine_out(
    head: RealHead, tmp_path: Path, words: bytes
) -> None:
    before = memory(head)
    with contextlib.ExitStack() as stack:

        def come() -> None:
            silent = stack.enter_context(socket.create_connection(place(head), 5.0))
            with contextlib.suppress(ConnectionError):  # there were too many
                silent.sendall(words)

        for _ in range(MANY):
            come()
        join_and_leave(head, tmp_path, "early" if words else "first")
        for _ in range(VERY_MANY):
            come()
        assert head.ask("ping")["cluster"]
        assert memory(head) - before < MAX_GROWTH


def test_connections_that_shake_hands_and_say_nothing_keep_no_machine_out(
    head: RealHead, tmp_path: Path
) -> None:
    async def silent() -> None:
        async def come() -> None:
            with contextlib.suppress(OSError):
                reader, writer = await dial(*place(head), stranger_side())
                try:
                    await reader.read()
                finally:
                    writer.transport.abort()

        many = [asyncio.ensure_future(come()) for _ in range(MANY)]
        await asyncio.to_thread(join_and_leave, head, tmp_path, "late")
        for each in many:
            each.cancel()
        await asyncio.gather(*many, return_exceptions=True)

    asyncio.run(silent())


@pytest.mark.parametrize(
    "words",
    [frame(b"\x91" * 100_000), frame(b"\xa1\xff"), frame(b"\xc1"), (2**31).to_bytes(4, "big")],
    ids=["deep", "no text", "no message", "too large"],
)
def test_garbage_of_strangers_writes_few_lines_and_no_traceback(head: RealHead, words: bytes) -> None:
    async def send() -> None:
        with contextlib.suppress(OSError):
            reader, writer = await dial(*place(head), stranger_side())
            try:
                writer.write(words)
                assert await reader.read() == b""
            finally:
                writer.transport.abort()

    async def all_send() -> None:
        for _ in range(5 * b.STRANGER_LINES.most // 10):
            await asyncio.gather(*(send() for _ in range(10)))

    before = whole_log(head)
    asyncio.run(all_send())
    fresh = whole_log(head)[len(before) :]
    assert "Traceback" not in fresh
    assert len(fresh.splitlines()) <= b.STRANGER_LINES.most + 10
    assert head.ask("ping")["cluster"]


def test_garbage_of_users_writes_no_traceback(head: RealHead) -> None:
    before = whole_log(head)
    for words in (
        frame(b"[" * 1_000_000),
        frame(b'{"verb": "ping\xff"}'),
        frame(b'{"verb": "job", "job": %d}' % 2**70),
    ):
        with socket.socket(socket.AF_UNIX) as plain:
            plain.connect(str(head.state / "head.sock"))
            plain.sendall(words)
            assert b'"ok":false' in plain.recv(65536)
    assert "Traceback" not in whole_log(head)[len(before) :]
