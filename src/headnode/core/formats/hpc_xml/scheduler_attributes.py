"""Attributes that only the scheduler writes: in exports of real jobs, and in the job file for a filter."""

from typing import Any

from headnode.core.formats.hpc_xml.composite_fields import Values, current_size
from headnode.core.formats.hpc_xml.dialects import CCS
from headnode.core.formats.job_views import ExportedJob, ExportedTask
from headnode.core.model.job import JobSpec, UnitType
from headnode.core.model.task import TaskSpec
from headnode.core.state.transitions import JobState, TaskState

_HPC_WORDS = {
    "configuring": "Configuring",
    "validating": "Validating",
    "queued": "Queued",
    "dispatched": "Dispatching",
    "running": "Running",
    "suspending": "Running",  # these know no such state; its tasks are running, too
    "suspended": "Running",
    "resuming": "Running",
    "ending": "Finishing",
    "finished": "Finished",
    "failed": "Failed",
    "canceled": "Canceled",
}
_CCS_WORDS = {
    "configuring": "NotSubmitted",
    "validating": "Queued",
    "queued": "Queued",
    "dispatched": "Queued",
    "running": "Running",
    "suspending": "Running",
    "suspended": "Running",
    "resuming": "Running",
    "ending": "Running",
    "finished": "Completed",
    "failed": "Failed",
    "canceled": "Cancelled",
}


def state_word(state: JobState | TaskState, dialect: str) -> str:
    """Return what `dialect` calls a state."""
    return (_CCS_WORDS if dialect == CCS else _HPC_WORDS)[state.value]


def scheduler_job_values(live: ExportedJob | None, dialect: str, version: str) -> dict[str, Any]:
    """Return the values of the rows of Job that only the scheduler writes."""
    values: dict[str, Any] = {"live.version": version or None}
    if live is None:
        return values
    word = live.phase if live.phase and dialect != CCS else state_word(live.state, dialect)
    known = {
        "id": live.id,
        "state": word,
        "submitted": live.submitted,
        "created": live.created,
        "started": live.started,
        "ended": live.ended,
        "owner": live.owner or None,
        "user": live.owner or None,
        "requeues": live.requeues,
        "pending_reason": live.pending_reason or None,
        "message": live.message or None,
        "progress": None if live.progress is None else str(live.progress),
        "progress_message": live.progress_message or None,
        "allocated_nodes": live.nodes if dialect == CCS else None,
        "backfilled": live.backfilled if dialect == CCS else None,
    }
    return values | {f"live.{name}": value for name, value in known.items()}


def scheduler_task_values(
    live: ExportedJob | None, number: int, dialect: str, version: str
) -> dict[str, Any]:
    """Return the values of the rows of Task that only the scheduler writes."""
    values: dict[str, Any] = {"live.version": version or None}
    if live is None:
        return values
    task = live.tasks.get(number, ExportedTask())
    known = {
        "id": number,
        "parent_job": live.id,
        "nice_id": number,
        "state": state_word(task.state, dialect),
        "exit_code": task.exit_code,
        "message": task.message or None,
        "allocated_nodes": ",".join(task.nodes) or None,
        "submitted": task.submitted,
        "created": task.created,
        "started": task.started,
        "ended": task.ended,
        "requeues": task.requeues,
        "pending_reason": task.pending_reason or None,
    }
    return values | {f"live.{name}": value for name, value in known.items()}


JOB_FIELDS = frozenset(
    {"name", "template", "order_by", "parents", "process_memory", "notify_on_start", "notify_on_completion"}
)
TASK_FIELDS = frozenset({"name", "group", "start", "end", "increment"})
"""Fields that are written in filter files even if they have their default values."""

_DEFAULT_TEMPLATE = "Default"
_NOTHING = "None"
_NOT_STARTED = {"Validating": "Submitted", "Queued": "Queued"}  # state of tasks by the phase of the job


def is_filter_file(live: ExportedJob | None, dialect: str) -> bool:
    """Return True if a job is written for a filter in a dialect of HPC Pack."""
    return live is not None and bool(live.phase) and dialect != CCS


def filter_job_values(spec: JobSpec, live: ExportedJob) -> Values:
    """Return the values of Job that a filter file has beside those of every export."""
    values: Values = {
        "template": spec.template or _DEFAULT_TEMPLATE,
        "process_memory": spec.process_memory or 0,
        "live.expanded_priority": str(spec.priority),
        "live.pending_reason": _NOTHING,
        "live.progress": str(live.progress or 0),
        "live.progress_message": live.progress_message,
        "live.message": live.message,
        "live.auto_requeues": live.requeues,
        **_COMMON,
    }
    minimum, maximum = current_size(spec)
    values |= {f"size.minimum.{spec.unit}": minimum, f"size.maximum.{spec.unit}": maximum}
    return values


def filter_task_values(task: TaskSpec, live: ExportedJob, number: int, group: int, unit: UnitType) -> Values:
    """Return the values of Task that a filter file has; `group` is the GroupId of tasks without a group."""
    known = live.tasks.get(number)
    values: Values = {
        f"size.minimum.{unit}": task.minimum,
        f"size.maximum.{unit}": task.maximum,
        "group": group if task.group is None else task.group,
        "live.pending_reason": _NOTHING,
        "live.message": known.message if known else "",
        "live.auto_requeues": known.requeues if known else 0,
        **_COMMON,
    }
    if known is None:
        state = _NOT_STARTED.get(live.phase)
        values |= {"live.submitted": live.submitted, "live.created": live.created}
        values |= {"live.state": state} if state else {}
    return values


def root_group(spec: JobSpec, live: ExportedJob) -> int:
    """Return a GroupId for tasks without a group: the job's id, unless a group of the job has that number."""
    taken = {task.group for task in spec.tasks if task.group is not None}
    taken |= {end for edge in spec.group_edges for end in (edge.parent, edge.child)}
    return live.id if live.id not in taken else max(taken) + 1


_COMMON: Values = {
    "live.error_code": "0",
    "live.error_params": "",
    "live.request_cancel": _NOTHING,
    "live.failure_reason": _NOTHING,
}
