"""A job of this cluster, alive or over, as a job file; or the file that it was read from."""

import asyncio
import zlib

from msgspec.structs import replace

from headnode.adapters.identity.users import first_group
from headnode.apps.server.api.access import may_see_private
from headnode.apps.server.api.job_objects import progress_of, unmade
from headnode.apps.server.api.job_submission import LARGE_JOB_FILE, script_of
from headnode.apps.server.job_lookup import FoundJob
from headnode.apps.server.server_context import ServerContext
from headnode.core.formats import dialects
from headnode.core.formats.dialects import DIALECTS
from headnode.core.formats.fidelity import Fidelity, FidelityReport, ReportItem
from headnode.core.formats.job_views import DeliveredResources, ExportedInstance, ExportedJob, ExportedTask
from headnode.core.model.bounds import JOB_FILE
from headnode.core.model.errors import BadRequest, NotAllowed, NotFound
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.model.task import TaskType
from headnode.core.model.user import User
from headnode.core.state.groups import group_state
from headnode.core.state.job_events import JobCreated
from headnode.core.state.job_record import JobRun, TaskProgress
from headnode.core.state.transitions import JobState, TaskState
from headnode.protocol.answers import JobFileAnswer

MAX_INSTANCES = 1_000
"""How many instances of all sweeps of a job are written one by one."""


def live_with_instances(context: ServerContext, job: FoundJob) -> ExportedJob:
    """Return what only the scheduler knows of a job, with its instances, cluster and owner's group."""
    live = live_of(context, job)
    room = MAX_INSTANCES
    tasks = dict(live.tasks)
    for number, task in enumerate(job.spec.tasks, 1):
        if task.kind is TaskType.SWEEP:
            listed = _instances(context, job, number, room + 1)
            some = dict(sorted(listed.items())[:room])
            tasks[number] = replace(tasks[number], instances=some, all_listed=len(listed) <= room)
            room -= len(some)
    return replace(live, tasks=tasks, machine=context.name, owner_group=first_group(live.owner))


def _instances(context: ServerContext, job: FoundJob, number: int, most: int) -> dict[int, ExportedInstance]:
    """Return at least the first `most` instances of a task that have started."""
    rows = context.lookups.archive.instances(job.record.id, number, 0, most)
    over = {
        row.instance: ExportedInstance(
            nodes=row.nodes or ((row.node,) if row.node else ()),
            started=row.outcome.started,
            ended=row.outcome.ended,
            exit_code=row.outcome.exit_code,
        )
        for row in rows
        if row.outcome.started is not None
    }
    live = {
        instance: ExportedInstance(nodes=tuple(node for node, _ in one.placement), started=one.started)
        for instance, one in progress_of(job.record, job.spec, number).live.items()
        if one.started is not None
    }
    return over | live


def live_of(context: ServerContext, looked_up: FoundJob) -> ExportedJob:
    """Return what only the scheduler knows of a job."""
    record, run = looked_up.record, looked_up.record.run
    tasks = {number: _task(context, looked_up, number) for number in range(1, len(looked_up.spec.tasks) + 1)}
    held = [*run.usage.nodes, *run.allocation] if run is not None else []
    used = dict.fromkeys([*held, *(node for task in tasks.values() for node in task.nodes)])
    group = context.lookups.group(looked_up.spec.job_group, record.owner) if looked_up.spec.job_group else []
    return ExportedJob(
        id=record.id,
        state=record.state,
        owner=record.owner,
        submit_host=record.submit_host,
        created=record.created,
        submitted=record.submitted,
        started=run.started if run else None,
        ended=run.ended if run else None,
        message=record.message,
        nodes=tuple(used),
        backfilled=run.backfilled if run else False,
        requeues=run.requeues if run else 0,
        pending_reason=context.pending_reason(record),
        progress=run.percent if run else None,
        progress_message=run.progress_message if run else "",
        tasks=tasks,
        starts=run.starts if run else 0,
        suspended=_suspended(run, context.now()) if run else Seconds(0.0),
        holds=tuple(hold.name for hold in record.holds),
        delivered=_delivered(run, context.now()) if run else None,
        group_state=group_state(group).value if group else "",
        group_created=min((job.created for job in group), default=None),
    )


def _delivered(run: JobRun, now: Instant) -> DeliveredResources | None:
    """Return what a job was given and used; nothing of one that never started."""
    usage = run.usage
    if not usage.processors:
        return None
    runs = run.started is not None and run.ended is None
    since = run.started if runs and run.started is not None else now
    return DeliveredResources(
        processors=usage.processors,
        nodes=len(usage.nodes),
        processor_seconds=usage.cpu_time,
        wall_seconds=Seconds(usage.wall_time + (max(0.0, now - since - run.not_run) if runs else 0.0)),
        memory_average=_megabytes(usage.average_memory),
        memory_maximum=_megabytes(usage.used.peak_memory),
        exit_code=usage.exit_code,
    )


def _megabytes(kilobytes: int) -> int | None:
    """Return an amount in MB, rounded up; None for none, because nothing was measured."""
    return -(-kilobytes // 1024) or None


def _suspended(run: JobRun, now: Instant) -> Seconds:
    """Return how long a job stood still in all, until now if it still does."""
    since = run.suspension.since if run.suspension and run.suspension.allocation else now
    return Seconds(run.suspended_time + now - since)


def _task(context: ServerContext, job: FoundJob, number: int) -> ExportedTask:
    task = job.spec.tasks[number - 1]
    progress = progress_of(job.record, job.spec, number)
    state = _state(job, progress)
    if task.kind is not TaskType.BASIC:
        return ExportedTask(state=state, submitted=job.record.submitted)
    live = progress.live.get(1)
    row = None if live is not None else context.lookups.archive.instance(job.record.id, number, 1)
    if live is not None:
        nodes = tuple(node for node, _ in live.placement)
        return ExportedTask(
            state=live.state, nodes=nodes, submitted=job.record.submitted, started=live.started
        )
    if row is None:
        return ExportedTask(state=state, submitted=job.record.submitted)
    return ExportedTask(
        state=state,
        exit_code=row.outcome.exit_code,
        message=row.outcome.message,
        nodes=row.nodes or ((row.node,) if row.node else ()),
        submitted=job.record.submitted,
        started=row.outcome.started,
        ended=row.outcome.ended,
        requeues=row.attempt - 1,
    )


def _state(job: FoundJob, progress: TaskProgress) -> TaskState:
    """Return the state of a whole task in the head's own words."""
    if job.record.state is JobState.CONFIGURING:
        return TaskState.CONFIGURING
    if progress.live:
        return TaskState.RUNNING
    if progress.instances_made is not None and (progress.endless or not progress.instances_made):
        return unmade(job.record)
    for numbers, state in (
        (progress.queued, TaskState.QUEUED),
        (progress.blocked, TaskState.QUEUED),
        (progress.failed, TaskState.FAILED),
        (progress.canceled, TaskState.CANCELED),
    ):
        if numbers:
            return state
    return TaskState.FINISHED


# ---------------------------------------------------------------- the file that it was read from


async def submitted_file(context: ServerContext, by: User, looked_up: FoundJob) -> JobFileAnswer:
    """Return the file that a job was read from, and what became of its words.

    Raises:  NotAllowed ``not-owner``, for what is private; NotFound ``no-job-file``.
    """
    job = looked_up.record.id
    if not may_see_private(context, by, looked_up):
        raise NotAllowed(
            code="not-owner",
            what=f"the job file of job {job} is private to {looked_up.record.owner!r}",
            fix="see what the job asks for: hn job export --to native",
        )
    text = script_of(looked_up.spec) or _kept_file(context, by, looked_up)
    if not text:
        raise NotFound(
            code="no-job-file",
            what=f"the cluster has no file of job {job}: it was submitted without one, or with one "
            f"that has jobs of several owners or is longer than {JOB_FILE}",
            fix="write the job in any language: hn job export --to native",
        )
    if len(text) <= LARGE_JOB_FILE:
        return JobFileAnswer(text, _read_again(text, looked_up.spec))
    async with context.reading:
        return JobFileAnswer(text, await asyncio.to_thread(_read_again, text, looked_up.spec))


def _kept_file(context: ServerContext, by: User, job: FoundJob) -> str:
    """Return the text in the event that made the job, or the first job of its file; "" for none.

    A job that has another owner now may come from a file with jobs that its owner may not see.
    """
    made = event = _creation(context, job.record.id)
    if event is not None and event.source_job:
        event = _creation(context, JobId(event.source_job))
    if made is None or event is None or not event.source:
        return ""
    if not by.administrator and {made.owner, event.owner} != {job.record.owner}:
        return ""
    return zlib.decompressobj().decompress(event.source, 4 * JOB_FILE.most).decode(errors="replace")


def _creation(context: ServerContext, job: JobId) -> JobCreated | None:
    first = context.lookups.archive.job_events(job, 0, 1)
    return first[0][1] if first and isinstance(first[0][1], JobCreated) else None


def _read_again(text: str, spec: JobSpec) -> FidelityReport:
    """Return what becomes of the words of a job file, and in what its job differs from it."""
    dialect = DIALECTS.get(spec.dialect)
    try:
        read = dialects.read(text, dialects.ReadOptions(language=dialect.language if dialect else None))
    except BadRequest as refusal:  # such as a file that was sent with others
        return (ReportItem(Fidelity.NOTE, "document", f"alone it cannot be read: {refusal.what}"),)
    if len(read.jobs) != 1:
        return read.report
    written = read.jobs[0]
    if script_of(spec) or spec.dialect == "htcondor":  # with words and directory of its submission
        written = replace(written, tasks=spec.tasks)
    differs = [name for name in JobSpec.__struct_fields__ if getattr(written, name) != getattr(spec, name)]
    if not differs:
        return read.report
    what = f"the job differs from this file in {', '.join(differs)}: options, a template or a change"
    return (*read.report, ReportItem(Fidelity.NOTE, "job", what))
