"""What a node says is held against the bounds, number by number, before anybody acts on it."""

import asyncio
import math
from typing import Any

import msgspec
import pytest

from headnode.adapters.wire.agent_messages import (
    PROTOCOL,
    AttemptResult,
    AttemptStart,
    Hello,
    Launch,
    LaunchData,
    LaunchesEnded,
    Message,
    OutputRead,
    ReportedAttempt,
    Results,
    Route,
    Started,
    Table,
)
from headnode.adapters.wire.message_checks import Nonsense, checked_results, read_message
from headnode.adapters.wire.messages import FromAgent
from headnode.apps.agent.results import LedgerEntry, ResultSender
from headnode.core.model import bounds as b
from headnode.core.model.node import NodeFacts
from headnode.core.model.outcome import AttemptOutcome, RemoteUsage, ResourceUsage
from headnode.core.model.quantities import Instant, JobId

NOW = 1_800_000_000.0


def received(message: Message) -> FromAgent:
    return read_message(msgspec.msgpack.encode(message), NOW)


def hello(facts: NodeFacts | None = None, **more: Any) -> Hello:
    return Hello(protocol=PROTOCOL, facts=facts or NodeFacts(name="n", processors=1), **more)


@pytest.mark.parametrize(
    "facts",
    [
        {"processors": b.PROCESSORS.most, "sockets": b.PROCESSORS.most},
        {
            "processors": b.PROCESSORS.most,
            "cores_per_socket": b.CORES.most,
            "threads_per_core": b.THREADS.most,
        },
        {"memory": b.MEMORY.most, "disk": b.MEMORY.most, "swap": b.MEMORY.most, "speed": b.SPEED.most},
        {"groups": ("g" * b.NAME.most,) * b.NODE_LIST.most},
        {"machine_processors": tuple(range(b.PROCESSORS.most))},
    ],
)
def test_a_machine_as_large_as_the_bounds_is_believed(facts: dict[str, Any]) -> None:
    assert received(hello(NodeFacts(**({"name": "n", "processors": 1} | facts))))


@pytest.mark.parametrize(
    "facts",
    [
        {"processors": 10**9},
        {"processors": b.PROCESSORS.most + 1},
        {"processors": 0},
        {"processors": -1},
        {"sockets": 2},
        {"sockets": 0},
        {"cores_per_socket": -1},
        {"cores_per_socket": 2},
        {"processors": 6, "sockets": 2, "cores_per_socket": 4},
        {"cores_per_socket": 2**62},
        {"threads_per_core": -1},
        {"threads_per_core": b.THREADS.most + 1},
        *({name: -1} for name in ("memory", "disk", "swap", "speed")),
        *({name: 2**62} for name in ("memory", "disk", "swap", "speed")),
        *({name: "x" * 300} for name in ("name", "architecture", "system", "boot_id", "only_user")),
        {"groups": ("g",) * 2000},
        {"features": ("g" * 300,)},
        {"enforced": ("memory",) * 2000},
        {"machine_processors": (1,) * (b.PROCESSORS.most + 1)},
        {"machine_processors": (-1,)},
        {"machine_processors": (2**63,)},
    ],
)
def test_a_machine_that_cannot_be_is_not_believed(facts: dict[str, Any]) -> None:
    with pytest.raises(Nonsense):
        received(hello(NodeFacts(**({"name": "n", "processors": 1} | facts))))


@pytest.mark.parametrize("at", [math.nan, math.inf, -1.0, NOW + 1e6, 1e300])
def test_a_time_that_cannot_be_is_not_believed(at: float) -> None:
    for message in (
        hello(live=(ReportedAttempt(JobId(1), 1, 1, 1, True, Instant(at)),)),
        Table(number=1, live=(ReportedAttempt(JobId(1), 1, 1, 1, True, Instant(at)),)),
        Started(job=JobId(1), started=(AttemptStart(1, 1, 1, Instant(at)),)),
    ):
        with pytest.raises(Nonsense):
            received(message)


def test_lists_that_are_too_long_are_not_read() -> None:
    live = (ReportedAttempt(JobId(1), 1, 1, 1, True),) * (b.ATTEMPTS.most + 1)
    results = (AttemptResult(1, 1, 1, AttemptOutcome("lost")),) * (b.RESULTS.most + 1)
    for message in (hello(live=live), hello(ended=live), Results(number=1, job=JobId(1), results=results)):
        with pytest.raises(Nonsense):
            received(message)


@pytest.mark.parametrize(
    "data", [b"\xc1", b"\x91" * 100_000, b"\xa1\xff", msgspec.msgpack.encode({"type": "Nobody"}), b""]
)
def test_what_is_no_message_is_refused_in_one_way(data: bytes) -> None:
    with pytest.raises(Nonsense):
        read_message(data, NOW)


USED = ResourceUsage(user_time=1e9, peak_memory=b.MEMORY_USED.most, bytes_read=b.BYTES_MOVED.most)
EXITED = AttemptOutcome("exited", -(2**31), started=Instant(0.0), ended=Instant(NOW), usage=USED)
GOOD = AttemptResult(1, 2, 3, EXITED)


def test_a_result_within_the_bounds_is_believed_and_its_sentence_cut() -> None:
    long = AttemptResult(1, 2, 3, EXITED._replace(message="x" * 10_000))
    found, problem = checked_results((GOOD, long), NOW)
    assert problem == ""
    assert found[0] is GOOD
    assert found[1] == AttemptResult(1, 2, 3, EXITED._replace(message="x" * b.WORDS.most))


@pytest.mark.parametrize(
    ("field", "amount"),
    [
        ("exit_code", 4611686018427387904),
        ("exit_code", 2**31),
        ("signal", 10**9),
        ("signal", 0),
        ("signal", 65),
        ("peak_memory", 8096 * 2**30),
        ("average_memory", -1),
        ("bytes_read", -1),
        ("bytes_written", 2**63),
        ("user_time", math.nan),
        ("system_time", math.inf),
        ("user_time", -1.0),
        ("started", math.nan),
        ("ended", 1e300),
        ("ended", -5.0),
    ],
)
def test_of_an_impossible_result_nothing_is_left_but_that_the_attempt_is_lost(
    field: str, amount: Any
) -> None:
    used = field in ResourceUsage._fields
    wrong = {"usage": USED._replace(**{field: amount})} if used else {field: amount}
    (other, lost), problem = checked_results((GOOD, AttemptResult(1, 2, 3, EXITED._replace(**wrong))), NOW)
    assert other is GOOD
    assert problem
    assert lost == AttemptResult(1, 2, 3, AttemptOutcome("lost", message=lost.outcome.message))
    assert problem in lost.outcome.message


ROUTE = Route(JobId(1), 1, 1, 1, "x", "first", "target")


@pytest.mark.parametrize(
    "message",
    [
        LaunchData(route=ROUTE, from_target=True, sequence=1, kind="exit", code=2**40),
        LaunchesEnded(route=ROUTE, from_target=True, usage=RemoteUsage(ResourceUsage(peak_memory=2**60))),
        LaunchesEnded(route=ROUTE, from_target=True, usage=RemoteUsage(ResourceUsage(user_time=math.nan))),
        Launch(route=ROUTE, command="x" * 200_000, directory="/", environment={}),
        OutputRead(number=1, data=b"", size=-1),
    ],
)
def test_what_one_node_says_for_another_is_held_against_the_bounds_too(message: Message) -> None:
    with pytest.raises(Nonsense):
        received(message)


def test_what_a_shepherd_reports_that_cannot_be_is_not_passed_on_to_the_head() -> None:
    async def story() -> None:
        results = ResultSender(object())
        lie = AttemptResult(1, 2, 3, EXITED._replace(usage=ResourceUsage(peak_memory=2**70)))
        results.take(JobId(1), LedgerEntry("marker", 1, lie))
        (batch,) = results.ledger.batches()
        assert [(one.outcome.kind, one.outcome.usage.peak_memory) for one in batch.results] == [("lost", 0)]

    asyncio.run(story())
