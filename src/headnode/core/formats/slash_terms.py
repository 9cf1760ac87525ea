"""Job and task options of the command line, read into a job."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from headnode.core.formats.hpc_values import FLAG, NAMES, parse_int
from headnode.core.formats.slash_options import (
    JOB_FIELDS,
    JOB_TERMS,
    MOMENTS,
    NEEDS,
    NEEDS_OF_TASKS,
    TASK_FIELDS,
    TASK_TERMS,
    Fields,
    ReadValue,
    SlashOption,
    job_size,
    memory_per_node,
    moment,
    processors_per_node,
    read_pairs,
    read_properties,
    split_terms,
    task_size,
)
from headnode.core.formats.text.source_text import nearest_name
from headnode.core.model.errors import BadRequest, NotFound
from headnode.core.model.job import JobSpec, UnitType
from headnode.core.model.node_needs import ANY_NODE
from headnode.core.model.quantities import Instant
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.model.value_checks import DEFAULT_HOLD

__all__ = [
    "JOB_TERMS",
    "TASK_TERMS",
    "SlashOption",
    "read_job_terms",
    "read_task_terms",
    "read_terms",
    "split_terms",
]

Read = TypeVar("Read")

UNITS: Mapping[str, UnitType] = {
    "numprocessors": UnitType.PROCESSOR,
    "numsockets": UnitType.SOCKET,
    "numnodes": UnitType.NODE,
    "numgpus": UnitType.GPU,
}
"""Which unit an option of size counts."""

_SWEEP = re.compile(r"\s*(?:(-?\d{1,10})\s*-\s*)?(-?\d{1,10})\s*(?::\s*(\d{1,10})\s*)?\Z", re.ASCII)


def read_terms(
    job: Mapping[str, Any],
    tasks: Iterable[Mapping[str, Any]] = (),
    base: JobSpec | None = None,
    *,
    now: Instant | None = None,
) -> JobSpec:
    """Return `base` with the options of `job`, and with `tasks` added at the end of its task list.

    A job that says nothing of its size counts what its first sized task counts.
    Raises:  BadRequest as `read_job_terms` and `read_task_terms`, and ``unit-mismatch`` when a task counts
             something else than the job.
    """
    try:
        spec = read_job_terms(job, base, now=now)
    except BadRequest as wrong:
        raise wrong.inside("terms") from wrong.__cause__
    known = _each(tasks, _known_of_task)
    units = [unit for terms in known if (unit := _unit_of(terms))]
    unit = spec.unit if not units or _has_sized_part(spec, job) else units[0]
    other = next((unit_of_task for unit_of_task in units if unit_of_task is not unit), None)
    if other:
        raise BadRequest(
            code="unit-mismatch",
            what=f"the job counts {unit.word}s and a task {other.word}s",
            fix="use the same option of size for the job and its tasks",
        )
    added = _each(known, _task_of)
    return msgspec.structs.replace(spec, unit=unit, tasks=(*spec.tasks, *added))


def _each(tasks: Iterable[Mapping[str, Any]], read: Callable[[Mapping[str, Any]], Read]) -> list[Read]:
    """Read the options of each task; the path of an error names the task by its index."""
    found: list[Read] = []
    for index, terms in enumerate(tasks):
        try:
            found.append(read(terms))
        except BadRequest as wrong:
            raise wrong.inside("tasks", index) from wrong.__cause__
    return found


def _has_sized_part(spec: JobSpec, job: Mapping[str, Any]) -> bool:
    """Whether something counts in the unit of the job already."""
    sized = spec.minimum is not None or spec.maximum is not None or spec.unit is not UnitType.PROCESSOR
    return sized or bool(spec.tasks) or _unit_of(_known(job, JOB_TERMS, "job")) is not None


def read_job_terms(
    terms: Mapping[str, Any], base: JobSpec | None = None, *, now: Instant | None = None
) -> JobSpec:
    """Return `base`, or an empty job, with the options of terms; an empty value clears what can be empty.

    `now` is needed for a point of time in minutes.
    Raises:  BadRequest ``unknown-option`` (with the nearest right one) and whatever is wrong with a value.
    """
    spec = base or JobSpec(dialect="terms")
    fields: Fields = {}
    known = _known(terms, JOB_TERMS, "job")
    _unit_of(known)  # refuses two of them
    for name, text in known.items():
        if name in JOB_FIELDS:
            field, read = JOB_FIELDS[name]
            fields[field] = _option(name, text, read)
        elif name in UNITS:
            fields |= _option(name, text, job_size) | {"unit": UNITS[name]}
        elif name in MOMENTS:
            fields[MOMENTS[name]] = _option(name, text, lambda text: moment(text, now))
        elif name in NEEDS:
            field, read = NEEDS[name]
            fields["needs"] = msgspec.structs.replace(
                fields.get("needs", spec.needs), **{field: _option(name, text, read)}
            )
        elif name == "jobenv":
            fields["environment"] = spec.environment | _option(name, text, read_pairs)
        elif name != "hold":
            fields |= _option(name, text, _SEVERAL[name])
    if "hold" in known:
        fields["holds"] = (*_option("hold", known["hold"], _hold), *fields.get("holds", ()))
    return msgspec.structs.replace(spec, **fields)


def with_changed_task(spec: JobSpec, number: int, terms: Mapping[str, Any]) -> JobSpec:
    """Return a job whose task `number`, from 1, has the options of terms; its others are as they were.

    Raises:  NotFound ``no-such-task``; BadRequest as `read_task_terms`, and ``unit-mismatch`` for a size in
             another unit than the job's.
    """
    if not 1 <= number <= len(spec.tasks):
        raise NotFound(
            code="no-such-task",
            what=f"the job has no task {number}",
            fix=f"it has tasks 1 to {len(spec.tasks)}" if spec.tasks else "it has no tasks",
        )
    unit = _unit_of(_known(terms, TASK_TERMS, "task"))
    if unit is not None and unit is not spec.unit:
        raise BadRequest(
            code="unit-mismatch",
            what=f"the size of the job is in {spec.unit.word}s, that of the task in {unit.word}s",
            fix="use the same option of size for the job and its tasks",
        )
    changed = read_task_terms(terms, spec.tasks[number - 1])
    return msgspec.structs.replace(spec, tasks=(*spec.tasks[: number - 1], changed, *spec.tasks[number:]))


def read_task_terms(terms: Mapping[str, Any], base: TaskSpec | None = None) -> TaskSpec:
    """Return the task of terms, or `base` with them; `command` and `env` may be among them.

    A task of the command line is rerunnable unless it says otherwise.
    Raises:  BadRequest ``unknown-option`` (with the nearest right one), ``unit-mismatch``, ``task-type`` and
             whatever is wrong with a value.
    Source:  CCS, "Standard job and task options", row *rerunnable*: the default is true.
    """
    known = _known_of_task(terms)
    _unit_of(known)  # refuses two of them
    return _task_of(known, base)


def _known_of_task(terms: Mapping[str, Any]) -> dict[str, Any]:
    return _known(terms, TASK_TERMS, "task")


def _task_of(known: Mapping[str, Any], base: TaskSpec | None = None) -> TaskSpec:
    """Return the task of terms by their own names."""
    fields: Fields = {"rerunnable": True} if base is None else {}
    for name, text in known.items():
        if name in TASK_FIELDS:
            field, read = TASK_FIELDS[name]
            fields[field] = _option(name, text, read)
        elif name in UNITS:
            fields |= _option(name, text, task_size)
        elif name == "customproperties":
            fields |= _option(name, text, read_properties)
        elif name in NEEDS_OF_TASKS:
            field, read = NEEDS_OF_TASKS[name]
            fields["needs"] = msgspec.structs.replace(
                fields.get("needs", ANY_NODE if base is None else base.needs),
                **{field: _option(name, text, read)},
            )
    kind = fields.get("kind")
    if kind in (TaskType.NODE_PREP, TaskType.NODE_RELEASE, TaskType.SERVICE) and "rerunnable" not in known:
        fields["rerunnable"] = False
    fields |= _sweep(known, kind) | _failure(known)
    if base is None:
        return TaskSpec(**fields)
    if "environment" in fields:
        fields["environment"] = base.environment | fields["environment"]
    return msgspec.structs.replace(base, **fields)


def _hold(text: str) -> tuple[str, ...]:
    """Read the flag ``hold``, which may have the names of holds as its value."""
    if text.strip().lower() in ("true", "1"):
        return (DEFAULT_HOLD,)
    return () if text.strip().lower() in ("false", "0") else NAMES.read(text)


def _known(terms: Mapping[str, Any], table: Mapping[str, SlashOption], whose: str) -> dict[str, Any]:
    """Return the terms by their own names: lower case, one spelling for each."""
    known: dict[str, Any] = {}
    for written, value in terms.items():
        name = written.lower()
        if name not in table:
            _refuse_name(written, table, whose)
        if type(value) is not str:
            _refuse_wrong_kind(name, value)
        own = table[name].same_as or name
        if known.get(own, value) != value:
            raise BadRequest(
                code="given-twice",
                what=f"option {written!r} is given twice, with different values",
                fix=f"give {own!r} once",
                path=(written,),
            )
        known[own] = value
    return known


def _refuse_name(name: str, table: Mapping[str, SlashOption], whose: str) -> None:
    if name.lower() == "password":
        raise BadRequest(
            code="no-passwords",
            what="all users of the machine can read a password on a command line",
            fix="leave it out: the user is known from the login",
        )
    meant = nearest_name(name, table)
    own = sorted(known for known, term in table.items() if not term.same_as)
    raise BadRequest(
        code="unknown-option",
        what=f"{whose} option {name!r} is not known",
        fix=f"did you mean {meant!r}?" if meant else f"choose one of {', '.join(own)}",
        path=(name,),
    )


def _refuse_wrong_kind(name: str, value: Any) -> None:
    by_name = name in ("env", "jobenv", "customproperties") and isinstance(value, Mapping)
    pairs_are_text = by_name and all(isinstance(part, str) for pair in value.items() for part in pair)
    if not isinstance(value, str) and not pairs_are_text:
        raise BadRequest(
            code="option-value",
            what=f"option {name!r} has the value {value!r}",
            fix="give the value as text",
            path=(name,),
        )


def _option(name: str, value: Any, read: ReadValue) -> Any:
    """Read the value of one option; name the option when it is wrong."""
    try:
        return read(value)
    except BadRequest as wrong:
        what = f"option {name!r}: {wrong.what}"
        raise BadRequest(code=wrong.code, what=what, fix=wrong.fix, path=(name,)) from wrong


def _unit_of(values: Mapping[str, Any]) -> UnitType | None:
    if UNITS.keys().isdisjoint(values):
        return None
    sizes = [name for name in UNITS if name in values]
    if len(sizes) > 1:
        raise BadRequest(
            code="unit-mismatch",
            what=f"options {sizes[0]!r} and {sizes[1]!r} are given together",
            fix="give one of them: a job counts processors, sockets, nodes or GPUs",
        )
    return UNITS[sizes[0]]


def _sweep(values: Mapping[str, Any], kind: TaskType | None) -> Fields:
    text = values.get("parametric")
    if text is None and kind is not TaskType.SWEEP:
        return {}
    match, other = _SWEEP.match(text or ""), kind not in (None, TaskType.SWEEP)
    if not match or other:
        not_a_range = "the sweep has no range" if text is None else f"{text!r} is not the range of a sweep"
        raise BadRequest(
            code="parametric",
            what=f"a task of type {values.get('type')!r} cannot be a sweep" if other else not_a_range,
            fix="write --parametric START-END or START-END:STEP, for example 1-100:2, and no other type",
        )
    start, end, increment = match[1] or "1", match[2], match[3] or "1"
    return {"kind": TaskType.SWEEP, "start": int(start), "end": int(end), "increment": int(increment)}


def _failure(values: Mapping[str, Any]) -> Fields:
    """Read the two options of a critical task: a count without the flag implies it.

    Source:  HPC Pack task properties FailJobOnFailure and FailJobOnFailureCount.
    """
    fields: Fields = {}
    if "failjobonfailurecount" in values:
        count = _option("failjobonfailurecount", values["failjobonfailurecount"], parse_int)
        fields = {"fail_job_on_failure": True, "fail_job_count": count}
    if "failjobonfailure" in values and not _option(
        "failjobonfailure", values["failjobonfailure"], FLAG.read
    ):
        return {}
    return fields or ({"fail_job_on_failure": True} if "failjobonfailure" in values else {})


_SEVERAL: Mapping[str, Callable[[Any], Fields]] = {
    "memorypernode": memory_per_node,
    "corespernode": processors_per_node,
    "customproperties": read_properties,
}
