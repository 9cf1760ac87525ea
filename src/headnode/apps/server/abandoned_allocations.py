"""Allocations whose client has gone: they end if it does not connect again.

The client may have been killed, also while the head was away.  It may have lost its connection, or wait for
the next head.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from headnode.apps.server.agent_supervisor import HEAD_USER
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.errors import HeadnodeError
from headnode.core.model.quantities import JobId
from headnode.core.state.stop import StopJob

log = logging.getLogger("headnode.server")

TIMEOUT: Final = 30.0  # seconds for a client to come back
BETWEEN_LOOKS: Final = 5.0  # seconds


class AbandonedAllocations:
    """Ends allocations that have had no client for some time."""

    def __init__(self, context: ServerContext, running: Callable[[], list[JobId]]) -> None:
        """`running` returns the running jobs that end with their client."""
        self._context, self._running = context, running

    async def keep(self) -> None:
        """Look now and then, as long as the head runs."""
        loop, alone = asyncio.get_running_loop(), dict[JobId, float]()
        while True:
            now = loop.time()
            alone = {job: alone.get(job, now) for job in self._without_client()}
            for job in [job for job, since in alone.items() if now - since >= TIMEOUT]:
                await self._end(job)
            await asyncio.sleep(BETWEEN_LOOKS)

    def _without_client(self) -> list[JobId]:
        """Return the allocations that have no client; of those in the queue that one that has gone."""
        context = self._context
        context.deserted &= context.cluster.jobs.keys()
        return [job for job in {*self._running(), *context.deserted} if job not in context.attended]

    async def _end(self, job: JobId) -> None:
        message = f"its client has been away for {TIMEOUT:.0f} s"
        command = StopJob(by=HEAD_USER, job=job, outcome="canceled", message=message)
        try:
            await self._context.ask(command)
        except HeadnodeError as error:  # it is being ended, or the disk is full: the next look tries again
            log.info("job %d, whose client is away, is not canceled: %s", job, error)
