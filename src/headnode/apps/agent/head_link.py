"""The agent's connection to its head, dialed again and again."""

import asyncio
import contextlib
import logging
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec.structs import replace

from headnode import __version__
from headnode.adapters.processes.agent_link import boot_time
from headnode.adapters.wire.agent_messages import MAX_MESSAGE, Hello, NotUnderstood
from headnode.adapters.wire.frames import FrameWriter, Streams, deliver_frames, read_frame
from headnode.adapters.wire.messages import FromAgent, FromHead, Goodbye, OpenJob, Welcome
from headnode.adapters.wire.peers import unix_address
from headnode.apps.agent.head_time import HeadTime
from headnode.core.model.errors import IS_STANDBY, OLD_HEAD, BadRequest, UnknownDescription
from headnode.core.model.quantities import Instant, Seconds
from headnode.core.state.job_record import decode_spec

log = logging.getLogger("headnode.agent")

AGAIN = 600.0  # seconds after which it is told anew that the same head is not reached for the same reason
OTHER = 60.0  # seconds after which another reason is told, when some were told
SOME = 3
ELSEWHERE = "if the head has another address now: hn agent --head HOST"
JOIN_AGAIN = "join again with the line that `hn node invite` prints on the head node"


class HeadContactLog:
    """How long an agent has been without its head, and what was told of that."""

    def __init__(self, head: object) -> None:
        """`head`: its text says which head, at each moment."""
        self._head = head
        self._since: float | None = None
        self._told, self._told_at, self._lines = "", 0.0, 0

    def reached(self, cluster: str) -> None:
        """Note that the head has accepted the connection."""
        away = "" if self._since is None else f", after {time.monotonic() - self._since:.0f} s without it"
        log.info("connected to the head of cluster %s at %s%s", cluster, self._head, away)
        self._since, self._told, self._lines = None, "", 0

    def failed(self, why: str) -> None:
        """The head could not be reached, or has hung up."""
        now = time.monotonic()
        self._since = self._since or now
        rest = AGAIN if why == self._told else OTHER if self._lines >= SOME else 0.0
        if now - self._told_at < rest:
            return
        log.warning(
            "no connection to the head at %s for %.0f s: %s; still trying",
            self._head, now - self._since, why,
        )  # fmt: skip
        self._told, self._told_at, self._lines = why, now, self._lines + 1


def reason_of(error: Exception) -> str:
    """Return why the head was not reached, and what to do about it."""
    match error:
        case ssl.SSLCertVerificationError():
            return (
                f"its certificate is not trusted ({error.verify_message}): its authority is not the one "
                f"that this node joined; restore authority/ on the head node (hn restore), or {JOIN_AGAIN}"
            )
        case ssl.SSLError():
            message = (error.reason or str(error)).lower().replace("_", " ")
            return (
                f"the encrypted connection failed ({message}); "
                f"if the head does not know this node, {JOIN_AGAIN}"
            )
        case ConnectionRefusedError():
            return "nothing listens there"
        case socket.gaierror():
            return f"{error.strerror}; {ELSEWHERE}"
        case TimeoutError():
            return f"it does not answer; {ELSEWHERE}"
        case OSError():
            return error.strerror or str(error) or type(error).__name__
        case _:
            return str(error)


REDIAL = 0.15  # seconds between two attempts to reach a head that is away
TIMEOUT = 15.0  # seconds that a head has to answer our hello
MISSED = 3  # heartbeats without a word of the head, after which it is dialed anew
SILENCE = 30.0  # seconds that it may be silent anyway
MAX_REASON = 200  # characters of what a standby says that are in the log
FAREWELL = 5.0  # seconds that it has to take the last words of an agent that ends

_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[FromHead] = msgspec.msgpack.Decoder(FromHead)


_UNKNOWN = "message-unknown"
_NO_HEAD = "no-head"


async def _first(reader: asyncio.StreamReader) -> FromHead | None:
    data = await read_frame(reader, MAX_MESSAGE)
    return None if data is None else _read(data)


def _read(data: bytes) -> FromHead:
    """Return a message of the head.

    Raises:  BadRequest ``message-unknown``.
    """
    try:
        message = _decoder.decode(data)
        if isinstance(message, OpenJob):
            decode_spec(message.spec)
    except (msgspec.MsgspecError, UnknownDescription) as error:
        why = error.why if isinstance(error, UnknownDescription) else error
        raise BadRequest(
            code=_UNKNOWN,
            what=f"it sent a message that Headnode {__version__} does not know; nothing was done: {why}",
            fix="install the version of the head on this node",
        ) from None
    return message


Dial = Callable[[], Awaitable[Streams]]
"""Returns a new connection on which the head believes that it is this node.  Raises:  OSError."""


class Transport(Protocol):
    """How the head is reached.  One that knows a single address has nothing to choose.

    mark:  of the newest welcome whose addresses are on the disk
    """

    mark: int = 0

    async def dial(self) -> Streams:
        """Return a new connection.

        Raises:  OSError.
        """

    @property
    def dial_for_tasks(self) -> Dial | None:
        """The same for what a task of this node asks the head; None: tasks reach it without the agent."""

    def welcomed(self, welcome: Welcome) -> None:  # noqa: ARG002
        """Learn what the head that was dialed last says of itself.

        Raises:  BadRequest ``old-head`` when it must not be obeyed.
        """
        return

    def looks_elsewhere(self) -> bool:
        """Whether what was dialed last is not the last head, but may be one."""
        return False

    def is_no_head(self, goodbye: Goodbye) -> bool:  # noqa: ARG002
        """Whether the first answer of what was dialed last means that the head is elsewhere."""
        return False

    def no_head_since(self, dialed: float) -> float | None:
        """Learn that there was no head when it was dialed; return since when there is none at any address.

        Unit:    seconds since the machine was started; None: one of the addresses may have a head.
        """
        return dialed

    def missed(self, why: str, *, answered: bool) -> str:  # noqa: ARG002
        """Learn why there is no connection, and choose the next address; return what to tell people.

        `answered`: something answered that is not to be obeyed.
        """
        return why

    def pause(self) -> float:
        """Return in how many seconds to dial again."""
        return REDIAL


class HeadEnded(ConnectionRefusedError):
    """A head of this machine has ended on purpose: it took its socket away."""


class LocalTransport(Transport):
    """A head on this machine."""

    dial_for_tasks = None

    def __init__(self, path: Path) -> None:
        self._path = path

    def __str__(self) -> str:
        return str(self._path)

    async def dial(self) -> Streams:
        """Return a new connection.

        Raises:  OSError.
        """
        try:
            with unix_address(self._path) as address:
                return await asyncio.open_unix_connection(address)
        except FileNotFoundError as error:  # the socket or the state directory was removed
            raise HeadEnded(*error.args) from None


class Speaker(Protocol):
    """Who talks to the head."""

    def hello(self) -> Hello:
        """Return the first message of a connection."""

    def obey(self, message: FromHead) -> None:
        """Do what the head says."""

    def beat(self) -> None:
        """Say that we live."""

    def head_is_away(self) -> None:
        """The connection is gone."""

    def head_is_off(self, dialed: float, *, ended: bool) -> None:
        """No head was where it may be when it was dialed (seconds since the machine was started).

        `ended`: the head has ended on purpose, or begins at this moment.
        """


class HeadLink:
    """One connection at a time."""

    def __init__(self, transport: Transport, speaker: Speaker) -> None:
        self._transport, self._speaker = transport, speaker
        self._waiting = HeadContactLog(transport)
        self._writer: FrameWriter | None = None
        self._time = HeadTime()
        self._pulse: asyncio.TimerHandle | None = None
        self._heartbeat = 0.0
        self._received = 0.0  # when the head said something last, on the loop's clock
        self._obeyed = boot_time()  # when a head that is obeyed did so

    @property
    def mark(self) -> int:
        """The mark of the newest welcome whose addresses are stored."""
        return self._transport.mark

    def send(self, message: FromAgent) -> None:
        """Send a message; messages are lost while the head cannot be reached."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.send(_encode(self._time.in_message(message)))

    def set_head_time(self, now: Instant) -> None:
        """Learn what time the head has: times in messages are on its clock."""
        self._time.learn(now)

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
        if asyncio.get_running_loop().time() - self._received > max(SILENCE, MISSED * self._heartbeat):
            self._drop()
            return
        self._speaker.beat()
        self._set_pulse()

    def _drop(self) -> None:
        """Hang up on a head that says nothing; it is dialed again."""
        log.warning("the head has sent nothing for too long: connecting again")
        if self._writer is not None:
            self._writer.abort()

    async def talk(self) -> None:
        """Dial and listen for ever."""
        while True:
            answered = False
            try:
                await self._converse()
                why = "it closed the connection"
            except (OSError, BadRequest) as error:  # a timeout is an OSError
                why = reason_of(error)
                code = error.code if isinstance(error, BadRequest) else ""
                answered = code in (OLD_HEAD, _NO_HEAD)
                if code == _UNKNOWN:
                    self.send(NotUnderstood(message=why))
            self._hang_up()
            self._waiting.failed(self._transport.missed(why, answered=answered))
            self._speaker.head_is_away()
            await asyncio.sleep(self._transport.pause())

    async def _converse(self) -> None:
        dialed = boot_time()
        try:
            reader, writer = await self._transport.dial()
        except ConnectionRefusedError as error:
            self._nobody_there(dialed, ended=isinstance(error, HeadEnded))
            raise
        self._writer = FrameWriter(writer)
        self._received = asyncio.get_running_loop().time()
        self.send(self._hello())
        async with asyncio.timeout(TIMEOUT):
            answer = await _first(reader)
        if not isinstance(answer, Welcome | Goodbye | None):
            raise BadRequest(code="no-welcome", what="the head sent another message before its welcome")
        if answer is None:
            raise BadRequest(
                code="no-welcome", what="it closed the connection without an answer; its log may say why"
            )
        if isinstance(answer, Goodbye) and self._transport.is_no_head(answer):
            if answer.reason.startswith(IS_STANDBY):
                self._nobody_there(dialed, ended=False)
            raise BadRequest(code=_NO_HEAD, what=f"it is not the head now: {answer.reason[:MAX_REASON]}")
        if isinstance(answer, Welcome):
            self._transport.welcomed(answer)
            self._waiting.reached(answer.cluster)
        self._obey(answer)
        await deliver_frames((reader, writer), MAX_MESSAGE, self._receive)

    def _receive(self, data: bytes) -> bool:
        message = _read(data)
        if isinstance(message, Welcome):
            self._transport.welcomed(message)
        self._obey(message)
        return True

    def _obey(self, message: FromHead) -> None:
        self._received, self._obeyed = asyncio.get_running_loop().time(), boot_time()
        self._speaker.obey(message)

    def _hello(self) -> Hello:
        """Return the first message; a standby head learns from it for how long there has been no head."""
        hello = self._speaker.hello()
        if not self._transport.looks_elsewhere():
            return hello  # heads before 0.3 do not know the field
        return replace(hello, silent=Seconds(boot_time() - self._obeyed))

    def _nobody_there(self, dialed: float, *, ended: bool) -> None:
        """Nothing listened there, or it was no head: tell the speaker if that is so everywhere."""
        since = self._transport.no_head_since(dialed)
        if since is not None:
            self._speaker.head_is_off(since, ended=ended)

    def _hang_up(self) -> None:
        self._heartbeat = 0.0
        if self._pulse is not None:
            self._pulse.cancel()
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    async def finish(self) -> None:
        """Send what waits, if the head takes it, and hang up."""
        if self._writer is not None:
            with contextlib.suppress(OSError):  # a timeout is one
                async with asyncio.timeout(FAREWELL):
                    await self._writer.drain()
        self._hang_up()
