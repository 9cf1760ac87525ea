"""What the cluster knows of run times: every job that ends teaches it, and the newest of the archive do."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.events import Event
from headnode.core.lifecycle.records import JobRecord, decode_record, spec_of
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.scheduling.predicting.run_times import Asked, History
from headnode.engine.ports import Archive, EndedJob

TAUGHT = 5_000  # of the newest ended jobs, at the start of a head
_SLICE = 500  # of them at a time


class Running(NamedTuple):
    """A job that runs: what it asked for, and since when, as if it had never stood still."""

    asked: Asked
    since: Instant


class Experience:
    """The run times of the past, and the jobs that will add to them when they end."""

    def __init__(self, cluster: Cluster) -> None:
        self.history = History()
        self.running: dict[JobId, Running] = {}
        for job in cluster.running:
            self._began(job, cluster)

    def note(self, events: Iterable[Event], cluster: Cluster) -> None:
        """Learn from the jobs that have ended by now."""
        for event in events:
            match event:
                case e.JobStarted(job=job) | e.JobModified(job=job) | e.JobResumed(job=job):
                    self._began(job, cluster)
                case e.JobRequeued(job=job) | e.JobReturned(job=job) | e.JobSuspended(job=job):
                    self.running.pop(job, None)
                case e.JobEnded(job=job, outcome=outcome, at=at):
                    ran = self.running.pop(job, None)
                    if ran is not None:
                        self._learn(ran.asked, outcome, Seconds(at - ran.since))

    def read(self, archive: Archive, most: int = TAUGHT) -> Iterator[Sequence[EndedJob]]:
        """Yield the newest ended jobs, some at a time, the newest first; `teach` takes them in turn back."""
        before: int | None = None
        while most > 0:
            page = archive.ended_jobs(owner=None, states=(), before=before, limit=min(_SLICE, most))
            if not page:
                return
            yield page
            before, most = page[-1].id, most - len(page)

    def teach(self, jobs: Sequence[EndedJob]) -> None:
        """Learn from jobs of the archive, newest first."""
        for job in reversed(jobs):
            record = decode_record(job.record)
            if record.run is not None and record.run.started is not None:
                used = Seconds(job.ended - record.run.started - record.run.not_run)
                self._learn(asked_of(job.owner, spec_of(record)), job.state, used)

    def _began(self, job: JobId, cluster: Cluster) -> None:
        record, flow = cluster.jobs.get(job), cluster.flows.get(job)
        if record is None or record.is_aside or flow is None or flow.run.started is None:
            return
        since = Instant(flow.run.started + flow.run.not_run)
        self.running[job] = Running(asked_of(record.owner, flow.spec), since)

    def _learn(self, asked: Asked, outcome: str, used: Seconds) -> None:
        """Learn from a job that came to its own end or to its limit; one that was canceled tells nothing."""
        if used > 0 and (outcome != "canceled" or used >= asked.limit):
            self.history.learn(asked, used)


def ran_for(record: JobRecord) -> Seconds:
    """Return how long a suspended job ran before it stood still."""
    run = record.run
    if run is None or run.started is None or run.suspension is None:
        return Seconds(0.0)
    return Seconds(max(0.0, run.suspension.since - run.started - run.not_run))


def asked_of(owner: str, spec: JobSpec) -> Asked:
    """Return what is known of a job before it runs."""
    return Asked(owner, spec.name, spec.run_time)
