"""The head's own conversations with commands on nodes: what clients run there beside the tasks of jobs.

They are told of like commands that tasks launch, but the launcher is the head: a route whose first node is
`HEAD`.  A route of a task is to the terminal of that attempt; one of task 0 is to a command beside the tasks.
The jobs of commands outside the queue have numbers below 0, and end with the connection of their node.
"""

import asyncio
import secrets
from collections.abc import Callable, Mapping

from headnode.adapters.nodes import messages as m
from headnode.adapters.nodes.streams import Stream, look_after
from headnode.core.lifecycle.events import Place
from headnode.core.model.quantities import JobId

HEAD = ""
LOST_AFTER = 30.0  # seconds in which nothing came from the node
_MOST_JOBS = 1 << 53

Attempt = tuple[int, int, int]
"""Task, instance and attempt."""
BESIDE: Attempt = (0, 0, 0)
"""No attempt: a command beside the tasks."""


def number_outside() -> JobId:
    """Return the number of a job outside the queue; none before had it, whichever head made it."""
    return JobId(-1 - secrets.randbelow(_MOST_JOBS))


class Sessions:
    """All conversations of the head."""

    def __init__(self, say: Callable[[str, m.FromHead], None]) -> None:
        """`say` sends a message to a node, if it is there."""
        self._say = say
        self._streams: dict[str, Stream] = {}
        self._looking: asyncio.Task[None] | None = None

    def begin(self, node: str, job: JobId, attempt: Attempt, launch: Callable[[m.Route], m.Launch]) -> Stream:
        """Begin a conversation with what `launch` asks for; to be ended with `end`."""
        route = m.Route(job, *attempt, secrets.token_hex(8), HEAD, node)

        def say(message: m.Launching) -> None:
            self._say(node, message)

        stream = self._streams[route.number] = Stream(say, route, back=False)
        if self._looking is None:
            self._looking = asyncio.ensure_future(look_after(self._streams.values, lambda: LOST_AFTER))
        stream.launch(launch(route))
        return stream

    async def end(self, stream: Stream) -> None:
        """Let go of a conversation: a command that still runs is ended."""
        try:
            if not stream.failed:
                await stream.leave()
        finally:
            self._streams.pop(stream.route.number, None)
            if not self._streams and self._looking is not None:
                self._looking.cancel()
                self._looking = None

    def hear(self, node: str, message: m.LaunchPiece | m.LaunchTaken) -> None:
        """Take in what a node says of a command of ours."""
        stream = self._streams.get(message.route.number)
        if stream is not None and stream.route.target == node and message.back:
            stream.hear(message)
        elif not isinstance(message, m.LaunchPiece) or message.kind != "failed":
            self._say(node, m.LaunchPiece(message.route, False, 0, "failed", b"nobody listens any more"))

    def here(self, node: str, job: JobId) -> bool:
        """Tell whether a job has conversations with a node."""
        return any((each.route.target, each.route.job) == (node, job) for each in self._streams.values())

    def node_away(self, node: str) -> None:
        """The connection of a node is gone, and with it what it ran outside the queue."""
        for stream in self._streams.values():
            if stream.route.target == node and stream.route.job < 0:
                stream.fail(f"node {node} went away")

    def keep_only(self, job: JobId, places: Mapping[str, object] | Place) -> None:
        """End the conversations of a job with nodes that it does not have any more."""
        held = set(places) if isinstance(places, Mapping) else {node for node, _ in places}
        for stream in self._streams.values():
            if stream.route.job == job and stream.route.target not in held:
                stream.fail(f"job {job} does not run on node {stream.route.target} any more")

    @property
    def jobs(self) -> set[JobId]:
        """The jobs that have conversations."""
        return {stream.route.job for stream in self._streams.values()}
