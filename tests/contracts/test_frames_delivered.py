"""Messages are delivered in the turn in which they arrive; those of one turn go out together, in order.

The end of a stream is told as by `read_frame`.
"""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from headnode.adapters.wire.frame_codec import FrameDecoder, frame
from headnode.adapters.wire.frames import FrameWriter, arrived_frame, deliver_frames, read_frame
from headnode.core.model.errors import BadRequest


class Scene:
    """A stream whose other side is a plain socket."""

    def __init__(self) -> None:
        ours, self.other = socket.socketpair()
        self._ours, self.received = ours, list[bytes]()
        self.other.setblocking(False)

    async def open(self) -> None:
        """Make the streams."""
        self.streams = await asyncio.open_unix_connection(sock=self._ours)
        self.writer = FrameWriter(self.streams[1])

    def receive(self, message: bytes) -> bool:
        """Note a message, and answer it; one that is `stop` is the last."""
        if message == b"fail":
            raise ValueError("as asked")
        self.received.append(message)
        self.writer.send(b"re: " + message)
        return message != b"stop"

    async def deliver(self) -> None:
        """Deliver what comes until that is over."""
        async with asyncio.timeout(20):
            await deliver_frames(self.streams, 1000, self.receive)

    async def until(self, number: int) -> None:
        """Wait until so many messages were heard."""
        async with asyncio.timeout(20):
            while len(self.received) < number:
                await asyncio.sleep(0)


def played(play: Callable[[Scene], Coroutine[Any, Any, None]]) -> Scene:
    """Return the scene after a play."""
    scene = Scene()

    async def run() -> None:
        await scene.open()
        try:
            await play(scene)
        finally:
            scene.streams[1].close()
            scene.other.close()

    asyncio.run(run())
    return scene


def test_what_came_before_the_delivery_and_in_pieces_is_delivered_in_order() -> None:
    async def play(scene: Scene) -> None:
        scene.other.send(frame(b"greeting") + frame(b"a") + frame(b"bb")[:3])
        assert await read_frame(scene.streams[0], 1000) == b"greeting"
        delivering = asyncio.ensure_future(scene.deliver())
        await scene.until(1)
        scene.other.send(frame(b"bb")[3:] + frame(b"") + frame(b"c"))
        await scene.until(4)
        scene.other.close()
        await delivering

    assert played(play).received == [b"a", b"bb", b"", b"c"]


def test_answers_to_messages_that_came_together_are_one_write() -> None:
    async def play(scene: Scene) -> None:
        delivering = asyncio.ensure_future(scene.deliver())
        await asyncio.sleep(0)
        scene.other.send(frame(b"a") + frame(b"b"))
        await scene.until(2)
        answer = scene.other.recv(1000)  # written in the turn in which they came
        assert list(FrameDecoder(1000).feed(answer)) == [b"re: a", b"re: b"]
        scene.other.close()
        await delivering

    played(play)


def test_nothing_is_delivered_behind_the_last_one() -> None:
    async def play(scene: Scene) -> None:
        scene.other.send(frame(b"a") + frame(b"stop") + frame(b"b"))
        await scene.deliver()

    assert played(play).received == [b"a", b"stop"]


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (frame(b"x" * 1001), BadRequest),
        (frame(b"a") + frame(b"fail"), ValueError),
        (frame(b"a") + frame(b"bb")[:5], BadRequest),
    ],
)
def test_what_cannot_be_delivered_is_raised(sent: bytes, error: type[Exception]) -> None:
    async def play(scene: Scene) -> None:
        scene.other.send(sent)
        scene.other.shutdown(socket.SHUT_WR)
        with pytest.raises(error):
            await scene.deliver()

    played(play)


def test_a_stream_that_ended_before_ends_the_delivery() -> None:
    async def play(scene: Scene) -> None:
        scene.other.close()
        assert await read_frame(scene.streams[0], 1000) is None
        await scene.deliver()

    assert played(play).received == []


def test_the_writer_of_the_stream_still_waits_for_a_side_that_reads_slowly() -> None:
    async def play(scene: Scene) -> None:
        delivering = asyncio.ensure_future(scene.deliver())
        await asyncio.sleep(0)
        writer = scene.streams[1]
        writer.write(b"x" * 5_000_000)
        draining = asyncio.ensure_future(writer.drain())
        await asyncio.sleep(0.01)
        assert not draining.done()
        read = 0
        async with asyncio.timeout(20):
            while read < 5_000_000:
                read += len(await asyncio.get_running_loop().sock_recv(scene.other, 1 << 20))
            await draining
        scene.other.close()
        await delivering

    played(play)


def test_only_a_message_that_is_here_whole_and_small_enough_has_arrived() -> None:
    async def story() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(frame(b"first") + frame(b"second")[:-1])
        assert arrived_frame(reader, 5) == b"first"
        assert arrived_frame(reader, 4) is None
        assert await read_frame(reader, 100) == b"first"
        assert arrived_frame(reader, 100) is None, "its last byte is missing"
        reader.feed_data(b"d")
        assert arrived_frame(reader, 100) == b"second"

    asyncio.run(story())


async def received(send: tuple[bytes, ...], *, close: bool) -> list[list[bytes]]:
    """Return the messages of each datagram that the other side gets: each is one write."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    theirs.setblocking(False)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    transport, protocol = await loop.connect_accepted_socket(
        lambda: asyncio.StreamReaderProtocol(reader), Stream(fileno=ours.detach())
    )
    writer = FrameWriter(asyncio.StreamWriter(transport, protocol, reader, loop))
    for message in send:
        writer.send(message)
    if close:
        writer.close()
    found = []
    async with asyncio.timeout(20):
        while sum(map(len, found)) < len(send):
            found.append(list(FrameDecoder(1000).feed(await loop.sock_recv(theirs, 1000))))
    writer.close()
    theirs.close()
    return found


class Stream(socket.socket):
    """A socket that keeps writes apart, and that asyncio takes for a stream."""

    @property
    def type(self) -> socket.SocketKind:
        """What asyncio checks."""
        return socket.SOCK_STREAM


def test_what_is_said_in_one_turn_is_one_write_in_its_order() -> None:
    assert asyncio.run(received((b"a", b"bb", b""), close=False)) == [[b"a", b"bb", b""]]


def test_what_was_said_is_sent_before_the_connection_is_closed() -> None:
    assert asyncio.run(received((b"a", b"bb"), close=True)) == [[b"a", b"bb"]]
