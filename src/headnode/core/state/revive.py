"""Jobs that were canceled for the end of another job, when that runs again."""

from collections.abc import Collection, Iterator, Mapping

from msgspec.structs import replace

from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec, parents
from headnode.core.model.quantities import Instant, JobId
from headnode.core.model.value_checks import find_cycle
from headnode.core.state import job_events as e
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.depend import (
    ParentOutcome,
    awaited_of,
    elements_of,
    hopeless,
    of_same_name,
    outcome_of,
)
from headnode.core.state.events import Event
from headnode.core.state.job_record import JobRecord, decode_spec, encode_record
from headnode.core.state.job_request import check_end_by
from headnode.core.state.transitions import JobState


def revived_with_parent(
    cluster: ClusterState,
    parent: JobRecord,
    skipped: Collection[JobRecord],
    ended: Mapping[int, ParentOutcome],
    by: str,
    now: Instant,
) -> Iterator[Event]:
    """Yield how jobs that were canceled for the end of `parent` come back into the queue.

    Those stay canceled whose deadline has passed, and those that wait for another job that has ended
    differently.  `ended` tells of the other jobs that are over and that these wait for.
    Cost:  O(jobs * dependencies) for each job of a chain that stays canceled.
    """
    specs = {one.id: decode_spec(one.spec) for one in skipped if _may_come_back(cluster, one, now)}
    back = ParentOutcome(JobState.QUEUED, started=outcome_of(parent).started)
    known = _outcomes(cluster, specs, {**ended, parent.id: back})
    while lost := _stay_canceled(cluster, specs, known):
        for job in lost:
            del specs[job]
            known[job] = ended.get(job, ParentOutcome(JobState.CANCELED, skipped=True))
    records = {one.id: one for one in skipped}
    names: dict[tuple[str, str], list[int]] = {}  # the jobs that come back, by owner and name
    for job, spec in sorted(specs.items()):
        awaited = awaited_of(spec, known)
        back_before = names.setdefault((records[job].owner, spec.name), [])
        if spec.singleton:
            others = (*of_same_name(cluster, spec, job, records[job].owner), *back_before)
            awaited = awaited._replace(waits_for=tuple(dict.fromkeys((*awaited.waits_for, *others))))
        back_before.append(job)
        message = f"job {parent.id} runs again"
        yield e.JobUnarchived(at=now, job=job, record=encode_record(records[job]), by=by)
        back_again = e.JobRequeued(at=now, job=job, by=by, message=message, **awaited._asdict())
        yield replace(back_again, awaiting=_awaiting(cluster, spec, known, parent))


def _awaiting(
    cluster: ClusterState, spec: JobSpec, known: Mapping[int, ParentOutcome], parent: JobRecord
) -> e.InstancesAwaiting:
    """Return which instances of a job that comes back wait for those of other jobs."""
    if not spec.after_corresponding:
        return ()
    from headnode.core.state.corresponding import awaiting, sweeps_of

    outcomes = {}
    for awaited in spec.after_corresponding:
        alive = parent if awaited == parent.id else cluster.jobs.get(JobId(awaited))
        outcome = known[awaited]
        outcomes[awaited] = outcome if alive is None else replace(outcome, sweeps=sweeps_of(alive))
    return awaiting(spec, outcomes)


def _may_come_back(cluster: ClusterState, record: JobRecord, now: Instant) -> bool:
    if not record.skipped or record.id in cluster.jobs or record.id in cluster.agenda.for_archive:
        return False
    try:
        check_end_by(decode_spec(record.spec), now)
    except BadRequest:
        return False
    return True


def _outcomes(
    cluster: ClusterState, specs: Mapping[JobId, JobSpec], outcomes: Mapping[int, ParentOutcome]
) -> dict[int, ParentOutcome]:
    """Return what has become of each job that these wait for, as if all of these were queued."""
    known = dict(outcomes)
    numbers: dict[int, set[int]] = {}
    for spec in specs.values():
        for parent in parents(spec):
            numbers.setdefault(parent, set()).update(elements_of(spec, parent))
    for awaited in {parent for spec in specs.values() for parent in parents(spec, of_instances=True)}:
        alive = cluster.jobs.get(JobId(awaited)) or cluster.agenda.for_archive.get(JobId(awaited))
        if alive is not None and alive.id not in outcomes:
            known[awaited] = outcome_of(alive, numbers.get(awaited, ()))
    return known | dict.fromkeys(specs, ParentOutcome(JobState.QUEUED))


def _stay_canceled(
    cluster: ClusterState, specs: Mapping[JobId, JobSpec], known: Mapping[int, ParentOutcome]
) -> list[JobId]:
    """Return those that would wait in vain, for what is not known any more, or for each other."""
    found = [
        job
        for job, spec in specs.items()
        if any(hopeless(spec, known))
        or any(parent not in known for parent in parents(spec, of_instances=True))
    ]
    return found or [JobId(job) for job in set(_circle(cluster, specs)) if job in specs]


def _circle(cluster: ClusterState, specs: Mapping[JobId, JobSpec]) -> list[int]:
    graph: dict[int, tuple[int, ...]] = {job: parents(spec, of_instances=True) for job, spec in specs.items()}
    ahead = [parent for awaited in graph.values() for parent in awaited]
    while ahead:
        job = ahead.pop()
        record = cluster.jobs.get(JobId(job))
        if job not in graph and record is not None:
            graph[job] = record.parents
            ahead += graph[job]
    return find_cycle(graph)
