"""Reads the files that tasks write, as the user, while they grow."""
# ruff: noqa: PTH123 (pathlib costs 6 ms)

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from headnode.core.model.errors import HeadnodeError

PIECE = 1 << 16  # bytes
PAUSE = 0.1  # seconds between two looks at a file that grows


def copy_file(
    path: str, write: "Callable[[bytes], object]", *, last: int | None = None, captured: bool = False
) -> None:
    """Hand the file's bytes to `write`; with `last`, no more than so many of its end.

    A `captured` file that is not there is one that stayed empty: those are not kept.
    Raises:  Refused ``no-output`` when there is no such file, or it may not be read.
    """
    try:
        with open(path, "rb") as file:
            if last is not None:
                file.seek(max(0, os.fstat(file.fileno()).st_size - last))
            while piece := file.read(PIECE):
                write(piece)
    except FileNotFoundError as trouble:
        if not captured:
            raise _unreadable(path, trouble) from trouble
    except OSError as trouble:
        raise _unreadable(path, trouble) from trouble


def follow_file(path: str, write: "Callable[[bytes], object]", is_over: "Callable[[], bool]") -> None:
    """Hand on what is in the file and what is written to it, until `is_over` and all was read.

    The file may not exist yet.
    Raises:  Refused ``no-output`` when it may not be read.
    """
    at = 0  # bytes handed on
    while True:
        over = is_over()  # asked before reading: nothing is written after it said yes
        at = _copy_from(path, at, write)
        if over:
            return
        time.sleep(PAUSE)


def _copy_from(path: str, at: int, write: "Callable[[bytes], object]") -> int:
    try:
        with open(path, "rb") as file:
            # A file that shrank was begun anew, by a task that is run again.
            file.seek(at if at <= os.fstat(file.fileno()).st_size else 0)
            while piece := file.read(PIECE):
                write(piece)
            return file.tell()
    except FileNotFoundError:
        return at
    except OSError as trouble:
        raise _unreadable(path, trouble) from trouble


def _unreadable(path: str, trouble: OSError) -> "HeadnodeError":
    from headnode.core.model.errors import Refused

    reason = os.strerror(trouble.errno) if trouble.errno else str(trouble)
    return Refused(
        code="no-output", what=f"output file {path!r} cannot be read: {reason}", fix="see: hn task view"
    )
