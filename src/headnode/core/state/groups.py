"""Several jobs that are created or submitted together, all or none, and the state of a job group."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

from msgspec.structs import replace

from headnode.core.model.bounds import TASKS_OF_JOB
from headnode.core.model.dependency import DependencyLink
from headnode.core.model.errors import BadRequest, Refused
from headnode.core.model.job import DEPENDENCY_FIELDS, JobSpec, parents
from headnode.core.model.job_checks import check_job
from headnode.core.model.quantities import Instant, JobId
from headnode.core.model.user import User
from headnode.core.model.value_checks import find_cycle
from headnode.core.state import submit as c
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.command import Command
from headnode.core.state.depend import ParentOutcome, outcome_of
from headnode.core.state.events import Event
from headnode.core.state.job_events import JobCreated
from headnode.core.state.job_record import JobRecord
from headnode.core.state.permissions import created_event
from headnode.core.state.submit import (
    by_template,
    check_description_memory_of,
    checked,
    configured,
    submission,
)
from headnode.core.state.templates import submitted_spec
from headnode.core.state.transitions import JobState


class CreateJobs(Command, frozen=True):
    """Create several jobs in one step, and submit them if `submit` is set: all of them, or none.

    `links` say which of them wait for which; `parents` as in `SubmitJob`, `users` as in `CreateJob`.
    `sources`: by the number (from 0) of its first job, the job file of that and those behind it, compressed;
    empty: none is kept.  `batch` as in `Receipt`.
    """

    by: User
    specs: tuple[JobSpec, ...]
    links: tuple[DependencyLink, ...] = ()
    submit: bool = False
    parents: Mapping[int, ParentOutcome] = {}
    users: Mapping[str, User] = {}
    sources: Mapping[int, bytes] = {}
    batch: bytes = b""


class SubmitJobs(Command, frozen=True):
    """Submit several jobs in one step: all of them, or none.  `parents` as in `SubmitJob`."""

    by: User
    jobs: tuple[JobId, ...]
    parents: Mapping[int, ParentOutcome] = {}


def create_several(cluster: ClusterState, command: CreateJobs, now: Instant) -> list[Event]:
    """Make jobs with ids in their order, and submit them if that is requested.

    Raises:  what refuses one of them, with its number and name; BadRequest ``job-link`` and ``job-circle``.
    """
    _check_links(command.specs, command.links)
    specs = linked(command.specs, command.links, cluster.next_job)
    made: list[JobCreated] = []
    source, holder = b"", 0  # the job file, and the job that has it
    for number, spec in enumerate(specs):
        try:
            if command.submit:
                specs[number] = spec = submitted_spec(cluster, command.by, spec)
            job = JobId(cluster.next_job + number)
            if number in command.sources:
                source, holder = command.sources[number], job
            kept = (source, 0) if holder == job else (b"", holder if source else 0)
            made.append(created_event(command.by, job, spec, checked(spec), command.users, now, kept))
        except Refused as no:
            raise about(no, spec, number, len(specs)) from None
    check_description_memory_of(cluster, made)
    if not command.submit:
        return [*made]
    owners = [(event.owner, spec.project) for event, spec in zip(made, specs, strict=True)]
    cluster.limit_index.check_submission(owners)
    ids = range(cluster.next_job, cluster.next_job + len(specs))
    return [*made, *_submissions(cluster, command, ids, specs, [owner for owner, _ in owners], now)]


def submit_several(cluster: ClusterState, command: SubmitJobs, now: Instant) -> list[Event]:
    """Put jobs that were made before into the queue, whichever of them wait for each other.

    Raises:  what refuses one of them, with its number and name; BadRequest ``job-circle``.
    """
    specs: list[JobSpec] = []
    shaped: list[Event] = []
    owners: list[tuple[str, str]] = []
    tasks = 0
    for job in command.jobs:
        record = configured(cluster, job, command.by)
        written = cluster.written(record)
        tasks += len(written.tasks)
        _refuse_crowd(tasks)
        specs.append(submitted_spec(cluster, command.by, written))
        check_job(specs[-1])
        shaped += by_template(record, written, specs[-1], now)
        owners.append((record.owner, specs[-1].project))
    cluster.limit_index.check_submission(owners)
    of = [owner for owner, _ in owners]
    return [*shaped, *_submissions(cluster, command, command.jobs, specs, of, now)]


def _refuse_crowd(tasks: int) -> None:
    if tasks > TASKS_OF_JOB.most:
        raise BadRequest(
            code="too-many-tasks",
            what=f"the group has more than {TASKS_OF_JOB.most:,} tasks",
            fix="submit its jobs one by one: hn job submit /id:ID",
            path=("jobs",),
        )


def _submissions(
    cluster: ClusterState,
    command: CreateJobs | SubmitJobs,
    ids: Sequence[int],
    specs: Sequence[JobSpec],
    owners: Sequence[str],
    now: Instant,
) -> Iterator[Event]:
    same_name = _singletons_among(ids, specs, owners)
    _refuse_circle(dict(zip(ids, specs, strict=True)), same_name)
    for number, (job, spec, owner) in enumerate(zip(ids, specs, owners, strict=True)):
        one = c.SubmitJob(by=command.by, job=JobId(job), parents=command.parents)
        before = same_name.get(job, ())
        try:
            yield submission(cluster, one, spec, owner, now, place=number, beside=ids, same_name=before)
        except Refused as no:
            raise about(no, spec, number, len(specs)) from None


def _singletons_among(
    ids: Sequence[int], specs: Sequence[JobSpec], owners: Sequence[str]
) -> dict[int, tuple[int, ...]]:
    if not any(spec.singleton for spec in specs):
        return {}
    from headnode.core.state.singletons import singletons_among  # few jobs are singletons

    return singletons_among(ids, specs, owners)


def _refuse_circle(specs: Mapping[int, JobSpec], same_name: Mapping[int, tuple[int, ...]]) -> None:
    waiting = {
        job: found
        for job, spec in specs.items()
        if (found := (*parents(spec, of_instances=True), *same_name.get(job, ())))
    }
    if not waiting:
        return
    circle = find_cycle(
        {
            job: [parent for parent in found if parent in waiting and parent != job]
            for job, found in waiting.items()
        }
    )
    if circle:
        listed = " -> ".join(f"job {job}" for job in circle)
        raise BadRequest(
            code="job-circle", what=f"jobs wait for each other: {listed}", fix="remove one dependency"
        )


def linked(specs: Sequence[JobSpec], links: Sequence[DependencyLink], first: int) -> list[JobSpec]:
    """Return the jobs as they wait for each other, if their ids count from `first`."""
    awaited: dict[int, dict[str, list[int]]] = {}
    for link in links:
        field = DEPENDENCY_FIELDS[link.condition]
        awaited.setdefault(link.child, {}).setdefault(field, []).append(first + link.parent)
    found = list(specs)
    for child, more in awaited.items():
        spec = found[child]
        fields = {field: tuple(dict.fromkeys((*getattr(spec, field), *ids))) for field, ids in more.items()}
        found[child] = replace(spec, **fields)
    return found


def _check_links(specs: Sequence[JobSpec], links: Sequence[DependencyLink]) -> None:
    graph: dict[int, list[int]] = {}
    for link in links:
        if not (0 <= link.child < len(specs) and 0 <= link.parent < len(specs)):
            raise BadRequest(
                code="job-link",
                what=f"job {link.child + 1} waits for job {link.parent + 1}, and there are {len(specs)}",
                fix="name one of them",
            )
        graph.setdefault(link.child, []).append(link.parent)
    circle = find_cycle(graph)
    if circle:
        listed = " -> ".join(_called(specs[number], number) for number in circle)
        raise BadRequest(
            code="job-circle", what=f"jobs wait for each other: {listed}", fix="remove one dependency"
        )


def about(no: Refused, spec: JobSpec, number: int, of: int) -> Refused:
    """Return a refusal that says which of several jobs it is about; of one job the refusal itself."""
    if of == 1:
        return no
    what = f"{_called(spec, number)} of {of}: {no.what}"
    return type(no)(code=no.code, what=what, fix=no.fix, path=("jobs", number, *no.path))


def _called(spec: JobSpec, number: int) -> str:
    return f"job {number + 1}" + (f" {spec.name!r}" if spec.name else "")


class GroupState(StrEnum):
    """The state of a job group."""

    NOT_QUEUED = "NotQueued"  # none of its jobs is submitted
    UNSTARTED = "Unstarted"  # none has started
    ACTIVE = "Active"
    COMPLETED = "Completed"  # all are over


def group_state(jobs: Iterable[JobRecord]) -> GroupState:
    """Return the state of the group that consists of these jobs.

    One that is over counts as started, whether it ever did or not: something has become of the group.
    """
    outcomes = [outcome_of(job) for job in jobs]
    if outcomes and all(outcome.state.is_final for outcome in outcomes):
        return GroupState.COMPLETED
    if any(outcome.started or outcome.state.is_final for outcome in outcomes):
        return GroupState.ACTIVE
    if all(outcome.state is JobState.CONFIGURING for outcome in outcomes):
        return GroupState.NOT_QUEUED
    return GroupState.UNSTARTED


def jobs_of_group_now(jobs: Collection[JobRecord]) -> list[JobRecord]:
    """Return the jobs that a group has now, of all that ever came under its name, in the order of their ids.

    Those that are not over, and what came with the first of them or later; when all are over, what came last.
    Jobs of one file come in the same instant.
    """
    alive = [job.created for job in jobs if not job.state.is_final]
    since = min(alive) if alive else max((job.created for job in jobs), default=Instant(0.0))
    return sorted((job for job in jobs if job.created >= since), key=lambda job: job.id)
