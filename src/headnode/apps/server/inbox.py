"""Commands from everywhere, answered in batches by the one writer."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle.events import Event
from headnode.core.model.errors import Broken, Refused, Unavailable
from headnode.engine.engine import Engine

log = logging.getLogger("headnode.server")


class Inbox:
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
        try:
            answers: Sequence[object] = self._engine.handle([command for command, _ in batch])
        except Broken as error:
            log.critical("the engine is broken and ends: %s", error)
            self._fatal()
            return
        for (_, future), answer in zip(batch, answers, strict=True):
            if future.done():
                continue
            if isinstance(answer, Refused | Unavailable):
                future.set_exception(answer)
            elif isinstance(answer, tuple):
                future.set_result(answer)
        self.set_alarm()

    def set_alarm(self) -> None:
        """See to it that the engine is woken when time asks for something."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        wake = self._engine.next_wake()
        if wake is not None:
            delay = min(max(0.0, wake - self._engine.clock.now()), 3600.0)
            self._timer = asyncio.get_running_loop().call_later(delay, self._ring)

    def _ring(self) -> None:
        self._timer = None
        try:
            self._engine.tick()
        except Broken as error:
            log.critical("the engine is broken and ends: %s", error)
            self._fatal()
            return
        except Unavailable as error:
            log.error("what time asked for could not be recorded: %s", error)
            self._timer = asyncio.get_running_loop().call_later(1.0, self._ring)
            return
        self.set_alarm()
