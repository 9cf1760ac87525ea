"""Calling filters, whatever they are made of; never more at once than the cluster allows."""

import asyncio
import os
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from headnode.adapters.filters.calling import Call, Kind, Offered, Returned
from headnode.adapters.filters.plug_ins import PlugIn
from headnode.adapters.filters.programs import Programs
from headnode.core.filtering import walking


class Asker:
    """Calls filters for the whole head."""

    def __init__(self, state: Path, cluster: str) -> None:
        self._data = state / "filter-data"
        self._environment = dict(os.environ) | {"CCP_SCHEDULER": cluster, "CCP_HOME": sys.prefix}
        self._programs = Programs(state / "filter-papers", self._data, self._environment)
        self._plug_ins: dict[str, PlugIn] = {}
        self._prepared = False

    async def call(self, call: Call) -> Returned:
        """Call one filter."""
        if not self._prepared:
            self._programs.prepare()
            self._prepared = True
        name = call.filter.plug_in
        if not name:
            return await self._programs.call(call)
        plug_in = self._plug_ins.get(name)
        if plug_in is None:
            plug_in = self._plug_ins[name] = PlugIn(name, self._data, self._environment)
        return await plug_in.call(call)

    async def undo(
        self,
        calls: Sequence[walking.Call],
        job: int,
        seconds: float,
        offered: Offered | None = None,
        *,
        change: bool = False,
    ) -> None:
        """Call filters again so that they undo what they did, in this order; what they answer is nothing.

        `offered` is what activation filters were asked about; None: they are submission filters, asked about
        a submission or, with `change`, about the change of a job.
        """
        kind: Kind = "revert-submission" if offered is None else "revert-activation"
        for each in calls:
            await self.call(Call(each.filter, kind, job, each.paper, seconds, offered, change))

    async def close(self) -> None:
        """End everything that runs."""
        await asyncio.gather(self._programs.close(), *(each.close() for each in self._plug_ins.values()))


class Together:
    """Lets those through as one who come while others are on their way: one write for all of them."""

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._coming = 0
        self._here: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        """Somebody is on his way."""
        self._coming += 1

    def __exit__(self, *_: object) -> None:
        """He is here, or does not come."""
        self._coming -= 1
        if not self._coming:
            self._go()

    async def arrive(self) -> None:
        """Wait for those who are on their way, but not for long."""
        if not self._coming:
            return
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._here.append(future)
        if self._timer is None:
            self._timer = loop.call_later(self._longest, self._go)
        await future

    def _go(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        here, self._here = self._here, []
        for future in here:
            if not future.done():
                future.set_result(None)


class Turnstile:
    """Lets in as many at once as its limit says now, in the order they came."""

    def __init__(self, limit: Callable[[], int]) -> None:
        self._limit = limit
        self._inside = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn, and give it up at the end."""
        while self._inside >= self._limit():
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1
            self._let_next_in()

    def _let_next_in(self) -> None:
        for _ in range(max(0, self._limit() - self._inside)):
            while self._waiting and self._waiting[0].done():
                self._waiting.popleft()
            if self._waiting:
                self._waiting.popleft().set_result(None)
