"""A job of this cluster, alive or over, as a job file with everything the scheduler knows of it."""

from headnode.apps.server.answers_jobs import progress_of
from headnode.apps.server.desk import Desk
from headnode.apps.server.lookups import Found
from headnode.core.formats.compute_cluster_xml import Live, LiveTask
from headnode.core.lifecycle.records import TaskProgress
from headnode.core.lifecycle.states import JobState, TaskState
from headnode.core.model.task import TaskType


def live_of(desk: Desk, found: Found) -> Live:
    """Return what only the scheduler knows of a job."""
    record, run = found.record, found.record.run
    tasks = {number: _task(desk, found, number) for number in range(1, len(found.spec.tasks) + 1)}
    held = list(run.allocation) if run is not None else []
    used = dict.fromkeys([*held, *(node for task in tasks.values() for node in task.nodes)])
    return Live(
        id=record.id,
        state=record.state,
        owner=record.owner,
        created=record.created,
        submitted=record.submitted,
        started=run.started if run else None,
        ended=run.ended if run else None,
        message=record.message,
        nodes=tuple(used),
        backfilled=run.backfilled if run else False,
        requeues=run.requeues if run else 0,
        pending_reason=desk.pending_reason(record),
        progress=run.percent if run else None,
        progress_message=run.progress_message if run else "",
        tasks=tasks,
    )


def _task(desk: Desk, found: Found, number: int) -> LiveTask:
    task = found.spec.tasks[number - 1]
    progress = progress_of(found.record, found.spec, number)
    state = _state(found, progress)
    if task.kind is TaskType.SWEEP:
        return LiveTask(state=state, submitted=found.record.submitted)
    live = progress.live.get(1)
    row = None if live is not None else desk.lookups.archive.instance(found.record.id, number, 1)
    if live is not None:
        nodes = tuple(node for node, _ in live.place)
        return LiveTask(state=live.state, nodes=nodes, submitted=found.record.submitted, started=live.started)
    if row is None:
        return LiveTask(state=state, submitted=found.record.submitted)
    return LiveTask(
        state=state,
        exit_code=row.exit_code,
        message=row.message,
        nodes=(row.node,) if row.node else (),
        submitted=found.record.submitted,
        started=row.started,
        ended=row.ended,
        requeues=row.attempt - 1,
    )


def _state(found: Found, progress: TaskProgress) -> TaskState:
    """Return the state of a whole task in the head's own words."""
    if found.record.state is JobState.CONFIGURING:
        return TaskState.CONFIGURING
    if progress.live:
        return TaskState.RUNNING
    for numbers, state in (
        (progress.queued, TaskState.QUEUED),
        (progress.failed, TaskState.FAILED),
        (progress.canceled, TaskState.CANCELED),
    ):
        if numbers:
            return state
    return TaskState.FINISHED
