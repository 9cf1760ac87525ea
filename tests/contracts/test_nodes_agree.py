"""A node is recorded as here exactly if it is connected, in whatever order that was recorded."""

import asyncio
import struct
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path

import msgspec
import pytest

from headnode.adapters.clock import WallClock
from headnode.adapters.journal.memory import MemoryJournal
from headnode.adapters.nodes import report_queue
from headnode.adapters.nodes.links import NodeLinks
from headnode.adapters.wire.agent_messages import PROTOCOL, Hello
from headnode.adapters.wire.frame_codec import frame
from headnode.adapters.wire.frames import quiet_at_the_end
from headnode.adapters.wire.messages import Welcome
from headnode.apps.server import agent_supervisor
from headnode.apps.server.agent_supervisor import Absences, watch_for_lost_nodes
from headnode.apps.server.command_batcher import CommandBatcher
from headnode.core.model.errors import Unavailable
from headnode.core.model.node import NodeFacts, NodeState
from headnode.core.model.quantities import JobId, Seconds
from headnode.core.model.user import User
from headnode.core.scheduling.policies import POLICIES
from headnode.core.state.command import Command
from headnode.core.state.events import Event, NodeReachable
from headnode.core.state.join import RegisterNode
from headnode.core.state.nodes import ChangeNode, NodeVanished
from headnode.engine.engine import Answer, Engine
from headnode.engine.ports import EndedJob

ROOT = User(name="root", uid=0, gid=0, administrator=True)
FULL = Unavailable(code="journal-full", what="the disk is full", fix="make room")


class Disk(MemoryJournal):
    """A journal on a disk that may be full."""

    full = False

    def append(
        self, events: Sequence[Event], ended: Iterable[EndedJob] = (), revived: Sequence[JobId] = ()
    ) -> int:
        if self.full:
            raise FULL
        return super().append(events, ended, revived)


class Connection:
    """A connection of an agent to the head."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def greet(self) -> None:
        hello = Hello(protocol=PROTOCOL, facts=NodeFacts(name="red", processors=1))
        self.writer.write(frame(msgspec.msgpack.encode(hello)))

    async def receive(self) -> str:
        """Return the kind of the next message; empty when the head has hung up."""
        try:
            (size,) = struct.unpack(">I", await self.reader.readexactly(4))
            message = await self.reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError):
            return ""
        kind: str = msgspec.msgpack.decode(message)["type"]
        return kind


class Head:
    """The part of a head that has to do with its nodes."""

    def __init__(self, path: Path) -> None:
        self.disk, self._path = Disk(), path
        self.engine = Engine(self.disk, WallClock(), dict(POLICIES), self)
        self.batcher = CommandBatcher(self.engine, lambda: None)
        self.free = asyncio.Event()  # the batcher takes commands
        self.free.set()
        self.asked: list[Command] = []
        self.telling: asyncio.Future[None] | None = None  # the last report
        self.connections: list[Connection] = []
        self.links = NodeLinks(
            self.tell, lambda: Welcome("c", Seconds(60.0), Seconds(1.0)), lambda: self.engine.cluster
        )

    def perform(self, events: Sequence[Event], cluster: object) -> None:
        if hasattr(self, "links"):
            self.links.perform(events, self.engine.cluster)

    async def ask(self, command: Command) -> object:
        """Give a command to the batcher; one that a thread keeps busy takes none meanwhile."""
        self.asked.append(command)
        await self.free.wait()
        return await self.batcher.ask(command)

    def tell(self, command: Command, answered: Callable[[Answer], None]) -> None:
        """Do as `ask`, for reports, which stay in their order."""
        self.asked.append(command)
        self.telling = asyncio.ensure_future(self._tell_after(self.telling, command, answered))

    async def _tell_after(
        self, before: asyncio.Future[None] | None, command: Command, answered: Callable[[Answer], None]
    ) -> None:
        if before is not None:
            await before
        await self.free.wait()
        self.batcher.tell(command, answered)

    @property
    def state(self) -> NodeState:
        return self.engine.cluster.nodes["red"].state

    async def dial(self) -> Connection:
        connection = Connection(*await asyncio.open_unix_connection(str(self._path)))
        self.connections.append(connection)
        return connection

    async def connected(self) -> Connection:
        """Return a connection of the node that was welcomed."""
        connection = await self.dial()
        connection.greet()
        assert await connection.receive() == "Welcome"
        return connection


async def until(happened: Callable[[], object]) -> None:
    while not happened():
        await asyncio.sleep(0)


Story = Callable[[Head], Awaitable[None]]


def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, story: Story) -> None:
    """Play a story while nodes are looked after, with little rest between two looks."""
    monkeypatch.setattr(agent_supervisor, "BETWEEN_HEARTBEAT_CHECKS", 0.01)
    monkeypatch.setattr(agent_supervisor, "STOOD_STILL", 3600.0)
    monkeypatch.setattr(report_queue, "AGAIN", 0.01)

    async def scene() -> None:
        head = Head(tmp_path / "nodes.sock")
        served = quiet_at_the_end(head.links.serve)
        server = await asyncio.start_unix_server(served, tmp_path / "nodes.sock")
        watching = asyncio.create_task(
            watch_for_lost_nodes(head.engine, head.batcher, head.links, Absences())
        )
        try:
            async with asyncio.timeout(20):
                await story(head)
            assert not watching.done()
        finally:
            watching.cancel()
            server.close()
            for connection in head.connections:
                connection.writer.close()
            await asyncio.sleep(0)

    asyncio.run(scene())


def test_a_node_connects_again_whose_older_connection_is_recorded_to_have_ended_after_it_greeted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its tasks would be given up after a while, and started elsewhere, though it goes on with them."""

    async def story(head: Head) -> None:
        older = await head.connected()
        head.free.clear()
        newer = await head.dial()
        newer.greet()
        await until(lambda: len(head.asked) == 2)
        older.writer.close()
        await until(lambda: len(head.asked) == 3)
        assert [type(command) for command in head.asked[1:]] == [RegisterNode, NodeVanished]
        head.free.set()
        assert [await newer.receive(), await newer.receive()] == ["Welcome", ""]
        await head.connected()
        assert head.state is NodeState.READY

    play(tmp_path, monkeypatch, story)


def test_a_node_that_was_removed_while_it_greeted_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(head: Head) -> None:
        (await head.connected()).writer.close()
        await until(lambda: head.state is NodeState.UNREACHABLE)
        head.free.clear()
        connection = await head.dial()
        connection.greet()
        await until(lambda: len(head.asked) == 3)
        removing = asyncio.ensure_future(head.ask(ChangeNode(by=ROOT, node="red", action="remove")))
        await until(lambda: len(head.asked) == 4)
        head.free.set()
        assert [await connection.receive(), await connection.receive()] == ["Welcome", ""]
        await removing

    play(tmp_path, monkeypatch, story)


def test_a_node_that_greeted_while_the_disk_was_full_and_went_away_is_unreachable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its jobs would wait for it for ever, and others would be started there."""
    monkeypatch.setattr(report_queue, "TIMEOUT", 0.1)

    async def story(head: Head) -> None:
        first = await head.connected()
        head.disk.full = True
        first.writer.close()
        await until(lambda: not head.links.links)
        second = await head.dial()
        second.greet()
        assert await second.receive() == ""
        head.disk.full = False
        await until(lambda: any(isinstance(event, NodeReachable) for _, event in head.disk.replay()))
        await until(lambda: head.state is NodeState.UNREACHABLE)

    play(tmp_path, monkeypatch, story)


def test_a_node_is_unreachable_though_there_was_no_room_among_the_reports_to_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(head: Head) -> None:
        connection = await head.connected()
        monkeypatch.setattr(report_queue, "MAX_HELD", 0)
        connection.writer.close()
        await until(lambda: not head.links.links)
        await until(lambda: head.state is NodeState.UNREACHABLE)

    play(tmp_path, monkeypatch, story)
