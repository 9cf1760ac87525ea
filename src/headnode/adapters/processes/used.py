"""What the processes of an attempt used, gathered as they end.

A process that ends hands on to its parent what it and its children used.  What a program leaves alone comes
to the shepherd in the end, and is counted here. Standard library only: this is loaded by the shepherd
factory. Source: getrusage(2), proc(5).
"""

import contextlib
import os
from typing import NamedTuple


class Used(NamedTuple):
    """Times in seconds, of the user and the system; bytes read and written, whatever from and to."""

    user: float = 0.0
    system: float = 0.0
    bytes_read: int = 0
    bytes_written: int = 0

    def and_also(self, other: "Used") -> "Used":
        """Return both together."""
        return Used(
            self.user + other.user,
            self.system + other.system,
            self.bytes_read + other.bytes_read,
            self.bytes_written + other.bytes_written,
        )


def open_counters(process: int) -> int:
    """Return a descriptor of what a process has read and written, to be read when it has ended; -1: none.

    It must be opened while the process runs: of one that has ended it belongs to root.
    """
    try:
        return os.open(f"/proc/{process}/io", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1


def read_counters(counters: int) -> tuple[int, int]:
    """Return the bytes that a process and the children it has reaped have read and written, and close it.

    The process may have ended, but must not be reaped.  Nothing is told of one that is not ours any more.
    """
    if counters < 0:
        return 0, 0
    try:
        words = os.read(counters, 4096).split(None, 4)
    except OSError:
        return 0, 0
    finally:
        os.close(counters)
    return (int(words[1]), int(words[3])) if words[:3:2] == [b"rchar:", b"wchar:"] else (0, 0)


def session_of(process: int) -> int:
    """Return the session of a process, also of one that has ended and is not reaped; 0 when there is none."""
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{process}/stat", "rb") as file:  # noqa: PTH123
        return int(file.read().rpartition(b")")[2].split()[3])
    return 0
