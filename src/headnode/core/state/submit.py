"""Creating and submitting jobs."""

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache

from headnode.core.model.bounds import DESCRIPTIONS, NAME, SMALL_DESCRIPTION
from headnode.core.model.errors import BadRequest, Broken, NotAllowed, WrongState
from headnode.core.model.job import JobSpec
from headnode.core.model.job_checks import check_job, check_runnable
from headnode.core.model.quantities import ANCHORS, Instant, JobId
from headnode.core.model.user import User
from headnode.core.state import job_events as e
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.command import Command
from headnode.core.state.depend import ParentOutcome, set_awaited, waits
from headnode.core.state.events import Event
from headnode.core.state.hold import may_hold
from headnode.core.state.job_events import JobCreated
from headnode.core.state.job_record import (
    MAX_REMEMBERED,
    SMALL,
    JobHold,
    JobRecord,
    JobRun,
    decode_spec,
    encode_spec,
    untouched,
    without_texts,
)
from headnode.core.state.job_request import check_end_by, last_start
from headnode.core.state.permissions import created_event, may_change
from headnode.core.state.reservation_index import check_may_go_in
from headnode.core.state.resources import check_may_be_handed
from headnode.core.state.templates import submission_filters, submitted_spec
from headnode.core.state.transitions import JobState, job_target


class CreateJob(Command, frozen=True):
    """Create a job; with `submit`, submit it at once.  `parents` as in `SubmitJob`.

    `users` are the users of the head's machine that the job names.
    """

    by: User
    spec: JobSpec
    submit: bool = False
    parents: Mapping[int, ParentOutcome] = {}
    users: Mapping[str, User] = {}


class SubmitJob(Command, frozen=True):
    """Submit a job.  `parents` are the outcomes of those of its parent jobs that are over."""

    by: User
    job: JobId
    parents: Mapping[int, ParentOutcome] = {}


def check_description_memory_of(cluster: ClusterState, specs: Iterable[object]) -> None:
    """Refuse jobs for which their owners have no room.

    Raises:  WrongState ``submit``.
    """
    wanted: dict[str, int] = {}
    for event in specs:
        if isinstance(event, JobCreated) and len(event.spec) > SMALL_DESCRIPTION.most:
            wanted[event.owner] = wanted.get(event.owner, 0) + len(event.spec)
    for owner, size in wanted.items():
        check_description_memory(cluster, owner, size)


def check_description_memory(cluster: ClusterState, owner: str, more: int) -> None:
    """Refuse so many more bytes of descriptions of a user's jobs.

    Raises:  WrongState ``submit``.
    Cost:    O(jobs that are not over), and nothing for small descriptions.
    """
    if more <= SMALL_DESCRIPTION.most:
        return
    sizes = (len(job.spec) for job in cluster.jobs.values() if job.owner == owner)
    there = sum(size for size in sizes if size > SMALL_DESCRIPTION.most)
    if there + more > DESCRIPTIONS.most:
        raise WrongState(
            code="descriptions",
            what=f"user {owner!r} may have {DESCRIPTIONS.most:,} bytes of job descriptions at once "
            f"and has {there:,}; the new jobs have {more:,}",
            fix="submit again when some jobs have ended, or submit one sweep instead of many jobs",
        )


MAX_HOLD = 366 * 86400  # seconds


def create(cluster: ClusterState, command: CreateJob, now: Instant) -> list[Event]:
    """Make a job, and submit it if that is requested."""
    spec = submitted_spec(cluster, command.by, command.spec) if command.submit else command.spec
    encoded = checked(spec)
    job = JobId(cluster.next_job)
    made = created_event(command.by, job, spec, encoded, command.users, now)
    check_description_memory_of(cluster, (made,))
    if not command.submit:
        return [made]
    cluster.limit_index.check_submission([(made.owner, spec.project)])
    submitted = SubmitJob(by=command.by, job=job, parents=command.parents)
    return [made, submission(cluster, submitted, spec, made.owner, now)]


def checked(spec: JobSpec) -> bytes:
    """Return the encoded description, or refuse a wrong one.

    Small ones of late that are equal but for name and command line are checked once.
    """
    try:
        data = encode_spec(spec)
    except (UnicodeEncodeError, OverflowError):
        check_job(spec)  # says what is wrong with it
        raise
    if len(data) > SMALL:
        check_job(spec)
        return data
    try:
        _check_written(data)
    except BadRequest:
        check_job(spec)  # says it of this job
        raise
    return data


def _has_plain_texts(spec: JobSpec) -> bool:
    """Return whether no rule can refuse the name and the command lines of a small job.

    Only a bound and the rule against NUL look at them; a small job is below the bound of a command line.
    """
    for task in spec.tasks:
        if "\0" in task.command:
            return False
    return 4 * len(spec.name) <= NAME.most and "\0" not in spec.name and not spec.singleton


@lru_cache(MAX_REMEMBERED)
def _check_written(data: bytes) -> None:
    """Check a small job: a submission is checked when it is read, and again when it is decided."""
    spec = decode_spec(data)
    _check_small(encode_spec(without_texts(spec)) if _has_plain_texts(spec) else data)


@lru_cache(MAX_REMEMBERED)
def _check_small(data: bytes) -> None:
    check_job(decode_spec(data))


def submission(
    cluster: ClusterState,
    command: SubmitJob,
    spec: JobSpec,
    owner: str,
    now: Instant,
    place: int = 0,
    beside: Collection[int] = (),
    same_name: Collection[int] = (),
) -> e.JobSubmitted:
    """Return the submission of a job; `place` is its own among those submitted with it.

    `beside` and `same_name` as in `waits`.
    """
    check_hold(spec, now)
    check_end_by(spec, now)
    check_may_go_in(cluster.reservation_index.named, spec, command.by, now)
    check_may_be_handed(cluster.resource_index.named, spec)
    may_hold(command.by, spec.holds, ("holds",))
    check_privileges(spec, command.by)
    check_runnable(spec)
    awaited = waits(cluster, spec, command.parents, command.job, owner, beside, same_name)
    return e.JobSubmitted(
        at=now,
        job=command.job,
        order=cluster.next_order + place,
        by=command.by.name,
        waits_for=awaited.waits_for,
        awaiting=awaiting(cluster, spec, command.parents, command.job, beside),
        satisfied=awaited.satisfied,
        start_after=awaited.start_after,
        privileged=command.by.administrator,
        validating=bool(submission_filters(cluster, spec)),
        host=command.by.host,
    )


def awaiting(
    cluster: ClusterState,
    spec: JobSpec,
    ended: Mapping[int, ParentOutcome],
    job: JobId,
    beside: Collection[int] = (),
) -> e.InstancesAwaiting:
    """Return which instances of a job wait for those of other jobs; arguments and errors as in `waits`."""
    if not spec.after_corresponding:
        return ()
    from headnode.core.state.corresponding import instances_awaiting  # few jobs wait so

    return instances_awaiting(cluster, spec, ended, job, beside)


def await_instances(cluster: ClusterState, record: JobRecord, waiting: e.InstancesAwaiting) -> None:
    """Apply that instances of a job that is being queued wait for those of other jobs."""
    if waiting:
        from headnode.core.state import instance_waits

        instance_waits.await_instances(cluster, record, waiting)


def check_hold(spec: JobSpec, now: Instant) -> None:
    """Refuse a hold of more than a year.

    Raises:  BadRequest ``hold-until``.
    """
    if spec.hold_until is not None and spec.hold_until > now + MAX_HOLD:
        raise BadRequest(
            code="hold-until",
            what="hold-until is more than a year ahead",
            fix="choose a time within a year",
            path=("hold_until",),
        )


def check_privileges(spec: JobSpec, by: User) -> None:
    """Refuse what only operators and administrators may ask for.

    Raises:  NotAllowed ``priority-privilege``.
    """
    if by.oversees:
        return
    if spec.priority > ANCHORS["Normal"]:
        raise NotAllowed(
            code="priority-privilege",
            what=f"only operators and administrators may use a priority above Normal ({ANCHORS['Normal']})",
            fix="use Normal or less, or ask an operator to raise it with `hn job modify`",
            path=("priority",),
        )


def submit(cluster: ClusterState, command: SubmitJob, now: Instant) -> list[Event]:
    """Put a configured job into the queue."""
    record = configured(cluster, command.job, command.by)
    written = cluster.written(record)
    spec = submitted_spec(cluster, command.by, written)
    check_job(spec)
    cluster.limit_index.check_submission([(record.owner, spec.project)])
    submitted = submission(cluster, command, spec, record.owner, now)
    return [*by_template(record, written, spec, now), submitted]


def by_template(record: JobRecord, written: JobSpec, spec: JobSpec, now: Instant) -> list[Event]:
    """Return what a template changed of a job that was made before."""
    if spec == written:
        return []
    changed = sorted(
        name for name in written.__struct_fields__ if getattr(spec, name) != getattr(written, name)
    )
    what = f"{', '.join(changed)} by its template"
    return [e.JobModified(at=now, job=record.id, spec=encode_spec(spec), changed=what)]


def configured(cluster: ClusterState, job: JobId, by: User) -> JobRecord:
    """Return a job that can be submitted.

    Raises:  WrongState ``already-submitted``; NotAllowed ``not-owner``; NotFound ``no-such-job``.
    """
    record = cluster.job(job)
    may_change(by, record)
    if record.state is not JobState.CONFIGURING:
        raise already_submitted(record)
    return record


def already_submitted(record: JobRecord) -> WrongState:
    """Return the refusal to submit a job once more, with what its state allows instead."""
    again = record.state.is_active or record.state in (JobState.FAILED, JobState.CANCELED)
    return WrongState(
        code="already-submitted",
        what=f"job {record.id} is {record.state.value}: it was submitted before",
        fix=f"submit a copy: hn job clone {record.id}"
        + (f"; or run it again: hn job requeue {record.id}" if again else ""),
    )


def job_created(cluster: ClusterState, event: e.JobCreated) -> None:
    if event.job in cluster.jobs:
        raise Broken(code="job-twice", what=f"job {event.job} was created twice")
    spec = decode_spec(event.spec)
    record = JobRecord(
        id=event.job,
        owner=event.owner,
        uid=event.uid,
        gid=event.gid,
        spec=event.spec,
        state=JobState.CONFIGURING,
        priority=spec.priority,
        created=event.at,
        group=spec.job_group,
        recurring=event.recurring,
    )
    cluster.next_job = max(cluster.next_job, event.job + 1)
    cluster.adopt(record)


def owner_changed(cluster: ClusterState, event: e.JobOwnerChanged) -> None:
    record = cluster.job(event.job)
    job_target(record.state, event)
    record.owner, record.uid, record.gid = event.owner, event.uid, event.gid


def job_submitted(cluster: ClusterState, event: e.JobSubmitted) -> None:
    record = cluster.job(event.job)
    state = job_target(record.state, event, JobState.VALIDATING if event.validating else JobState.QUEUED)
    record.order = record.id if event.order == record.id else event.order  # one object for both
    record.unvalidated = event.validating
    record.submitted = record.created if event.at == record.created else event.at  # one object for both
    record.privileged, record.submit_host = event.privileged, cluster.shared(event.host)
    set_awaited(cluster, record, event)
    spec = cluster.written(record)
    record.hold_until, record.last_start = spec.hold_until, last_start(spec)
    if spec.holds:
        there = {hold.name for hold in record.holds}
        new = [name for name in spec.holds if name not in there]
        record.holds += tuple(JobHold(name=name, at=event.at, by=event.by) for name in new)
    record.message = ""
    cluster.next_order = max(cluster.next_order, event.order + 1)
    cluster.move(record, state)
    if not event.validating:
        await_instances(cluster, record, event.awaiting)
        cluster.enqueue(record)


def job_configured(cluster: ClusterState, event: e.JobConfiguring) -> None:
    record = cluster.job(event.job)
    state = job_target(record.state, event)
    record.run = _fresh_run(cluster, record)
    record.forget_parents()
    record.skipped, record.skipped_jobs, record.message = False, (), ""
    record.filter_reply = None
    cluster.move(record, state)
    if record.id in cluster.children:
        from headnode.core.state.children import update_children  # few jobs have children

        update_children(cluster, record)


def _fresh_run(cluster: ClusterState, record: JobRecord) -> JobRun | None:
    """All tasks will run again.  Attempt numbers go on: an old report must never be taken for a new one."""
    if record.run is None:
        return None
    before = record.run
    fresh = JobRun(tasks=untouched(cluster.written(record)), requeues=before.requeues, starts=before.starts)
    fresh.suspensions, fresh.usage = before.suspensions, before.usage
    fresh.usage.forget_outcome()
    for old, new in zip(before.tasks, fresh.tasks, strict=True):
        new.attempts_used = max(
            1, old.attempts_used, *old.attempts.values()
        )  # not one by one: there may be a million
    return fresh
