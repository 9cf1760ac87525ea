"""The head as the gateway sees it: verbs asked for a user, over a bounded pool of connections.

The head waits for no gateway; a head that is away is Unavailable ``no-head``.
Source:  docs/contracts/01-local-protocol.md, "Gateways".
"""

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from headnode.adapters.wire.frame_codec import HEADER, frame
from headnode.adapters.wire.frames import PIECE, read_frame
from headnode.apps.client.failures import refusal_in
from headnode.core.model.bounds import UNREADABLE
from headnode.core.model.errors import BadRequest, Broken, HeadnodeError, Unavailable
from headnode.protocol.requests import VerbRequest

GATEWAY_SOCKET = "gateway.sock"  # in the state directory of the head
LARGEST_ANSWER = 32 * 1024 * 1024  # bytes
CONNECT_TIME = 5.0  # seconds
ANSWER_TIME = 60.0  # seconds that an answer may take
IDLE_TIME = 30.0  # seconds that a connection without a request is kept
MOST_CONNECTIONS = 256  # of all users, each with one request at a time
MOST_IDLE = 128  # connections that are kept for further requests
MOST_OF_USER = 16  # connections of one user
WAIT_TIME = 10.0  # seconds that a request waits for a connection

Answer = TypeVar("Answer", bound=msgspec.Struct)


class WebCaller(NamedTuple):
    """The user of a request: by name, or by a token that the head checks; and where the user is."""

    address: str
    user: str | None = None
    token: str | None = None

    @property
    def whose(self) -> tuple[str | None, str | None]:
        """What tells users apart."""
        return self.user, self.token


class _HeadConnection:
    """One connection, which speaks for one user."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.used = time.monotonic()

    async def send(self, request: bytes) -> None:
        """Send a request, piece by piece: a large one is not copied into a buffer.

        Raises:  ConnectionError; TimeoutError.
        """
        async with asyncio.timeout(ANSWER_TIME):
            if len(request) <= PIECE:
                self._writer.write(frame(request))
            else:
                self._writer.write(len(request).to_bytes(HEADER, "big"))
                view = memoryview(request)
                for at in range(0, len(view), PIECE):
                    self._writer.write(view[at : at + PIECE])
                    await self._writer.drain()
            await self._writer.drain()

    async def receive(self, patience: float | None = ANSWER_TIME) -> bytes:
        """Return the next answer.

        Raises:  ConnectionError; TimeoutError; BadRequest ``frame``.
        """
        async with asyncio.timeout(patience):
            answer = await read_frame(self._reader, LARGEST_ANSWER)
        if answer is None:
            raise ConnectionResetError("the head closed the connection")
        self.used = time.monotonic()
        return answer

    @property
    def is_open(self) -> bool:
        """Whether neither side has closed it."""
        return not (self._writer.is_closing() or self._reader.at_eof())

    def close(self) -> None:
        """Hang up."""
        self._writer.close()


class HeadClient:
    """Asks the head whose state directory is given."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self._idle: dict[WebCaller, list[_HeadConnection]] = {}
        self._of_user: dict[tuple[str | None, str | None], int] = {}  # connections that are used now
        self._room = asyncio.Semaphore(MOST_CONNECTIONS)

    async def ask(
        self, caller: WebCaller, verb: str, request: VerbRequest, answer: type[Answer], *, key: str = ""
    ) -> Answer:
        """Return the answer to a verb, as its type; `key` is an idempotency key.

        Raises:  the refusal of the head as the error that it is; Unavailable ``no-head``, ``head-gone``.
        """
        fields = {**msgspec.to_builtins(request), **({"idempotency": key} if key else {})}
        told = msgspec.json.decode(await self.ask_fields(caller, verb, fields))
        told.pop("ok", None)
        return msgspec.convert(told, answer)

    async def ask_plain(self, caller: WebCaller, verb: str, **fields: Any) -> dict[str, Any]:
        """Return the answer to a verb as a JSON object; fields that are None are left out.

        Raises:  as `ask`.
        """
        given = {name: value for name, value in fields.items() if value is not None}
        told: dict[str, Any] = msgspec.json.decode(await self.ask_fields(caller, verb, given))
        del told["ok"]
        return told

    async def admit(self, caller: WebCaller) -> None:
        """Let the head check the user; the connection is kept for the request that follows.

        Raises:  NotAllowed ``token``; Unavailable.
        """
        async with self._counted(caller):
            self._keep(caller, await self._connection(caller))

    async def ask_fields(self, caller: WebCaller, verb: str, fields: Mapping[str, Any]) -> bytes:
        """Return the answer to a verb as the JSON that the head has sent.

        Raises:  as `ask`.
        """
        request = msgspec.json.encode({"verb": verb, **fields})
        async with self._counted(caller):
            connection = await self._connection(caller)
            try:
                reply = await _exchange(connection, request)
            except BaseException:
                connection.close()  # its answer would be taken for that of the next request
                raise
            self._keep(caller, connection)
        if reply.startswith(b'{"ok":true'):
            return reply
        raise _refusal(reply)

    async def updates(
        self, caller: WebCaller, verb: str, request: VerbRequest, answer: type[Answer]
    ) -> AsyncIterator[Answer]:
        """Yield the answers to a verb that has several, up to the last one.

        Raises:  as `ask`.
        """
        async for told in self.update_fields(caller, verb, msgspec.to_builtins(request)):
            yield msgspec.convert(told, answer)

    async def update_fields(
        self, caller: WebCaller, verb: str, fields: Mapping[str, Any]
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield the answers to a verb that has several, as JSON objects.

        Raises:  as `ask`.
        """
        async with self._counted(caller):
            connection = await self._connect(caller)
            try:
                await connection.send(msgspec.json.encode({"verb": verb, **fields}))
                while True:
                    reply = await connection.receive(patience=None)
                    if not reply.startswith(b'{"ok":true'):
                        raise _refusal(reply)
                    told: dict[str, Any] = msgspec.json.decode(reply)
                    del told["ok"]
                    yield told
                    if told.get("done"):
                        return
            except (ConnectionError, BadRequest) as trouble:
                raise _gone(trouble) from None
            finally:
                connection.close()

    async def reach(self) -> None:
        """See whether the head accepts connections.

        Raises:  Unavailable ``no-head``.
        """
        (await self._dial()).close()

    def forget(self, caller: WebCaller) -> None:
        """Close the idle connections of a user, for example after the log-out."""
        for connection in self._idle.pop(caller, ()):
            connection.close()

    def close_idle(self) -> None:
        """Close connections that have not been used for some time; called now and then."""
        since = time.monotonic() - IDLE_TIME
        for caller, connections in list(self._idle.items()):
            kept = [each for each in connections if each.used >= since and each.is_open]
            for each in connections:
                if each not in kept:
                    each.close()
            if kept:
                self._idle[caller] = kept
            else:
                del self._idle[caller]

    def close(self) -> None:
        """Close all connections that are idle."""
        for caller in list(self._idle):
            self.forget(caller)

    @contextlib.asynccontextmanager
    async def _counted(self, caller: WebCaller) -> AsyncIterator[None]:
        """Count a request as long as it lasts.

        Raises:  Unavailable ``gateway-busy``.
        """
        whose = caller.whose
        if self._of_user.get(whose, 0) >= MOST_OF_USER:
            raise _busy(f"{MOST_OF_USER} of your requests are being answered")
        self._of_user[whose] = self._of_user.get(whose, 0) + 1
        try:
            try:
                async with asyncio.timeout(WAIT_TIME):
                    await self._room.acquire()
            except TimeoutError:
                raise _busy(f"{MOST_CONNECTIONS} requests are being answered") from None
            try:
                yield
            finally:
                self._room.release()
        finally:
            self._of_user[whose] -= 1
            if not self._of_user[whose]:
                del self._of_user[whose]

    async def _connection(self, caller: WebCaller) -> _HeadConnection:
        """Return a connection for a user."""
        while idle := self._idle.get(caller):
            connection = idle.pop()
            if connection.is_open:
                return connection
            connection.close()
        return await self._connect(caller)

    def _keep(self, caller: WebCaller, connection: _HeadConnection) -> None:
        """Keep a connection for the next request of the user, unless many are kept."""
        if sum(map(len, self._idle.values())) < MOST_IDLE:
            self._idle.setdefault(caller, []).append(connection)
        else:
            connection.close()

    async def _dial(self) -> _HeadConnection:
        try:
            async with asyncio.timeout(CONNECT_TIME):
                return _HeadConnection(*await _open(self.state / GATEWAY_SOCKET))
        except (OSError, TimeoutError):
            raise _no_head(self.state) from None

    async def _connect(self, caller: WebCaller) -> _HeadConnection:
        """Return a new connection that speaks for the user.

        Raises:  Unavailable ``no-head``; the refusal of the head.
        """
        connection = await self._dial()
        said = {"verb": "act_for_user", **{k: v for k, v in caller._asdict().items() if v is not None}}
        try:
            await connection.send(msgspec.json.encode(said))
            reply = await connection.receive()
        except (ConnectionError, TimeoutError, BadRequest):
            connection.close()
            raise _no_head(self.state) from None
        if not reply.startswith(b'{"ok":true'):
            connection.close()
            raise _refusal(reply)
        return connection


async def _exchange(connection: _HeadConnection, request: bytes) -> bytes:
    """Return the answer to a request.

    Raises:  Unavailable ``no-answer``, ``head-gone``.
    """
    try:
        await connection.send(request)
        return await connection.receive()
    except TimeoutError:
        raise Unavailable(code="no-answer", what="the head does not answer", fix="try again later") from None
    except (ConnectionError, BadRequest) as trouble:
        raise _gone(trouble) from None


async def _open(path: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to a Unix socket; a deep directory does not fit into a socket address, its descriptor does."""
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return await asyncio.open_unix_connection(f"/proc/self/fd/{directory}/{path.name}")
    finally:
        os.close(directory)


def _refusal(reply: bytes) -> HeadnodeError:
    """Return the error that an answer is.  `busy` and `fault` keep their class."""
    try:
        told = msgspec.json.decode(reply, type=dict[str, Any])
    except UNREADABLE:
        return Broken(code="head-answer", what="the head has sent an answer that is not JSON")
    kinds = {"busy": Unavailable, "fault": Broken}
    if kind := kinds.get(str(told.get("class"))):
        path = tuple(told.get("path") or ())
        return kind(code=str(told["code"]), what=str(told["what"]), fix=str(told["fix"]), path=path)
    return refusal_in(told)


def _no_head(state: Path) -> Unavailable:
    return Unavailable(
        code="no-head", what=f"no head is running in {str(state)!r}", fix="start one with: hn up"
    )


def _gone(trouble: Exception) -> Unavailable:
    return Unavailable(
        code="head-gone",
        what=f"the head has gone ({trouble}); whether the request was carried out is not known",
        fix="what was acknowledged is kept; repeat a creation with the same Idempotency-Key",
    )


def _busy(why: str) -> Unavailable:
    return Unavailable(code="gateway-busy", what=f"the gateway is busy: {why}", fix="try again later")
