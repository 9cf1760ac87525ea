"""The output of ended jobs is removed on all nodes, whatever one of them says of the output that it has."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest

from headnode.adapters.clock import VirtualClock
from headnode.adapters.journal.sqlite import SqliteJournal
from headnode.adapters.nodes.link import NodeLink
from headnode.adapters.wire.agent_messages import OutputListed
from headnode.adapters.wire.frames import read_frame
from headnode.adapters.wire.messages import FromHead, ListOutput
from headnode.apps.server.job_lookup import JobLookup
from headnode.apps.server.retention import JOBS_AT_ONCE, OutputRetention
from headnode.core.model.quantities import Instant
from headnode.core.model.user import User
from headnode.core.scheduling.policies import POLICIES
from headnode.core.state.nodes import SetParameter, SkipNumbers
from headnode.engine.engine import Engine
from testbed.in_process import InProcessNodes

ROOT = User(name="root", uid=0, gid=0, administrator=True)
LARGEST = 2**64 - 1


class Node:
    """A node with some output, as it says."""

    def __init__(self, name: str, jobs: Callable[[ListOutput], Sequence[int]]) -> None:
        self.name, self._jobs = name, jobs
        self.asked = 0

    async def serve(self) -> NodeLink:
        """Return the head's connection to it, and answer what is asked there."""
        ours, other = socket.socketpair()
        _, writer = await asyncio.open_connection(sock=ours)
        reader, self._writer = await asyncio.open_connection(sock=other)
        self.link = NodeLink(self.name, writer)
        self._answering = asyncio.create_task(self._answer(reader))
        return self.link

    async def _answer(self, reader: asyncio.StreamReader) -> None:
        while (data := await read_frame(reader, 1 << 20)) is not None:
            message = msgspec.msgpack.decode(data, type=FromHead)
            if isinstance(message, ListOutput):
                self.asked += 1
                found = OutputListed(number=message.number, jobs=tuple(self._jobs(message)))
                self.link.answered(message.number, found)

    def close(self) -> None:
        self.link.abort()
        self._writer.close()


@pytest.mark.parametrize(
    "jobs",
    [
        lambda _: (7,),
        lambda _: (LARGEST,),
        lambda asked: range(asked.after + 1, asked.after + 1 + JOBS_AT_ONCE),
        lambda _: range(1, 3 * JOBS_AT_ONCE),
        lambda asked: [asked.after] * JOBS_AT_ONCE,
    ],
)
def test_a_node_that_lists_output_without_end_or_of_impossible_jobs_keeps_no_other_from_its_turn(
    tmp_path: Path, jobs: Callable[[ListOutput], Sequence[int]]
) -> None:
    async def go_round() -> None:
        journal = SqliteJournal(tmp_path / "journal.db")
        engine = Engine(journal, VirtualClock(Instant(1e6)), dict(POLICIES), InProcessNodes())
        days = SetParameter(by=ROOT, name="TTLCompletedJobs", value="1")
        engine.handle([days, SkipNumbers(by=ROOT, count=4 * JOBS_AT_ONCE)])
        liar, honest = Node("liar", jobs), Node("honest", lambda _: ())
        links = {each.name: await each.serve() for each in (liar, honest)}
        keeping = asyncio.create_task(OutputRetention(engine, JobLookup(engine, journal), links).keep())
        try:
            async with asyncio.timeout(5):
                while not honest.asked:
                    await asyncio.sleep(0)
            assert not keeping.done()
            assert liar.asked <= 5
        finally:
            keeping.cancel()
            for each in (liar, honest):
                each.close()
            await asyncio.sleep(0)
            journal.close()

    asyncio.run(go_round())
