"""Writing the native form."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from headnode.core.formats.fidelity import Item, Kind, Report, lost_fields
from headnode.core.formats.links import Link
from headnode.core.formats.native_form.alternatives import alternative_table, fits_alone
from headnode.core.formats.native_form.job_links import named
from headnode.core.formats.native_form.keys import (
    ALTERNATIVES,
    GROUP,
    JOB_ROWS,
    JOBS_TABLE,
    SIZES,
    TASK_ROWS,
    TASKS,
)
from headnode.core.formats.native_form.rows import Row
from headnode.core.formats.native_form.toml_writing import toml
from headnode.core.formats.native_form.values import Moment
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec, UnitType
from headnode.core.model.task import TaskSpec, TaskType

TOML, JSON = "native", "native-json"
"""The two ways to write it."""

_RUNNABLE = (TaskType.BASIC, TaskType.SWEEP)
_SWEEP = ("start", "end", "increment")
_JOB_DEFAULTS, _TASK_DEFAULTS = JobSpec(), TaskSpec()


def write_job(spec: JobSpec, form: str = TOML) -> tuple[bytes, Report]:
    """Write a job in the native form.  The report is empty as long as every field has a key.

    Raises:  BadRequest ``dialect`` when there is no such form, ``not-unicode``.
    """
    return _written(job_document(spec), form), _lost(spec)


_WRITTEN_OF_JOB = {"unit", "tasks", ALTERNATIVES} | {
    field.partition(".")[0] for row in JOB_ROWS.values() for field in row.filled
}
_WRITTEN_OF_TASK = {field.partition(".")[0] for row in TASK_ROWS.values() for field in row.filled}


def _lost(spec: JobSpec) -> Report:
    """Return the fields of a job and of its tasks that no key says."""
    wheres: list[tuple[str, JobSpec | TaskSpec, JobSpec | TaskSpec, set[str]]]
    wheres = [("job", spec, _JOB_DEFAULTS, _WRITTEN_OF_JOB)]
    wheres += [
        (f"task {number}", task, _TASK_DEFAULTS, _WRITTEN_OF_TASK)
        for number, task in enumerate(spec.tasks, 1)
    ]
    return tuple(
        Item(Kind.NOT_SUPPORTED, where, f"{field}: there is no key for it")
        for where, one, defaults, written in wheres
        for field in lost_fields(one, defaults, written)
    )


def write_jobs(jobs: Sequence[JobSpec], links: Sequence[Link] = (), form: str = TOML) -> tuple[bytes, Report]:
    """Write jobs that come in one file, and by name which of them wait for which.

    The report tells of those that had to be given another name.
    Raises:  as `write_job`.
    """
    if len(jobs) == 1 and not links:
        return write_job(jobs[0], form)
    own, waits = named(jobs, links)
    groups = {job.job_group for job in own}
    group = groups.pop() if len(groups) == 1 else ""
    tables = []
    for job, names in zip(own, waits, strict=True):
        table = job_document(replace(job, job_group="") if group else job)
        for key, parents in names.items():
            table[key] = [*table.get(key, []), *parents]
        tables.append(table)
    renamed = tuple(
        Item(
            Kind.APPROXIMATED,
            f"job {number}",
            f"name: it is written as {new.name!r}, the name that other jobs wait for",
        )
        for number, (old, new) in enumerate(zip(jobs, own, strict=True), 1)
        if old.name != new.name
    )
    return _written(({GROUP: group} if group else {}) | {JOBS_TABLE: tables}, form), renamed


def _written(document: Mapping[str, Any], form: str) -> bytes:
    if form not in (TOML, JSON):
        raise BadRequest(
            code="dialect", what=f"there is no native form {form!r}", fix=f"write {TOML} or {JSON}"
        )
    try:
        if form == TOML:
            return toml(document).encode()
        return msgspec.json.format(msgspec.json.encode(_plain(document)), indent=2) + b"\n"
    except UnicodeEncodeError as wrong:
        what = "a text of the job is not Unicode: it contains half of a surrogate pair"
        raise BadRequest(code="not-unicode", what=what, fix="correct the job's texts") from wrong


def job_document(spec: JobSpec) -> dict[str, Any]:
    """Return the keys and values of the job's file, only what differs from the defaults."""
    job = _keys(spec, _JOB_DEFAULTS, JOB_ROWS)
    tasks = [_task(task, spec.unit) for task in spec.tasks]
    alone = _is_one_task(spec, tasks)
    others = [alternative_table(one, spec, alone=alone) for one in spec.alternatives]
    below = {ALTERNATIVES: others} if others else {}
    if alone:
        size = _size(spec.tasks[0], spec.unit) if spec.unit is not UnitType.PROCESSOR else {}
        return _ordered({**job, **tasks[0], **size}, ("name", *TASK_ROWS, *JOB_ROWS)) | below
    if (spec.minimum, spec.maximum) != (None, None) or spec.unit is not UnitType.PROCESSOR:
        job |= _size(spec, spec.unit)
    return _ordered(job, JOB_ROWS) | below | ({TASKS: tasks} if tasks else {})


def _is_one_task(spec: JobSpec, tasks: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the file needs no table for its task: it has one, and says nothing that the job says too."""
    if len(tasks) != 1 or (spec.minimum, spec.maximum) != (None, None):
        return False
    if not all(map(fits_alone, spec.alternatives)):
        return False
    shared = JOB_ROWS.keys() & TASK_ROWS.keys() - SIZES.keys()
    return "command" in tasks[0] and not tasks[0].keys() & shared


def _task(task: TaskSpec, unit: UnitType) -> dict[str, Any]:
    found = _keys(task, _TASK_DEFAULTS, TASK_ROWS)
    if (task.minimum, task.maximum) != (1, 1):
        found |= _size(task, unit)
    if task.rerunnable is not (task.kind in _RUNNABLE):
        found["rerunnable"] = task.rerunnable
    else:
        found.pop("rerunnable", None)
    if task.kind is TaskType.SWEEP or "sweep" in found:
        found["sweep"] = TASK_ROWS["sweep"].value.write(tuple(getattr(task, field) for field in _SWEEP))
        found |= {"type": task.kind.value}
        if task.kind is TaskType.SWEEP:
            del found["type"]
    return _ordered(found, TASK_ROWS)


def _size(sized: JobSpec | TaskSpec, unit: UnitType) -> dict[str, Any]:
    key = next(key for key in SIZES if SIZES[key] is unit)
    return {key: TASK_ROWS[key].value.write((sized.minimum, sized.maximum))}


def _keys(spec: JobSpec | TaskSpec, defaults: JobSpec | TaskSpec, rows: Mapping[str, Row]) -> dict[str, Any]:
    """Return the keys whose fields differ from the defaults; sizes are not among them."""
    found: dict[str, Any] = {}
    for key, row in rows.items():
        if key in SIZES:
            continue
        values = row.taken(spec)
        if values != row.taken(defaults):
            found[key] = row.value.write(values if len(values) > 1 else values[0])
    return found


def _ordered(found: dict[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    return {key: found[key] for key in keys if key in found}


def _plain(value: Any) -> Any:
    """Return the values for JSON, which has no dates."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return str.__str__(value) if isinstance(value, Moment) else value
