"""Write the native form, and its JSON Schema, which editors understand for TOML too."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Annotated, Any

import msgspec
from msgspec.structs import replace

from headnode.core.formats.fidelity import Fidelity, FidelityReport, ReportItem, WrittenParts, lost_fields
from headnode.core.formats.native.keys import (
    ALTERNATIVE_ROWS,
    ALTERNATIVES,
    GROUP,
    JOB_KEYS,
    JOBS_TABLE,
    SIZES,
    TASK_ALTERNATIVE_ROWS,
    TASK_KEYS,
    TASK_ONLY,
    TASKS,
)
from headnode.core.formats.native.table_reading import (
    OF_THE_TASK,
    alternative_table,
    fits_alone,
    names_for_links,
)
from headnode.core.formats.native.values import NEEDS, NativeRow
from headnode.core.formats.text.key_tables import KeyRow, KeyTable, KeyValue, json_schema_of
from headnode.core.formats.text.toml_text import TomlMoment, toml
from headnode.core.model.dependency import DependencyLink, JobDependency, NamedParent
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import (
    Alternative,
    GroupEdge,
    HeldAmounts,
    JobSpec,
    Licence,
    OrderKey,
    TaskAlternative,
    UnitType,
)
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.task import Distribution, ResourceLimit, StagedFile, TaskSpec, TaskType

TOML, JSON = "native", "native-json"
"""The two ways to write it."""

_RUNNABLE = (TaskType.BASIC, TaskType.SWEEP)
_SWEEP = ("start", "end", "increment")
_JOB_DEFAULTS, _TASK_DEFAULTS = JobSpec(), TaskSpec()


def write_job(spec: JobSpec, form: str = TOML) -> tuple[bytes, FidelityReport]:
    """Write a job in the native form.  The report is empty as long as every field has a key.

    Raises:  BadRequest ``dialect`` when there is no such form, ``not-unicode``.
    """
    return _written(job_document(spec), form), _lost(spec)


def _filled(rows: Mapping[str, NativeRow]) -> frozenset[str]:
    return frozenset(field.partition(".")[0] for row in rows.values() for field in row.filled)


_WRITTEN_OF_JOB = _filled(JOB_KEYS) | {"unit", TASKS, ALTERNATIVES}
_WRITTEN_OF_TASK = _filled(TASK_KEYS)
_WRITTEN_PARTS: WrittenParts = {
    NodeNeeds: frozenset(
        field.removeprefix(f"{NEEDS}.")
        for row in JOB_KEYS.values()
        for field in row.filled
        if field.startswith(f"{NEEDS}.")
    ),
    Alternative: _filled(ALTERNATIVE_ROWS) | {"unit", TASKS},
    TaskAlternative: _filled(TASK_ALTERNATIVE_ROWS),
    HeldAmounts: frozenset({"memory", "disk", "swap"}),
    Distribution: frozenset({"per_node", "nodes", "round_robin", "geometry"}),
    ResourceLimit: frozenset({"name", "soft", "hard"}),
    StagedFile: frozenset({"path", "url", "mode", "size", "checksum", "credential"}),
    Licence: frozenset({"feature", "amount"}),
    OrderKey: frozenset({"by", "ascending"}),
    JobDependency: frozenset({"job", "condition", "element", "delay"}),
    NamedParent: frozenset({"name", "by_id", "condition"}),
    GroupEdge: frozenset({"parent", "child"}),
}
"""The fields that the keys say of the structs inside fields."""


def _lost(spec: JobSpec, number: int | None = None) -> FidelityReport:
    """Return the fields of a job and of its tasks that no key says; `number` is the job's in its file."""
    job, task_of = ("job", "") if number is None else (f"job {number}", f"job {number}: ")
    wheres: list[tuple[str, JobSpec | TaskSpec, JobSpec | TaskSpec, frozenset[str]]]
    wheres = [(job, spec, _JOB_DEFAULTS, _WRITTEN_OF_JOB)]
    wheres += [
        (f"{task_of}task {at}", task, _TASK_DEFAULTS, _WRITTEN_OF_TASK)
        for at, task in enumerate(spec.tasks, 1)
    ]
    return tuple(
        ReportItem(Fidelity.NOT_SUPPORTED, where, f"{field}: there is no key for it")
        for where, one, defaults, written in wheres
        for field in lost_fields(one, defaults, written, _WRITTEN_PARTS)
    )


def write_jobs(
    jobs: Sequence[JobSpec], links: Sequence[DependencyLink] = (), form: str = TOML
) -> tuple[bytes, FidelityReport]:
    """Write jobs that come in one file, and by name which of them wait for which.

    The report tells of those that had to be given another name, and of fields that no key says.
    Raises:  as `write_job`.
    """
    if len(jobs) == 1 and not links:
        return write_job(jobs[0], form)
    own, waits = names_for_links(jobs, links)
    groups = {job.job_group for job in own}
    group = groups.pop() if len(groups) == 1 else ""
    tables = []
    for job, names in zip(own, waits, strict=True):
        table = job_document(replace(job, job_group="") if group else job)
        for key, parents in names.items():
            table[key] = [*table.get(key, []), *parents]
        tables.append(table)
    renamed = tuple(
        ReportItem(
            Fidelity.APPROXIMATED,
            f"job {number}",
            f"name: it is written as {new.name!r}, the name that other jobs wait for",
        )
        for number, (old, new) in enumerate(zip(jobs, own, strict=True), 1)
        if old.name != new.name
    )
    lost = (item for number, job in enumerate(jobs, 1) for item in _lost(job, number))
    return _written(({GROUP: group} if group else {}) | {JOBS_TABLE: tables}, form), (*renamed, *lost)


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
    job = _keys(spec, _JOB_DEFAULTS, JOB_KEYS)
    tasks = [_task(task, spec.unit) for task in spec.tasks]
    alone = _is_one_task(spec, tasks)
    others = [alternative_table(one, spec, alone=alone) for one in spec.alternatives]
    below = {ALTERNATIVES: others} if others else {}
    if alone:
        size = _size(spec.tasks[0], spec.unit) if spec.unit is not UnitType.PROCESSOR else {}
        return _ordered({**job, **tasks[0], **size}, ("name", *TASK_KEYS, *JOB_KEYS)) | below
    if (spec.minimum, spec.maximum) != (None, None) or spec.unit is not UnitType.PROCESSOR:
        job |= _size(spec, spec.unit)
    return _ordered(job, JOB_KEYS) | below | ({TASKS: tasks} if tasks else {})


def _is_one_task(spec: JobSpec, tasks: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the file needs no table for its task: it has one, and says nothing that the job says too."""
    if len(tasks) != 1 or (spec.minimum, spec.maximum) != (None, None):
        return False
    if not all(map(fits_alone, spec.alternatives)):
        return False
    shared = JOB_KEYS.keys() & TASK_KEYS.keys() - SIZES.keys()
    return "command" in tasks[0] and not tasks[0].keys() & shared


def _task(task: TaskSpec, unit: UnitType) -> dict[str, Any]:
    found = _keys(task, _TASK_DEFAULTS, TASK_KEYS)
    if (task.minimum, task.maximum) != (1, 1):
        found |= _size(task, unit)
    if task.rerunnable is not (task.kind in _RUNNABLE):
        found["rerunnable"] = task.rerunnable
    else:
        found.pop("rerunnable", None)
    if task.kind is TaskType.SWEEP or "sweep" in found:
        found["sweep"] = TASK_KEYS["sweep"].value.write(tuple(getattr(task, field) for field in _SWEEP))
        found |= {"type": task.kind.value}
        if task.kind is TaskType.SWEEP:
            del found["type"]
    return _ordered(found, TASK_KEYS)


def _size(sized: JobSpec | TaskSpec, unit: UnitType) -> dict[str, Any]:
    key = next(key for key in SIZES if SIZES[key] is unit)
    return {key: TASK_KEYS[key].value.write((sized.minimum, sized.maximum))}


def _keys(
    spec: JobSpec | TaskSpec, defaults: JobSpec | TaskSpec, rows: Mapping[str, NativeRow]
) -> dict[str, Any]:
    """Return the keys whose fields differ from the defaults; sizes are not among them."""
    found: dict[str, Any] = {}
    for key, row in rows.items():
        if key in SIZES:
            continue
        if row.taken(spec) != row.taken(defaults):
            found[key] = row.written(spec)
    return found


def _ordered(found: dict[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    return {key: found[key] for key in keys if key in found}


def _plain(value: Any) -> Any:
    """Return the values for JSON, which has no dates."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return str.__str__(value) if isinstance(value, TomlMoment) else value


_PAIRS_OF_SIZES = [{"required": list(pair)} for pair in combinations(SIZES, 2)]
_ONE_SIZE = {"not": {"anyOf": _PAIRS_OF_SIZES}}
"""The rule that a table has at most one size."""


def json_schema() -> dict[str, Any]:
    """Return the schema of a file in the native form: a job, or a table for each of several."""
    task, other_task = _form("task", TASK_KEYS), _form("alternative_task", TASK_ALTERNATIVE_ROWS)
    of_the_task = {key: TASK_ALTERNATIVE_ROWS[key] for key in sorted(OF_THE_TASK - SIZES.keys())}
    tasks_of_other = _tables(TASKS, "a table for each task of the job, in their order", other_task)
    other = _form("alternative", {**ALTERNATIVE_ROWS, **of_the_task}, tasks_of_other)
    others = _tables(ALTERNATIVES, "alternative requests, best first", other)
    single = {key: TASK_KEYS[key] for key in TASK_ONLY}
    job = _form("job", {**JOB_KEYS, **single}, _tables(TASKS, "a table for each task", task), others)
    jobs = _tables(JOBS_TABLE, "a table for each job", job, least=1)
    schema = json_schema_of("Headnode job, native form", KeyTable("file", [JOB_KEYS[GROUP], jobs]))
    parts = schema["$defs"]
    for name in ("job", "task", "alternative", "alternative_task"):
        parts[name] |= _ONE_SIZE
    parts["job"]["dependentSchemas"] = {TASKS: {"not": {"anyOf": [{"required": [key]} for key in TASK_ONLY]}}}
    several = {key: schema.pop(key) for key in ("properties", "additionalProperties")}
    choice = {"if": {"required": [JOBS_TABLE]}, "then": several, "else": {"$ref": "#/$defs/job"}}
    return schema | choice


def _form(name: str, rows: Mapping[str, KeyRow], *tables: KeyRow) -> Any:
    return KeyTable(name, [*rows.values(), *tables], name).form


def _tables(key: str, text: str, form: Any, *, least: int = 0) -> KeyRow:
    form = Annotated[list[form], msgspec.Meta(min_length=least or None)]
    return KeyRow(key=key, value=KeyValue("a list of tables", form), help=text)
