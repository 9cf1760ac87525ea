"""A cluster of mixed ages: an agent of before, spoken by hand, with the head of today."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from headnode.adapters.wire.agent_messages import (
    LARGEST_MESSAGE,
    PROTOCOL,
    AttemptResult,
    Heartbeat,
    HookFailed,
    JobClosed,
    Message,
    Results,
)
from headnode.adapters.wire.frame_codec import frame
from headnode.adapters.wire.frames import read_frame
from headnode.adapters.wire.messages import (
    SINCE,
    CloseJob,
    FromHead,
    Goodbye,
    HeartbeatAck,
    OpenJob,
    ResultsAck,
    Run,
    Welcome,
)
from headnode.core.model.errors import HeadnodeError
from headnode.core.model.node import NodeFacts
from headnode.core.model.outcome import AttemptOutcome
from headnode.core.model.quantities import JobId
from heads import PATIENCE, RealHead, real_head

REASON = "its agent is older than the hooks of this cluster and runs none: update Headnode there"
_decoder = msgspec.msgpack.Decoder(FromHead)


@pytest.fixture
def head(tmp_path: Path) -> Iterator[RealHead]:
    with real_head(tmp_path, nodes=0) as head:
        yield head


class OldAgent:
    """Says the number of before, and hears what the head says."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.heard: list[str] = []

    def say(self, message: Message) -> None:
        self._writer.write(frame(msgspec.msgpack.encode(message)))

    def hello(self, protocol: int) -> None:
        """Say hello as then: these facts had no word of hooks."""
        facts = msgspec.to_builtins(NodeFacts(name="old", processors=1, boot_id="b"))
        del facts["hooks"]
        said = {"type": "Hello", "protocol": protocol, "facts": facts}
        self._writer.write(frame(msgspec.msgpack.encode(said)))

    async def has_run(self, job: int) -> None:
        """Say that the only task of a job has ended well."""
        result = AttemptResult(1, 1, 1, AttemptOutcome("exited", 0))
        self.say(Results(number=job, job=JobId(job), results=(result,)))
        await self.until(ResultsAck)

    async def until(self, kind: type[Message]) -> FromHead:
        """Return the first message of a kind; all that comes is noted."""
        while (data := await read_frame(self._reader, LARGEST_MESSAGE)) is not None:
            message = _decoder.decode(data)
            self.heard.append(type(message).__name__)
            if isinstance(message, kind):
                return message
        raise AssertionError(f"the head hung up before it said {kind.__name__}: {self.heard}")


def play(head: RealHead, talk: Callable[[OldAgent], Awaitable[None]], protocol: int = 1) -> None:
    """Let an agent of before connect, say hello, and talk."""

    async def connected() -> None:
        reader, writer = await asyncio.open_unix_connection(str(head.state / "nodes.sock"))
        try:
            agent = OldAgent(reader, writer)
            agent.hello(protocol)
            await talk(agent)
        finally:
            writer.close()

    asyncio.run(asyncio.wait_for(connected(), PATIENCE))


async def ask(head: RealHead, question: str, **fields: object) -> dict[str, object]:
    return await asyncio.to_thread(head.ask, question, **fields)


def test_an_old_agent_runs_jobs_until_the_site_has_hooks_and_explain_says_why_it_gets_no_more(
    head: RealHead,
) -> None:
    async def talk(agent: OldAgent) -> None:
        await agent.until(Welcome)
        first = await asyncio.to_thread(head.submit, "x")
        await agent.until(Run)
        await agent.has_run(first)
        await ask(head, "set_parameters", values={"PrologProgram": "/bin/true"})
        second = await asyncio.to_thread(head.submit, "x")
        view = await ask(head, "node", node="old")
        (drain,) = view["node"]["drains"]  # type: ignore[index]
        assert (view["node"]["state"], drain["cause"], drain["reason"]) == ("Drained", "agent", REASON)  # type: ignore[index]
        assert REASON in str(await ask(head, "explain_job", job=second))
        await ask(head, "set_parameters", values={"PrologProgram": None})
        run = await agent.until(Run)
        assert isinstance(run, Run)
        assert run.job == second
        await agent.has_run(second)

    play(head, talk)


def test_a_job_does_not_wait_for_a_prolog_on_a_node_that_went_back_to_an_older_version(
    head: RealHead,
) -> None:
    head.ask("set_parameters", values={"PrologProgram": "/bin/true"})

    async def today(agent: OldAgent) -> None:
        await agent.until(Welcome)
        await asyncio.to_thread(head.submit, "x")
        await agent.until(OpenJob)

    async def before(agent: OldAgent) -> None:
        await agent.until(Welcome)
        assert (await ask(head, "jobs"))["jobs"][0]["state"] == "Running"  # type: ignore[index]
        agent.say(Heartbeat(number=1))
        closed = await agent.until(CloseJob)
        assert isinstance(closed, CloseJob)
        agent.say(JobClosed(job=closed.job))
        await asyncio.to_thread(head.wait_for, closed.job, "Queued")
        await ask(head, "cancel_job", job=closed.job)

    play(head, today, PROTOCOL)
    play(head, before)


def test_an_old_agent_hears_nothing_that_it_does_not_know(head: RealHead) -> None:
    async def talk(agent: OldAgent) -> None:
        await agent.until(Welcome)
        await ask(head, "set_parameters", values={"TTLCompletedJobs": "1"})  # nodes are asked for old output
        job = await asyncio.to_thread(head.submit, "x", stdout="/tmp/own")
        await agent.until(Run)
        await agent.has_run(job)
        with pytest.raises(HeadnodeError, match="the agent of node 'old' is too old to read '/tmp/own'"):
            await ask(head, "read_output", job=job, task=1, stream="standard_output")
        agent.say(HookFailed(job=JobId(1), hook="epilog", message="x"))
        agent.say(Heartbeat(number=7))
        await agent.until(HeartbeatAck)
        agent.say(Heartbeat(number=8))
        await agent.until(HeartbeatAck)
        unknown = {kind.__name__ for kind in SINCE}
        assert unknown.isdisjoint(agent.heard)

    play(head, talk)


@pytest.mark.parametrize(("protocol", "advice"), [(0, "on this node"), (99, "on the head node first")])
def test_who_speaks_another_protocol_is_sent_away_and_told_what_to_update(
    head: RealHead, protocol: int, advice: str
) -> None:
    async def talk(agent: OldAgent) -> None:
        goodbye = await agent.until(Goodbye)
        assert isinstance(goodbye, Goodbye)
        assert goodbye.reason.endswith(f"update Headnode {advice}")

    play(head, talk, protocol)
