"""What a site showed in the past, made of its history: a new head learns from it as an old one did."""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from headnode.core.batch.dialect import ForeignState
from headnode.core.batch.site import SiteJob, SiteSnapshot
from headnode.core.model.quantities import Instant

NEWEST: Final = 500  # jobs whose waits are learned from


def past_snapshots(snapshot: SiteSnapshot, looks: int) -> Iterator[SiteSnapshot]:
    """Yield what the site would have shown at so many instants, oldest first, at last what it shows now.

    The instants are those at which jobs came that had to wait.  Nodes are as they are now; a job that ended
    without a start was canceled while it waited.
    """
    every = [job for job in (*snapshot.ended, *snapshot.jobs) if job.submitted is not None]
    waited = sorted(
        job.submitted for job in every if job.submitted is not None and job.submitted < (job.started or 0.0)
    )[-NEWEST:]
    taught: set[str] = set()
    for number in range(min(looks, len(waited))):
        at = waited[number * len(waited) // min(looks, len(waited))]
        over = tuple(job for job in every if _ended_by(job, at) and job.id not in taught)
        taught |= {job.id for job in over}
        yield replace(snapshot, at=at, ended=over, jobs=tuple(_alive(every, at)), left_out=0)
    yield snapshot


def _ended_by(job: SiteJob, at: Instant) -> bool:
    return job.ended is not None and job.ended <= at


def _alive(jobs: Sequence[SiteJob], at: Instant) -> Iterator[SiteJob]:
    """Yield the jobs that waited or ran at an instant, as they were."""
    for job in jobs:
        if job.submitted is None or job.submitted > at or _ended_by(job, at):
            continue
        if job.started is not None and job.started <= at:
            yield replace(job, state=ForeignState.RUNNING, word="RUNNING", ended=None, reason="")
        else:
            yield replace(
                job, state=ForeignState.WAITING, word="PENDING", started=None, ended=None, reason="Priority"
            )
