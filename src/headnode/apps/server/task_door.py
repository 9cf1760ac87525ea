"""What users of a node ask: their tasks, by way of the agent, who names the attempt that asks.

Source:  docs/decisions/0027-hn-on-nodes.md.
"""

import asyncio
import logging
from collections import Counter

from headnode.adapters.nodes.framing import read_frame
from headnode.adapters.nodes.keeping_alive import keep_alive
from headnode.apps.server.callers import Attempt, TaskCaller
from headnode.apps.server.conversation import Conversation, send
from headnode.apps.server.desk import Desk
from headnode.apps.server.requests import read_request, read_wish, refusal
from headnode.apps.server.watching import Watchers
from headnode.apps.server.wishes import SpeakForTaskWish
from headnode.core.model.errors import BadRequest, HeadnodeError, Unavailable
from headnode.core.model.quantities import JobId

log = logging.getLogger("headnode.clients")

PATIENCE = 15.0  # seconds that a node has to say for whom it speaks
LARGEST_GREETING = 4096  # bytes of that
MOST_OF_NODE = 256  # connections
MOST = 1_000  # connections of all nodes
LAST_ANSWER = 2.0  # seconds between the end of an attempt and that of its connections


class TaskDoor:
    """Serves every connection on which a node speaks for a task.  A bad one costs itself only."""

    def __init__(self, desk: Desk, watchers: Watchers) -> None:
        self._desk, self._watchers = desk, watchers
        self._nodes: Counter[str] = Counter()  # connections of each node

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, node: str, key: str
    ) -> None:
        """Serve one connection of a node, which has shown its certificate, until it is over."""
        keep_alive(writer)
        if self._nodes[node] >= 2 * MOST_OF_NODE or self._nodes.total() >= 2 * MOST:
            return
        self._nodes[node] += 1
        try:
            caller = await self._greet(reader, node, key)
            if caller is not None:
                send(writer, {"ok": True, "user": caller.user().name, "cluster": self._desk.name})
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
            with self._desk.shares.connected(caller.user().uid, administrator=False) as share:
                await Conversation(self._desk, self._watchers, caller, share, (reader, writer)).go_on()
        finally:
            ending.cancel()

    async def _end_with(self, caller: TaskCaller, writer: asyncio.StreamWriter) -> None:
        """Close a connection soon after its attempt is over; whatever goes on there hears its end."""
        bell = self._watchers.watch([caller.attempt.job])
        try:
            while caller.is_there():
                await bell.wait()
                bell.take()
        finally:
            self._watchers.leave([caller.attempt.job], bell)
        await asyncio.sleep(LAST_ANSWER)
        writer.close()

    async def _greet(self, reader: asyncio.StreamReader, node: str, key: str) -> TaskCaller | None:
        """Return for whom the node speaks; None: it is gone.

        Raises:  NotAllowed ``no-task``; Unavailable ``too-many-clients``; BadRequest.
        """
        async with asyncio.timeout(PATIENCE):
            data = await read_frame(reader, LARGEST_GREETING)
        if data is None:
            return None
        if self._nodes[node] > MOST_OF_NODE or self._nodes.total() > MOST:  # now it hears the refusal
            raise _full()
        verb, fields = read_request(data)
        wish = read_wish(SpeakForTaskWish, verb, fields)
        if verb != "speak_for_task" or not isinstance(wish, SpeakForTaskWish):
            raise BadRequest(code="request", what=f"a node begins with speak_for_task, not with {verb!r}")
        attempt = Attempt(JobId(wish.job), wish.task, wish.instance, wish.attempt)
        return TaskCaller(self._desk, node, key, attempt)


def _full() -> Unavailable:
    return Unavailable(
        code="too-many-clients",
        what="too many tasks of this node use the head at the moment",
        fix="try again later",
    )
