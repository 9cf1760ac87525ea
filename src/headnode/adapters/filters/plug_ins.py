"""Filters that are Python: each plug-in runs in a worker process of its own, which a hang or crash ends."""

import asyncio
import itertools
import signal
import subprocess
from pathlib import Path
from typing import Any

import msgspec

from headnode.adapters.filters.worker import GROUP, LOADED
from headnode.adapters.installed_packages import offered
from headnode.adapters.process_tree import descendants, picture, send
from headnode.adapters.wire.child_service import ChildProgram, ChildService
from headnode.core.filtering import (
    BY_SIGNAL,
    CallOutcome,
    FilterAnswer,
    FilterRequest,
    FilterReturn,
    last_words,
)

MAX_LOAD = 20.0  # seconds; as HPC Pack gives OnFilterLoad
MAX_ANSWER = 16 * 1024 * 1024  # bytes
TO_UNLOAD = 2.0  # seconds
TO_EXIT = 0.5  # seconds from hanging up to the end of a process


def installed() -> tuple[str, ...]:
    """Return the names of the plug-in filters of installed packages."""
    return tuple(sorted({point.name for point in offered(GROUP)}))


def why_not_installed(name: str) -> str:
    """Return why a plug-in cannot be called: each job would fail, or wait for ever; "" if it is installed."""
    there_are = installed()
    if name in there_are:
        return ""
    known = f"; there are {', '.join(there_are)}" if there_are else ""
    return (
        f"no installed package has a filter {name!r}{known}; install its package where Headnode is installed"
    )


class PlugIn:
    """One plug-in, and the process it lives in; calls come one after the other."""

    def __init__(self, name: str, data: Path, environment: dict[str, str]) -> None:
        program = ChildProgram(
            "headnode.adapters.filters.worker",
            (name,),
            directory=data,
            environment=environment | {"CCP_DATA": str(data)},
            kill=_end,
        )
        self._service = ChildService(program, _read_answer, MAX_ANSWER)
        self._numbers = itertools.count(LOADED + 1)
        self._turn = asyncio.Lock()
        self._ready = False  # the plug-in is loaded

    async def call(self, call: FilterRequest) -> FilterReturn:
        """Call the plug-in about a job, and return what it answered and what it made of the job."""
        number = next(self._numbers)
        question = msgspec.msgpack.encode(_request(number, call))
        ahead = None  # sent before its turn, so that the worker need not wait for it
        if self._ready and self._service.is_up:
            ahead = await self._service.ask(number, question)
        async with self._turn:  # in the order in which they were sent
            try:
                if ahead is None or (ahead.done() and ahead.exception() is not None):
                    if why := await self._load():
                        return FilterReturn(FilterAnswer(CallOutcome.MISSING, words=why))
                    ahead = await self._service.ask(number, question)
                async with asyncio.timeout(call.seconds):
                    message = await ahead
            except TimeoutError:
                await self._end()
                return FilterReturn(FilterAnswer(CallOutcome.TIMED_OUT))
            except OSError:
                return FilterReturn(await self._died())
        return _returned(message, call)

    async def _load(self) -> str:
        """Start the worker if there is none; return why the plug-in cannot be used, or an empty string."""
        if self._ready and self._service.is_up:
            return ""
        await self._end()
        try:
            loaded = await self._service.ask(LOADED, msgspec.msgpack.encode({"number": LOADED}))
            async with asyncio.timeout(MAX_LOAD):
                why: str = (await loaded).get("error", "")
        except TimeoutError:
            why = f"it did not load within {MAX_LOAD:g} s"
        except ConnectionError:
            why = f"it ended while it was loaded: {(await self._died()).words}"
        self._ready = not why
        if why:
            await self._end()
        return why

    async def _died(self) -> FilterAnswer:
        """Return how the worker ended in the middle of a call."""
        status = await self._end(TO_EXIT)
        if status is not None and status < 0:
            return FilterAnswer(CallOutcome.SIGNALLED, BY_SIGNAL, f"signal {-status} ended its process")
        return FilterAnswer(CallOutcome.BROKEN, words=f"its process ended with {status}")

    async def close(self) -> None:
        """Let the plug-in unload; kill what does not end by itself."""
        async with self._turn:
            await self._end(TO_UNLOAD)

    async def _end(self, timeout: float = 0.0) -> int | None:
        """End the worker, and all that it has started."""
        self._ready = False
        return await self._service.end(timeout)


def _read_answer(message: bytes) -> tuple[int, dict[str, Any]]:
    answer: dict[str, Any] = msgspec.msgpack.decode(message)
    return answer["number"], answer


def _end(process: "subprocess.Popen[bytes]") -> None:
    there = picture()
    if process.poll() is None:
        send(descendants([process.pid], there), signal.SIGKILL)
    of_session = {number for number, seen in there.items() if seen.session == process.pid}
    send(of_session, signal.SIGKILL)


def _request(number: int, call: FilterRequest) -> dict[str, Any]:
    as_object = call.filter.dialect == "native-json"
    offered = call.offered
    return {
        "number": number,
        "kind": call.kind,
        "job": msgspec.json.decode(call.paper) if as_object else call.paper.decode(),
        "offered": []
        if offered is None
        else [offered.scheduler_pass, offered.job_index, offered.backfill, offered.resource_count],
    }


def _returned(reply: dict[str, Any], call: FilterRequest) -> FilterReturn:
    """Return what a worker said, as any filter's answer."""
    if "error" in reply:
        return FilterReturn(FilterAnswer(CallOutcome.BROKEN, words=last_words(str(reply["error"]))))
    answer = FilterAnswer(exit_code=reply["code"] % 256, words=last_words(reply.get("words", "")))
    if answer.exit_code != 1 or call.kind != "submission":
        return FilterReturn(answer, call.paper)
    job = reply.get("job")
    if isinstance(job, str):
        return FilterReturn(answer, job.encode(errors="replace"))
    if isinstance(job, bytes):
        return FilterReturn(answer, job)
    return FilterReturn(answer, msgspec.json.encode(job))
