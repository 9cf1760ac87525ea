"""The transfers of one attempt in one direction: what the process is told, and what it has said.

Standard library only: this is loaded by the shepherd factory."""

import contextlib
import json
import os
import time
from typing import Any

from headnode.adapters.processes.attempts import ShepherdAttempt
from headnode.adapters.processes.transfer_slots import bounds_of
from headnode.core.model.outcome import TransferUsage

_LARGEST_LINE = 1 << 20  # bytes
_NOT_TOLD = ("in", "out", "most", "node_most", "host_most")


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
        """Return what the process is told."""
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

    def hear(self, data: bytes) -> None:
        """Take in what the process says."""
        self._text += data
        *lines, self._text = self._text.split(b"\n")
        if len(self._text) > _LARGEST_LINE:
            self._text = b""
        for line in lines:
            with contextlib.suppress(ValueError):
                self._take(json.loads(line))

    def _take(self, said: Any) -> None:
        match said:
            case ["moved", int(), int(), int(), int(), str()]:
                self.moved = said[1:]
            case ["file", str(path)]:
                self.done.append(path)
            case ["done", int(size)]:
                self.over, self.moved[2] = True, size
            case ["failed", str(why)]:
                self.over, self.failure = True, why[:4000]

    @property
    def report(self) -> list[Any]:
        """What is told of it: task, instance, attempt, direction, since when, and how far it is."""
        return [*self.attempt.key, self.direction, self.began, *self.moved]


def ready_report(attempt: ShepherdAttempt) -> list[Any]:
    """Return what is told of an attempt whose files are there and whose job has no processors."""
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
