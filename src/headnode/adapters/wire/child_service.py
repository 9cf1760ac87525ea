"""A process beside this one that answers questions: started when needed, and again when it was lost.

Frames go both ways on a socket, whose descriptor is the last argument of the process (`child_end`).
"""

import asyncio
import contextlib
import logging
import socket
import subprocess
import sys
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from headnode.adapters.own_python import module_command
from headnode.adapters.wire.frame_codec import FrameDecoder, frame

log = logging.getLogger("headnode.child")

Answer = TypeVar("Answer")


class ChildProgram(NamedTuple):
    """A Headnode module to run as a child process: its first arguments, and its first input.

    `environment`: None for that of this process.  `kill` ends the process if it runs, and what it has left.
    """

    module: str
    arguments: tuple[str, ...] = ()
    directory: Path = Path("/")
    environment: Mapping[str, str] | None = None
    greeting: bytes = b""
    kill: "Callable[[subprocess.Popen[bytes]], object]" = subprocess.Popen.kill

    def start(self, channel: socket.socket) -> "subprocess.Popen[bytes]":
        """Start the process with its end of the channel.  Its output goes to our standard error.

        Raises:  OSError.
        """
        arguments = (*self.arguments, str(channel.fileno()))
        return subprocess.Popen(
            module_command(self.module, *arguments, environment=self.environment),
            pass_fds=(channel.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
            cwd=self.directory,
            env=self.environment,
            start_new_session=True,
        )


class ChildService(Generic[Answer]):
    """One child process, and its questions without an answer."""

    def __init__(
        self, program: ChildProgram, read: Callable[[bytes], tuple[Hashable, Answer]], largest: int
    ) -> None:
        """`read` returns the key of the question that a message answers and the answer, or raises ValueError.

        `largest`: bytes of an answer.
        """
        self._program, self._read, self._largest = program, read, largest
        self._process: subprocess.Popen[bytes] | None = None
        self._line: _Line[Answer] | None = None
        self._starting = asyncio.Lock()

    @property
    def is_up(self) -> bool:
        """Whether there is a process, and it has not hung up."""
        return self._line is not None and not self._line.is_lost

    async def ask(self, key: Hashable, question: bytes) -> "asyncio.Future[Answer]":
        """Send a question, to a new process if there is none; return the future of its answer.

        Raises:  OSError when no process can be started; the future when the process is lost.
        """
        line = self._line
        if line is None or line.is_lost:
            line = await self._started()
        return line.ask(key, question)

    async def _started(self) -> "_Line[Answer]":
        async with self._starting:
            if self._line is not None and not self._line.is_lost:
                return self._line
            await self.end()
            own, other = socket.socketpair()
            with other, contextlib.ExitStack() as undo:
                undo.callback(own.close)
                self._process = self._program.start(other)
                undo.pop_all()
            line = _Line(self._program, self._read, FrameDecoder(self._largest))
            await asyncio.get_running_loop().create_unix_connection(lambda: line, sock=own)
            self._line = line
            return line

    def kill(self) -> None:
        """Kill the process, so that what it has to answer fails."""
        if self._process is not None:
            self._program.kill(self._process)

    async def end(self, timeout: float = 0.0) -> int | None:
        """Hang up, wait `timeout` seconds for the end of the process, and kill what is left.

        Return its exit status; None if there was no process.
        """
        line, self._line = self._line, None
        process, self._process = self._process, None
        if line is not None:
            line.hang_up()
        if process is None:
            return None
        return await asyncio.to_thread(_bury, process, timeout, self._program)


def _bury(process: "subprocess.Popen[bytes]", timeout: float, program: ChildProgram) -> int:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout)
    program.kill(process)
    return process.wait()


class _Line(asyncio.Protocol, Generic[Answer]):
    """The connection to one process.  Each answer completes the future of its question."""

    def __init__(
        self,
        program: ChildProgram,
        read: Callable[[bytes], tuple[Hashable, Answer]],
        frames: FrameDecoder,
    ) -> None:
        self.unanswered: dict[Hashable, asyncio.Future[Answer]] = {}
        self.is_lost = False
        self._program, self._read, self._frames = program, read, frames
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet the process."""
        assert isinstance(transport, asyncio.WriteTransport)  # asyncio gives nothing else for a socket
        self._transport = transport
        if self._program.greeting:
            transport.write(frame(self._program.greeting))

    def ask(self, key: Hashable, question: bytes) -> "asyncio.Future[Answer]":
        """Send a question; return the future of its answer."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.unanswered[key] = future
        if self._transport is not None:
            self._transport.write(frame(question))
        return future

    def data_received(self, data: bytes) -> None:
        """Pass answers to the calls that wait for them."""
        try:
            for message in self._frames.feed(data):
                key, answer = self._read(message)
                future = self.unanswered.pop(key, None)
                if future is not None and not future.done():
                    future.set_result(answer)
        except ValueError as error:  # also for one that is too large
            self._fail(f"the process {self._program.module} sent an invalid answer: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the open questions: the process is gone, or this side has hung up."""
        self._fail(f"the process {self._program.module} has ended{f': {exc}' if exc else ''}")

    def _fail(self, why: str) -> None:
        if not self.is_lost:
            log.error("%s", why)
        self.hang_up(why)

    def hang_up(self, why: str = "the process was ended") -> None:
        """Close the connection, so that the process ends; what it has not answered fails."""
        self.is_lost = True
        if self._transport is not None:
            self._transport.close()
        unanswered, self.unanswered = self.unanswered, {}
        for future in unanswered.values():
            if not future.done():
                future.set_exception(ConnectionError(why))
