"""The audit log: only appended to, one JSON object on each line; a line that was accepted is on the disk."""

import asyncio
import logging
import os
import time
from pathlib import Path
from typing import Any

import msgspec

from headnode.adapters.wire.frames import ends_turn
from headnode.core.model.errors import Unavailable

log = logging.getLogger("headnode.audit")

ROOM = 1 << 20  # bytes that the file system must have left before anything is changed
QUICK_DISK = 0.001  # seconds of a wait for the disk on average; for a longer one a thread waits
_SHARE_OF_NEWEST = 0.2  # of the newest wait in that average
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class AuditLog:
    """Lines of many requests are written together, with one wait for the disk.

    To have a thread wait costs 0.1 ms of processor time for each wait, so it does so where the disk is slow.
    """

    def __init__(self, path: Path, quick: float = QUICK_DISK) -> None:
        """`quick`: seconds for which the loop itself waits for the disk."""
        self._path, self._quick = path, quick
        self._name = str(path)  # it is looked at all the time
        self._average = 0.0  # seconds of a wait for the disk
        self._file: int | None = None
        self._identity = (0, 0)  # device and number of the open file
        self._unwritten = b""  # what could not be written stays, and goes first
        self._waiting: list[asyncio.Future[None]] = []
        self._works = False  # a write is to come, or the disk works
        self._problem = ""  # why it cannot be written, as the log of the head has it

    def make_ready(self) -> None:
        """See to it that there is a file with room; called before anything is changed.

        Raises:  Unavailable ``audit``; then nothing must be changed.
        """
        if problem := self.problem():
            raise self._trouble(problem)

    def problem(self) -> str:
        """Return why nothing may be changed: it cannot be written.  The log has when that begins and ends."""
        try:
            self._write()
            room = os.fstatvfs(self._open())
        except OSError as error:
            problem = error.strerror or str(error)
        else:
            problem = "" if room.f_bavail * room.f_frsize >= ROOM else "no space is left for it"
        if problem and not self._problem:
            log.critical("the audit log %s cannot be written: %s; nothing is changed", self._path, problem)
        elif self._problem and not problem:
            log.warning("the audit log %s can be written again", self._path)
        self._problem = problem
        return problem

    @property
    def is_writing(self) -> bool:
        """Whether lines are on their way to the disk."""
        return self._works

    async def append(self, entry: dict[str, Any]) -> None:
        """Write one line; return when it is on the disk.

        Raises:  Unavailable ``audit-late``: what it tells of has happened; the line is written later.
        """
        self._unwritten += msgspec.json.encode(entry) + b"\n"
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(done)
        if not self._works:
            self._works = True
            if ends_turn():
                self._write_waiting()
            else:  # what is answered in this turn together
                asyncio.get_running_loop().call_soon(self._write_waiting)
        await done

    def _write_waiting(self) -> None:
        """Write what waits; who comes while the disk works is in the next round."""
        waiting, self._waiting = self._waiting, []
        try:
            self._write()
            if self._average <= self._quick:
                self._note(_settle(self._open()))
                self._written(waiting, None)
                return
            own = os.dup(self._open())  # ours may be moved away meanwhile
        except OSError as error:
            self._written(waiting, error)
            return
        try:
            settled = asyncio.get_running_loop().run_in_executor(None, _settle_and_close, own)
        except RuntimeError as error:  # no thread can be started; the next one that can closes the descriptor
            self._written(waiting, error)
            return
        settled.add_done_callback(lambda done: self._settled(waiting, done))

    def _settled(self, waiting: "list[asyncio.Future[None]]", settled: "asyncio.Future[float]") -> None:
        """Go on after a wait of the thread."""
        error = settled.exception()
        if error is None:
            self._note(settled.result())
        self._written(waiting, error)

    def _note(self, seconds: float) -> None:
        self._average += _SHARE_OF_NEWEST * (seconds - self._average)

    def _written(self, waiting: list[asyncio.Future[None]], error: BaseException | None) -> None:
        """Give the result of a write to all who wait for it, and begin the next one."""
        trouble: Unavailable | None = None
        if error is not None:
            log.critical("the audit log %s cannot be written: %s", self._path, error)
            trouble = self._late(getattr(error, "strerror", None) or str(error))
        for done in waiting:
            if done.done():
                continue
            if trouble is None:
                done.set_result(None)
            else:
                done.set_exception(trouble)
        self._works = bool(self._waiting)
        if self._works:
            self._write_waiting()

    def _write(self) -> None:
        """Write all there is.

        Raises:  OSError; what was not written stays.
        """
        self._reopen()
        while self._unwritten:
            self._unwritten = self._unwritten[os.write(self._open(), self._unwritten) :]

    def _reopen(self) -> None:
        """Use the file of our name, if ours was moved away."""
        if self._file is not None:
            try:
                there = _identity_of(os.lstat(self._name))
            except FileNotFoundError:
                there = None
            if there != self._identity:
                self.close()
        self._open()

    def _open(self) -> int:
        if self._file is None:
            self._file = os.open(self._path, _FLAGS, 0o600)
            os.fchmod(self._file, 0o600)
            self._identity = _identity_of(os.fstat(self._file))
        return self._file

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _trouble(self, why: str) -> Unavailable:
        return Unavailable(
            code="audit",
            what=f"the audit log {str(self._path)!r} cannot be written: {why}; so nothing was changed",
            fix="an administrator of the head's machine must correct this; reading commands still work",
        )

    def _late(self, why: str) -> Unavailable:
        return Unavailable(
            code="audit-late",
            what=f"this was done, but the audit log {str(self._path)!r} cannot be written: {why}",
            fix="do not repeat the command; the head accepts no changes until the log can be written",
        )


def _identity_of(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _settle(file: int) -> float:
    """Wait until what was written is on the disk; return for how many seconds.

    Raises:  OSError.
    """
    began = time.monotonic()
    os.fdatasync(file)
    return time.monotonic() - began


def _settle_and_close(file: int) -> float:
    """Do the same, and close the descriptor."""
    try:
        return _settle(file)
    finally:
        os.close(file)
