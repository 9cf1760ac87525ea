"""Remote commands of tasks, the side of the task; and what an attempt used on its other nodes."""

import asyncio
import contextlib
import hmac
import json
import logging
import secrets
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Annotated, Any

import msgspec
from msgspec.structs import replace

from headnode.adapters.nodes.streams import LaunchStream
from headnode.adapters.processes import launcher as wire
from headnode.adapters.processes.job_journal import Key
from headnode.adapters.wire.agent_messages import AttemptResult, Launch, LaunchesEnded, Route
from headnode.adapters.wire.frame_codec import CHUNK, frame
from headnode.adapters.wire.frames import read_frame
from headnode.adapters.wire.message_checks import launch_objection
from headnode.adapters.wire.messages import FromAgent
from headnode.apps.agent.node_services import NodeServices
from headnode.apps.agent.task_tools import LaunchPlaces
from headnode.core.model.bounds import COMMAND, LAUNCHES, NAME, UNREADABLE
from headnode.core.model.errors import BadRequest, HeadnodeError, NotAllowed
from headnode.core.model.outcome import RemoteUsage
from headnode.core.model.quantities import JobId

log = logging.getLogger("headnode.agent")

TIMEOUT = 6.0  # seconds for all the nodes to answer
NO_NODES: frozenset[str] = frozenset()
MAX_TARGETS = 4096  # nodes that one attempt may name
MAX_LAUNCHES = 512  # launches of one user at a time; an agent has 1024 descriptors
REPEAT = 2.0  # seconds until those that have not are asked again


class UsageGathering:
    """The attempts of this node that have launched something on others, and what is known of them there."""

    def __init__(
        self,
        node: str,
        send: Callable[[FromAgent], None],
        repeat: float = REPEAT,
        timeout: float = TIMEOUT,
    ) -> None:
        """`repeat` and `timeout` in seconds."""
        self._node, self._send = node, send
        self._repeat, self._timeout = repeat, timeout
        self._targets: dict[tuple[JobId, Key], set[str]] = {}
        self._answers: dict[tuple[JobId, Key], dict[str, RemoteUsage]] = {}
        self._arrived = asyncio.Event()

    def launches(self, job: JobId, key: Key, target: str) -> None:
        """An attempt launches something on a node.

        Raises:  NotAllowed ``launch`` when it has named too many.
        """
        targets = self._targets.setdefault((job, key), set())
        if target not in targets and len(targets) >= MAX_TARGETS:
            raise NotAllowed(code="launch", what=f"the task has named {MAX_TARGETS} nodes already")
        targets.add(target)

    def targets(self, job: JobId, key: Key) -> frozenset[str]:
        """Return the nodes on which an attempt has launched something; asked once, when it is over."""
        return frozenset(self._targets.pop((job, key), ())) if self._targets else NO_NODES

    def receive(self, message: LaunchesEnded) -> None:
        """Take in an answer."""
        route = message.route
        answers = self._answers.get((route.job, (route.task, route.instance, route.attempt)))
        if answers is not None and message.usage is not None:
            answers[route.target] = message.usage
            self._arrived.set()

    async def used(self, job: JobId, key: Key, targets: Iterable[str]) -> dict[str, RemoteUsage]:
        """Let what an attempt has left on these nodes end; return what it used there, by node.

        A node that does not answer in time is left out.
        """
        answers = self._answers[job, key] = {}
        until = asyncio.get_running_loop().time() + self._timeout
        missing = set(targets)
        while missing and (left := until - asyncio.get_running_loop().time()) > 0:
            for node in sorted(missing):
                self._send(LaunchesEnded(Route(job, *key, "", self._node, node)))
            await self._wait_for(missing, answers, min(left, self._repeat))
        if missing:
            log.warning("the resource use of job %d on %s is unknown", job, ", ".join(sorted(missing)))
        del self._answers[job, key]
        return answers

    async def _wait_for(self, missing: set[str], answers: Mapping[str, RemoteUsage], timeout: float) -> None:
        try:
            async with asyncio.timeout(timeout):
                while missing:
                    self._arrived.clear()
                    await self._arrived.wait()
                    missing.difference_update(answers)
        except TimeoutError:
            return


def with_remote_usage(result: AttemptResult, elsewhere: Mapping[str, RemoteUsage]) -> AttemptResult:
    """Return the result of an attempt with what it used on its other nodes, by node.

    The peak of its memory is the sum of those of its nodes, though they may not have been at the same moment.
    """
    outcome = result.outcome
    why = next(
        (f"on node {node}: {each.message}" for node, each in sorted(elsewhere.items()) if each.message), ""
    )
    failed = outcome.kind == "exited" and bool(outcome.exit_code or outcome.signal)
    usage = outcome.usage
    for each in elsewhere.values():
        usage = usage.beside(each.usage)
    return replace(
        result, outcome=outcome._replace(usage=usage, message=outcome.message or (why if failed else ""))
    )


OVER = "the task is over"
_KINDS = {"out": wire.OUTPUT, "err": wire.ERROR}


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a launcher asks for."""

    secret: str
    task: str
    host: Annotated[str, msgspec.Meta(max_length=NAME.most)]
    command: str
    directory: str
    environment: dict[str, str]


class LaunchClient:
    """Launchers of this node's tasks, each in a conversation with the command that it asked for."""

    def __init__(
        self,
        node: str,
        places: LaunchPlaces,
        services: NodeServices,
        begin: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self._node, self._places, self._services, self._begin = node, places, services, begin
        self.streams: dict[str, LaunchStream] = {}
        self.gathering = UsageGathering(node, services.send)
        self._users: Counter[int] = Counter()  # launches of each user

    async def serve(
        self, text: bytes, uid: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Serve one launcher, from what it asks for to the end of its command."""
        try:
            request = self._request(text)
            job, key = self._attempt_of(request, uid)
            _refuse_too_large(request)
            self._admit(uid)
            self.gathering.launches(job, key, request.host)
            temporary = self._services.temporary_name(job, key)
        except HeadnodeError as error:
            writer.write(_exit_frame(wire.FAILED, f"{error}"))
            await writer.drain()
            return
        route = Route(job, *key, secrets.token_hex(8), self._node, request.host)
        stream = self.streams[route.number] = LaunchStream(self._services.send, route, back=False)
        asked = request.command, request.directory, request.environment
        stream.launch(Launch(route, *asked, temporary=temporary))
        listening = self._begin(self._read_launcher(reader, stream))
        self._users[uid] += 1
        try:
            await self._answer_launcher(stream, writer)
        finally:
            listening.cancel()
            del self.streams[route.number]
            self._users[uid] -= 1
            self._users += Counter()  # forgets users without launches

    def _admit(self, uid: int) -> None:
        if self._users[uid] >= MAX_LAUNCHES:
            raise NotAllowed(
                code="launch",
                what=f"the user has {MAX_LAUNCHES} commands running from this node, which is the maximum",
                fix="wait until some have ended",
            )

    def _request(self, text: bytes) -> Request:
        try:
            return msgspec.json.decode(text, type=Request)
        except UNREADABLE as error:
            raise BadRequest(
                code="launch",
                what=f"the request was not understood: {error}",
                fix="use the launcher of the task: $HEADNODE_LAUNCH",
            ) from None

    def _attempt_of(self, request: Request, uid: int) -> tuple[JobId, Key]:
        """Return the attempt that asks.

        Raises:  NotAllowed ``launch``.
        """
        parts = request.task.split(".")
        if len(parts) == 4 and all(word.isascii() and word.isdigit() and len(word) < 19 for word in parts):
            job, task, instance, attempt = (int(word) for word in parts)
            key = (task, instance, attempt)
            good, secret = self._places.secret(request.task), request.secret
            right = hmac.compare_digest(good.encode(), secret.encode())
            if right and self._services.user_of(JobId(job), key) == uid:
                return JobId(job), key
        raise NotAllowed(
            code="launch",
            what=f"this is not task {request.task!r}, or it no longer runs here",
            fix="launch commands from the first node of a parallel task that runs, as its user",
        )

    async def _read_launcher(self, reader: asyncio.StreamReader, stream: LaunchStream) -> None:
        """Pass on what a launcher reads, until it goes."""
        try:
            while (data := await read_frame(reader, 2 * CHUNK)) is not None:
                kind = {wire.INPUT: "in", wire.INPUT_END: "in-end"}.get(data[:1])
                if kind is None:
                    raise BadRequest(code="launch", what=f"a launcher sent {data[:1]!r}")
                await stream.send(kind, data[1:])
        except BadRequest as error:
            log.warning("the connection of a launcher was closed: %s", error)
        await stream.leave()

    async def _answer_launcher(self, stream: LaunchStream, writer: asyncio.StreamWriter) -> None:
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
        """Forget an attempt that was started here and is over."""
        if self._places.have_hosts:
            self._places.forget(".".join(map(str, (job, *key))))
        self.gathering.targets(job, key)
        for stream in self.streams.values():
            route = stream.route
            if (route.job, route.task, route.instance, route.attempt) == (job, *key):
                stream.fail(OVER)


def _refuse_too_large(request: Request) -> None:
    """Refuse what the head takes from no node.

    Raises:  BadRequest ``launch``.
    """
    if problem := launch_objection(request.command, request.environment):
        raise BadRequest(
            code="launch",
            what=f"{problem} cannot be launched on another node",
            fix=f"the limits are {COMMAND} and {LAUNCHES}: put words into a file, or unset variables",
        )


def _exit_frame(code: int, problem: str) -> bytes:
    return frame(wire.EXIT + json.dumps({"code": code, "problem": problem}).encode())
