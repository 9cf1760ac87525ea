"""Conversations over the gateway: a command on many nodes as lines of JSON, a shell of a job as a WebSocket.

They are those of the local protocol.  The head carries them out and audits them as the user; they end with
the connection of the client.
Source:  docs/contracts/05-rest-api.md, "Commands on nodes" and "Shells"; RFC 6455.
"""

import asyncio
import contextlib
import re
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from typing import Any, Final

import msgspec
from starlette.routing import BaseRoute, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from headnode.apps.web.head_client import HeadClient, WebCaller
from headnode.apps.web.head_connection import HeadConversation
from headnode.apps.web.identity import RequestIdentity, is_same
from headnode.apps.web.problems import cross_site, problem_of, problem_response, wrong
from headnode.core.model.bounds import (
    UNREADABLE,
    WEB_CONVERSATIONS,
    WEB_CONVERSATIONS_OF_USER,
    WEB_HEAD_TIME,
    WEB_RUN_NODES,
)
from headnode.core.model.errors import HeadnodeError, Unavailable
from headnode.protocol.rest_routes import PREFIX

SHELL_PATH: Final = f"{PREFIX}/jobs/{{job}}/shell"
BETWEEN_CHECKS: Final = 60.0  # seconds after which it is checked that the user is still one
NOT_RUN: Final = 255  # the exit status of a command that could not run, as in the local protocol
_END: Final = msgspec.json.encode({"end": True})
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NUMBER: Final = re.compile(r"[0-9]{1,15}")
_CLOSED_AS_MEANT, _CLOSED_WITH_PROBLEM = 1000, 1008  # RFC 6455, section 7.4.1

Line = dict[str, Any]


class Conversations:
    """The conversations of all users: commands on nodes, and shells."""

    def __init__(self, head: HeadClient, identity: RequestIdentity) -> None:
        self._head, self._identity = head, identity
        self._open: Counter[tuple[str | None, str | None]] = Counter()

    def routes(self) -> list[BaseRoute]:
        """Return the address of shells; commands on nodes are in the table of the REST API."""
        return [WebSocketRoute(SHELL_PATH, self.serve_shell)]

    @contextlib.contextmanager
    def _counted(self, caller: WebCaller) -> Iterator[None]:
        """Count a conversation as long as it lasts.

        Raises:  Unavailable ``gateway-busy``.
        """
        whose = caller.whose
        own, all_users = self._open[whose], self._open.total()
        if all_users >= WEB_CONVERSATIONS.most or own >= WEB_CONVERSATIONS_OF_USER.most:
            raise Unavailable(
                code="gateway-busy",
                what=f"{own} conversations of yours are open, {all_users} of all users",
                fix="end a shell or a command on nodes first",
            )
        self._open[whose] += 1
        try:
            yield
        finally:
            self._open[whose] -= 1
            self._open += Counter()  # forgets users without one

    # ---------------------------------------------------------------- commands on nodes

    async def run_on_nodes(self, caller: WebCaller, fields: Mapping[str, Any]) -> AsyncGenerator[Line, None]:
        """Yield what a command on many nodes says: first the nodes, then output and ends, at last ``done``.

        fields: of the verb run_on_nodes
        Raises:  what refuses it; Unavailable ``gateway-busy``, ``no-head``.
        """
        with self._counted(caller):
            async with self._head.conversation(caller, "run_on_nodes", fields) as run:
                begun: Line = msgspec.json.decode(await run.receive())
                yield begun
                async with aclosing(self._parts(caller, begun["run"], begun["nodes"])) as parts:
                    async for line in parts:
                        yield line
        yield {"done": True}

    async def _parts(self, caller: WebCaller, run: int, nodes: list[str]) -> AsyncGenerator[Line, None]:
        """Yield what the command says on each node; on a few nodes at a time."""
        waiting = iter(nodes)
        lines: asyncio.Queue[Line] = asyncio.Queue(1)  # the head waits for a client that reads slowly
        left = len(nodes)
        workers = [
            asyncio.create_task(self._work(caller, run, waiting, lines))
            for _ in range(min(len(nodes), WEB_RUN_NODES.most))
        ]
        try:
            while left:
                line = await lines.get()
                left -= "exit" in line
                yield line
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _work(
        self, caller: WebCaller, run: int, waiting: Iterator[str], lines: asyncio.Queue[Line]
    ) -> None:
        """Run the command on one node after the other."""
        for node in waiting:
            try:
                async with self._head.conversation(caller, "run_on_node", {"run": run, "node": node}) as part:
                    await part.send(_END)
                    while "exit" not in (line := await _next_line(part, node)):
                        await lines.put(line)
            except HeadnodeError as error:
                line = {"node": node, "exit": NOT_RUN, "problem": error.what}
            await lines.put(line)

    # ---------------------------------------------------------------- shells

    async def serve_shell(self, client: WebSocket) -> None:
        """Connect a client to the shell of a job, as long as both are there.

        The first message has the fields of the verb shell without ``job``, and ``csrf`` from a page.
        """
        job = client.path_params["job"]
        try:
            if not _NUMBER.fullmatch(job):
                raise wrong("field", "the address has no job id", path=("job",))
            caller, secret = self._identity.socket_caller(client)
            await self._head.admit(caller)
        except HeadnodeError as error:
            await client.send_denial_response(problem_response(error))
            return
        await client.accept()
        try:
            with self._counted(caller):
                fields = {**await _first_message(client, secret), "job": int(job)}
                async with self._head.conversation(caller, "shell", fields) as shell:
                    await self._relay(client, shell)
        except HeadnodeError as error:
            await _close_with(client, error)
        except (WebSocketDisconnect, TimeoutError):
            return  # the client has gone, or reads nothing
        else:
            with contextlib.suppress(WebSocketDisconnect, RuntimeError):  # it may have gone meanwhile
                await client.close(_CLOSED_AS_MEANT)

    async def _relay(self, client: WebSocket, shell: HeadConversation) -> None:
        """Pass on what the head and the client say, until one of them has gone or the head is done.

        Raises:  the refusal of the head; NotAllowed when the user is none any more; WebSocketDisconnect.
        """
        parts = [
            asyncio.create_task(_to_client(client, shell)),
            asyncio.create_task(_to_head(client, shell)),
            asyncio.create_task(self._check(client)),
        ]
        try:
            done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            for part in done:
                part.result()
        finally:
            for part in parts:
                part.cancel()
            await asyncio.gather(*parts, return_exceptions=True)

    async def _check(self, client: WebSocket) -> None:
        """See now and then whether the user is still logged in, and known to the head.

        Raises:  NotAllowed.
        """
        while True:
            await asyncio.sleep(BETWEEN_CHECKS)
            await self._head.admit(self._identity.socket_caller(client)[0])


async def _next_line(part: HeadConversation, node: str) -> Line:
    """Return the next thing that a command says on a node."""
    while True:
        line: Line = msgspec.json.decode(await part.receive())
        if "consumed" not in line:  # its input has ended
            line.pop("done", None)
            return {"node": node, **line}


async def _first_message(client: WebSocket, secret: str | None) -> dict[str, Any]:
    """Return the fields of the first message.

    Raises:  NotAllowed ``cross-site`` without the secret of the session; BadRequest ``request``;
             Unavailable ``too-slow``; WebSocketDisconnect.
    """
    try:
        async with asyncio.timeout(WEB_HEAD_TIME.most):
            fields: dict[str, Any] = _OBJECT.decode(await _message(client))
            token = msgspec.json.decode(fields.pop("csrf", b'""'), type=str)
    except TimeoutError:
        raise Unavailable(code="too-slow", what="the first message did not come", fix="try again") from None
    except UNREADABLE as error:
        raise wrong("request", f"the first message is not a JSON object: {error}") from None
    if not is_same(token, secret or ""):
        raise cross_site()
    if taken := fields.keys() & {"verb", "job", "idempotency"}:
        raise wrong("field", f"the first message must not have {min(taken)!r}", path=(min(taken),))
    return fields


async def _message(client: WebSocket) -> bytes:
    """Return the next message of a client.

    Raises:  WebSocketDisconnect.
    """
    message = await client.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", 1005))
    return message.get("bytes") or (message.get("text") or "").encode()


async def _to_client(client: WebSocket, shell: HeadConversation) -> None:
    """Tell the client what the head says, up to the last frame."""
    while True:
        frame = await shell.receive()
        await client.send_text(frame.decode())
        if "done" in _OBJECT.decode(frame):
            return


async def _to_head(client: WebSocket, shell: HeadConversation) -> None:
    """Tell the head what the client says; the head checks it."""
    while True:
        await shell.send(await _message(client))


async def _close_with(client: WebSocket, error: HeadnodeError) -> None:
    """Tell the client why the conversation ends."""
    with contextlib.suppress(WebSocketDisconnect, RuntimeError, TimeoutError):  # it may have gone
        await client.send_text(msgspec.json.encode({"problem": problem_of(error)}).decode())
        await client.close(_CLOSED_WITH_PROBLEM)
