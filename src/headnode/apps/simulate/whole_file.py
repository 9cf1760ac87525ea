"""Writes a file whole, or not at all: what was there stays until everything is on the disk."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def written_whole(path: Path) -> Iterator[BinaryIO]:
    """Open a file beside `path` that takes its place at the end; a pipe or a device is written to at once.

    Raises:  OSError when it cannot be written; nothing is left beside `path` then.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    target = path.resolve()
    beside = target.with_name(f"{target.name}.part")
    try:
        with beside.open("wb") as file:
            yield file
        beside.replace(target)
    except BaseException:  # also when it is interrupted from the keyboard
        beside.unlink(missing_ok=True)
        raise
