"""Framing as every peer writes it is read; anything else ends in an error with a code."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from depth import share_of
from headnode.adapters.wire.sssrmap import (
    FramingFault,
    check_request,
    read_chunks,
    read_head,
    reply_frame,
    request_frame,
)
from headnode.core.formats.sss.sssrmap.status import MessageFault, StatusCode, value_of_code
from headnode.core.model import bounds

FIRST = b"POST /SSSRMAP3 HTTP/1.1\r\n"
TYPE = b'Content-Type: text/xml; charset="utf-8"\r\n'
CHUNKED = b"Transfer-Encoding: chunked\r\n"
HEAD = FIRST + TYPE + CHUNKED + b"\r\n"
MANY = settings(max_examples=share_of(400), deadline=None)


def with_stream(data: bytes, act: Callable[[asyncio.StreamReader], Awaitable[object]]) -> object:
    async def run() -> object:
        reader = asyncio.StreamReader(limit=bounds.RMAP_HEAD.most)
        reader.feed_data(data)
        reader.feed_eof()
        return await act(reader)

    return asyncio.run(run())


def received(data: bytes) -> object:
    async def act(reader: asyncio.StreamReader) -> object:
        head = await read_head(reader)
        if head is None:
            return None
        check_request(head)
        return b"".join(await read_chunks(reader, head))

    return with_stream(data, act)


def refusal(data: bytes) -> tuple[int, StatusCode]:
    with pytest.raises(FramingFault) as refused:
        received(data)
    return refused.value.http, refused.value.status


@pytest.mark.parametrize(
    "data",
    [
        HEAD + b"5\r\nhello0\r\n",  # Gold's clients in Perl and Java, Slurm
        HEAD + b"5\r\nhello\r\n0\r\n",  # Gold's client in C
        HEAD + b"5\r\nhello\r\n0\r\n\r\n",  # RFC 9112
        HEAD + b"2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n",
        HEAD.replace(b"chunked", b"chunked;") + b"5\r\nhello0\r\n\0",  # Maui
        b"POST /SSSRMAP HTTP/1.1\nCONTENT-TYPE: text/xml\nTransfer-Encoding: chunked\n\n05 \nhello0\n",
        b"POST /gold HTTP/1.1\r\nContent-Type: application/soap+xml\r\nContent-Length: 5\r\n\r\nhello",
        b"\r\n" + request_frame(b"hello"),
        request_frame(b"hello", keep_alive=True),
    ],
)
def test_every_form_of_framing_is_read(data: bytes) -> None:
    assert received(data) == b"hello"


def test_a_request_is_framed_as_golds_clients_do() -> None:
    assert request_frame(b"hello") == HEAD + b"5\r\nhello0\r\n"


def test_the_header_of_an_answer_has_88_bytes_and_nothing_follows_a_chunk() -> None:
    reply = reply_frame([b"x" * 255])
    assert reply.index(b"\r\n\r\n") + 4 == 88
    assert reply[88:] == b"FF\r\n" + b"x" * 255 + b"0\r\n"


@pytest.mark.parametrize(
    ("data", "http", "status"),
    [
        (HEAD.replace(b"POST", b"GET"), 405, StatusCode.FRAMING),
        (HEAD.replace(b"/SSSRMAP3", b"/etc/passwd"), 404, StatusCode.FRAMING),
        (HEAD.replace(b"/SSSRMAP3", b"/SSSRMAP3/../x y"), 404, StatusCode.FRAMING),
        (FIRST + CHUNKED + b"\r\n", 412, StatusCode.FRAMING),
        (FIRST + TYPE + b"\r\n", 412, StatusCode.FRAMING),
        (FIRST + TYPE + CHUNKED + b"Content-Length: 5\r\n\r\nhello", 412, StatusCode.FRAMING),
        (FIRST + TYPE + b"Content-Length: -5\r\n\r\nhello", 412, StatusCode.FRAMING),
        (FIRST + TYPE + CHUNKED.replace(b"chunked", b"gzip") + b"\r\n", 412, StatusCode.FRAMING),
        (b"hello\r\n\r\n", 400, StatusCode.FRAMING),
        (FIRST + b"no colon\r\n\r\n", 400, StatusCode.FRAMING),
        (FIRST + TYPE + TYPE + CHUNKED + b"\r\n", 400, StatusCode.FRAMING),
        (FIRST + b"Content-Length : 5\r\n\r\n", 400, StatusCode.FRAMING),
        (HEAD + b"x\r\n", 400, StatusCode.SIZE),
        (HEAD + b"-5\r\n", 400, StatusCode.SIZE),
        (HEAD + b"5\r\nhell", 400, StatusCode.CUT),
        (HEAD + b"5\r\nhello", 400, StatusCode.CUT),
        (FIRST + TYPE, 400, StatusCode.CUT),
        (HEAD + b"FFFFFFFF\r\n", 400, StatusCode.TOO_LARGE),
        (FIRST + b"a: b\r\n" * 1 + b"X: " + b"y" * 9000 + b"\r\n\r\n", 400, StatusCode.FRAMING),
        (FIRST + b"".join(b"h%d: %d\r\n" % (n, n) for n in range(900)) + b"\r\n", 400, StatusCode.TOO_LARGE),
        (FIRST + TYPE + b"Content-Length: 99999999\r\n\r\n", 400, StatusCode.TOO_LARGE),
    ],
)
def test_what_is_no_framing_is_refused_with_its_code(data: bytes, http: int, status: StatusCode) -> None:
    assert refusal(data) == (http, status)


def test_a_client_that_says_nothing_is_no_error() -> None:
    assert received(b"") is None
    assert received(b"\r\n") is None


@MANY
@given(st.binary(max_size=400), st.integers(0, len(HEAD) + 12), st.integers(0, 20))
def test_any_bytes_are_read_or_refused_with_a_code(what: bytes, at: int, gone: int) -> None:
    whole = HEAD + b"5\r\nhello0\r\n"
    for data in (what, HEAD + what, whole[:at] + what + whole[at + gone :]):
        codes: set[str] = set()
        try:
            received(data)
        except MessageFault as refused:
            codes.add(refused.status)
        assert {value_of_code(code) for code in codes} <= {"Failure"}


@MANY
@given(st.lists(st.binary(min_size=1, max_size=50), max_size=8), st.booleans())
def test_chunks_of_an_answer_are_read_as_they_were_written(chunks: list[bytes], strict: bool) -> None:
    async def act(reader: asyncio.StreamReader) -> object:
        head = await read_head(reader)
        assert head is not None
        return await read_chunks(reader, head)

    assert with_stream(reply_frame(chunks, keep_alive=strict), act) == chunks
