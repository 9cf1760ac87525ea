"""The text of a file: decoding, limits of its size, lines and columns, and hints for misspelt names."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cached_property
from typing import NoReturn

from headnode.core.model.errors import BadRequest, Path, TextPosition

MAX_BYTES = 32_000_000
_BLOCK = 4096
_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))


class SourceText:
    """A text whose places can be asked for."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def _blocks(self) -> list[tuple[int, int]]:
        """For each block of characters, its line (from 0) and where that line begins."""
        line = begins = 0
        blocks = []
        for start in range(0, len(self.text) + 1, _BLOCK):
            blocks.append((line, begins))
            line += self.text.count("\n", start, start + _BLOCK)
            begins = max(begins, self.text.rfind("\n", start, start + _BLOCK) + 1)
        return blocks

    def place(self, start: int) -> TextPosition:
        """Return the place of character number `start`.

        Cost:  the first costs a look at all of the text; each the number of characters in a block.
        """
        start = min(start, len(self.text))
        block = start // _BLOCK
        line, begins = self._blocks[block]
        line += self.text.count("\n", block * _BLOCK, start)
        begins = max(begins, self.text.rfind("\n", block * _BLOCK, start) + 1)
        return TextPosition(line + 1, start - begins)

    def refuse(self, start: int, code: str, what: str, fix: str, about: Path = ()) -> NoReturn:
        """Refuse the text for what stands at character number `start`; `about` is its path, if it has one.

        Raises:  BadRequest, always.
        """
        raise BadRequest(code=code, what=what, fix=fix, place=self.place(start), path=about)


def decode(data: bytes | str) -> str:
    """Return bytes as text: UTF-8, or UTF-16 that says so in its first two bytes.

    Raises:  BadRequest ``too-large``, ``encoding`` with line and column.
    """
    refuse_size(data)
    return _checked(data) if isinstance(data, str) else _decoded(data)


def refuse_size(data: bytes | str) -> None:
    """Refuse a text that is too large for any job.

    Raises:  BadRequest ``too-large``.
    """
    if len(data) > MAX_BYTES:
        raise BadRequest(
            code="too-large",
            what=f"the text has {len(data)} bytes, more than the {MAX_BYTES} a job may have",
            fix="divide it into several jobs, or write repetitions as a sweep",
        )


def _checked(text: str) -> str:
    text = text.removeprefix("\ufeff")
    try:
        text.encode()
    except UnicodeEncodeError as wrong:
        SourceText(text).refuse(
            wrong.start, "encoding", "half of a surrogate pair is not a character", "write it as UTF-8"
        )
    return text


def _decoded(data: bytes) -> str:
    mark, encoding = next(((mark, name) for mark, name in _MARKS if data.startswith(mark)), (b"", "utf-8"))
    body = data[len(mark) :]
    try:
        return body.decode(encoding)
    except UnicodeDecodeError as wrong:
        before = body[: wrong.start].decode(encoding, "replace")
        what = f"byte {body[wrong.start]:#04x} is not {encoding.upper()}"
        SourceText(before).refuse(len(before), "encoding", what, "save the file as UTF-8")


TIMES = 10
BASE = 128_000_000  # bytes
_TEXT = 3  # times the size: the text as it came, decoded, and encoded again


PartCounts = Mapping[str, tuple[int, int]]
"""For each kind of things how many there are, and the bytes that one takes."""


def has_room(size: int, things: PartCounts) -> bool:
    """Whether a text of `size` bytes may hold so many `things`."""
    return sum(number * each for number, each in things.values()) <= _most(size)


def refuse_many_parts(size: int, things: PartCounts) -> None:
    """Refuse a text of `size` bytes for the number of its parts.

    Raises:  BadRequest ``too-large``.
    """
    if has_room(size, things):
        return
    kind, (number, each) = max(things.items(), key=lambda item: item[1][0] * item[1][1])
    may = _most(size) // each
    raise BadRequest(
        code="too-large",
        what=f"the text of {size} bytes contains {number} {kind}; a text of that size may contain {may}",
        fix="divide it into several jobs, or write repetitions as a sweep",
    )


def _most(size: int) -> int:
    return BASE + (TIMES - _TEXT) * size


def nearest_name(wrong: str, right: Iterable[str]) -> str:
    """Return the name of `right` that looks most like `wrong`, in its own spelling; "" when none does.

    >>> nearest_name("priorty", ["Name", "Priority"])
    'Priority'
    """
    by_lower = {name.lower(): name for name in right}
    nearest = get_close_matches(wrong.lower()[:80], by_lower, n=1)
    return by_lower[nearest[0]] if nearest else ""
