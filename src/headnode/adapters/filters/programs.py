"""Filters that are programs, each with its job in a private file; and the link to their runner process."""

import asyncio
import itertools
import json
import os
import secrets
import shutil
import stat
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

from headnode.adapters.files.owners import why_not_run
from headnode.adapters.filters.runner import MAX_ANSWER
from headnode.adapters.process_tree import end_marked
from headnode.adapters.wire.child_service import ChildProgram, ChildService
from headnode.adapters.wire.frame_codec import MAX_LENGTH
from headnode.core.filtering import (
    BY_SIGNAL,
    CallOutcome,
    FilterAnswer,
    FilterRequest,
    FilterReturn,
    last_words,
)

ProgramMessage = dict[str, Any]
"""What the runner says of one run; `how` is "gone" when there is no runner to say anything."""

OF_RUNNER = "HEADNODE_FILTER_RUNNER"  # in the environment of every filter of one runner
AFTER_THE_TIME_OUT = 10.0  # seconds until the runner itself is taken for dead


class RunnerLink:
    """The runner of filter programs; `environment` is that of every filter, but for what a request adds."""

    def __init__(self, environment: dict[str, str], directory: Path) -> None:
        """`directory` is where they run."""
        marker = f"{OF_RUNNER}={secrets.token_hex(8)}"
        every = environment | dict([marker.split("=")])
        program = ChildProgram(
            "headnode.adapters.filters.runner",
            directory=directory,
            greeting=json.dumps({"environment": every}).encode(),
            kill=partial(_end_with_filters, marker.encode()),
        )
        self._service = ChildService(program, _read_message, MAX_LENGTH)
        self._numbers = itertools.count(1)

    async def run(self, request: dict[str, Any], seconds: float) -> ProgramMessage:
        """Have one program run, and return how it ended; `seconds` is the time that it has."""
        number = next(self._numbers)
        question = json.dumps(request | {"number": number, "seconds": seconds}).encode()
        try:
            answer = await self._service.ask(number, question)
        except OSError as error:
            return {"how": "gone", "errors": f"the filter runner does not start: {error}"}
        try:
            async with asyncio.timeout(seconds + AFTER_THE_TIME_OUT):
                return await answer
        except TimeoutError:
            await self.close()
            return {"how": "gone", "errors": "the filter runner does not answer"}
        except ConnectionError:
            return {"how": "gone", "errors": "the filter runner has ended"}

    async def close(self) -> None:
        """End the runner, and with it every filter that runs."""
        await self._service.end(AFTER_THE_TIME_OUT)


def _read_message(message: bytes) -> tuple[int, ProgramMessage]:
    decoded: ProgramMessage = json.loads(message)
    return decoded["number"], decoded


def _end_with_filters(marker: bytes, process: "subprocess.Popen[bytes]") -> None:
    """Kill the runner if it runs; if it was no good end, kill what it has left behind."""
    process.kill()
    if process.wait():
        end_marked(marker, AFTER_THE_TIME_OUT)


MAX_PAPER = MAX_ANSWER  # bytes of a job file as a filter left it


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
        """Run one filter, and return its answer and the job as it left it."""
        if why_not := await asyncio.to_thread(why_not_run, call.filter.program):
            return FilterReturn(FilterAnswer(CallOutcome.MISSING, words=why_not), call.paper)
        as_json = call.filter.dialect == "native-json"
        paper = f"{self._papers}/job-{call.job}-{next(self._numbers)}.{'json' if as_json else 'xml'}"
        try:
            _write(paper, call.paper)
            result = await self._runner.run(_request(call, paper, as_json=as_json), call.seconds)
            answer = _answer(result, as_json)
            if answer.exit_code != 1 or call.kind != "submission":
                return FilterReturn(answer, call.paper)
            if as_json and result["output"].strip():
                return _from_output(result, answer)
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
    """Write a job file that other users cannot read; the directory is ours alone, so its name is new."""
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


def _answer(result: dict[str, Any], as_json: bool) -> FilterAnswer:
    """Return how a run ended; the words of a filter whose output is an answer are on standard error."""
    message = last_words(result.get("errors", "")) or (
        "" if as_json else last_words(result.get("output", ""))
    )
    if result["how"] != "ended":
        how = {"timed-out": CallOutcome.TIMED_OUT, "missing": CallOutcome.MISSING}.get(
            result["how"], CallOutcome.BROKEN
        )
        return FilterAnswer(how, words=message)
    if result["status"] < 0:
        return FilterAnswer(CallOutcome.SIGNALLED, BY_SIGNAL, message or f"signal {-result['status']}")
    return FilterAnswer(exit_code=result["status"], words=message)


def _from_output(result: dict[str, Any], answer: FilterAnswer) -> FilterReturn:
    if result["too_much"]:
        return FilterReturn(FilterAnswer(CallOutcome.BROKEN, words=f"it wrote more than {MAX_ANSWER} bytes"))
    return FilterReturn(answer, result["output"].encode())


def _read_back(paper: str) -> bytes | None:
    """Return the file as the filter left it; None if what is there is no file that can be read."""
    try:
        handle = os.open(paper, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        seen = os.fstat(handle)
        if not stat.S_ISREG(seen.st_mode) or seen.st_size > MAX_PAPER:
            return None
        return os.pread(handle, MAX_PAPER, 0)
    finally:
        os.close(handle)
