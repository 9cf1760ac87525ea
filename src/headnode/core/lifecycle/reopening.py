"""Bring back the jobs that were canceled for the end of a job when that job runs again.

Source: SSS 3.1.0, "Dependency"; Slurm, DependencyNeverSatisfied.
"""

from collections.abc import Collection, Iterator, Mapping

from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.deadlines import check_end_by
from headnode.core.lifecycle.events import Event
from headnode.core.lifecycle.parents import Fate, all_met, fate_of, hopeless
from headnode.core.lifecycle.records import JobRecord, decode_spec, encode_record
from headnode.core.lifecycle.states import JobState
from headnode.core.model.circles import find_circle
from headnode.core.model.dependencies import parents
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Instant, JobId


def reopened(
    cluster: Cluster,
    parent: JobRecord,
    skipped: Collection[JobRecord],
    ended: Mapping[int, Fate],
    by: str,
    now: Instant,
) -> Iterator[Event]:
    """Yield how jobs that were canceled for the end of `parent` come back into the queue.

    Those stay canceled whose deadline has passed, and those that wait for another job that has ended
    differently.  `ended` tells of the other jobs that are over and that these wait for.
    Cost:  O(jobs * dependencies) for each job of a chain that stays canceled.
    """
    specs = {one.id: decode_spec(one.spec) for one in skipped if _may_come_back(cluster, one, now)}
    back = Fate(JobState.QUEUED, started=fate_of(parent).started)
    fates = _fates(cluster, specs, {**ended, parent.id: back})
    while lost := _lost(cluster, specs, fates):
        for job in lost:
            del specs[job]
            fates[job] = ended.get(job, Fate(JobState.CANCELED, skipped=True))
    records = {one.id: one for one in skipped}
    for job, spec in sorted(specs.items()):
        waiting = tuple(one for one in parents(spec) if not all_met(spec, one, fates[one]))
        message = f"job {parent.id} runs again"
        yield e.JobRevived(at=now, job=job, record=encode_record(records[job]), by=by)
        yield e.JobRequeued(at=now, job=job, by=by, message=message, waits_for=waiting)


def _may_come_back(cluster: Cluster, record: JobRecord, now: Instant) -> bool:
    if not record.skipped or record.id in cluster.jobs or record.id in cluster.over:
        return False
    try:
        check_end_by(decode_spec(record.spec), now)
    except BadRequest:
        return False
    return True


def _fates(cluster: Cluster, specs: Mapping[JobId, JobSpec], known: Mapping[int, Fate]) -> dict[int, Fate]:
    """Return what has become of each job that these wait for, as if all of these were queued."""
    fates = dict(known)
    for awaited in {parent for spec in specs.values() for parent in parents(spec)}:
        alive = cluster.jobs.get(JobId(awaited)) or cluster.over.get(JobId(awaited))
        if alive is not None and alive.id not in known:
            fates[awaited] = fate_of(alive)
    return fates | dict.fromkeys(specs, Fate(JobState.QUEUED))


def _lost(cluster: Cluster, specs: Mapping[JobId, JobSpec], fates: Mapping[int, Fate]) -> list[JobId]:
    """Return those that would wait in vain, for what is not known any more, or for each other."""
    found = [
        job
        for job, spec in specs.items()
        if any(hopeless(spec, fates)) or any(parent not in fates for parent in parents(spec))
    ]
    return found or [JobId(job) for job in set(_circle(cluster, specs)) if job in specs]


def _circle(cluster: Cluster, specs: Mapping[JobId, JobSpec]) -> list[int]:
    graph: dict[int, tuple[int, ...]] = {job: parents(spec) for job, spec in specs.items()}
    ahead = [parent for awaited in graph.values() for parent in awaited]
    while ahead:
        job = ahead.pop()
        record = cluster.jobs.get(JobId(job))
        if job not in graph and record is not None:
            graph[job] = (*record.waits_for, *record.met)
            ahead += graph[job]
    return find_circle(graph)
