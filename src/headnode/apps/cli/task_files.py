"""Reads what tasks write while it grows: files of this machine as the user, those of others by the head."""

import os
import stat
import time
from errno import ENOENT

from headnode.adapters.files.opening import open_named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, Protocol

    from headnode.apps.client.client import Client
    from headnode.core.model.errors import HeadnodeError

    class Source(Protocol):
        """Where output is read."""

        def pieces(self, start: int) -> "Iterator[tuple[bytes, int]]":
            """Yield pieces from `start` on, with the offset behind each; a negative one counts from the end.

            What is written meanwhile is left out: a task that prints its own output comes to an end.
            What has become shorter than `start` is read from its beginning: its task is run again.
            Raises:  FileNotFoundError; Refused ``no-output`` when it may not be read.
            """

        def missing(self, trouble: OSError) -> "HeadnodeError":
            """Return what to say when it is not there."""


PIECE = 1 << 16  # bytes
PAUSE = 0.1  # seconds between two looks at a file that grows


class LocalFile:
    """A file that this user reads himself."""

    def __init__(self, path: str) -> None:
        self._path = path

    def pieces(self, start: int) -> "Iterator[tuple[bytes, int]]":
        """Yield pieces from `start` on, each with the offset behind it."""
        try:
            with os.fdopen(open_named(self._path), "rb") as file:
                found = os.fstat(file.fileno())
                size = found.st_size
                file.seek(max(0, size + start) if start < 0 else start if start <= size else 0)
                grows = not stat.S_ISREG(found.st_mode)  # a pipe does not say how much is in it
                while (grows or file.tell() < size) and (piece := file.read(PIECE)):
                    yield piece, file.tell()
        except FileNotFoundError:
            raise
        except OSError as trouble:
            raise _unreadable(self._path, trouble) from trouble

    def missing(self, trouble: OSError) -> "HeadnodeError":
        """Return what to say when it is not there."""
        return _unreadable(self._path, trouble)


class RemoteOutput:
    """Output that lies on another machine, and is read there as the user of its job."""

    def __init__(self, client: "Client", question: "dict[str, Any]", path: str) -> None:
        self._client, self._question, self._path = client, question, path

    def pieces(self, start: int) -> "Iterator[tuple[bytes, int]]":
        """Yield pieces from `start` on, each with the offset behind it."""
        import base64

        at, end = start, -1
        while end < 0 or at < end:
            answer = self._client.ask("read_output", offset=at, **self._question)
            if answer.get("missing"):
                raise FileNotFoundError(ENOENT, os.strerror(ENOENT))
            data, size = base64.b64decode(answer["data"]), int(answer["size"])
            end = size if end < 0 else min(end, size)
            if at < 0:
                at = max(0, size + at)
            elif at > size:
                at = 0
                continue
            if not data:
                return
            at += len(data)
            yield data, at

    def missing(self, trouble: OSError) -> "HeadnodeError":
        """Return what to say when it is not there."""
        return _unreadable(self._path, trouble)


def source_of(client: "Client", question: "dict[str, Any]", files: "dict[str, Any]", path: str) -> "Source":
    """Return where the output at `path` is read, as the head has answered in `files`.

    Root reads nothing itself: the owner of the job can put a link in place of each of these files.  The agent
    reads captured output without following links, and other files as the owner of the job.
    """
    elsewhere = files.get("remote") or not client.state_directory or os.geteuid() == 0
    if not elsewhere or path == os.devnull:
        return LocalFile(path)
    if path == files["kept"]:
        return RemoteOutput(client, question, path)
    stream = "standard_output" if path == files["standard_output"] else "standard_error"
    return RemoteOutput(client, {**question, "stream": stream}, f"{files['node']}:{path}")


def copy_output(
    source: "Source", write: "Callable[[bytes], object]", *, last: int | None = None, captured: bool = False
) -> None:
    """Hand the output to `write`; with `last`, no more than so many bytes of its end.

    A `captured` file that is not there is one that stayed empty: those are not kept.
    Raises:  Refused ``no-output`` when there is none, or it may not be read.
    """
    try:
        for piece, _ in source.pieces(0 if last is None else -last):
            write(piece)
    except FileNotFoundError as trouble:
        if not captured:
            raise source.missing(trouble) from trouble


def follow_output(
    source: "Source", write: "Callable[[bytes], object]", is_over: "Callable[[], bool]"
) -> None:
    """Hand on what is there and what is written to it, until `is_over` and all was read.

    The file may not exist yet.
    Raises:  Refused ``no-output`` when it may not be read.
    """
    at = 0  # bytes handed on
    while True:
        over = is_over()  # asked before reading: nothing is written after it said yes
        at = _copy_from(source, at, write)
        if over:
            return
        time.sleep(PAUSE)


def _copy_from(source: "Source", at: int, write: "Callable[[bytes], object]") -> int:
    try:
        for piece, behind in source.pieces(at):
            write(piece)
            at = behind
    except FileNotFoundError:
        return at
    return at


def _unreadable(path: str, trouble: OSError) -> "HeadnodeError":
    from headnode.core.model.errors import Refused

    reason = trouble.strerror or str(trouble)
    return Refused(
        code="no-output",
        what=f"output file {path!r} cannot be read: {reason}",
        fix="see: hn task view",
    )
