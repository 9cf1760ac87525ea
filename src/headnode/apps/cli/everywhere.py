"""Runs a command on many nodes at once: some at a time, each on a connection of its own."""

import os
import queue
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from headnode.adapters.files.opening import open_named
from headnode.apps.cli.everywhere_output import Report
from headnode.apps.client.client import Client
from headnode.apps.client.conversation import MOST_INPUT, in_text, out_of_text
from headnode.core.model.errors import BadRequest, HeadnodeError

FAN_OUT = 32  # nodes at a time
MOST_AT_ONCE = 512  # nodes
_COPY = 1 << 20  # bytes
_WAITING = 64  # pieces of output that wait to be shown, before no more is read


class Said(NamedTuple):
    """What came from a node: output, its end, or why there is nothing more to expect from anybody."""

    node: str
    output: bytes = b""
    is_error: bool = False
    exit: int | None = None
    problem: str = ""
    trouble: HeadnodeError | None = None


def run_on(
    client: Client, run: int, nodes: Sequence[str], stdin: int | None, fan_out: int, report: Report
) -> int:
    """Run the command of a run on these nodes; return on how many it did not succeed.

    `stdin` is the descriptor of a plain file that each of the commands reads.
    Raises:  Unavailable when the head goes away.
    """
    left: queue.SimpleQueue[str] = queue.SimpleQueue()
    for node in nodes:
        left.put(node)
    said: queue.Queue[Said] = queue.Queue(_WAITING)
    for _ in range(min(fan_out, len(nodes))):
        threading.Thread(target=_work, args=(client, run, left, said, stdin), daemon=True).start()
    failed = open_ones = 0
    for open_ones in range(len(nodes), 0, -1):  # noqa: B007 (one round for each node)
        while (piece := said.get()).exit is None:
            if piece.trouble is not None:
                raise piece.trouble
            report.wrote(piece.node, piece.output, is_error=piece.is_error)
        report.ended(piece.node, piece.exit, piece.problem)
        failed += piece.exit != 0
    return failed


def _work(
    client: Client, run: int, left: "queue.SimpleQueue[str]", said: "queue.Queue[Said]", stdin: int | None
) -> None:
    """Run the command on one node after the other."""
    while True:
        try:
            node = left.get_nowait()
        except queue.Empty:
            return
        try:
            for piece in _on_node(client, run, node, stdin):
                said.put(piece)
        except HeadnodeError as error:
            said.put(Said(node, trouble=error))
            return


def _on_node(client: Client, run: int, node: str, stdin: int | None) -> Iterator[Said]:
    """Yield what the command writes on a node, and how it ends.

    Raises:  Unavailable when the head goes away.
    """
    conversation = client.begin("run_here", run=run, node=node)
    try:
        offset = _say_input(conversation.say, stdin, 0)
        while True:
            answer = conversation.hear()
            if "took" in answer:
                offset = _say_input(conversation.say, stdin, offset)
            for kind in ("out", "err"):
                if kind in answer:
                    yield Said(node, out_of_text(answer[kind]), is_error=kind == "err")
            if answer.get("done"):
                yield Said(node, exit=int(answer["exit"]), problem=answer["problem"])
                return
    finally:
        conversation.close()


def _say_input(say: Callable[..., None], stdin: int | None, offset: int) -> int:
    """Say the next piece of what the command reads, from `offset` on; return where that ends."""
    data = os.pread(stdin, MOST_INPUT, offset) if stdin is not None else b""
    say(**({"in": in_text(data)} if data else {"end": True}))
    return offset + len(data)


@contextmanager
def input_of(name: str | None) -> Iterator[int | None]:
    """Open what all commands read: a file, or standard input (``-``), which is copied first.

    Raises:  BadRequest ``stdin``.
    """
    if name is None:
        yield None
        return
    if name != "-":
        try:
            file = open_named(name)
        except OSError as error:
            raise BadRequest(
                code="stdin",
                what=f"{name!r} cannot be read: {error.strerror or error}",
                fix="name another",
            ) from None
        try:
            yield file
        finally:
            os.close(file)
        return
    with tempfile.TemporaryFile() as copy:
        while data := os.read(0, _COPY):
            copy.write(data)
        copy.flush()
        yield copy.fileno()
