"""The agent's end of its connection to the head: dialed again and again, whoever is away."""

import asyncio
import contextlib
import logging
import os
from pathlib import Path
from typing import Protocol

import msgspec

from headnode import __version__
from headnode.adapters.nodes import messages as m
from headnode.adapters.nodes.framing import frame, read_frame
from headnode.adapters.processes.lease import boot_time
from headnode.apps.agent.waiting import Waiting, reason_of
from headnode.core.lifecycle.records import decode_spec
from headnode.core.model.errors import BadRequest, UnknownDescription

log = logging.getLogger("headnode.agent")

REDIAL = 0.15  # seconds between two attempts to reach a head that is away
PATIENCE = 15.0  # seconds that a head has to answer our hello
MISSED = 3  # heartbeats without a word of the head, after which it is dialed anew
SILENCE = 30.0  # seconds that it may be silent anyway

_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[m.FromHead] = msgspec.msgpack.Decoder(m.FromHead)


_UNKNOWN = "message-unknown"


async def _next(reader: asyncio.StreamReader) -> m.FromHead | None:
    data = await read_frame(reader, m.LARGEST_MESSAGE)
    if data is None:
        return None
    try:
        message = _decoder.decode(data)
        if isinstance(message, m.OpenJob):
            decode_spec(message.spec)
    except (msgspec.MsgspecError, UnknownDescription) as error:
        why = error.why if isinstance(error, UnknownDescription) else error
        raise BadRequest(
            code=_UNKNOWN,
            what=f"it sent a message that Headnode {__version__} does not know; nothing was done: {why}",
            fix="install the version of the head on this node",
        ) from None
    return message


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

    def __str__(self) -> str:
        return str(self._path)

    async def dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a new connection.

        Raises:  OSError.
        """
        folder = os.open(self._path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:  # by way of a descriptor: the path itself may be too long for an address
            return await asyncio.open_unix_connection(f"/proc/self/fd/{folder}/{self._path.name}")
        except FileNotFoundError as error:  # it was taken away by a head that ended
            raise ConnectionRefusedError(*error.args) from None
        finally:
            os.close(folder)


class Speaker(Protocol):
    """Who talks to the head."""

    def hello(self) -> m.Hello:
        """Return the first message of a connection."""

    def obey(self, message: m.FromHead) -> None:
        """Do what the head says."""

    def beat(self) -> None:
        """Say that we live."""

    def head_is_away(self) -> None:
        """The connection is gone."""

    def head_is_off(self, dialed: float) -> None:
        """Nothing listened where the head does when it was dialed (seconds since the machine was started)."""


class HeadLink:
    """One connection at a time."""

    def __init__(self, transport: Transport, speaker: Speaker) -> None:
        self._transport, self._speaker = transport, speaker
        self._waiting = Waiting(str(transport))
        self._writer: asyncio.StreamWriter | None = None
        self._pulse: asyncio.TimerHandle | None = None
        self._heartbeat = 0.0
        self._heard = 0.0  # when the head said something last, on the loop's clock

    def say(self, message: m.FromAgent) -> None:
        """Send a message; what is said while the head is away is lost."""
        if self._writer is None or self._writer.is_closing():
            return
        self._writer.write(frame(_encode(message)))

    def beat(self, every: float) -> None:
        """Let the speaker say that we live, again and again, after so many seconds."""
        if every != self._heartbeat:
            self._heartbeat = every
            self._set_pulse()

    def _set_pulse(self) -> None:
        if self._pulse is not None:
            self._pulse.cancel()
        self._pulse = None
        if self._heartbeat > 0:
            self._pulse = asyncio.get_running_loop().call_later(self._heartbeat, self._beat_now)

    def _beat_now(self) -> None:
        if asyncio.get_running_loop().time() - self._heard > max(SILENCE, MISSED * self._heartbeat):
            self._drop()
            return
        self._speaker.beat()
        self._set_pulse()

    def _drop(self) -> None:
        """Hang up on a head that says nothing; it is dialed again."""
        log.warning("the head has sent nothing for too long: connecting again")
        if self._writer is not None:
            self._writer.transport.abort()

    async def talk(self) -> None:
        """Dial and listen for ever."""
        while True:
            try:
                await self._converse()
                why = "it closed the connection"
            except (OSError, BadRequest) as error:  # a timeout is an OSError
                why = reason_of(error)
                if isinstance(error, BadRequest) and error.code == _UNKNOWN:
                    self.say(m.NotUnderstood(said=why))
            self._hang_up()
            self._waiting.failed(why)
            self._speaker.head_is_away()
            await asyncio.sleep(REDIAL)

    async def _converse(self) -> None:
        dialed = boot_time()
        try:
            reader, self._writer = await self._transport.dial()
        except ConnectionRefusedError:
            self._speaker.head_is_off(dialed)
            raise
        self._heard = asyncio.get_running_loop().time()
        self.say(self._speaker.hello())
        async with asyncio.timeout(PATIENCE):
            answer = await _next(reader)
        if not isinstance(answer, m.Welcome | m.Goodbye | None):
            raise BadRequest(code="no-welcome", what="the head sent another message before its welcome")
        if answer is None:
            raise BadRequest(
                code="no-welcome", what="it closed the connection without an answer; its log may say why"
            )
        if isinstance(answer, m.Welcome):
            self._waiting.reached(answer.cluster)
        while answer is not None:
            self._heard = asyncio.get_running_loop().time()
            self._speaker.obey(answer)
            answer = await _next(reader)

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
