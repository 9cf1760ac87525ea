"""An agent tells results before what follows from them."""

import asyncio

import pytest

from headnode.adapters.wire.agent_messages import AttemptResult, AttemptStart, JobClosed, Results, Started
from headnode.adapters.wire.messages import FromAgent
from headnode.apps.agent.results import LedgerEntry, ResultSender
from headnode.core.model.outcome import AttemptOutcome
from headnode.core.model.quantities import Instant, JobId


class Listener:
    """A connection to a head that keeps what is said."""

    def __init__(self) -> None:
        self.received: list[FromAgent] = []
        self._changed = asyncio.Event()

    def send(self, message: FromAgent) -> None:
        self.received.append(message)
        self._changed.set()

    async def hears(self, number: int) -> None:
        """Wait until so many messages were said."""
        async with asyncio.timeout(60.0):
            while len(self.received) < number:
                self._changed.clear()
                await self._changed.wait()


def test_the_start_of_a_child_does_not_overtake_the_result_of_its_parent() -> None:
    async def scene() -> list[FromAgent]:
        head = Listener()
        results = ResultSender(head)
        results.head_is_here()
        parent = AttemptResult(1, 1, 1, AttemptOutcome("exited", 0, started=Instant(1.0), ended=Instant(2.0)))
        results.take(JobId(7), LedgerEntry("marker", 1, parent))
        results.send(Started(job=JobId(7), started=(AttemptStart(2, 1, 1, Instant(3.0)),)))
        return head.received

    assert [type(message) for message in asyncio.run(scene())] == [Results, Started]


def test_that_a_job_is_closed_is_told_behind_its_results_and_with_them() -> None:
    async def scene() -> list[list[type[FromAgent]]]:
        head = Listener()
        results = ResultSender(head)
        results.head_is_here()
        end = AttemptResult(1, 1, 1, AttemptOutcome("exited", 0, started=Instant(1.0), ended=Instant(2.0)))
        results.closed(JobId(7), soon=True)
        results.take(JobId(8), LedgerEntry("marker", 1, end), LedgerEntry("marker", 1, end))
        received = [[type(message) for message in head.received]]
        results.send(Started(job=JobId(9), started=(AttemptStart(2, 1, 1, Instant(3.0)),)))
        received.append([type(message) for message in head.received])
        return received

    assert asyncio.run(scene()) == [[], [Results, JobClosed, Started]]


def test_what_leaves_a_job_idle_is_reported_at_once_and_with_all_that_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headnode.apps.agent.results.COALESCE", 3600.0)

    async def scene() -> list[JobId]:
        head = Listener()
        results = ResultSender(head)
        results.head_is_here()
        end = AttemptResult(1, 1, 1, AttemptOutcome("exited", 0, started=Instant(1.0), ended=Instant(2.0)))
        results.take(JobId(7), LedgerEntry("first", 1, end))
        await head.hears(1)
        results.closed(JobId(7), soon=False)
        results.take(JobId(8), LedgerEntry("second", 1, end), idle=False)
        results.take(JobId(9), LedgerEntry("third", 1, end))
        await head.hears(4)
        return [message.job for message in head.received if isinstance(message, Results | JobClosed)]

    assert asyncio.run(scene()) == [7, 8, 9, 7]


@pytest.mark.parametrize(
    ("soon", "waits", "expected"),
    [(True, "COALESCE", 0), (True, "CLOSED_AFTER", 1), (False, "CLOSED_AFTER", 0)],
)
def test_that_a_job_is_closed_is_told_soon_where_the_head_waits_for_it(
    monkeypatch: pytest.MonkeyPatch, waits: str, expected: int, *, soon: bool
) -> None:
    monkeypatch.setattr(f"headnode.apps.agent.results.{waits}", 3600.0)

    async def scene() -> int:
        head = Listener()
        results = ResultSender(head)
        results.head_is_here()
        results.closed(JobId(7), soon=soon)
        await asyncio.sleep(0)
        if expected:
            await head.hears(1)
        return len(head.received)

    assert asyncio.run(scene()) == expected
