"""Jobs and tasks as clients see them.  The shapes are those of the local protocol."""

from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from headnode.apps.server.api.job_briefs import Brief, begun_of, task_counts
from headnode.apps.server.waiting_reasons import waits_for_files
from headnode.core.model.bounds import TASK_COMMAND
from headnode.core.model.job import JobSpec
from headnode.core.model.outcome import ResourceUsage
from headnode.core.model.quantities import Instant, format_priority
from headnode.core.model.task import RecurringOrigin, TaskSpec, TaskType, public_command
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.job_end import canceled_untouched
from headnode.core.state.job_events import InstanceEnd
from headnode.core.state.job_record import (
    JobHold,
    JobRecord,
    JobRun,
    TaskProgress,
    not_begun,
    written_spec,
)
from headnode.core.state.resources import ids_there
from headnode.core.state.transitions import STATE_NAMES, JobState, TaskState
from headnode.protocol.answers import (
    CoresOnNode,
    DetailedJob,
    DetailedTask,
    HoldObject,
    InstanceCounts,
    JobObject,
    JobUsage,
    RecurringOriginObject,
    TaskObject,
)

Object = dict[str, Any]
ShownJob = TypeVar("ShownJob", bound=JobObject)


STAGING_IN = "staging in"  # the detail of a suspended job that only waits for its files
_DETACHED = "only transfers of its files are left; its processors are released"


def job_object(
    kind: type[ShownJob],
    record: JobRecord,
    brief: Brief,
    pending_reason: str = "",
    counts: InstanceCounts | None = None,
    **more: Any,
) -> ShownJob:
    """Return a job as clients see it, with `more` fields of its kind; `counts`: if they are known."""
    run = record.run
    return kind(
        owner=record.owner,
        name=brief.name,
        project=brief.project,
        minimum=brief.minimum,
        maximum=brief.maximum,
        unit=brief.unit,
        run_time=brief.run_time,
        minimum_run_time=brief.minimum_run_time,
        group=record.group,
        state=STATE_NAMES[record.state],
        priority=record.priority,
        priority_name=format_priority(record.priority),
        created=record.created,
        submitted=record.submitted,
        started=run.started if run else None,
        ended=run.ended if run else None,
        allocated=sum(map(len, run.allocation.values())) if run else 0,
        message=record.message or (_DETACHED if run and run.detached else ""),
        skipped=record.skipped,
        tasks=counts or task_counts(brief.instances, run),
        pending_reason=pending_reason,
        progress=run.percent if run else None,
        progress_message=run.progress_message if run else "",
        **({"id": record.id} | more),
    )


def _origin(made_by: RecurringOrigin | None) -> RecurringOriginObject | UnsetType:
    return UNSET if made_by is None else RecurringOriginObject(made_by.number, made_by.name, made_by.time)


def detailed_job(
    record: JobRecord, spec: JobSpec, brief: Brief, pending_reason: str, **more: Any
) -> DetailedJob:
    """Return a job with everything there is to know of it; `more`: what its description does not say."""
    from headnode.core.formats.job_views import write_job_json

    run = record.run
    places = run.places if run and not run.detached else {}
    return job_object(
        DetailedJob,
        record,
        brief,
        pending_reason,
        spec=write_job_json(spec),
        allocation=[CoresOnNode(node, list(numbers)) for node, numbers in places.items()],
        backfilled=run.backfilled if run else False,
        requeues=run.requeues if run else 0,
        submit_host=record.submit_host,
        recurring=_origin(record.recurring),
        alternatives=len(spec.alternatives),
        alternative=run.alternative if run and run.started is not None else None,
        state_detail=STAGING_IN if waits_for_files(record) else record.state.value,
        usage=delivered_object(run),
        hold_until=record.hold_until,
        holds=[hold_object(hold) for hold in record.holds],
        starts=run.starts if run else 0,
        suspended_since=suspended_since(record),
        suspended_for=run.suspended_time if run else 0.0,
        end_by=spec.end_by,
        reservation=spec.reservation,
        resource=spec.resource if record.placement is None else record.placement.resource,
        resource_jobs=ids_there(record),
        waits_for=list(record.waits_for),
        any_dependency=spec.any_dependency,
        preparing=list(run.unready) if run else [],
        cleaning=list(run.cleaning) if run else [],
        **more,
    )


def hold_object(hold: JobHold) -> HoldObject:
    """Return a hold: its name, who set it and when, and why."""
    return HoldObject(hold.name, hold.by, hold.at, hold.message)


def suspended_since(record: JobRecord) -> Instant | None:
    """Return since when all processes of a job are stopped; None if they are not."""
    suspension = record.run.suspension if record.run is not None else None
    return suspension.since if suspension is not None and suspension.allocation else None


def delivered_object(run: JobRun | None) -> JobUsage | None:
    """Return what a job was given and has used, in instances and runs that are over; None before a start."""
    if run is None or not run.usage.processors:
        return None
    usage = run.usage
    return JobUsage(
        processors=usage.processors,
        nodes=list(usage.nodes),
        cpu_time=usage.cpu_time,
        wall_time=usage.wall_time,
        peak_memory=usage.used.peak_memory,
        average_memory=usage.average_memory,
        **usage.used.counts(),
        exit_code=usage.exit_code,
    )


def instance_counts(progress: TaskProgress) -> dict[str, int]:
    """Return how many instances of a task are in each state, as people see it."""
    begun = begun_of(progress)
    waiting = len(progress.queued) + len(progress.blocked) + len(progress.live) - begun
    over = {
        "finished": len(progress.finished),
        "failed": len(progress.failed),
        "canceled": len(progress.canceled),
    }
    return {"total": waiting + begun + sum(over.values()), "queued": waiting, "running": begun} | over


def task_state(record: JobRecord, progress: TaskProgress) -> str:
    """Return the state of a whole task: running while anything runs, failed when anything failed."""
    if record.state is JobState.CONFIGURING:
        return STATE_NAMES[TaskState.CONFIGURING]
    if (
        progress.instances_made is not None
        and not progress.live
        and (progress.endless or not progress.instances_made)
    ):
        return STATE_NAMES[unmade(record)]
    counts = instance_counts(progress)
    for state in ("running", "queued", "failed", "canceled", "finished"):
        if counts[state]:
            return STATE_NAMES[TaskState(state)]
    return STATE_NAMES[TaskState.FINISHED]


def unmade(record: JobRecord) -> TaskState:
    """Return the state of a special task that may make instances, or could have made some, and has none."""
    if not record.state.is_final:
        return TaskState.QUEUED
    return TaskState.FINISHED if record.state is JobState.FINISHED else TaskState.CANCELED


def instances_of(record: JobRecord, spec: JobSpec, number: int) -> int:
    """Return how many instances a task has; of a special one, how many it has had by now."""
    made = progress_of(record, spec, number).instances_made
    return written_spec(record, spec).tasks[number - 1].instances if made is None else made


def progress_of(record: JobRecord, spec: JobSpec, number: int) -> TaskProgress:
    """Return the progress of a task; all queued, or canceled, when nothing of the job was touched."""
    if record.run is None:
        return not_begun(spec.tasks[number - 1])
    if not record.run.tasks:
        return canceled_untouched(spec.tasks[number - 1])
    return record.run.tasks[number - 1]


def task_object(
    record: JobRecord, spec: JobSpec, number: int, row: InstanceEnd | None, pending_reason: str = ""
) -> TaskObject:
    """Return one task: of a basic task its only instance, of any other the row of all of them."""
    task = written_spec(record, spec).tasks[number - 1]
    progress = progress_of(record, spec, number)
    state = task_state(record, progress)
    if task.kind is not TaskType.BASIC:
        counts = InstanceCounts(**instance_counts(progress))
        return _shown(record, task, number, state, pending_reason, _NEVER_RAN, instances=counts)
    return _shown(record, task, number, state, pending_reason, _course(record, progress, 1, row))


def instance_object(
    record: JobRecord, spec: JobSpec, number: int, instance: int, row: InstanceEnd | None, pending: str = ""
) -> TaskObject:
    """Return one instance of a task."""
    task = written_spec(record, spec).tasks[number - 1]
    progress = progress_of(record, spec, number)
    state = instance_state(record, progress, instance)
    reason = pending if state is TaskState.QUEUED else ""
    course = _course(record, progress, instance, row)
    return _shown(record, task, number, STATE_NAMES[state], reason, course, instance=instance)


_READY = "its input files are there; it waits for its processors"
_STAGING = {
    "": "",
    "in": "its input files are being copied",
    "ready": _READY,
    "out": "its results are being copied",
}


def _course(record: JobRecord, progress: TaskProgress, instance: int, row: InstanceEnd | None) -> Object:
    """Return how an instance goes or went; of one that never ran, why."""
    live = progress.live.get(instance)
    if live is not None:
        return _NEVER_RAN | {
            "node": " ".join(node for node, _ in live.placement),
            "processors": [list(numbers) for _, numbers in live.placement],
            "started": live.started,
            "attempt": live.attempt,
            "message": live.message or _STAGING[live.staging],
        }
    if row is not None:
        return _outcome(row)
    if instance in progress.failed:
        return _NEVER_RAN | {"message": "it never ran: a task it depends on failed"}
    if instance in progress.canceled:
        return _NEVER_RAN | {"message": f"it never ran: {record.message or 'canceled'}"}
    return _NEVER_RAN


def instance_state(record: JobRecord, progress: TaskProgress, instance: int) -> TaskState:
    """Return where one instance is in its life."""
    if record.state is JobState.CONFIGURING:
        return TaskState.CONFIGURING
    live = progress.live.get(instance)
    if live is not None:
        return live.state
    if instance in progress.finished:
        return TaskState.FINISHED
    if instance in progress.failed:
        return TaskState.FAILED
    return TaskState.CANCELED if instance in progress.canceled else TaskState.QUEUED


def instances_in(
    record: JobRecord, spec: JobSpec, number: int, states: set[str], after: int
) -> Iterator[int]:
    """Yield a task's instances above `after` that people see in one of `states`; no states means all."""
    progress = progress_of(record, spec, number)
    for instance in range(after + 1, instances_of(record, spec, number) + 1):
        if not states or STATE_NAMES[instance_state(record, progress, instance)] in states:
            yield instance


def _shown(
    record: JobRecord,
    task: TaskSpec,
    number: int,
    state: str,
    pending_reason: str,
    course: Object,
    instance: int | None = None,
    instances: InstanceCounts | UnsetType = UNSET,
) -> TaskObject:
    return TaskObject(
        job=record.id,
        task=number,
        instance=instance,
        name=task.name,
        state=state,
        command=public_command(task.command)[: TASK_COMMAND.most],
        kind=task.kind.value,
        minimum=task.minimum,
        maximum=task.maximum,
        pending_reason=pending_reason,
        instances=instances,
        **course,
    )


def _outcome(row: InstanceEnd) -> Object:
    outcome = row.outcome
    return {
        "exit_code": outcome.exit_code,
        "signal": outcome.signal,
        "node": " ".join(row.nodes or (row.node,)),
        "processors": [],
        "started": outcome.started,
        "ended": outcome.ended,
        **outcome.usage._asdict(),
        "message": outcome.message,
        "attempt": row.attempt,
        "cause": row.cause,
    }


_NEVER_RAN: Object = {
    "exit_code": None,
    "signal": None,
    "node": "",
    "processors": [],
    "started": None,
    "ended": None,
    **dict.fromkeys(ResourceUsage._fields),
    "message": "",
    "attempt": None,
}
"""The course of an instance that has not begun."""


def detailed_task(answer: TaskObject, task: TaskSpec, *, private: bool) -> DetailedTask:
    """Return a task with everything there is to know of it; `private`: its environment is left out."""
    from headnode.core.formats.job_views import write_job_json

    return DetailedTask(
        **(msgspec.structs.asdict(answer) | {"command": task.command}),
        spec=write_job_json(JobSpec(tasks=(task,)))["tasks"][0],
        standard_input=task.standard_input,
        standard_output=task.standard_output,
        standard_error=task.standard_error,
        work_directory=task.work_directory,
        environment=task.environment,
        environment_hidden=private,
    )


def count_by_state(cluster: ClusterState, ended: dict[str, int]) -> dict[str, int]:
    """Return how many jobs people see in each state."""
    counts: dict[str, int] = {}
    for state, number in (*cluster.counts.items(), *((JobState(s), n) for s, n in ended.items())):
        if number:
            counts[STATE_NAMES[state]] = counts.get(STATE_NAMES[state], 0) + number
    return counts
