"""Runs a command on many nodes at once, and shows what it writes: in blocks, lines or files."""

import json
import os
import queue
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple, Protocol

from headnode.adapters.files.opening import open_named, open_plain
from headnode.apps.client.client import Client
from headnode.apps.client.conversation import MAX_INPUT, from_base64, to_base64
from headnode.core.model.errors import BadRequest, HeadnodeError

_RULE = "-" * 26
_IN_MEMORY = 64 * 1024  # bytes of output of one node; what is more waits on the disk
_MAX_LINE = 64 * 1024  # bytes before a line is shown though it has not ended
_READ_SIZE = 1 << 20  # bytes

Write = Callable[[bytes], object]


class RunOutputSink(Protocol):
    """The receiver of what happens on the nodes."""

    def wrote(self, node: str, data: bytes, *, is_error: bool) -> None:
        """A command has written something."""

    def ended(self, node: str, code: int, problem: str) -> None:
        """A command is over; `problem` says in a sentence why it could not run as it should."""

    def close(self) -> None:
        """All are over."""


def header(node: str, code: int) -> str:
    """Return the line before the output of a node.

    >>> header("NODE1", 0)
    '-------------------------- NODE1 returns 0 --------------------------'
    """
    return f"{_RULE} {node} returns {code} {_RULE}"


def summary(succeeded: int, failed: int) -> str:
    """Return the end of the report.  Some scripts find it only behind a carriage return: there is one."""
    return f"\r\n{_RULE} Summary {_RULE}\n{succeeded} Nodes succeeded\n{failed} Nodes failed\n"


class _NodeBuffer:
    """The output of one node until it is shown: its beginning on the disk if it is long."""

    def __init__(self, place: Callable[[], Path]) -> None:
        self._place, self._end = place, bytearray()
        self._file: Path | None = None

    def add(self, data: bytes) -> None:
        self._end += data
        if len(self._end) > _IN_MEMORY:
            self._file = self._file or self._place()
            with self._file.open("ab") as file:
                file.write(self._end)
            self._end.clear()

    def take(self) -> Iterator[bytes]:
        """Yield all that was kept, for the last time."""
        if self._file is not None:
            with self._file.open("rb") as file:
                while data := file.read(_READ_SIZE):
                    yield data
            self._file.unlink()
        if self._end:
            yield bytes(self._end)


class _NodeBuffers:
    """The outputs of all nodes that are not shown yet."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._kept: dict[str, _NodeBuffer] = {}
        self._files = 0

    def wrote(self, node: str, data: bytes) -> None:
        self._kept.setdefault(node, _NodeBuffer(self._new_file)).add(data)

    def take(self, node: str) -> Iterator[bytes]:
        kept = self._kept.pop(node, None)
        return kept.take() if kept is not None else iter(())

    def _new_file(self) -> Path:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="hn-run-")
        self._files += 1
        return Path(self._folder.name) / str(self._files)

    def close(self) -> None:
        if self._folder is not None:
            self._folder.cleanup()


class NodeBlocks:
    """A block for each node: as each ends, or in the order of the nodes."""

    def __init__(self, write: Write, order: Sequence[str] = ()) -> None:
        """`order`: show them so; without it as they end."""
        self._write, self._order = write, list(reversed(order))
        self._keeping = _NodeBuffers()
        self._over: dict[str, tuple[int, str]] = {}

    def wrote(self, node: str, data: bytes, *, is_error: bool) -> None:  # noqa: ARG002 (a block has both)
        """Keep it until the block is shown."""
        self._keeping.wrote(node, data)

    def ended(self, node: str, code: int, problem: str) -> None:
        """Show the block, and those that have waited for it."""
        if not self._order:
            self._show(node, code, problem)
            return
        self._over[node] = (code, problem)
        while self._order and self._order[-1] in self._over:
            first = self._order.pop()
            self._show(first, *self._over.pop(first))

    def _show(self, node: str, code: int, problem: str) -> None:
        self._write(f"{header(node, code)}\n".encode())
        last = b"\n"
        for data in self._keeping.take(node):
            self._write(data)
            last = data[-1:]
        if last != b"\n":
            self._write(b"\n")
        if problem:
            self._write(f"hn: {problem}\n".encode())

    def close(self) -> None:
        """Nothing waits any more."""
        self._keeping.close()


class InterleavedLines:
    """Lines as they come, each behind the name of its node."""

    def __init__(self, write: Write, complain: Write) -> None:
        self._writes = {False: write, True: complain}
        self._begun: dict[tuple[str, bool], bytearray] = {}

    def wrote(self, node: str, data: bytes, *, is_error: bool) -> None:
        """Show the lines that have ended."""
        begun = self._begun.setdefault((node, is_error), bytearray())
        begun += data
        *lines, rest = begun.split(b"\n")
        if len(rest) > _MAX_LINE:
            lines, rest = [*lines, rest], bytearray()
        prefix = f"{node}: ".encode()
        if lines:
            self._writes[is_error](b"".join(prefix + line + b"\n" for line in lines))
        self._begun[node, is_error] = rest

    def ended(self, node: str, code: int, problem: str) -> None:
        """Show the last line, if it did not end; and what went wrong."""
        for is_error, write in self._writes.items():
            if rest := self._begun.pop((node, is_error), b""):
                write(f"{node}: ".encode() + rest + b"\n")
        if code:
            why = f": {problem}" if problem else ""
            self._writes[True](f"hn: {node} returns {code}{why}\n".encode())

    def close(self) -> None:
        """Nothing waits any more."""


class NodeFiles:
    """A file for each node, named after it; how each ended goes on."""

    def __init__(self, folder: str, then: RunOutputSink) -> None:
        """Make the directory.

        Raises:  BadRequest ``outputdir``.
        """
        self._folder, self._then = Path(folder), then
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._trouble(error) from None
        self._made: set[str] = set()

    def wrote(self, node: str, data: bytes, *, is_error: bool) -> None:  # noqa: ARG002 (a file has both)
        """Append it to the file of the node, which is new.

        Raises:  BadRequest ``outputdir``.
        """
        try:
            flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if node in self._made else os.O_TRUNC)
            with os.fdopen(open_plain(str(self._folder / f"{node}.txt"), flags), "wb") as file:
                file.write(data)
        except OSError as error:
            raise self._trouble(error) from None
        self._made.add(node)

    def ended(self, node: str, code: int, problem: str) -> None:
        """Make the file if nothing was written; tell how it ended."""
        self.wrote(node, b"", is_error=False)
        self._then.ended(node, code, problem)

    def close(self) -> None:
        """All are over."""
        self._then.close()

    def _trouble(self, error: OSError) -> BadRequest:
        return BadRequest(
            code="outputdir",
            what=f"directory {str(self._folder)!r} cannot be written to: {error.strerror}",
            fix="name another with /outputdir",
        )


class JsonEvents:
    """One JSON document, written node by node as each ends."""

    def __init__(self, write: Write) -> None:
        self._write, self._keeping = write, _NodeBuffers()
        self._counts = {True: 0, False: 0}
        write(b'{"nodes": [')

    def wrote(self, node: str, data: bytes, *, is_error: bool) -> None:  # noqa: ARG002 (they are one text)
        """Keep it until the node is over."""
        self._keeping.wrote(node, data)

    def ended(self, node: str, code: int, problem: str) -> None:
        """Write the object of the node."""
        output = b"".join(self._keeping.take(node)).decode(errors="replace")
        text = json.dumps(
            {"node": node, "exit_code": code, "problem": problem, "output": output}, ensure_ascii=False
        )
        comma = "," if sum(self._counts.values()) else ""
        self._write(f"{comma}\n  {text}".encode())
        self._counts[code == 0] += 1

    def close(self) -> None:
        """Write the end of the document."""
        self._keeping.close()
        succeeded, failed = self._counts[True], self._counts[False]
        self._write(f'\n], "succeeded": {succeeded}, "failed": {failed}}}\n'.encode())


FAN_OUT = 32  # nodes at a time
MAX_AT_ONCE = 512  # nodes
_COPY_SIZE = 1 << 20  # bytes
_WAITING = 64  # pieces of output that wait to be shown, before no more is read


class NodeOutput(NamedTuple):
    """What came from a node: output, its end, or why nothing more comes from any node."""

    node: str
    output: bytes = b""
    is_error: bool = False
    exit: int | None = None
    problem: str = ""
    trouble: HeadnodeError | None = None


def run_on(
    client: Client, run: int, nodes: Sequence[str], stdin: int | None, fan_out: int, report: RunOutputSink
) -> int:
    """Run the command of a run on these nodes; return on how many it did not succeed.

    `stdin` is the descriptor of a plain file that each of the commands reads.
    Raises:  Unavailable when the head goes away.
    """
    left: queue.SimpleQueue[str] = queue.SimpleQueue()
    for node in nodes:
        left.put(node)
    outputs: queue.Queue[NodeOutput] = queue.Queue(_WAITING)
    for _ in range(min(fan_out, len(nodes))):
        threading.Thread(target=_work, args=(client, run, left, outputs, stdin), daemon=True).start()
    failed = open_ones = 0
    for open_ones in range(len(nodes), 0, -1):  # noqa: B007 (one round for each node)
        while (piece := outputs.get()).exit is None:
            if piece.trouble is not None:
                raise piece.trouble
            report.wrote(piece.node, piece.output, is_error=piece.is_error)
        report.ended(piece.node, piece.exit, piece.problem)
        failed += piece.exit != 0
    return failed


def _work(
    client: Client,
    run: int,
    left: "queue.SimpleQueue[str]",
    outputs: "queue.Queue[NodeOutput]",
    stdin: int | None,
) -> None:
    """Run the command on one node after the other."""
    while True:
        try:
            node = left.get_nowait()
        except queue.Empty:
            return
        try:
            for piece in _on_node(client, run, node, stdin):
                outputs.put(piece)
        except HeadnodeError as error:
            outputs.put(NodeOutput(node, trouble=error))
            return


def _on_node(client: Client, run: int, node: str, stdin: int | None) -> Iterator[NodeOutput]:
    """Yield what the command writes on a node, and how it ends.

    Raises:  Unavailable when the head goes away.
    """
    conversation = client.begin("run_on_node", run=run, node=node)
    try:
        offset = _send_input(conversation.send, stdin, 0)
        while True:
            answer = conversation.receive()
            if "consumed" in answer:
                offset = _send_input(conversation.send, stdin, offset)
            for kind in ("out", "err"):
                if kind in answer:
                    yield NodeOutput(node, from_base64(answer[kind]), is_error=kind == "err")
            if answer.get("done"):
                yield NodeOutput(node, exit=int(answer["exit"]), problem=answer["problem"])
                return
    finally:
        conversation.close()


def _send_input(send: Callable[..., None], stdin: int | None, offset: int) -> int:
    """Say the next piece of what the command reads, from `offset` on; return where that ends."""
    data = os.pread(stdin, MAX_INPUT, offset) if stdin is not None else b""
    send(**({"in": to_base64(data)} if data else {"end": True}))
    return offset + len(data)


@contextmanager
def input_of(name: str | None) -> Iterator[int | None]:
    """Open what all commands read: a file; standard input (``-``), a pipe or a device is copied first.

    Raises:  BadRequest ``stdin``.
    """
    if name is None:
        yield None
        return
    file = 0
    if name != "-":
        try:
            file = open_named(name)
        except OSError as error:
            raise _unread(name, error) from None
    try:
        if file and stat.S_ISREG(os.fstat(file).st_mode):
            yield file
            return
        with tempfile.TemporaryFile() as copy:  # each node reads it from the beginning; a pipe has it once
            _copy(name, file, copy)
            yield copy.fileno()
    finally:
        if file:
            os.close(file)


def _copy(name: str, file: int, to: IO[bytes]) -> None:
    """Copy what can be read once.

    Raises:  BadRequest ``stdin``.
    """
    try:
        while data := os.read(file, _COPY_SIZE):
            to.write(data)
        to.flush()
    except OSError as error:
        raise _unread(name, error) from None


def _unread(name: str, error: OSError) -> BadRequest:
    return BadRequest(
        code="stdin", what=f"{name!r} cannot be read: {error.strerror or error}", fix="name another"
    )
