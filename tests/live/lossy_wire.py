"""A wire between an agent and its head that loses messages, says them twice, or says them late."""

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

from headnode.adapters.wire.frame_codec import frame
from headnode.adapters.wire.frames import read_frame

LARGEST = 64 * 1024 * 1024
LATE = (0.05, 1.5)  # seconds: others overtake the message

Fate = Literal["passes", "lost", "twice", "late"]
BAD: tuple[Fate, ...] = ("lost", "twice", "late")
Decide = Callable[[str], Fate]
"""Says what becomes of a message by the name of its kind."""


class LossyWire:
    """Listens where an agent dials, and speaks to the head for it, in a thread of its own."""

    def __init__(self, listens: Path, head: Path, decide: Decide, dice: random.Random) -> None:
        self._listens, self._head, self._decide, self._dice = listens, head, decide, dice
        self.passed: Counter[str] = Counter()
        self.harmed: Counter[tuple[str, Fate]] = Counter()
        self._loop = asyncio.new_event_loop()
        self._open = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._open.wait(10)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_unix_server(self._serve, path=str(self._listens))
        )
        self._open.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    def close(self) -> None:
        """Cut it for good."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await asyncio.open_unix_connection(str(self._head))
        except OSError:
            writer.close()
            return
        ways = (self._carry(reader, head[1]), self._carry(head[0], writer))
        tasks = [asyncio.ensure_future(way) for way in ways]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            writer.close()
            head[1].close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (data := await read_frame(reader, LARGEST)) is not None:
            kind = msgspec.msgpack.decode(data)["type"]
            fate = self._decide(kind)
            if fate == "passes":
                self.passed[kind] += 1
            else:
                self.harmed[kind, fate] += 1
            if fate in ("passes", "twice"):
                writer.write(frame(data))
            if fate in ("twice", "late"):
                self._loop.call_later(self._dice.uniform(*LATE), _write, writer, frame(data))


def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    if not writer.is_closing():
        writer.write(data)
