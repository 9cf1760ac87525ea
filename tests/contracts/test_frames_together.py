"""Messages of one turn of the event loop go out together, in order, also when the connection is closed."""

import asyncio
import socket

from headnode.adapters.wire.frame_codec import FrameDecoder
from headnode.adapters.wire.frames import FrameWriter


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
    def type(self) -> socket.SocketKind:  # type: ignore[override]
        """What asyncio checks."""
        return socket.SOCK_STREAM


def test_what_is_said_in_one_turn_is_one_write_in_its_order() -> None:
    assert asyncio.run(received((b"a", b"bb", b""), close=False)) == [[b"a", b"bb", b""]]


def test_what_was_said_is_sent_before_the_connection_is_closed() -> None:
    assert asyncio.run(received((b"a", b"bb"), close=True)) == [[b"a", b"bb"]]
