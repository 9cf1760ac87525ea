"""Attributes that are no plain field: several that are one field, and what only the scheduler writes.

The scheduler writes them in exports of real jobs, and in the job file for a filter.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from headnode.core.formats.fidelity import Fidelity
from headnode.core.formats.hpc_xml.attributes import CCS
from headnode.core.formats.job_views import ExportedJob, ExportedTask
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec, UnitType
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.state.job_request import own_request
from headnode.core.state.transitions import JobState, TaskState

Values = dict[str, Any]
Report = Callable[[Fidelity, str], None]
"""Adds a finding about the element at hand."""


_MAX_INT = 2**31 - 1  # the largest xs:int
_SIZES: dict[UnitType, tuple[str, str]] = {
    unit: (f"size.minimum.{unit}", f"size.maximum.{unit}") for unit in UnitType if unit is not UnitType.GPU
}
_GPU_PROPERTY = "GPUJob"


def size_attribute(unit: UnitType) -> UnitType:
    """Return the unit in whose attributes a size is written: HPC Pack counts GPUs in those of sockets."""
    return UnitType.SOCKET if unit is UnitType.GPU else unit


def gpus_if_marked(unit: UnitType, properties: Mapping[str, str], report: Report) -> UnitType:
    """Return GPUs for sockets of a job with the property by which HPC Pack 2016 marks jobs of GPUs."""
    if unit is UnitType.SOCKET and properties.get(_GPU_PROPERTY, "").strip().lower() == "true":
        report(Fidelity.TRANSLATED, f"UnitType Socket with the property {_GPU_PROPERTY}: the job counts GPUs")
        return UnitType.GPU
    return unit


def units_named(values: Mapping[str, Any]) -> list[UnitType]:
    """Return the units whose minimum or maximum is written."""
    return list(_units_of(tuple(values)))


@lru_cache(1024)
def _units_of(written: tuple[str, ...]) -> tuple[UnitType, ...]:
    return tuple(unit for unit, (least, most) in _SIZES.items() if least in written or most in written)


def job_unit(values: Mapping[str, Any], tasks: Sequence[Values], report: Report) -> UnitType:
    """Return what the job counts: as written, or as its sizes, or those of its tasks, leave no doubt."""
    written = values.get("size.unit")
    if isinstance(written, UnitType):
        return written
    named = units_named(values) or list(dict.fromkeys(unit for task in tasks for unit in units_named(task)))
    task_units = {task["size.unit"] for task in tasks if "size.unit" in task}
    if len(task_units) == 1:
        return UnitType(task_units.pop())
    if len(named) == 1 and named[0] is not UnitType.PROCESSOR:
        report(Fidelity.TRANSLATED, f"UnitType is missing: the job counts {named[0].word}s, as its sizes do")
        return named[0]
    return UnitType.PROCESSOR


def ccs_job_size_fields(values: Values, report: Report) -> Values:
    """Return the size of a job of CCS: 1 where nothing is written, and at most as much as the minimum.

    Source:  CCS, job.xsd: MinimumNumberOfProcessors and MaximumNumberOfProcessors default to 1.
    """
    low, high = map(values.get, _SIZES[UnitType.PROCESSOR])
    minimum = 1 if low is None else low
    maximum = minimum if high is None else high
    if high is None and minimum > 1:
        report(Fidelity.APPROXIMATED, f"no MaximumNumberOfProcessors is given: the minimum {minimum} is used")
    if low is None and high is None:
        report(Fidelity.NOTE, "no number of processors is given: CCS uses 1")
    return {"unit": UnitType.PROCESSOR, "minimum": minimum, "maximum": maximum}


def job_size_fields(values: Values, unit: UnitType, report: Report, *, least: bool) -> Values:
    """Return the fields that the attributes of size mean; `least` is whether none is below 1.

    A size whose auto flag is true is ignored; without a flag it is calculated when it is not written.
    Source:  HPC Pack AutoCalculateMin and AutoCalculateMax.
    """
    named, attribute = units_named(values), size_attribute(unit)
    fields: Values = {"unit": unit}
    for end, auto in (("minimum", "size.auto_minimum"), ("maximum", "size.auto_maximum")):
        written = {one: values[f"size.{end}.{one}"] for one in named if f"size.{end}.{one}" in values}
        calculated = values.get(auto, not written)
        fields[end] = None if calculated else written.get(attribute, 1)
        if written and calculated:
            report(Fidelity.NOTE, f"the given {end} is ignored: it is calculated")
        elif not calculated and attribute not in written:
            report(Fidelity.APPROXIMATED, f"no {end} in {unit.word}s is given: 1 is used")
    others = [one.value for one in named if one is not attribute]
    if others:
        report(Fidelity.NOTE, f"sizes in {' and '.join(others)}s are not used: the job counts {unit.word}s")
    if least:
        fields = {**fields, "minimum": fields["minimum"] or 1, "maximum": fields["maximum"] or 1}
    return fields


def task_size_fields(values: Values, unit: UnitType, report: Report) -> Values:
    """Return the fields that the attributes of size mean, counted in the job's `unit`.

    Raises:  BadRequest ``unit-mismatch`` when the task counts something else.
    """
    named, attribute = units_named(values), size_attribute(unit)
    own = values.get("size.unit", unit)
    if own not in (unit, attribute) or (named and attribute not in named):
        other = own if own not in (unit, attribute) else named[0]
        raise BadRequest(
            code="unit-mismatch",
            what=f"the task counts {other.word}s and the job {unit.word}s",
            fix="write the same UnitType, and sizes of that unit, for the job and its tasks",
        )
    low, high = map(values.get, _SIZES[attribute])
    if low is not None and high is None and low > 1:
        report(Fidelity.APPROXIMATED, f"no maximum is given: the minimum {low} is used")
        high = low
    return {"minimum": 1 if low is None else low, "maximum": 1 if high is None else high}


def sweep_fields(values: Values, report: Report) -> Values:
    """Return the kind of task that Type and IsParametric mean.

    Raises:  BadRequest ``task-type`` when they contradict each other.
    """
    kind = values.get("sweep.type")
    parametric = values.get("sweep.is_parametric")
    if kind is None and parametric is None:
        return {}
    if kind is not None and parametric is not None and parametric != (kind is TaskType.SWEEP):
        raise BadRequest(
            code="task-type",
            what=f"IsParametric is {str(parametric).lower()} beside another Type",
            fix="write Type alone: ParametricSweep for a sweep",
        )
    if kind is None and parametric:
        report(Fidelity.TRANSLATED, "IsParametric is read as Type ParametricSweep")
    found = kind or (TaskType.SWEEP if parametric else TaskType.BASIC)
    return {"kind": found}


def critical_fields(values: Values, report: Report) -> Values:
    """Return the fields that the two attributes of a critical task mean; a count alone implies the flag.

    Source:  HPC Pack FailJobOnFailure and FailJobOnFailureCount.
    """
    flag, count = values.get("critical.flag"), values.get("critical.count")
    if flag is None and count is None:
        return {}
    if flag is False:
        if count not in (None, 0, 1):
            report(Fidelity.NOTE, f"FailJobOnFailureCount {count} has no effect: FailJobOnFailure is false")
        return {}
    if flag is None:
        if count == 0:
            return {}
        report(Fidelity.TRANSLATED, "FailJobOnFailureCount alone is read as FailJobOnFailure too")
    return {"fail_job_on_failure": True, "fail_job_count": 1 if count is None else count}


def current_size(spec: JobSpec) -> tuple[int, int]:
    """Return minimum and maximum; those that are calculated from the tasks, as they are now."""
    own = own_request(spec)
    minimum = own.minimum if spec.minimum is None else spec.minimum
    maximum = own.maximum if spec.maximum is None else spec.maximum
    return min(minimum, _MAX_INT), min(maximum, _MAX_INT)


def job_attribute_values(spec: JobSpec) -> Values:
    """Return the values the rows of Job write."""
    values: Values = {
        "size.unit": spec.unit,
        "size.auto_minimum": spec.minimum is None,
        "size.auto_maximum": spec.maximum is None,
        f"size.minimum.{size_attribute(spec.unit)}": spec.minimum,
        f"size.maximum.{size_attribute(spec.unit)}": spec.maximum,
        "fixed.job_type": "Batch",
    }
    return values


def task_attribute_values(task: TaskSpec, unit: UnitType) -> Values:
    """Return the values the rows of Task write."""
    sweep = task.kind is TaskType.SWEEP
    values: Values = {
        "size.unit": unit,
        f"size.minimum.{size_attribute(unit)}": task.minimum,
        f"size.maximum.{size_attribute(unit)}": task.maximum,
        "sweep.type": task.kind,
        "sweep.is_parametric": True if sweep else None,
        "critical.flag": task.fail_job_on_failure,
        "critical.count": task.fail_job_count
        if task.fail_job_on_failure and task.fail_job_count != 1
        else None,
    }
    return values


_HPC_WORDS = {
    "configuring": "Configuring",
    "validating": "Validating",
    "queued": "Queued",
    "handed": "Queued",
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
    "handed": "Queued",
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
    values |= {
        f"size.minimum.{size_attribute(spec.unit)}": minimum,
        f"size.maximum.{size_attribute(spec.unit)}": maximum,
    }
    return values


def filter_task_values(task: TaskSpec, live: ExportedJob, number: int, group: int, unit: UnitType) -> Values:
    """Return the values of Task that a filter file has; `group` is the GroupId of tasks without a group."""
    known = live.tasks.get(number)
    values: Values = {
        f"size.minimum.{size_attribute(unit)}": task.minimum,
        f"size.maximum.{size_attribute(unit)}": task.maximum,
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
