"""A disk that is slow: submissions are read meanwhile, and nothing is shown or answered that is not on it."""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from test_local_socket import Peer, Scene, run
from test_pipelined_submissions import GOOD, WRONG

from headnode.adapters.clock import VirtualClock
from headnode.apps.server.command_batcher import SLOW_DISK
from headnode.core.model.errors import Unavailable
from headnode.core.model.quantities import JobId, Seconds
from headnode.core.state.events import Event
from headnode.engine.ports import EndedJob
from journal_model import ModelJournal

HELD = {**GOOD, "terms": {"hold": "true"}}
FULL = Unavailable(code="journal-full", what="the disk is full", fix="make room")


class SlowDisk(ModelJournal):
    """A journal whose disk waits for the test, if it is asked to by another thread than the loop's."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock, self._loop = clock, threading.get_ident()
        self.reached, self.go_on = threading.Event(), threading.Event()
        self.aside = 0  # batches that another thread wrote
        self.fails = False  # the next of these

    def append(
        self, events: Sequence[Event], ended: Iterable[EndedJob] = (), revived: Sequence[JobId] = ()
    ) -> int:
        self._clock.advance(Seconds(10 * SLOW_DISK))
        if threading.get_ident() != self._loop:
            self.aside += 1
            self.reached.set()
            assert self.go_on.wait(20)
            if self.fails:
                self.fails = False
                raise FULL
        return super().append(events, ended, revived)


Story = Callable[[Scene, SlowDisk, Peer], Awaitable[None]]


def play(tmp_path: Path, story: Story) -> None:
    """Play a story against a head whose disk has been slow, and whose two processors are taken."""

    async def on_slow_disk(scene: Scene) -> None:
        disk = SlowDisk(scene.clock)
        scene.engine.journal = disk
        async with scene.peer() as peer:
            for _ in range(2):
                await peer.done(**GOOD)
            await story(scene, disk, peer)
            disk.go_on.set()

    run(tmp_path, on_slow_disk)


async def being_written(disk: SlowDisk) -> None:
    """Return when a thread writes a batch."""
    assert await asyncio.to_thread(disk.reached.wait, 20)


def test_while_a_batch_is_written_others_are_read_and_none_is_answered(tmp_path: Path) -> None:
    async def story(scene: Scene, disk: SlowDisk, peer: Peer) -> None:
        async with scene.peer() as other, scene.peer() as third:
            peer.send(**HELD)
            await being_written(disk)
            other.send(**HELD)
            assert await third.refused(**WRONG) == "unknown-option"  # the loop goes on
            first, second = asyncio.create_task(peer.receive()), asyncio.create_task(other.receive())
            assert await third.refused(**WRONG) == "unknown-option"
            assert [first.done(), second.done()] == [False, False]
            disk.go_on.set()
            assert ((await first)["job"], (await second)["job"]) == (3, 4)

    play(tmp_path, story)


def test_what_looks_at_the_queue_waits_until_it_is_on_the_disk(tmp_path: Path) -> None:
    async def story(scene: Scene, disk: SlowDisk, peer: Peer) -> None:
        requests: list[dict[str, Any]] = [
            {"verb": "job", "job": 3},
            {"verb": "jobs"},
            {"verb": "watch_jobs", "job": 3},
            {"verb": "modify_job", "job": 3, "terms": {"jobname": "changed"}},
        ]
        async with contextlib.AsyncExitStack() as stack:
            others = [await stack.enter_async_context(scene.peer()) for _ in requests]
            peer.send(**HELD)
            await being_written(disk)
            for other, request in zip(others, requests, strict=True):
                other.send(**request)
            found = [asyncio.create_task(other.receive()) for other in others]
            async with scene.peer() as last:
                for _ in range(3):
                    assert await last.refused(**WRONG) == "unknown-option"
            assert not any(each.done() for each in found)
            disk.go_on.set()
            answer = [await each for each in found]
            assert [each["ok"] for each in answer] == [True] * len(requests), answer

    play(tmp_path, story)


def test_if_it_cannot_be_written_nothing_was_submitted_and_the_next_is(tmp_path: Path) -> None:
    async def story(scene: Scene, disk: SlowDisk, peer: Peer) -> None:
        async with scene.peer() as other:
            disk.fails = True
            peer.send(**HELD)
            await being_written(disk)
            other.send(verb="job", job=3)
            disk.go_on.set()
            assert (await peer.receive())["code"] == "journal-full"
            assert (await other.receive())["code"] == "no-such-job"
            assert (await peer.done(**HELD))["job"] == 3

    play(tmp_path, story)


@pytest.mark.parametrize("fails", [False, True])
def test_a_repeated_request_is_answered_when_it_is_known_what_became_of_the_first(
    tmp_path: Path, *, fails: bool
) -> None:
    async def story(scene: Scene, disk: SlowDisk, peer: Peer) -> None:
        async with scene.peer() as again, scene.peer() as third:
            once = {**HELD, "idempotency": "once"}
            disk.fails = fails
            peer.send(**once)
            await being_written(disk)
            again.send(**once)
            repeated = asyncio.create_task(again.receive())
            for _ in range(3):
                await third.refused(**WRONG)
            assert not repeated.done()
            disk.go_on.set()
            first, second = await peer.receive(), await repeated
            assert (first["ok"], first.get("code")) == (not fails, "journal-full" if fails else None)
            assert (second["job"], second.get("repeated")) == (3, None if fails else True)
            assert len(scene.engine.cluster.jobs) == 3

    play(tmp_path, story)


@pytest.mark.parametrize("snapshot", [1, 50_000])
def test_no_snapshot_has_what_is_not_on_the_disk(tmp_path: Path, snapshot: int) -> None:
    async def story(scene: Scene, disk: SlowDisk, peer: Peer) -> None:
        peer.send(**HELD)
        await being_written(disk)
        assert not scene.engine.snapshot_if_due(snapshot)
        disk.go_on.set()
        await peer.receive()
        assert scene.engine.snapshot_if_due(1)

    play(tmp_path, story)


def test_starts_and_ends_are_written_by_the_loop(tmp_path: Path) -> None:
    async def story(scene: Scene, disk: SlowDisk, peer: Peer) -> None:
        await scene.end(1)
        assert (await peer.done(**GOOD))["job"] in {held.job for held in scene.nodes.running()}
        assert disk.aside == 0

    play(tmp_path, story)


def test_on_a_fast_disk_no_thread_writes(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        disk = SlowDisk(VirtualClock(scene.clock.now()))  # its clock is not the head's
        scene.engine.journal = disk
        async with scene.peer() as peer:
            for _ in range(5):
                await peer.done(**HELD)
            assert disk.aside == 0

    run(tmp_path, story)


def test_a_start_waits_for_its_end_and_is_written_with_it(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            job = (await peer.done(**GOOD))["job"]
            (held,) = [held for held in scene.nodes.running() if held.job == job]
            before = sum(scene.engine.commits.counts)
            start = scene.batcher.ask(scene.nodes.started(held, scene.clock.now()))
            for _ in range(3):
                await asyncio.sleep(0)  # a turn of the loop, in which any other command would be carried out
            end = scene.batcher.ask(scene.nodes.ended(held, scene.clock.now()))
            await asyncio.gather(start, end)
            assert sum(scene.engine.commits.counts) - before == 1

    run(tmp_path, story)


def test_a_start_alone_is_written_soon(tmp_path: Path) -> None:
    async def story(scene: Scene) -> None:
        async with scene.peer() as peer:
            job = (await peer.done(**GOOD))["job"]
            (held,) = [held for held in scene.nodes.running() if held.job == job]
            assert await scene.batcher.ask(scene.nodes.started(held, scene.clock.now()))

    run(tmp_path, story)
