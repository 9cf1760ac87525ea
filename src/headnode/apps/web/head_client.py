"""The head as the gateway sees it: verbs asked for a user, over a bounded pool of connections.

The head waits for no gateway; a head that is away is Unavailable ``no-head``.
Source:  docs/contracts/01-local-protocol.md, "Gateways".
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from headnode.apps.web.head_connection import (
    GRANTED,
    HeadConnection,
    HeadConversation,
    exchange,
    open_socket,
    refusal_of,
)
from headnode.core.model.bounds import WEB_UPDATES, WEB_UPDATES_OF_USER
from headnode.core.model.errors import BadRequest, Unavailable
from headnode.protocol.requests import VerbRequest

GATEWAY_SOCKET = "gateway.sock"  # in the state directory of the head
CONNECT_TIME = 5.0  # seconds
IDLE_TIME = 30.0  # seconds that a connection without a request is kept
MAX_CONNECTIONS = 256  # of all users, each with one request at a time
MAX_IDLE = 128  # connections that are kept for further requests
MAX_OF_USER = 16  # connections of one user
WAIT_TIME = 10.0  # seconds that a request waits for a connection

Answer = TypeVar("Answer", bound=msgspec.Struct)


class WebCaller(NamedTuple):
    """The user of a request: by name, or by a token that the head checks; and where the user is."""

    address: str
    user: str | None = None
    token: str | None = None
    by_key: bool | None = None  # a peer with the site key names the user

    @property
    def whose(self) -> tuple[str | None, str | None]:
        """What tells users apart."""
        return self.user, self.token


class _ConnectionRoom:
    """Counts the connections that are used, of each user and of all."""

    def __init__(self, most: int, of_user: int, what: str) -> None:
        self._room, self._most, self._most_of_user, self._what = asyncio.Semaphore(most), most, of_user, what
        self._of_user: Counter[tuple[str | None, str | None]] = Counter()

    @contextlib.asynccontextmanager
    async def counted(self, caller: WebCaller) -> AsyncIterator[None]:
        """Count a connection as long as it is used.

        Raises:  Unavailable ``gateway-busy``.
        """
        whose = caller.whose
        if self._of_user[whose] >= self._most_of_user:
            raise _busy(f"{self._most_of_user} {self._what} being answered")
        self._of_user[whose] += 1
        try:
            try:
                async with asyncio.timeout(WAIT_TIME):
                    await self._room.acquire()
            except TimeoutError:
                raise _busy(f"{self._most} connections of all users are used") from None
            try:
                yield
            finally:
                self._room.release()
        finally:
            self._of_user[whose] -= 1
            self._of_user += Counter()  # forgets users without one


class HeadClient:
    """Asks the head whose state directory is given."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self._idle: dict[WebCaller, list[HeadConnection]] = {}
        self._requests = _ConnectionRoom(MAX_CONNECTIONS, MAX_OF_USER, "of your requests are")
        self._streams = _ConnectionRoom(
            WEB_UPDATES.most, WEB_UPDATES_OF_USER.most, "of your long requests are"
        )

    async def ask(
        self, caller: WebCaller, verb: str, request: VerbRequest, answer: type[Answer], *, key: str = ""
    ) -> Answer:
        """Return the answer to a verb, as its type; `key` is an idempotency key.

        Raises:  the refusal of the head as the error that it is; Unavailable ``no-head``, ``head-gone``.
        """
        fields = {**msgspec.to_builtins(request), **({"idempotency": key} if key else {})}
        decoded = msgspec.json.decode(await self.ask_fields(caller, verb, fields))
        decoded.pop("ok", None)
        return msgspec.convert(decoded, answer)

    async def ask_plain(self, caller: WebCaller, verb: str, **fields: Any) -> dict[str, Any]:
        """Return the answer to a verb as a JSON object; fields that are None are left out.

        Raises:  as `ask`.
        """
        request = {name: value for name, value in fields.items() if value is not None}
        answer: dict[str, Any] = msgspec.json.decode(await self.ask_fields(caller, verb, request))
        del answer["ok"]
        return answer

    async def admit(self, caller: WebCaller) -> None:
        """Let the head check the user; the connection is kept for the request that follows.

        Raises:  NotAllowed ``token``; Unavailable.
        """
        async with self._requests.counted(caller):
            self._keep(caller, await self._connection(caller))

    async def ask_fields(self, caller: WebCaller, verb: str, fields: Mapping[str, Any]) -> bytes:
        """Return the answer to a verb as the JSON that the head has sent.

        Raises:  as `ask`.
        """
        request = msgspec.json.encode({"verb": verb, **fields})
        async with self._requests.counted(caller):
            connection = await self._connection(caller)
            try:
                reply = await exchange(connection, request)
            except BaseException:
                connection.close()  # its answer would be taken for that of the next request
                raise
            self._keep(caller, connection)
        if reply.startswith(GRANTED):
            return reply
        raise refusal_of(reply)

    async def redeem(self, login: str) -> dict[str, Any]:
        """Return the token for a login of `create_token`, which is used up by this.

        Raises:  the refusal of the head; Unavailable ``no-head``, ``head-gone``, ``no-answer``.
        """
        connection = await self._dial()
        try:
            reply = await exchange(
                connection, msgspec.json.encode({"verb": "exchange_login", "secret": login})
            )
        finally:
            connection.close()
        if not reply.startswith(GRANTED):
            raise refusal_of(reply)
        answer: dict[str, Any] = msgspec.json.decode(reply)
        return answer

    async def updates(
        self, caller: WebCaller, verb: str, request: VerbRequest, answer: type[Answer]
    ) -> AsyncIterator[Answer]:
        """Yield the answers to a verb that has several, up to the last one.

        Raises:  as `ask`.
        """
        async for update in self.update_fields(caller, verb, msgspec.to_builtins(request)):
            yield msgspec.convert(update, answer)

    async def update_fields(
        self, caller: WebCaller, verb: str, fields: Mapping[str, Any]
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the answers to a verb that has several, as JSON objects.

        Raises:  as `ask`.
        """
        async with self._streams.counted(caller):
            connection = await self._connect(caller)
            try:
                conversation = HeadConversation(connection)
                await conversation.send(msgspec.json.encode({"verb": verb, **fields}))
                while True:
                    answer: dict[str, Any] = msgspec.json.decode(await conversation.receive())
                    yield answer
                    if answer.get("done"):
                        return
            finally:
                connection.close()

    @contextlib.asynccontextmanager
    async def conversation(
        self, caller: WebCaller, verb: str, fields: Mapping[str, Any]
    ) -> AsyncIterator["HeadConversation"]:
        """Give the conversation of a verb that has one; it ends with the connection, which is its own.

        Raises:  Unavailable ``no-head``; what refuses it comes when the head is heard.
        """
        connection = await self._connect(caller)
        try:
            opened = HeadConversation(connection)
            await opened.send(msgspec.json.encode({"verb": verb, **fields}))
            yield opened
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

    async def _connection(self, caller: WebCaller) -> HeadConnection:
        """Return a connection for a user."""
        while idle := self._idle.get(caller):
            connection = idle.pop()
            if connection.is_open:
                return connection
            connection.close()
        return await self._connect(caller)

    def _keep(self, caller: WebCaller, connection: HeadConnection) -> None:
        """Keep a connection for the next request of the user, unless many are kept."""
        if sum(map(len, self._idle.values())) < MAX_IDLE:
            self._idle.setdefault(caller, []).append(connection)
        else:
            connection.close()

    async def _dial(self) -> HeadConnection:
        try:
            async with asyncio.timeout(CONNECT_TIME):
                return HeadConnection(*await open_socket(self.state / GATEWAY_SOCKET))
        except (OSError, TimeoutError):
            raise _no_head(self.state) from None

    async def _connect(self, caller: WebCaller) -> HeadConnection:
        """Return a new connection that speaks for the user.

        Raises:  Unavailable ``no-head``; the refusal of the head.
        """
        connection = await self._dial()
        greeting = {"verb": "act_for_user", **{k: v for k, v in caller._asdict().items() if v is not None}}
        try:
            await connection.send(msgspec.json.encode(greeting))
            reply = await connection.receive()
        except (ConnectionError, TimeoutError, BadRequest):
            connection.close()
            raise _no_head(self.state) from None
        if not reply.startswith(GRANTED):
            connection.close()
            raise refusal_of(reply)
        return connection


def _no_head(state: Path) -> Unavailable:
    return Unavailable(
        code="no-head", what=f"no head is running in {str(state)!r}", fix="start one with: hn up"
    )


def _busy(why: str) -> Unavailable:
    return Unavailable(code="gateway-busy", what=f"the gateway is busy: {why}", fix="try again later")
