"""The transfers of one attempt in one direction, and how many run on a node at once, of all its jobs.

Each transfer holds locks in one file of the agent.  A shepherd opens the file before it becomes the user of
its job, so no task can lock it; the kernel frees the locks of a shepherd that dies.
Standard library only: this is loaded by the shepherd factory.
Source:  fcntl(2), "Open file description locks (non-POSIX)".
"""

import contextlib
import fcntl
import json
import os
import random
import struct
import time
import zlib
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from headnode.adapters.processes.attempts import ShepherdAttempt
from headnode.core.model.outcome import TransferUsage

SLOTS_FILE = "transfers.lock"
SLOT_PAUSE = 0.5  # seconds until slots that were taken are looked at again
_NODE = ""  # the name of the bound for all transfers
_SPAN = 1 << 16  # bytes of the file for each name, more than a bound can be
_LOCK = "hhqqi"  # struct flock: type, whence, start, length, process


def open_slots(run_directory: str) -> int:
    """Return a descriptor of the file of the locks.

    Raises:  OSError.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(f"{run_directory}/{SLOTS_FILE}", flags, 0o600)


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
                self._taken_until[name] = time.monotonic() + SLOT_PAUSE * random.uniform(0.5, 1.5)  # noqa: S311
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


_MAX_LINE = 1 << 20  # bytes
_MAX_NUMBER = 1 << 53  # of files, or of bytes
_MAX_HOST, _MAX_PATH, _MAX_WORDS = 256, 4095, 4000  # characters
_MAX_DONE = 100_000  # files, as the process has it
_NOT_TOLD = ("in", "out", "most", "node_most", "host_most")


def _possible(number: int) -> int:
    return min(max(0, int(number)), _MAX_NUMBER)  # `true` is an int here, and no number on the wire


def _sendable(text: str, most: int) -> str:
    """Return text without what cannot be sent on: an escape may stand for half a character."""
    return text[:most].encode("utf-8", "replace").decode()


class TransferRun:
    """The transfers of one attempt in one direction, by one process after the other."""

    def __init__(self, attempt: ShepherdAttempt, direction: str) -> None:
        self.attempt, self.direction = attempt, direction
        self.began = time.time()
        self.process = 0
        self.deaths = 0
        self.done: list[str] = []  # the paths that are whole
        self.moved: list[Any] = [0, 0, 0, 0, ""]
        self.failure: str | None = None  # why it failed; None: it did not
        self.trouble = ""  # a word of `faults`, when this node could not start it
        self.over = False  # the process has said how it ended
        self.stopped = False
        self.retry_at: float | None = None  # on the monotonic clock, when a process could not be started
        self.bounds = bounds_of(attempt.staging or {}, direction)  # how many there may be, by name
        self.slots: list[int] = []  # that it has while a process runs
        self._text = b""

    def order(self) -> bytes:
        """Return the order for the process."""
        plan = self.attempt.staging or {}
        told = {key: value for key, value in plan.items() if key not in _NOT_TOLD}
        files = plan[self.direction]
        return json.dumps({**told, "direction": self.direction, "files": files, "done": self.done}).encode()

    def wait_for(self, name: str) -> None:
        """Wait for other jobs: with a host, or "" with the node."""
        self.retry_at = 0.0  # as soon as there is a slot
        self.moved = [
            len(self.done),
            len((self.attempt.staging or {})[self.direction]),
            0,
            0,
            name or "a free slot",
        ]

    def receive(self, data: bytes) -> None:
        """Take in what the process says."""
        self._text += data
        *lines, self._text = self._text.split(b"\n")
        if len(self._text) > _MAX_LINE:
            self._text = b""
        for line in lines:
            with contextlib.suppress(ValueError, RecursionError):
                self._take(json.loads(line))

    def _take(self, report: Any) -> None:
        """Take in a line of a process that its user may have replaced.

        What the agent passes on is possible: the head drains a node that reports what is not.
        """
        match report:
            case ["moved", int(files), int(of_files), int(size), int(of_size), str(waits_for)]:
                numbers = map(_possible, (files, of_files, size, of_size))
                self.moved = [*numbers, _sendable(waits_for, _MAX_HOST)]
            case ["file", str(path)] if len(self.done) < _MAX_DONE:
                self.done.append(_sendable(path, _MAX_PATH))
            case ["done", int(size)]:
                self.over, self.moved[2] = True, _possible(size)
            case ["failed", str(why)]:
                self.over, self.failure = True, _sendable(why, _MAX_WORDS)

    @property
    def report(self) -> list[Any]:
        """What is told of it: task, instance, attempt, direction, since when, and how far it is."""
        return [*self.attempt.key, self.direction, self.began, *self.moved]


def ready_report(attempt: ShepherdAttempt) -> list[Any]:
    """Return the report on an attempt whose files are there and whose job has no processors."""
    files, moved = len((attempt.staging or {})["in"]), attempt.moved or TransferUsage()
    return [*attempt.key, "ready", time.time(), files, files, moved.in_bytes, moved.in_bytes, ""]


def count(transfer: TransferRun) -> None:
    """Add the time and the bytes of a transfer to those of its attempt."""
    took, size = max(0.0, time.time() - transfer.began), transfer.moved[2]
    before = transfer.attempt.moved or TransferUsage()
    if transfer.direction == "in":
        transfer.attempt.moved = before._replace(in_time=took, in_bytes=size)
    else:
        transfer.attempt.moved = before._replace(out_time=took, out_bytes=size)


def pipes(opened: list[int]) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return two pipes; what is opened is noted."""
    first = os.pipe2(os.O_CLOEXEC)
    opened += first
    second = os.pipe2(os.O_CLOEXEC)
    opened += second
    return first, second


def order_file(data: bytes, opened: list[int]) -> int:
    """Return a file in memory that has an order: there may be more of it than a pipe holds."""
    file = os.memfd_create("order", os.MFD_CLOEXEC)
    opened.append(file)
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
    os.lseek(file, 0, os.SEEK_SET)
    return file
