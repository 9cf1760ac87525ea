"""Nodes of other machines are told of standby heads, also while they are connected; those of before not."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
from msgspec.structs import replace

from headnode.adapters.clock import WallClock
from headnode.adapters.journal.memory import MemoryJournal
from headnode.adapters.nodes.links import NodeLinks
from headnode.adapters.wire.agent_messages import MAX_MESSAGE, OLDEST, PROTOCOL, Hello
from headnode.adapters.wire.frame_codec import frame
from headnode.adapters.wire.frames import quiet_at_the_end, read_frame
from headnode.adapters.wire.messages import FromHead, Welcome
from headnode.apps.server.command_batcher import CommandBatcher
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import Instant, Seconds
from headnode.core.model.user import User
from headnode.core.scheduling.policies import POLICIES
from headnode.core.state.join import AdmitNode, InviteNode
from headnode.engine.engine import Engine

ROOT = User(name="root", uid=0, gid=0, administrator=True)
TIMEOUT = 20.0  # seconds
_decoder = msgspec.msgpack.Decoder(FromHead)


class Head:
    """The part of a head that has to do with its nodes; the first line of a connection names the node."""

    def __init__(self) -> None:
        self.engine = Engine(MemoryJournal(), WallClock(), dict(POLICIES), self)
        self.batcher = CommandBatcher(self.engine, lambda: None)
        self.standbys: tuple[str, ...] = ("b:1",)
        self.links = NodeLinks(self.batcher.tell, self._welcome, lambda: self.engine.cluster)

    def _welcome(self) -> Welcome:
        return Welcome("c", Seconds(60.0), Seconds(1.0), "/state", host="h", heads=self.standbys, term=4)

    def perform(self, events: object, cluster: object) -> None:
        return

    async def admit(self, name: str) -> None:
        digest, facts = f"digest of {name}", NodeFacts(name=name, processors=1)
        invitation = InviteNode(
            by=ROOT, digest=digest, expires=Instant(self.engine.clock.now() + 60), approve=True, node=name
        )
        await self.batcher.ask(invitation)
        await self.batcher.ask(AdmitNode(digest=digest, facts=facts, key=f"key of {name}"))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name = (await reader.readline()).decode().strip()
        if name == "local":
            await self.links.serve(reader, writer)
        else:
            await self.links.serve_peer(reader, writer, name, f"key of {name}")


class Connection:
    """A connection of an agent to the head."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer

    def greet(self, name: str, protocol: int) -> None:
        hello = Hello(protocol=protocol, facts=NodeFacts(name=name, processors=1))
        self.writer.write(f"{name}\n".encode() + frame(msgspec.msgpack.encode(hello)))

    async def rest(self) -> bytes:
        return await self._reader.read()

    async def welcome(self) -> tuple[dict[str, object], Welcome]:
        """Return the next welcome, as it is on the wire and as an agent reads it."""
        while True:
            data = await read_frame(self._reader, MAX_MESSAGE)
            assert data is not None
            message = _decoder.decode(data)
            if isinstance(message, Welcome):
                return msgspec.msgpack.decode(data), message


Connect = Callable[..., Awaitable[Connection]]


def play(tmp_path: Path, story: Callable[[Head, Connect], Awaitable[None]]) -> None:
    async def scene() -> None:
        head, connections = Head(), []
        server = await asyncio.start_unix_server(quiet_at_the_end(head.serve), tmp_path / "socket")

        async def connected(name: str, protocol: int = PROTOCOL) -> Connection:
            if name != "local":
                await head.admit(name)
            connections.append(Connection(*await asyncio.open_unix_connection(tmp_path / "socket")))
            connections[-1].greet(name, protocol)
            return connections[-1]

        try:
            async with asyncio.timeout(TIMEOUT):
                await story(head, connected)
        finally:
            server.close()
            for connection in connections:
                connection.writer.close()
            await asyncio.sleep(0)

    asyncio.run(scene())


def test_a_node_is_reported_where_its_head_may_be_and_told_again_when_that_changes(tmp_path: Path) -> None:
    async def story(head: Head, connected: Connect) -> None:
        node = await connected("red")
        _, first = await node.welcome()
        assert (first.heads, first.term, first.remote, first.state_directory) == (("b:1",), 4, True, "")
        head.standbys = ("c:1", "d:2")
        head.links.welcome_again()
        _, second = await node.welcome()
        assert second == replace(first, heads=("c:1", "d:2"), now=second.now)
        assert second.now >= first.now > 0

    play(tmp_path, story)


def test_nodes_of_before_and_of_the_heads_machine_are_not_told_again(tmp_path: Path) -> None:
    """One of before does not know the fields: it would understand no welcome, and never be a node again."""

    async def story(head: Head, connected: Connect) -> None:
        old, local, new = await connected("old", OLDEST), await connected("local"), await connected("new")
        found, _ = await old.welcome()
        assert not {"heads", "term"} & found.keys()
        await local.welcome()
        await new.welcome()
        head.links.welcome_again()
        await new.welcome()
        for name, each in (("old", old), ("local", local)):
            head.links.links[name].close()
            assert b"Welcome" not in await each.rest()

    play(tmp_path, story)
