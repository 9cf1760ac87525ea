"""Commands from everywhere, answered in batches by the one writer."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial

from headnode.adapters.wire.frames import ends_turn
from headnode.core.state import command as c
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.events import Event
from headnode.core.state.report import ReportStarted
from headnode.engine.batch_write import BatchSteps, JournalWrite, begin_batch, finish_batch
from headnode.engine.engine import Answer, Effects, Engine

log = logging.getLogger("headnode.server")

MAX_TIMER = 10.0  # seconds after which the clock is looked at, which may have been set


SLOW_DISK = 0.001  # seconds of a commit on average from which on a thread waits for the disk
SHARE_OF_NEWEST = 0.2  # of the newest commit in that average
TIMEOUT = 0.02  # seconds that the start of a task waits for another command, to be written with it

Waiting = list[tuple[c.Command, Callable[[Answer], None]]]


class EndOnFailure:
    """Ends the process when the engine fails: memory may be half changed; only the journal is right."""

    def __init__(self, end: Callable[[], None]) -> None:
        self._end = end

    def __enter__(self) -> None:
        """Begin with what may fail."""

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """End the process if it has."""
        if kind is not None:
            log.critical("the engine is broken: this head ends, and the next one reads the journal")
            self._end()


class CommandBatcher:
    """Gathers what arrives in one turn of the event loop and gives it to the engine as one batch.

    Where the disk is slow, a thread writes a batch that only adds to the queue.  Meanwhile the loop reads and
    checks further submissions, which are the next batch.  All other requests wait (`shown`): they never see
    what is not on the disk.  While one of them is carried out, the loop writes as it does on a fast disk.
    """

    def __init__(self, engine: Engine, fatal: Callable[[], None]) -> None:
        self._engine = engine
        self._end_on_failure = EndOnFailure(fatal)
        self._waiting: Waiting = []
        self._begun = False  # the next batch is to begin, or the last one is being written
        self._timer: asyncio.TimerHandle | None = None
        self._timeout: asyncio.TimerHandle | None = None
        self._writer = ThreadPoolExecutor(1, "journal")
        self._average = 0.0  # seconds of a commit
        self._looking = 0  # requests that look at the cluster
        self._to_look: list[asyncio.Future[None]] = []  # they wait until all is on the disk

    def ask(self, command: c.Command) -> "asyncio.Future[tuple[Event, ...]]":
        """Return a future of the events that the command causes; it fails with what refuses it."""
        future: asyncio.Future[tuple[Event, ...]] = asyncio.get_running_loop().create_future()
        self.tell(command, partial(_settle, future))
        return future

    async def answer(self, command: c.Command) -> tuple[Event, ...]:
        """Return the events that the command causes.

        It is carried out at once if nothing else runs in this turn of the loop: nobody could join its batch.
        Who calls this several times must let the loop turn between.
        Raises:  what refuses it.
        """
        if self._begun or not ends_turn():
            return await self.ask(command)
        answered: asyncio.Future[tuple[Event, ...]] = asyncio.get_running_loop().create_future()
        self._waiting.append((command, partial(_settle, answered)))
        self._flush()
        return await answered

    def tell(self, command: c.Command, settle: Callable[[Answer], None]) -> None:
        """Have a command carried out; `settle` is called with its answer, and must not raise."""
        self._waiting.append((command, settle))
        if self._begun:
            return
        loop = asyncio.get_running_loop()
        if type(command) is ReportStarted:  # nobody waits for it, and after a crash the node says it again
            self._timeout = self._timeout or loop.call_later(TIMEOUT, self._flush)
        else:
            self._begun = True
            loop.call_soon(self._flush)

    async def settled(self) -> None:
        """Wait until everything in memory is on the disk."""
        while self._engine.unwritten:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._to_look.append(future)
            await future

    @asynccontextmanager
    async def shown(self) -> AsyncIterator[None]:
        """Keep everything in memory on the disk, as long as a request looks at the cluster."""
        await self.settled()
        self._looking += 1
        try:
            yield
        finally:
            self._looking -= 1

    def _flush(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None
        if self._engine.unwritten:
            return  # this begins again after that
        batch, self._waiting, self._begun = self._waiting, [], False
        steps = self._engine.steps([command for command, _ in batch])
        with self._end_on_failure:
            write = begin_batch(steps)
            if isinstance(write, list):
                answers = write
            elif self._may_be_written_aside(write):
                self._begun = True
                writing = asyncio.get_running_loop().run_in_executor(self._writer, write)
                writing.add_done_callback(partial(self._written_aside, batch, steps, write))
                return
            else:
                answers = finish_batch(steps, write)
                self._note(write.seconds)
        self._answer(batch, answers)

    def _may_be_written_aside(self, write: JournalWrite) -> bool:
        """Return whether a thread may write a batch: it is worth it, and nothing looks at what it changes."""
        slow = self._average > SLOW_DISK and not self._looking
        return slow and write.only_adds and not self._engine.cluster.resource_index.named

    def _written_aside(
        self,
        batch: Waiting,
        steps: BatchSteps[list[Answer]],
        write: JournalWrite,
        writing: "asyncio.Future[None]",
    ) -> None:
        """Answer a batch that a thread has written, and begin the next: after those that wait to look."""
        with self._end_on_failure:
            answers = finish_batch(steps, writing.result)
        self._note(write.seconds)
        for future in self._to_look:
            if not future.done():
                future.set_result(None)
        self._to_look.clear()
        self._answer(batch, answers)
        self._begun = bool(self._waiting)
        if self._begun:
            asyncio.get_running_loop().call_soon(self._flush)

    def _note(self, seconds: float) -> None:
        self._average += SHARE_OF_NEWEST * (seconds - self._average)

    def _answer(self, batch: Waiting, answers: list[Answer]) -> None:
        for (_, answered), answer in zip(batch, answers, strict=True):
            answered(answer)
        self.set_alarm()

    def set_alarm(self) -> None:
        """See to it that the engine is woken when time asks for something, or the clock was set."""
        wake = self._engine.next_wake()
        if wake is None and self._timer is not None:
            return  # it rings within `MAX_TIMER`, and looks at the clock
        delay = MAX_TIMER if wake is None else min(max(0.0, wake - self._engine.clock.now()), MAX_TIMER)
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            if self._timer.when() <= loop.time() + delay:
                return  # it rings before, finds nothing due and is set again: once, not for each batch
            self._timer.cancel()
        self._timer = loop.call_later(delay, self._wake)

    def _wake(self) -> None:
        self._timer = None
        if self._engine.unwritten:
            return  # the alarm is set again after that
        with self._end_on_failure:
            self._engine.tick()
        self.set_alarm()


def _settle(future: "asyncio.Future[tuple[Event, ...]]", answer: Answer) -> None:
    if future.done():  # who asked has gone
        return
    if isinstance(answer, tuple):
        future.set_result(answer)
    else:
        future.set_exception(answer)


class EffectsInOrder:
    """Effects one after the other."""

    def __init__(self, *effects: Effects) -> None:
        self.effects = list(effects)

    def perform(self, events: Sequence[Event], cluster: ClusterState) -> None:
        """Let each do its part."""
        for effect in self.effects:
            effect.perform(events, cluster)
