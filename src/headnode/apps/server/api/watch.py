"""The verb `watch_jobs`: jobs as they change, until all have ended; the states of one job by its events."""

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator
from itertools import islice
from typing import Protocol

from msgspec import UNSET

from headnode.apps.server.api.job_objects import job_object
from headnode.apps.server.api.job_views import event_sentence, expected_object
from headnode.apps.server.api.verbs import READS, verb
from headnode.apps.server.job_lookup import FoundJob
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.errors import NotFound
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import JobId
from headnode.core.model.task import SPECIAL
from headnode.core.model.user import User
from headnode.core.state import job_events as j
from headnode.core.state.events import Event
from headnode.core.state.job_events import JobEvent, TaskSpans
from headnode.protocol.answers import WatchAnswer, WatchedJob
from headnode.protocol.event_answers import StateChange
from headnode.protocol.requests import WatchJobsRequest

BETWEEN_UPDATES = 0.1  # seconds at least
SHARE_OF_UPDATES = 20  # times as long as an update took to make passes until the next
BETWEEN_WAITING_UPDATES = 5.0  # seconds after which a client that watches a queued job hears of it again
MAX_WAITING_TOLD = 12  # jobs of which it does


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
    An update of many tasks comes less often, so that who watches costs the head a twentieth of its time.
    """
    jobs = request.job if isinstance(request.job, list) else [request.job]
    signal, changed = context.watchers.watch(jobs), set(jobs)
    try:
        while True:
            by.user()  # a token may have been revoked meanwhile
            began = time.monotonic()
            answer = _changed_jobs(context, jobs, changed)
            between = max(BETWEEN_UPDATES, SHARE_OF_UPDATES * (time.monotonic() - began))
            yield answer
            if answer.done:
                return
            await _changed_or_waiting(context, jobs, signal)
            await _pause(context, jobs, signal, between)
            await by.turn()
            changed = signal.take() | _waiting(context, jobs)
    finally:
        context.watchers.leave(jobs, signal)


def _changed_jobs(context: ServerContext, jobs: list[int], changed: set[int]) -> WatchAnswer:
    """Return the jobs that have changed as they are now, and whether all are over; then all of them."""
    if not jobs:
        raise NotFound(code="no-jobs", what="there is no job to watch", fix="name at least one job id")
    done = not any(JobId(job) in context.cluster.jobs for job in jobs)
    changed_jobs = [context.lookups.job(job) for job in jobs if done or job in changed]
    return WatchAnswer([_watched_job(context, each) for each in changed_jobs], done)


def _watched_job(context: ServerContext, job: FoundJob) -> WatchedJob:
    expected = expected_object(context, job.record)
    brief, reason = context.briefs.of(job), context.pending_reason(job.record)
    known = context.watchers.counts.get(job.record.id)
    counts = None if known is None else known.of(brief.instances, job.record.run)
    return job_object(WatchedJob, job.record, brief, reason, counts, expected=expected)


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
    return set(islice(waiting, MAX_WAITING_TOLD))


async def _pause(context: ServerContext, jobs: list[int], signal: asyncio.Event, between: float) -> None:
    """Collect changes for so many seconds; if the jobs are over, the next update is made at once."""
    loop = asyncio.get_running_loop()
    until = loop.time() + between
    while any(job in context.cluster.jobs for job in jobs) and loop.time() < until:
        signal.clear()
        try:
            async with asyncio.timeout_at(until):
                await signal.wait()
        except TimeoutError:
            return


def all_instances(spec: JobSpec) -> TaskSpans:
    """Return all tasks of a job but special ones, which have no instances before the job runs."""
    numbered = enumerate(spec.tasks, 1)
    return tuple((number, ((1, task.instances),)) for number, task in numbered if task.kind not in SPECIAL)


def state_changes(number: int, event: Event, state: str, whole: TaskSpans) -> Iterator[StateChange]:
    """Yield the states into which a job and instances of its tasks come by an event.

    state:  that of the job by this event; empty: it is as before
    whole:  all tasks of the job, for an event that does not name them
    """
    match event:
        case j.InstancesStarted(started=started):
            for one in started:
                yield StateChange(number, one.at, "running", UNSET, one.task, one.instance, one.instance)
        case j.InstancesEnded(at=at, ended=ended):
            for end in ended:
                when, why = end.outcome.ended or at, end.outcome.message or UNSET
                place = end.task, end.instance, end.instance, end.node, end.outcome.exit_code
                yield StateChange(number, when, end.state, why, *place, end.outcome.started)
        case j.InstancesCanceled(at=at, task=task, spans=spans, outcome=outcome, message=message):
            for first, last in spans:
                yield StateChange(number, at, outcome, message or UNSET, task, first, last)
        case j.TasksCanceled(at=at, tasks=tasks, message=message):
            for task, spans in tasks or whole:
                for first, last in spans:
                    yield StateChange(number, at, "canceled", message or UNSET, task, first, last)
        case j.InstancesRequeued(at=at, task=task, spans=spans):
            for first, last in spans:
                yield StateChange(number, at, "queued", event_sentence(event), task, first, last)
        case JobEvent() if state:
            yield StateChange(number, event.at, state, event_sentence(event) or UNSET)
