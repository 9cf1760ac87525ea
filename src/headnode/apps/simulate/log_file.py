"""Opens a job log, plain or packed, and reads it.  What the file is shows in its first bytes."""

import gzip
import lzma
import os
import zlib
from typing import BinaryIO

from headnode.adapters.files.opening import open_named
from headnode.core.formats.swf import Fits, Log, read_swf
from headnode.core.model.errors import BadRequest

LARGEST = 1 << 30  # bytes, unpacked: some ten million jobs
_XZ = b"\xfd7zXZ\x00"
_GZIP = b"\x1f\x8b"


def read_log(
    path: str,
    processors: int | None = None,
    largest: int = LARGEST,
    fits: Fits | None = None,
    whose: bool = False,
) -> Log:
    """Read a log in the Standard Workload Format, plain, gzip or xz; see `read_swf`.

    Raises:  BadRequest ``workload-file`` when it cannot be read or unpacked, and what `read_swf` raises.
    """
    # Latin-1 because old logs name people in their comments so; the numbers are the same in any encoding.
    return read_swf(_content(path, largest).decode("latin-1").splitlines(), processors, fits, whose)


def _content(path: str, largest: int) -> bytes:
    try:
        with os.fdopen(open_named(path), "rb") as file:
            content = _unpacked(file, largest + 1)
    except OSError as trouble:
        raise _unreadable(path, trouble.strerror or str(trouble)) from trouble
    except (EOFError, lzma.LZMAError, zlib.error) as trouble:
        raise _unreadable(path, f"it is packed, but damaged: {trouble}") from trouble
    if len(content) > largest:
        raise BadRequest(
            code="workload-file",
            what=f"job log {path!r} is larger than {largest} bytes",
            fix="cut it into months and simulate one after the other",
        )
    return content


def _unpacked(file: BinaryIO, most: int) -> bytes:
    """Return the first `most` bytes; no packed file, however small, can fill the memory."""
    begin = file.read(len(_XZ))
    file.seek(0)
    if begin.startswith(_XZ):
        with lzma.open(file) as stream:
            return stream.read(most)
    if begin.startswith(_GZIP):
        with gzip.open(file) as stream:
            return stream.read(most)
    return file.read(most)


def _unreadable(path: str, reason: str) -> BadRequest:
    return BadRequest(
        code="workload-file",
        what=f"job log {path!r} cannot be read: {reason}",
        fix="name a log in the Standard Workload Format, plain or packed with gzip or xz",
    )
