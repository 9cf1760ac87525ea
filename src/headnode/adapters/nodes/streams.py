"""Streams to launched commands, in order and bounded though messages are lost; those of the head and of
tasks.
"""

import asyncio
import contextlib
import logging
import secrets
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from headnode.adapters.wire.agent_messages import Launch, LaunchAck, LaunchData, ReportedAttempt, Route
from headnode.adapters.wire.frame_codec import CHUNK
from headnode.adapters.wire.messages import FromHead, KillLaunches, Launching
from headnode.core.model.quantities import JobId
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.events import Event
from headnode.core.state.job_events import (
    AllocationLost,
    InstancesEnded,
    JobAutoRequeued,
    JobEnded,
    JobRequeued,
    NodeCores,
)

WINDOW = 8  # pieces that may be on their way
REPEAT = 2.0  # seconds until what was not taken is said again
SHOW_LIFE = 3.0  # seconds after which something is said to the other side, though there is nothing to say
_GONE = "its launcher has ended"
_MAX_PIECE = 2 * CHUNK  # bytes of a piece that is believed

Say = Callable[[Launching], None]


class LaunchStream:
    """What this side says, kept until it is taken; what the other side says, in order and once.

    A piece is acknowledged only after it was processed: so no side has to keep more than
    a window of pieces, however slow the reader.
    """

    def __init__(self, send: Say, route: Route, back: bool) -> None:
        """`back`: this is the side of the command."""
        self.route, self.back = route, back
        self._send = send
        self._unheard: deque[tuple[int, Launch | LaunchData]] = deque()
        self._said = 0  # the number of the last piece said
        self._arrived, self._taken = 0, 0  # of the last piece that arrived, and that was dealt with
        self._pieces: asyncio.Queue[LaunchData] = asyncio.Queue()
        self._changed = asyncio.Event()
        now = asyncio.get_running_loop().time()
        self._spoke, self.received = now, now
        self.failed = ""  # why no more will come
        self._last_kind = ""
        self.over = False  # the other side has said how the command ended

    def launch(self, message: Launch) -> None:
        """Say the first message of all."""
        self._unheard.append((0, message))
        self._transmit(message)

    async def send(self, kind: str, data: bytes = b"", code: int = 0) -> None:
        """Send a piece once there is room, and the receiver knows the launch."""
        while self._must_wait() and not self.failed:
            await self._change()
        self._said += 1
        piece = LaunchData(self.route, self.back, self._said, kind, data, code)  # type: ignore[arg-type]
        self._unheard.append((self._said, piece))
        self._transmit(piece)

    def _must_wait(self) -> bool:
        """Whether too much is unacknowledged, or the first message is: an unknown launch is ended."""
        return len(self._unheard) >= WINDOW or (bool(self._unheard) and self._unheard[0][0] == 0)

    async def next(self) -> LaunchData:
        """Return the next piece, to be followed by `took`; one of kind ``failed`` when there are no more."""
        while self._pieces.empty() and not self.failed:
            await self._change()
        if not self._pieces.empty():
            piece = self._pieces.get_nowait()
            self._last_kind = piece.kind
            return piece
        return LaunchData(self.route, not self.back, 0, "failed", self.failed.encode())

    def took(self) -> None:
        """The last piece that `next` returned is dealt with."""
        self.over = self.over or self._last_kind == "exit"
        self._taken += 1
        self.acknowledge()

    def acknowledge(self) -> None:
        """Say what was dealt with."""
        self._transmit(LaunchAck(self.route, self.back, self._taken))

    async def all_received(self) -> None:
        """Wait until the other side has taken all, or never will."""
        while self._unheard and not self.failed:
            await self._change()

    def fail(self, why: str) -> None:
        """Expect nothing more; `why` is a sentence."""
        self.failed = self.failed or why
        self._changed.set()

    async def until_failed(self) -> None:
        """Wait until there is nothing more to expect."""
        while not self.failed:
            await self._change()

    async def leave(self) -> None:
        """Say that this side goes: in order where that is soon heard, else out of order."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(REPEAT):
                await self.send("gone")
                await self.all_received()
        if self._unheard and not self.failed:
            self._transmit(LaunchData(self.route, self.back, 0, "failed", _GONE.encode()))
        self.fail(_GONE)

    def receive(self, message: LaunchData | LaunchAck) -> None:
        """Take in what the other side says."""
        self.received = asyncio.get_running_loop().time()
        if isinstance(message, LaunchAck):
            while self._unheard and self._unheard[0][0] <= message.sequence:
                self._unheard.popleft()
        elif message.kind == "failed":
            self.fail(message.data.decode(errors="replace") or "the other side has disconnected")
        elif message.sequence <= self._taken:  # its acknowledgement was lost
            self.acknowledge()
        elif message.sequence == self._arrived + 1 and self._may_arrive(message):
            self._arrived += 1
            self._pieces.put_nowait(message)
        self._changed.set()

    def _may_arrive(self, piece: LaunchData) -> bool:
        return self._pieces.qsize() <= WINDOW and len(piece.data) <= _MAX_PIECE

    def look(self, now: float) -> None:
        """Repeat what was not taken, and show that we live."""
        if self._unheard and now - self._spoke >= REPEAT:
            for _, message in self._unheard:
                self._transmit(message)
        elif now - self._spoke >= SHOW_LIFE:
            self.acknowledge()

    def _transmit(self, message: Launching) -> None:
        self._spoke = asyncio.get_running_loop().time()
        self._send(message)

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()


async def look_after(streams: Callable[[], Iterable[LaunchStream]], lost_after: Callable[[], float]) -> None:
    """Repeat what was not taken, for ever; give up those of which nothing was heard for so long (seconds)."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(REPEAT / 2)
        for stream in list(streams()):
            stream.look(loop.time())
            if loop.time() - stream.received > lost_after():
                stream.fail(f"the other node has sent nothing for {lost_after():.0f} s")


HEAD = ""
LOST_AFTER = 30.0  # seconds in which nothing came from the node
_MAX_JOBS = 1 << 53

SessionKey = tuple[int, int, int]
"""Task, instance and attempt."""
BESIDE: SessionKey = (0, 0, 0)
"""No attempt: a command beside the tasks."""


def number_outside() -> JobId:
    """Return the number of a job outside the queue; none before had it, whichever head made it."""
    return JobId(-1 - secrets.randbelow(_MAX_JOBS))


class Sessions:
    """All conversations of the head."""

    def __init__(self, send: Callable[[str, FromHead], None]) -> None:
        """`send` sends a message to a node, if it is there."""
        self._send = send
        self._streams: dict[str, LaunchStream] = {}
        self._looking: asyncio.Task[None] | None = None

    def begin(
        self, node: str, job: JobId, attempt: SessionKey, launch: Callable[[Route], Launch]
    ) -> LaunchStream:
        """Begin a conversation with what `launch` asks for; to be ended with `end`."""
        route = Route(job, *attempt, secrets.token_hex(8), HEAD, node)

        def send(message: Launching) -> None:
            self._send(node, message)

        stream = self._streams[route.number] = LaunchStream(send, route, back=False)
        if self._looking is None:
            self._looking = asyncio.ensure_future(look_after(self._streams.values, lambda: LOST_AFTER))
        stream.launch(launch(route))
        return stream

    async def end(self, stream: LaunchStream) -> None:
        """Let go of a conversation: a command that still runs is ended."""
        try:
            if not stream.failed:
                await stream.leave()
        finally:
            self._streams.pop(stream.route.number, None)
            if not self._streams and self._looking is not None:
                self._looking.cancel()
                self._looking = None

    def receive(self, node: str, message: LaunchData | LaunchAck) -> None:
        """Take in what a node says of a command of ours."""
        stream = self._streams.get(message.route.number)
        if stream is not None and stream.route.target == node and message.from_target:
            stream.receive(message)
        elif not isinstance(message, LaunchData) or message.kind != "failed":
            self._send(
                node, LaunchData(message.route, False, 0, "failed", b"the command that launched it has ended")
            )

    def here(self, node: str, job: JobId) -> bool:
        """Tell whether a job has conversations with a node."""
        return any((each.route.target, each.route.job) == (node, job) for each in self._streams.values())

    def node_away(self, node: str) -> None:
        """The connection of a node is gone, and with it what it ran outside the queue."""
        for stream in self._streams.values():
            if stream.route.target == node and stream.route.job < 0:
                stream.fail(f"node {node} went away")

    def keep_only(self, job: JobId, places: Mapping[str, object] | NodeCores) -> None:
        """End the conversations of a job with nodes that it does not have any more."""
        held = set(places) if isinstance(places, Mapping) else {node for node, _ in places}
        for stream in self._streams.values():
            if stream.route.job == job and stream.route.target not in held:
                stream.fail(f"job {job} does not run on node {stream.route.target} any more")

    @property
    def jobs(self) -> set[JobId]:
        """The jobs that have conversations."""
        return {stream.route.job for stream in self._streams.values()}


log = logging.getLogger("headnode.nodes")


class _RelayedAttempt(NamedTuple):
    """One attempt of an instance."""

    job: JobId
    task: int
    instance: int
    attempt: int


class Relay:
    """Passes on what may pass, and ends what attempts that are over have launched."""

    def __init__(self, send: Callable[[str, FromHead], None], sessions: Sessions) -> None:
        """`send` sends a message to a node, if it is there; `sessions` are the conversations of the head."""
        self._send, self._sessions = send, sessions
        self._launched: dict[
            JobId, dict[_RelayedAttempt, set[str]]
        ] = {}  # where attempts have launched something

    def pass_on(self, node: str, message: Launching, cluster: ClusterState) -> None:
        """Pass on what `node` says, if it may say that."""
        route = message.route
        if route.first == HEAD:
            if isinstance(message, LaunchData | LaunchAck):
                self._sessions.receive(node, message)
            return
        back = not isinstance(message, Launch) and message.from_target
        sender, other = (route.target, route.first) if back else (route.first, route.target)
        attempt = _RelayedAttempt(route.job, route.task, route.instance, route.attempt)
        place = place_of(cluster, *attempt)
        problem = _objection(node == sender, place, route)
        if problem:
            log.warning("a message of node %s about a launch of job %d: %s", node, route.job, problem)
            if isinstance(message, Launch):
                self._send(node, LaunchData(route, True, 0, "failed", problem.encode()))
        elif isinstance(message, Launch):
            self._launched.setdefault(route.job, {}).setdefault(attempt, set()).add(route.target)
            self._send(other, replace(message, placement=place))
        else:
            self._send(other, message)

    def greeted(self, node: str, launched: Sequence[ReportedAttempt], cluster: ClusterState) -> None:
        """Learn what was launched on a node; end what is over."""
        for live in launched:
            attempt = _RelayedAttempt(live.job, live.task, live.instance, live.attempt)
            if attempt[1:] == BESIDE and self._sessions.here(node, live.job):
                continue
            if place_of(cluster, *attempt):
                self._launched.setdefault(live.job, {}).setdefault(attempt, set()).add(node)
            else:
                self._send(node, KillLaunches(*attempt))

    def end_what_is_over(self, events: Sequence[Event], cluster: ClusterState) -> None:
        """End what those attempts have launched that are over by these events."""
        if not self._launched and not self._sessions.jobs:
            return
        jobs = {event.job for event in events if isinstance(event, _OF_JOBS)}
        for job in jobs & self._sessions.jobs:
            run = cluster.jobs[job].run if job in cluster.jobs else None
            self._sessions.keep_only(job, run.places if run is not None else {})
        for job in jobs & self._launched.keys():
            launched = self._launched[job]
            for attempt in [each for each in launched if not place_of(cluster, *each)]:
                for node in sorted(launched.pop(attempt)):
                    self._send(node, KillLaunches(*attempt))
            if not launched:
                del self._launched[job]


_OF_JOBS = (InstancesEnded, JobEnded, JobRequeued, JobAutoRequeued, AllocationLost)


def place_of(cluster: ClusterState, job: JobId, task: int, instance: int, attempt: int) -> NodeCores:
    """Return the place of an attempt that is live; nothing when it is not."""
    record = cluster.jobs.get(job)
    run = record.run if record is not None else None
    if run is None or not 0 < task <= len(run.tasks):
        return ()
    live = run.tasks[task - 1].live.get(instance)
    return live.placement if live is not None and live.attempt == attempt else ()


def _objection(is_sender: bool, place: NodeCores, route: Route) -> str:
    """Return why a message may not pass, in a sentence; empty when it may."""
    if not place:
        return "the task no longer runs"
    if not is_sender or place[0][0] != route.first:
        return "a task can launch commands only from its first node"
    if route.target not in {node for node, _ in place}:
        return f"node {route.target!r} is not a node of the task; its nodes are in $HEADNODE_HOSTS"
    return ""
