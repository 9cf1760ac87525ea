"""An SSSRMAP peer as a client: one message, one connection, all chunks of the answer; and the site key."""

import asyncio
from pathlib import Path

from headnode.adapters.files.owners import Unsafe, read_trusted
from headnode.adapters.wire.sssrmap_frames import check_transfer, read_chunks, read_head, request_frame
from headnode.core.formats.sss.sssrmap.status import MessageFault, StatusCode
from headnode.core.model.bounds import RMAP_ANSWER, RMAP_HEAD, RMAP_TIME, Bound
from headnode.core.model.errors import BadRequest, Unavailable


async def exchange(host: str, port: int, message: bytes, most: Bound = RMAP_ANSWER) -> list[bytes]:
    """Send a message, and return the chunks of the answer, which has at most so many bytes.

    Raises:  Unavailable ``no-peer``; MessageFault for an answer that cannot be read.
    """
    where = f"{host} port {port}"
    try:
        async with asyncio.timeout(RMAP_TIME.most):
            reader, writer = await asyncio.open_connection(host, port, limit=RMAP_HEAD.most)
            try:
                writer.write(request_frame(message))
                await writer.drain()
                return await _answer(reader, most)
            finally:
                writer.close()
    except TimeoutError:
        raise _no_peer(where, f"does not answer within {RMAP_TIME}") from None
    except OSError as error:
        raise _no_peer(where, f"cannot be reached: {error.strerror or error}") from None


async def _answer(reader: asyncio.StreamReader, most: Bound) -> list[bytes]:
    head = await read_head(reader)
    if head is None:
        raise MessageFault(StatusCode.NO_MESSAGE, "the peer closed the connection without an answer")
    if not head.first.startswith("HTTP/1."):
        raise MessageFault(StatusCode.FRAMING, f"the answer begins with {head.first[:80]!r}")
    check_transfer(head)
    return await read_chunks(reader, head, most=most)


def _no_peer(where: str, what: str) -> Unavailable:
    return Unavailable(code="no-peer", what=f"the peer at {where} {what}", fix="see whether it listens there")


def read_site_key(path: Path) -> bytes:
    """Return the first line of a file that only its owner can read.

    Raises:  BadRequest ``key-file``.
    """
    try:
        key = read_trusted(path, RMAP_HEAD.most, secret=True).partition(b"\n")[0].rstrip(b"\r")
    except (OSError, Unsafe) as error:
        raise _refused(path, str(error)) from None
    if not key:
        raise _refused(path, "its first line is empty")
    return key


def _refused(path: Path, what: str) -> BadRequest:
    return BadRequest(
        code="key-file",
        what=f"the key file {str(path)!r} cannot be used: {what}",
        fix="write the site key into its first line; only the account that reads it may read it",
    )
