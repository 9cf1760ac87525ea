"""Writes a file whole, or not at all: what was there stays until everything is on the disk."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from headnode.adapters.files.opening import directory_of, open_named

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def written_whole(path: Path) -> Iterator[BinaryIO]:
    """Open a file beside `path` that takes its place at the end; a pipe or a device is written to at once.

    The file beside it is new and has a name that nobody can guess: no link can be put in its place.
    Raises:  OSError when it cannot be written; nothing is left beside `path` then.
    """
    if path.exists() and not path.is_file():
        with os.fdopen(open_named(str(path), os.O_WRONLY), "wb") as file:
            yield file
        return
    directory, name = directory_of(str(path))
    beside = f".{name}.{secrets.token_hex(8)}.part"
    try:
        with os.fdopen(os.open(beside, _NEW, 0o666, dir_fd=directory), "wb") as file:
            try:
                yield file
                file.flush()
                os.rename(beside, name, src_dir_fd=directory, dst_dir_fd=directory)
            except BaseException:  # also when it is interrupted from the keyboard
                os.unlink(beside, dir_fd=directory)
                raise
    finally:
        os.close(directory)
