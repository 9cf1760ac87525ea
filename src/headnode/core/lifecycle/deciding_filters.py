"""Decide what follows from the answers of filters.

Source: HPC filters; its order of a submission: the filters first, then everything else that is checked.
"""

from msgspec.structs import asdict, replace

from headnode.core.filtering.activation import Verdict
from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.deadlines import check_end_by
from headnode.core.lifecycle.deciding_jobs import check_hold, checked
from headnode.core.lifecycle.deciding_stops import cancel_queued, tasks_of
from headnode.core.lifecycle.deciding_waits import waits
from headnode.core.lifecycle.events import Event
from headnode.core.lifecycle.records import JobRecord, word_of
from headnode.core.lifecycle.states import JobState
from headnode.core.lifecycle.templates import shaped
from headnode.core.model.checks import check_runnable
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Instant, JobId


def validate(cluster: Cluster, command: c.ValidateJob, now: Instant) -> list[Event]:
    """Let a job into the queue; nothing happens if it is not that submission any more.

    Raises:  Refused when what the filters made of it cannot be in the queue.
    """
    record = _asked_about(cluster, command.job, command.order)
    if record is None:
        return []
    before = cluster.written(record)
    spec = command.spec or before
    refuse_changed_tasks(before, spec)
    spec = shaped(cluster.templates, command.by, spec)
    encoded = checked(spec)
    check_hold(spec, now)
    check_end_by(spec, now)
    check_runnable(spec)
    what = changes(before, spec)
    return [
        e.JobValidated(
            at=now,
            job=record.id,
            spec=encoded if what else b"",
            what=", ".join(what),
            filters=command.filters,
            waits_for=waits(cluster, spec, command.parents, record.id),
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


def reject(cluster: Cluster, command: c.RejectJob, now: Instant) -> list[Event]:
    """Fail a job at its submission; nothing happens if it is not that submission any more."""
    record = _asked_about(cluster, command.job, command.order)
    return [] if record is None else _fail(cluster, record, command.message, now)


def _asked_about(cluster: Cluster, job: JobId, order: int) -> JobRecord | None:
    record = cluster.jobs.get(job)
    if record is None or record.state is not JobState.VALIDATING or record.order != order:
        return None
    return record


def _fail(cluster: Cluster, record: JobRecord, message: str, now: Instant) -> list[Event]:
    return [
        *cancel_queued(record, tasks_of(cluster, record), now, message),
        e.JobEnded(at=now, job=record.id, outcome="failed", message=message),
    ]


def take_verdict(cluster: Cluster, command: c.TakeVerdict, now: Instant) -> list[Event]:
    """Do what the activation filters have decided, but for a start, which is for the next pass."""
    record = cluster.jobs.get(command.job)
    if record is None or record.state not in (JobState.QUEUED, JobState.RUNNING):
        return []
    if command.verdict is Verdict.START:
        return []
    answered = e.FilterAnswered(
        at=now,
        job=record.id,
        verdict=command.verdict.value,
        filter=command.filter,
        words=command.words,
    )
    if command.kept is not None:
        given = command.kept
        answered = replace(answered, kept=given.shares, option=given.option, parts=given.parts)
    if record.state is JobState.RUNNING or command.verdict not in (Verdict.HOLD, Verdict.FAIL):
        return [answered] if _is_news(record, answered) else []
    if command.verdict is Verdict.FAIL:
        return [answered, *_fail(cluster, record, command.words, now)]
    wished = cluster.written(record).hold_until
    ahead = wished if wished is not None and wished > now else Instant(now + command.hold)
    return [replace(answered, until=ahead)]


def _is_news(record: JobRecord, answered: e.FilterAnswered) -> bool:
    """Whether it was not said before: a filter that is asked again and again says the same mostly."""
    return record.filtered is None or replace(record.filtered, at=answered.at) != word_of(answered)
