"""What goes when it is old: captured output on nodes, and the records of jobs that ended long ago.

Source:  HPC Pack, cluster parameter TTLCompletedJobs; Slurm, slurmdbd.conf, PurgeJobAfter.
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from headnode.adapters.nodes.link import NodeLink
from headnode.apps.server.command_batcher import CommandBatcher
from headnode.apps.server.job_lookup import JobLookup
from headnode.core.model.errors import Refused, Unavailable
from headnode.core.model.quantities import Instant, JobId
from headnode.core.state.job_end import PURGE_JOBS_AFTER, TTL_COMPLETED_JOBS, PurgeJobs, purgeable
from headnode.engine.engine import Engine
from headnode.engine.ports import Archive, EndedJob

log = logging.getLogger("headnode.server")

MAX_PAUSE: Final = 3600.0  # seconds from the end of one round to the next
MIN_PAUSE: Final = 5.0
ROUNDS: Final = 10  # while something gets old, if the pauses allow it
BETWEEN_PARAMETER_LOOKS = 1.0  # seconds between two looks whether another number of days is requested
JOBS_AT_ONCE = 500  # jobs that a node is asked for: looking them up must not make the head late
PURGED_AT_ONCE: Final = 200  # jobs in one step
ROWS_AT_ONCE: Final = 500  # that are removed in one step, for the same reason
BETWEEN_STEPS: Final = 0.02  # seconds, in which others are answered
_DAY = 86_400.0  # seconds


class _Round(Protocol):
    def days(self) -> float:
        """Return the number of days that is requested; 0: no round."""

    async def clean(self, before: Instant) -> None:
        """Remove what is of jobs that ended before an instant."""


async def keep_cleaning(one: _Round) -> None:
    """Begin rounds for ever: each hour, or more often for a short time, and at once for another one."""
    loop = asyncio.get_running_loop()
    while True:
        days = one.days()
        if days:
            await one.clean(Instant(time.time() - days * _DAY))
        until = loop.time() + min(MAX_PAUSE, max(MIN_PAUSE, days * _DAY / ROUNDS))
        while loop.time() < until and one.days() == days:
            await asyncio.sleep(BETWEEN_PARAMETER_LOOKS)


class OutputRetention:
    """Goes round all nodes that are here, again and again, while a parameter says a number of days."""

    def __init__(self, engine: Engine, lookups: JobLookup, links: Mapping[str, NodeLink]) -> None:
        self._engine, self._lookups, self._links = engine, lookups, links

    async def keep(self) -> None:
        """Go round for ever."""
        await keep_cleaning(self)

    def days(self) -> float:
        """Return the fewer of the days for output and for records: output of a purged job is lost to all."""
        settings = self._engine.settings
        return min(filter(None, map(settings.number, (TTL_COMPLETED_JOBS, PURGE_JOBS_AFTER))), default=0.0)

    async def clean(self, before: Instant) -> None:
        """Remove old output of all nodes that are here."""
        for node, link in list(self._links.items()):
            try:
                await self._clean(link, before)
            except Unavailable:
                log.info("node %s was not asked for old output: it is away; the next round does it", node)

    async def _clean(self, link: NodeLink, before: Instant) -> None:
        """Remove old output of a node; one that lists the output of no job of ours is done.

        Raises:  Unavailable ``node-away``.
        """
        after = JobId(0)
        while jobs := self._ours(await link.list_output(after, JOBS_AT_ONCE), after):
            oldest = self._oldest() if self._engine.settings.number(PURGE_JOBS_AFTER) else JobId(0)
            link.remove_output(over_before(self._lookups, jobs, before, oldest))
            after = max(jobs)

    def _ours(self, jobs: Sequence[JobId], after: JobId) -> list[JobId]:
        """Return the jobs that there have been, with ids above `after`, no more than were asked for."""
        return [job for job in jobs[:JOBS_AT_ONCE] if after < job < self._engine.cluster.next_job]

    def _oldest(self) -> JobId:
        """Return the oldest job with a record; those before it were purged, or lost in a restore."""
        ended = self._lookups.archive.ended_after(0, 1)
        return min([*self._engine.cluster.jobs, *(job.id for job in ended)], default=JobId(0))


def over_before(
    lookups: JobLookup, jobs: Iterable[JobId], before: Instant, oldest: JobId
) -> tuple[JobId, ...]:
    """Return those of the jobs that ended before an instant, or are older than the oldest one with a record.

    What is unknown here for another reason stays.
    """
    return tuple(
        job
        for job in jobs
        if job < oldest or ((ended := lookups.ended_at(job)) is not None and ended < before)
    )


class JobPurge:
    """Purges the records of old jobs, again and again, while the parameter says a number of days."""

    def __init__(self, engine: Engine, batcher: CommandBatcher, archive: Archive) -> None:
        self._engine, self._batcher, self._archive = engine, batcher, archive

    async def keep(self) -> None:
        """Go round for ever."""
        await keep_cleaning(self)

    def days(self) -> float:
        """Return after how many days records go."""
        return self._engine.settings.number(PURGE_JOBS_AFTER)

    async def clean(self, before: Instant) -> None:
        """Purge the jobs that ended before an instant, and remove what is left of purged ones."""
        try:
            purged = await self._purge(before)
            await self._clear()
        except Unavailable as error:
            log.warning("records of old jobs were not removed, the next round does it: %s", error)
            return
        if purged:
            log.info("purged the records of %d jobs that ended before %s", purged, time.ctime(before))

    async def _purge(self, before: Instant) -> int:
        """Purge jobs in the order of their ids, to the first page of jobs that were all submitted later."""
        purged, page = 0, self._archive.ended_after(0, PURGED_AT_ONCE)
        while any(job.submitted < before for job in page):
            if old := self._may_go(page, before):
                purged += await self._purged(old)
            await asyncio.sleep(BETWEEN_STEPS)
            page = self._archive.ended_after(page[-1].id, PURGED_AT_ONCE)
        return purged

    def _may_go(self, page: Sequence[EndedJob], before: Instant) -> tuple[JobId, ...]:
        return purgeable(self._engine.cluster, (job.id for job in page if job.ended < before))

    async def _purged(self, old: tuple[JobId, ...]) -> int:
        try:
            await self._batcher.ask(PurgeJobs(jobs=old))
        except Refused:  # they are needed again
            return 0
        return len(old)

    async def _clear(self) -> None:
        """Remove rows of purged jobs in small steps, and keep two snapshots where a recovery needs them."""
        snapshots = 0
        while True:
            step = self._archive.purge(ROWS_AT_ONCE)
            if not step.more:
                if not step.waits_for or snapshots == 2:
                    return
                await self._batcher.settled()
                snapshots += self._engine.snapshot_if_due(at_least=0)
            await asyncio.sleep(BETWEEN_STEPS)
