"""The job file that a filter gets: attributes that HPC Pack writes there even if the job does not set them.

A filter that was written for HPC Pack reads attributes by name and fails if one is missing.
Source: job files that HPC Pack 2008 R2 passed to filters; HPC Pack job and task properties.
"""

from headnode.core.formats.compute_cluster_xml.dialects import CCS
from headnode.core.formats.compute_cluster_xml.folds import Values, size_now
from headnode.core.formats.live_jobs import Live
from headnode.core.model.job import JobSpec, UnitType
from headnode.core.model.task import TaskSpec

JOB_FIELDS = frozenset(
    {"name", "template", "order_by", "parents", "process_memory", "notify_on_start", "notify_on_completion"}
)
TASK_FIELDS = frozenset({"name", "group", "start", "end", "increment"})
"""Fields that are written in filter files even if they have their default values."""

_DEFAULT_TEMPLATE = "Default"
_NOTHING = "None"
_NOT_STARTED = {"Validating": "Submitted", "Queued": "Queued"}  # state of tasks by the phase of the job


def is_filter_file(live: Live | None, dialect: str) -> bool:
    """Return True if a job is written for a filter in a dialect of HPC Pack."""
    return live is not None and bool(live.phase) and dialect != CCS


def job_values(spec: JobSpec, live: Live) -> Values:
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
    minimum, maximum = size_now(spec)
    values |= {f"size.minimum.{spec.unit}": minimum, f"size.maximum.{spec.unit}": maximum}
    return values


def task_values(task: TaskSpec, live: Live, number: int, group: int, unit: UnitType) -> Values:
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


def root_group(spec: JobSpec, live: Live) -> int:
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
