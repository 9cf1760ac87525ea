"""Uploads that are written beside their names and may go on where they stopped."""

import os
from collections.abc import Callable

from headnode.adapters.staging.arrival import CHUNK

_LONGEST_NAME = 150  # characters of a name that is part of another


def part_name(name: str, token: str) -> str:
    """Return the name beside a name, of one attempt.

    >>> part_name("result", "7.1.1.1-ab")
    '.result.part-7.1.1.1-ab'
    """
    return f".{name[:_LONGEST_NAME]}.part-{token}"


def same_so_far(file: int, size: int, there: int, end: Callable[[int], bytes]) -> int:
    """Return from which byte an upload goes on: behind those that are there, if they end as the file does.

    `end` returns what is there from a byte on.  A server that crashed may have lost the last of what it took.
    """
    begin = max(0, there - CHUNK)
    if 0 < there <= size and end(begin) == os.pread(file, there - begin, begin):
        return there
    return 0
