"""The head's end of the process that runs filter programs: requests out, answers in, by their numbers."""

import asyncio
import itertools
import json
import logging
import secrets
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from headnode.adapters.processes.process_tree import end_marked

log = logging.getLogger("headnode.filters")

Said = dict[str, Any]
"""What the runner says of one run; `how` is "gone" when there is no runner to say anything."""

OF_RUNNER = "HEADNODE_FILTER_RUNNER"  # in the environment of every filter of one runner
AFTER_THE_TIME_OUT = 10.0  # seconds until the runner itself is taken for dead


class RunnerLink:
    """Starts the runner when it is needed, and again when it has gone.

    `environment` is that of every filter, but for what a request adds; `directory` is where they run.
    """

    def __init__(self, environment: dict[str, str], directory: Path) -> None:
        self._own = secrets.token_hex(8)
        self._environment = environment | {OF_RUNNER: self._own}
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self._line: _Line | None = None
        self._numbers = itertools.count(1)
        self._starting = asyncio.Lock()

    async def run(self, request: dict[str, Any], seconds: float) -> Said:
        """Have one program run, and return how it ended; `seconds` is the time that it has."""
        line = self._line
        if line is None or line.lost:
            try:
                line = await self._started()
            except OSError as error:
                return {"how": "gone", "errors": f"the process that runs filters does not start: {error}"}
        number = next(self._numbers)
        try:
            async with asyncio.timeout(seconds + AFTER_THE_TIME_OUT):
                return await line.ask(number, request | {"number": number, "seconds": seconds})
        except TimeoutError:
            await self.close()
            return {"how": "gone", "errors": "the process that runs filters does not answer"}
        finally:
            line.waiting.pop(number, None)

    async def _started(self) -> "_Line":
        async with self._starting:
            if self._line is not None and not self._line.lost:
                return self._line
            await self.close()
            own, other = socket.socketpair()
            with other:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "headnode.adapters.filters.runner", str(other.fileno())],
                    pass_fds=(other.fileno(),),
                    stdin=subprocess.DEVNULL,
                    cwd=self._directory,
                    start_new_session=True,
                )
            _, self._line = await asyncio.get_running_loop().create_unix_connection(_Line, sock=own)
            self._line.send({"environment": self._environment})
            return self._line

    async def close(self) -> None:
        """End the runner, and with it every filter that runs."""
        if self._line is not None:
            self._line.close()
            self._line = None
        if self._process is not None:
            process, self._process = self._process, None
            await asyncio.to_thread(_wait, process, f"{OF_RUNNER}={self._own}".encode())


class _Line(asyncio.Protocol):
    """A connection to one runner.  Answers go straight to who waits: no task of its own reads them."""

    def __init__(self) -> None:
        self.waiting: dict[int, asyncio.Future[Said]] = {}
        self.lost = False
        self._arrived = bytearray()
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to write."""
        assert isinstance(transport, asyncio.WriteTransport)  # asyncio gives nothing else for a socket
        self._transport = transport

    def ask(self, number: int, request: dict[str, Any]) -> "asyncio.Future[Said]":
        """Send a request; the future has what is answered."""
        future: asyncio.Future[Said] = asyncio.get_running_loop().create_future()
        if self.lost:
            future.set_result(_GONE)
        else:
            self.waiting[number] = future
            self.send(request)
        return future

    def send(self, what: dict[str, Any]) -> None:
        """Send an object behind its length."""
        data = json.dumps(what).encode()
        if self._transport is not None:
            self._transport.write(len(data).to_bytes(4, "big") + data)

    def data_received(self, data: bytes) -> None:
        """Hand answers to those who wait for them."""
        self._arrived += data
        while len(self._arrived) >= 4:
            end = 4 + int.from_bytes(self._arrived[:4], "big")
            if len(self._arrived) < end:
                return
            said = json.loads(self._arrived[4:end])
            del self._arrived[:end]
            future = self.waiting.pop(said["number"], None)
            if future is not None and not future.done():
                future.set_result(said)

    def connection_lost(self, exc: Exception | None) -> None:
        """The runner is gone: nobody waits any more."""
        if not self.lost:
            log.error("the process that runs filters has ended%s", f": {exc}" if exc else "")
        self._end()

    def close(self) -> None:
        """Hang up, so that the runner ends."""
        self._end()
        if self._transport is not None:
            self._transport.close()

    def _end(self) -> None:
        self.lost = True
        waiting, self.waiting = self.waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_result(_GONE)


_GONE: Said = {"how": "gone", "errors": "the process that runs filters has ended"}


def _wait(process: "subprocess.Popen[bytes]", marker: bytes) -> None:
    """Wait for the end of the runner; if it was no good end, kill what it has left behind."""
    try:
        process.wait(AFTER_THE_TIME_OUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.returncode:
        end_marked(marker, AFTER_THE_TIME_OUT)
