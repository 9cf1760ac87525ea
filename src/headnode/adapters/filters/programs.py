"""Filters that are programs, each with its job in a private file; and the link to their runner process."""

import asyncio
import itertools
import json
import logging
import os
import secrets
import shutil
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

from headnode.adapters.files.owners import why_not_run
from headnode.adapters.filters.runner import LONGEST_ANSWER
from headnode.adapters.process_tree import end_marked
from headnode.adapters.wire.frame_codec import LONGEST, FrameDecoder, frame
from headnode.core.filtering.answers import (
    BY_SIGNAL,
    CallOutcome,
    FilterAnswer,
    FilterRequest,
    FilterReturn,
    last_words,
)

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
        self._arrived = FrameDecoder(LONGEST)
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
            self._transport.write(frame(data))

    def data_received(self, data: bytes) -> None:
        """Hand answers to those who wait for them."""
        for message in self._arrived.feed(data):
            said = json.loads(message)
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


LARGEST_PAPER = LONGEST_ANSWER  # bytes of a job file as a filter left it


class Programs:
    """Runs filter programs through one runner process."""

    def __init__(self, papers: Path, data: Path, environment: dict[str, str]) -> None:
        self._papers, self._data = papers, data
        self._runner = RunnerLink(environment | {"CCP_DATA": str(data)}, data)
        self._numbers = itertools.count(1)

    def prepare(self) -> None:
        """Make the directories, and remove job files that an earlier head has left."""
        for directory in (self._papers, self._data):
            directory.mkdir(parents=True, exist_ok=True)
            directory.chmod(0o700)
        for left in self._papers.iterdir():
            _remove(str(left))

    async def call(self, call: FilterRequest) -> FilterReturn:
        """Run one filter, and return what it said and how it left the job."""
        if why_not := await asyncio.to_thread(why_not_run, call.filter.program):
            return FilterReturn(FilterAnswer(CallOutcome.MISSING, words=why_not), call.paper)
        as_json = call.filter.dialect == "native-json"
        paper = f"{self._papers}/job-{call.job}-{next(self._numbers)}.{'json' if as_json else 'xml'}"
        try:
            _write(paper, call.paper)
            said = await self._runner.run(_request(call, paper, as_json=as_json), call.seconds)
            answer = _answer(said, as_json)
            if answer.exit_code != 1 or call.kind != "submission":
                return FilterReturn(answer, call.paper)
            if as_json and said["output"].strip():
                return _from_output(said, answer)
            return FilterReturn(answer, _read_back(paper))
        finally:
            _remove(paper)

    async def close(self) -> None:
        """End every filter that runs."""
        await self._runner.close()


def _request(call: FilterRequest, paper: str, *, as_json: bool) -> dict[str, Any]:
    arguments = call.offered.arguments() if call.offered is not None else []
    own = {"HEADNODE_FILTER_CALL": call.kind, "CCP_JOBID": str(call.job)}
    if call.change:
        own["HEADNODE_FILTER_CHANGE"] = "1"
    if call.offered is not None:
        own["HEADNODE_FILTER_OFFER"] = str(call.offered.offer)
    return {
        "program": [*call.filter.program, paper, *arguments],
        "environment": own,
        "input": paper if as_json else "",
        "whole": as_json,
    }


def _write(paper: str, job: bytes) -> None:
    """Write a job file that nobody else may read; the directory is ours alone, so its name is new."""
    handle = os.open(paper, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb", buffering=0) as file:
        left = memoryview(job)
        while left:
            left = left[file.write(left) :]


def _remove(paper: str) -> None:
    """Remove a job file, whatever a filter has made of it."""
    try:
        os.unlink(paper)  # noqa: PTH108  (for every call of every filter: a Path costs more than the call)
    except FileNotFoundError:
        pass
    except OSError:
        shutil.rmtree(paper, ignore_errors=True)


def _answer(said: dict[str, Any], as_json: bool) -> FilterAnswer:
    """Return how a run ended; the words of a filter whose output is an answer are on standard error."""
    words = last_words(said.get("errors", "")) or ("" if as_json else last_words(said.get("output", "")))
    if said["how"] != "ended":
        how = {"timed-out": CallOutcome.TIMED_OUT, "missing": CallOutcome.MISSING}.get(
            said["how"], CallOutcome.BROKEN
        )
        return FilterAnswer(how, words=words)
    if said["status"] < 0:
        return FilterAnswer(CallOutcome.SIGNALLED, BY_SIGNAL, words or f"signal {-said['status']}")
    return FilterAnswer(exit_code=said["status"], words=words)


def _from_output(said: dict[str, Any], answer: FilterAnswer) -> FilterReturn:
    if said["too_much"]:
        return FilterReturn(
            FilterAnswer(CallOutcome.BROKEN, words=f"it wrote more than {LONGEST_ANSWER} bytes")
        )
    return FilterReturn(answer, said["output"].encode())


def _read_back(paper: str) -> bytes | None:
    """Return the file as the filter left it; None if what is there is no file that can be read."""
    try:
        handle = os.open(paper, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        seen = os.fstat(handle)
        if not stat.S_ISREG(seen.st_mode) or seen.st_size > LARGEST_PAPER:
            return None
        return os.pread(handle, LARGEST_PAPER, 0)
    finally:
        os.close(handle)
