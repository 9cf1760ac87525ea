"""What a node that lies, floods or dawdles can do to the head and to others: nothing but lose its connection.

That an invitation works once, a name belongs to a key, and strangers are heard out for a moment only is in
`test_joining`.
"""

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from joined_nodes import JoinedNode, invite, wait_for_state

from headnode.adapters.nodes.membership import NodeIdentity, read_invitation
from headnode.adapters.wire import agent_messages as m
from headnode.adapters.wire.frame_codec import frame
from headnode.adapters.wire.frames import read_frame
from headnode.core.model.node import NodeFacts
from headnode.core.model.outcome import AttemptOutcome, ResourceUsage
from headnode.core.model.quantities import Instant, JobId
from heads import TIMEOUT, RealHead, real_head
from testbed.processes import free_address

MAX_GROWTH = 60.0  # MB of the head's memory that bad connections may cost in all

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
def head(tmp_path: Path) -> Iterator[RealHead]:
    with real_head(tmp_path, nodes=0, listen=free_address()) as found:
        yield found


@pytest.fixture
def node(head: RealHead, tmp_path: Path) -> Iterator[JoinedNode]:
    """An honest node."""
    made = JoinedNode(tmp_path / "nodes", "honest")
    assert made.join(invite(head, approve=True)).returncode == 0
    made.start()
    wait_for_state(head, "honest", "Ready")
    yield made
    made.stop()


class Liar:
    """A node that has joined, and says what the test wants."""

    def __init__(self, head: RealHead, directory: Path, *, approve: bool = True, name: str = "liar") -> None:
        self._identity, self.name = NodeIdentity(directory / name), name
        self.facts = NodeFacts(name=name, processors=1, boot_id="b")
        invitation = invite(head, approve=approve)
        asyncio.run(self._identity.join(read_invitation(invitation), self.facts))

    def hello(self, **more: object) -> m.Hello:
        return m.Hello(protocol=m.PROTOCOL, facts=self.facts, **more)

    @contextlib.asynccontextmanager
    async def connected(self) -> AsyncIterator[Streams]:
        reader, writer = await self._identity.dial()
        try:
            yield reader, writer
        finally:
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def says(
        self,
        *messages: m.Message,
        until: str = "HeartbeatAck",
        then: Callable[[Streams], Awaitable[None]] | None = None,
    ) -> list[str]:
        """Say hello, these, and a heartbeat; return the kinds of what the head says, up to one kind."""

        async def talk() -> list[str]:
            async with self.connected() as streams:
                for message in (self.hello(), *messages, m.Heartbeat(number=99)):
                    streams[1].write(frame(msgspec.msgpack.encode(message)))
                received = [kind async for kind in _kinds(streams[0], until=until)]
                if then is not None:
                    await then(streams)
                return received

        return asyncio.run(asyncio.wait_for(talk(), TIMEOUT))


async def _kinds(reader: asyncio.StreamReader, until: str = "") -> AsyncIterator[str]:
    while (data := await read_frame(reader, m.MAX_MESSAGE)) is not None:
        kind = msgspec.msgpack.decode(data)["type"]
        yield kind
        if kind == until:
            return


def memory(head: RealHead) -> float:
    """Return the head's resident memory in MB."""
    status = Path(f"/proc/{head.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def lasting(head: RealHead, tmp_path: Path) -> int:
    job = head.submit(f"while [ ! -e {tmp_path}/end ]; do sleep 0.05; done; echo done", rerunnable="false")
    head.wait_for(job, "Running")
    return job


def test_a_node_that_is_not_approved_gets_a_welcome_and_nothing_else(head: RealHead, tmp_path: Path) -> None:
    head.ask("set_parameters", values={"HealthCheckProgram": "/bin/true"})
    stranger = Liar(head, tmp_path, approve=False)
    job = head.submit("true")
    route = m.Route(JobId(job), 1, 1, 1, "x", "liar", "liar")
    received = stranger.says(m.Launch(route=route, command="true", directory="/", environment={}))
    assert received == ["Welcome", "LaunchData", "HeartbeatAck"]
    assert head.ask("job", job=job)["job"]["state"] == "Queued"


def test_what_a_node_says_of_the_tasks_of_another_changes_nothing(
    head: RealHead, node: JoinedNode, tmp_path: Path
) -> None:
    job = JobId(lasting(head, tmp_path))
    liar = Liar(head, tmp_path)
    before = head.task(job)
    lies = (
        m.Started(job=job, started=(m.AttemptStart(1, 1, 1, Instant(1.0)),)),
        m.Suspended(job=job, number=1),
        m.Health(healthy=False, message="I am somebody else"),
        m.Launch(
            route=m.Route(job, 1, 1, 1, "x", "honest", "liar"), command="true", directory="/", environment={}
        ),
        m.LaunchData(
            route=m.Route(job, 1, 1, 1, "x", "liar", "honest"),
            from_target=False,
            sequence=1,
            kind="in",
            data=b"x",
        ),
        *(m.OutputRead(number=number, data=b"lies", size=4) for number in range(1, 20)),
        m.Results(number=1, job=job, results=(m.AttemptResult(1, 1, 1, AttemptOutcome("exited", 0)),)),
    )
    assert liar.says(*lies, until="ResultsAck")[-1] == "ResultsAck"
    after = head.task(job)
    assert (after["state"], after["started"], after["attempt"]) == ("Running", before["started"], 1)
    assert wait_for_state(head, "honest", "Ready")
    (tmp_path / "end").touch()
    assert head.wait(job)["state"] == "Finished"
    assert base64.b64decode(head.ask("read_output", job=job, task=1)["data"]) == b"done\n"


def test_a_table_that_claims_the_tasks_of_another_is_told_to_stop_them_and_changes_nothing(
    head: RealHead, node: JoinedNode, tmp_path: Path
) -> None:
    job = JobId(lasting(head, tmp_path))
    liar = Liar(head, tmp_path)

    async def claim() -> list[str]:
        async with liar.connected() as (reader, writer):
            claims = (m.ReportedAttempt(job, 1, 1, 1, True, Instant(1.0)),)
            writer.write(frame(msgspec.msgpack.encode(liar.hello(live=claims, open_jobs=(job,)))))
            writer.write(frame(msgspec.msgpack.encode(m.Heartbeat(number=1))))
            return [kind async for kind in _kinds(reader, until="HeartbeatAck")]

    assert asyncio.run(asyncio.wait_for(claim(), TIMEOUT)) == ["Welcome", "CloseJob", "Stop", "HeartbeatAck"]
    assert head.task(job)["state"] == "Running"
    (tmp_path / "end").touch()
    assert head.wait(job)["state"] == "Finished"


@pytest.mark.parametrize(
    ("bad", "answers"),
    [
        ((m.MAX_REPORT + 1).to_bytes(4, "big"), []),
        ((2**32 - 1).to_bytes(4, "big"), []),
        (frame(b"\xc1"), ["NotUnderstood"]),
        (frame(msgspec.msgpack.encode({"type": "Nobody"})), ["NotUnderstood"]),
        (frame(msgspec.msgpack.encode({"type": "Health", "well": True, "teleported": 1})), ["NotUnderstood"]),
        (frame(msgspec.msgpack.encode({"type": "Results", "number": "one"})), ["NotUnderstood"]),
        (frame(msgspec.msgpack.encode([1, 2, 3])), ["NotUnderstood"]),
        (frame(b"\x91" * 100_000), ["NotUnderstood"]),
    ],
    ids=["too large", "largest", "no msgpack", "no message", "no field", "no number", "no map", "deep"],
)
def test_what_cannot_be_read_costs_its_connection_only(
    head: RealHead, node: JoinedNode, tmp_path: Path, bad: bytes, answers: list[str]
) -> None:
    liar = Liar(head, tmp_path)

    async def send_bad(streams: Streams) -> None:
        streams[1].write(bad)
        assert [kind async for kind in _kinds(streams[0])] == answers

    before = memory(head)
    liar.says(then=send_bad)
    wait_for_state(head, "liar", "Unreachable")
    assert head.wait(head.submit("true"))["state"] == "Finished"
    assert memory(head) - before < MAX_GROWTH


def test_many_connections_that_never_say_hello_take_the_place_of_one(
    head: RealHead, node: JoinedNode, tmp_path: Path
) -> None:
    """Each promises a message of as many bytes as a node may say, and sends most of it."""
    liar = Liar(head, tmp_path, approve=False)
    known = Liar(head, tmp_path, name="known")

    async def dawdle(who: Liar, size: int) -> int:
        async with contextlib.AsyncExitStack() as stack:
            made = [await stack.enter_async_context(who.connected()) for _ in range(20)]
            for _, writer in made:
                writer.write(size.to_bytes(4, "big") + bytes(size - 1))
                with contextlib.suppress(OSError):
                    await asyncio.wait_for(writer.drain(), 5)
            ended = [asyncio.ensure_future(reader.read()) for reader, _ in made]
            return await hung_up_on(ended, len(made) - 1)

    async def hung_up_on(ended: list[asyncio.Task[bytes]], most: int) -> int:
        left = set(ended)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TIMEOUT):
                while len(ended) - len(left) < most:
                    _, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
        over = [task for task in ended if task.done()]
        await asyncio.gather(*over, return_exceptions=True)  # some are reset
        return len(over)

    before = memory(head)
    assert asyncio.run(dawdle(liar, m.MAX_GREETING)) >= 19
    assert asyncio.run(dawdle(known, m.MAX_REPORT)) >= 19
    assert memory(head) - before < MAX_GROWTH
    assert head.wait(head.submit("true"))["state"] == "Finished"


def test_a_pending_node_may_not_say_much_before_it_is_let_in(head: RealHead, tmp_path: Path) -> None:
    stranger = Liar(head, tmp_path, approve=False)

    async def shout() -> bytes:
        async with stranger.connected() as (reader, writer):
            writer.write((m.MAX_GREETING + 1).to_bytes(4, "big"))
            return await reader.read()

    assert asyncio.run(asyncio.wait_for(shout(), TIMEOUT)) == b""


def test_a_message_that_never_ends_is_hung_up_on_with_the_silent(
    head: RealHead, node: JoinedNode, tmp_path: Path
) -> None:
    head.ask("set_parameters", values={"HeartbeatInterval": "1", "InactivityCount": "2"})
    liar = Liar(head, tmp_path)

    async def drip(streams: Streams) -> None:
        streams[1].write((1000).to_bytes(4, "big"))
        ended = asyncio.ensure_future(streams[0].read())
        while not ended.done():
            with contextlib.suppress(OSError):
                streams[1].write(b"\0")
            await asyncio.wait((ended,), timeout=0.2)

    liar.says(then=drip)
    wait_for_state(head, "liar", "Unreachable")
    assert wait_for_state(head, "honest", "Ready")


def test_a_node_that_was_removed_is_hung_up_on_even_if_it_stays(head: RealHead, tmp_path: Path) -> None:
    liar = Liar(head, tmp_path)

    async def stay(streams: Streams) -> None:
        await asyncio.to_thread(head.ask, "remove_node", node="liar")
        assert [kind async for kind in _kinds(streams[0])] == ["Goodbye"]

    liar.says(then=stay)
    assert liar.name not in {each["name"] for each in head.ask("nodes")["nodes"]}


def test_a_machine_that_says_it_has_impossible_numbers_of_processors_costs_its_connection_only(
    head: RealHead, node: JoinedNode, tmp_path: Path
) -> None:
    liar = Liar(head, tmp_path)
    honest, before = liar.facts, memory(head)
    liar.facts = msgspec.structs.replace(honest, processors=10**9)
    assert liar.says(until="Goodbye") == ["Goodbye"]
    assert memory(head) - before < MAX_GROWTH
    drains = head.ask("node", node="liar")["node"]["drains"]
    assert [drain["cause"] for drain in drains] == ["bad-report"]
    assert "1e+09" in drains[0]["reason"]
    assert head.wait(head.submit("true"))["state"] == "Finished"


def test_impossible_results_are_shown_nowhere_and_drain_the_node(head: RealHead, tmp_path: Path) -> None:
    liar = Liar(head, tmp_path)
    job = JobId(head.submit("true", rerunnable="false"))

    async def lie() -> None:
        async with liar.connected() as (reader, writer):
            writer.write(frame(msgspec.msgpack.encode(liar.hello())))
            async for kind in _kinds(reader):
                if kind == "Run":
                    break
            result = m.AttemptResult(
                1, 1, 1, AttemptOutcome("exited", 2**62, usage=ResourceUsage(peak_memory=2**63 - 1))
            )
            writer.write(frame(msgspec.msgpack.encode(m.Results(number=1, job=job, results=(result,)))))
            assert [kind async for kind in _kinds(reader, until="ResultsAck")][-1] == "ResultsAck"

    asyncio.run(asyncio.wait_for(lie(), TIMEOUT))
    task = head.task(job)
    assert (task["exit_code"], task["peak_memory"]) in ((None, 0), (None, None))
    assert "invalid report" in task["message"]
    assert head.ask("job", job=job)["job"]["state"] == "Failed"
    drain = head.ask("node", node="liar")["node"]["drains"][0]
    assert drain["cause"] == "bad-report"
    assert "exit code" in drain["reason"]
