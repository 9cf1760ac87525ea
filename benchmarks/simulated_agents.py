"""Agents that run nothing and say that they do, over connections of their own as real ones have.

Run alone, this prints nothing: the other files use it.
"""

import asyncio
import contextlib
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from headnode.adapters.nodes.membership import NodeIdentity, read_invitation
from headnode.adapters.wire.agent_messages import (
    MAX_MESSAGE,
    PROTOCOL,
    AttemptStart,
    Heartbeat,
    Hello,
    JobClosed,
    ReportedAttempt,
    Started,
    Table,
)
from headnode.adapters.wire.frame_codec import frame
from headnode.adapters.wire.frames import read_frame
from headnode.adapters.wire.message_checks import digest_of_holdings
from headnode.adapters.wire.messages import (
    CloseJob,
    FromAgent,
    FromHead,
    GetTable,
    HeartbeatAck,
    OpenJob,
    Run,
    Welcome,
)
from headnode.core.model.node import NodeFacts
from headnode.core.model.quantities import Instant, JobId

REDIAL = 0.15  # seconds, as real ones
SOON = 0.05  # seconds after a question until the next heartbeat, to see whether it is answered

_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[FromHead] = msgspec.msgpack.Decoder(FromHead)


class SimulatedAgent:
    """One agent.  What it is told to run has begun at once, and never ends."""

    def __init__(self, name: str, processors: int, directory: Path, agrees: Callable[[], None]) -> None:
        """`agrees` is called for each heartbeat whose digest was what the head expects."""
        self.facts = NodeFacts(name=name, processors=processors, memory=65536, boot_id="b")
        self.writer: asyncio.StreamWriter | None = None
        self.beats = 30.0  # seconds between two heartbeats, when nobody says another
        self._identity = NodeIdentity(directory / name)
        self._live: dict[tuple[JobId, int, int], ReportedAttempt] = {}
        self._opened: dict[JobId, int] = {}
        self._number, self._asked = 0, 0
        self._agrees = agrees

    async def join(self, invitation: str) -> None:
        """Join the cluster."""
        await self._identity.join(read_invitation(invitation), self.facts)

    async def live(self) -> None:
        """Dial and obey for ever."""
        while True:
            with contextlib.suppress(OSError):
                await self._converse()
            await asyncio.sleep(REDIAL)

    async def _converse(self) -> None:
        reader, self.writer = await self.dial()
        self.send(Hello(protocol=PROTOCOL, facts=self.facts, **self._holdings()))
        while (data := await read_frame(reader, MAX_MESSAGE)) is not None:
            self.obey(_decoder.decode(data), data)

    async def dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a new connection to the head."""
        return await self._identity.dial()

    def send(self, message: FromAgent) -> None:
        """Send a message, unless the head is away."""
        if self.writer is not None and not self.writer.is_closing():
            self.writer.write(frame(_encode(message)))

    def _holdings(self) -> dict[str, Any]:
        return {
            "open_jobs": tuple(self._opened),
            "live": tuple(self._live.values()),
            "opened": tuple(self._opened.items()),
        }

    def obey(self, message: FromHead, data: bytes) -> None:
        """Do what the head says; `data` is the message as it came."""
        match message:
            case Welcome():
                self.beat()
            case OpenJob(job=job):
                self._opened[job] = zlib.crc32(data)
            case Run():
                self.run(message)
            case CloseJob(job=job):
                self._opened.pop(job, None)
                self.send(JobClosed(job=job))
            case GetTable(number=number):
                self._asked = self._number
                self.send(Table(number=number, **self._holdings()))
                asyncio.get_running_loop().call_later(SOON, self.beat)
            case HeartbeatAck(number=number):
                if number != self._asked:
                    self._agrees()

    def run(self, message: Run) -> None:
        """Report the attempts as started."""
        at = Instant(1.0)
        for instance, attempt in message.attempts:
            key = (message.job, message.task, instance)
            self._live[key] = ReportedAttempt(*key, attempt, True, at)
        begun = tuple(AttemptStart(message.task, *who, at) for who in message.attempts)
        self.send(Started(job=message.job, started=begun))

    def beat(self) -> None:
        """Say that we live."""
        self._number += 1
        digest = digest_of_holdings(Table(number=0, **self._holdings()))
        self.send(Heartbeat(number=self._number, digest=digest))
