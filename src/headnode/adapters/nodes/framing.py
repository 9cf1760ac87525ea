"""Messages on a stream: each behind its length, 4 bytes, big-endian."""

import asyncio
from typing import BinaryIO

from headnode.core.model.errors import BadRequest

HEADER = 4


PIECE = 64 * 1024  # bytes that are read at once


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
    size = int.from_bytes(header, "big")
    if size > largest:
        raise BadRequest(
            code="frame", what=f"a message of {size} bytes is too large", fix=f"send at most {largest} bytes"
        )
    return size


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


def _cut() -> BadRequest:
    return BadRequest(code="frame", what="the stream ended inside a message")


def next_frame(stream: BinaryIO) -> bytes | None:
    """Return the next message of a pipe; None when it has ended, maybe inside of one."""
    header = stream.read(HEADER)
    if len(header) < HEADER:
        return None
    size = int.from_bytes(header, "big")
    message = stream.read(size)
    return message if len(message) == size else None


def frame(message: bytes) -> bytes:
    """Return the message behind its length."""
    return len(message).to_bytes(HEADER, "big") + message
