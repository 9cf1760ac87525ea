"""When queued jobs will start, worked out beside everything else: in a process of its own, now and then."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Sequence

from headnode.apps.server.lookout import Lookout
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.events import Event
from headnode.core.model.errors import Unavailable
from headnode.core.scheduling.balanced.plan import minimums_only
from headnode.core.scheduling.policies import POLICIES
from headnode.engine.constraining import ahead
from headnode.engine.engine import Engine
from headnode.engine.foreseeing import Foreseer, Outlook, Situation, look_ahead
from headnode.engine.ports import Past

log = logging.getLogger("headnode.server")

BETWEEN_LOOKS = 3.0  # seconds at least, while things change
LONGEST_CALM = 60.0  # seconds, while nothing changes: predictions age
LONGEST_LOOK = 8.0  # seconds of work for one look
EASY_LOOK = 4.0  # seconds; after one this short more jobs are looked at
REST = 3  # times as long as a look took, nothing is done
PATIENCE = 1.5  # seconds that a question waits for a fresh answer


class Outlooks:
    """Keeps what is expected of queued jobs fresh while there are any.

    Whoever does not run `keep` gets what he asks for at once, worked out in a thread.
    """

    def __init__(self, engine: Engine, past: Past) -> None:
        self.foreseer = Foreseer(engine.cluster, past)
        self._engine, self._archive = engine, past
        self._lookout: Lookout | None = None  # while somebody runs `keep`
        self._news, self._question = asyncio.Event(), asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []  # for a look that begins after now

    def perform(self, events: Sequence[Event], cluster: Cluster) -> None:
        """Take note of what has happened."""
        self.foreseer.perform(events, cluster)
        if self.foreseer.changed:
            self._news.set()

    async def keep(self) -> None:
        """Learn from the newest ended jobs, then look ahead for ever."""
        self._lookout = Lookout()
        try:
            await self._learn()
            while True:
                self._news.clear()
                spent = await self._look() if self._engine.cluster.queue else 0.0
                await asyncio.sleep(REST * spent)
                if not await _rings(self._question, BETWEEN_LOOKS):
                    await _rings(self._news, LONGEST_CALM)
                self._question.clear()
        finally:
            await self._lookout.end()

    async def fresh(self) -> None:
        """Wait until a look has been made that knows of all that has happened by now; not for long."""
        if self.foreseer.made is not None and not self.foreseer.changed:
            return
        if self._lookout is None:
            await self._look()
            return
        looked = asyncio.get_running_loop().create_future()
        self._waiting.append(looked)
        self._question.set()
        self._news.set()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(looked, PATIENCE)

    async def _learn(self) -> None:
        experience = self.foreseer.experience
        try:
            pages = await asyncio.to_thread(lambda: list(experience.read(self._archive)))
        except Unavailable as error:
            log.error("the run times of the past are not known: %s", error)
            return
        for page in reversed(pages):
            experience.teach(page)
            await asyncio.sleep(0)

    async def _look(self) -> float:
        """Look ahead once; return how long it took, in seconds."""
        engine, began, waiting = self._engine, time.monotonic(), self._waiting
        self._waiting = []
        policy = engine.settings.text("SchedulingPolicy")
        view = minimums_only(ahead(engine.view(engine.clock.now()), engine.offers, engine.cluster))
        situation = self.foreseer.situation(engine.cluster, view, engine.last_plan, policy)
        try:
            outlook = await self._see(situation)
            easily = time.monotonic() - began < EASY_LOOK
            self.foreseer.accept(situation, outlook, engine.cluster, easily=easily)
        except Unavailable as error:
            log.error("the starts of jobs cannot be predicted: %s", error)
        for looked in waiting:
            if not looked.done():
                looked.set_result(None)
        return time.monotonic() - began

    async def _see(self, situation: Situation) -> Outlook:
        if self._lookout is not None and situation.policy in POLICIES:
            return await self._lookout.look(situation, LONGEST_LOOK)
        until = time.monotonic() + LONGEST_LOOK
        policy = self._engine.policies[situation.policy]
        return await asyncio.to_thread(look_ahead, situation, policy, lambda: time.monotonic() > until)


async def _rings(bell: asyncio.Event, within: float) -> bool:
    """Wait for a bell; return whether it rang in time."""
    try:
        async with asyncio.timeout(within):
            return await bell.wait()
    except TimeoutError:
        return False
