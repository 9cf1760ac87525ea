"""Frames come out as they went in, however the stream is cut; one that is too large is refused."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headnode
from headnode.adapters.wire.frame_codec import HEADER, FrameDecoder, FrameTooLarge, frame

LARGEST = 20
messages = st.lists(st.binary(max_size=LARGEST), max_size=6)


def pieces(stream: bytes, cuts: list[int]) -> list[bytes]:
    """Return the stream cut at these places; two at the same place give an empty piece."""
    ends = sorted(cut % (len(stream) + 1) for cut in cuts)
    return [stream[first:last] for first, last in zip([0, *ends], [*ends, len(stream)], strict=True)]


def decoded(parts: list[bytes]) -> tuple[list[bytes], str]:
    """Return the messages of a stream, and why the decoder refused the rest of it."""
    decoder, found = FrameDecoder(LARGEST), list[bytes]()
    try:
        for part in parts:
            found.extend(iter(decoder.feed(part)))
    except FrameTooLarge as error:
        return found, str(error)
    return found, ""


@given(messages, st.lists(st.integers(0, 200)))
def test_any_split_of_the_bytes_gives_the_same_messages(sent: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(map(frame, sent))
    assert decoded(pieces(stream, cuts)) == (sent, "")


@given(
    messages, st.integers(LARGEST + 1, 2**32 - 1), st.binary(max_size=LARGEST), st.lists(st.integers(0, 300))
)
def test_any_split_gives_the_messages_before_one_that_is_too_large_and_then_its_refusal(
    sent: list[bytes], size: int, behind: bytes, cuts: list[int]
) -> None:
    stream = b"".join(map(frame, sent)) + size.to_bytes(HEADER, "big") + behind
    found, why = decoded(pieces(stream, cuts))
    assert found == sent
    assert str(size) in why


@given(messages, st.binary(max_size=LARGEST), st.integers(1, 9))
def test_no_more_is_kept_than_a_header_and_a_message_within_the_bound(
    sent: list[bytes], last: bytes, step: int
) -> None:
    stream = b"".join(map(frame, [*sent, last]))
    decoder = FrameDecoder(LARGEST)
    for at in range(0, len(stream), step):
        list(decoder.feed(stream[at : at + step]))
        assert decoder.kept < HEADER + LARGEST
    assert decoder.kept == 0


def test_nothing_is_kept_of_a_message_that_is_too_large_nor_of_what_follows() -> None:
    decoder = FrameDecoder(LARGEST)
    for data in ((LARGEST + 1).to_bytes(HEADER, "big"), frame(b"after it")):
        with pytest.raises(FrameTooLarge, match=f"{LARGEST + 1} bytes is too large; at most {LARGEST}"):
            list(decoder.feed(data))
        assert decoder.kept == 0


def test_a_length_is_written_and_read_nowhere_else() -> None:
    package = Path(headnode.__file__).parent
    own = re.compile(r"to_bytes\(4\b|from_bytes\([^)]*, \"big\"\)|\">I\"")
    writers = [path.name for path in package.rglob("*.py") if own.search(path.read_text())]
    assert writers == ["frame_codec.py"]
