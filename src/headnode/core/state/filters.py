"""What follows from the answers of submission and activation filters."""

from collections.abc import Mapping

from msgspec.structs import asdict, replace

from headnode.core.filtering import ActivationVerdict
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec
from headnode.core.model.job_checks import check_runnable
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.model.user import User
from headnode.core.state import job_events as e
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.command import Command
from headnode.core.state.depend import ParentOutcome, set_awaited, waits
from headnode.core.state.events import Event
from headnode.core.state.job_record import FilterReply, JobRecord, decode_spec
from headnode.core.state.job_request import check_end_by, last_start
from headnode.core.state.resources import check_may_be_handed
from headnode.core.state.start import StartJob
from headnode.core.state.stop import cancel_queued
from headnode.core.state.submit import await_instances, awaiting, check_hold, checked
from headnode.core.state.templates import queued_spec
from headnode.core.state.transitions import JobState, job_target


class ValidateJob(Command, frozen=True):
    """Head: the submission filters accept the job; `spec` is set if they changed it.

    `by` is its owner, whose job template is now applied.  `order` is that of the submission they were
    asked about.  `parents` as in `SubmitJob`.
    """

    by: User
    job: JobId
    order: int
    filters: tuple[str, ...] = ()
    spec: JobSpec | None = None
    parents: Mapping[int, ParentOutcome] = {}


class RejectJob(Command, frozen=True):
    """Head: a submission filter rejects the job, or changes it to a job that is invalid."""

    job: JobId
    order: int
    message: str


class TakeVerdict(Command, frozen=True):
    """Head: the activation filters have answered about the offer with this number.

    `filter` is the one that decided, `words` what it did and said; `hold` how long a hold without a date is.
    `kept` is what the job was offered, when that is kept for it: the engine adds it.
    """

    job: JobId
    offer: int
    verdict: ActivationVerdict
    filter: str = ""
    words: str = ""
    hold: Seconds = Seconds(0.0)
    kept: StartJob | None = None


def validate(cluster: ClusterState, command: ValidateJob, now: Instant) -> list[Event]:
    """Put a validated job into the queue; nothing happens if it was submitted again since.

    Raises:  Refused when what the filters made of it cannot be in the queue.
    """
    record = _asked_about(cluster, command.job, command.order)
    if record is None:
        return []
    before = cluster.written(record)
    spec = command.spec or before
    refuse_changed_tasks(before, spec)
    spec = queued_spec(cluster, command.by, spec)
    encoded = checked(spec)
    check_hold(spec, now)
    check_end_by(spec, now)
    check_runnable(spec)
    check_may_be_handed(cluster.resource_index.named, spec)
    if spec.project != before.project:
        cluster.limit_index.check_submission([("", spec.project)])
    what = changes(before, spec)
    awaited = waits(cluster, spec, command.parents, record.id, record.owner)
    return [
        e.JobValidated(
            at=now,
            job=record.id,
            spec=encoded if what else b"",
            changed=", ".join(what),
            filters=command.filters,
            waits_for=awaited.waits_for,
            awaiting=awaiting(cluster, spec, command.parents, record.id),
            satisfied=awaited.satisfied,
            start_after=awaited.start_after,
        )
    ]


def refuse_changed_tasks(before: JobSpec, after: JobSpec) -> None:
    """Refuse what a filter may not do: change a task, or which task waits for which.

    Raises:  BadRequest ``filter-changed-tasks``.
    """
    if before.tasks == after.tasks and before.group_edges == after.group_edges:
        return
    pairs = zip(before.tasks, after.tasks, strict=False)
    at = next((number for number, (old, new) in enumerate(pairs, 1) if old != new), 0)
    which = f"task {at} is not the same" if at else "the number of tasks is not the same"
    raise BadRequest(
        code="filter-changed-tasks",
        what=f"a filter may change only properties of the job, and {which}",
        fix="change the filter so that it leaves the tasks as they are",
    )


def changes(before: JobSpec, after: JobSpec) -> tuple[str, ...]:
    """Return the names of what is different."""
    if before == after:
        return ()
    old, new = asdict(before), asdict(after)
    return tuple(sorted(name for name in new if new[name] != old[name]))


def reject(cluster: ClusterState, command: RejectJob, now: Instant) -> list[Event]:
    """Fail a job at its submission; nothing happens if it is not that submission any more."""
    record = _asked_about(cluster, command.job, command.order)
    return [] if record is None else _fail(record, command.message, now)


def _asked_about(cluster: ClusterState, job: JobId, order: int) -> JobRecord | None:
    record = cluster.jobs.get(job)
    if record is None or record.state is not JobState.VALIDATING or record.order != order:
        return None
    return record


def _fail(record: JobRecord, message: str, now: Instant) -> list[Event]:
    return [
        *cancel_queued(record, now, message),
        e.JobEnded(at=now, job=record.id, outcome="failed", message=message),
    ]


def take_verdict(cluster: ClusterState, command: TakeVerdict, now: Instant) -> list[Event]:
    """Do what the activation filters have decided, but for a start, which is for the next pass."""
    record = cluster.jobs.get(command.job)
    if record is None or record.state not in (JobState.QUEUED, JobState.RUNNING):
        return []
    if command.verdict is ActivationVerdict.START:
        return []
    answered = e.FilterAnswered(
        at=now, job=record.id, verdict=command.verdict.value, filter=command.filter, message=command.words
    )
    if command.kept is not None:
        given = command.kept
        answered = replace(answered, reserved=given.shares, alternative=given.option, parts=given.parts)
        answered = replace(answered, lowered_limit=given.lowered_limit)
    if record.state is JobState.RUNNING or command.verdict not in (
        ActivationVerdict.HOLD,
        ActivationVerdict.FAIL,
    ):
        return [answered] if _is_changed(record, answered) else []
    if command.verdict is ActivationVerdict.FAIL:
        return [answered, *_fail(record, command.words, now)]
    requested = cluster.written(record).hold_until
    ahead = requested if requested is not None and requested > now else Instant(now + command.hold)
    return [replace(answered, until=ahead)]


def _is_changed(record: JobRecord, event: e.FilterAnswered) -> bool:
    """Whether it was not said before: a filter that is asked again and again says the same mostly."""
    return record.filter_reply is None or replace(record.filter_reply, at=event.at) != filter_reply(event)


def job_validated(cluster: ClusterState, event: e.JobValidated) -> None:
    """A job comes into the queue, with the place that it got when it was submitted."""
    record = cluster.job(event.job)
    state = job_target(record.state, event)
    if event.spec:
        spec = decode_spec(event.spec)
        record.describe(event.spec, spec)
    spec = cluster.written(record)
    record.unvalidated = False
    set_awaited(cluster, record, event)
    record.hold_until, record.last_start = spec.hold_until, last_start(spec)
    cluster.move(record, state)
    await_instances(cluster, record, event.awaiting)
    cluster.enqueue(record)


def forget_offer(record: JobRecord) -> None:
    """The job is not as it was when it was offered something: what was kept for it is free again."""
    if record.filter_reply is not None and record.filter_reply.reserved:
        record.filter_reply = replace(
            record.filter_reply, reserved=(), alternative=0, parts=(), lowered_limit=None
        )


def filter_reply(event: e.FilterAnswered) -> FilterReply:
    """Return what is remembered of the answer of a filter."""
    return FilterReply(
        at=event.at,
        verdict=event.verdict,
        filter=event.filter,
        message=event.message,
        reserved=event.reserved,
        alternative=event.alternative,
        parts=event.parts,
        lowered_limit=event.lowered_limit,
    )


def filter_answered(cluster: ClusterState, event: e.FilterAnswered) -> None:
    """Remember what keeps a job from what it was offered; a hold takes it out of the line."""
    record = cluster.job(event.job)
    job_target(record.state, event)
    word = filter_reply(event)
    if record.state is not JobState.QUEUED:
        record.filter_reply = word
        return
    cluster.dequeue(record)
    record.filter_reply = word
    if event.until is not None:
        record.hold_until = event.until
    cluster.enqueue(record)
