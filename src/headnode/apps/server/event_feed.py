"""The newest events, for clients that follow them: in memory while there is such a client."""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.events import Event
from headnode.core.state.job_events import JobCreated, JobModified, JobUnarchived, JobValidated
from headnode.engine.engine import Engine

MOST_RECENT = 20_000  # events in memory; a client that is further behind reads the journal
MOST_BYTES = 8 * 1024 * 1024  # of the descriptions in them


def description_bytes(event: Event) -> int:
    """Return the bytes of the job description in an event, if it has one."""
    match event:
        case JobCreated(spec=spec) | JobModified(spec=spec) | JobValidated(spec=spec):
            return len(spec or b"")
        case JobUnarchived(record=record):
            return len(record)
        case _:
            return 0


class EventFeed:
    """Wakes the clients that follow events, and has the newest events for them.

    Without such a client it costs one test for each step of the engine.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._followers: set[asyncio.Event] = set()
        self._recent: deque[tuple[int, Event]] = deque()
        self._bytes = 0  # of the descriptions in these events

    @property
    def followed(self) -> bool:
        """Whether a client follows."""
        return bool(self._followers)

    @contextmanager
    def following(self) -> Iterator[asyncio.Event]:
        """Give a signal that is set at each new event."""
        signal = asyncio.Event()
        self._followers.add(signal)
        try:
            yield signal
        finally:
            self._followers.discard(signal)
            if not self._followers:
                self._recent.clear()
                self._bytes = 0

    def after(self, number: int) -> list[tuple[int, Event]] | None:
        """Return the events after a number; None when they are not all in memory."""
        if number >= self._engine.number:
            return []
        if not self._recent or self._recent[0][0] > number + 1:
            return None
        ahead = self._recent[-1][0] - number
        newest = list(self._recent)
        return newest[len(newest) - ahead :]

    def perform(self, events: Sequence[Event], cluster: ClusterState) -> None:  # noqa: ARG002  (it is an Effects)
        """Remember the events and wake the clients."""
        if not self._followers:
            return
        first = self._engine.number - len(events) + 1
        for number, event in enumerate(events, first):
            self._recent.append((number, event))
            self._bytes += description_bytes(event)
        while len(self._recent) > MOST_RECENT or (self._bytes > MOST_BYTES and self._recent):
            self._bytes -= description_bytes(self._recent.popleft()[1])
        for signal in self._followers:
            signal.set()
