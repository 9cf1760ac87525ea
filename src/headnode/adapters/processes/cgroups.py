"""A control group for each shepherd, where this machine lets us have one: it can be killed as a whole.

There are two arrangements with a version 2 tree (alone, or beside version 1 as ``unified``), and none.
Standard library only: this is loaded by the shepherd factory.
"""

import contextlib
import os
import time
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_PLACES = (_ROOT, _ROOT / "unified")
_PAUSE = 0.005  # seconds between two looks
_STILL = "still"  # name of the group within a shepherd's whose processes can be frozen


def tree() -> Path | None:
    """Return the root of the version 2 tree if we may make groups in it, else None."""
    for place in _PLACES:
        if (place / "cgroup.controllers").exists():
            return place if os.access(place, os.W_OK) and os.access(place / "cgroup.procs", os.W_OK) else None
    return None


def group(marker: str) -> Path | None:
    """Return where the group of a shepherd is, whether it exists or not; None where there are no groups."""
    root = tree()
    return None if root is None else root / f"headnode-{marker}"


def enter(marker: str) -> bool:
    """Make the group and put this process into it; False when that is not possible."""
    path = group(marker)
    if path is None:
        return False
    try:
        path.mkdir(exist_ok=True)
        (path / "cgroup.procs").write_text(str(os.getpid()))
    except OSError:
        return False
    return True


def end(marker: str, patience: float) -> bool:
    """Kill all in the group and remove it; True when it is gone, or never was, within `patience` seconds."""
    path = group(marker)
    if path is None or not path.exists():
        return True
    until = time.monotonic() + patience
    while path.exists():
        with contextlib.suppress(OSError):  # before Linux 5.14 there is no cgroup.kill
            (path / "cgroup.kill").write_text("1")
        with contextlib.suppress(OSError):  # busy while something in it still dies
            if (path / _STILL).exists():
                (path / _STILL).rmdir()
            path.rmdir()
            return True
        if time.monotonic() > until:
            return False
        time.sleep(_PAUSE)
    return True


def exists(marker: str) -> bool:
    """Tell whether the group of a shepherd is there."""
    path = group(marker)
    return path is not None and path.exists()


class Freezer:
    """A group in a shepherd's group: what is moved into it stands still while it is frozen.

    It is opened while the shepherd may still do so: what is asked of open files later counts as asked by who
    opened them (Linux 5.16; before, the user is refused, and signals must do).
    """

    def __init__(self, marker: str) -> None:
        """Make and open the group.

        Raises:  OSError where that is not possible, as on systems without version 2.
        """
        outer = group(marker)
        if outer is None:
            raise FileNotFoundError("there are no control groups that we may use")
        path = outer / _STILL
        path.mkdir(exist_ok=True)
        self._leave = os.open(outer / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
        self._enter = os.open(path / "cgroup.procs", os.O_RDWR | os.O_CLOEXEC)
        self._freeze = os.open(path / "cgroup.freeze", os.O_WRONLY | os.O_CLOEXEC)
        self._events = os.open(path / "cgroup.events", os.O_RDONLY | os.O_CLOEXEC)

    def freeze(self) -> None:
        """Let nothing in the group run.

        Raises:  OSError.
        """
        os.write(self._freeze, b"1")

    def thaw(self) -> None:
        """Let all in the group run.

        Raises:  OSError.
        """
        os.write(self._freeze, b"0")

    def inside(self) -> set[int]:
        """Return the processes in the group."""
        found = b""
        while data := os.pread(self._enter, 65536, len(found)):
            found += data
        return {int(line) for line in found.split()}

    def is_frozen(self) -> bool:
        """Tell whether all in the group stand still."""
        return b"frozen 1" in os.pread(self._events, 4096, 0)

    def take_in(self, process: int) -> None:
        """Move a process into the group; one that is gone is passed over.

        Raises:  OSError.
        """
        with contextlib.suppress(ProcessLookupError):
            os.write(self._enter, str(process).encode())

    def let_out(self, process: int) -> None:
        """Move a process out of the group, where it runs; one that is gone is passed over.

        Raises:  OSError.
        """
        with contextlib.suppress(ProcessLookupError):
            os.write(self._leave, str(process).encode())
