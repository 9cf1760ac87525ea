"""Filters that are Python: each plug-in runs in a worker process of its own, which a hang or crash ends."""

import asyncio
import contextlib
import itertools
import logging
import signal
import socket
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import msgspec

from headnode.adapters.filters.worker import GROUP
from headnode.adapters.process_tree import descendants, picture, send
from headnode.adapters.wire.frame_codec import HEADER, frame, size_of
from headnode.core.filtering.answers import (
    BY_SIGNAL,
    CallOutcome,
    FilterAnswer,
    FilterRequest,
    FilterReturn,
    last_words,
)

log = logging.getLogger("headnode.filters")

LONGEST_LOAD = 20.0  # seconds; as HPC Pack gives OnFilterLoad
LONGEST_ANSWER = 16 * 1024 * 1024  # bytes
TO_UNLOAD = 2.0  # seconds


def installed() -> tuple[str, ...]:
    """Return the names of the plug-in filters of installed packages."""
    return tuple(sorted({point.name for point in entry_points(group=GROUP)}))


class PlugIn:
    """One plug-in, and the process it lives in; calls come one after the other."""

    def __init__(self, name: str, data: Path, environment: dict[str, str]) -> None:
        self._name, self._data = name, data
        self._environment = environment | {"CCP_DATA": str(data)}
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._numbers = itertools.count(1)
        self._turn = asyncio.Lock()
        self._ready = False  # the plug-in is loaded

    async def call(self, call: FilterRequest) -> FilterReturn:
        """Call the plug-in about a job, and return what it answered and what it made of the job."""
        request = _request(next(self._numbers), call)
        sent_to = self._send_ahead(request)
        async with self._turn:  # in the order in which they were sent
            if sent_to is None or sent_to is not self._process:
                why = await self._load()
                if why:
                    return FilterReturn(FilterAnswer(CallOutcome.MISSING, words=why))
                self._send(request)
            try:
                async with asyncio.timeout(call.seconds):
                    said = await self._answer()
            except TimeoutError:
                await self._kill()
                return FilterReturn(FilterAnswer(CallOutcome.TIMED_OUT))
            except (asyncio.IncompleteReadError, OSError, msgspec.DecodeError, ValueError):
                return FilterReturn(await self._died())
        return _returned(said, call)

    def _send_ahead(self, request: dict[str, Any]) -> "subprocess.Popen[bytes] | None":
        """Send a request before its turn, so that the worker need not wait for it; return who has it."""
        if self._ready:
            self._send(request)
            return self._process
        return None

    def _send(self, request: dict[str, Any]) -> None:
        data = msgspec.msgpack.encode(request)
        if self._writer is not None:
            self._writer.write(frame(data))

    async def _answer(self) -> dict[str, Any]:
        if self._reader is None:
            raise ConnectionError("the worker process has ended")
        size = size_of(await self._reader.readexactly(HEADER), LONGEST_ANSWER)
        found: dict[str, Any] = msgspec.msgpack.decode(await self._reader.readexactly(size))
        return found

    async def _load(self) -> str:
        """Start the worker if there is none; return why the plug-in cannot be used, or an empty string."""
        if self._ready and self._process is not None and self._process.poll() is None:
            return ""
        await self._kill()
        own, other = socket.socketpair()
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "headnode.adapters.filters.worker", self._name, str(other.fileno())],
                pass_fds=(other.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr,
                cwd=self._data,
                env=self._environment,
                start_new_session=True,
            )
        self._reader, self._writer = await asyncio.open_connection(sock=own, limit=LONGEST_ANSWER)
        try:
            async with asyncio.timeout(LONGEST_LOAD):
                said = await self._answer()
        except TimeoutError:
            why = f"it did not load within {LONGEST_LOAD:g} s"
        except (asyncio.IncompleteReadError, OSError, msgspec.DecodeError, ValueError):
            why = f"it ended while it was loaded: {(await self._died()).words}"
        else:
            why = said.get("error", "")
        self._ready = not why
        if why:
            await self._kill()
        return why

    async def _died(self) -> FilterAnswer:
        """Return how the worker ended in the middle of a call."""
        process = self._process
        await self._kill()
        status = process.returncode if process is not None else None
        if status is not None and status < 0:
            return FilterAnswer(CallOutcome.SIGNALLED, BY_SIGNAL, f"signal {-status} ended its process")
        return FilterAnswer(CallOutcome.BROKEN, words=f"its process ended with {status}")

    async def close(self) -> None:
        """Let the plug-in unload; kill what does not end by itself."""
        async with self._turn:
            if self._writer is not None:
                self._writer.close()
            if self._process is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    await asyncio.to_thread(self._process.wait, TO_UNLOAD)
            await self._kill()

    async def _kill(self) -> None:
        """End the worker, and all that it has started."""
        if self._writer is not None:
            self._writer.close()
        self._ready = False
        process, self._process, self._reader, self._writer = self._process, None, None, None
        if process is not None:
            await asyncio.to_thread(_end, process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    there = picture()
    if process.poll() is None:
        send(descendants([process.pid], there), signal.SIGKILL)
    of_session = {number for number, seen in there.items() if seen.session == process.pid}
    send(of_session, signal.SIGKILL)
    process.wait()


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


def _returned(said: dict[str, Any], call: FilterRequest) -> FilterReturn:
    """Return what a worker said, as any filter's answer."""
    if "error" in said:
        return FilterReturn(FilterAnswer(CallOutcome.BROKEN, words=last_words(str(said["error"]))))
    answer = FilterAnswer(exit_code=said["code"] % 256, words=last_words(said.get("words", "")))
    if answer.exit_code != 1 or call.kind != "submission":
        return FilterReturn(answer, call.paper)
    job = said.get("job")
    if isinstance(job, str):
        return FilterReturn(answer, job.encode(errors="replace"))
    if isinstance(job, bytes):
        return FilterReturn(answer, job)
    return FilterReturn(answer, msgspec.json.encode(job))
