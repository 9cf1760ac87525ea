"""Remote commands of tasks: incoming connections, and the stream of each message."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from headnode.adapters.nodes.streams import LaunchStream, look_after
from headnode.adapters.processes import launcher as wire
from headnode.adapters.processes.job_journal import Key
from headnode.adapters.wire.agent_messages import (
    AttemptResult,
    Launch,
    LaunchAck,
    LaunchData,
    LaunchesEnded,
    ReportedAttempt,
)
from headnode.adapters.wire.frames import listen
from headnode.adapters.wire.messages import KillLaunches, Launching
from headnode.adapters.wire.peers import peer_ids
from headnode.apps.agent import launch_client, launch_server
from headnode.apps.agent.launch_client import with_remote_usage
from headnode.apps.agent.node_services import NodeServices
from headnode.apps.agent.silent_peers import SilentPeers
from headnode.apps.agent.task_tools import LaunchPlaces
from headnode.core.model.errors import BadRequest
from headnode.core.model.outcome import RemoteUsage
from headnode.core.model.quantities import JobId
from headnode.core.model.task import Distribution
from headnode.core.state.job_events import NodeCores

log = logging.getLogger("headnode.agent")

MAX_REQUEST = 4 * 1024 * 1024  # bytes
_MISSED = 3  # heartbeats in which nothing came from the other side
_MIN_LOST = 30.0  # seconds


class LaunchRouter:
    """All conversations of this node with launched commands, from either side."""

    def __init__(self, node: str, places: LaunchPlaces, services: NodeServices) -> None:
        self._node, self.places, self._services = node, places, services
        self._asking = launch_client.LaunchClient(node, places, services, self._begin)
        self._serving = launch_server.LaunchServer(node, services, self._begin)
        self._listening: set[Path] = set()
        self._servers: list[asyncio.Server] = []
        self._work: set[asyncio.Task[None]] = set()
        self._silent = SilentPeers()
        self._lost_after = _MIN_LOST

    async def open(self) -> None:
        """Listen for launchers of tasks that an earlier agent has started."""
        self.places.renew()
        for folder in self.places.folders():
            await self._listen(folder)
        self._begin(look_after(self._streams, lambda: self._lost_after))

    def close(self) -> None:
        """Let go of everything."""
        for server in self._servers:
            server.close()
        for task in self._work:
            task.cancel()

    def beat(self, heartbeat: float) -> None:
        """Take a conversation for lost when nothing was heard for some heartbeats (seconds)."""
        self._lost_after = max(_MIN_LOST, _MISSED * heartbeat)

    def variables(
        self, uid: int, task: str, place: NodeCores, distribution: Distribution | None
    ) -> dict[str, str]:
        """Return what an mpiexec of an attempt (job.task.instance.attempt) must find, and listen for it.

        Raises:  OSError; Unavailable ``launcher``.
        """
        folder = self.places.folder_for(uid)
        if folder not in self._listening:
            self._begin(self._listen(folder))
        return self.places.variables(folder, task, place, distribution)

    def terminal(self, uid: int) -> str:
        """Return the program that runs another one in a client's terminal, and listen for it.

        Raises:  OSError; Unavailable ``launcher``.
        """
        program = self.places.terminal(uid)
        folder = Path(program).parent
        if folder not in self._listening:
            self._begin(self._listen(folder))
        return program

    def _listen(self, folder: Path) -> Coroutine[Any, Any, None]:
        """Listen from now on; connections are served once the returned work is done."""
        listener = listen(folder / wire.SOCKET, 0o666)  # who speaks is checked
        self._listening.add(folder)

        async def serve() -> None:
            self._servers.append(await asyncio.start_unix_server(self._accept, sock=listener))

        return serve()

    # What the head says.

    def receive(self, message: Launching | KillLaunches) -> None:
        """Do what the head says, or pass it on to its conversation."""
        match message:
            case KillLaunches(job=job, task=task, instance=instance, attempt=attempt):
                self._serving.end_of_attempt(job, (task, instance, attempt))
            case Launch():
                self._serving.launch(message)
            case LaunchesEnded(route=route, from_target=back):
                if back:
                    self._asking.gathering.receive(message)
                else:
                    self._serving.end_and_report(route)
            case _:
                self._pass_on(message)

    def _pass_on(self, message: LaunchData | LaunchAck) -> None:
        number = message.route.number
        stream = self._asking.streams.get(number) if message.from_target else self._serving.stream(number)
        if stream is not None:
            stream.receive(message)
        elif not isinstance(message, LaunchData) or message.kind != "failed":
            unknown = f"node {self._node} no longer knows it".encode()
            self._services.send(LaunchData(message.route, not message.from_target, 0, "failed", unknown))

    def launched(self) -> list[ReportedAttempt]:
        """Return the attempts that have launched something here."""
        return self._serving.launched()

    # Who connects.

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
        first = await self._silent.first_frame(reader, writer, MAX_REQUEST)
        _, uid, _ = peer_ids(writer.get_extra_info("socket"))
        kind, rest = (first[:1], first[1:]) if first is not None else (b"", b"")
        if kind == wire.ASK:
            await self._asking.serve(rest, uid, reader, writer)
        if kind != wire.ANSWER_FOR:
            return False
        return self._serving.has_dialed(rest.decode("ascii", "replace"), uid, reader, writer)

    # The end of things.

    def not_launched(self, number: str, why: str) -> None:
        """The shepherd could not start a command."""
        self._serving.not_launched(number, why)

    def launches_over(self, task: str, used: RemoteUsage) -> None:
        """Nothing runs any more of what an attempt of another node launched here."""
        self._serving.over(task, used)

    def targets(self, job: JobId, key: Key) -> frozenset[str]:
        """Return the nodes on which an attempt has launched something; asked once, when it is over."""
        return self._asking.gathering.targets(job, key)

    def gather(
        self,
        job: JobId,
        result: AttemptResult,
        targets: frozenset[str],
        settle: Callable[[AttemptResult], None],
    ) -> None:
        """Settle the result of an attempt with what it used on its other nodes, once that is known."""
        self._begin(self._gather(job, result, targets, settle))

    async def _gather(
        self,
        job: JobId,
        result: AttemptResult,
        targets: frozenset[str],
        settle: Callable[[AttemptResult], None],
    ) -> None:
        key = (result.task, result.instance, result.attempt)
        settle(with_remote_usage(result, await self._asking.gathering.used(job, key, targets)))

    def attempt_over(self, job: JobId, key: Key) -> None:
        """Forget an attempt that was started here and is over."""
        self._asking.attempt_over(job, key)
        self._serving.attempt_over(job, key)

    def job_over(self, job: JobId) -> None:
        """Nothing of a job is left here."""
        self._serving.job_over(job)
        self.places.forget_scripts(job)

    def _streams(self) -> list[LaunchStream]:
        return [*self._asking.streams.values(), *self._serving.streams()]

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._work.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._work.discard(task)
        if not task.cancelled() and isinstance(task.exception(), Exception):
            log.warning("the connection to a launched command was closed: %s", task.exception())
