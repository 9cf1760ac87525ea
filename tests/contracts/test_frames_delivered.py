"""Messages are delivered in the turn in which they arrive; the end of a stream is told as by `read_frame`."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from headnode.adapters.wire.frame_codec import FrameDecoder, frame
from headnode.adapters.wire.frames import FrameWriter, deliver_frames, read_frame
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
