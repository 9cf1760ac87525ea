"""The processes of this machine, their parents, and how to end a whole tree of them.

Standard library only: this is loaded by the shepherd factory."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
_DEAD = (b"Z", b"X")  # what has exited and is not yet reaped needs no killing
_STOPPED = (b"T", b"t")  # by a signal, or by a tracer
_PAUSE = 0.005  # seconds between two rounds of killing


class Process(NamedTuple):
    """One process that lives: who started it, its session, whether it is stopped, its pages in memory.

    `blocked`: it waits in the kernel for what no signal interrupts, such as a disk, or a child of vfork.
    """

    parent: int
    session: int
    stopped: bool = False
    resident: int = 0
    blocked: bool = False


Picture = dict[int, Process]
"""All processes that live, by number."""


def picture() -> Picture:
    """Return the processes that live now.  Costs about 20 us each."""
    # A Path for each process would cost more than reading it.
    return picture_of([int(name) for name in os.listdir(_PROC) if name.isdigit()], _read)  # noqa: PTH208


def picture_of(numbers: Iterable[int], read: Callable[[int], Process | None]) -> Picture:
    """Return those of `numbers` that live, as `read` says of each.

    Processes are read one after the other.  If a parent ends between the reading of its child and its own,
    the child has a parent that is not there, and would be among nobody's descendants: it is read again.
    Numbers are used again, so a child may come before its parent.
    """
    processes = {number: seen for number in numbers if (seen := read(number)) is not None}
    alone: set[int] = set()  # the first process has no parent, and users may see only their own processes
    while orphans := [
        number for number, seen in processes.items() if seen.parent not in processes and number not in alone
    ]:
        for number in orphans:
            seen = read(number)
            if seen is None:
                del processes[number]
                continue
            if seen.parent == processes[number].parent:
                alone.add(number)
            processes[number] = seen
    return processes


def _read(process: int) -> Process | None:
    try:
        with open(f"/proc/{process}/stat", "rb") as file:  # noqa: PTH123
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    if fields[0] in _DEAD:
        return None
    state, parent, session, resident = fields[0], int(fields[1]), int(fields[3]), int(fields[21])
    return Process(parent, session, state in _STOPPED, resident, state == b"D")


def session_of(process: int) -> int:
    """Return the session of a process, also of one that has ended and is not reaped; 0 when there is none."""
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{process}/stat", "rb") as file:  # noqa: PTH123
        return int(file.read().rpartition(b")")[2].split()[3])
    return 0


_CHILDREN = 16_384  # bytes that are read at once


class ChildList:
    """The children of the thread that makes this, also those that others have left to it."""

    def __init__(self) -> None:
        """Open the list; where the system was built without such lists, a picture must do."""
        self._file = -1
        with contextlib.suppress(OSError):
            self._file = os.open("/proc/thread-self/children", os.O_RDONLY | os.O_CLOEXEC)

    def now(self) -> set[int]:
        """Return them.  Costs a few us with a list; else as much as a picture."""
        if self._file < 0:
            me = os.getpid()
            return {process for process, seen in picture().items() if seen.parent == me}
        read = os.pread(self._file, _CHILDREN, 0)
        while more := os.pread(self._file, _CHILDREN, len(read)):
            read += more
        return set(map(int, read.split()))

    def close(self) -> None:
        """Close the list."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def children() -> set[int]:
    """Return the children of the calling thread, once; who asks again and again keeps a `ChildList`."""
    found = ChildList()
    try:
        return found.now()
    finally:
        found.close()


def descendants(of: Iterable[int], within: Picture) -> set[int]:
    """Return the processes of `of` that live, and all that descend from any of `of`."""
    children: dict[int, list[int]] = {}
    for process, seen in within.items():
        children.setdefault(seen.parent, []).append(process)
    numbers: set[int] = set()
    ahead = list(of)
    while ahead:
        process = ahead.pop()
        if process not in numbers:
            numbers.add(process)
            ahead += children.get(process, ())
    return {process for process in numbers if process in within}


def has_marker(process: int, marker: bytes) -> bool:
    """Tell whether `NAME=value` is in the environment a process was started with, if we may read it."""
    return b"\0" + marker + b"\0" in _environment_of(process)


def has_variable(process: int, name: bytes) -> bool:
    """Tell whether a process was started with a variable, if we may read that."""
    return b"\0" + name + b"=" in _environment_of(process)


def variables_of(process: int) -> dict[bytes, bytes]:
    """Return the variables that a process was started with; none if we may not read them."""
    pairs = (each.partition(b"=") for each in _environment_of(process).split(b"\0"))
    return {name: value for name, is_set, value in pairs if is_set}


def owner_of(process: int) -> int | None:
    """Return the user as whom a process runs; None if it has ended."""
    try:
        return os.stat(f"/proc/{process}").st_uid  # noqa: PTH116
    except OSError:
        return None


def has_word(process: int, word: bytes) -> bool:
    """Tell whether the command line of a process has something in it."""
    try:
        with open(f"/proc/{process}/cmdline", "rb") as file:  # noqa: PTH123
            return word in file.read()
    except OSError:
        return False


def _environment_of(process: int) -> bytes:
    """Return the environment that a process was started with, between two NUL; nothing of one of others."""
    try:
        with open(f"/proc/{process}/environ", "rb") as file:  # noqa: PTH123
            return b"\0" + file.read() + b"\0"
    except OSError:
        return b"\0"


def marked(marker: bytes) -> set[int]:
    """Return the living processes whose environment holds the marker."""
    return {process for process in picture() if has_marker(process, marker)}


def send(processes: Iterable[int], what: int) -> None:
    """Send a signal to each; one that is gone already, or that is not ours any more, is passed over."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, what)


def end_marked(marker: bytes, timeout: float) -> set[int]:
    """Kill every process with the marker until there is none; return those left after `timeout` seconds."""
    until = time.monotonic() + timeout
    while left := marked(marker):
        send(left, signal.SIGKILL)
        if time.monotonic() > until:
            return left
        time.sleep(_PAUSE)
    return set()
