"""A job of this cluster, alive or over, as a job file with everything the scheduler knows of it."""

from msgspec.structs import replace

from headnode.adapters.identity.users import first_group
from headnode.apps.server.api.job_objects import progress_of, unmade
from headnode.apps.server.job_lookup import FoundJob
from headnode.apps.server.server_context import ServerContext
from headnode.core.formats.job_views import DeliveredResources, ExportedInstance, ExportedJob, ExportedTask
from headnode.core.model.quantities import Instant, Seconds
from headnode.core.model.task import TaskType
from headnode.core.state.groups import group_state
from headnode.core.state.job_record import JobRun, TaskProgress
from headnode.core.state.transitions import JobState, TaskState

MOST_INSTANCES = 1_000
"""How many instances of all sweeps of a job are told one by one."""


def live_with_instances(context: ServerContext, found: FoundJob) -> ExportedJob:
    """Return what only the scheduler knows of a job, with its instances, cluster and owner's group."""
    live = live_of(context, found)
    room = MOST_INSTANCES
    tasks = dict(live.tasks)
    for number, task in enumerate(found.spec.tasks, 1):
        if task.kind is TaskType.SWEEP:
            listed = _instances(context, found, number, room + 1)
            some = dict(sorted(listed.items())[:room])
            tasks[number] = replace(tasks[number], instances=some, all_listed=len(listed) <= room)
            room -= len(some)
    return replace(live, tasks=tasks, machine=context.name, owner_group=first_group(live.owner))


def _instances(
    context: ServerContext, found: FoundJob, number: int, most: int
) -> dict[int, ExportedInstance]:
    """Return at least the first `most` instances of a task that have started."""
    rows = context.lookups.archive.instances(found.record.id, number, 0, most)
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
        for instance, one in progress_of(found.record, found.spec, number).live.items()
        if one.started is not None
    }
    return over | live


def live_of(context: ServerContext, found: FoundJob) -> ExportedJob:
    """Return what only the scheduler knows of a job."""
    record, run = found.record, found.record.run
    tasks = {number: _task(context, found, number) for number in range(1, len(found.spec.tasks) + 1)}
    held = [*run.usage.nodes, *run.allocation] if run is not None else []
    used = dict.fromkeys([*held, *(node for task in tasks.values() for node in task.nodes)])
    group = context.lookups.group(found.spec.job_group, record.owner) if found.spec.job_group else []
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


def _task(context: ServerContext, found: FoundJob, number: int) -> ExportedTask:
    task = found.spec.tasks[number - 1]
    progress = progress_of(found.record, found.spec, number)
    state = _state(found, progress)
    if task.kind is not TaskType.BASIC:
        return ExportedTask(state=state, submitted=found.record.submitted)
    live = progress.live.get(1)
    row = None if live is not None else context.lookups.archive.instance(found.record.id, number, 1)
    if live is not None:
        nodes = tuple(node for node, _ in live.placement)
        return ExportedTask(
            state=live.state, nodes=nodes, submitted=found.record.submitted, started=live.started
        )
    if row is None:
        return ExportedTask(state=state, submitted=found.record.submitted)
    return ExportedTask(
        state=state,
        exit_code=row.outcome.exit_code,
        message=row.outcome.message,
        nodes=row.nodes or ((row.node,) if row.node else ()),
        submitted=found.record.submitted,
        started=row.outcome.started,
        ended=row.outcome.ended,
        requeues=row.attempt - 1,
    )


def _state(found: FoundJob, progress: TaskProgress) -> TaskState:
    """Return the state of a whole task in the head's own words."""
    if found.record.state is JobState.CONFIGURING:
        return TaskState.CONFIGURING
    if progress.live:
        return TaskState.RUNNING
    if progress.created is not None and (progress.endless or not progress.created):
        return unmade(found.record)
    for numbers, state in (
        (progress.queued, TaskState.QUEUED),
        (progress.failed, TaskState.FAILED),
        (progress.canceled, TaskState.CANCELED),
    ):
        if numbers:
            return state
    return TaskState.FINISHED
