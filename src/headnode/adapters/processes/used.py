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


def input_and_output(process: int) -> tuple[int, int]:
    """Return the bytes that a process and the children it has reaped have read and written, also of one that
    has ended and is not reaped; nothing of one that is not ours any more.
    """
    try:
        file = os.open(f"/proc/{process}/io", os.O_RDONLY)
    except OSError:
        return 0, 0
    try:
        words = os.read(file, 4096).split(None, 4)
    except OSError:
        return 0, 0
    finally:
        os.close(file)
    return (int(words[1]), int(words[3])) if words[:3:2] == [b"rchar:", b"wchar:"] else (0, 0)


def session_of(process: int) -> int:
    """Return the session of a process, also of one that has ended and is not reaped; 0 when there is none."""
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{process}/stat", "rb") as file:  # noqa: PTH123
        return int(file.read().rpartition(b")")[2].split()[3])
    return 0
