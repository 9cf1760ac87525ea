"""Decide about whole jobs: creating, submitting, starting, growing, running again."""

from collections.abc import Collection
from functools import lru_cache

from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.allocating import pick, pick_parts
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.deadlines import check_end_by
from headnode.core.lifecycle.deciding_holds import may_hold
from headnode.core.lifecycle.deciding_suspension import go_on
from headnode.core.lifecycle.deciding_templates import submitted_spec
from headnode.core.lifecycle.deciding_waits import waits
from headnode.core.lifecycle.descriptions import check_room_of
from headnode.core.lifecycle.events import Event
from headnode.core.lifecycle.filters import submission_filters
from headnode.core.lifecycle.flow import Flow
from headnode.core.lifecycle.hook_settings import readies_nodes
from headnode.core.lifecycle.owners import created
from headnode.core.lifecycle.permission import may_change
from headnode.core.lifecycle.records import (
    MOST_REMEMBERED,
    SMALL,
    JobRecord,
    decode_spec,
    encode_record,
    encode_spec,
)
from headnode.core.lifecycle.reopening import reopened
from headnode.core.lifecycle.reserving import check_may_go_in
from headnode.core.lifecycle.states import JobState
from headnode.core.model.checks import check, check_runnable
from headnode.core.model.errors import BadRequest, NotAllowed, WrongState
from headnode.core.model.job import JobRequest, JobSpec
from headnode.core.model.quantities import ANCHORS, NEVER, Instant, JobId
from headnode.core.model.task import SPECIAL
from headnode.core.model.user import User

LONGEST_HOLD = 366 * 86400  # seconds


def create(cluster: Cluster, command: c.CreateJob, now: Instant) -> list[Event]:
    """Make a job, and submit it if that is wished."""
    spec = submitted_spec(cluster, command.by, command.spec) if command.submit else command.spec
    encoded = checked(spec)
    job = JobId(cluster.next_job)
    made = created(command.by, job, spec, encoded, command.known, now)
    check_room_of(cluster, (made,))
    if not command.submit:
        return [made]
    submitted = c.SubmitJob(by=command.by, job=job, parents=command.parents)
    return [made, submission(cluster, submitted, spec, now)]


def checked(spec: JobSpec) -> bytes:
    """Return the encoded description, or refuse a wrong one.  Equal small ones of late are checked once."""
    try:
        data = encode_spec(spec)
    except (UnicodeEncodeError, OverflowError):
        check(spec)  # says what is wrong with it
        raise
    if len(data) > SMALL:
        check(spec)
    else:
        _check_small(data)
    return data


@lru_cache(MOST_REMEMBERED)
def _check_small(data: bytes) -> None:
    check(decode_spec(data))


def submission(
    cluster: Cluster,
    command: c.SubmitJob,
    spec: JobSpec,
    now: Instant,
    place: int = 0,
    beside: Collection[int] = (),
) -> e.JobSubmitted:
    """Return the submission of a job; `beside` are the ids of those submitted with it, `place` is its own."""
    check_hold(spec, now)
    check_end_by(spec, now)
    check_may_go_in(cluster.bookings.named, spec, command.by, now)
    may_hold(command.by, spec.holds)
    check_privileges(spec, command.by)
    check_runnable(spec)
    return e.JobSubmitted(
        at=now,
        job=command.job,
        order=cluster.next_order + place,
        by=command.by.name,
        waits_for=waits(cluster, spec, command.parents, command.job, beside),
        privileged=command.by.administrator,
        validating=bool(submission_filters(cluster, spec)),
        host=command.by.host,
    )


def check_hold(spec: JobSpec, now: Instant) -> None:
    """Refuse a hold of more than a year.

    Raises:  BadRequest ``hold-until``.
    """
    if spec.hold_until is not None and spec.hold_until > now + LONGEST_HOLD:
        raise BadRequest(
            code="hold-until", what="hold-until is more than a year ahead", fix="choose a time within a year"
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
        )


def submit(cluster: Cluster, command: c.SubmitJob, now: Instant) -> list[Event]:
    """Put a configured job into the queue."""
    record = configured(cluster, command.job, command.by)
    written = cluster.written(record)
    spec = submitted_spec(cluster, command.by, written)
    check(spec)
    return [*by_template(record, written, spec, now), submission(cluster, command, spec, now)]


def by_template(record: JobRecord, written: JobSpec, spec: JobSpec, now: Instant) -> list[Event]:
    """Return what a template changed of a job that was made before."""
    if spec == written:
        return []
    changed = sorted(
        name for name in written.__struct_fields__ if getattr(spec, name) != getattr(written, name)
    )
    what = f"{', '.join(changed)} by its template"
    return [e.JobModified(at=now, job=record.id, spec=encode_spec(spec), what=what)]


def configured(cluster: Cluster, job: JobId, by: User) -> JobRecord:
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
        what=f"job {record.id} is {record.state.value}: only a job that was not submitted can be",
        fix=f"submit a copy: hn job clone {record.id}"
        + (f"; or run it again: hn job requeue {record.id}" if again else ""),
    )


def set_progress(cluster: Cluster, command: c.SetProgress, now: Instant) -> list[Event]:
    """Note how far a job is."""
    record = cluster.job(command.job)
    may_change(command.by, record)
    if command.percent is not None and not 0 <= command.percent <= 100:
        raise BadRequest(
            code="progress", what=f"progress {command.percent} is not a percentage", fix="write 0 to 100"
        )
    return [e.ProgressSet(at=now, job=record.id, percent=command.percent, message=command.message)]


def wished_job(cluster: Cluster, command: c.RequeueJob | c.ModifyJob) -> JobRecord:
    """Return the job that is alive, or the ended one: somebody else may have brought it back just now."""
    alive = cluster.jobs.get(command.job)
    return alive or command.archived or cluster.job(command.job)


def requeue(cluster: Cluster, command: c.RequeueJob, now: Instant) -> list[Event]:
    """Run a running, failed or canceled job again, but for what has finished."""
    record = wished_job(cluster, command)
    may_change(command.by, record)
    spec = cluster.spec(record)
    if record.state.is_active and record.run is not None:
        flow = cluster.flow(record.id)
        _refuse_rerun(record, spec, [i for i, p in enumerate(record.run.tasks) if p.live or p.failed])
        check_end_by(cluster.written(record), now)
        ending = e.JobEnding(
            at=now,
            job=record.id,
            outcome="canceled",
            message=f"requeued by {command.by.name}",
            by=command.by.name,
            requeue=True,
        )
        return [ending, *stop_live(record, flow, "canceled", "the job was requeued", now)]
    if record.state in (JobState.FAILED, JobState.CANCELED) and command.archived is not None:
        _refuse_unvalidated(record)
        tasks = record.run.tasks if record.run else []
        _refuse_rerun(record, spec, [i for i, p in enumerate(tasks) if p.failed])
        check_end_by(cluster.written(record), now)
        check_runnable(spec)
        return [
            e.JobRevived(at=now, job=record.id, record=encode_record(record), by=command.by.name),
            e.JobRequeued(
                at=now,
                job=record.id,
                by=command.by.name,
                waits_for=waits(cluster, spec, command.parents, record.id),
            ),
            *reopened(cluster, record, command.skipped, command.parents, command.by.name, now),
        ]
    raise WrongState(
        code="not-requeueable",
        what=f"job {record.id} is {record.state.value}: only running, failed or canceled ones can run again",
        fix=f"make a copy with `hn job clone {record.id}`" if record.state is JobState.FINISHED else "",
    )


def _refuse_unvalidated(record: JobRecord) -> None:
    if record.unvalidated:
        raise WrongState(
            code="not-validated",
            what=f"job {record.id} never passed the submission filters",
            fix=f"copy it, correct the copy and submit it: hn job clone {record.id}",
        )


def _refuse_rerun(record: JobRecord, spec: JobSpec, indexes: list[int]) -> None:
    tasks = [(i, spec.tasks[i]) for i in indexes]
    fixed = [str(i + 1) for i, task in tasks if not task.rerunnable and task.kind not in SPECIAL]
    if fixed:
        raise WrongState(
            code="not-rerunnable",
            what=f"job {record.id} cannot be requeued: its tasks {', '.join(fixed[:10])} are not rerunnable",
            fix="mark tasks that may run twice with /rerunnable, or submit a copy with `hn job clone`",
        )


def stop_live(
    record: JobRecord, flow: Flow, outcome: e.Outcome, message: str, now: Instant, force: bool = False
) -> list[Event]:
    """Return the events that stop whatever of the job is live; only `force` stops releases of its nodes."""
    return [
        e.InstancesStopping(
            at=now,
            job=record.id,
            task=index + 1,
            instances=tuple(sorted(progress.live)),
            outcome=outcome,
            message=message,
            force=force,
        )
        for index, progress in enumerate(flow.run.tasks)
        if progress.live and (force or index != flow.release)
    ]


def start(cluster: Cluster, command: c.StartJob, now: Instant) -> list[Event]:
    """Give a queued job its processors, if they are still free."""
    record = cluster.jobs.get(command.job)
    if record is not None and record.state is JobState.RESUMING:
        return go_on(cluster, command, record, now)
    if record is None or record.state is not JobState.QUEUED:
        return []
    if record.id in cluster.held or record.holds or record.waits_for:
        raise WrongState(code="stale-plan", what=f"job {record.id} is held or waits for its parents")
    request = _option(cluster.request(record), command)
    end = Instant(now + request.run_time)
    allocation = pick(cluster, record.id, request, command.shares, now, end)
    return [
        e.JobStarted(
            at=now,
            job=record.id,
            allocation=allocation,
            backfilled=command.backfilled,
            option=command.option,
            parts=pick_parts(record.id, allocation, command.parts),
            readied=readies_nodes(cluster),
        )
    ]


def _option(whole: JobRequest, command: c.StartJob) -> JobRequest:
    """Return the request that the job is to be given, if it has it with so many parts."""
    requests = (whole, *whole.others)
    request = requests[command.option] if 0 <= command.option < len(requests) else None
    if request is None or len(command.parts) != (len(request.parts) if request.together else 0):
        raise WrongState(
            code="stale-plan", what=f"job {command.job} does not match the allocation that was planned for it"
        )
    return request


def grow(cluster: Cluster, command: c.GrowJob, now: Instant) -> list[Event]:
    """Give a running job more processors, if they are still free."""
    record = cluster.jobs.get(command.job)
    if record is None or record.state is not JobState.RUNNING:
        return []
    request = cluster.request(record)
    if request.together:
        raise WrongState(code="stale-plan", what=f"job {record.id} runs as a whole and does not grow")
    deadline = None if record.run is None else record.run.deadline
    end = NEVER if deadline is None else deadline
    added = pick(cluster, record.id, request, command.shares, now, end)
    return [e.AllocationGrown(at=now, job=record.id, added=added, readied=readies_nodes(cluster))]
