"""The files through which calls go to tasks and results come back, in a private directory of the user.

A file is a line of JSON (`CallHeader`, `ResultHeader`) and a pickle behind it.  A pickle is code: it is read
only from a plain file of this user, in a directory that nobody else may enter.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from typing import TypeVar

import msgspec

from headnode.adapters.files.opening import open_below, open_own_directory
from headnode.core.model.errors import BadRequest, NotAllowed

Header = TypeVar("Header", bound=msgspec.Struct)
MAX_HEADER = 1 << 20  # bytes
CALL, RESULT, STARTED, NEW = ".call", ".result", ".started", ".new"
NO_VALUE = 3
"""Exit status of a task whose call has ended without a value: there is a result that says why."""
ENDED = "call-failed"
"""Kind of the result of a function that has ended its process itself."""
WRITTEN = b"written"
"""Behind the header of a file STARTED, once the result is written."""
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class CallHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a task must know before it reads the pickle of a call."""

    python: str  # version of the submitting Python: major.minor
    cloudpickle: str  # version there
    path: list[str]  # directories from which modules were imported there
    most: int  # bytes of the pickle of a result, at most
    sources: dict[str, list[str]] = {}  # lines of functions that are in no file, as those of notebooks


class ResultHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a call has ended.  There is a pickle only of a value, and of an exception that can be pickled."""

    kind: str  # value, exception, or the code of an error
    what: str = ""  # the error in a sentence, or the exception
    fix: str = ""
    traceback: str = ""  # of the exception


CALLS, RESULTS = msgspec.json.Decoder(CallHeader), msgspec.json.Decoder(ResultHeader)
"""What reads the headers of calls and results."""


class CallDirectory:
    """The private directory of an executor, opened."""

    def __init__(self, path: str) -> None:
        """Open the directory.

        Raises:  NotAllowed ``not-private`` if it belongs to another user, or others may enter it; OSError.
        """
        self.path = path
        try:
            self._number = open_own_directory(path)
        except PermissionError:
            raise _not_private(path) from None
        status = os.fstat(self._number)
        if status.st_uid != os.geteuid() or status.st_mode & _OTHERS:
            os.close(self._number)
            raise _not_private(path)

    def write(self, name: str, header: msgspec.Struct, body: bytes | memoryview = b"") -> None:
        """Write a file; it appears whole, or not at all.

        Raises:  OSError.
        """
        scratch = f"{name}.{os.getpid()}{NEW}"
        number = open_below(self._number, scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            with os.fdopen(number, "wb") as file:
                file.write(msgspec.json.encode(header) + b"\n")
                file.write(body)
            os.rename(scratch, name, src_dir_fd=self._number, dst_dir_fd=self._number)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(scratch, dir_fd=self._number)
            raise

    def append(self, name: str, body: bytes) -> None:
        """Add bytes to a file that is there, in place: NFS shows them as soon as the file is opened.

        Raises:  OSError.
        """
        with os.fdopen(open_below(self._number, name, os.O_WRONLY | os.O_APPEND), "wb") as file:
            file.write(body)

    def read(self, name: str, headers: msgspec.json.Decoder[Header], most: int) -> tuple[Header, bytes]:
        """Return the header of a file, and the bytes behind it.

        Raises:  FileNotFoundError; OSError; NotAllowed ``not-private`` if it is a file of another user;
                 BadRequest ``call-file`` if it has more than `most` bytes behind the header, or no header.
        """
        with os.fdopen(open_below(self._number, name), "rb") as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.geteuid():
                raise _not_private(f"{self.path}/{name}")
            line = file.readline(MAX_HEADER)
            body = file.read(min(most, status.st_size) + 1)
        try:
            header = headers.decode(line)
        except msgspec.MsgspecError as error:
            raise _bad_file(name, f"it has no header: {error}") from None
        if len(body) > most:
            raise _bad_file(name, f"it has more than {most} bytes")
        return header, body

    def has(self, name: str) -> bool:
        """Return True if a file is there; False also if that cannot be found out."""
        try:
            os.stat(name, dir_fd=self._number, follow_symlinks=False)
        except OSError:
            return False
        return True

    def names(self) -> Iterator[str]:
        """Yield the names of the files that are there now."""
        with os.scandir(self._number) as found:
            for entry in found:
                yield entry.name

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=self._number)

    def remove_all(self) -> None:
        """Remove the directory with all files that calls have there, and close it."""
        for name in list(self.names()):
            if name.endswith((CALL, RESULT, STARTED, NEW)):
                self.remove(name)
        self.close()
        with contextlib.suppress(OSError):
            os.rmdir(self.path)  # noqa: PTH106

    def close(self) -> None:
        """Close the directory."""
        os.close(self._number)


def _not_private(path: str) -> NotAllowed:
    return NotAllowed(
        code="not-private",
        what=f"{path!r} is not private: it belongs to another user, or other users may enter it",
        fix="use a directory that only you can enter: chmod 700",
    )


def _bad_file(name: str, why: str) -> BadRequest:
    return BadRequest(code="call-file", what=f"the file {name!r} of a call cannot be read: {why}", fix="")
