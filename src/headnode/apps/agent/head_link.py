"""The agent's connection to its head: which head it is, joined where wished, dialed again and again."""

import asyncio
import contextlib
import logging
import os
import socket
import ssl
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec.structs import replace

from headnode import __version__
from headnode.adapters.processes.agent_link import boot_time
from headnode.adapters.wire.agent_messages import LARGEST_MESSAGE, Hello, NotUnderstood
from headnode.adapters.wire.frames import FrameWriter, read_frame
from headnode.adapters.wire.messages import FromAgent, FromHead, Goodbye, OpenJob, Welcome
from headnode.apps.agent.machine import AgentOptions, facts_of_this_machine
from headnode.core.model.errors import BadRequest, Unavailable, UnknownDescription
from headnode.core.state.job_record import decode_spec

if TYPE_CHECKING:
    from headnode.adapters.nodes.membership import NodeIdentity

log = logging.getLogger("headnode.agent")

AGAIN = 600.0  # seconds after which it is told anew that the same head is not reached for the same reason
OTHER = 60.0  # seconds after which another reason is told, when some were told
SOME = 3
_JOIN = "join again with the line that `hn node invite` prints on the head node"


class HeadContactLog:
    """How long an agent has been without its head, and what was told of that."""

    def __init__(self, head: str) -> None:
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
                f"that this node joined; restore authority/ on the head node (hn restore), or {_JOIN}"
            )
        case ssl.SSLError():
            said = (error.reason or str(error)).lower().replace("_", " ")
            return f"the encrypted connection failed ({said}); if the head does not know this node, {_JOIN}"
        case ConnectionRefusedError():
            return "nothing listens there"
        case TimeoutError():
            return "it does not answer"
        case OSError():
            return error.strerror or str(error) or type(error).__name__
        case _:
            return str(error)


REDIAL = 0.15  # seconds between two attempts to reach a head that is away
PATIENCE = 15.0  # seconds that a head has to answer our hello
JOINING = 30.0  # seconds that the agent of an allocation tries to join a head that is away
MISSED = 3  # heartbeats without a word of the head, after which it is dialed anew
SILENCE = 30.0  # seconds that it may be silent anyway
FAREWELL = 5.0  # seconds that it has to take the last words of an agent that ends

_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[FromHead] = msgspec.msgpack.Decoder(FromHead)


_UNKNOWN = "message-unknown"


async def _next(reader: asyncio.StreamReader) -> FromHead | None:
    data = await read_frame(reader, LARGEST_MESSAGE)
    if data is None:
        return None
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


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Dial = Callable[[], Awaitable[Streams]]
"""Returns a new connection on which the head believes that it is this node.  Raises:  OSError."""


class Transport(Protocol):
    """How the head is reached."""

    async def dial(self) -> Streams:
        """Return a new connection.

        Raises:  OSError.
        """

    @property
    def dial_for_tasks(self) -> Dial | None:
        """The same for what a task of this node asks the head; None: tasks reach it without the agent."""


class HeadEnded(ConnectionRefusedError):
    """A head of this machine has ended on purpose: it took its socket away."""


class LocalTransport:
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
            folder = os.open(self._path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError as error:  # the state directory was removed
            raise HeadEnded(*error.args) from None
        try:  # by way of a descriptor: the path itself may be too long for an address
            return await asyncio.open_unix_connection(f"/proc/self/fd/{folder}/{self._path.name}")
        except FileNotFoundError as error:
            raise HeadEnded(*error.args) from None
        finally:
            os.close(folder)


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
        """Nothing listened where the head does when it was dialed (seconds since the machine was started).

        `ended`: the head has ended on purpose, or begins at this moment.
        """


class HeadLink:
    """One connection at a time."""

    def __init__(self, transport: Transport, speaker: Speaker) -> None:
        self._transport, self._speaker = transport, speaker
        self._waiting = HeadContactLog(str(transport))
        self._writer: FrameWriter | None = None
        self._pulse: asyncio.TimerHandle | None = None
        self._heartbeat = 0.0
        self._heard = 0.0  # when the head said something last, on the loop's clock

    def say(self, message: FromAgent) -> None:
        """Send a message; what is said while the head is away is lost."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.say(_encode(message))

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
            self._writer.abort()

    async def talk(self) -> None:
        """Dial and listen for ever."""
        while True:
            try:
                await self._converse()
                why = "it closed the connection"
            except (OSError, BadRequest) as error:  # a timeout is an OSError
                why = reason_of(error)
                if isinstance(error, BadRequest) and error.code == _UNKNOWN:
                    self.say(NotUnderstood(message=why))
            self._hang_up()
            self._waiting.failed(why)
            self._speaker.head_is_away()
            await asyncio.sleep(REDIAL)

    async def _converse(self) -> None:
        dialed = boot_time()
        try:
            reader, writer = await self._transport.dial()
        except ConnectionRefusedError as error:
            self._speaker.head_is_off(dialed, ended=isinstance(error, HeadEnded))
            raise
        self._writer = FrameWriter(writer)
        self._heard = asyncio.get_running_loop().time()
        self.say(self._speaker.hello())
        async with asyncio.timeout(PATIENCE):
            answer = await _next(reader)
        if not isinstance(answer, Welcome | Goodbye | None):
            raise BadRequest(code="no-welcome", what="the head sent another message before its welcome")
        if answer is None:
            raise BadRequest(
                code="no-welcome", what="it closed the connection without an answer; its log may say why"
            )
        if isinstance(answer, Welcome):
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
        """Send what waits, if the head takes it, and hang up."""
        if self._writer is not None:
            with contextlib.suppress(OSError):  # a timeout is one
                async with asyncio.timeout(FAREWELL):
                    await self._writer.drain()
        self._hang_up()


async def find_head(options: AgentOptions) -> tuple[Transport, AgentOptions]:
    """Return how the head is reached, and the options with the name that it knows this node by.

    Raises:  what keeps this node from joining; BadRequest ``no-head`` if no address of the head is known.
    """
    machine = socket.gethostname().split(".")[0]
    if options.head is not None:
        return LocalTransport(options.head), replace(options, name=options.name or machine)
    from headnode.adapters.nodes.membership import NodeIdentity  # with TLS: a third of the agent's start

    identity = NodeIdentity(options.state)
    if options.join:
        options = replace(options, name=options.name or machine)
        await _join(identity, options, patience=JOINING if options.allocation else 0.0)
    belongs = identity.membership()
    if belongs is None:
        raise BadRequest(
            code="no-head",
            what=f"this node has joined no cluster: {str(options.state)!r} holds no certificate of one",
            fix="paste the line that `hn node invite` prints on the head node",
        )
    if options.name and options.name != belongs.node:
        raise BadRequest(
            code="node-name",
            what=f"this machine has joined as node {belongs.node!r}, not as {options.name!r}",
            fix="leave --name out, or join again with a new invitation",
        )
    return identity, replace(options, name=belongs.node)


async def _join(identity: "NodeIdentity", options: AgentOptions, patience: float) -> None:
    """Join the cluster as a node, and report that to the user; try for so many seconds."""
    from headnode.adapters.nodes.membership import read_invitation

    text = sys.stdin.readline() if options.join == "-" else options.join
    invitation = read_invitation(text)
    until = boot_time() + patience
    while True:
        try:
            ready = await identity.join(invitation, facts_of_this_machine(options))
            break
        except Unavailable:
            if boot_time() >= until:
                raise
            await asyncio.sleep(1.0)
    head = f"{invitation.host}:{invitation.port}"
    print(f"Node {options.name} has joined the cluster of {head}.", flush=True)
    if not ready:
        print(f"It waits for an administrator there: hn node approve {options.name}", flush=True)
