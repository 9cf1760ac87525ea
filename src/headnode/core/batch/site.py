"""What another scheduler shows of itself: its queue, nodes, partitions and ended jobs, now and in the past.

All of it comes from commands whose answers others influence: a job may have any name.  So it is used to
explain and to predict only.  What becomes of our own jobs is decided by `hand_off` alone.
"""

import re
from collections.abc import Iterator, Sequence
from functools import partial
from math import inf
from typing import Final

import msgspec
from msgspec.structs import replace

from headnode.core.batch.dialect import ForeignState, printable
from headnode.core.model.quantities import Instant, Seconds

MAX_TEXT: Final = 64  # characters of a name that a user chose
MAX_JOBS: Final = 20_000  # jobs of one answer that are kept
MAX_NODES: Final = 20_000
MAX_ENDED: Final = 5_000  # ended jobs of one answer that are kept


plain = partial(printable, most=MAX_TEXT)


class SiteJob(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """A job there, of any user.  Times are instants; memory is in MB for each node.

    `elements` is more than 1 for the part of an array that waits.  `expected` is its own scheduler's.
    """

    id: str
    user: str
    name: str
    state: ForeignState
    word: str  # its scheduler's word for the state
    reason: str = ""
    priority: int = 0
    partitions: tuple[str, ...] = ()
    submitted: Instant | None = None
    started: Instant | None = None
    expected: Instant | None = None
    ended: Instant | None = None
    limit: Seconds = Seconds(inf)
    processors: int = 1
    node_count: int = 1
    memory: int = 0
    exclusive: bool = False
    account: str = ""
    nodes: str = ""  # where it runs, as its scheduler writes node sets
    features: tuple[tuple[str, ...], ...] = ()  # of each inner tuple its nodes have one
    elements: int = 1


class SiteNode(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """A node there.  `closed` says why it starts no job; memory is in MB."""

    name: str
    partitions: tuple[str, ...]
    state: str
    processors: int
    allocated: int
    memory: int = 0
    features: tuple[str, ...] = ()
    closed: str = ""


class SitePartition(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """A partition or queue there.  Limits are in seconds."""

    name: str
    is_default: bool = False
    state: str = ""
    most_time: Seconds = Seconds(inf)
    default_time: Seconds | None = None
    nodes: int = 0
    processors: int = 0


class SiteFacts(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """The site: its scheduler and settings.  `policy` is the policy of Headnode that is most like its own."""

    version: str = ""
    cluster: str = ""
    scheduler: str = ""
    policy: str = "easy"
    counts_memory: bool = False
    whole_nodes: bool = False
    hides_jobs: bool = False
    partitions: tuple[SitePartition, ...] = ()

    def partition(self, name: str) -> SitePartition | None:
        """Return a partition; the default one for an empty name."""
        partitions = (each for each in self.partitions if (each.name == name if name else each.is_default))
        return next(partitions, None)


class SiteSnapshot(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Everything at one instant.  `left_out` jobs were beyond `MAX_JOBS`; `problem`: why it is old."""

    resource: str
    at: Instant
    facts: SiteFacts
    jobs: tuple[SiteJob, ...] = ()
    nodes: tuple[SiteNode, ...] = ()
    ended: tuple[SiteJob, ...] = ()  # from accounting, since the last time
    left_out: int = 0
    poll_time: Seconds = Seconds(0.0)
    problem: str = ""
    has_accounting: bool = False


def importance(job: SiteJob) -> tuple[bool, bool, int]:
    """Return which jobs are kept of too many: those that run, then those of the highest priority."""
    return job.state is not ForeignState.RUNNING, job.state is not ForeignState.WAITING, -job.priority


_WAITS_LEARNED: Final = 500  # jobs whose waits are learned from


def past_snapshots(snapshot: SiteSnapshot, looks: int) -> Iterator[SiteSnapshot]:
    """Yield what the site would have shown at so many instants, oldest first, at last what it shows now.

    The instants are those at which jobs came that had to wait.  Nodes are as they are now; a job that ended
    without a start was canceled while it waited.
    """
    every = [job for job in (*snapshot.ended, *snapshot.jobs) if job.submitted is not None]
    waited = sorted(
        job.submitted for job in every if job.submitted is not None and job.submitted < (job.started or 0.0)
    )[-_WAITS_LEARNED:]
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


_MEMORY = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)([KMGT]?)[nc]?\+?")
_SIZES: Final = {"K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2}


def megabytes(text: str) -> int:
    """Return an amount of memory in MB; 0 for what is none.

    >>> megabytes("4000M"), megabytes("2.5G"), megabytes("1000"), megabytes("N/A")
    (4000, 2560, 1000, 0)
    """
    match = _MEMORY.fullmatch(text)
    return 0 if match is None else round(float(match[1]) * _SIZES[match[2] or "M"])
