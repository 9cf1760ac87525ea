"""The agent's end of the shepherd factory: start it, order shepherds, hear what becomes of them."""

import asyncio
import contextlib
import errno
import json
import socket
import subprocess
from collections import deque
from pathlib import Path
from typing import Any, Protocol

import msgspec

from headnode.adapters.own_python import function_command
from headnode.adapters.processes.program_start import close_all, receive_files
from headnode.core.model.errors import NotFound, Unavailable

_MAX_MESSAGE = 65536  # bytes
_TIMEOUT = 10.0  # seconds that opening a file may take
MAX_LOSSES = 10  # factories that an order may lose: more, and it is a fault of the node


class ShepherdOrder(msgspec.Struct, frozen=True):
    """What a shepherd is made from.  `deadline` in seconds since the boot, or None; `grace` in seconds."""

    job: int
    marker: str
    boot: str
    uid: int
    gid: int
    agent_uid: int
    journal: str
    run_directory: str
    output_directory: str
    deadline: float | None
    grace: float
    suspendable: bool = False  # its tasks may be frozen
    warning: tuple[int, float, str] | None = None  # signal, seconds before a limit, target; None: no signal
    most_processes: int = 0  # of the job here, with threads; 0: no limit


class OpeningOrder(msgspec.Struct, frozen=True):
    """Open this file as this user."""

    number: int
    path: str
    uid: int
    gid: int


class FactoryListener(Protocol):
    """Who hears what becomes of shepherds."""

    def shepherd_failed(self, marker: str, why: str, trouble: str) -> None:
        """It could not be made; `why` is a sentence, `trouble` the same in a word of `core.model.faults`."""

    def shepherd_gone(self, marker: str) -> None:
        """Its process has ended."""


class ShepherdFactory:
    """Starts the factory when it is needed, and again should it be killed; shepherds do not mind."""

    def __init__(self, log: Path, listener: FactoryListener) -> None:
        self._log, self._listener = log, listener
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._unsent: deque[bytes] = deque()  # orders for which there was no room yet
        self._waiting: dict[str, ShepherdOrder] = {}  # of shepherds that are being made, by marker
        self._losses: dict[str, int] = {}  # factories that were killed with an order, by its marker
        self._markers: dict[int, str] = {}  # of shepherds that live, by process
        self._opening: dict[int, asyncio.Future[int]] = {}  # who waits for a file, by the number of the order
        self._orders = 0

    def order(self, order: ShepherdOrder) -> None:
        """Ask for a shepherd: it dials the agent when it is ready, or the listener hears why it is not.

        Raises:  Unavailable ``factory`` when the factory cannot be started.
        """
        channel = self._channel or self._start()
        self._waiting[order.marker] = order
        self._unsent.append(msgspec.json.encode(order))
        self._send(channel)

    def serves(self, before: str, now: str) -> None:
        """Know a shepherd by the marker of its next job."""
        self._markers = {process: now if its == before else its for process, its in self._markers.items()}

    async def open_file(self, path: str, uid: int, gid: int) -> int:
        """Open a plain file as a user of this machine; return its descriptor.

        Raises:  NotFound ``no-output``; FileNotFoundError; Unavailable ``factory`` if it does not answer.
        """
        channel = self._channel or self._start()
        self._orders += 1
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        order = OpeningOrder(self._orders, path, uid, gid)
        self._opening[order.number] = answer
        try:
            async with asyncio.timeout(_TIMEOUT):
                self._unsent.append(msgspec.json.encode(order))
                self._send(channel)
                return await answer
        except TimeoutError:
            raise Unavailable(
                code="factory",
                what=f"{path!r} was not opened within {_TIMEOUT:.0f} s",
                fix="see the log of the agent on that node",
            ) from None
        finally:
            del self._opening[order.number]

    def _send(self, channel: socket.socket) -> None:
        """Send what waits, as far as there is room; the rest goes when the factory has taken some."""
        while self._unsent:
            try:
                channel.send(self._unsent[0])
            except BlockingIOError:
                asyncio.get_running_loop().add_writer(channel, self._send, channel)
                return
            except OSError:  # it was killed: we hear that next, and order shepherds again
                pass
            self._unsent.popleft()
        asyncio.get_running_loop().remove_writer(channel)

    def _start(self) -> socket.socket:
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs, contextlib.ExitStack() as opened:
                opened.callback(ours.close)
                self._process = self._start_process(theirs)
                opened.pop_all()
        except OSError as error:
            raise Unavailable(
                code="factory",
                what=f"the shepherd factory cannot be started: {error}",
                fix="see the log of the agent on that node",
            ) from None
        ours.setblocking(False)
        self._channel = ours
        asyncio.get_running_loop().add_reader(ours, self._receive)
        return ours

    def _start_process(self, channel: socket.socket) -> "subprocess.Popen[bytes]":
        number = channel.fileno()
        arguments = function_command("headnode.adapters.processes.fork_server", "main", str(number))
        with self._log.open("ab") as log:
            return subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(number,),
                start_new_session=True,
                cwd="/",
            )

    def start(self) -> None:
        """Start the factory now, so that the first job need not wait for it."""
        if self._channel is None:
            self._start()

    def _receive(self) -> None:
        assert self._channel is not None
        try:
            data, files = receive_files(self._channel, _MAX_MESSAGE, 1)
        except BlockingIOError:
            return
        except OSError:
            data, files = b"", []
        if not data:
            self._lost()
            return
        self._dispatch(json.loads(data), files)

    def _dispatch(self, message: list[Any], files: list[int]) -> None:
        match message:
            case ["opened", number]:
                self._opened(number, files)
            case ["not-opened", number, is_missing, why]:
                missing = FileNotFoundError(errno.ENOENT, why)
                self._not_opened(number, missing if is_missing else NotFound(code="no-output", what=why))
            case ["forked", marker, process]:
                self._waiting.pop(marker, None)
                self._losses.pop(marker, None)
                self._markers[process] = marker
            case ["failed", marker, why, trouble]:
                self._losses.pop(marker, None)
                self._listener.shepherd_failed(marker, why, trouble)
            case ["gone", process] if process in self._markers:
                self._listener.shepherd_gone(self._markers.pop(process))

    def _opened(self, number: int, files: list[int]) -> None:
        """Pass an opened file to the request that waits for it; close it if there is none any more."""
        waiting = self._opening.get(number)
        if waiting is not None and not waiting.done() and files:
            waiting.set_result(files.pop())
        close_all(files)

    def _not_opened(self, number: int, trouble: Exception) -> None:
        """Fail the request that waits for a file."""
        waiting = self._opening.get(number)
        if waiting is not None and not waiting.done():
            waiting.set_exception(trouble)

    def _lost(self) -> None:
        """Start another factory for the orders of one that was killed."""
        waiting, self._waiting = self._waiting, {}
        self.close()
        for marker, order in waiting.items():
            try:
                self._losses[marker] = self._losses.get(marker, 0) + 1
                if self._losses[marker] > MAX_LOSSES:
                    raise Unavailable(
                        code="factory",
                        what=f"the shepherd factory was killed {self._losses[marker]} times in a row",
                        fix="see the log of the agent on that node",
                    )
                self.order(order)
            except Unavailable as error:
                del self._losses[marker]
                self._listener.shepherd_failed(marker, str(error), error.code)

    def close(self) -> None:
        """Let the factory end; the shepherds live on."""
        if self._channel is not None:
            asyncio.get_running_loop().remove_reader(self._channel)
            asyncio.get_running_loop().remove_writer(self._channel)
            self._channel.close()
            self._channel = None
        self._unsent.clear()
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(2)
            self._process = None
