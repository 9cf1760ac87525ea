"""Remote commands of tasks, the side of the command; and the terminals of tasks."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from headnode.adapters.nodes.streams import HEAD, LaunchStream
from headnode.adapters.processes import launcher as wire
from headnode.adapters.processes.job_journal import Key
from headnode.adapters.wire import agent_messages as m
from headnode.adapters.wire.agent_messages import (
    Launch,
    LaunchData,
    LaunchesEnded,
    ReportedAttempt,
    Route,
    TerminalSize,
)
from headnode.adapters.wire.frame_codec import CHUNK, frame
from headnode.adapters.wire.frames import read_frame
from headnode.apps.agent.launch_client import OVER
from headnode.apps.agent.node_services import NodeServices
from headnode.core.model.bounds import UNREADABLE
from headnode.core.model.errors import BadRequest, HeadnodeError, Unavailable
from headnode.core.model.outcome import RemoteUsage
from headnode.core.model.quantities import JobId
from headnode.core.model.value_checks import MAX_CODE, MIN_CODE

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class TaskTerminals:
    """Tasks and visitors come in any order; each waits for the other.  By task: job.task.instance.attempt."""

    def __init__(self, services: NodeServices) -> None:
        self._services = services
        self._tasks: dict[str, Connection] = {}
        self._visitors: dict[str, asyncio.Future[Connection]] = {}

    def user(self, route: m.Route) -> int:
        """Return the user of the attempt that a visitor comes to.

        Raises:  Unavailable ``no-terminal`` when it is not here.
        """
        uid = self._services.user_of(route.job, (route.task, route.instance, route.attempt))
        if uid is None:
            raise Unavailable(
                code="no-terminal", what=f"the task of job {route.job} does not run here any more"
            )
        return uid

    def visit(self, route: m.Route, connected: "asyncio.Future[Connection]") -> None:
        """Give a visitor the connection of the task, now or when the task comes."""
        task = _name(route)
        waiting = self._tasks.pop(task, None)
        if waiting is not None:
            connected.set_result(waiting)
        else:
            self._visitors[task] = connected

    def has_dialed(self, task: str, uid: int, connection: Connection) -> bool:
        """Keep the connection of a task for its visitor; False when it is none of ours, or another user's."""
        parts = task.split(".")
        if len(parts) != 4 or not all(word.isascii() and word.isdigit() and len(word) < 19 for word in parts):
            return False
        job, number, instance, attempt = map(int, parts)
        if self._services.user_of(JobId(job), (number, instance, attempt)) != uid:
            return False
        visitor = self._visitors.pop(task, None)
        if visitor is not None and not visitor.done():
            visitor.set_result(connection)
            return True
        self.over(task)
        self._tasks[task] = connection
        return True

    @property
    def empty(self) -> bool:
        """Whether no task waits for a visitor, and no visitor for a task."""
        return not (self._tasks or self._visitors)

    def over(self, task: str) -> None:
        """A task is over, or has come anew: forget what is kept of it."""
        self._visitors.pop(task, None)
        waiting = self._tasks.pop(task, None)
        if waiting is not None:
            waiting[1].close()


def at_terminal(launch: Launch) -> bool:
    """Return whether a client comes to the terminal of a task; a command for a task has the task's place."""
    return launch.route.first == HEAD and launch.route.task > 0 and not launch.placement


def size_in_words(terminal: m.TerminalSize | None) -> str:
    """Return the size and type of a terminal as arguments for its creator; empty without a terminal."""
    return "" if terminal is None else f"{terminal.rows} {terminal.columns} {terminal.kind}"


def _name(route: m.Route) -> str:
    return f"{route.job}.{route.task}.{route.instance}.{route.attempt}"


log = logging.getLogger("headnode.agent")

TIMEOUT = 20.0  # seconds for a command to start
_WORD = 1.0  # seconds for a shepherd to say why a command ended without a word
GRACE = 1.0  # seconds a command has to end when its launcher is gone
_KINDS = {"in": wire.INPUT, "in-end": wire.INPUT_END, "window": wire.WINDOW}


class _Served:
    """A command that was launched here.  After its end, processes that it started may still run."""

    def __init__(self, launch: Launch, stream: LaunchStream, uid: int) -> None:
        self.route, self.uid = launch.route, uid
        self.terminal: TerminalSize | None = launch.terminal
        self.at_terminal = at_terminal(launch)
        self.stream: LaunchStream | None = stream
        self.connected: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()


class LaunchServer:
    """Commands that were launched here."""

    def __init__(
        self,
        node: str,
        services: NodeServices,
        begin: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self._node, self._services, self._begin = node, services, begin
        self._served: dict[str, _Served] = {}
        self._terminals = TaskTerminals(services)
        self._asked: dict[str, Route] = {}  # by attempt: who wants to know when all is over

    def streams(self) -> list[LaunchStream]:
        """Return the conversations that go on."""
        return [served.stream for served in self._served.values() if served.stream is not None]

    def stream(self, number: str) -> LaunchStream | None:
        """Return the conversation of a launch; None when there is none."""
        served = self._served.get(number)
        return served.stream if served is not None else None

    def launched(self) -> list[ReportedAttempt]:
        """Return the attempts that have launched something here, and jobs with something beside tasks."""
        routes = [
            served.route for served in self._served.values() if served.route.first or not served.route.task
        ]
        attempts = {ReportedAttempt(r.job, r.task, r.instance, r.attempt, True): None for r in routes}
        return list(attempts)

    def has_dialed(
        self, number: str, uid: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Hand the connection of a command to its conversation; False when it has none, or another user.

        The connection of a task's terminal waits until a client connects to it.
        """
        if "." in number:
            return self._terminals.has_dialed(number, uid, (reader, writer))
        served = self._served.get(number)
        if served is None or served.uid != uid or served.connected.done():
            return False
        served.connected.set_result((reader, writer))
        return True

    def launch(self, launch: Launch) -> None:
        """Let a command run, once."""
        route = launch.route
        served = self._served.get(route.number)
        if served is not None:
            if served.stream is not None:
                served.stream.acknowledge()
            return
        stream = LaunchStream(self._services.send, route, back=True)
        try:
            if at_terminal(launch):
                uid = self._terminals.user(route)
            else:
                uid = self._services.start_launched(launch)
        except (OSError, HeadnodeError) as error:
            self._services.send(LaunchData(route, True, 0, "failed", str(error).encode()))
            return
        served = self._served[route.number] = _Served(launch, stream, uid)
        if served.at_terminal:
            self._terminals.visit(route, served.connected)
        stream.acknowledge()
        self._begin(self._serve(served, stream))

    def not_launched(self, number: str, why: str) -> None:
        """The shepherd could not start a command."""
        served = self._served.get(number)
        if served is not None and served.stream is not None:
            self._services.send(LaunchData(served.route, True, 0, "failed", why.encode()))
            served.stream.fail(why)

    async def _serve(self, served: _Served, stream: LaunchStream) -> None:
        """Wait for the end of a command; if the launcher has gone, also end the processes it started."""
        route, over = served.route, False
        with contextlib.suppress(TimeoutError, BadRequest, ConnectionError):
            async with asyncio.timeout(TIMEOUT):
                reader, writer = await asyncio.shield(served.connected)
            if served.at_terminal:  # one that the shepherd starts knows its size already
                writer.write(frame(wire.WINDOW + size_in_words(served.terminal).encode()))
            telling = self._begin(self._forward(reader, stream))
            others = [self._begin(self._feed(stream, writer)), self._begin(stream.until_failed())]
            await asyncio.wait((telling, *others), return_when=asyncio.FIRST_COMPLETED)
            over = telling.done() and not telling.cancelled() and telling.exception() is None
            if over:  # a task's terminal waits for this: with the end of the task all is forgotten
                await stream.all_received()
            for each in (telling, *others):
                each.cancel()
            writer.close()
        if not over and not stream.failed:  # the shepherd may be about to say why
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_WORD):
                    await stream.until_failed()
        if not over:  # else it has ended by itself; daemons that it left may go on as long as the task
            if not stream.failed:
                lost = "it was ended, or could not be started"
                self._services.send(LaunchData(route, True, 0, "failed", lost.encode()))
            self._services.end_launched(route.job, [route.number], GRACE)
        served.stream = None

    async def _feed(self, stream: LaunchStream, writer: asyncio.StreamWriter) -> None:
        """Pass on what a command reads, until its launcher goes."""
        while True:
            piece = await stream.next()
            if piece.kind in _KINDS:
                writer.write(frame(_KINDS[piece.kind] + piece.data))
                with contextlib.suppress(ConnectionError):  # it reads no more: what it says last is awaited
                    await writer.drain()
            if piece.kind != "failed":
                stream.took()
            if piece.kind in ("gone", "failed"):
                stream.fail("its launcher has ended")
                return

    async def _forward(self, reader: asyncio.StreamReader, stream: LaunchStream) -> None:
        """Pass on what a command writes, until it is over.

        Raises:  BadRequest when it ends without a word.
        """
        while (data := await read_frame(reader, 2 * CHUNK)) is not None:
            kind, rest = data[:1], data[1:]
            if kind == wire.EXIT:
                code, problem = _read_exit(rest)
                await stream.send("exit", problem.encode(), code)
                return
            if kind not in (wire.OUTPUT, wire.ERROR):
                break
            await stream.send("out" if kind == wire.OUTPUT else "err", rest)
        raise BadRequest(code="launch", what="a launched command ended without a result")

    def end_of_attempt(self, job: JobId, key: Key) -> None:
        """An attempt is over: what it launched here is to end."""
        streams = [
            number
            for number, served in self._served.items()
            if (served.route.job, served.route.task, served.route.instance, served.route.attempt)
            == (job, *key)
        ]
        elsewhere = any(self._served[number].route.first != self._node for number in streams)
        self._forget(job, streams)
        if elsewhere:
            self._services.end_launched_by(job, key)

    def end_and_report(self, route: Route) -> None:
        """An attempt is over: end what it launched here, and tell its first node what that used."""
        key = (route.task, route.instance, route.attempt)
        self._asked[".".join(map(str, (route.job, *key)))] = route
        self.end_of_attempt(route.job, key)
        if not self._services.end_launched_by(route.job, key):
            self.over(".".join(map(str, (route.job, *key))), RemoteUsage())

    def over(self, task: str, used: RemoteUsage) -> None:
        """Nothing runs any more of what an attempt (job.task.instance.attempt) launched here."""
        route = self._asked.pop(task, None)
        if route is not None:
            self._services.send(LaunchesEnded(route, True, used))

    def attempt_over(self, job: JobId, key: Key) -> None:
        """An attempt of this node is over, and with it its terminal."""
        if not self._terminals.empty:
            self._terminals.over(".".join(map(str, (job, *key))))

    def job_over(self, job: JobId) -> None:
        """Nothing of a job is left here."""
        self._forget(job, [number for number, each in self._served.items() if each.route.job == job])

    def _forget(self, job: JobId, numbers: list[str]) -> None:
        if numbers:
            self._services.end_launched(job, numbers, 0.0)
        for number in numbers:
            served = self._served.pop(number)
            if served.stream is not None:
                served.stream.fail(OVER)


class _Exit(msgspec.Struct, frozen=True):
    """How a command ended."""

    code: Annotated[int, Meta(ge=MIN_CODE, le=MAX_CODE)]
    problem: str


def _read_exit(data: bytes) -> tuple[int, str]:
    try:
        exit_report = msgspec.json.decode(data, type=_Exit)
    except UNREADABLE:
        raise BadRequest(code="launch", what="the result of a launched command was not understood") from None
    return exit_report.code, exit_report.problem
