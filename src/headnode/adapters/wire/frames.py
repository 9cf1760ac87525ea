"""Frames on asyncio streams, and the sockets that carry them."""

import asyncio
import contextlib
import resource
import socket
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import cast

from headnode.adapters.wire.frame_codec import HEADER, FrameDecoder, FrameTooLarge, frame, size_of
from headnode.adapters.wire.peers import unix_address
from headnode.core.model.errors import BadRequest, Unavailable

PIECE = 64 * 1024  # bytes that are read at once


def read_by_pieces() -> None:
    """Let sockets of this process be read by pieces.

    asyncio makes a buffer of 256 KiB for each read, which the C library may map and unmap each time.
    """
    asyncio.selector_events._SelectorTransport.max_size = PIECE  # type: ignore[attr-defined]


async def read_frame(reader: asyncio.StreamReader, largest: int) -> bytes | None:
    """Return the next message, or None when the stream ended between messages.

    Raises:  BadRequest ``frame`` when it is larger than `largest` or the stream ended inside it.
    """
    size = await read_size(reader, largest)
    return None if size is None else await read_rest(reader, size)


async def read_size(reader: asyncio.StreamReader, largest: int) -> int | None:
    """Return the length of the next message, or None when the stream ended between messages.

    Raises:  BadRequest ``frame`` when it is larger than `largest` or the stream ended inside of it.
    """
    try:
        header = await reader.readexactly(HEADER)
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise _cut() from None
        return None
    except ConnectionError:
        return None
    try:
        return size_of(header, largest)
    except FrameTooLarge as error:
        raise _too_large(error) from None


async def read_rest(reader: asyncio.StreamReader, size: int) -> bytes:
    """Return the message behind its length.

    It is read in pieces: nothing keeps those of a message that never ends.
    Raises:  BadRequest ``frame`` when the stream ended inside it.
    """
    pieces: list[bytes] = []
    left = size
    while left:
        try:
            piece = await reader.read(min(left, PIECE))
        except ConnectionError:
            piece = b""
        if not piece:
            pieces.clear()
            raise _cut()
        pieces.append(piece)
        left -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def has_arrived(reader: asyncio.StreamReader, size: int) -> bool:
    """Return whether so many bytes can be read without waiting; see `arrived_frame`."""
    return len(reader._buffer) >= size  # type: ignore[attr-defined]


def arrived_frame(reader: asyncio.StreamReader, most: int) -> bytes | None:
    """Return the next message, without reading it, if all of it is here and it has at most so many bytes.

    It looks into the private buffer of the stream.  The public ways read, and so wait or take; a stream
    protocol of our own would have to repeat the flow control of StreamReader, for each byte.
    """
    data: bytearray = reader._buffer  # type: ignore[attr-defined]
    if len(data) < HEADER:
        return None
    try:
        end = HEADER + size_of(data[:HEADER], most)
    except FrameTooLarge:
        return None
    return bytes(data[HEADER:end]) if HEADER < end <= len(data) else None


def _cut() -> BadRequest:
    return BadRequest(code="frame", what="the stream ended inside a message")


def _too_large(error: FrameTooLarge) -> BadRequest:
    what = f"a message of {error.size} bytes is too large"
    return BadRequest(code="frame", what=what, fix=f"send at most {error.largest} bytes")


def ends_turn() -> bool:
    """Return whether nothing else is ready to run in this turn of the event loop.

    Then what would wait for the end of the turn, to be done with what others ask for, is done at once: it
    would be first in the next turn, and nothing could come before it.
    It looks into the private queue of the loop, since `asyncio` has no public way to ask this.
    """
    return not asyncio.get_running_loop()._ready  # type: ignore[attr-defined]


class _Answering(threading.local):
    """The writers that say something while this thread delivers messages; None while it does not."""

    writers: "list[FrameWriter] | None" = None


_answering = _Answering()

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def deliver_frames(streams: Streams, largest: int, received: Callable[[bytes], bool]) -> None:
    """Call `received` with each message until the stream ends, or until it returns False.

    It is called in the turn of the event loop in which the message arrives.  What it says by a `FrameWriter`
    goes at the end of that turn.  To wake a task up with each message takes two turns more.
    Raises:  BadRequest ``frame`` when a message is larger than `largest`, or the stream ended inside one;
             what `received` raises.
    """
    reader, writer = streams
    transport = writer.transport
    before = transport.get_protocol()
    delivery = _FrameDelivery(cast("asyncio.Protocol", before), largest, received)
    transport.set_protocol(delivery)
    try:
        gone = reader.exception() is not None
        while not gone and (arrived := len(reader._buffer)):  # type: ignore[attr-defined]
            delivery.data_received(await reader.read(arrived))
        if gone or reader.at_eof():
            delivery.end()
        await delivery.over
    finally:
        transport.set_protocol(before)


class _FrameDelivery(asyncio.Protocol):
    """Has the messages of a stream decoded; all else is still done by the protocol of `asyncio` streams."""

    def __init__(self, before: asyncio.Protocol, largest: int, received: Callable[[bytes], bool]) -> None:
        self._before, self._received = before, received
        self._decoder = FrameDecoder(largest)
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        """Deliver what is whole now."""
        if self.over.done():
            return
        answering = _answering.writers = []
        try:
            for message in self._decoder.feed(data):
                if not self._received(message):
                    self.over.set_result(None)
                    break
        except FrameTooLarge as error:
            self.over.set_exception(_too_large(error))
        except Exception as error:  # noqa: BLE001 - raised by `deliver_frames`
            self.over.set_exception(error)
        finally:
            _answering.writers = None
            for writer in answering:
                writer.flush()

    def eof_received(self) -> bool | None:
        """The other side says nothing more."""
        self.end()
        return self._before.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is gone."""
        self.end()
        self._before.connection_lost(error)

    def end(self) -> None:
        """No more comes."""
        if self.over.done():
            return
        if self._decoder.kept:
            self.over.set_exception(_cut())
        else:
            self.over.set_result(None)

    def pause_writing(self) -> None:
        """The other side reads slowly."""
        self._before.pause_writing()

    def resume_writing(self) -> None:
        """It has caught up."""
        self._before.resume_writing()


class FrameWriter:
    """Sends the messages of one turn of the event loop together.

    Each write is a system call, and wakes the other side.
    """

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._frames: list[bytes] = []  # of this turn

    def send(self, message: bytes) -> None:
        """Send a message; a connection that is going down loses it."""
        if not self._frames:
            if _answering.writers is None:
                asyncio.get_running_loop().call_soon(self.flush)
            else:
                _answering.writers.append(self)
        self._frames.append(frame(message))

    def flush(self) -> None:
        """Send now what waits for the end of the turn."""
        data, self._frames = b"".join(self._frames), []
        if data and not self._writer.is_closing():
            self._writer.write(data)

    def is_closing(self) -> bool:
        """Whether the connection is going down."""
        return self._writer.is_closing()

    def close(self) -> None:
        """Hang up behind all that was said."""
        self.flush()
        self._writer.close()

    def abort(self) -> None:
        """Hang up at once."""
        self._writer.transport.abort()

    async def drain(self) -> None:
        """Wait until the other side has room for more.

        Raises:  OSError.
        """
        self.flush()
        await self._writer.drain()

    @property
    def socket(self) -> socket.socket:
        """The connection itself, to ask who is there."""
        connection: socket.socket = self._writer.get_extra_info("socket")
        return connection


BACKLOG = 1024


def listen(path: Path, mode: int) -> socket.socket:
    """Return a socket that listens at `path` with the given permissions; an old one left there is replaced.

    The caller must hold the state directory's lock, so whatever lies at `path` is nobody's any more.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        path.unlink(missing_ok=True)
        with unix_address(path) as address:
            listener.bind(address)
        path.chmod(mode)
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def listen_at(address: str, port: int) -> socket.socket:
    """Return a socket that listens for other machines; port 0 is a free one.

    Raises:  Unavailable ``listen``.
    """
    try:
        family, _, _, _, where = socket.getaddrinfo(
            address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(where[:2], family=family, backlog=BACKLOG, reuse_port=False)
    except OSError as error:
        raise Unavailable(
            code="listen",
            what=f"no connections can be accepted at {address} port {port}: {error.strerror or error}",
            fix="choose another with --address and --port; --port 0 is a free one",
        ) from None


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""Serves one connection until it is over."""


def quiet_at_the_end(serve: Serve) -> Serve:
    """Return the same, but for a connection that is canceled because the process ends.

    Python 3.11 logs a connection that ends canceled as an error of the program, with its traceback.
    """

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await serve(reader, writer)

    return served


IDLE = 20  # seconds without a word until the first look
BETWEEN = 10  # seconds between two looks
LOOKS = 4  # that may stay without an answer
UNANSWERED = 60_000  # milliseconds that what was sent may stay without an answer


def keep_alive(writer: asyncio.StreamWriter) -> None:
    """Let the kernel end a TCP connection whose peer is gone; other connections need no such look."""
    connection: socket.socket | None = writer.get_extra_info("socket")
    if connection is None or connection.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for option, value in (
        (socket.TCP_KEEPIDLE, IDLE),
        (socket.TCP_KEEPINTVL, BETWEEN),
        (socket.TCP_KEEPCNT, LOOKS),
        (socket.TCP_USER_TIMEOUT, UNANSWERED),
    ):
        connection.setsockopt(socket.IPPROTO_TCP, option, value)


def allow_many() -> int:
    """Raise our soft limit of open files to the hard one; return what it is now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
