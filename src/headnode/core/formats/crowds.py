"""How many small things a text may hold, so that reading it never takes more memory than is promised.

A thing of a few characters is an object of some hundred bytes once it is read.  Promised are `TIMES` times
the size of the text, and `BASE`, which is enough for every job that people write.
"""

from collections.abc import Mapping

from headnode.core.model.errors import BadRequest

TIMES = 10
BASE = 128_000_000  # bytes
_TEXT = 3  # times the size: the text as it came, decoded, and encoded again


Things = Mapping[str, tuple[int, int]]
"""For each kind of things how many there are, and the bytes that one takes."""


def has_room(size: int, things: Things) -> bool:
    """Whether a text of `size` bytes may hold so many `things`."""
    return sum(number * each for number, each in things.values()) <= _most(size)


def refuse_crowd(size: int, things: Things) -> None:
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
