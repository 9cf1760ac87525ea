"""The verbs about recurring jobs."""

import asyncio
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from headnode.adapters.identity.users import account
from headnode.apps.server.api.job_briefs import MAX_COMMAND
from headnode.apps.server.api.job_submission import (
    DescribedJobs,
    read_jobs,
    refuse_unfit_now,
    with_terms,
)
from headnode.apps.server.api.verbs import CREATES, OVERSEES, READS, VerbAccess, VerbUsers, verb
from headnode.apps.server.recurring_jobs import in_turns, owner_of_recurring
from headnode.apps.server.server_context import ServerContext
from headnode.core.formats.fidelity import FidelityReport
from headnode.core.model.errors import BadRequest, NotAllowed, Refused, TextPosition
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Instant
from headnode.core.model.task import public_command, words_of
from headnode.core.model.user import Receipt, User
from headnode.core.state import recurring_record as c
from headnode.core.state.job_events import JobCreated
from headnode.core.state.job_record import decode_spec, encode_spec
from headnode.core.state.permissions import is_other, plain_name
from headnode.core.state.recurring import may_change_recurring, may_rewrite_recurring, unfinished_jobs
from headnode.core.state.recurring_record import RecurringJob, RecurringRecord, RecurringRun
from headnode.core.state.transitions import STATE_NAMES
from headnode.protocol import recurring_answers as w
from headnode.protocol.requests import CreateJobRequest

_CAUSES = {"overlap": "Skipped", "missed": "Missed", "refused": "Refused", "waiting": "Waiting"}
_FIELDS = ("schedule", "name", "zone", "overlap", "missed", "keep")


@verb(READS)
async def recurring_jobs(
    context: ServerContext,
    by: User,  # noqa: ARG001  (everybody sees all, as jobs)
    request: w.ListRecurringRequest,
) -> w.RecurringJobsAnswer:
    """List recurring jobs, in the order of their numbers."""
    index = context.cluster.recurring
    shown = index.numbered.values() if request.user is None else index.of(request.user)
    return w.RecurringJobsAnswer([_object(context, record) async for record in in_turns(shown)])


@verb(READS)
async def recurring_job(
    context: ServerContext, by: User, request: w.RecurringNameRequest
) -> w.RecurringJobAnswer:
    """Show a recurring job: its next times, and what became of the last ones."""
    return w.RecurringJobAnswer(_object(context, _named(context, by, request.recurring)))


async def _created_again(
    context: ServerContext, by: User, _receipt: Receipt, request: w.CreateRecurringRequest
) -> w.ChangedRecurringJob:
    described, owner = await _described(context, by, request)
    name = request.name or name_of(described.specs[0])
    shown = _object(context, context.cluster.recurring.named(owner.name, name))
    return w.ChangedRecurringJob(shown, described.report, repeated=True)


@verb(CREATES, again=_created_again)
async def create_recurring_job(
    context: ServerContext, by: User, request: w.CreateRecurringRequest
) -> w.ChangedRecurringJob:
    """Create a recurring job: a schedule, and a job as in submit_job, which is checked at once."""
    described, owner = await _described(context, by, request)
    spec = described.specs[0]
    refuse_unfit_now(context, owner, spec)
    asked = _recurring(
        request.name or name_of(spec),
        spec,
        request.schedule,
        request.zone or "UTC",
        overlap=request.overlap,
        missed=request.missed,
        keep=request.keep,
        end=None if request.end is None else Instant(request.end),
        most_runs=request.runs,
        suspended=request.suspended,
    )
    await context.ask(c.CreateRecurring(by=by, owner=owner, recurring=asked))
    shown = _object(context, context.cluster.recurring.named(owner.name, asked.name))
    return w.ChangedRecurringJob(shown, described.report)


def _recurring(name: str, spec: JobSpec, schedule: str, zone: str, **more: Any) -> RecurringJob:
    """Return a recurring job without what the head sets."""
    nobody: dict[str, Any] = {"number": 0, "owner": "", "uid": 0, "gid": 0}
    return RecurringJob(
        name=name,
        spec=encode_spec(spec),
        schedule=" ".join(schedule.split()),
        zone=zone,
        created=Instant(0.0),
        anchor=Instant(0.0),
        **nobody,
        **more,
    )


async def _described(
    context: ServerContext, by: User, request: CreateJobRequest
) -> tuple[DescribedJobs, User]:
    """Return the one job that a request describes, and its owner.

    Raises:  BadRequest ``recurring-job``; what `read_jobs` does.
    """
    described = await read_jobs(context, by, request, to_submit=True)
    if len(described.specs) != 1:
        raise BadRequest(
            code="recurring-job",
            what=f"the file describes {len(described.specs)} jobs",
            fix="describe one job; it may have several tasks, which wait for each other",
        )
    spec, owner = described.specs[0], by
    if spec.run_as:
        if is_other(by, spec):
            owner = user_named(context, by, plain_name(spec.run_as))
        spec = replace(spec, run_as="")
    return described._replace(specs=[spec]), owner


def user_named(context: ServerContext, by: User, name: str) -> User:
    """Return another user, for an administrator.

    Raises:  NotAllowed ``run-as``; NotFound ``no-such-user``.
    """
    if name == by.name:
        return by
    if not by.administrator:
        raise NotAllowed(
            code="run-as",
            what=f"{by.name!r} may not do that for {name!r}: only administrators may",
            fix="do it for yourself",
        )
    return context.roles.of(account(name))


def name_of(spec: JobSpec) -> str:
    """Return what a recurring job is called if nothing else names it: as its job, or as its program.

    >>> from headnode.core.model.task import TaskSpec
    >>> name_of(JobSpec(tasks=(TaskSpec(command="/opt/bin/backup --all"),)))
    'backup'
    """
    words = words_of(spec.tasks[0].command) if spec.tasks and not spec.name else []
    return spec.name or (words[0].rpartition("/")[2] if words else "") or "job"


@verb(VerbAccess(VerbUsers.OWNER, changes=True))
async def modify_recurring_job(
    context: ServerContext, by: User, request: w.ModifyRecurringRequest
) -> w.ChangedRecurringJob:
    """Change a recurring job, or options of the job that it makes; jobs that were made stay as they are."""
    record = _named(context, by, request.recurring)
    may_rewrite_recurring(by, record.recurring)
    changes: dict[str, Any] = {
        name: value for name in _FIELDS if (value := getattr(request, name)) is not None
    }
    if request.end is not None:
        changes["end"] = Instant(request.end) if request.end else None
    if request.runs is not None:
        changes["most_runs"] = request.runs
    owner, former = owner_of_recurring(context, record.recurring), record.recurring.spec
    report: FidelityReport = ()
    if request.terms or request.job is not None:
        spec, report = await _changed_job(context, owner, decode_spec(former), request)
        refuse_unfit_now(context, owner, spec)
        changes["spec"] = encode_spec(spec)
    former = former if request.terms else b""
    command = c.ChangeRecurring(
        by=by, number=record.recurring.number, changes=changes, owner=owner, former=former
    )
    await context.ask(command)
    return w.ChangedRecurringJob(_object(context, record), report)


async def _changed_job(
    context: ServerContext, owner: User, before: JobSpec, request: w.ModifyRecurringRequest
) -> tuple[JobSpec, FidelityReport]:
    """Return the job with other options, or another job of the same owner, and what of it has no effect.

    Raises:  BadRequest ``recurring-job``; what `read_jobs` does.
    """
    if request.job is None:
        return with_terms(request.terms or {}, (), before, now=context.now()), ()
    if request.terms:
        raise BadRequest(
            code="recurring-job",
            what="the request has options beside another job",
            fix="put them into the job",
            path=("terms",),
        )
    described, other = await _described(context, owner, request.job)
    if other.uid != owner.uid:
        raise BadRequest(
            code="recurring-job",
            what=f"the recurring job belongs to {owner.name!r}, and its job cannot be that of {other.name!r}",
            fix=f"create a recurring job for {other.name!r}",
            path=("job", "terms", "user"),
        )
    spec = described.specs[0]
    return (spec if spec.name else replace(spec, name=before.name)), described.report


@verb(OVERSEES)
async def suspend_recurring_job(
    context: ServerContext, by: User, request: w.RecurringNameRequest
) -> w.RecurringJobAnswer:
    """Suspend a recurring job: it makes no jobs until it is resumed."""
    return await _suspended(context, by, request, suspended=True)


@verb(OVERSEES)
async def resume_recurring_job(
    context: ServerContext, by: User, request: w.RecurringNameRequest
) -> w.RecurringJobAnswer:
    """Resume a recurring job; `missed` decides what becomes of the times in between."""
    return await _suspended(context, by, request, suspended=False)


async def _suspended(
    context: ServerContext, by: User, request: w.RecurringNameRequest, *, suspended: bool
) -> w.RecurringJobAnswer:
    record = _named(context, by, request.recurring)
    changes = {"suspended": suspended}
    await context.ask(c.ChangeRecurring(by=by, number=record.recurring.number, changes=changes))
    return w.RecurringJobAnswer(_object(context, record))


@verb(OVERSEES)
async def remove_recurring_job(
    context: ServerContext, by: User, request: w.RecurringNameRequest
) -> w.RecurringJobRemoval:
    """Remove a recurring job; the jobs that it has made stay."""
    record = _named(context, by, request.recurring)
    number = record.recurring.number
    left: list[int] = [*unfinished_jobs(context.cluster, record)]
    await context.ask(c.RemoveRecurring(by=by, number=number))
    return w.RecurringJobRemoval(number, left)


@verb(OVERSEES)
async def run_recurring_job(
    context: ServerContext, by: User, request: w.RecurringNameRequest
) -> w.RecurringJobRunAnswer:
    """Make a job of a recurring job now, beside its schedule."""
    record = _named(context, by, request.recurring)
    may_change_recurring(by, record.recurring)
    owner = owner_of_recurring(context, record.recurring)
    refuse_unfit_now(context, owner, decode_spec(record.recurring.spec))
    made = await context.ask(c.RunRecurring(by=by, number=record.recurring.number, owner=owner))
    job = next(event.job for event in made if isinstance(event, JobCreated))
    await context.submission_chain.wait([job])
    return w.RecurringJobRunAnswer(job)


@verb(READS)
async def recurring_table(
    context: ServerContext, by: User, request: w.RecurringTableRequest
) -> w.RecurringTableAnswer:
    """Show the table of a user; only its user and administrators may see it."""
    owner = user_named(context, by, request.user or by.name)
    return await _table(context, owner.name)


@verb(CREATES)
async def set_recurring_table(
    context: ServerContext, by: User, request: w.SetRecurringTableRequest
) -> w.RecurringTableAnswer:
    """Replace the table of a user as a whole, or not at all if an entry is refused."""
    from headnode.core.formats.batch.crontab import read_table
    from headnode.core.state.recurring_table import refuse_too_large

    owner = user_named(context, by, request.user or by.name)
    lines, entries, size = list[int](), list[RecurringJob](), 0
    for entry in read_table(request.text, int(context.engine.settings.number(c.MOST_OF_USER))):
        await asyncio.sleep(0)  # others are answered between two entries
        lines.append(entry.line)
        described = CreateJobRequest(
            jobfile=f"#!/bin/sh\n{entry.command}\n",
            dialect="slurm",
            options=list(entry.options),
            script=[entry.command.split()[0]],
            directory=request.directory,
            environment=entry.environment,
        )
        try:
            (spec,) = (await read_jobs(context, owner, described)).specs
            refuse_unfit_now(context, owner, spec)
        except Refused as no:
            raise _of_line(no, entry.line) from None
        name = _free_name(spec.name or name_of(spec), entries)
        entries.append(_recurring(name, spec, entry.schedule, entry.zone or request.zone or "UTC"))
        size += len(entries[-1].spec)
        refuse_too_large(request.text, size)  # now: a table of 1 MB may make 1 MB for each entry
    command = c.SetRecurringTable(by=by, owner=owner, text=request.text, entries=tuple(entries))
    try:
        await context.ask(command)
    except Refused as no:
        if no.path[:1] == ("entries",):
            raise _of_line(no, lines[int(no.path[1])]) from None
        raise
    return await _table(context, owner.name)


def _free_name(name: str, before: Sequence[RecurringJob]) -> str:
    """Return the name of an entry, with a number behind it if an entry above has it already."""
    names, number, free = {each.name.lower() for each in before}, 1, name
    while free.lower() in names:
        number += 1
        free = f"{name}-{number}"
    return free


def _of_line(no: Refused, line: int) -> BadRequest:
    """Return a refusal of an entry, with its line in the table."""
    what = no.sentence if isinstance(no, BadRequest) else no.what
    return BadRequest(code=no.code, what=what, fix=no.fix, place=TextPosition(line, 0))


async def _table(context: ServerContext, owner: str) -> w.RecurringTableAnswer:
    table = context.cluster.recurring.tables.get(owner)
    entries = [record for record in context.cluster.recurring.of(owner) if record.recurring.table]
    text = table.text if table is not None else ""
    return w.RecurringTableAnswer(text, [_object(context, record) async for record in in_turns(entries)])


def _named(context: ServerContext, by: User, name: str) -> RecurringRecord:
    return context.cluster.recurring.named(by.name, name)


def _object(context: ServerContext, record: RecurringRecord) -> w.RecurringJobObject:
    recurring, now = record.recurring, context.now()
    problem, following = "", list[float]()
    try:
        following = [*context.cluster.recurring.next_times(record, now)]
    except BadRequest as no:  # the time zone is not known here any more
        problem = no.what
    waiting = None if record.is_spent else record.waiting
    ended = not following and not problem and waiting is None
    spec = decode_spec(recurring.spec)
    command = public_command(spec.tasks[0].command) if spec.tasks else ""
    return w.RecurringJobObject(
        number=recurring.number,
        name=recurring.name,
        owner=recurring.owner,
        schedule=recurring.schedule,
        zone=recurring.zone,
        state="Ended" if ended else "Suspended" if recurring.suspended else "Active",
        overlap=recurring.overlap,
        missed=recurring.missed,
        keep=recurring.keep,
        end=recurring.end,
        runs=recurring.most_runs,
        made=record.runs,
        created=recurring.created,
        table=recurring.table,
        command=command[:MAX_COMMAND],
        next=following,
        waiting=waiting,
        unfinished=list(unfinished_jobs(context.cluster, record)),
        last=[_run_object(context, run) for run in reversed(record.recent)],
        problem=problem,
    )


def _run_object(context: ServerContext, run: RecurringRun) -> w.RecurringRunObject:
    state, reason = _CAUSES.get(run.cause or "", ""), run.reason
    if run.job:
        job = context.lookups.record(run.job)
        state = "Removed" if job is None else STATE_NAMES[job.state]
        reason = "" if job is None else job.message
    return w.RecurringRunObject(run.time, run.at, run.job or None, state, reason, run.by)
