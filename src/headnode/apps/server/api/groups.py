"""The verbs about all jobs of a group, and jobs that wait for others by their names."""

import asyncio
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from headnode.apps.server.api.job_submission import DescribedJobs, refuse_unfit_now
from headnode.apps.server.api.verbs import OVERSEES, READS, verb
from headnode.apps.server.job_lookup import FoundJob
from headnode.apps.server.server_context import ServerContext
from headnode.core.formats.fidelity import Fidelity, ReportItem
from headnode.core.model.dependency import Condition, JobDependency, NamedParent
from headnode.core.model.errors import NotFound, Refused
from headnode.core.model.job import DEPENDENCY_FIELDS, JobSpec
from headnode.core.model.quantities import JobId
from headnode.core.model.user import Receipt, User
from headnode.core.state.depend import dependency_state, every_dependency, outcome_of
from headnode.core.state.groups import SubmitJobs, group_state
from headnode.core.state.job_events import Outcome
from headnode.core.state.job_record import JobRecord, awaited_by_instances, decode_record, decode_spec
from headnode.core.state.permissions import is_other, plain_name
from headnode.core.state.stop import StopJob
from headnode.core.state.transitions import STATE_NAMES, JobState
from headnode.protocol import requests as w
from headnode.protocol.answers import (
    DependencyObject,
    DependentObject,
    GroupObject,
    RefusedJob,
    StoppedGroup,
    StoppedJob,
    SubmittedGroup,
)


@verb(READS)
async def group(context: ServerContext, by: User, request: w.GroupNameRequest) -> GroupObject:
    """Show the state of a group and the ids of its current jobs."""
    jobs = members(context, by, request)
    return summary(request.group, jobs)


def members(context: ServerContext, by: User, request: w.GroupNameRequest) -> list[JobRecord]:
    """Return the jobs that a group has now; those of the asker when no owner is named.

    Raises:  NotFound ``no-such-group``.
    """
    owner = by.name if request.owner is None else request.owner
    jobs = context.lookups.group(request.group, None if owner == "*" else owner)
    if not jobs:
        whose = "" if owner == "*" else f" of {owner}"
        raise NotFound(
            code="no-such-group",
            what=f"there is no job group {request.group!r}{whose}",
            fix="see `hn job list /all` for jobs, and `hn job view ID` for their groups",
        )
    return jobs


def summary(name: str, jobs: list[JobRecord]) -> GroupObject:
    """Return a group as clients see it: its state, and how many of its jobs are in which."""
    counts: dict[str, int] = {}
    for job in jobs:
        counts[STATE_NAMES[job.state]] = counts.get(STATE_NAMES[job.state], 0) + 1
    return GroupObject(
        group=name,
        state=group_state(jobs).value,
        jobs=[job.id for job in jobs],
        counts=counts,
        open=[job.id for job in jobs if not job.state.is_final],
        skipped=[job.id for job in jobs if job.skipped],
    )


async def _submitted_again(
    context: ServerContext, _by: User, receipt: Receipt, request: w.GroupNameRequest
) -> SubmittedGroup:
    await context.submission_chain.wait(receipt.jobs)
    return SubmittedGroup(request.group, list(receipt.jobs), repeated=True)


@verb(OVERSEES, again=_submitted_again)
async def submit_group(context: ServerContext, by: User, request: w.GroupNameRequest) -> SubmittedGroup:
    """Submit all created jobs of a group in one step, all or none."""
    jobs = [job for job in members(context, by, request) if job.state is JobState.CONFIGURING]
    specs = [context.cluster.written(job) for job in jobs]
    refuse_unfit_now(context, by, *specs)
    command = SubmitJobs(
        by=by, jobs=tuple(job.id for job in jobs), parents=context.lookups.ended_parents(*specs)
    )
    await context.ask(command)
    await context.submission_chain.wait(command.jobs)
    return SubmittedGroup(request.group, list(command.jobs))


@verb(OVERSEES)
async def cancel_group(context: ServerContext, by: User, request: w.StopGroupRequest) -> StoppedGroup:
    """Cancel all jobs of a group that have not ended, in one step."""
    return await _stop_group(context, by, request, "canceled")


@verb(OVERSEES)
async def finish_group(context: ServerContext, by: User, request: w.StopGroupRequest) -> StoppedGroup:
    """Finish all jobs of a group that have not ended, in one step."""
    return await _stop_group(context, by, request, "finished")


async def _stop_group(
    context: ServerContext, by: User, request: w.StopGroupRequest, outcome: Outcome
) -> StoppedGroup:
    """Stop them as one batch: one by one, a job that waits for the failure of another would start."""
    jobs = [job for job in members(context, by, request) if not job.state.is_final]
    answers = await context.ask_together([_stop_command(by, job.id, request, outcome) for job in jobs])
    stopped: list[StoppedJob] = []
    refused: list[RefusedJob] = []
    for job, answer in zip(jobs, answers, strict=True):
        if isinstance(answer, Refused):
            refused.append(RefusedJob(job.id, answer.code, answer.what, answer.fix))
        else:
            state = context.lookups.job(job.id).record.state
            stopped.append(StoppedJob(job.id, STATE_NAMES[state]))
    return StoppedGroup(request.group, stopped, refused)


def _stop_command(by: User, job: JobId, request: w.StopGroupRequest, outcome: Outcome) -> StopJob:
    return StopJob(
        by=by,
        job=job,
        outcome=outcome,
        message=request.message,
        force=request.force,
        graceful=request.graceful,
    )


def dependencies_of(context: ServerContext, job: FoundJob) -> list[DependencyObject]:
    """Return what a job waits for or has waited for."""
    return [_dependency(context, job.record, one) for one in every_dependency(job.spec, job.record.waits_for)]


def _dependency(context: ServerContext, record: JobRecord, one: JobDependency) -> DependencyObject:
    """Return one dependency of a job: the parent, the condition and its state."""
    parent, condition = one.job, one.condition.value
    delay = one.delay or None
    other = context.lookups.record(parent)
    if other is None:
        return DependencyObject(parent, condition, "", "", "", one.element, delay)
    name = context.cluster.written(other).name
    outcome = outcome_of(other, () if one.element is None else (one.element,))
    stands = dependency_state(one, outcome).name.lower()
    if one.condition is Condition.ON_CORRESPONDING:
        if not record.state.is_final and record.submitted is not None:
            stands = "open" if parent in awaited_by_instances(record) else "met"
    elif record.state.is_queued and parent not in record.waits_for and not record.spare:
        stands = "met"  # what let a job go holds, whatever became of it since
    element = outcome.elements.get(one.element) if one.element is not None else None
    state = STATE_NAMES[other.state if element is None else element.state]
    return DependencyObject(parent, condition, name, state, stands, one.element, delay)


def dependents_of(context: ServerContext, looked_up: FoundJob) -> list[DependentObject]:
    """Return the jobs that depend on a job: the ones of its group, and all that have not started."""
    own = looked_up.record
    cluster = context.cluster
    waiting = {*cluster.children.get(own.id, ()), *cluster.followers.get(own.id, ())}
    group = context.lookups.group(own.group, own.owner) if own.group else []
    candidates = {record.id: record for record in group}
    candidates |= {job: cluster.jobs[job] for job in waiting}
    dependents = []
    for job, record in sorted(candidates.items()):
        spec = cluster.written(record)
        dependents += [
            DependentObject(job, one.condition.value, spec.name, STATE_NAMES[record.state], one.element)
            for one in every_dependency(spec, record.waits_for)
            if one.job == own.id
        ]
    return dependents


MAX_SEARCHED = 20_000
"""Ended jobs of the owner that are looked through, newest first."""

_PAGE_OF_JOBS = 500
_ID = "<Id>"
_Jobs = Sequence[tuple[int, bytes]]


async def with_parents(context: ServerContext, by: User, described: DescribedJobs) -> DescribedJobs:
    """Return jobs that wait for ids alone; the report says which job each name means.

    Raises:  NotFound ``no-such-parent`` when the owner has no such job.
    """
    if not any(spec.named_parents for spec in described.specs):
        return described
    specs: list[JobSpec] = []
    items: list[ReportItem] = []
    for spec in described.specs:
        owner = plain_name(spec.run_as) if is_other(by, spec) else by.name
        parents = {parent: await _job_called(context, owner, parent) for parent in spec.named_parents}
        items += (
            ReportItem(
                Fidelity.NOTE,
                f"job {spec.name!r}" if spec.name else "job",
                f"it waits for job {job}: {parent}",
            )
            for parent, job in parents.items()
        )
        specs.append(_linked(spec, parents))
    return described._replace(specs=specs, report=(*described.report, *items))


def _linked(spec: JobSpec, parents: dict[NamedParent, int]) -> JobSpec:
    fields: dict[str, tuple[int, ...]] = {}
    for parent, job in parents.items():
        field = DEPENDENCY_FIELDS[parent.condition]
        fields[field] = tuple(dict.fromkeys((*fields.get(field, getattr(spec, field)), job)))
    return replace(spec, named_parents=(), **fields)


async def _job_called(context: ServerContext, owner: str, parent: NamedParent) -> int:
    """Return the newest job of the owner that is meant.

    Cost:  a walk over the owner's jobs in which the event loop takes turns; of most only bytes are compared.
    """
    alive = [(job.id, job.spec) for job in context.cluster.jobs.values() if job.owner == owner]
    best = max([job for job, data in alive if _is_meant(parent, data)], default=0)
    for page in _ended(context, owner):
        if page[0][0] < best:
            break  # all others are older
        best = max([best, *(job for job, data in page if _is_meant(parent, data))])
        await asyncio.sleep(0)
    if not best:
        raise NotFound(
            code="no-such-parent",
            what=f"the job depends on a job with {parent}, and {owner} has none",
            fix="submit that job first, or give its number (JobId): see `hn job list /all`",
        )
    return best


def _ended(context: ServerContext, owner: str) -> Iterator[_Jobs]:
    """Yield the jobs of the owner that are over, newest first, in pages."""
    before = None
    for _ in range(MAX_SEARCHED // _PAGE_OF_JOBS):
        page = context.lookups.archive.ended_jobs(owner=owner, states=(), before=before, limit=_PAGE_OF_JOBS)
        if not page:
            return
        before = page[-1].id
        yield [(job.id, decode_record(job.record).spec) for job in page]


def _is_meant(parent: NamedParent, data: bytes) -> bool:
    """Return True if a description is that of the job; comparing bytes decides most cases."""
    if not parent.by_id:
        return parent.name.encode() in data and decode_spec(data).name == parent.name
    if _ID.encode() not in data:
        return False
    from headnode.core.formats.sss.conversion import id_read_with  # with lxml: only who asks so pays for it

    return id_read_with(decode_spec(data).extensions) == parent.name
