"""Asynchronous requests to a head: on its Unix socket, through the agent of a node, or by TLS."""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

import msgspec

from headnode.adapters.wire.frame_codec import HEADER, frame, size_of
from headnode.apps.client.client import KEY, RETRY_PAUSE, RETRY_TIME, lost_answer
from headnode.apps.client.connection import MAX_FRAME, TIMEOUT, Connection, granted
from headnode.apps.client.failures import failure_of
from headnode.apps.client.local_addresses import SOCKET_NAME, AgentRoute, WebRoute
from headnode.core.model.errors import HeadnodeError, Unavailable

if TYPE_CHECKING:
    from headnode.adapters.wire.peers import Address
    from headnode.apps.client.head_location import Head
    from headnode.apps.client.logins import HeadLogin
    from headnode.apps.client.tls_connection import SearchForHead

TROUBLE = (OSError, EOFError, ValueError)
"""How a connection fails: timeouts are `OSError`, the end of the stream `EOFError`, bad JSON `ValueError`."""


class AsyncConnection:
    """A connection to a head, for one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def to(cls, head: "Head") -> "AsyncConnection":
        """Connect to a head.

        Raises:  OSError; HeadnodeError if the head is on another machine and is not reached, or refuses us.
        """
        if isinstance(head, str):
            return await cls._on(await asyncio.to_thread(Connection.to, os.path.join(head, SOCKET_NAME)))  # noqa: PTH118
        if isinstance(head, AgentRoute):
            from headnode.apps.client.agent_connection import connect_through_agent

            return await cls._on(await asyncio.to_thread(connect_through_agent, head))
        if isinstance(head, WebRoute):
            return await AsyncWebConnection.to_gateway(head)
        from headnode.apps.client.tls_connection import SearchForHead

        search = SearchForHead(head)
        for address in search:
            try:
                return await cls._logged_in(head, address, search)
            except HeadnodeError as error:
                search.failed(address, error)
        raise search.failure()

    @classmethod
    async def _logged_in(
        cls, login: "HeadLogin", address: "Address", search: "SearchForHead"
    ) -> "AsyncConnection":
        """Connect to an address of a head of another machine, as the user of a login.

        Raises:  Unavailable ``head-away`` and ``old-head``; NotAllowed ``wrong-head``; the head's refusal.
        """
        from headnode.adapters.wire.peers import written_address
        from headnode.apps.client import tls_connection as tls

        timeout = tls.CONNECT if search.is_choice else tls.TIMEOUT
        connection = cls(*await tls.open_streams(login, address, timeout=timeout))
        try:
            await connection.send({"verb": "log_in", "token": login.token})
            search.found(address, granted(await connection.receive(tls.TIMEOUT)))
        except TROUBLE as error:
            await connection.close()
            raise tls.head_away(written_address(address), str(error) or tls.NO_ANSWER) from None
        except BaseException:
            await connection.close()
            raise
        return connection

    @classmethod
    async def _on(cls, connection: Connection) -> "AsyncConnection":
        """Take the socket of a connection over."""
        taken = socket.socket(fileno=connection.detach())
        taken.setblocking(False)
        return cls(*await asyncio.open_unix_connection(sock=taken))

    async def send(self, request: dict[str, Any]) -> None:
        """Send one request.

        Raises:  OverflowError when it is larger than `MAX_FRAME`; OSError when the head is gone.
        """
        body = msgspec.json.encode(request)
        if len(body) > MAX_FRAME:
            raise OverflowError(f"a request of {len(body)} bytes is larger than {MAX_FRAME}")
        self._writer.write(frame(body))
        await self._writer.drain()

    async def receive(self, timeout: float | None = TIMEOUT) -> dict[str, Any]:
        """Return the next answer.

        Unit:    seconds (`timeout`; None waits for ever).
        Raises:  TimeoutError; EOFError when the head hangs up; ValueError when it answers no JSON object.
        """
        async with asyncio.timeout(timeout):
            size = size_of(await self._reader.readexactly(HEADER), MAX_FRAME)
            body = await self._reader.readexactly(size)
        try:
            return msgspec.json.decode(body, type=dict[str, Any])
        except msgspec.MsgspecError as error:
            raise ValueError(str(error)) from None

    @property
    def ended(self) -> bool:
        """Whether the head has hung up."""
        return self._reader.at_eof() or self._writer.is_closing()

    async def close(self) -> None:
        """Hang up."""
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


class AsyncWebConnection(AsyncConnection):
    """A connection to the REST API of a gateway."""

    def __init__(self, route: WebRoute, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from headnode.apps.client.web_connection import WebExchange

        super().__init__(reader, writer)
        self._exchange = WebExchange(route)

    @classmethod
    async def to_gateway(cls, route: WebRoute) -> "AsyncWebConnection":
        """Connect to a gateway.

        Raises:  Unavailable ``head-away``; NotAllowed ``wrong-gateway``; BadRequest ``certificate``.
        """
        from headnode.apps.client import web_connection as web

        context = web.tls_context(route)
        try:
            async with asyncio.timeout(web.CONNECT_TIME):
                streams = await asyncio.open_connection(route.host, route.port, ssl=context)
        except OSError as error:  # also when it takes too long
            raise web.unreached(route, error) from None
        return cls(route, *streams)

    async def send(self, request: dict[str, Any]) -> None:
        """Send one request.

        Raises:  as `WebExchange.request`; OSError.
        """
        self._writer.write(self._exchange.request(request))
        await self._writer.drain()

    async def receive(self, timeout: float | None = TIMEOUT) -> dict[str, Any]:
        """Return the next answer.

        Unit:    seconds (`timeout`; None waits as long as the gateway shows that it is there).
        Raises:  TimeoutError; EOFError; ValueError.
        """
        from headnode.apps.client.web_connection import PIECE, SILENCE

        async with asyncio.timeout(timeout):
            while (answer := self._exchange.answer()) is None:
                reading = asyncio.ensure_future(self._reader.read(PIECE))
                done, _ = await asyncio.wait((reading,), timeout=SILENCE)
                if not done:
                    reading.cancel()
                    raise EOFError(f"the gateway was silent for {SILENCE:g} seconds")
                self._exchange.receive(reading.result())
        return answer

    @property
    def ended(self) -> bool:
        """Whether no other request can follow on this connection."""
        return super().ended or not self._exchange.may_be_used_again


class AsyncHeadTransport:
    """Carries requests to a head, one after the other; each stream of answers has a connection of its own."""

    def __init__(self, head: "Head") -> None:
        self.head = head
        self._connection: AsyncConnection | None = None
        self._turn = asyncio.Lock()

    async def ask(self, verb: str, fields: dict[str, Any]) -> dict[str, Any]:
        """Return the answer of the head.

        If a request with an idempotency key loses its answer, it is sent again for some seconds.
        Raises:  the head's refusal as the error it is; Unavailable ``no-head`` or ``head-gone``.
        """
        request = {"verb": verb, **fields}
        async with self._turn:
            sent = False
            try:
                connection = await self._connected()
                await connection.send(request)
                sent = True
                return granted(await connection.receive())
            except (*TROUBLE, OverflowError) as trouble:
                failure = await self._failure(trouble)
                if KEY not in fields or not sent or isinstance(trouble, TimeoutError):
                    raise failure from None
            except HeadnodeError:
                raise
            except BaseException:
                await self.close()  # interrupted: the answer to this request must not answer another one
                raise
            try:
                return granted(await self._ask_again(request, failure))
            except asyncio.CancelledError:
                await self.close()
                raise

    async def _connected(self) -> AsyncConnection:
        if self._connection is not None and self._connection.ended:
            await self.close()  # the head was started anew since the last answer
        if self._connection is None:
            self._connection = await AsyncConnection.to(self.head)
        return self._connection

    async def _ask_again(self, request: dict[str, Any], failure: HeadnodeError) -> dict[str, Any]:
        """Return the answer to a request with a key whose first answer was lost.

        Raises:  Unavailable with the code of `failure` and the key, when the head does not come back in time.
        """
        deadline = asyncio.get_running_loop().time() + RETRY_TIME
        while asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(RETRY_PAUSE)
            try:
                connection = await self._connected()
                await connection.send(request)
                return await connection.receive()
            except (*TROUBLE, Unavailable):  # Unavailable: it cannot be connected to yet
                await self.close()
        raise lost_answer(failure, request)

    async def follow(
        self, verb: str, fields: dict[str, Any], timeout: float | None = None
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the answers of the head as they come, up to the one that is marked as the last.

        Unit:    seconds (`timeout`, for all answers; None waits for ever).
        Raises:  TimeoutError; as `ask`.
        """
        own, clock = AsyncHeadTransport(self.head), asyncio.get_running_loop().time
        deadline = None if timeout is None else clock() + timeout
        try:
            connection = await own._connected()
            await connection.send({"verb": verb, **fields})
            done = False
            while not done:
                left = None if deadline is None else max(0.0, deadline - clock())
                answer = granted(await connection.receive(left))
                done = bool(answer.get("done"))
                yield answer
        except (*TROUBLE, OverflowError) as trouble:
            if isinstance(trouble, TimeoutError) and deadline is not None and clock() >= deadline:
                raise
            raise await own._failure(trouble) from trouble
        finally:
            await own.close()

    async def close(self) -> None:
        """Hang up; the next request connects anew."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _failure(self, trouble: Exception) -> HeadnodeError:
        connected = self._connection is not None
        await self.close()
        if isinstance(trouble, asyncio.IncompleteReadError):
            trouble = EOFError("the head closed the connection")
        state = self.head if isinstance(self.head, str) else ""
        address = "" if isinstance(self.head, str) else self.head.address
        return failure_of(trouble, state, connected=connected, address=address)


async def pause(seconds: float) -> None:
    """Wait for some time."""
    await asyncio.sleep(seconds)
