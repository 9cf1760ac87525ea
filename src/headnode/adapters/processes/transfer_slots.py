"""How many transfers run on a node at once, of all its jobs: each holds locks in one file of the agent.

A shepherd opens the file before it becomes the user of its job, so no task can lock it; the kernel frees the
locks of a shepherd that dies.  Standard library only: this is loaded by the shepherd factory.
Source:  fcntl(2), "Open file description locks (non-POSIX)".
"""

import fcntl
import os
import random
import struct
import time
import zlib
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

FILE = "transfers.lock"
PAUSE = 0.5  # seconds until slots that were taken are looked at again
_NODE = ""  # the name of the bound for all transfers
_SPAN = 1 << 16  # bytes of the file for each name, more than a bound can be
_LOCK = "hhqqi"  # struct flock: type, whence, start, length, process


def open_slots(run_directory: str) -> int:
    """Return a descriptor of the file of the locks.

    Raises:  OSError.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(f"{run_directory}/{FILE}", flags, 0o600)


def bounds_of(plan: Mapping[str, Any], direction: str) -> dict[str, int]:
    """Return how many transfers there may be on the node, and with each host of these files, by name."""
    hosts = {urlsplit(file["url"]).hostname for file in plan[direction]}
    return {_NODE: plan["node_most"], **dict.fromkeys(sorted(filter(None, hosts)), plan["host_most"])}


class TransferSlots:
    """The slots of one shepherd among those of the node.  `file`: None has slots for everybody."""

    def __init__(self, file: int | None = None) -> None:
        self._file = file
        self._mine: set[int] = set()
        self._taken_until: dict[str, float] = {}  # names without a slot, until they are looked at again

    def take(self, bounds: Mapping[str, int]) -> list[int] | None:
        """Take a slot of each name, all or none; None: one has no slot now, see `blocked`."""
        taken: list[int] = []
        for name, most in bounds.items():
            slot = self._lock_one(name, most)
            if slot is None:
                self._taken_until[name] = time.monotonic() + PAUSE * random.uniform(0.5, 1.5)  # noqa: S311
                self.give_back(taken)
                return None
            taken.append(slot)
        return taken

    def blocked(self, bounds: Iterable[str]) -> str | None:
        """Return the first of these names that has had no slot just now; None if none has."""
        now = time.monotonic()
        return next((name for name in bounds if self._taken_until.get(name, 0.0) > now), None)

    @property
    def next_look(self) -> float:
        """When a name without a slot is looked at again, on the monotonic clock."""
        now = time.monotonic()
        self._taken_until = {name: until for name, until in self._taken_until.items() if until > now}
        return min(self._taken_until.values(), default=float("inf"))

    def give_back(self, slots: list[int]) -> None:
        """Let others have slots."""
        for slot in slots:
            self._mine.discard(slot)
            self._set(fcntl.F_UNLCK, slot)

    def _lock_one(self, name: str, most: int) -> int | None:
        first = zlib.crc32(name.encode()) * _SPAN
        for slot in range(first, first + most):
            if slot not in self._mine and self._set(fcntl.F_WRLCK, slot):
                self._mine.add(slot)
                return slot
        return None

    def _set(self, kind: int, slot: int) -> bool:
        """Lock or unlock a byte; False if another shepherd has it."""
        if self._file is None:
            return True
        try:
            fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, struct.pack(_LOCK, kind, os.SEEK_SET, slot, 1, 0))
        except BlockingIOError:
            return False
        return True
