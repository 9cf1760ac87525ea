"""Decide which other jobs a job waits for when it comes into the queue, and when it waits in vain.

Source: SSS 3.1.0, "Dependency" (attribute condition); HPC Pack, ParentJobIds.
"""

from collections.abc import Collection, Mapping

from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.parents import Fate, all_met, fate_of, hopeless, how_it_stands, wished
from headnode.core.lifecycle.records import JobRecord
from headnode.core.lifecycle.states import JobState
from headnode.core.model.circles import find_circle
from headnode.core.model.dependencies import Condition, parents
from headnode.core.model.errors import BadRequest, NotFound, WrongState
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Instant, JobId


def waits(
    cluster: Cluster,
    spec: JobSpec,
    ended: Mapping[int, Fate],
    job: JobId,
    beside: Collection[int] = (),
) -> tuple[int, ...]:
    """Return the jobs of which something must come true before the job may start.

    `ended` tells of those that are over, `beside` are submitted in the same moment.
    Raises:  NotFound ``no-such-parent``; WrongState ``parent-not-submitted`` and ``never-possible``;
             BadRequest ``job-circle``.
    """
    wanted = parents(spec)
    for unknown in spec.named_parents:
        raise NotFound(
            code="no-such-parent",
            what=f"the job waits for a job with {unknown}, and that job is not known",
            fix="write the number of the job",
        )
    if not wanted:
        return ()
    fates = {parent: _fate(cluster, parent, ended, job, beside) for parent in wanted}
    for parent, condition in hopeless(spec, fates):
        raise WrongState(
            code="never-possible",
            what=f"{_in_vain(parent, condition, fates[parent])}: the job would never start",
            fix=_instead(parent, fates[parent]),
        )
    waiting = tuple(parent for parent in wanted if not all_met(spec, parent, fates[parent]))
    if job in cluster.children:  # else nobody waits for it: it closes no circle
        _refuse_circle(cluster, job, waiting)
    return waiting


def _fate(
    cluster: Cluster, parent: int, ended: Mapping[int, Fate], job: JobId, beside: Collection[int]
) -> Fate:
    if parent in beside and parent != job:
        return Fate(JobState.QUEUED)
    alive = cluster.jobs.get(JobId(parent))
    found = fate_of(alive) if alive is not None else _just_ended(cluster, (parent,)).get(parent)
    found = found or ended.get(parent)
    if parent == job or found is None:
        raise NotFound(
            code="no-such-parent",
            what=f"parent job {parent} does not exist",
            fix="submit the parent first and use its id",
        )
    if found.state is JobState.CONFIGURING:
        raise WrongState(
            code="parent-not-submitted",
            what=f"parent job {parent} has not been submitted",
            fix=f"submit it first: hn job submit /id:{parent}",
        )
    return found


def _just_ended(cluster: Cluster, wanted: Collection[int]) -> dict[int, Fate]:
    """Return what became of those that ended in this batch and are not in the archive yet."""
    return {job: fate_of(cluster.over[JobId(job)]) for job in wanted if JobId(job) in cluster.over}


def _refuse_circle(cluster: Cluster, job: JobId, waiting: tuple[int, ...]) -> None:
    graph: dict[int, tuple[int, ...]] = {job: waiting}
    ahead = list(waiting)
    while ahead:
        parent = ahead.pop()
        record = cluster.jobs.get(JobId(parent))
        if parent not in graph and record is not None:
            graph[parent] = record.waits_for
            ahead += record.waits_for
    circle = find_circle(graph)
    if circle:
        raise BadRequest(
            code="job-circle",
            what="jobs would wait for each other: " + " -> ".join(map(str, circle)),
            fix="remove one dependency",
        )


def in_vain(cluster: Cluster, record: JobRecord, now: Instant) -> list[e.JobEnded]:
    """Return the end of a queued job when the end of a job that it waits for was not the one; else nothing.

    Parents that ended in batches before have been looked at then.
    """
    if not record.waits_for:
        return []
    over = [parent for parent in record.waits_for if JobId(parent) not in cluster.jobs]
    fates = _just_ended(cluster, over)
    for parent, condition in hopeless(cluster.spec(record), fates):
        message = _in_vain(parent, condition, fates[parent])
        return [
            e.JobEnded(
                at=now,
                job=record.id,
                outcome="canceled",
                message=message,
                skipped=True,
                because=JobId(parent),
            )
        ]
    return []


def _instead(parent: int, fate: Fate) -> str:
    if fate.state is JobState.FINISHED or fate.skipped:
        return "leave that dependency out, or name another job"
    return f"run job {parent} again first: hn job requeue {parent}; or leave that dependency out"


def _in_vain(parent: int, condition: Condition, fate: Fate) -> str:
    return (
        f"it waits for job {parent} to {wished(condition)} ({condition.value}), "
        f"and job {parent} {how_it_stands(fate)}"
    )
