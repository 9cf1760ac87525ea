"""Reads what tasks write while it grows: one task's files, or all instances of a job or sweep."""

import os
import stat
import time
from errno import ENOENT
from types import MappingProxyType

from headnode.adapters.files.opening import open_named
from headnode.apps.cli.output import Output
from headnode.apps.client.client import Client
from headnode.protocol.state_names import ENDED_STATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any, Protocol

    from headnode.core.model.errors import HeadnodeError
    from headnode.core.model.ranges import Ranges

    class OutputSource(Protocol):
        """Where output is read."""

        def pieces(self, start: int) -> "Iterator[tuple[bytes, int]]":
            """Yield pieces from `start` on, with the offset behind each; a negative one counts from the end.

            What is written meanwhile is left out: a task that prints its own output comes to an end.
            What has become shorter than `start` is read from its beginning: its task is run again.
            Raises:  FileNotFoundError; Refused ``no-output`` when it may not be read.
            """

        def missing(self, trouble: OSError) -> "HeadnodeError":
            """Return what to say when it is not there."""

    Address = tuple[int, int, int | None]  # job, task, instance

    Begun = tuple[Address, str]  # an instance, and its state

    Task = dict[str, Any]  # a task object of the local protocol

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
                status = os.fstat(file.fileno())
                size = status.st_size
                file.seek(max(0, size + start) if start < 0 else start if start <= size else 0)
                grows = not stat.S_ISREG(status.st_mode)  # a pipe does not say how much is in it
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

    def __init__(self, client: Client, question: "dict[str, Any]", path: str) -> None:
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


def source_of(
    client: Client, question: "dict[str, Any]", files: "dict[str, Any]", path: str
) -> "OutputSource":
    """Return where the output at `path` is read, as the head has answered in `files`.

    Root reads nothing itself: the owner of the job can put a link in place of each of these files.  The agent
    reads captured output without following links, and other files as the owner of the job.
    """
    elsewhere = files.get("remote") or not client.state_directory or os.geteuid() == 0
    if not elsewhere or path == os.devnull:
        return LocalFile(path)
    if path == files["captured_path"]:
        return RemoteOutput(client, question, path)
    stream = "standard_output" if path == files["standard_output"] else "standard_error"
    return RemoteOutput(client, {**question, "stream": stream}, f"{files['node']}:{path}")


def copy_output(
    source: "OutputSource",
    write: "Callable[[bytes], object]",
    *,
    start: int = 0,
    captured: bool = False,
) -> None:
    """Hand the output to `write`, from `start` on; a negative one counts from the end.

    A `captured` file that is not there is one that stayed empty: those are not kept.
    Raises:  Refused ``no-output`` when there is none, or it may not be read.
    """
    try:
        for piece, _ in source.pieces(start):
            write(piece)
    except FileNotFoundError as trouble:
        if not captured:
            raise source.missing(trouble) from trouble


def last_lines(source: "OutputSource", lines: int) -> int:
    """Return the offset at which the last so many lines begin; 0 when it has fewer, or is not there.

    Raises:  Refused ``no-output`` when it may not be read.
    """
    import re
    from collections import deque

    reach = PIECE
    while True:
        begins: deque[int] = deque(maxlen=lines + 1)  # behind each line end; the file itself is not in memory
        first = end = 0
        try:
            for number, (piece, end) in enumerate(source.pieces(-reach)):
                at = end - len(piece)
                first = first if number else at
                begins.extend(at + newline.end() for newline in re.finditer(rb"\n", piece))
        except FileNotFoundError:
            return 0
        ends_with_line = bool(begins) and begins[-1] == end
        if not lines or len(begins) >= lines + ends_with_line:
            return begins[-lines - ends_with_line] if lines else end
        if first == 0:
            return 0
        reach *= 4


def follow_output(
    source: "OutputSource",
    write: "Callable[[bytes], object]",
    is_over: "Callable[[], bool]",
    *,
    start: int = 0,
) -> None:
    """Copy the output from `start` on, also what is added later, until `is_over` and all was read.

    The file may not exist yet.
    Raises:  Refused ``no-output`` when it may not be read.
    """
    at = start
    while True:
        over = is_over()  # asked before reading: nothing is written after it said yes
        at = _copy_from(source, at, write)
        if over:
            return
        time.sleep(PAUSE)


def _copy_from(source: "OutputSource", at: int, write: "Callable[[bytes], object]") -> int:
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
    closed = isinstance(trouble, PermissionError)
    fix = "the owner of the job and administrators can read it" if closed else "see: hn task view"
    return Refused(code="no-output", what=f"output file {path!r} cannot be read: {reason}", fix=fix)


PAGE = 500  # tasks or instances
NEXT_LOOK = 0.5  # seconds between two looks at what grows
STARTED_STATES = ["Running", *ENDED_STATES]


class WholeOutput:
    """Prints the output of many instances; `task` None means all tasks of the job.

    `last`: print no more than so many lines of what each has written before.
    """

    def __init__(
        self,
        client: Client,
        out: Output,
        job: int,
        task: int | None,
        stream: str,
        *,
        headers: bool,
        last: int | None = None,
    ) -> None:
        self._client, self._out = client, out
        self._job, self._task, self._stream = job, task, stream
        self._headers = headers
        self._last = last  # lines of what is there at first
        self._latest: Address | None = None
        self._line_begins = True
        self.troubles = 0  # outputs that could not be read

    def print_all(self, most: int | None = None) -> int:
        """Print what there is, instance by instance; with `most`, of the first so many.  Return how many."""
        count = 0
        for address, state in self._begun():
            if most is not None and count == most:
                return count + 1
            at = self._print_from(address, 0)
            count += state != "Canceled" or at > 0  # most that are canceled never ran
        return count

    def files(self) -> "Iterator[tuple[Address, dict[str, Any]]]":
        """Yield where the output of each instance is that has one."""
        for address, _ in self._begun():
            yield address, self._client.ask("task_output", **_question(address))

    def follow(self) -> None:
        """Print what comes, until the job is over, or all instances of the task are."""
        from headnode.core.model.ranges import Ranges

        read: dict[Address, int] = {}  # of those that are not over, up to where
        printed: dict[int, Ranges] = {}  # by task, the instances that are printed up to their end
        while True:
            began = time.monotonic()
            done = self._is_over()  # asked before reading: nothing is written after it said yes
            for address, state in self._begun(printed):
                read[address] = self._print_from(address, read.get(address, 0))
                if state in ENDED_STATES:
                    printed.setdefault(address[1], Ranges()).add(address[2] or 1)
                    del read[address]
            if done:
                return
            self._last = None  # what begins now is new
            time.sleep(max(NEXT_LOOK, time.monotonic() - began))  # a large job is looked at less often

    def _is_over(self) -> bool:
        if self._task is None:
            return self._client.ask("job", job=self._job)["job"]["state"] in ENDED_STATES
        return self._client.ask("task", job=self._job, task=self._task)["task"]["state"] in ENDED_STATES

    def _begun(self, printed: "Mapping[int, Ranges]" = MappingProxyType({})) -> "Iterator[Begun]":
        """Yield the instances that have begun, in order; those of `printed` are not even asked for."""
        for task in self._tasks():
            spans = list(printed[task["task"]].spans()) if task["task"] in printed else []
            if not task.get("instances"):
                if task["state"] in STARTED_STATES and not spans:
                    yield (self._job, task["task"], None), task["state"]
                continue
            before = [0, *(last for _, last in spans)]
            behind = [*(first for first, _ in spans), None]
            for after, end in zip(before, behind, strict=True):
                yield from self._between(task["task"], after, end)

    def _between(self, task: int, after: int, end: int | None) -> "Iterator[Begun]":
        """Yield the instances that have begun with numbers above `after`, and below `end` if there is one."""
        if end == after + 1:
            return
        limit = PAGE if end is None else min(PAGE, end - after - 1)
        for each in self._pages(expand=task, after=after, states=STARTED_STATES, limit=limit):
            if end is not None and each["instance"] >= end:
                return
            yield (self._job, task, each["instance"]), each["state"]

    def _tasks(self) -> "Iterator[Task]":
        if self._task is None:
            yield from self._pages(after=0)
        else:
            yield self._client.ask("task", job=self._job, task=self._task)["task"]

    def _pages(self, after: int | None, limit: int = PAGE, **fields: "Any") -> "Iterator[Task]":
        while after is not None:
            answer = self._client.ask("tasks", job=self._job, limit=limit, after=after, **fields)
            yield from answer["tasks"]
            after = answer["more"]

    def _print_from(self, address: "Address", start: int) -> int:
        """Print what an instance has written from `start` on; return where the next look begins."""
        from headnode.core.model.errors import Refused

        question, at = _question(address), start
        try:
            files = self._client.ask("task_output", **question)
            path = files.get(self._stream)
            if path is None or (files.get("removed") and path == files.get("captured_path")):
                return start
            source = source_of(self._client, question, files, path)
            if self._last is not None:
                start = at = last_lines(source, self._last)
            for piece, behind in source.pieces(start):
                self._write(address, piece)
                at = behind
        except FileNotFoundError:
            return start  # it has not written anything
        except Refused as refused:
            self.troubles += 1
            self._out.problem(refused)
        return at

    def _write(self, address: "Address", piece: bytes) -> None:
        if self._headers and address != self._latest:
            gap = "" if self._latest is None else "\n" if self._line_begins else "\n\n"
            name = ".".join(str(part) for part in address if part is not None)
            self._out.raw(f"{gap}==> {name} <==\n".encode())
        self._latest, self._line_begins = address, piece.endswith(b"\n")
        self._out.raw(piece)


def _question(address: "Address") -> "dict[str, Any]":
    job, task, instance = address
    return {"job": job, "task": task, "instance": instance}
