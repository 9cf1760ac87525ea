"""Both sides of a conversation over a wire that loses, repeats and turns messages around."""

import asyncio
import random

import pytest

from depth import seeds
from headnode.adapters.nodes.streams import REPEAT, WINDOW, LaunchStream
from headnode.adapters.wire.agent_messages import Launch, LaunchAck, LaunchData, Route
from headnode.adapters.wire.frame_codec import CHUNK
from headnode.adapters.wire.messages import Launching
from headnode.core.model.quantities import JobId

ROUTE = Route(JobId(1), 1, 1, 1, "7", "here", "there")


class Wire:
    """Two streams, and the messages between them that have not arrived."""

    def __init__(self) -> None:
        self.on_the_way: list[tuple[LaunchStream, Launching]] = []
        self.here = LaunchStream(
            lambda message: self.on_the_way.append((self.there, message)), ROUTE, back=False
        )
        self.there = LaunchStream(
            lambda message: self.on_the_way.append((self.here, message)), ROUTE, back=True
        )

    def deliver(self) -> None:
        """Let all arrive that is on the way, and what is said to that."""
        while self.on_the_way:
            stream, message = self.on_the_way.pop(0)
            if not isinstance(message, Launch):
                stream.receive(message)

    def muddle(self, chance: random.Random) -> None:
        """Lose some, repeat some, and let the rest arrive in any order."""
        ahead, self.on_the_way = self.on_the_way, []
        ahead = [each for each in ahead for _ in range(chance.choice((0, 1, 1, 2)))]
        chance.shuffle(ahead)
        for stream, message in ahead:
            stream.receive(message)


def play(story: "object") -> None:
    asyncio.run(story)


@pytest.mark.parametrize("seed", seeds(20))
def test_all_arrives_once_and_in_order_over_a_bad_wire(seed: int) -> None:
    async def story() -> None:
        wire, chance = Wire(), random.Random(seed)
        received: list[bytes] = []

        async def speak() -> None:
            for number in range(40):
                await wire.here.send("in", b"%d" % number)
            await wire.here.all_received()

        async def listen() -> None:
            while True:
                received.append((await wire.there.next()).data)
                wire.there.took()

        speaking, listening = asyncio.ensure_future(speak()), asyncio.ensure_future(listen())
        now = 0.0
        while not speaking.done():
            await asyncio.sleep(0)
            wire.muddle(chance)
            now += 1e6  # so that what is not taken is repeated at once
            wire.here.look(now)
        listening.cancel()
        assert received == [b"%d" % number for number in range(40)]

    play(story())


def test_nothing_is_said_to_a_node_that_may_not_have_heard_of_the_launch() -> None:
    """It would answer that it knows nothing of it, which ends the launch."""

    async def story() -> None:
        wire = Wire()
        launch = Launch(ROUTE, "hostname", "/", {})
        wire.here.launch(launch)
        saying = asyncio.ensure_future(wire.here.send("in-end"))
        await asyncio.sleep(0)
        assert wire.on_the_way == [(wire.there, launch)]
        wire.on_the_way.clear()  # it is lost
        wire.here.look(1e9)
        assert wire.on_the_way == [(wire.there, launch)]
        wire.here.receive(LaunchAck(ROUTE, True, 0))
        await saying
        assert wire.on_the_way[1:] == [(wire.there, LaunchData(ROUTE, False, 1, "in-end"))]

    play(story())


def test_a_slow_reader_holds_up_the_writer() -> None:
    async def story() -> None:
        wire = Wire()

        async def speak() -> None:
            for _ in range(3 * WINDOW):
                await wire.here.send("in", b"x")

        speaking = asyncio.ensure_future(speak())
        for taken in range(2 * WINDOW):
            for _ in range(5):
                await asyncio.sleep(0)
                wire.deliver()
            assert not speaking.done(), taken
            await wire.there.next()
            wire.there.took()
        for _ in range(5):
            await asyncio.sleep(0)
            wire.deliver()
        assert speaking.done()

    play(story())


def test_a_failure_reaches_a_reader_who_waits_and_lets_a_writer_go() -> None:
    async def story() -> None:
        wire = Wire()
        reading = asyncio.ensure_future(wire.here.next())
        writing = asyncio.ensure_future(wire.here.all_received())
        await asyncio.sleep(0)
        wire.here.receive(LaunchData(ROUTE, True, 0, "failed", b"it is gone"))
        piece = await reading
        await writing
        assert (piece.kind, piece.data) == ("failed", b"it is gone")

    play(story())


def test_a_peer_that_floods_or_sends_too_much_at_once_is_not_believed() -> None:
    async def story() -> None:
        wire = Wire()
        wire.here.receive(LaunchData(ROUTE, True, 1, "out", bytes(3 * CHUNK)))
        for number in range(1, 100):
            wire.here.receive(LaunchData(ROUTE, True, number, "out", b"x"))
        read = 0
        while True:
            try:
                async with asyncio.timeout(0):
                    assert (await wire.here.next()).data == b"x"
            except TimeoutError:
                break
            read += 1
        assert read == WINDOW + 1

    play(story())


def test_silence_is_broken_to_show_that_this_side_lives() -> None:
    async def story() -> None:
        wire = Wire()
        now = asyncio.get_running_loop().time()
        wire.here.look(now + REPEAT)
        assert wire.on_the_way == []
        wire.here.look(now + 60)
        assert [type(message) for _, message in wire.on_the_way] == [LaunchAck]

    play(story())
