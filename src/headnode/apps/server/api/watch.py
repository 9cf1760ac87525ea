"""The verb `watch_jobs`: jobs as they change, until all of them have ended."""

import asyncio
from collections.abc import AsyncGenerator
from itertools import islice
from typing import Protocol

from headnode.apps.server.api.job_objects import job_object
from headnode.apps.server.api.job_views import expected_object
from headnode.apps.server.api.verbs import READS, verb
from headnode.apps.server.job_lookup import FoundJob
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.errors import NotFound
from headnode.core.model.quantities import JobId
from headnode.core.model.user import User
from headnode.protocol.answers import WatchAnswer, WatchedJob
from headnode.protocol.requests import WatchJobsRequest

BETWEEN_UPDATES = 0.1  # seconds
BETWEEN_WAITING_UPDATES = 5.0  # seconds after which a client that watches a queued job hears of it again
MOST_WAITING_TOLD = 12  # jobs of which it does


class WatchingClient(Protocol):
    """The client that watches: it may lose its rights meanwhile, and takes turns with other users."""

    def user(self) -> User:
        """Return the user as known now.

        Raises:  NotAllowed if the client has no valid user any more.
        """

    async def turn(self) -> None:
        """Wait until the next answer to this user may be made."""


@verb(READS)
async def watch_jobs(
    context: ServerContext, by: WatchingClient, request: WatchJobsRequest
) -> AsyncGenerator[WatchAnswer, None]:
    """Show all jobs at once, then at most ten times a second those that changed, and all when all have ended.

    The first twelve that wait are shown again every five seconds: the expected start may be another.
    """
    jobs = request.job if isinstance(request.job, list) else [request.job]
    signal, changed = context.watchers.watch(jobs), set(jobs)
    try:
        while True:
            by.user()  # a token may have been revoked meanwhile
            answer = _changed_jobs(context, jobs, changed)
            yield answer
            if answer.done:
                return
            await _changed_or_waiting(context, jobs, signal)
            await _pause(context, jobs, signal)
            await by.turn()
            changed = signal.take() | _waiting(context, jobs)
    finally:
        context.watchers.leave(jobs, signal)


def _changed_jobs(context: ServerContext, jobs: list[int], changed: set[int]) -> WatchAnswer:
    """Return the jobs that have changed as they are now, and whether all are over; then all of them."""
    if not jobs:
        raise NotFound(code="no-jobs", what="there is no job to watch", fix="name at least one job id")
    done = not any(JobId(job) in context.cluster.jobs for job in jobs)
    found = [context.lookups.job(job) for job in jobs if done or job in changed]
    return WatchAnswer([_watched_job(context, each) for each in found], done)


def _watched_job(context: ServerContext, found: FoundJob) -> WatchedJob:
    expected = expected_object(context, found.record)
    brief, reason = context.briefs.of(found), context.pending_reason(found.record)
    return job_object(WatchedJob, found.record, brief, reason, expected=expected)


async def _changed_or_waiting(context: ServerContext, jobs: list[int], signal: asyncio.Event) -> None:
    """Return when a job has changed, or after a while when one waits: why and until when may be new."""
    while True:
        try:
            async with asyncio.timeout(BETWEEN_WAITING_UPDATES):
                await signal.wait()
                return
        except TimeoutError:
            if _waiting(context, jobs):
                return


def _waiting(context: ServerContext, jobs: list[int]) -> set[int]:
    """Return the first few jobs that wait for processors."""
    alive = (context.cluster.jobs.get(JobId(job)) for job in jobs)
    waiting = (record.id for record in alive if record is not None and record.state.is_queued)
    return set(islice(waiting, MOST_WAITING_TOLD))


async def _pause(context: ServerContext, jobs: list[int], signal: asyncio.Event) -> None:
    """Collect changes before the next update; if the jobs are over, the update is sent at once."""
    loop = asyncio.get_running_loop()
    until = loop.time() + BETWEEN_UPDATES
    while any(job in context.cluster.jobs for job in jobs) and loop.time() < until:
        signal.clear()
        try:
            async with asyncio.timeout_at(until):
                await signal.wait()
        except TimeoutError:
            return
