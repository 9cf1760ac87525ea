"""Job and task options of the command line, as a job.

Source: CCS, "Standard job and task options"; HPC Pack commands job new, job add and job modify.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from headnode.core.formats.dates import parse_date_time
from headnode.core.formats.nearest import nearest
from headnode.core.formats.term_names import JOB_TERMS, TASK_TERMS, Term, split_terms
from headnode.core.formats.values import (
    EXIT_CODES,
    FLAG,
    GROUP_OP_TERM,
    IDS,
    LICENCES,
    NAMES,
    NODES,
    ORDER,
    PRIORITY,
    RUN_TIME,
    TASK_TYPE_TERM,
    TEXT,
    parse_int,
    parse_least,
)
from headnode.core.model.errors import BadRequest, Broken
from headnode.core.model.job import JobSpec, UnitType
from headnode.core.model.quantities import Instant
from headnode.core.model.task import TaskSpec, TaskType

__all__ = [
    "JOB_TERMS",
    "TASK_TERMS",
    "Term",
    "read_job_terms",
    "read_task_terms",
    "read_terms",
    "split_terms",
]

Fields = dict[str, Any]
Read = Callable[[Any], Any]

UNITS: Mapping[str, UnitType] = {
    "numprocessors": UnitType.PROCESSOR,
    "numsockets": UnitType.SOCKET,
    "numnodes": UnitType.NODE,
}
"""Which unit an option of size counts."""

_SPAN = re.compile(r"\s*(\*|\d{1,9})\s*(?:-\s*(\*|\d{1,9})\s*)?\Z", re.ASCII)
_SWEEP = re.compile(r"\s*(?:(-?\d{1,10})\s*-\s*)?(-?\d{1,10})\s*(?::\s*(\d{1,10})\s*)?\Z", re.ASCII)
_PROPERTIES = re.compile(r"\w+=[^=;]*(?:;\w+=[^=;]*)*")
_NEXT_VARIABLE = re.compile(r";(?=[^=;\s]+=)")

_JOB: Mapping[str, tuple[str, Read]] = {
    "jobname": ("name", TEXT.read),
    "priority": ("priority", PRIORITY.read),
    "jobtemplate": ("template", TEXT.read),
    "projectname": ("project", TEXT.read),
    "runtime": ("run_time", RUN_TIME.read),
    "rununtilcanceled": ("run_until_canceled", FLAG.read),
    "exclusive": ("exclusive", FLAG.read),
    "singlenode": ("single_node", FLAG.read),
    "requestednodes": ("requested_nodes", NODES.read),
    "excludednodes": ("excluded_nodes", NODES.read),
    "nodegroup": ("node_groups", NAMES.read),
    "nodegroupop": ("node_group_op", GROUP_OP_TERM.read),
    "orderby": ("order_by", ORDER.read),
    "license": ("licences", LICENCES.read),
    "failontaskfailure": ("fail_on_task_failure", FLAG.read),
    "faildependenttasks": ("fail_dependent_tasks", FLAG.read),
    "validexitcodes": ("valid_exit_codes", EXIT_CODES.read),
    "parentjobids": ("parents", IDS.read),
    "emailaddress": ("email", TEXT.read),
    "notifyonstart": ("notify_on_start", FLAG.read),
    "notifyoncompletion": ("notify_on_completion", FLAG.read),
    "estimatedprocessmemory": ("process_memory", parse_least),
    "taskexecutionfailureretrylimit": ("task_retry_limit", parse_int),
    "user": ("run_as", TEXT.read),
}
_TASK: Mapping[str, tuple[str, Read]] = {
    "name": ("name", TEXT.read),
    "command": ("command", TEXT.read),
    "type": ("kind", TASK_TYPE_TERM.read),
    "exclusive": ("exclusive", FLAG.read),
    "rerunnable": ("rerunnable", FLAG.read),
    "runtime": ("run_time", RUN_TIME.read),
    "workdir": ("work_directory", TEXT.read),
    "stdin": ("standard_input", TEXT.read),
    "stdout": ("standard_output", TEXT.read),
    "stderr": ("standard_error", TEXT.read),
    "depend": ("depends_on", NAMES.read),
    "requirednodes": ("required_nodes", NODES.read),
    "requestednodegroup": ("node_group", TEXT.read),
    "validexitcodes": ("valid_exit_codes", EXIT_CODES.read),
    "env": ("environment", lambda value: _pairs(value)),
}


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
    spec = read_job_terms(job, base, now=now)
    tasks = [_known(terms, TASK_TERMS, "task") for terms in tasks]
    units = [unit for terms in tasks if (unit := _unit_of(terms))]
    says_size = base is not None or _unit_of(_known(job, JOB_TERMS, "job")) is not None
    unit = spec.unit if says_size or not units else units[0]
    other = next((unit_of_task for unit_of_task in units if unit_of_task is not unit), None)
    if other:
        raise BadRequest(
            code="unit-mismatch",
            what=f"the job counts {unit.value}s and a task {other.value}s",
            fix="use the same option of size for the job and its tasks",
        )
    added = tuple(read_task_terms(terms) for terms in tasks)
    return msgspec.structs.replace(spec, unit=unit, tasks=spec.tasks + added)


def read_job_terms(
    terms: Mapping[str, Any], base: JobSpec | None = None, *, now: Instant | None = None
) -> JobSpec:
    """Return `base`, or an empty job, with the options of `terms`; an empty value clears what can be empty.

    `now` is needed for a hold-until in minutes.
    Raises:  BadRequest ``unknown-option`` (with the nearest right one) and whatever is wrong with a value.
    """
    spec = base or JobSpec(dialect="terms")
    fields: Fields = {}
    for name, text in _known(terms, JOB_TERMS, "job").items():
        if name in _JOB:
            field, read = _JOB[name]
            fields[field] = _option(name, text, read)
        elif name in UNITS:
            fields |= _option(name, text, _job_size) | {"unit": UNITS[name]}
        elif name == "holduntil":
            fields["hold_until"] = _option(name, text, lambda text: _hold_until(text, now))
        elif name == "jobenv":
            fields["environment"] = spec.environment | _option(name, text, _pairs)
        else:
            fields |= _option(name, text, _SEVERAL[name])
    return msgspec.structs.replace(spec, **fields)


def read_task_terms(terms: Mapping[str, Any]) -> TaskSpec:
    """Return the task of `terms`; `command` and `env` may be among them.

    A task of the command line is rerunnable unless it says otherwise.
    Raises:  BadRequest ``unknown-option`` (with the nearest right one), ``unit-mismatch``, ``task-type`` and
             whatever is wrong with a value.
    Source:  CCS, "Standard job and task options", row *rerunnable*: the default is true.
    """
    known = _known(terms, TASK_TERMS, "task")
    _unit_of(known)
    fields: Fields = {"rerunnable": True}
    for name, text in known.items():
        if name in _TASK:
            field, read = _TASK[name]
            fields[field] = _option(name, text, read)
        elif name in UNITS:
            fields |= _option(name, text, _task_size)
    kind = fields.get("kind")
    if kind in (TaskType.NODE_PREP, TaskType.NODE_RELEASE, TaskType.SERVICE) and "rerunnable" not in known:
        fields["rerunnable"] = False
    return TaskSpec(**(fields | _sweep(known, kind) | _failure(known)))


def _known(terms: Mapping[str, Any], table: Mapping[str, Term], whose: str) -> dict[str, Any]:
    """Return the terms by their own names: lower case, one spelling for each."""
    known: dict[str, Any] = {}
    for written, value in terms.items():
        name = written.lower()
        if name not in table:
            _refuse_name(written, table, whose)
        _refuse_wrong_kind(name, value)
        own = table[name].same_as or name
        if known.get(own, value) != value:
            raise BadRequest(
                code="given-twice",
                what=f"option {written!r} is given twice, with different values",
                fix=f"give {own!r} once",
            )
        known[own] = value
    return known


def _refuse_name(name: str, table: Mapping[str, Term], whose: str) -> None:
    if name.lower() == "password":
        raise BadRequest(
            code="no-passwords",
            what="a password on a command line can be read by everybody",
            fix="leave it out: the system knows who you are",
        )
    meant = nearest(name, table)
    raise BadRequest(
        code="unknown-option",
        what=f"{whose} option {name!r} is not known",
        fix=f"did you mean {meant!r}?" if meant else f"choose one of {', '.join(sorted(table))}",
    )


def _refuse_wrong_kind(name: str, value: Any) -> None:
    by_name = name in ("env", "jobenv", "customproperties") and isinstance(value, Mapping)
    pairs_are_text = by_name and all(isinstance(part, str) for pair in value.items() for part in pair)
    if not isinstance(value, str) and not pairs_are_text:
        raise BadRequest(
            code="option-value", what=f"option {name!r} has the value {value!r}", fix="give the value as text"
        )


def _option(name: str, value: Any, read: Read) -> Any:
    """Read the value of one option; name the option when it is wrong."""
    try:
        return read(value)
    except BadRequest as wrong:
        raise BadRequest(code=wrong.code, what=f"option {name!r}: {wrong.what}", fix=wrong.fix) from wrong


def _unit_of(known: Mapping[str, Any]) -> UnitType | None:
    sizes = [name for name in UNITS if name in known]
    if len(sizes) > 1:
        raise BadRequest(
            code="unit-mismatch",
            what=f"options {sizes[0]!r} and {sizes[1]!r} are given together",
            fix="give one of them: a job counts processors, sockets or nodes",
        )
    return UNITS[sizes[0]] if sizes else None


def _span(text: str) -> tuple[int | None, int | None]:
    """Read min[-max]; None stands for an asterisk."""
    found = _SPAN.match(text)
    if not found:
        raise BadRequest(
            code="size",
            what=f"{text!r} is not a size",
            fix="write min-max, one number for both, or * for calculated, for example 2-8",
        )
    low, high = found[1], found[2] or found[1]
    return (None if low == "*" else int(low)), (None if high == "*" else int(high))


def _job_size(text: str) -> Fields:
    minimum, maximum = _span(text)
    return {"minimum": minimum, "maximum": maximum}


def _task_size(text: str) -> Fields:
    minimum, maximum = _span(text)
    if minimum is None or maximum is None:
        raise BadRequest(
            code="size", what=f"{text!r} leaves the size of a task open", fix="write numbers, for example 1-4"
        )
    return {"minimum": minimum, "maximum": maximum}


def _per_node(what: str) -> Callable[[str], Fields]:
    def read(text: str) -> Fields:
        minimum, maximum = _span(text) if text.strip() else (None, None)
        given = maximum if "-" in text else None
        return {f"minimum_{what}": minimum or None, f"maximum_{what}": given or None}

    return read


def _hold_until(text: str, now: Instant | None) -> Instant | None:
    if not text.strip():
        return None
    if not re.fullmatch(r"\s*[0-9]{1,9}\s*", text):
        return parse_date_time(text)
    if now is None:
        raise Broken(code="no-clock", what="a hold-until in minutes was read without the time")
    return Instant(now + 60 * int(text))


def _pairs(value: str | Mapping[str, str]) -> dict[str, str]:
    """Read ``name=value;name=value``; a semicolon that no name follows belongs to the value."""
    if isinstance(value, Mapping):
        return dict(value)
    pairs = [pair.partition("=") for pair in _NEXT_VARIABLE.split(value) if pair]
    if not all(name.strip() and equals for name, equals, _ in pairs):
        raise BadRequest(
            code="pairs", what=f"{value!r} is not a list of n=v", fix="write name=value;name=value"
        )
    return {name.strip(): text for name, _, text in pairs}


def _properties(value: str | Mapping[str, str]) -> Fields:
    if isinstance(value, str) and value and not _PROPERTIES.fullmatch(value):
        raise BadRequest(
            code="pairs",
            what=f"{value!r} is not a list of custom properties",
            fix="write name=value;name=value, names of letters, digits and underscores",
        )
    return {"properties": _pairs(value)}


def _sweep(known: Mapping[str, Any], kind: TaskType | None) -> Fields:
    text = known.get("parametric")
    if text is None and kind is not TaskType.SWEEP:
        return {}
    found = _SWEEP.match(text or "")
    if not found or kind not in (None, TaskType.SWEEP):
        raise BadRequest(
            code="parametric",
            what=f"a task of type {known.get('type', 'parametric')!r} with the values {text or ''!r}",
            fix="write /parametric:[start-]end[:increment], for example 1-100:2, and no other type",
        )
    start, end, increment = found[1] or "1", found[2], found[3] or "1"
    return {"kind": TaskType.SWEEP, "start": int(start), "end": int(end), "increment": int(increment)}


def _failure(known: Mapping[str, Any]) -> Fields:
    """Read the two options of a critical task: a count without the flag implies it.

    Source:  HPC Pack task properties FailJobOnFailure and FailJobOnFailureCount.
    """
    fields: Fields = {}
    if "failjobonfailurecount" in known:
        count = _option("failjobonfailurecount", known["failjobonfailurecount"], parse_int)
        fields = {"fail_job_on_failure": True, "fail_job_count": count}
    if "failjobonfailure" in known and not _option("failjobonfailure", known["failjobonfailure"], FLAG.read):
        return {}
    return fields or ({"fail_job_on_failure": True} if "failjobonfailure" in known else {})


_SEVERAL: Mapping[str, Callable[[Any], Fields]] = {
    "memorypernode": _per_node("memory"),
    "corespernode": _per_node("processors_per_node"),
    "customproperties": _properties,
}
