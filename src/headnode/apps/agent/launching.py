"""Commands that tasks launch on their other nodes: the side of the task, and the side of the command."""

import asyncio
import contextlib
import hmac
import json
import logging
import secrets
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Protocol

import msgspec

from headnode.adapters.identity.peer import peer_ids
from headnode.adapters.nodes import messages as m
from headnode.adapters.nodes.framing import frame, read_frame
from headnode.adapters.nodes.sockets import listen
from headnode.adapters.processes import launcher as wire
from headnode.adapters.processes.job_journal import Key
from headnode.apps.agent.launch_places import LaunchPlaces
from headnode.apps.agent.streams import REPEAT, Stream
from headnode.core.lifecycle.events import Place
from headnode.core.model.errors import BadRequest, HeadnodeError, NotAllowed
from headnode.core.model.quantities import JobId
from headnode.core.model.task import Distribution

log = logging.getLogger("headnode.agent")

LARGEST_REQUEST = 4 * 1024 * 1024  # bytes
PATIENCE = 20.0  # seconds for a connection to say who it is, and for a command to start
GRACE = 1.0  # seconds a command has to end when its launcher is gone
_MISSED = 3  # heartbeats in which nothing came from the other side
_LEAST_LOST = 30.0  # seconds
_OVER = "the task is over"
_KINDS = {"out": wire.OUTPUT, "err": wire.ERROR, "in": wire.INPUT, "in-end": wire.INPUT_END}


class Request(msgspec.Struct, frozen=True):
    """What a launcher asks for."""

    secret: str
    task: str
    host: str
    command: str
    directory: str
    environment: dict[str, str]


class Owner(Protocol):
    """Who knows the jobs of this node."""

    def say(self, message: m.FromAgent) -> None:
        """Say something to the head."""

    def user_of(self, job: JobId, key: Key) -> int | None:
        """Return the user whose attempt lives here; None when there is no such attempt."""

    def start_launched(self, launch: m.Launch) -> int:
        """Let the job's shepherd run a command; return its user.

        Raises:  OSError, HeadnodeError when that cannot be.
        """

    def end_launched(self, job: JobId, numbers: list[str], grace: float) -> None:
        """Let the job's shepherd end commands."""

    def end_launched_by(self, job: JobId, key: Key) -> None:
        """Let the job's shepherd kill whatever an attempt of another node has running here."""


class _Served:
    """A command that was launched here.  When it has ended its stream is gone; what it left may not be."""

    def __init__(self, route: m.Route, stream: Stream, uid: int) -> None:
        self.route, self.uid = route, uid
        self.stream: Stream | None = stream
        self.connected: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = (
            asyncio.get_running_loop().create_future()
        )


class Launching:
    """All conversations of this node with launched commands, from either side."""

    def __init__(self, node: str, places: LaunchPlaces, owner: Owner) -> None:
        self._node, self.places, self._owner = node, places, owner
        self._asked: dict[str, Stream] = {}
        self._served: dict[str, _Served] = {}
        self._listening: set[Path] = set()
        self._servers: list[asyncio.Server] = []
        self._work: set[asyncio.Task[None]] = set()
        self._lost_after = _LEAST_LOST

    async def open(self) -> None:
        """Listen for launchers of tasks that an earlier agent has started."""
        self.places.renew()
        for folder in self.places.folders():
            await self._listen(folder)
        self._begin(self._look_for_ever())

    def close(self) -> None:
        """Let go of everything."""
        for server in self._servers:
            server.close()
        for task in self._work:
            task.cancel()

    def beat(self, heartbeat: float) -> None:
        """Take a conversation for lost when nothing was heard for some heartbeats (seconds)."""
        self._lost_after = max(_LEAST_LOST, _MISSED * heartbeat)

    def variables(
        self, uid: int, task: str, place: Place, distribution: Distribution | None
    ) -> dict[str, str]:
        """Return what an mpiexec of an attempt (job.task.instance.attempt) must find, and listen for it.

        Raises:  OSError; Unavailable ``launcher``.
        """
        folder = self.places.folder_for(uid)
        if folder not in self._listening:
            self._begin(self._listen(folder))
        return self.places.variables(folder, task, place, distribution)

    def _listen(self, folder: Path) -> Coroutine[Any, Any, None]:
        """Listen from now on; who connects is heard once the returned work is done."""
        listener = listen(folder / wire.SOCKET, 0o666)  # who speaks is checked
        self._listening.add(folder)

        async def serve() -> None:
            self._servers.append(await asyncio.start_unix_server(self._accept, sock=listener))

        return serve()

    # What the head says.

    def hear(self, message: m.Launching | m.EndLaunched) -> None:
        """Do what the head says, or pass it on to its conversation."""
        match message:
            case m.EndLaunched(job=job, task=task, instance=instance, attempt=attempt):
                self._end_of_attempt(job, (task, instance, attempt))
            case m.Launch():
                self._launch(message)
            case _:
                self._pass_on(message)

    def _pass_on(self, message: m.LaunchPiece | m.LaunchTaken) -> None:
        number = message.route.number
        if message.back:
            stream = self._asked.get(number)
        else:
            served = self._served.get(number)
            stream = served.stream if served is not None else None
        if stream is not None:
            stream.hear(message)
        elif not isinstance(message, m.LaunchPiece) or message.kind != "failed":
            unknown = f"node {self._node} knows nothing of it any more".encode()
            self._owner.say(m.LaunchPiece(message.route, not message.back, 0, "failed", unknown))

    def launched(self) -> list[m.Live]:
        """Return the attempts that have launched something here."""
        routes = [served.route for served in self._served.values()]
        found = {m.Live(r.job, r.task, r.instance, r.attempt, True): None for r in routes}
        return list(found)

    # The side of the task.

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._work.add(task)
        handed_over = False
        try:
            handed_over = await self._converse(reader, writer)
        except asyncio.CancelledError:
            return
        except (BadRequest, OSError, TimeoutError) as error:
            log.warning("a launcher's connection was dropped: %s", error)
        finally:
            self._work.discard(task)
            if not handed_over:
                writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Serve a launcher, or hand the connection over to the conversation of its command."""
        async with asyncio.timeout(PATIENCE):
            first = await read_frame(reader, LARGEST_REQUEST)
        _, uid, _ = peer_ids(writer.get_extra_info("socket"))
        kind, rest = (first[:1], first[1:]) if first is not None else (b"", b"")
        if kind == wire.ASK:
            await self._serve_launcher(rest, uid, reader, writer)
        served = self._served.get(rest.decode("ascii", "replace")) if kind == wire.ANSWER_FOR else None
        if served is None or served.uid != uid or served.connected.done():
            return False
        served.connected.set_result((reader, writer))
        return True

    async def _serve_launcher(
        self, text: bytes, uid: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            request = self._request(text)
            job, key = self._attempt_of(request, uid)
        except HeadnodeError as error:
            writer.write(_exit_frame(wire.FAILED, f"{error}"))
            await writer.drain()
            return
        route = m.Route(job, *key, secrets.token_hex(8), self._node, request.host)
        stream = self._asked[route.number] = Stream(self._owner.say, route, back=False)
        stream.launch(m.Launch(route, request.command, request.directory, request.environment))
        listening = self._begin(self._hear_launcher(reader, stream))
        try:
            await self._answer_launcher(stream, writer)
        finally:
            listening.cancel()
            del self._asked[route.number]

    def _request(self, text: bytes) -> Request:
        try:
            return msgspec.json.decode(text, type=Request)
        except msgspec.MsgspecError as error:
            raise BadRequest(code="launch", what=f"what was asked is not understood: {error}") from None

    def _attempt_of(self, request: Request, uid: int) -> tuple[JobId, Key]:
        """Return the attempt that asks.

        Raises:  NotAllowed ``launch``.
        """
        words = request.task.split(".")
        if len(words) == 4 and all(word.isascii() and word.isdigit() and len(word) < 19 for word in words):
            job, task, instance, attempt = (int(word) for word in words)
            key = (task, instance, attempt)
            right = hmac.compare_digest(self.places.secret(request.task), request.secret)
            if right and self._owner.user_of(JobId(job), key) == uid:
                return JobId(job), key
        raise NotAllowed(
            code="launch",
            what=f"this is not task {request.task!r}, or it does not run here any more",
            fix="launch commands from the first node of a parallel task that runs, as its user",
        )

    async def _hear_launcher(self, reader: asyncio.StreamReader, stream: Stream) -> None:
        """Pass on what a launcher reads, until it goes."""
        try:
            while (data := await read_frame(reader, 2 * wire.CHUNK)) is not None:
                kind = {wire.INPUT: "in", wire.INPUT_END: "in-end"}.get(data[:1])
                if kind is None:
                    raise BadRequest(code="launch", what=f"a launcher said {data[:1]!r}")
                await stream.say(kind, data[1:])
        except BadRequest as error:
            log.warning("a launcher was cut off: %s", error)
        await stream.say("gone")
        await stream.all_heard()
        stream.fail("its launcher is gone")

    async def _answer_launcher(self, stream: Stream, writer: asyncio.StreamWriter) -> None:
        """Pass on what a command writes, until it is over."""
        while True:
            piece = await stream.next()
            if piece.kind in ("exit", "failed"):
                problem = piece.data.decode(errors="replace")
                if problem == _OVER:  # nothing that its user need be told
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

    # The side of the command.

    def _launch(self, launch: m.Launch) -> None:
        route = launch.route
        served = self._served.get(route.number)
        if served is not None:
            if served.stream is not None:
                served.stream.acknowledge()
            return
        stream = Stream(self._owner.say, route, back=True)
        try:
            uid = self._owner.start_launched(launch)
        except (OSError, HeadnodeError) as error:
            self._owner.say(m.LaunchPiece(route, True, 0, "failed", str(error).encode()))
            return
        served = self._served[route.number] = _Served(route, stream, uid)
        stream.acknowledge()
        self._begin(self._serve(served, stream))

    def not_launched(self, number: str, why: str) -> None:
        """The shepherd could not start a command."""
        served = self._served.get(number)
        if served is not None and served.stream is not None:
            self._owner.say(m.LaunchPiece(served.route, True, 0, "failed", why.encode()))
            served.stream.fail(why)

    async def _serve(self, served: _Served, stream: Stream) -> None:
        """See a command to its end, and what it started to its own where the launcher has gone."""
        route, over = served.route, False
        with contextlib.suppress(TimeoutError, BadRequest, ConnectionError):
            async with asyncio.timeout(PATIENCE):
                reader, writer = await asyncio.shield(served.connected)
            feeding = self._begin(self._feed(stream, writer))
            telling = self._begin(self._tell(reader, stream))
            await asyncio.wait((feeding, telling), return_when=asyncio.FIRST_COMPLETED)
            over = telling.done() and not telling.cancelled() and telling.exception() is None
            feeding.cancel()
            telling.cancel()
            writer.close()
        if over:  # it has ended by itself; daemons that it left may go on as long as the task
            await stream.all_heard()
        else:
            if not stream.failed:
                lost = "it was ended, or could not be started"
                self._owner.say(m.LaunchPiece(route, True, 0, "failed", lost.encode()))
            self._owner.end_launched(route.job, [route.number], GRACE)
        served.stream = None

    async def _feed(self, stream: Stream, writer: asyncio.StreamWriter) -> None:
        """Pass on what a command reads, until its launcher goes."""
        while True:
            piece = await stream.next()
            if piece.kind in ("in", "in-end"):
                writer.write(frame(_KINDS[piece.kind] + piece.data))
                with contextlib.suppress(ConnectionError):  # it reads no more: what it says last is awaited
                    await writer.drain()
            if piece.kind != "failed":
                stream.took()
            if piece.kind in ("gone", "failed"):
                stream.fail("its launcher is gone")
                return

    async def _tell(self, reader: asyncio.StreamReader, stream: Stream) -> None:
        """Pass on what a command writes, until it is over.

        Raises:  BadRequest when it ends without a word.
        """
        while (data := await read_frame(reader, 2 * wire.CHUNK)) is not None:
            kind, rest = data[:1], data[1:]
            if kind == wire.EXIT:
                code, problem = _read_exit(rest)
                await stream.say("exit", problem.encode(), code)
                return
            if kind not in (wire.OUTPUT, wire.ERROR):
                break
            await stream.say("out" if kind == wire.OUTPUT else "err", rest)
        raise BadRequest(code="launch", what="a launched command ended without a word")

    # The end of things.

    def attempt_over(self, job: JobId, key: Key) -> None:
        """An attempt that was started here is over: nobody asks for it any more."""
        self.places.forget(".".join(map(str, (job, *key))))
        for stream in self._asked.values():
            route = stream.route
            if (route.job, route.task, route.instance, route.attempt) == (job, *key):
                stream.fail(_OVER)

    def _end_of_attempt(self, job: JobId, key: Key) -> None:
        found = [
            number
            for number, served in self._served.items()
            if (served.route.job, served.route.task, served.route.instance, served.route.attempt)
            == (job, *key)
        ]
        elsewhere = any(self._served[number].route.first != self._node for number in found)
        self._forget(job, found)
        if elsewhere:
            self._owner.end_launched_by(job, key)

    def job_over(self, job: JobId) -> None:
        """Nothing of a job is left here."""
        self._forget(job, [number for number, each in self._served.items() if each.route.job == job])

    def _forget(self, job: JobId, numbers: list[str]) -> None:
        if numbers:
            self._owner.end_launched(job, numbers, 0.0)
        for number in numbers:
            served = self._served.pop(number)
            if served.stream is not None:
                served.stream.fail(_OVER)

    async def _look_for_ever(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(REPEAT / 2)
            for stream in self._streams():
                stream.look(loop.time())
                if loop.time() - stream.heard > self._lost_after:
                    stream.fail(f"nothing was heard from the other node for {self._lost_after:.0f} s")

    def _streams(self) -> list[Stream]:
        serving = [served.stream for served in self._served.values() if served.stream is not None]
        return [*self._asked.values(), *serving]

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._work.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._work.discard(task)
        if not task.cancelled() and isinstance(task.exception(), Exception):
            log.warning("a conversation with a launched command ended: %s", task.exception())


def _exit_frame(code: int, problem: str) -> bytes:
    return frame(wire.EXIT + json.dumps({"code": code, "problem": problem}).encode())


class _Exit(msgspec.Struct, frozen=True):
    """How a command ended."""

    code: int
    problem: str


def _read_exit(data: bytes) -> tuple[int, str]:
    try:
        said = msgspec.json.decode(data, type=_Exit)
    except msgspec.MsgspecError:
        raise BadRequest(code="launch", what="how a launched command ended is not understood") from None
    return said.code, said.problem
