"""The jobs that are over, as a log: their submission, start and end, their request and allocation."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from math import ceil
from typing import NamedTuple

import msgspec

from headnode.core.model.job import JobRequest
from headnode.core.model.quantities import Instant, JobId, Priority, Seconds
from headnode.core.state import job_events as e
from headnode.core.state import suspension_events as sj
from headnode.core.state.events import Event
from headnode.core.state.job_events import NodeCores
from headnode.core.state.job_record import decode_record, spec_of
from headnode.core.state.job_request import own_request
from headnode.engine.ports import Archive, EndedJob


class PastJob(msgspec.Struct, frozen=True):
    """A job that is over.  `started` is that of its last run; None: it never started, and held nothing.

    `processors`: how many it held, on average when it grew or shrank, rounded up.
    `memory`: MB for each process, as its owner estimated; None: not said.
    """

    id: JobId
    owner: str
    name: str
    project: str
    state: str
    submitted: Instant
    started: Instant | None
    ended: Instant
    processors: int
    request: JobRequest
    priority: Priority
    memory: int | None
    parents: tuple[int, ...]
    requeues: int
    stood_still: Seconds = Seconds(0.0)  # how long it was suspended

    @property
    def run_time(self) -> float | None:
        """Return how long it ran, without its suspensions, in seconds; None when it never did."""
        return None if self.started is None else self.ended - self.started - self.stood_still


class PastJobsPage(NamedTuple):
    """A page of jobs in the order of their ids; the next page begins after id `more`, None at the end."""

    jobs: list[PastJob]
    more: int | None


def past_jobs(
    archive: Archive, after: int, limit: int, since: Instant | None = None, until: Instant | None = None
) -> PastJobsPage:
    """Return those of the next `limit` ended jobs that were submitted from `since` and before `until`.

    Cost:  proportional to `limit`, however many of them are of that time.
    """
    looked_at = archive.ended_after(after, limit)
    is_last = not looked_at or (len(looked_at) < limit and not archive.ended_after(looked_at[-1].id, 1))
    more = None if is_last else looked_at[-1].id
    return PastJobsPage(list(_read(archive, [job for job in looked_at if _in_time(job, since, until)])), more)


def _in_time(job: EndedJob, since: Instant | None, until: Instant | None) -> bool:
    return (since is None or job.submitted >= since) and (until is None or job.submitted < until)


def _read(archive: Archive, jobs: Sequence[EndedJob]) -> Iterator[PastJob]:
    if not jobs:
        return
    told = archive.allocation_events(jobs[0].id, jobs[-1].id)
    changes = {job: list(events) for job, events in groupby(told, key=_job_of)}
    for job in jobs:
        yield _past_job(job, changes.get(job.id, ()))


def _job_of(event: Event) -> int:
    return event.job if isinstance(event, e.JobEvent) else 0


def _past_job(job: EndedJob, changes: Iterable[Event]) -> PastJob:
    record = decode_record(job.record)
    spec = spec_of(record)
    started = record.run.started if record.run is not None else None
    return PastJob(
        id=job.id,
        owner=job.owner,
        name=job.name,
        project=job.project,
        state=job.state,
        submitted=job.submitted,
        started=started,
        ended=job.ended,
        processors=0 if started is None else held_on_average(changes, started, job.ended),
        request=own_request(spec),
        priority=record.priority,
        memory=spec.process_memory,
        parents=spec.parents,
        requeues=record.run.requeues if record.run is not None else 0,
        stood_still=record.run.not_run if record.run is not None else Seconds(0.0),
    )


def held_on_average(changes: Iterable[Event], started: Instant, ended: Instant) -> int:
    """Return how many processors a job held in its run from `started` to `ended`, rounded up.

    The time that it was suspended does not count.  A job that came and went within one tick of the clock is
    taken by what it held at its start.
    """
    held, at, work, span, still = 0, started, 0.0, 0.0, False
    for event in changes:
        if isinstance(event, e.JobStarted):
            held, at, work, span, still = _size(event.allocation), event.at, 0.0, 0.0, False
            continue
        now = min(max(event.at, at), ended)  # a clock may have been set back
        if not still:
            work, span = work + held * (now - at), span + now - at
        stops = isinstance(event, sj.JobSuspended | e.AllocationReleased)
        at, still = now, stops or (still and not isinstance(event, sj.JobResumed))
        held += _grown(event)
    if not still:
        work, span = work + held * (ended - at), span + ended - at
    return ceil(round(work / span, 6)) if span > 0 else held


def _grown(event: Event) -> int:
    """Return how many processors more a job has, or goes on with, after the event."""
    if isinstance(event, e.AllocationGrown):
        return _size(event.added)
    return -_size(event.removed) if isinstance(event, e.AllocationShrunk | e.AllocationLost) else 0


def _size(place: NodeCores) -> int:
    return sum(len(numbers) for _, numbers in place)
