"""Frames: messages on a stream of bytes, each behind its length (4 bytes, big-endian).

No input or output: bytes go in, messages come out.  Every stream between our processes uses this codec, each
with a bound of its own.
Cost:  imports nothing: `hn`, shepherds and the programs inside tasks start quickly.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

HEADER = 4  # bytes
CHUNK = 64 * 1024  # bytes of input or output in one message
MAX_LENGTH = 2**32 - 1  # bytes that a header can announce: the bound of a peer that is trusted


class FrameTooLarge(ValueError):
    """A message whose announced size exceeds the limit of its stream."""

    def __init__(self, size: int, largest: int) -> None:
        """`size` and `largest` in bytes."""
        super().__init__(f"a message of {size} bytes is too large; at most {largest} are allowed")
        self.size, self.largest = size, largest


def frame(message: bytes) -> bytes:
    """Return the message behind its length."""
    return len(message).to_bytes(HEADER, "big") + message


def size_of(header: bytes | bytearray, largest: int) -> int:
    """Return the length of the message behind a header.

    Raises:  FrameTooLarge when it is more than `largest` bytes.
    """
    size = int.from_bytes(header, "big")
    if size > largest:
        raise FrameTooLarge(size, largest)
    return size


class FrameDecoder:
    """Decodes the bytes of a stream into complete messages as they arrive.

    A message that is too large is refused when its header is there: none of it is kept, nor what follows.
    """

    def __init__(self, largest: int) -> None:
        """`largest`: bytes of one message."""
        self._largest = largest
        self._arrived = bytearray()
        self._refused: FrameTooLarge | None = None

    @property
    def kept(self) -> int:
        """How many bytes are kept of messages that are not whole."""
        return len(self._arrived)

    def feed(self, data: bytes) -> "Iterator[bytes]":
        """Take bytes; return an iterator over the messages that are whole now.

        Raises:  FrameTooLarge, also from the iterator, behind the messages before the refused one.
        """
        if self._refused is not None:
            raise self._refused
        self._arrived += data
        return self._whole()

    def _whole(self) -> "Iterator[bytes]":
        arrived = self._arrived
        while len(arrived) >= HEADER:
            try:
                end = HEADER + size_of(arrived[:HEADER], self._largest)
            except FrameTooLarge as error:
                self._refused = error
                arrived.clear()
                raise
            if len(arrived) < end:
                return
            message = bytes(arrived[HEADER:end])
            del arrived[:end]
            yield message
