"""Jobs that wait for other jobs: when their condition is met, and when they wait in vain."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import Enum

import msgspec

from headnode.core.model.errors import BadRequest, NotFound, Path, Refused, WrongState
from headnode.core.model.job import DEPENDENCY_FIELDS, Condition, JobSpec, dependencies, parents
from headnode.core.model.quantities import Instant, JobId
from headnode.core.model.value_checks import find_cycle
from headnode.core.state import job_events as e
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.job_record import JobRecord, decode_spec
from headnode.core.state.transitions import JobState


class ParentOutcome(msgspec.Struct, frozen=True, gc=False):
    """The progress of a parent job, as far as dependencies need it.

    skipped: it was canceled because what it waited for could not come true any more.
    """

    state: JobState
    started: bool = False  # at least once
    skipped: bool = False
    sweeps: "tuple[SweepOutcome, ...]" = ()  # where instances of other jobs wait for its own


class SweepOutcome(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The numbers of a sweep, and which instances have finished, in inclusive spans."""

    start: int
    increment: int
    count: int
    finished: tuple[tuple[int, int], ...] = ()

    def unfinished(self) -> Iterator[tuple[int, int]]:
        """Yield the spans of the others."""
        begin = 1
        for first, last in self.finished:
            if begin < first:
                yield begin, first - 1
            begin = last + 1
        if begin <= self.count:
            yield begin, self.count


class DependencyState(Enum):
    """The state of one dependency of a job."""

    MET = "it is satisfied"
    OPEN = "it is not satisfied yet"
    NEVER = "it can no longer be satisfied: the job has ended"


def outcome_of(record: JobRecord) -> ParentOutcome:
    """Return what has become of a job."""
    run = record.run
    started = run is not None and (run.starts > 0 or run.started is not None)
    return ParentOutcome(record.state, started, record.skipped)


def dependency_state(condition: Condition, fate: ParentOutcome) -> DependencyState:
    """Return how it stands with a condition: the end of a job decides about each.

    A job that was skipped is over, and neither succeeded nor failed nor started.  One that failed or was
    canceled may run again; what was canceled for its end is then brought back (`depend`).
    """
    if fate.skipped:
        return DependencyState.MET if condition is Condition.ON_EXIT else DependencyState.NEVER
    if _is_met(condition, fate):
        return DependencyState.MET
    return DependencyState.NEVER if fate.state.is_final else DependencyState.OPEN


def _is_met(condition: Condition, fate: ParentOutcome) -> bool:
    match condition:
        case Condition.ON_SUCCESS:
            return fate.state is JobState.FINISHED
        case Condition.ON_FAILURE:
            return fate.state in (JobState.FAILED, JobState.CANCELED)
        case Condition.ON_EXIT:
            return fate.state.is_final
        case Condition.ON_START:
            return fate.started
        case Condition.ON_CORRESPONDING:  # as a whole; each instance is looked at in `instance_waits`
            return fate.state is JobState.FINISHED


def all_met(spec: JobSpec, parent: int, fate: ParentOutcome) -> bool:
    """Return whether everything has come true that a job waits for of one parent.

    What a singleton waits for without naming it must have ended.
    """
    conditions = [condition for one, condition in _of_whole_job(spec) if one == parent] or [Condition.ON_EXIT]
    return all(dependency_state(condition, fate) is DependencyState.MET for condition in conditions)


def _of_whole_job(spec: JobSpec) -> Iterator[tuple[int, Condition]]:
    """Yield what a job as a whole waits for, not its instances one by one."""
    return (each for each in dependencies(spec) if each[1] is not Condition.ON_CORRESPONDING)


def every_dependency(spec: JobSpec, waits_for: Iterable[int]) -> Iterator[tuple[int, Condition]]:
    """Yield what a job names as its dependencies, and the jobs that it waits for as a singleton."""
    yield from dependencies(spec)
    named = parents(spec)
    yield from ((one, Condition.ON_EXIT) for one in waits_for if one not in named)


def hopeless(spec: JobSpec, fates: Mapping[int, ParentOutcome]) -> Iterator[tuple[int, Condition]]:
    """Yield what a job waits for and its parents' end has decided against, of the parents that are known."""
    for parent, condition in _of_whole_job(spec):
        fate = fates.get(parent)
        if fate is not None and dependency_state(condition, fate) is DependencyState.NEVER:
            yield parent, condition


_CONDITION_WORDS = {
    Condition.ON_SUCCESS: "finish",
    Condition.ON_FAILURE: "fail",
    Condition.ON_EXIT: "end",
    Condition.ON_START: "start",
    Condition.ON_CORRESPONDING: "finish, for each instance the one of its number",
}


def condition_words(condition: Condition) -> str:
    """Return what a job waits for a parent to do, such as ``fail``."""
    return _CONDITION_WORDS[condition]


def outcome_words(fate: ParentOutcome) -> str:
    """Return what has become of a parent, such as ``is running``."""
    if fate.skipped:
        return "was canceled before it started, because its dependencies could no longer be satisfied"
    match fate.state:
        case JobState.CONFIGURING:
            return "is not submitted"
        case JobState.ENDING:
            return "is ending"
        case JobState.CANCELED:
            return "was canceled"
        case JobState.FINISHED | JobState.FAILED:
            return fate.state.value if fate.started else f"{fate.state.value} without ever starting"
        case _:
            return f"is {fate.state.value}"


def waits(
    cluster: ClusterState,
    spec: JobSpec,
    ended: Mapping[int, ParentOutcome],
    job: JobId,
    owner: str,
    beside: Collection[int] = (),
    same_name: Collection[int] = (),
) -> tuple[int, ...]:
    """Return the jobs of which something must come true before the job of that owner may start.

    `ended` tells of those that are over, `beside` are submitted in the same moment; those of them that have
    the owner and name of the job, and come before it, are `same_name`.
    Raises:  NotFound ``no-such-parent``; WrongState ``parent-not-submitted`` and ``never-possible``;
             BadRequest ``job-circle``.
    """
    wanted = parents(spec)
    _refuse_unknown_names(spec)
    before = (*of_same_name(cluster, spec, job, owner), *same_name) if spec.singleton else ()
    if not wanted:
        return before
    fates = {}
    for parent in wanted:
        try:
            fates[parent] = fate_of(cluster, parent, ended, job, beside)
        except Refused as no:
            raise no.inside(*_path_of(spec, parent)) from None
    for parent, condition in hopeless(spec, fates):
        raise WrongState(
            code="never-possible",
            what=f"{_in_vain(parent, condition, fates[parent])}: the job would never start",
            fix=_instead(parent, fates[parent]),
            path=_path_of(spec, parent, condition),
        )
    waiting = tuple(parent for parent in wanted if not all_met(spec, parent, fates[parent]))
    if job in cluster.children:  # else no job waits for it: it closes no circle
        _refuse_circle(cluster, job, waiting)
    return (*waiting, *(one for one in before if one not in wanted))


def _refuse_unknown_names(spec: JobSpec) -> None:
    for unknown in spec.named_parents:
        raise NotFound(
            code="no-such-parent",
            what=f"the job depends on a job with {unknown}, and there is none",
            fix="write the number of the job",
            path=("named_parents", 0),
        )


def of_same_name(cluster: ClusterState, spec: JobSpec, job: JobId, owner: str) -> tuple[int, ...]:
    """Return the jobs that were submitted before and that a singleton waits for."""
    from headnode.core.state import singletons  # few jobs are singletons

    return singletons.of_same_name(cluster, spec, job, owner)


def _path_of(spec: JobSpec, parent: int, condition: Condition | None = None) -> Path:
    """Return where a job names a parent, of that condition if it is not None."""
    for each, field in DEPENDENCY_FIELDS.items():
        if condition in (None, each) and parent in getattr(spec, field):
            return field, getattr(spec, field).index(parent)
    return ()


def fate_of(
    cluster: ClusterState,
    parent: int,
    ended: Mapping[int, ParentOutcome],
    job: JobId,
    beside: Collection[int],
) -> ParentOutcome:
    """Return what has become of a parent of a job; arguments as in `waits`.

    Raises:  NotFound ``no-such-parent``; WrongState ``parent-not-submitted``.
    """
    if parent in beside and parent != job:
        return ParentOutcome(JobState.QUEUED)
    alive = cluster.jobs.get(JobId(parent))
    found = outcome_of(alive) if alive is not None else _just_ended(cluster, (parent,)).get(parent)
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


def _just_ended(cluster: ClusterState, jobs: Collection[int]) -> dict[int, ParentOutcome]:
    """Return what became of those that ended in this batch and are not in the archive yet."""
    return {
        job: outcome_of(cluster.agenda.for_archive[JobId(job)])
        for job in jobs
        if JobId(job) in cluster.agenda.for_archive
    }


def _refuse_circle(cluster: ClusterState, job: JobId, waiting: tuple[int, ...]) -> None:
    graph: dict[int, tuple[int, ...]] = {job: waiting}
    ahead = list(waiting)
    while ahead:
        parent = ahead.pop()
        record = cluster.jobs.get(JobId(parent))
        if parent not in graph and record is not None:
            graph[parent] = record.waits_for
            ahead += record.waits_for
    circle = find_cycle(graph)
    if circle:
        raise BadRequest(
            code="job-circle",
            what="jobs would wait for each other: " + " -> ".join(map(str, circle)),
            fix="remove one dependency",
        )


def cancel_if_in_vain(cluster: ClusterState, record: JobRecord, now: Instant) -> list[e.JobEnded]:
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
                at=now, job=record.id, outcome="canceled", message=message, skipped=True, parent=JobId(parent)
            )
        ]
    return []


def _instead(parent: int, fate: ParentOutcome) -> str:
    if fate.state is JobState.FINISHED or fate.skipped:
        return "leave that dependency out, or name another job"
    return f"run job {parent} again first: hn job requeue {parent}; or leave that dependency out"


def _in_vain(parent: int, condition: Condition, fate: ParentOutcome) -> str:
    return (
        f"it waits for job {parent} to {condition_words(condition)} ({condition.value}), "
        f"and job {parent} {outcome_words(fate)}"
    )


def set_awaited(cluster: ClusterState, record: JobRecord, awaited: tuple[int, ...]) -> None:
    """Set the dependencies that are still open; the others are satisfied, but a requeue may reopen them."""
    record.waits_for = awaited
    wanted = parents(cluster.spec(record))
    record.satisfied = tuple(parent for parent in wanted if parent not in awaited) if wanted else ()


def update_children(cluster: ClusterState, parent: JobRecord) -> None:
    """Apply the state of a parent to its children: satisfy their conditions, or reopen them if not started.

    The engine attends to those that can never start any more.
    """
    children = cluster.children.get(parent.id)
    if children is None:
        return
    fate = outcome_of(parent)
    for job in sorted(children):
        child = cluster.jobs[job]
        spec = decode_spec(child.spec)
        if all_met(spec, parent.id, fate) == (parent.id in child.waits_for):
            cluster.dequeue(child)
            set_awaited(cluster, child, _changed(spec, child, parent.id))
            cluster.enqueue(child)
            cluster.agenda.children_released = True
        if any(hopeless(spec, {parent.id: fate})):
            cluster.agenda.dirty_jobs.add(child.id)


def _changed(spec: JobSpec, child: JobRecord, parent: int) -> tuple[int, ...]:
    """Return what the child waits for when that has changed for this parent, in the order of its spec."""
    waiting = {parent}.symmetric_difference(child.waits_for)
    known = dict.fromkeys((*parents(spec), *child.waits_for))
    return tuple(awaited for awaited in known if awaited in waiting)
