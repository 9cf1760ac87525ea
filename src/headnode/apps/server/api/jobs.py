"""The verbs about whole jobs."""

from msgspec import UNSET
from msgspec.structs import replace

from headnode.apps.server.api import job_objects as show
from headnode.apps.server.api.access import copied_by, hides_environment, seen_by
from headnode.apps.server.api.groups import dependencies_of, dependents_of, with_parents
from headnode.apps.server.api.job_submission import (
    DescribedJobs,
    create_all,
    read_jobs,
    read_tasks,
    refuse_too_many,
    refuse_unfit_change,
    refuse_unfit_now,
    users_named,
    with_terms,
)
from headnode.apps.server.api.job_views import expected_object, history_of, prediction_object
from headnode.apps.server.api.verbs import CREATES, OVERSEES, READS, VerbAccess, VerbUsers, verb
from headnode.apps.server.job_lookup import FoundJob
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.bounds import TASKS_OF_FILE
from headnode.core.model.errors import BadRequest, WrongState
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import JobId
from headnode.core.model.user import Receipt, User
from headnode.core.state.filters import changes
from headnode.core.state.job_events import JobCreated, JobRequeued
from headnode.core.state.job_record import decode_spec
from headnode.core.state.modify import ModifyJob, RequeueJob, SetProgress, followed_by_script
from headnode.core.state.permissions import is_other, may_change, plain_name
from headnode.core.state.stop import StopJob
from headnode.core.state.submit import CreateJob, SubmitJob, already_submitted
from headnode.protocol import requests as w
from headnode.protocol.answers import (
    AddTasksAnswer,
    JobAnswer,
    JobFileAnswer,
    JobIdAnswer,
    JobStateAnswer,
    ModifiedJob,
    RequeuedJob,
    SubmitAnswer,
)


async def _made_again(
    _context: ServerContext, _by: User, receipt: Receipt, _request: w.VerbRequest
) -> SubmitAnswer:
    jobs = list(receipt.jobs)
    return SubmitAnswer(jobs[-1], report=(), jobs=jobs if len(jobs) > 1 else UNSET, repeated=True)


async def _submitted_again(
    context: ServerContext, by: User, receipt: Receipt, request: w.SubmitJobRequest
) -> SubmitAnswer:
    await context.submission_chain.wait(receipt.jobs)
    return await _made_again(context, by, receipt, request)


@verb(CREATES, again=_made_again, adds=True)
async def create_job(context: ServerContext, by: User, request: w.CreateJobRequest) -> SubmitAnswer:
    """Create a job in state configuring, or all jobs of a job file."""
    described = await with_parents(context, by, await read_jobs(context, by, request))
    return _made(by, await create_all(context, by, described, submit=False), described)


def _made(by: User, ids: list[int], described: DescribedJobs) -> SubmitAnswer:
    owners = sorted({plain_name(spec.run_as) for spec in described.specs if is_other(by, spec)})
    return SubmitAnswer(
        job=ids[-1],
        report=described.report,
        jobs=ids if len(ids) > 1 else UNSET,
        owner=", ".join(owners) if owners else UNSET,
    )


def _created(events: tuple[object, ...]) -> int:
    return next(event.job for event in events if isinstance(event, JobCreated))


@verb(CREATES, again=_submitted_again, adds=True)
async def submit_job(context: ServerContext, by: User, request: w.SubmitJobRequest) -> SubmitAnswer:
    """Put a job into the queue: a created one, or a new one, or all jobs of a job file, all or none."""
    if request.job is not None:
        return await _submit_created(context, by, request, request.job)
    described = await with_parents(context, by, await read_jobs(context, by, request, to_submit=True))
    refuse_unfit_now(context, by, *described.specs)
    ids = await create_all(context, by, described, submit=True)
    await context.submission_chain.wait(ids)
    return _made(by, ids, described)


async def _submit_created(
    context: ServerContext, by: User, request: w.SubmitJobRequest, job: int
) -> SubmitAnswer:
    refuse_description(request)
    if request.terms:
        await modify_job(context, replace(by, once=None), w.ModifyJobRequest(job=job, terms=request.terms))
        by = replace(by, expected=None)  # a condition is for the change, a key for the submission
    found = context.lookups.job(job)
    refuse_submitted(found)
    refuse_unfit_now(context, by, found.spec, owner=found.record.owner)
    parents = context.lookups.ended_parents(found.spec)
    await context.ask(SubmitJob(by=by, job=JobId(job), parents=parents))
    await context.submission_chain.wait([job])
    return SubmitAnswer(job, ())


def refuse_description(request: w.SubmitJobRequest) -> None:
    """Refuse to describe a job that has been made before.

    Raises:  BadRequest ``id-and-description``.
    """
    if request.jobfile is not None or request.tasks:
        raise BadRequest(
            code="id-and-description",
            what="a job that was created is submitted by its id alone",
            fix="add tasks with `hn job add` first, or submit the job file without an id",
        )


def refuse_submitted(job: FoundJob) -> None:
    """Refuse to submit a job that is over.

    Raises:  WrongState ``already-submitted``.
    """
    if job.ended:
        raise already_submitted(job.record)


async def _added_again(
    _context: ServerContext, _by: User, receipt: Receipt, _request: w.AddTasksRequest
) -> AddTasksAnswer:
    tasks = list(range(receipt.first_task, receipt.last_task + 1))
    return AddTasksAnswer(receipt.jobs[0], tasks, report=(), repeated=True)


@verb(VerbAccess(VerbUsers.OWNER, changes=True), again=_added_again)
async def add_tasks(context: ServerContext, by: User, request: w.AddTasksRequest) -> AddTasksAnswer:
    """Add tasks at the end of a job's task list."""
    refuse_too_many(len(request.tasks))
    while True:
        found = live_job(context, request.job)
        known = len(found.spec.tasks)
        spec = with_terms({}, request.tasks, found.spec, now=context.now())
        if request.jobfile is not None:
            read = await read_tasks(request.jobfile)
            refuse_too_many(len(read), bound=TASKS_OF_FILE)
            spec = replace(spec, tasks=spec.tasks + read)
        try:
            await _change_job(context, by, found, found.spec, spec)
        except WrongState as refused:
            if refused.code != "stale-tasks" or len(live_job(context, request.job).spec.tasks) == known:
                raise
            continue  # another request added tasks at the same time: put these behind them
        added = replace(spec, tasks=spec.tasks[known:])
        numbers = list(range(known + 1, len(spec.tasks) + 1))
        from headnode.core.formats.text import windows

        return AddTasksAnswer(request.job, numbers, tuple(windows.items(added)))


def live_job(context: ServerContext, job: int) -> FoundJob:
    """Return a job that is not over.

    Raises:  WrongState ``job-over``.
    """
    found = context.lookups.job(job)
    if found.ended:
        raise WrongState(
            code="job-over",
            what=f"job {job} is {found.record.state.value}",
            fix=f"make a copy and change that: hn job clone {job}",
        )
    return found


@verb(OVERSEES)
async def modify_job(context: ServerContext, by: User, request: w.ModifyJobRequest) -> ModifiedJob:
    """Change options of a job."""
    job = context.lookups.job(request.job)
    known = job.spec if job.ended else job.taken
    spec = with_terms(request.terms, (), known, now=context.now())
    former = _with_hold_of_filter(context, job, known, spec, request)
    return ModifiedJob(request.job, list(await _change_job(context, by, job, former, spec)))


def _with_hold_of_filter(
    context: ServerContext, job: FoundJob, known: JobSpec, spec: JobSpec, request: w.ModifyJobRequest
) -> JobSpec:
    """Return `known`; if the request replaces the hold of an activation filter, with the time of that hold.

    The hold is not in the description: without it, a request for no hold would change nothing.
    """
    held = job.record.hold_until
    if job.ended or held is None or held == known.hold_until:
        return known
    with_hold = replace(known, hold_until=held)
    is_named = with_terms(request.terms, (), with_hold, now=context.now()).hold_until == spec.hold_until
    return with_hold if is_named else known


async def _change_job(
    context: ServerContext, by: User, job: FoundJob, former: JobSpec, requested: JobSpec
) -> tuple[str, ...]:
    """Change a job, past submission filters if it was submitted; return the names of what has changed.

    `former` is the job as it was when the request was read.
    """
    record = job.record
    if requested == former or not (record.state.is_queued or record.state.is_active):
        return await _changed_to(context, by, job, former, requested)
    may_change(by, record)
    async with context.submission_chain.changing(record, requested) as spec:
        return await _changed_to(context, by, job, former, spec)


async def _changed_to(
    context: ServerContext, by: User, job: FoundJob, former: JobSpec, spec: JobSpec
) -> tuple[str, ...]:
    fields = changes(former, spec)
    if not fields:
        return ()
    if job.record.submitted is not None and fields != ("tasks",):
        refuse_unfit_change(context, job.record.owner, followed_by_script(former, spec), former)
    archived = job.record if job.ended else None
    named = users_named(by, (spec,))
    skipped = context.lookups.skipped_for(job.record)
    command = ModifyJob(
        by=by,
        job=job.record.id,
        spec=spec,
        fields=fields,
        archived=archived,
        users=named,
        parents=context.lookups.ended_parents(spec, *(decode_spec(one.spec) for one in skipped)),
        skipped=skipped,
    )
    await context.ask(command)
    return fields


@verb(OVERSEES)
async def set_progress(context: ServerContext, by: User, request: w.SetProgressRequest) -> JobIdAnswer:
    """Set the progress of a job."""
    record = live_job(context, request.job).record
    await context.ask(SetProgress(by=by, job=record.id, percent=request.percent, message=request.message))
    return JobIdAnswer(request.job)


@verb(OVERSEES)
async def cancel_job(context: ServerContext, by: User, request: w.StopJobRequest) -> JobStateAnswer:
    """Cancel a job."""
    return await _stop_job(context, by, request, "canceled")


@verb(OVERSEES)
async def finish_job(context: ServerContext, by: User, request: w.StopJobRequest) -> JobStateAnswer:
    """Finish a job."""
    return await _stop_job(context, by, request, "finished")


async def _stop_job(
    context: ServerContext, by: User, request: w.StopJobRequest, outcome: str
) -> JobStateAnswer:
    job = context.lookups.job(request.job)
    if job.ended:
        may_change(by, job.record)
        if job.record.state.value == outcome:
            return JobStateAnswer(request.job, job.record.state.value)
        raise WrongState(
            code="job-over",
            what=f"job {request.job} has already ended: it is {job.record.state.value}",
            fix="only jobs that have not ended can be canceled or finished",
        )
    command = StopJob(
        by=by,
        job=job.record.id,
        outcome="canceled" if outcome == "canceled" else "finished",
        message=request.message,
        force=request.force,
        graceful=request.graceful,
    )
    await context.ask(command)
    return JobStateAnswer(request.job, context.lookups.job(request.job).record.state.value)


@verb(OVERSEES)
async def requeue_job(context: ServerContext, by: User, request: w.JobIdRequest) -> RequeuedJob:
    """Run a job again, except for what has finished."""
    job = context.lookups.job(request.job)
    skipped = context.lookups.skipped_for(job.record)
    command = RequeueJob(
        by=by,
        job=job.record.id,
        archived=job.record if job.ended else None,
        parents=context.lookups.ended_parents(job.spec, *(decode_spec(one.spec) for one in skipped)),
        skipped=skipped,
    )
    events = await context.ask(command)
    again = [one.job for one in events if isinstance(one, JobRequeued) and one.job != job.record.id]
    return RequeuedJob(request.job, [*again])


@verb(CREATES, again=_made_again)
async def clone_job(context: ServerContext, by: User, request: w.JobIdRequest) -> SubmitAnswer:
    """Make a copy of a job, in state configuring. The report says what was left out."""
    copied, left_out = copied_by(context, by, context.lookups.job(request.job))
    spec = replace(copied, run_as="")  # it is his who makes it
    events = await context.ask(CreateJob(by=by, spec=spec))
    return SubmitAnswer(_created(events), left_out)


@verb(READS)
async def job(context: ServerContext, by: User, request: w.JobIdRequest) -> JobAnswer:
    """Show a job with everything that the user may know of it."""
    from headnode.apps.server.api.bank import bank_of  # most heads have no bank

    job = context.lookups.job(request.job)
    spec, left_out = seen_by(context, by, job)
    plan = context.engine.last_plan
    answer = show.detailed_job(
        job.record,
        spec,
        context.briefs.of(job),
        context.pending_reason(job.record),
        history=history_of(context, job.record.id, 200),
        bank=bank_of(context, job),
        environment_hidden=hides_environment(left_out),
        expected=expected_object(context, job.record),
        prediction=prediction_object(context.predictions.prediction(job.record.id)),
        share=None if plan is None or job.ended else plan.shares.get(job.record.id),
        dependencies=dependencies_of(context, job),
        dependents=dependents_of(context, job),
    )
    return JobAnswer(answer)


@verb(READS)
async def export_job(context: ServerContext, by: User, request: w.ExportJobRequest) -> JobFileAnswer:
    """Write a job in one of the dialects, or show the file that it was read from."""
    from headnode.apps.server.api import job_export  # with lxml: only who exports pays for it
    from headnode.core.formats import dialects

    job = context.lookups.job(request.job)
    if request.dialect == dialects.SUBMITTED:
        return await job_export.submitted_file(context, by, job)
    own = job.spec.dialect or "native"
    dialect = request.dialect or (own if own in dialects.DIALECTS else "hpcpack")
    spec, left_out = seen_by(context, by, job)
    is_sss = dialects.dialect_named(dialect).language is dialects.JobLanguage.SSS
    live = (job_export.live_with_instances if is_sss else job_export.live_of)(context, job)
    text, report = dialects.write(spec, dialect, live)
    return JobFileAnswer(text.decode(), (*left_out, *report))
