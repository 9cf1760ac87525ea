"""Requests of tasks, which the agent of their node passes on and names the attempt.

Source:  docs/decisions/0027-hn-on-nodes.md.
"""

import asyncio
import logging
from collections import Counter
from typing import NamedTuple

from msgspec.structs import replace

from headnode.adapters.identity.users import Account
from headnode.adapters.nodes.streams import place_of
from headnode.adapters.wire.frames import keep_alive, read_frame
from headnode.apps.server.api.verbs import read_fields, read_request, refusal
from headnode.apps.server.doors.conversation import send, serve_client
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.errors import BadRequest, HeadnodeError, NotAllowed, Unavailable
from headnode.core.model.node import NodeState
from headnode.core.model.quantities import JobId
from headnode.core.model.user import User
from headnode.core.state.job_record import JobRecord
from headnode.protocol.requests import JobIdRequest


class SpeakForTaskRequest(JobIdRequest, frozen=True):
    """act_for_task: the attempt of whose user a node passes on the requests."""

    task: int
    instance: int
    attempt: int


class TaskAttempt(NamedTuple):
    """One attempt of an instance, as a node names it; task 0 is a command beside the tasks."""

    job: JobId
    task: int
    instance: int
    attempt: int


class TaskCaller:
    """A user represented by a node on which an attempt of this user runs.

    The node names the attempt; the head knows its user, who has no role here: a node that lies gains only
    the rights of the users whose tasks it runs anyway.
    """

    near = False
    session = False

    def __init__(self, context: ServerContext, node: str, key: str, attempt: TaskAttempt) -> None:
        """`key` is the digest of the key that the node has shown.

        Raises:  NotAllowed ``no-task``, as `user` does.
        """
        self._context, self._node, self._key, self.attempt = context, node, key, attempt
        self.origin, self.host = f"node {node}, task {'.'.join(map(str, attempt))}", node
        self.user()

    def user(self) -> User:
        """Return the user, as long as the attempt runs on the node.

        Raises:  NotAllowed ``no-task``.
        """
        record = self._record()
        known = self._context.roles.of(Account(record.owner, record.uid, record.gid))
        return replace(known, administrator=False, operator=False, by_node=True)

    def is_there(self) -> bool:
        """Whether the node is ours, and has a part in the attempt or in a command beside the tasks."""
        node = self._context.cluster.nodes.get(self._node)
        if node is None or node.key != self._key or node.state is NodeState.PENDING:
            return False
        if self.attempt.task == 0:
            return self._context.sessions.here(self._node, self.attempt.job)
        return any(name == self._node for name, _ in place_of(self._context.cluster, *self.attempt))

    def _record(self) -> JobRecord:
        record = self._context.cluster.jobs.get(self.attempt.job)
        if record is None or not self.is_there():
            raise NotAllowed(
                code="no-task",
                what=f"task {'.'.join(map(str, self.attempt[:3]))} does not run on node {self._node!r}",
                fix="outside of tasks, log in: `hn token new` on the head's machine, then `hn login` here",
            )
        return record


log = logging.getLogger("headnode.clients")

GREETING_TIMEOUT = 15.0  # seconds for a node to name the attempt that it represents
MAX_GREETING = 4096  # bytes of that
MAX_CONNECTIONS_OF_NODE = 256  # connections
MAX_TASK_CONNECTIONS = 1_000  # connections of all nodes
LAST_ANSWER = 2.0  # seconds between the end of an attempt and that of its connections


class TaskDoor:
    """Serves every connection on which a node speaks for a task.  A bad one costs itself only."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._nodes: Counter[str] = Counter()  # connections of each node

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, node: str, key: str
    ) -> None:
        """Serve one connection of a node, which has shown its certificate, until it is over."""
        keep_alive(writer)
        if (
            self._nodes[node] >= 2 * MAX_CONNECTIONS_OF_NODE
            or self._nodes.total() >= 2 * MAX_TASK_CONNECTIONS
        ):
            return
        self._nodes[node] += 1
        try:
            caller = await self._greet(reader, node, key)
            if caller is not None:
                send(writer, {"ok": True, "user": caller.user().name, "cluster": self._context.name})
                await self._serve_known(caller, reader, writer)
        except HeadnodeError as error:
            send(writer, refusal(error))
        except (ConnectionError, TimeoutError) as error:
            log.debug("the connection of a task of node %s was closed: %s", node, error)
        finally:
            self._nodes[node] -= 1
            self._nodes += Counter()  # forgets those who are gone

    async def _serve_known(
        self, caller: TaskCaller, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer a task until it hangs up, or its attempt is over."""
        ending = asyncio.ensure_future(self._end_with(caller, writer))
        try:
            await serve_client(self._context, caller, (reader, writer))
        finally:
            ending.cancel()

    async def _end_with(self, caller: TaskCaller, writer: asyncio.StreamWriter) -> None:
        """Close a connection soon after its attempt is over; whatever goes on there hears its end."""
        signal = self._context.watchers.watch([caller.attempt.job])
        try:
            while caller.is_there():
                await signal.wait()
                signal.take()
        finally:
            self._context.watchers.leave([caller.attempt.job], signal)
        await asyncio.sleep(LAST_ANSWER)
        writer.close()

    async def _greet(self, reader: asyncio.StreamReader, node: str, key: str) -> TaskCaller | None:
        """Return the user that the node represents; None if the connection has closed.

        Raises:  NotAllowed ``no-task``; Unavailable ``too-many-clients``; BadRequest.
        """
        async with asyncio.timeout(GREETING_TIMEOUT):
            data = await read_frame(reader, MAX_GREETING)
        if data is None:
            return None
        if (
            self._nodes[node] > MAX_CONNECTIONS_OF_NODE or self._nodes.total() > MAX_TASK_CONNECTIONS
        ):  # now it hears the refusal
            raise _too_many_clients()
        verb, fields = read_request(data)
        request = read_fields(SpeakForTaskRequest, verb, fields)
        if verb != "act_for_task" or not isinstance(request, SpeakForTaskRequest):
            raise BadRequest(code="request", what=f"a node begins with act_for_task, not with {verb!r}")
        attempt = TaskAttempt(JobId(request.job), request.task, request.instance, request.attempt)
        return TaskCaller(self._context, node, key, attempt)


def _too_many_clients() -> Unavailable:
    return Unavailable(
        code="too-many-clients",
        what="too many tasks of this node use the head at the moment",
        fix="try again later",
    )
