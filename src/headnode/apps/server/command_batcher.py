"""Commands from everywhere, answered in batches by the one writer."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from headnode.core.state import command as c
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.events import Event
from headnode.engine.engine import Effects, Engine

log = logging.getLogger("headnode.server")

LONGEST_TIMER = 60.0  # seconds; clocks are set, so no sleep is trusted for longer


class CommandBatcher:
    """Gathers what arrives in one turn of the event loop and gives it to the engine as one batch."""

    def __init__(self, engine: Engine, fatal: Callable[[], None]) -> None:
        self._engine = engine
        self._fatal = fatal
        self._waiting: list[tuple[c.Command, asyncio.Future[tuple[Event, ...]]]] = []
        self._timer: asyncio.TimerHandle | None = None

    def ask(self, command: c.Command) -> "asyncio.Future[tuple[Event, ...]]":
        """Return a future of the events that the command causes; it fails with what refuses it."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[tuple[Event, ...]] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._flush)
        self._waiting.append((command, future))
        return future

    def _flush(self) -> None:
        batch, self._waiting = self._waiting, []
        with self._end_on_failure():
            answers = self._engine.handle([command for command, _ in batch])
        for (_, future), answer in zip(batch, answers, strict=True):
            if future.done():
                continue
            if isinstance(answer, tuple):
                future.set_result(answer)
            else:
                future.set_exception(answer)
        self.set_alarm()

    @contextmanager
    def _end_on_failure(self) -> Iterator[None]:
        """End the process when the engine fails: memory may be half changed; only the journal is right."""
        survived = False
        try:
            yield
            survived = True
        finally:
            if not survived:
                log.critical("the engine is broken: this head ends, and the next one reads the journal")
                self._fatal()

    def set_alarm(self) -> None:
        """See to it that the engine is woken when time asks for something."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        wake = self._engine.next_wake()
        if wake is not None:
            delay = min(max(0.0, wake - self._engine.clock.now()), LONGEST_TIMER)
            self._timer = asyncio.get_running_loop().call_later(delay, self._wake)

    def _wake(self) -> None:
        self._timer = None
        with self._end_on_failure():
            self._engine.tick()
        self.set_alarm()


class EffectsInOrder:
    """Effects one after the other."""

    def __init__(self, *effects: Effects) -> None:
        self.effects = list(effects)

    def perform(self, events: Sequence[Event], cluster: ClusterState) -> None:
        """Let each do its part."""
        for effect in self.effects:
            effect.perform(events, cluster)
