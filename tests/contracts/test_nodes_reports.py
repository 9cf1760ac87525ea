"""Reports of nodes while the journal cannot write: held, tried together, and recorded in their order."""

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from headnode.adapters.nodes import report_queue as tried
from headnode.adapters.nodes.report_queue import ReportQueue
from headnode.core.model.errors import NotFound, Unavailable
from headnode.core.model.quantities import JobId
from headnode.core.state.command import Command
from headnode.core.state.hooks import ReportReady
from headnode.core.state.node_loss import GiveUpNode

FULL = Unavailable(code="journal-full", what="there is no room")


class Disk:
    """Where commands are recorded, as long as there is room."""

    def __init__(self) -> None:
        self.full = False
        self.recorded: list[Command] = []
        self.tries = 0  # turns of the loop in which something was tried
        self._trying = self._fails = False  # what is tried in one turn fails together

    def tell(self, command: Command, answered: Callable[[object], None]) -> None:
        if not self._trying:
            self._trying, self._fails, self.tries = True, self.full, self.tries + 1
            asyncio.get_running_loop().call_soon(self._over)
        asyncio.get_running_loop().call_soon(answered, self._answer(command))

    def _answer(self, command: Command) -> object:
        if self._fails:
            return FULL
        if isinstance(command, GiveUpNode):
            return NotFound(code="no-such-node", what="no")
        self.recorded.append(command)
        return ()

    def _over(self) -> None:
        self._trying = False


def played(
    scene: Callable[[Disk, ReportQueue], Coroutine[None, None, None]], monkeypatch: pytest.MonkeyPatch
) -> Disk:
    monkeypatch.setattr(tried, "AGAIN", 0.01)
    disk = Disk()

    async def play() -> None:
        await asyncio.wait_for(scene(disk, ReportQueue(disk.tell)), 10)

    asyncio.run(play())
    return disk


def ready(job: int) -> ReportReady:
    return ReportReady(node="node1", job=JobId(job))


async def until(happened: Callable[[], object]) -> None:
    while not happened():
        await asyncio.sleep(0)


def test_what_was_reported_on_a_full_disk_is_recorded_in_its_order_once_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scene(disk: Disk, reports: ReportQueue) -> None:
        received: list[BaseException | None] = []
        disk.full = True
        for job in range(1, 101):
            reports.give(ready(job), received.append, ready(job))
        await until(lambda: disk.tries > 3)
        for job in range(50, 151):  # a node says again what is not acknowledged
            reports.give(ready(job), received.append, ready(job))
        assert received == []
        tries, disk.full = disk.tries, False
        await until(lambda: len(received) == 150)
        assert received == [None] * 150
        assert disk.tries <= tries + 2  # all that waited is one try

    disk = played(scene, monkeypatch)
    assert disk.recorded == [ready(job) for job in range(1, 151)]


def test_what_is_refused_is_reported_at_once_and_holds_up_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(disk: Disk, reports: ReportQueue) -> None:
        received: list[BaseException | None] = []
        reports.give(GiveUpNode(node="node1"), received.append)
        reports.give(ready(1), received.append)
        await until(lambda: len(received) == 2)
        assert isinstance(received[0], NotFound)
        assert received[1] is None

    played(scene, monkeypatch)


def test_who_waits_for_a_record_hears_after_a_while_that_there_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tried, "TIMEOUT", 0.05)

    async def scene(disk: Disk, reports: ReportQueue) -> None:
        disk.full = True
        with pytest.raises(Unavailable, match="could not write"):
            await reports.recorded(ready(1))
        disk.full = False
        await reports.recorded(ready(2))

    assert played(scene, monkeypatch).recorded == [ready(1), ready(2)]


def test_no_more_than_so_many_reports_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tried, "MAX_HELD", 10)

    async def scene(disk: Disk, reports: ReportQueue) -> None:
        received: list[BaseException | None] = []
        disk.full = True
        reports.give(ready(1), received.append)
        await until(lambda: disk.tries)
        await asyncio.sleep(0)
        for job in range(2, 1000):
            reports.give(ready(job), received.append)
        disk.full = False
        await until(lambda: len(received) == 10)

    assert len(played(scene, monkeypatch).recorded) == 10
