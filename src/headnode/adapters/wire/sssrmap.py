"""SSSRMAP on connections: messages in HTTP-like chunks, one exchange with a peer, and the site key.

Messages are read as peers write them, and written as they read them.  Gold, Maui and Slurm leave out line
ends after a chunk, end with ``0`` alone or with a NUL byte, and read answers of exactly two headers.  RFC
9112 is read, too; a client that asks for it keeps its connection.
Source:  SSSRMAP Wire Protocol 3.0.3, section 5; RFC 9112, section 7.1.
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from headnode.adapters.files.owners import Unsafe, read_trusted
from headnode.core.formats.sss.sssrmap.status import MessageFault, StatusCode
from headnode.core.model.bounds import RMAP_ANSWER, RMAP_HEAD, RMAP_MESSAGE, RMAP_TIME, Bound
from headnode.core.model.errors import BadRequest, Unavailable

_HEADERS: Final = b'Content-Type: text/xml; charset="utf-8"\r\nTransfer-Encoding: chunked\r\n'
_PATH: Final = re.compile(r"/(?:SSSRMAP[0-9]?|gold)(?:/[\w./-]{0,64})?\Z")
_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;.{0,200})?\Z")
_PHRASES: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    412: "Precondition Failed",
}
_PIECE: Final = 64 * 1024
_MAX_CHUNKS: Final = 10_000


class FramingFault(MessageFault):
    """A message that cannot be read from its connection; `http` is the status of the answer's first line."""

    def __init__(self, http: int, status: StatusCode, what: str, fix: str = "") -> None:
        super().__init__(status, what, fix)
        self.http = http


class RmapHead(NamedTuple):
    """The first line and the headers of a message."""

    first: str
    headers: Mapping[str, str]  # by names in small letters

    @property
    def keeps_alive(self) -> bool:
        """Whether the client asks to send more on the same connection, and so reads RFC 9112."""
        return "keep-alive" in self.headers.get("connection", "").lower()

    @property
    def length(self) -> int | None:
        """The bytes of the message; None if it comes in chunks."""
        text = self.headers.get("content-length", "")
        return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else None


async def read_head(reader: asyncio.StreamReader) -> RmapHead | None:
    """Return the head of the next message; None if the client has hung up.

    Raises:  FramingFault 400 with 242, 246, 236.
    """
    lines: list[str] = []
    room = RMAP_HEAD.most
    while True:
        line = await _line(reader, cut_is_end=not lines)
        if line is None:
            return None
        room -= len(line) + 2
        if room < 0:
            raise FramingFault(400, StatusCode.TOO_LARGE, f"the header is larger than {RMAP_HEAD}")
        if not line and not lines:
            continue  # a line end of the message before
        if not line:
            break
        lines.append(line.decode("latin-1"))
    headers: dict[str, str] = {}
    for each in lines[1:]:
        name, colon, value = each.partition(":")
        if not colon or not name or name.strip() != name or name.lower() in headers:
            raise _malformed(f"the header line {each[:80]!r}")
        headers[name.lower()] = value.strip()
    return RmapHead(lines[0], headers)


async def _line(reader: asyncio.StreamReader, *, cut_is_end: bool = False) -> bytes | None:
    try:
        return (await reader.readuntil(b"\n"))[:-1].removesuffix(b"\r")
    except asyncio.IncompleteReadError as wrong:
        if cut_is_end and not wrong.partial.strip(b"\0\r"):
            return None
        raise FramingFault(400, StatusCode.CUT, "the connection ended inside a message") from None
    except asyncio.LimitOverrunError:
        raise _malformed("a line that does not end") from None


def check_request(head: RmapHead) -> None:
    """Refuse a message that is not for an SSSRMAP server.

    Raises:  FramingFault 404, 405, 412, 400.
    """
    method, _, rest = head.first.partition(" ")
    path, _, version = rest.rpartition(" ")
    if not version.startswith("HTTP/1."):
        raise _malformed(f"the first line {head.first[:80]!r}")
    if method != "POST":
        raise FramingFault(405, StatusCode.FRAMING, f"the method {method[:16]!r}", "use POST")
    if not _PATH.match(path):
        raise FramingFault(404, StatusCode.FRAMING, f"the address {path[:64]!r}", "use /SSSRMAP3")
    if "xml" not in head.headers.get("content-type", "").lower():
        raise FramingFault(412, StatusCode.FRAMING, "the Content-Type is not text/xml")
    check_transfer(head)


def check_transfer(head: RmapHead) -> None:
    """Refuse a message whose end cannot be known: neither chunks nor a length, or both.

    Raises:  FramingFault 412.
    """
    encoding = head.headers.get("transfer-encoding", "").rstrip("; \t").lower()
    has_length = "content-length" in head.headers
    if (
        encoding not in ("chunked", "")
        or bool(encoding) is has_length
        or (has_length and head.length is None)
    ):
        raise FramingFault(
            412, StatusCode.FRAMING, "neither chunks nor a length", "send Transfer-Encoding: chunked"
        )


async def read_chunks(
    reader: asyncio.StreamReader,
    head: RmapHead,
    take: Callable[[int], None] = lambda _: None,
    most: Bound = RMAP_MESSAGE,
) -> list[bytes]:
    """Return the chunks of a message; of one with a length the whole.

    most:  bytes that it may have
    take:  is told how many bytes come next, before they are read; it may refuse them
    Raises:  FramingFault 400 with 236, 242, 244, 246; what `take` raises.
    """
    left = most.most
    if head.length is not None:
        return [await _payload(reader, head.length, left, take)]
    chunks: list[bytes] = []
    while size := await _size(reader):
        chunks.append(await _payload(reader, size, left, take))
        left -= size
        if len(chunks) > _MAX_CHUNKS:
            raise _malformed("too many chunks")
    return chunks


async def _size(reader: asyncio.StreamReader) -> int:
    """Return the length of the next chunk; 0 at the end.  Peers may leave out the line end before it."""
    line = await _line(reader)
    if not line:
        line = await _line(reader)
    match = _SIZE.match(line or b"")
    if match is None:
        raise FramingFault(400, StatusCode.SIZE, f"the length of a chunk is {line!r:.60}", "write it in hex")
    return int(match[1], 16)


async def _payload(reader: asyncio.StreamReader, size: int, room: int, take: Callable[[int], None]) -> bytes:
    if size > room:
        raise FramingFault(400, StatusCode.TOO_LARGE, "the message is larger than messages may be")
    take(size)
    pieces: list[bytes] = []
    while size:
        piece = await reader.read(min(size, _PIECE))
        if not piece:
            raise FramingFault(400, StatusCode.CUT, "the connection ended inside a message")
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _malformed(what: str) -> FramingFault:
    return FramingFault(400, StatusCode.FRAMING, f"not the framing of SSSRMAP: {what}")


def request_frame(message: bytes, *, keep_alive: bool = False) -> bytes:
    """Return a request as Gold's clients send it; with `keep_alive` as RFC 9112 has it."""
    more = b"Connection: keep-alive\r\n" if keep_alive else b""
    return b"POST /SSSRMAP3 HTTP/1.1\r\n" + _HEADERS + more + b"\r\n" + _chunked([message], strict=keep_alive)


def reply_frame(messages: list[bytes], http: int = 200, *, keep_alive: bool = False) -> bytes:
    """Return an answer, each message in a chunk of its own.

    Peers read a header of exactly 88 bytes, and no line end after a chunk; with `keep_alive` it is RFC 9112.
    """
    first = f"HTTP/1.1 {http} {_PHRASES[http]}\r\n".encode()
    return first + _HEADERS + b"\r\n" + _chunked(messages, strict=keep_alive)


def _chunked(messages: list[bytes], *, strict: bool) -> bytes:
    end = b"\r\n" if strict else b""
    return b"".join(b"%X\r\n%b%b" % (len(each), each, end) for each in messages) + b"0\r\n" + end


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
