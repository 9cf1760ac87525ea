"""Commands that tasks launch on their other nodes: the side of the task."""

import asyncio
import contextlib
import hmac
import json
import logging
import secrets
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import msgspec

from headnode.adapters.nodes import messages as m
from headnode.adapters.nodes.framing import frame, read_frame
from headnode.adapters.nodes.streams import Stream
from headnode.adapters.processes import launcher as wire
from headnode.adapters.processes.job_journal import Key
from headnode.apps.agent.gathering import Gathering
from headnode.apps.agent.launch_places import LaunchPlaces
from headnode.core.model.errors import BadRequest, HeadnodeError, NotAllowed
from headnode.core.model.quantities import JobId
from headnode.core.model.unreadable import UNREADABLE

log = logging.getLogger("headnode.agent")

OVER = "the task is over"
_KINDS = {"out": wire.OUTPUT, "err": wire.ERROR}


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a launcher asks for."""

    secret: str
    task: str
    host: str
    command: str
    directory: str
    environment: dict[str, str]


class Owner(Protocol):
    """Who knows the jobs of this node, and the head."""

    def say(self, message: m.FromAgent) -> None:
        """Say something to the head."""

    def user_of(self, job: JobId, key: Key) -> int | None:
        """Return the user whose attempt lives here; None when there is no such attempt."""


class Asking:
    """Launchers of this node's tasks, each in a conversation with the command that it asked for."""

    def __init__(
        self,
        node: str,
        places: LaunchPlaces,
        owner: Owner,
        begin: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self._node, self._places, self._owner, self._begin = node, places, owner, begin
        self.streams: dict[str, Stream] = {}
        self.gathering = Gathering(node, owner.say)

    async def serve(
        self, text: bytes, uid: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Serve one launcher, from what it asks for to the end of its command."""
        try:
            request = self._request(text)
            job, key = self._attempt_of(request, uid)
        except HeadnodeError as error:
            writer.write(_exit_frame(wire.FAILED, f"{error}"))
            await writer.drain()
            return
        route = m.Route(job, *key, secrets.token_hex(8), self._node, request.host)
        self.gathering.launches(job, key, request.host)
        stream = self.streams[route.number] = Stream(self._owner.say, route, back=False)
        stream.launch(m.Launch(route, request.command, request.directory, request.environment))
        listening = self._begin(self._hear_launcher(reader, stream))
        try:
            await self._answer_launcher(stream, writer)
        finally:
            listening.cancel()
            del self.streams[route.number]

    def _request(self, text: bytes) -> Request:
        try:
            return msgspec.json.decode(text, type=Request)
        except UNREADABLE as error:
            raise BadRequest(code="launch", what=f"the request was not understood: {error}") from None

    def _attempt_of(self, request: Request, uid: int) -> tuple[JobId, Key]:
        """Return the attempt that asks.

        Raises:  NotAllowed ``launch``.
        """
        words = request.task.split(".")
        if len(words) == 4 and all(word.isascii() and word.isdigit() and len(word) < 19 for word in words):
            job, task, instance, attempt = (int(word) for word in words)
            key = (task, instance, attempt)
            right = hmac.compare_digest(self._places.secret(request.task), request.secret)
            if right and self._owner.user_of(JobId(job), key) == uid:
                return JobId(job), key
        raise NotAllowed(
            code="launch",
            what=f"this is not task {request.task!r}, or it no longer runs here",
            fix="launch commands from the first node of a parallel task that runs, as its user",
        )

    async def _hear_launcher(self, reader: asyncio.StreamReader, stream: Stream) -> None:
        """Pass on what a launcher reads, until it goes."""
        try:
            while (data := await read_frame(reader, 2 * wire.CHUNK)) is not None:
                kind = {wire.INPUT: "in", wire.INPUT_END: "in-end"}.get(data[:1])
                if kind is None:
                    raise BadRequest(code="launch", what=f"a launcher sent {data[:1]!r}")
                await stream.say(kind, data[1:])
        except BadRequest as error:
            log.warning("the connection of a launcher was closed: %s", error)
        await stream.leave()

    async def _answer_launcher(self, stream: Stream, writer: asyncio.StreamWriter) -> None:
        """Pass on what a command writes, until it is over."""
        while True:
            piece = await stream.next()
            if piece.kind in ("exit", "failed"):
                problem = piece.data.decode(errors="replace")
                if problem == OVER:  # nothing that its user need be told
                    problem = ""
                elif piece.kind == "failed":
                    problem = f"the command on node {stream.route.target!r} failed: {problem}"
                writer.write(_exit_frame(piece.code if piece.kind == "exit" else wire.FAILED, problem))
            elif piece.kind in ("out", "err"):
                writer.write(frame(_KINDS[piece.kind] + piece.data))
            with contextlib.suppress(ConnectionError):  # hearing it finds out
                await writer.drain()
            if piece.kind != "failed":
                stream.took()
            if piece.kind in ("exit", "failed"):
                return

    def attempt_over(self, job: JobId, key: Key) -> None:
        """An attempt that was started here is over: nobody asks for it any more."""
        self._places.forget(".".join(map(str, (job, *key))))
        self.gathering.targets(job, key)
        for stream in self.streams.values():
            route = stream.route
            if (route.job, route.task, route.instance, route.attempt) == (job, *key):
                stream.fail(OVER)


def _exit_frame(code: int, problem: str) -> bytes:
    return frame(wire.EXIT + json.dumps({"code": code, "problem": problem}).encode())
