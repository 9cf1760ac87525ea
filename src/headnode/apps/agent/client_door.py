"""The agent's door for users of this node: passes requests of their tasks to the head."""

import asyncio
import contextlib
import logging
import socket
from collections import Counter
from pathlib import Path

import msgspec

from headnode.adapters.processes.job_journal import Key
from headnode.adapters.wire.frame_codec import frame
from headnode.adapters.wire.frames import Streams, listen, quiet_at_the_end, read_frame
from headnode.adapters.wire.peers import peer_ids
from headnode.apps.agent.head_link import Dial
from headnode.apps.agent.node_services import NodeServices
from headnode.core.model.bounds import UNREADABLE
from headnode.core.model.errors import BadRequest, HeadnodeError, NotAllowed, Unavailable
from headnode.core.model.quantities import JobId

log = logging.getLogger("headnode.agent")

SOCKET = "hn.sock"
TIMEOUT = 15.0  # seconds for a client to identify its attempt, and for the head to answer that
MAX_GREETING = 4096  # bytes of it
MAX_CONNECTIONS = 160  # connections, each of two descriptors, of which an agent has 1024
MAX_OF_ONE = 128  # connections of one user
PIECE = 64 * 1024  # bytes that are passed on at once


class TaskEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a process says first: the attempt to which it belongs; empty for a process outside of tasks."""

    task: str = ""


class AgentClientDoor:
    """Passes on what users of this node and the head say to each other, without looking into it."""

    def __init__(self, node: str, services: NodeServices, dial: Dial) -> None:
        self._node, self._services, self._dial = node, services, dial
        self._users: Counter[int] = Counter()  # connections of each user
        self._folders: set[Path] = set()
        self._servers: list[asyncio.Server] = []
        self._opening: set[asyncio.Task[None]] = set()

    def open(self, folder: Path) -> None:
        """Listen in a directory, from now on.

        Raises:  OSError.
        """
        if folder in self._folders:
            return
        listener = listen(folder / SOCKET, 0o666)  # the kernel says who speaks
        self._folders.add(folder)
        opening = asyncio.ensure_future(self._answer(listener))
        self._opening.add(opening)
        opening.add_done_callback(self._opening.discard)

    async def _answer(self, listener: socket.socket) -> None:
        serve = quiet_at_the_end(self._serve)
        self._servers.append(await asyncio.start_unix_server(serve, sock=listener, limit=PIECE))

    def close(self) -> None:
        """Listen no more."""
        for server in self._servers:
            server.close()
        for folder in self._folders:
            (folder / SOCKET).unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, uid, _ = peer_ids(writer.get_extra_info("socket"))
        self._users[uid] += 1
        try:
            await self._pass_on((reader, writer), uid)
        except HeadnodeError as error:
            writer.write(frame(_refusal(error)))
        except (OSError, TimeoutError) as error:  # a TimeoutError of the head is told by _admitted
            log.debug("a client on this node has disconnected: %s", error)
        finally:
            self._users[uid] -= 1
            self._users += Counter()  # forgets those who are gone
            writer.close()

    async def _pass_on(self, client: Streams, uid: int) -> None:
        """Serve one connection until either side hangs up.

        Raises:  HeadnodeError when it is refused; OSError.
        """
        if self._users[uid] > 2 * MAX_OF_ONE or self._users.total() > 2 * MAX_CONNECTIONS:
            return
        async with asyncio.timeout(TIMEOUT):
            first = await read_frame(client[0], MAX_GREETING)
        if first is None:
            return
        if self._users[uid] > MAX_OF_ONE or self._users.total() > MAX_CONNECTIONS:  # now he hears the refusal
            raise Unavailable(
                code="too-many-clients",
                what="too many programs of this node ask the head at the moment",
                fix="try again later",
            )
        job, key = self._attempt(first, uid)
        head, answer = await self._admitted(job, key)
        try:
            client[1].write(frame(answer))
            await _pump(client, head)
        finally:
            head[1].close()

    def _attempt(self, first: bytes, uid: int) -> tuple[JobId, Key]:
        """Return the attempt by which a user asks.

        Raises:  BadRequest; NotAllowed ``no-task``.
        """
        try:
            entry = msgspec.json.decode(first, type=TaskEntry)
        except UNREADABLE as error:
            raise BadRequest(
                code="request",
                what=f"the request was not understood: {error}",
                fix="use a client of the same version as the agent",
            ) from None
        attempt = self._services.attempt_of(uid, entry.task)
        if attempt is None:
            raise NotAllowed(
                code="no-task",
                what=f"no task of yours runs on node {self._node!r}, and its agent speaks for tasks only",
                fix="log in: `hn token new` on the head's machine, then `hn login` here",
            )
        return attempt

    async def _admitted(self, job: JobId, key: Key) -> tuple[Streams, bytes]:
        """Return a connection to the head on which it answers the user of an attempt, and its answer so far.

        Raises:  Unavailable ``head-away``.
        """
        why, streams = "it does not answer", None
        request = {"verb": "act_for_task", "job": job, "task": key[0], "instance": key[1], "attempt": key[2]}
        try:
            async with asyncio.timeout(TIMEOUT):
                streams = await self._dial()
                streams[1].write(frame(msgspec.json.encode(request)))
                answer = await read_frame(streams[0], MAX_GREETING)
            if answer is not None:
                return streams, answer
            why = "it closed the connection"
        except TimeoutError:
            pass
        except (OSError, BadRequest) as error:
            why = str(error)
        if streams is not None:
            streams[1].close()
        raise Unavailable(
            code="head-away",
            what=f"the head cannot be reached from this node: {why}",
            fix="try again later",
        )


async def _pump(one: Streams, other: Streams) -> None:
    """Pass on what both say until one of them has said all."""
    ways = [asyncio.ensure_future(_copy(one[0], other[1])), asyncio.ensure_future(_copy(other[0], one[1]))]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError, TimeoutError):
        while piece := await reader.read(PIECE):
            writer.write(piece)
            await writer.drain()


def _refusal(error: HeadnodeError) -> bytes:
    """Return an error as clients get it."""
    return msgspec.json.encode({"ok": False, **error.as_fields()})
