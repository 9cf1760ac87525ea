"""Connections that last: verbs that stay, signals of followed jobs and events, commands on many nodes.

A verb that stays is requested like any other.  Once it is granted, both sides send frames until the head
sends one that is marked as done; then it hangs up.  Bytes are base64.
Source:  docs/contracts/01-local-protocol.md, "Conversations".
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from msgspec import UNSET

from headnode.adapters.nodes.streams import LaunchStream, number_outside
from headnode.adapters.wire.agent_messages import Launch, Route
from headnode.adapters.wire.messages import OpenJob
from headnode.apps.server.api.job_briefs import WatchedCounts
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import NEVER
from headnode.core.model.user import User
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.events import Event
from headnode.core.state.job_events import JobCreated, JobEvent, JobModified, JobUnarchived, JobValidated
from headnode.core.state.job_record import encode_spec
from headnode.engine.engine import Engine
from headnode.protocol.stream_frames import (
    ClientFrame,
    CommandOutput,
    HeadFrame,
    InputTaken,
    RunOnNodesRequest,
)


class ChangeSignal(asyncio.Event):
    """A signal that jobs have changed; `changed` collects them until `take`."""

    def __init__(self) -> None:
        super().__init__()
        self.changed: set[int] = set()

    def take(self) -> set[int]:
        """Stop ringing; return the jobs that have changed since the last time."""
        self.clear()
        taken, self.changed = self.changed, set()
        return taken


class JobWatchers:
    """Wakes the watchers of a job at each of its events."""

    def __init__(self) -> None:
        self._signals: dict[int, set[ChangeSignal]] = {}
        self.counts: dict[int, WatchedCounts] = {}  # of the jobs that are watched

    def watch(self, jobs: Sequence[int]) -> ChangeSignal:
        """Return a signal that rings when something of one of the jobs changes."""
        signal = ChangeSignal()
        for job in jobs:
            self._signals.setdefault(job, set()).add(signal)
            self.counts.setdefault(job, WatchedCounts())
        return signal

    def leave(self, jobs: Sequence[int], signal: ChangeSignal) -> None:
        """Ring no more."""
        for job in jobs:
            signals = self._signals.get(job, set())
            signals.discard(signal)
            if not signals:
                self._signals.pop(job, None)
                self.counts.pop(job, None)

    def perform(self, events: Sequence[Event], cluster: ClusterState) -> None:  # noqa: ARG002  (it is an Effects)
        """Ring for every job the events are about."""
        if not self._signals:
            return
        of_jobs = [event for event in events if isinstance(event, JobEvent)]
        for event in of_jobs:
            if event.job in self.counts:
                self.counts[event.job].note(event)
        for job in {event.job for event in of_jobs}:
            for signal in self._signals.get(job, ()):
                signal.changed.add(job)
                signal.set()


class RunOnNodes:
    """One of them; its part on a node is a job outside the queue."""

    def __init__(
        self, asker: User, user: User, nodes: list[str], request: RunOnNodesRequest, *, same_numbers: bool
    ) -> None:
        """`same_numbers`: `same_uid` of `OpenJob`."""
        self.same_numbers = same_numbers
        self.number = number_outside()
        self.asker, self.user, self.nodes, self.request = asker, user, nodes, request
        self.over = asyncio.Event()

    def open_on(self, node: str) -> OpenJob:
        """Return what makes a node ready for it."""
        return OpenJob(
            job=self.number,
            owner=self.user.name,
            uid=self.user.uid,
            gid=self.user.gid,
            spec=encode_spec(JobSpec(environment=self.request.environment)),
            allocation=((node, ()),),
            deadline=NEVER,
            memory_limited=False,
            same_uid=self.same_numbers,
        )

    def launch(self, route: Route) -> Launch:
        """Return what starts it on a node."""
        return Launch(route, self.request.command, self.request.work_directory, {})


MAX_FRAME = 1 << 20  # bytes that a client may say at once
MAX_INPUT = 64 * 1024  # bytes in one piece for a command
NOT_RUN = 255  # exit status of a command that could not run, or whose end is unknown


class ClientStream(Protocol):
    """The client of a verb that stays, as its door gives it."""

    async def receive(self) -> ClientFrame | None:
        """Return what the client says next; None when it is gone.

        Raises:  BadRequest ``frame`` or ``said``.
        """

    async def send(self, frame: HeadFrame) -> None:
        """Say something, as soon as the client has read most of what was said before.

        Raises:  ConnectionError.
        """


StreamHandler = Callable[[ClientStream], Awaitable[None]]
"""What follows once a verb was granted, to the end of the conversation."""


class CommandEnd(NamedTuple):
    """How a command ended: its exit status, and in a sentence what went wrong with running it.

    `reported`: reported by the node that ran it; else it is only known that it no longer runs.
    """

    code: int
    problem: str = ""
    reported: bool = True


async def relay_stream(
    stream: LaunchStream, client: ClientStream, timeout: float | None = None
) -> CommandEnd | None:
    """Pass on what a command on a node and a client say to each other; None when the client goes first.

    `timeout` in seconds: how long the command may take.
    Raises:  BadRequest ``said`` for what is no frame.
    """
    ending = asyncio.ensure_future(_send_output(stream, client))
    leaving = asyncio.ensure_future(_send_input(stream, client))
    try:
        await asyncio.wait((ending, leaving), timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if ending.done():
            return ending.result()
        if leaving.done():
            leaving.result()
            return None
        return CommandEnd(NOT_RUN, f"it did not end within {timeout:g} s and was killed")
    except ConnectionError:
        return None
    finally:
        for each in (ending, leaving):
            each.cancel()
        await asyncio.gather(ending, leaving, return_exceptions=True)


async def _send_output(stream: LaunchStream, client: ClientStream) -> CommandEnd:
    """Tell the client what the command writes, until it is over."""
    while True:
        piece = await stream.next()
        match piece.kind:
            case "out":
                await client.send(CommandOutput(out=piece.data))
            case "err":
                await client.send(CommandOutput(err=piece.data))
            case "failed":
                return CommandEnd(NOT_RUN, piece.data.decode(errors="replace"), reported=False)
        stream.took()
        if piece.kind == "exit":
            return CommandEnd(piece.code, piece.data.decode(errors="replace"))


async def _send_input(stream: LaunchStream, client: ClientStream) -> None:
    """Tell the command what the client says, until that goes."""
    while (frame := await client.receive()) is not None:
        if frame.input is not UNSET:
            for at in range(0, len(frame.input), MAX_INPUT):
                await stream.send("in", frame.input[at : at + MAX_INPUT])
            await client.send(InputTaken(len(frame.input)))
        elif frame.window is not UNSET:
            rows, columns = frame.window
            await stream.send("window", f"{rows} {columns}".encode())
        else:
            await stream.send("in-end")


MAX_RECENT = 20_000  # events in memory; a client that is further behind reads the journal
MAX_BYTES = 8 * 1024 * 1024  # of the descriptions in them


DESCRIBED: Final[Mapping[type, tuple[str, ...]]] = MappingProxyType(
    {
        JobCreated: ("spec", "source"),
        JobModified: ("spec",),
        JobValidated: ("spec",),
        JobUnarchived: ("record",),
    }
)
"""The fields of events with encoded descriptions; most events have none, and a stream looks at every one."""


def description_bytes(event: Event) -> int:
    """Return the bytes of the job description in an event of `DESCRIBED`, and of its job file."""
    return sum(len(getattr(event, field) or b"") for field in DESCRIBED.get(type(event), ()))


class Follower(asyncio.Event):
    """A client that follows events; it is set at each new one."""

    def __init__(self, position: int) -> None:
        super().__init__()
        self.position = position  # the number of the last event that it has looked at


class EventFeed:
    """Wakes the clients that follow events, and has the events for them that they have not looked at.

    Without such a client it costs one test for each step of the engine.  Events that all have looked at are
    dropped: thousands that stay in memory make the allocation of the next ones slow.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._followers: set[Follower] = set()
        self._recent: deque[Event] = deque()
        self._newest = 0  # the number of the last of them
        self._bytes = 0  # of their descriptions

    @property
    def followed(self) -> bool:
        """Whether a client follows."""
        return bool(self._followers)

    @contextmanager
    def following(self) -> Iterator[Follower]:
        """Give a signal that is set at each new event."""
        follower = Follower(self._engine.number)
        self._followers.add(follower)
        try:
            yield follower
        finally:
            self._followers.discard(follower)
            self._drop_seen()

    def seen(self, follower: Follower, number: int) -> None:
        """Note that a client has looked at all events up to a number."""
        follower.position = number
        self._drop_seen()

    def _drop_seen(self) -> None:
        needed = min((each.position for each in self._followers), default=self._newest)
        if needed >= self._newest:
            self._recent.clear()
            self._bytes = 0
        while self._recent and self._newest - len(self._recent) < needed:
            self._drop()

    def _drop(self) -> None:
        event = self._recent.popleft()
        if type(event) in DESCRIBED:
            self._bytes -= description_bytes(event)

    def after(self, number: int) -> Iterable[tuple[int, Event]] | None:
        """Return the events after a number; None when they are not all in memory."""
        if number >= self._engine.number:
            return ()
        ahead = self._newest - number
        if not 0 < ahead <= len(self._recent):
            return None
        return enumerate(list(islice(reversed(self._recent), ahead))[::-1], number + 1)

    def perform(self, events: Sequence[Event], cluster: ClusterState) -> None:  # noqa: ARG002  (it is an Effects)
        """Remember the events and wake the clients."""
        if not self._followers:
            return
        self._newest = self._engine.number
        self._recent.extend(events)
        for event in events:
            if type(event) in DESCRIBED:
                self._bytes += description_bytes(event)
        while len(self._recent) > MAX_RECENT or (self._bytes > MAX_BYTES and self._recent):
            self._drop()
        for follower in self._followers:
            follower.set()
