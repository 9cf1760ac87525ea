"""The transfer process of an attempt at another scheduler: runs as its user, on the machine of the commands.

Its argument is the descriptor of its order.  What it has done is in the file `LOG` in the directory of the
attempt, which it locks: of two processes of one attempt, such as that of a hand-off process that was killed,
the second waits, and goes on where the first has stopped.  Input that is there is never brought again: the
program may have begun to use it.

It ends when its standard input is closed.  It says in lines of JSON how far it is (`transfer`), and last
``["done", time in, bytes in, time out, bytes out]``, ``["failed", sentence]``, or ``["later", sentence]`` if
its directory is away.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import stat
import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgspec

from headnode.adapters.staging.failures import NeverTransferred, TransferFailed, of_error
from headnode.adapters.staging.transfer import (
    FileOrder,
    TransferOrder,
    bound_memory,
    end_with_parent,
    guarded,
    send,
    words_of,
)

LOG = "transfers"  # in the directory of the attempt
MAX_LOG = 128 << 20  # bytes: 100,000 paths in two directions have less
LOCK_TIMEOUT = 30.0  # seconds for another process of the attempt to end
_LOCK_PAUSE = 0.1
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_OWN_LOG = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_BOOT = "/proc/sys/kernel/random/boot_id"


class AttemptFilesOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is done: `direction` is empty to only remove the files.

    `root` must be there: made anew where nothing is mounted, it would hide what was done before.
    """

    direction: str
    root: str
    base: str  # the directory of all attempts of the user
    marker: str  # the name of that of this attempt
    scratch: str  # the name of that of its files
    home: str
    files: list[FileOrder]
    attempts: int
    timeout: float
    networks: list[str]
    at_once: int
    notes: bool = False


class NotNow(Exception):
    """The directory of the attempt is away, or another process has it."""


def open_attempt(order: AttemptFilesOrder) -> int:
    """Make the directory of an attempt if it is not there, and return its descriptor.

    One of another user, who could exchange what is written there, is refused.
    Raises:  NotNow, NeverTransferred, OSError.
    """
    if not Path(order.root).is_dir():
        raise NotNow(f"there is no directory {order.root} now")
    mask = os.umask(0o077)
    try:
        os.makedirs(order.base, exist_ok=True)  # noqa: PTH103 - as the shell that submits does
    finally:
        os.umask(mask)
    base = os.open(order.base, _DIRECTORY)
    try:
        for folder in (".", ".."):
            if os.stat(folder, dir_fd=base).st_uid != os.geteuid():
                raise NeverTransferred(f"{order.base} is not a directory of its user", "see docs/hand-off.md")
        return _own_directory(order.marker, base)
    finally:
        os.close(base)


def _own_directory(name: str, above: int | None = None) -> int:
    """Make a directory of this user if it is not there, and return its descriptor; no link is followed."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=above)
    directory = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
    if os.fstat(directory).st_uid != os.geteuid():
        os.close(directory)
        raise NeverTransferred(f"{name!r} is not a directory of its user", "see docs/hand-off.md")
    return directory


class TransferLog:
    """What processes of an attempt have done, in its directory, which is the working directory."""

    def __init__(self) -> None:
        """Open the log and lock it.

        Raises:  NotNow, NeverTransferred, OSError.
        """
        self._file = os.open(LOG, _OWN_LOG, 0o600)
        about = os.fstat(self._file)
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid() or about.st_size > MAX_LOG:
            raise NeverTransferred(f"{LOG!r} is in the way, and is not a file of this transfer")
        self._lock()
        self._lines = threading.Lock()
        self.done: dict[str, list[str]] = {"in": [], "out": []}
        self.began: dict[str, float] = {}
        self.moved: dict[str, tuple[float, int]] = {}  # of a direction that is over: how long, and how much
        self._read(Path(_BOOT).read_text().strip())

    def _lock(self) -> None:
        until, pause = time.monotonic() + LOCK_TIMEOUT, threading.Event()
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise NotNow("another process transfers its files") from None
                pause.wait(_LOCK_PAUSE)
            else:
                return

    def _read(self, boot: str) -> None:
        """Take in what was done; files that came before the machine started again may not be whole."""
        current = ""
        with os.fdopen(os.dup(self._file), "rb") as file:
            for line in file:
                match _line(line):
                    case ["boot", str(current)]:
                        pass
                    case ["file", "in" | "out" as way, str(path)] if way == "out" or current == boot:
                        self.done[way].append(path)
                    case ["began", "in" | "out" as way, float(at)]:
                        self.began.setdefault(way, at)
                    case ["moved", "in" | "out" as way, float(took), int(size)]:
                        self.moved[way] = (took, size)
        self._add("boot", boot)

    def _add(self, *words: Any) -> None:
        with self._lines:
            os.write(self._file, json.dumps(words).encode() + b"\n")

    def begin(self, direction: str) -> None:
        """A direction begins, if it has not before."""
        if direction not in self.began:
            self.began[direction] = time.time()
            self._add("began", direction, self.began[direction])

    def note(self, direction: str, path: str) -> None:
        """A file is whole."""
        self._add("file", direction, path)

    def end(self, direction: str, size: int) -> None:
        """All files of a direction are whole, also after a power failure."""
        self.moved[direction] = (max(0.0, time.time() - self.began[direction]), size)
        if ctypes.CDLL(None, use_errno=True).syncfs(self._file) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        self._add("moved", direction, *self.moved[direction])
        os.fsync(self._file)

    @property
    def usage(self) -> tuple[float, int, float, int]:
        """How long both directions took, and how many bytes were moved."""
        return (*self.moved.get("in", (0.0, 0)), *self.moved.get("out", (0.0, 0)))


def _line(data: bytes) -> Any:
    """Return what a line of the log says; None for one that was cut."""
    try:
        return json.loads(data)
    except ValueError:
        return None


def transfer(order: AttemptFilesOrder, log: TransferLog) -> None:
    """Transfer what is not there yet.  Raises:  TransferFailed, OSError."""
    way = order.direction
    absolute = next((file.path for file in order.files if file.path.startswith("/")), None)
    if absolute is not None:
        raise NeverTransferred(
            f"{absolute!r} is an absolute path, which may be another one on the nodes",
            "name a file below the directory of the task",
        )
    log.begin(way)
    scratch = _own_directory(order.scratch)
    try:
        os.fchdir(scratch)
    finally:
        os.close(scratch)
    done = log.done[way]
    transfer_order = TransferOrder(
        way, ".", order.marker, order.home, order.files, order.attempts, order.timeout, order.networks,
        order.at_once, done, order.notes,
    )  # fmt: skip
    transfers = guarded(transfer_order)
    transfers.progress.add(sum(_size_of(path) for path in done))
    transfers.progress.note = lambda path: log.note(way, path)
    transfers.run()
    log.end(way, transfers.progress.size)


def _size_of(path: str) -> int:
    """Return the bytes of a file that was transferred before; 0 if it is gone."""
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def carry_out(order: AttemptFilesOrder) -> tuple[float, int, float, int]:
    """Do what an order says, and return how long the transfers of its attempt took and how much they moved.

    Raises:  NotNow, TransferFailed, OSError.
    """
    place = open_attempt(order)
    os.fchdir(place)
    log = TransferLog()
    if order.direction and order.direction not in log.moved:
        transfer(order, log)
    if order.direction != "in":
        os.fchdir(place)
        shutil.rmtree(order.scratch, ignore_errors=True)
    return log.usage


def main() -> None:
    """Do what the order says."""
    with os.fdopen(int(sys.argv[1]), "rb") as file:
        order = msgspec.json.decode(file.read(), type=AttemptFilesOrder)
    end_with_parent()
    bound_memory()
    try:
        usage = carry_out(order)
    except NotNow as why:
        send("later", str(why))
    except TransferFailed as failure:
        send("failed", words_of(failure))
    except OSError as error:
        meant = of_error(error, f"{order.base}/{order.marker}")
        send("failed" if meant.permanent else "later", words_of(meant))
    else:
        send("done", *usage)


if __name__ == "__main__":
    main()
