"""Purging ended jobs: their records leave the archive and, later, the journal.

Source:  HPC Pack, cluster parameter TTLCompletedJobs; Slurm, slurmdbd.conf, PurgeJobAfter.
"""

from typing import Final

from headnode.core.model.errors import Broken, WrongState
from headnode.core.model.quantities import Instant, JobId
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.command import Command
from headnode.core.state.events import Event, JobsPurged

TTL_COMPLETED_JOBS: Final = "TTLCompletedJobs"
"""The parameter: for how many days after the end of a job nodes keep its captured output; 0: for ever."""
PURGE_JOBS_AFTER: Final = "PurgeJobsAfter"
"""The parameter: how many days after its end a job is purged; 0: never."""


class PurgeJobs(Command, frozen=True):
    """Remove the records of ended jobs."""

    jobs: tuple[JobId, ...]


def is_needed(cluster: ClusterState, job: JobId) -> bool:
    """Whether a job is alive, or something that is alive asks for it: a child, or a bank that is not paid."""
    return job in cluster.jobs or job in cluster.children or any(of == job for of, _ in cluster.bank.entries)


def purge_jobs(cluster: ClusterState, command: PurgeJobs, now: Instant) -> list[Event]:
    """Purge jobs; those that are needed again stay.

    Raises:  WrongState ``job-needed`` when none is left.
    """
    jobs = tuple(job for job in command.jobs if not is_needed(cluster, job))
    if not jobs:
        raise WrongState(
            code="job-needed", what="these jobs have not ended, or others that have not need them"
        )
    return [JobsPurged(at=now, jobs=jobs)]


def jobs_purged(cluster: ClusterState, event: JobsPurged) -> None:
    """The state has nothing of ended jobs.

    Raises:  Broken ``job-alive``.
    """
    if alive := [job for job in event.jobs if job in cluster.jobs]:
        raise Broken(code="job-alive", what=f"job {alive[0]} is purged and has not ended")
