"""Recurring jobs: created, changed and removed, and made into ordinary jobs when their times have come.

Which time is due and what becomes of it is decided in one command, so the job and the note that its time is
decided are in the journal together or not at all.  See decision 0070.
"""

from datetime import datetime
from math import inf
from typing import Final

from msgspec.structs import replace

from headnode.core.model.bounds import (
    NAME,
    RECURRING_DESCRIPTIONS,
    RECURRING_KEPT,
    RECURRING_RUNS,
    RECURRING_UNFINISHED,
)
from headnode.core.model.errors import BadRequest, NotAllowed, Refused, WrongState
from headnode.core.model.job import JobSpec, parents
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.model.task import RecurringOrigin
from headnode.core.model.user import User
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.events import Event
from headnode.core.state.groups import CreateJobs, create_several
from headnode.core.state.job_events import JobCreated
from headnode.core.state.job_record import decode_spec
from headnode.core.state.recurring_record import (
    MOST,
    MOST_OF_USER,
    SHORTEST,
    SHORTEST_INTERVAL,
    AdvanceRecurring,
    ChangeRecurring,
    CreateRecurring,
    RecurringJob,
    RecurringJobRan,
    RecurringJobRemoved,
    RecurringJobSet,
    RecurringRecord,
    RecurringRun,
    RecurringTimeSkipped,
    RemoveRecurring,
    RunRecurring,
    due_time,
)
from headnode.core.state.submit import SubmitJob, checked, submission
from headnode.core.state.templates import submitted_spec

MAX_REASON: Final = 1000  # characters
NAME_VARIABLE, TIME_VARIABLE = "HEADNODE_RECURRING_JOB", "HEADNODE_RECURRING_TIME"


def create(cluster: ClusterState, command: CreateRecurring, now: Instant) -> list[Event]:
    """Create a recurring job; refuse what no job could be made of.

    Raises:  Refused.
    """
    by, owner = command.by, command.owner
    if by.uid != owner.uid and not by.administrator:
        raise NotAllowed(
            code="run-as",
            what=f"{by.name!r} may not create recurring jobs for {owner.name!r}: only administrators may",
            fix="create it for yourself",
        )
    asked = replace(
        command.recurring,
        number=cluster.recurring.next_number,
        owner=owner.name,
        uid=owner.uid,
        gid=owner.gid,
        created=now,
        anchor=now,
    )
    check_room(cluster, owner.name, 1, len(asked.spec))
    check_recurring(cluster, owner, asked, now)
    if cluster.recurring.has(owner.name, asked.name):
        raise WrongState(
            code="recurring-exists",
            what=f"{owner.name!r} has a recurring job {asked.name!r} already",
            fix="choose another name, or change that one: hn recurring modify",
            path=("name",),
        )
    return [RecurringJobSet(at=now, recurring=asked, by=by.name)]


def check_room(cluster: ClusterState, owner: str, more: int, size: int) -> None:
    """Refuse so many more recurring jobs of a user, with so many bytes of descriptions.

    Raises:  WrongState ``recurring-limit``, ``descriptions``.
    """
    own = cluster.recurring.of(owner)
    most = int(float(cluster.parameters.get(MOST_OF_USER, MOST)))
    if more > 0 and len(own) + more > most:
        raise WrongState(
            code="recurring-limit",
            what=f"{owner!r} has {len(own)} recurring jobs, and {more} more are above the limit of {most}",
            fix=f"remove some, or ask an administrator to raise it: hn cluster params {MOST_OF_USER}",
        )
    table = cluster.recurring.tables.get(owner)
    there = sum(len(each.recurring.spec) for each in own) + (4 * len(table.text) if table is not None else 0)
    if size > 0 and there + size > RECURRING_DESCRIPTIONS.most:
        raise WrongState(
            code="descriptions",
            what=f"the recurring jobs of {owner!r} have {there:,} bytes of descriptions, "
            f"and {size:,} more are above the limit of {RECURRING_DESCRIPTIONS}",
            fix="remove some, or keep scripts in files and name these",
        )


def check_recurring(cluster: ClusterState, owner: User, recurring: RecurringJob, now: Instant) -> None:
    """Refuse a recurring job that is wrong in itself, or of which no job could be made.

    Raises:  Refused.
    """
    _check_name(recurring.name)
    for field, value, bound in (
        ("keep", recurring.keep, RECURRING_KEPT),
        ("most_runs", recurring.most_runs, RECURRING_RUNS),
    ):
        if not (bound.least or 0) <= value <= bound.most:
            raise BadRequest(
                code=field.replace("_", "-"), what=f"{field} is {value}", fix=f"use {bound}", path=(field,)
            )
    _check_schedule(cluster, recurring, now)
    spec = decode_spec(recurring.spec)
    _check_description(spec)
    spec = submitted_spec(cluster, owner, spec)
    checked(spec)
    submission(cluster, SubmitJob(by=owner, job=JobId(cluster.next_job)), spec, owner.name, now)


def _check_name(name: str) -> None:
    if not name.isprintable() or not 0 < len(name.strip()) <= NAME.most or name.isdigit() or "/" in name:
        raise BadRequest(
            code="recurring-name",
            what=f"a recurring job cannot be called {name[:64]!r}",
            fix=f"use 1 to {NAME.most} printable characters that are not a number, and no /",
            path=("name",),
        )


def _check_schedule(cluster: ClusterState, recurring: RecurringJob, now: Instant) -> None:
    schedule = recurring.times()
    times = schedule.first_times(now)
    if not times or (recurring.end is not None and times[0] > recurring.end):
        raise BadRequest(
            code="schedule",
            what=f"{recurring.schedule!r} never comes" + (" before the end" if times else ""),
            fix="choose a time that will come",
            path=("schedule",),
        )
    shortest = float(cluster.parameters.get(SHORTEST, SHORTEST_INTERVAL))
    if schedule.shortest_interval(times) < shortest:
        raise BadRequest(
            code="schedule",
            what=f"{recurring.schedule!r} comes more often than every {shortest:g} seconds",
            fix=f"choose a longer interval; the limit is the parameter {SHORTEST}",
            path=("schedule",),
        )


def _check_description(spec: JobSpec) -> None:
    """Refuse what makes no sense in a job that is made again and again."""
    wrong = ""
    if spec.hold_until is not None or spec.end_by is not None:
        wrong = "names a date of its own (hold-until or end-by)"
    elif parents(spec) or spec.named_parents:
        wrong = "waits for other jobs"
    elif not spec.tasks and not spec.run_until_canceled:
        wrong = "has no task"
    elif spec.interactive:
        wrong = "is interactive"
    elif spec.run_as:
        wrong = "names a user"
    if wrong:
        raise BadRequest(
            code="recurring-job",
            what=f"the description of a recurring job {wrong}",
            fix="leave that out: the schedule says when its jobs may start, and its owner runs them",
        )


def may_change_recurring(by: User, recurring: RecurringJob) -> None:
    """Allow a change by its owner, an operator or an administrator.

    Raises:  NotAllowed ``not-owner``.
    """
    if by.uid != recurring.uid and not by.oversees:
        raise NotAllowed(
            code="not-owner",
            what=f"recurring job {recurring.number} belongs to {recurring.owner!r}, not to {by.name!r}",
            fix="ask its owner, an operator or an administrator",
        )


def change(cluster: ClusterState, command: ChangeRecurring, now: Instant) -> list[Event]:
    """Change a recurring job.  Operators may suspend and resume those of others, and change nothing else.

    Raises:  Refused.
    """
    before = cluster.recurring.record(command.number).recurring
    may_change_recurring(command.by, before)
    if command.former not in (b"", before.spec):
        raise WrongState(
            code="changed",
            what=f"the job of recurring job {command.number} was changed by somebody else at the same time",
            fix="look at it again: hn recurring view, then repeat the change",
        )
    after = replace(before, **command.changes)
    changed = tuple(name for name in command.changes if getattr(after, name) != getattr(before, name))
    if not changed:
        return []
    if changed != ("suspended",):
        may_rewrite_recurring(command.by, before)
        refuse_entry(before)
        after = _anchored(before, after, now)
        other = cluster.recurring.has(after.owner, after.name)
        if other not in (0, after.number):
            raise WrongState(
                code="recurring-exists",
                what=f"{after.owner!r} has a recurring job {after.name!r} already",
                fix="choose another name",
                path=("name",),
            )
        check_room(cluster, after.owner, 0, len(after.spec) - len(before.spec))
        if command.owner is not None:
            check_recurring(cluster, command.owner, after, now)
    return [RecurringJobSet(at=now, recurring=after, by=command.by.name, changed=", ".join(changed))]


def _anchored(before: RecurringJob, after: RecurringJob, now: Instant) -> RecurringJob:
    """Return it with a new beginning if it has another schedule."""
    same = (before.schedule, before.zone) == (after.schedule, after.zone)
    return after if same else replace(after, anchor=now)


def may_rewrite_recurring(by: User, before: RecurringJob) -> None:
    """Allow a change of what it does, or when, by its owner or an administrator.

    Raises:  NotAllowed ``not-owner``.
    """
    if by.uid != before.uid and not by.administrator:
        raise NotAllowed(
            code="not-owner",
            what=f"an operator may not change what recurring job {before.number} of {before.owner!r} does",
            fix="ask its owner or an administrator; an operator may suspend, resume or remove it",
        )


def refuse_entry(recurring: RecurringJob) -> None:
    """Refuse to change or remove an entry of a table in another way than by the table.

    Raises:  WrongState ``recurring-table``.
    """
    if recurring.table:
        raise WrongState(
            code="recurring-table",
            what=f"recurring job {recurring.number} is an entry of the table of {recurring.owner!r}",
            fix="change the table: scrontab -e; or suspend it: hn recurring suspend",
        )


def remove(cluster: ClusterState, command: RemoveRecurring, now: Instant) -> list[Event]:
    """Remove a recurring job.

    Raises:  NotFound ``no-such-recurring-job``; NotAllowed ``not-owner``; WrongState ``recurring-table``.
    """
    recurring = cluster.recurring.record(command.number).recurring
    may_change_recurring(command.by, recurring)
    refuse_entry(recurring)
    return [RecurringJobRemoved(at=now, number=command.number, by=command.by.name)]


def unfinished_jobs(cluster: ClusterState, record: RecurringRecord) -> tuple[JobId, ...]:
    """Return the jobs that it has made and that have not ended."""
    return tuple(job for job in record.unfinished if job in cluster.jobs)


def busy_with(cluster: ClusterState, record: RecurringRecord) -> str:
    """Return why no further job is made beside the earlier ones; empty if nothing is in the way."""
    left = unfinished_jobs(cluster, record)
    if len(left) >= RECURRING_UNFINISHED.most:
        return f"{len(left)} of its jobs have not ended, and {RECURRING_UNFINISHED} are possible"
    if not left or record.recurring.overlap == "allow":
        return ""
    return f"job {left[0]} has not ended: it is {cluster.jobs[left[0]].state.value}"


def until_due(cluster: ClusterState, record: RecurringRecord, now: Instant) -> Seconds:
    """Return the seconds until `advance` has something to decide; 0 or less: now; infinite: not as it is.

    Raises:  BadRequest ``time-zone``.
    """
    if record.recurring.suspended or record.is_spent:
        return Seconds(inf)
    times = cluster.recurring.next_times(record, now)
    if record.waiting is not None and not busy_with(cluster, record):
        return Seconds(0.0)
    return Seconds(times[0] - now if times else inf)


def advance(cluster: ClusterState, command: AdvanceRecurring, now: Instant) -> list[Event]:
    """Decide the time that is due.  Nothing refuses this: a job that is refused is noted as that.

    The same command again makes no second job: what is decided is read from the state.
    """
    record = cluster.recurring.numbered.get(command.number)
    if record is None:
        return []
    try:
        due = due_time(record, busy_with(cluster, record), now)
    except BadRequest:  # the time zone is not known here any more; `hn recurring view` says it
        return []
    if due is None:
        return []
    number, cause, reason = command.number, due.cause, due.reason or command.refused
    if cause is None and command.by is not None:
        try:
            made, job = _job_for(cluster, record, command.by, due.time, now)
            return [*made, RecurringJobRan(at=now, number=number, time=due.time, job=job)]
        except Refused as no:
            reason = str(no)
    cause, reason = cause or "refused", reason[:MAX_REASON]
    return [RecurringTimeSkipped(at=now, number=number, time=due.time, cause=cause, reason=reason)]


def run_now(cluster: ClusterState, command: RunRecurring, now: Instant) -> list[Event]:
    """Make a job beside the schedule.

    Raises:  Refused, as a submission of the owner.
    """
    record = cluster.recurring.record(command.number)
    may_change_recurring(command.by, record.recurring)
    if len(unfinished_jobs(cluster, record)) >= RECURRING_UNFINISHED.most:
        raise WrongState(
            code="recurring-unfinished",
            what=f"{RECURRING_UNFINISHED} of recurring job {command.number} have not ended",
            fix="wait until some have ended, or cancel them",
        )
    made, job = _job_for(cluster, record, command.owner, now, now)
    return [*made, RecurringJobRan(at=now, number=command.number, time=now, job=job, by=command.by.name)]


def _job_for(
    cluster: ClusterState, record: RecurringRecord, owner: User, time: Instant, now: Instant
) -> tuple[list[Event], JobId]:
    """Return the events that make and submit the job of a time, and its number.

    Raises:  Refused, as any submission of its owner.
    """
    recurring = record.recurring
    spec = decode_spec(recurring.spec)
    local = datetime.fromtimestamp(time, recurring.times().zone).isoformat(timespec="seconds")
    variables = {NAME_VARIABLE: recurring.name, TIME_VARIABLE: local}
    spec = replace(spec, environment=spec.environment | variables)
    origin = RecurringOrigin(recurring.number, recurring.name, time)
    made = create_several(cluster, CreateJobs(by=owner, specs=(spec,), submit=True), now)
    job = JobId(cluster.next_job)
    return [replace(one, recurring=origin) if isinstance(one, JobCreated) else one for one in made], job


def recurring_set(cluster: ClusterState, event: RecurringJobSet) -> None:
    cluster.recurring.keep(event.recurring, event.at)


def recurring_removed(cluster: ClusterState, event: RecurringJobRemoved) -> None:
    cluster.recurring.drop(event.number)


def recurring_ran(cluster: ClusterState, event: RecurringJobRan) -> None:
    record = cluster.recurring.record(event.number)
    record.unfinished = (*unfinished_jobs(cluster, record), event.job)
    record.note(RecurringRun(event.time, event.at, event.job, by=event.by))
    if not event.by:
        record.runs += 1
        _decide(record, event.time)


def time_skipped(cluster: ClusterState, event: RecurringTimeSkipped) -> None:
    record = cluster.recurring.record(event.number)
    record.note(RecurringRun(event.time, event.at, cause=event.cause, reason=event.reason))
    _decide(record, event.time)
    if event.cause == "waiting":
        record.waiting = event.time


def _decide(record: RecurringRecord, time: Instant) -> None:
    record.last = max(record.last, time)
    if record.waiting == time:
        record.waiting = None
