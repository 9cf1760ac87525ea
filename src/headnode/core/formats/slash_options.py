"""The job and task options of the command line: their names, and how their values are read.

>>> read_features("gpu,big|huge"), read_distribution("{1,3}{2}").geometry
((('gpu',), ('big', 'huge')), ((1, 3), (2,)))"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from headnode.core.formats.hpc_values import (
    BY_FORM,
    GROUP_OP_TERM,
    TASK_TYPE_TERM,
    parse_least,
    parse_names,
)
from headnode.core.formats.text.quantities import (
    parse_date_time,
    parse_memory,
    parse_memory_bounds,
    parse_span,
)
from headnode.core.model.errors import BadRequest, Broken
from headnode.core.model.field_rows import JobOption
from headnode.core.model.fields import OPTIONS_OF_JOBS, OPTIONS_OF_TASKS
from headnode.core.model.quantities import Instant, parse_time_limit
from headnode.core.model.task import Distribution, ResourceLimit, StagedFile


class SlashOption(NamedTuple):
    """A spelling of an option: whether it may stand without a value, which then means true."""

    flag: bool
    same_as: str = ""  # the name it is another spelling of


def _spellings(options: Iterable[JobOption]) -> dict[str, SlashOption]:
    return {
        name: SlashOption(not slash.value, "" if name == slash.name else slash.name)
        for option in options
        if (slash := option.slash)
        for name in slash.spellings
    }


JOB_TERMS = _spellings(OPTIONS_OF_JOBS)
"""Options of a job by their names in lower case."""

TASK_TERMS = _spellings(OPTIONS_OF_TASKS)
"""Options of a task by their names in lower case."""

SIZES = ("numprocessors", "numcores", "numsockets", "numnodes", "numgpus")


def split_terms(terms: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Divide the options of a job of one task into those of the job and those of the task.

    Sizes go to both; other names that both have (name, exclusive, run time, exit codes) to the job;
    unknown names to the job, where they are refused.  A size that is to be calculated stays with the job.
    """
    job = {name: value for name, value in terms.items() if name in JOB_TERMS or name not in TASK_TERMS}
    task = {name: value for name, value in terms.items() if name in TASK_TERMS and name not in JOB_TERMS}
    task |= {name: job[name] for name in SIZES if name in job and "*" not in job[name]}
    return job, task


Fields = dict[str, Any]

_SPAN = re.compile(r"\s*(\*|\d{1,9})\s*(?:-\s*(\*|\d{1,9})\s*)?\Z", re.ASCII)
_PROPERTIES = re.compile(r"\w+=[^=;]*(?:;\w+=[^=;]*)*")
_NEXT_VARIABLE = re.compile(r";(?=[^=;\s]+=)")


def _span(text: str) -> tuple[int | None, int | None]:
    """Read min[-max]; None stands for an asterisk."""
    match = _SPAN.match(text)
    if not match:
        raise BadRequest(
            code="size",
            what=f"{text!r} is not a size",
            fix="write min-max, one number for both, or * for calculated, for example 2-8",
        )
    low, high = match[1], match[2] or match[1]
    return (None if low == "*" else int(low)), (None if high == "*" else int(high))


def job_size(text: str) -> Fields:
    """Read min[-max] of a job; an asterisk leaves it to be calculated."""
    minimum, maximum = _span(text)
    return {"minimum": minimum, "maximum": maximum}


def task_size(text: str) -> Fields:
    """Read min[-max] of a task."""
    minimum, maximum = _span(text)
    if minimum is None or maximum is None:
        raise BadRequest(
            code="size", what=f"{text!r} gives no size for a task", fix="write numbers, for example 1-4"
        )
    return {"minimum": minimum, "maximum": maximum}


def processors_per_node(text: str) -> Fields:
    """Read min[-max] of the processors that every node must have; nothing or 0 asks for nothing."""
    return _per_node("processors_per_node", text, _span)


def memory_per_node(text: str) -> Fields:
    """Read min[-max] of the memory that every node must have, in MB or with units, such as 4G or 4-16 GB."""
    return _per_node("memory", text, parse_memory_bounds if _UNIT.search(text) else _span)


def _per_node(what: str, text: str, read: Callable[[str], tuple[int | None, int | None]]) -> Fields:
    minimum, maximum = read(text) if text.strip() else (None, None)
    lower = maximum if "-" in text else None
    return {f"minimum_{what}": minimum or None, f"maximum_{what}": lower or None}


_UNIT = re.compile(r"[a-z]", re.IGNORECASE)


def read_memory(text: str) -> int | None:
    """Read an amount of memory: a number is MB, others have their unit, such as 4G or 1.5 TB.

    Raises:  BadRequest ``memory``, ``number``.
    """
    return parse_memory(text) if _UNIT.search(text) else parse_least(text)


def moment(text: str, now: Instant | None) -> Instant | None:
    """Read a date and time, or how long from `now`: 2h, or minutes; nothing takes it away."""
    if not text.strip():
        return None
    in_minutes = re.fullmatch(r"\s*[0-9]{1,9}\s*", text)
    if not in_minutes and not re.fullmatch(r"\s*(?:[0-9]{1,6}[smhdw])+\s*", text):
        return parse_date_time(text)
    if now is None:
        raise Broken(code="no-clock", what="a point of time from now was read without the time")
    return Instant(now + (60 * int(text) if in_minutes else parse_span(text)))


def read_pairs(value: str | Mapping[str, str]) -> dict[str, str]:
    """Read ``name=value;name=value``; a semicolon that no name follows belongs to the value."""
    if isinstance(value, Mapping):
        return dict(value)
    pairs = [pair.partition("=") for pair in _NEXT_VARIABLE.split(value) if pair]
    if not all(name.strip() and equals for name, equals, _ in pairs):
        raise BadRequest(
            code="pairs", what=f"{value!r} is not a list of n=v", fix="write name=value;name=value"
        )
    return {name.strip(): text for name, _, text in pairs}


def read_properties(value: str | Mapping[str, str]) -> Fields:
    """Read custom properties.

    Source:  HPC Pack option customproperties.
    """
    if isinstance(value, str) and value and not _PROPERTIES.fullmatch(value):
        raise BadRequest(
            code="pairs",
            what=f"{value!r} is not a list of custom properties",
            fix="write name=value;name=value, names of letters, digits and underscores",
        )
    return {"properties": read_pairs(value)}


_NUMBERED = re.compile(r"\s*(per-?node|nodes)\s*=\s*([0-9]{1,9})\s*\Z", re.IGNORECASE)
_GEOMETRY = re.compile(r"\s*(?:\{[0-9,\s]{1,100000}\}\s*)+\Z")
_BLOCK = re.compile(r"\{([^}]*)\}")


def read_features(text: str) -> tuple[tuple[str, ...], ...]:
    """Read features: a comma is between those wanted together, | between those to choose from."""
    return tuple(
        tuple(name.strip() for name in choice.split("|") if name.strip()) for choice in parse_names(text)
    )


def read_pattern(text: str) -> tuple[str, ...]:
    """Read a regular expression, in which a comma is a sign like any other."""
    return (text.strip(),) if text.strip() else ()


def read_distribution(text: str) -> Distribution | None:
    """Read ``per-node=2``, ``nodes=3``, ``round-robin`` or a geometry; nothing leaves it to the cluster.

    Raises:  BadRequest ``distribution``.
    Source:  SSS 3.1.0, "TaskDistribution", for the way in which a geometry is written.
    """
    if not text.strip():
        return None
    if re.fullmatch(r"round-?robin", text.strip(), re.IGNORECASE):
        return Distribution(round_robin=True)
    numbered = _NUMBERED.match(text)
    if numbered:
        number = int(numbered[2])
        if number == 0:
            raise BadRequest(
                code="distribution", what=f"{text!r} places no process on a node", fix="write 1 or more"
            )
        evenly = numbered[1].lower() == "nodes"
        return Distribution(nodes=number) if evenly else Distribution(per_node=number)
    blocks = [parse_names(block) for block in _BLOCK.findall(text)] if _GEOMETRY.match(text) else []
    if not blocks or not all(name.isdigit() and len(name) < 10 for block in blocks for name in block):
        raise BadRequest(
            code="distribution",
            what=f"{text!r} is not a distribution of processes over nodes",
            fix="write per-node=2, nodes=3, round-robin, or the processes of each node: {1,2}{3}",
        )
    return Distribution(geometry=tuple(tuple(map(int, block)) for block in blocks))


def read_limits(text: str) -> tuple[ResourceLimit, ...]:
    """Read ``name=limit`` or ``name=soft:hard``, separated by commas.

    Raises:  BadRequest ``resource-limit``.
    """
    from headnode.core.formats.native.keys import LIMITS

    limits: tuple[ResourceLimit, ...] = LIMITS.read([*parse_names(text)])
    return limits


def read_staged_in(text: str) -> tuple[StagedFile, ...]:
    """Read ``URL=NAME``, a line each; without a name the file has the last part of its URL.

    Raises:  BadRequest ``staging``.
    """
    return tuple(_staged(line, *_divided(line, at_last=True)) for line in text.splitlines() if line.strip())


def read_staged_out(text: str) -> tuple[StagedFile, ...]:
    """Read ``NAME=URL``, a line each.

    Raises:  BadRequest ``staging``.
    """
    pairs = [(line, *_divided(line, at_last=False)) for line in text.splitlines() if line.strip()]
    return tuple(_staged(line, url, name) for line, name, url in pairs)


def _divided(line: str, *, at_last: bool) -> tuple[str, str]:
    before, equals, after = line.rpartition("=") if at_last else line.partition("=")
    return (before, after) if equals else (line, "")


def _staged(line: str, url: str, name: str) -> StagedFile:
    from headnode.core.formats.native.keys import name_in

    if not url.strip() or not (name or name_in(url)):
        raise BadRequest(
            code="staging",
            what=f"{line[:80]!r} does not name a file and a URL",
            fix="write --stage-in URL=NAME, --stage-out NAME=URL",
        )
    return StagedFile(name or name_in(url), url)


def _amount(text: str) -> int:
    return parse_least(text) or 0 if text.strip() else 0


def _amount_of_memory(text: str) -> int:
    return read_memory(text) or 0 if text.strip() else 0


ReadValue = Callable[[Any], Any]
_LIKE_FILES = "text flag whole names nodes jobs dependencies priority codes licences order"
_READERS: Mapping[str, ReadValue] = {
    **{form: BY_FORM[form].read for form in _LIKE_FILES.split()},
    "memory": read_memory,
    "patterns": read_pattern,
    "pairs": read_pairs,
    "span": parse_time_limit,
    "group_op": GROUP_OP_TERM.read,
    "type": TASK_TYPE_TERM.read,
    "features": read_features,
    "limits": read_limits,
    "staged_in": read_staged_in,
    "staged_out": read_staged_out,
    "distribution": read_distribution,
}
"""How values that fill one field are read, by their form in the catalogue."""

_NEED_READERS: Mapping[str, ReadValue] = {
    **_READERS,
    **dict.fromkeys(("speed", "whole"), _amount),
    "memory": _amount_of_memory,
}
_READ_TOGETHER = frozenset({"jobenv", "customproperties", "failjobonfailure", "failjobonfailurecount"})
_NEEDS = "needs."

FieldReaders = Mapping[str, tuple[str, ReadValue]]
"""The field that each option fills, and how its value is read."""


def _readers(options: Iterable[JobOption]) -> FieldReaders:
    return {
        slash.name: (option.fields[0], _READERS[option.form])
        for option in options
        if (slash := option.slash) and option.form in _READERS and slash.name not in _READ_TOGETHER
        if not option.fields[0].startswith(_NEEDS)
    }


def _need_readers(options: Iterable[JobOption]) -> FieldReaders:
    return {
        slash.name: (option.fields[0].removeprefix(_NEEDS), _NEED_READERS[option.form])
        for option in options
        if (slash := option.slash) and option.fields[0].startswith(_NEEDS)
    }


JOB_FIELDS, TASK_FIELDS = _readers(OPTIONS_OF_JOBS), _readers(OPTIONS_OF_TASKS)
"""Options of a job and of a task that fill one field."""

NEEDS, NEEDS_OF_TASKS = _need_readers(OPTIONS_OF_JOBS), _need_readers(OPTIONS_OF_TASKS)
"""Options of a job and of a task that say what is demanded of every node."""

MOMENTS = {
    slash.name: option.fields[0]
    for option in OPTIONS_OF_JOBS
    if (slash := option.slash) and option.form == "moment"
}
"""Options that are points of time, and their fields."""
