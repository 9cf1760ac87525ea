"""Removes captured output from the nodes when its jobs have been over for long enough.

What is known of the jobs stays for ever.
Source: HPC Pack cluster parameter TTLCompletedJobs.
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping

from headnode.adapters.nodes.link import Link
from headnode.apps.server.lookups import Lookups
from headnode.core.model.errors import Unavailable
from headnode.core.model.quantities import Instant, JobId
from headnode.engine.engine import Engine

log = logging.getLogger("headnode.server")

BETWEEN = 3600.0  # seconds from the end of one round to the next
LOOK = 1.0  # seconds between two looks whether another number of days is wished
AT_ONCE = 500  # jobs that a node is asked for: looking them up must not make the head late
_DAY = 86_400.0  # seconds


class OldOutput:
    """Goes round all nodes that are here, again and again, while the parameter says a number of days."""

    def __init__(self, engine: Engine, lookups: Lookups, links: Mapping[str, Link]) -> None:
        self._engine, self._lookups, self._links = engine, lookups, links

    async def keep(self) -> None:
        """Go round for ever."""
        while True:
            days = self._days()
            if days:
                await self._round(Instant(time.time() - days * _DAY))
            await self._rest(days)

    def _days(self) -> float:
        return self._engine.settings.number("TTLCompletedJobs")

    async def _rest(self, days: float) -> None:
        """Wait for the next round, or until another number of days is wished."""
        loop = asyncio.get_running_loop()
        until = loop.time() + BETWEEN
        while loop.time() < until and self._days() == days:
            await asyncio.sleep(LOOK)

    async def _round(self, before: Instant) -> None:
        for node, link in list(self._links.items()):
            try:
                await self._clean(link, before)
            except Unavailable:
                log.info("node %s was not asked for old output: it is away; the next round does it", node)

    async def _clean(self, link: Link, before: Instant) -> None:
        after = JobId(0)
        while jobs := await link.list_output(after, AT_ONCE):
            link.remove_output(over_before(self._lookups, jobs, before))
            after = jobs[-1]


def over_before(lookups: Lookups, jobs: Iterable[JobId], before: Instant) -> tuple[JobId, ...]:
    """Return those of the jobs that ended before an instant; what is unknown here stays."""
    return tuple(job for job in jobs if (ended := lookups.ended_at(job)) is not None and ended < before)
