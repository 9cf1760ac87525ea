"""Messages on a stream: each behind its length, 4 bytes, big-endian."""

import asyncio
from typing import BinaryIO

from headnode.core.model.errors import BadRequest

HEADER = 4


async def read_frame(reader: asyncio.StreamReader, largest: int) -> bytes | None:
    """Return the next message, or None when the stream ended between messages.

    Raises:  BadRequest ``frame`` when it is larger than `largest` or the stream ended inside it.
    """
    try:
        header = await reader.readexactly(HEADER)
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise BadRequest(code="frame", what="the stream ended inside a message") from None
        return None
    except ConnectionError:
        return None
    size = int.from_bytes(header, "big")
    if size > largest:
        raise BadRequest(
            code="frame", what=f"a message of {size} bytes is too large", fix=f"send at most {largest} bytes"
        )
    try:
        return await reader.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionError):
        raise BadRequest(code="frame", what="the stream ended inside a message") from None


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
