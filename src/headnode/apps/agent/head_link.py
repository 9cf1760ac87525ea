"""The agent's end of its connection to the head: dialed again and again, whoever is away."""

import asyncio
import contextlib
import os
from pathlib import Path
from typing import Protocol

import msgspec

from headnode.adapters.nodes import messages as m
from headnode.adapters.nodes.framing import frame, read_frame
from headnode.core.model.errors import BadRequest

REDIAL = 0.15  # seconds between two attempts to reach a head that is away

_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[m.FromHead] = msgspec.msgpack.Decoder(m.FromHead)


class Transport(Protocol):
    """How the head is reached."""

    async def dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a new connection.

        Raises:  OSError.
        """


class LocalSocket:
    """A head on this machine."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a new connection.

        Raises:  OSError.
        """
        folder = os.open(self._path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:  # by way of a descriptor: the path itself may be too long for an address
            return await asyncio.open_unix_connection(f"/proc/self/fd/{folder}/{self._path.name}")
        finally:
            os.close(folder)


class Speaker(Protocol):
    """Who talks to the head."""

    def hello(self) -> m.Hello:
        """Return the first message of a connection."""

    def obey(self, message: m.FromHead) -> None:
        """Do what the head says."""

    def head_is_away(self) -> None:
        """The connection is gone."""


class HeadLink:
    """One connection at a time."""

    def __init__(self, transport: Transport, speaker: Speaker) -> None:
        self._transport, self._speaker = transport, speaker
        self._writer: asyncio.StreamWriter | None = None
        self._pulse: asyncio.TimerHandle | None = None
        self._heartbeat = 0.0

    def say(self, message: m.FromAgent) -> None:
        """Send a message; what is said while the head is away is lost."""
        if self._writer is None or self._writer.is_closing():
            return
        self._writer.write(frame(_encode(message)))
        self._set_pulse()

    def beat(self, every: float) -> None:
        """Say that we live whenever nothing else was said for so long (seconds)."""
        self._heartbeat = every
        self._set_pulse()

    def _set_pulse(self) -> None:
        if self._pulse is not None:
            self._pulse.cancel()
        self._pulse = None
        if self._heartbeat > 0:
            loop = asyncio.get_running_loop()
            self._pulse = loop.call_later(self._heartbeat, self.say, m.Heartbeat())

    async def talk(self) -> None:
        """Dial and listen for ever."""
        while True:
            with contextlib.suppress(OSError, BadRequest, msgspec.MsgspecError):
                await self._converse()
            self._hang_up()
            self._speaker.head_is_away()
            await asyncio.sleep(REDIAL)

    async def _converse(self) -> None:
        reader, self._writer = await self._transport.dial()
        self.say(self._speaker.hello())
        while (data := await read_frame(reader, m.LARGEST_MESSAGE)) is not None:
            self._speaker.obey(_decoder.decode(data))

    def _hang_up(self) -> None:
        self._heartbeat = 0.0
        if self._pulse is not None:
            self._pulse.cancel()
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    async def finish(self) -> None:
        """Send what waits and hang up."""
        if self._writer is not None:
            with contextlib.suppress(OSError):
                await self._writer.drain()
        self._hang_up()
