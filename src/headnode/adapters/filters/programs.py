"""Filters that are programs: each gets its job in a private file, and may rewrite that file in place.

They run as the head does, for they keep the books of the whole site; nothing of a user's runs with them.
"""

import asyncio
import contextlib
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
import tempfile
from pathlib import Path
from typing import Any

from headnode.adapters.filters.calling import Call, Returned
from headnode.adapters.filters.runner import LONGEST_ANSWER
from headnode.adapters.processes.process_tree import end_marked
from headnode.core.filtering.answer import BY_SIGNAL, Answer, How, last_words

log = logging.getLogger("headnode.filters")

OF_RUNNER = "HEADNODE_FILTER_RUNNER"  # in the environment of every filter of one runner
AFTER_THE_TIME_OUT = 10.0  # seconds until the runner itself is taken for dead
LARGEST_PAPER = LONGEST_ANSWER  # bytes of a job file as a filter left it


class Programs:
    """Runs filter programs through one runner process, which is started when it is needed."""

    def __init__(self, papers: Path, data: Path, environment: dict[str, str]) -> None:
        self._papers, self._data = papers, data
        self._own = secrets.token_hex(8)
        self._environment = environment | {"CCP_DATA": str(data), OF_RUNNER: self._own}
        self._process: subprocess.Popen[bytes] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._listening: asyncio.Task[None] | None = None
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._numbers = itertools.count(1)
        self._starting = asyncio.Lock()

    def prepare(self) -> None:
        """Make the directories, and remove job files that an earlier head has left."""
        for directory in (self._papers, self._data):
            directory.mkdir(parents=True, exist_ok=True)
            directory.chmod(0o700)
        for left in self._papers.iterdir():
            _remove(left)

    async def call(self, call: Call) -> Returned:
        """Run one filter, and return what it said and how it left the job."""
        as_json = call.filter.dialect == "native-json"
        handle, name = tempfile.mkstemp(
            prefix=f"job-{call.job}-", suffix=".json" if as_json else ".xml", dir=self._papers
        )
        paper = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(call.paper)
            said = await self._run(self._request(call, paper, as_json), call.seconds)
            answer = _answer(said, as_json)
            if answer.exit_code != 1 or call.kind != "submission":
                return Returned(answer, call.paper)
            if as_json and said["output"].strip():
                return _from_output(said, answer)
            return Returned(answer, _read_back(paper))
        finally:
            _remove(paper)

    def _request(self, call: Call, paper: Path, as_json: bool) -> dict[str, Any]:
        arguments = call.offered.arguments() if call.offered is not None else []
        own = {"HEADNODE_FILTER_CALL": call.kind, "CCP_JOBID": str(call.job)}
        if call.change:
            own["HEADNODE_FILTER_CHANGE"] = "1"
        if call.offered is not None:
            own["HEADNODE_FILTER_OFFER"] = str(call.offered.offer)
        return {
            "number": next(self._numbers),
            "program": [*call.filter.program, str(paper), *arguments],
            "environment": self._environment | own,
            "input": str(paper) if as_json else "",
            "seconds": call.seconds,
            "whole": as_json,
        }

    async def _run(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        try:
            await self._have_runner()
        except OSError as error:
            return {"how": "gone", "errors": f"the process that runs filters does not start: {error}"}
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[request["number"]] = future
        data = json.dumps(request).encode()
        if self._writer is not None:
            self._writer.write(len(data).to_bytes(4, "big") + data)
        try:
            async with asyncio.timeout(seconds + AFTER_THE_TIME_OUT):
                return await future
        except TimeoutError:
            await self.close()
            return {"how": "gone", "errors": "the process that runs filters does not answer"}
        finally:
            self._waiting.pop(request["number"], None)

    async def _have_runner(self) -> None:
        async with self._starting:
            if self._listening is not None and not self._listening.done():
                return
            await self.close()
            own, other = socket.socketpair()
            with other:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "headnode.adapters.filters.runner", str(other.fileno())],
                    pass_fds=(other.fileno(),),
                    stdin=subprocess.DEVNULL,
                    cwd=self._data,
                    start_new_session=True,
                )
            reader, self._writer = await asyncio.open_connection(sock=own)
            self._listening = asyncio.create_task(self._listen(reader))

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        """Hand answers to those who wait for them, until the runner is gone; then nobody waits any more."""
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                said = json.loads(await reader.readexactly(size))
                future = self._waiting.get(said["number"])
                if future is not None and not future.done():
                    future.set_result(said)
        except (asyncio.IncompleteReadError, ConnectionError):
            log.error("the process that runs filters has ended")
        finally:
            for future in self._waiting.values():
                if not future.done():
                    future.set_result({"how": "gone", "errors": "the process that runs filters has ended"})

    async def close(self) -> None:
        """End the runner, and with it every filter that runs."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if self._listening is not None:
            self._listening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._listening
            self._listening = None
        if self._process is not None:
            process, self._process = self._process, None
            await asyncio.to_thread(_wait, process, f"{OF_RUNNER}={self._own}".encode())


def _wait(process: "subprocess.Popen[bytes]", marker: bytes) -> None:
    """Wait for the end of the runner; if it was no good end, kill what it has left behind."""
    try:
        process.wait(AFTER_THE_TIME_OUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.returncode:
        end_marked(marker, AFTER_THE_TIME_OUT)


def _remove(paper: Path) -> None:
    """Remove a job file, whatever a filter has made of it."""
    if paper.is_dir() and not paper.is_symlink():
        shutil.rmtree(paper, ignore_errors=True)
    else:
        paper.unlink(missing_ok=True)


def _answer(said: dict[str, Any], as_json: bool) -> Answer:
    """Return how a run ended; the words of a filter whose output is an answer are on standard error."""
    words = last_words(said.get("errors", "")) or ("" if as_json else last_words(said.get("output", "")))
    if said["how"] != "ended":
        how = {"timed-out": How.TIMED_OUT, "missing": How.MISSING}.get(said["how"], How.BROKEN)
        return Answer(how, words=words)
    if said["status"] < 0:
        return Answer(How.SIGNALLED, BY_SIGNAL, words or f"signal {-said['status']}")
    return Answer(exit_code=said["status"], words=words)


def _from_output(said: dict[str, Any], answer: Answer) -> Returned:
    if said["too_much"]:
        return Returned(Answer(How.BROKEN, words=f"it wrote more than {LONGEST_ANSWER} bytes"))
    return Returned(answer, said["output"].encode())


def _read_back(paper: Path) -> bytes | None:
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
