"""Values as Compute Cluster Server and HPC Pack write them, in job files and on the command line alike."""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NoReturn

import msgspec

from headnode.core.formats.text.quantities import format_date_time, parse_date_time
from headnode.core.formats.text.source_text import nearest_name
from headnode.core.model.dependency import Condition, JobDependency
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import Licence, NodeGroupOp, OrderKey, UnitType
from headnode.core.model.quantities import (
    ANCHORS,
    FOREVER,
    Priority,
    Seconds,
    format_priority,
    format_run_time,
    parse_priority,
    parse_run_time,
)
from headnode.core.model.task import TaskType

MIN_INT, MAX_INT = -(2**31), 2**31 - 1
CodeRanges = tuple[tuple[int, int], ...]
_ORDER_WORDS: Mapping[str, Literal["memory", "processors", "speed"]] = {
    "memory": "memory",
    "cores": "processors",
    "processors": "processors",
    "speed": "speed",
}
_INT = re.compile(r"[+-]?\d{1,10}\Z", re.ASCII)
_SECONDS = re.compile(r"[0-9]{1,10}\Z")


class ValueFormat(msgspec.Struct, frozen=True):
    """How one kind of value is read from text and written as text."""

    read: Callable[[str], Any]
    write: Callable[[Any], str]


def parse_int(text: str) -> int:
    """Read a 32-bit whole number.

    Raises:  BadRequest ``number``.
    """
    word = text.strip()
    number = int(word) if _INT.match(word) else MAX_INT + 1
    if not MIN_INT <= number <= MAX_INT:
        _refuse("number", text, "a whole number", f"write a number from {MIN_INT} to {MAX_INT}")
    return number


def parse_flag(text: str) -> bool:
    """Read true or false, 1 or 0, in any case.

    Raises:  BadRequest ``flag``.
    """
    word = text.strip().lower()
    if word not in ("true", "false", "1", "0"):
        _refuse("flag", text, "true or false", "write true or false")
    return word in ("true", "1")


def parse_names(text: str) -> tuple[str, ...]:
    """Read names separated by commas.

    >>> parse_names("a, b b,,c")
    ('a', 'b b', 'c')
    """
    return tuple([name for each in text.split(",") if (name := each.strip())])


def parse_nodes(text: str) -> tuple[str, ...]:
    """Read node names separated by commas or blanks.

    Source:  CCS, "Content format", row *Askednodes*: blanks; job files in use: commas.
    """
    return tuple(re.split(r"[,;\s]+", text.strip(" \t\r\n,;"))) if text.strip(" \t\r\n,;") else ()


def parse_ids(text: str) -> tuple[int, ...]:
    """Read job ids separated by commas.

    Raises:  BadRequest ``number``.
    """
    names = parse_names(text)
    if wrong := [name for name in names if not _INT.match(name)]:
        _refuse("number", wrong[0], "the id of a job", "write whole numbers, with commas between them: 12,15")
    return tuple(map(parse_int, names))


def parse_licences(text: str) -> tuple[Licence, ...]:
    """Read licence wishes: feature and amount, ``*`` for one for each processor.

    Raises:  BadRequest ``licence``.
    Source:  CCS, "Content format", row *License*; HPC filters: ``feature:*``.
    """
    return tuple(_licence(item, text) for item in parse_names(text))


def _licence(item: str, text: str) -> Licence:
    feature, _, amount = (part.strip() for part in item.rpartition(":"))
    if amount == "*" and feature:
        return Licence(feature, None)
    if not feature or not re.fullmatch(r"[0-9]{1,9}", amount) or int(amount) < 1:
        _refuse(
            "licence",
            text,
            "a list of licences",
            "write feature:amount,... with an amount of at least 1, or *",
        )
    return Licence(feature, int(amount))


def format_licences(licences: tuple[Licence, ...]) -> str:
    """Write licence wishes as ``parse_licences`` reads them."""
    return ",".join(
        f"{licence.feature}:{'*' if licence.amount is None else licence.amount}" for licence in licences
    )


def parse_exit_codes(text: str) -> CodeRanges:
    """Read the exit codes that mean success: numbers and ranges, with min and max for the ends.

    Raises:  BadRequest ``exit-codes``.
    Source:  HPC Pack job property ValidExitCodes.

    >>> parse_exit_codes("0,10..12")
    ((0, 0), (10, 12))
    """
    return tuple(_code_range(piece, text) for piece in parse_names(text)) or ((0, 0),)


def _code_range(piece: str, text: str) -> tuple[int, int]:
    ends = [end.strip().lower() for end in piece.split("..")]
    named = {"min": MIN_INT, "max": MAX_INT}
    if len(ends) > 2 or not all(end in named or _INT.match(end) for end in ends):
        _refuse(
            "exit-codes",
            text,
            "a list of exit codes",
            "write codes and ranges, for example 0,10..12,min..-100",
        )
    low, high = (named[end] if end in named else int(end) for end in (ends[0], ends[-1]))
    if not MIN_INT <= low <= high <= MAX_INT:
        _refuse(
            "exit-codes",
            text,
            "a list of exit codes",
            f"write {piece!r} with the smaller 32-bit number first",
        )
    return low, high


def format_exit_codes(codes: CodeRanges) -> str:
    """Write exit codes as ``parse_exit_codes`` reads them."""
    return ",".join(
        _code_end(low) if low == high else f"{_code_end(low)}..{_code_end(high)}" for low, high in codes
    )


def _code_end(code: int) -> str:
    return {MIN_INT: "min", MAX_INT: "max"}.get(code, str(code))


def parse_order(text: str) -> tuple[OrderKey, ...]:
    """Read a resource order: Memory and Cores, with a minus for the smaller first.

    Raises:  BadRequest ``order-by``, also for custom sorters (``#0`` to ``#63``), which Headnode has not.
    Source:  HPC Pack job property OrderBy.
    """
    return tuple(_order_key(word, text) for word in parse_names(text))


def _order_key(word: str, text: str) -> OrderKey:
    by = _ORDER_WORDS.get(word.removeprefix("-").strip().lower())
    if by is None:
        _refuse(
            "order-by", text, "an order of resources", "write Memory, Cores, -Memory or -Cores, with commas"
        )
    return OrderKey(by, word.startswith("-"))


def format_order(keys: tuple[OrderKey, ...]) -> str:
    """Write a resource order as ``parse_order`` reads it."""
    names = {"memory": "Memory", "processors": "Cores", "speed": "Speed"}
    return ",".join(("-" if key.ascending else "") + names[key.by] for key in keys)


def parse_seconds(text: str) -> Seconds:
    """Read a run time limit in seconds, or Infinite.

    Raises:  BadRequest ``run-time``.
    """
    word = text.strip()
    if _SECONDS.match(word):
        return Seconds(float(word))
    if word.lower() != "infinite":
        _refuse("run-time", text, "a run time", "write whole seconds, or Infinite")
    return FOREVER


def format_seconds(span: Seconds) -> str:
    """Write a run time limit in whole seconds, rounded up, or Infinite."""
    return "Infinite" if span == FOREVER else str(math.ceil(span))


def parse_least(text: str) -> int | None:
    """Read an amount that is asked for; 0 asks for nothing.

    Raises:  BadRequest ``number``.
    """
    word = text.strip()
    if not _INT.match(word) or not 0 <= int(word) <= MAX_INT:
        _refuse("number", text, "an amount", f"write a whole number from 0 to {MAX_INT}")
    return int(word) or None


def format_nearest_priority(priority: Priority) -> str:
    """Write the name nearest to a priority, for dialects that know the names only."""
    return min(ANCHORS, key=lambda name: abs(ANCHORS[name] - priority))


def _choice(what: str, words: Mapping[str, Any], *, any_case: bool = False) -> ValueFormat:
    """Return the words of an enumeration, spelled exactly, or in `any_case`."""
    known = {word.lower(): value for word, value in words.items()} if any_case else dict(words)

    def read(text: str) -> Any:
        word = text.strip().lower() if any_case else text.strip()
        if word not in known:
            meant = nearest_name(text, words)
            hint = f"did you mean {meant!r}? " if meant else ""
            raise BadRequest(
                code=what.replace(" ", "-"),
                what=f"{text!r} is not a valid {what}",
                fix=f"{hint}write {', '.join(words)}",
            )
        return known[word]

    names = {value: word for word, value in reversed(list(words.items()))}
    return ValueFormat(read, lambda value: names[value])


def _refuse(code: str, text: str, wanted: str, fix: str) -> NoReturn:
    raise BadRequest(code=code, what=f"{text!r} is not {wanted}", fix=fix)


_DEPENDENCY = re.compile(r"(\w+):(\d{1,12})(?:_(\d{1,12}))?(?:\+(\d{1,12})(s?))?", re.ASCII)


def parse_dependencies(text: str) -> tuple[JobDependency, ...]:
    """Read ``CONDITION:ID[_ELEMENT][+MINUTES]``, several with commas; ``+90s`` is in seconds.

    >>> [one.title for one in parse_dependencies("OnSuccess:12_3,OnStart:13+5")]
    ['element 3 of job 12', 'job 13']
    """
    return tuple(_dependency(one.strip()) for one in text.split(",")) if text.strip() else ()


def _dependency(text: str) -> JobDependency:
    match = _DEPENDENCY.fullmatch(text)
    condition = {one.value.lower(): one for one in Condition}.get(match[1].lower()) if match else None
    if match is None or condition is None:
        raise BadRequest(
            code="value",
            what=f"{text[:60]!r} is not a dependency",
            fix="write OnSuccess:12_3, OnFailure:12_3, OnExit:12_3 or OnStart:12+5",
        )
    delay = Seconds(float(match[4] or 0) * (1 if match[5] else 60))
    return JobDependency(int(match[2]), condition, None if match[3] is None else int(match[3]), delay)


def format_dependencies(ones: Iterable[JobDependency]) -> str:
    """Return the text that `parse_dependencies` reads."""
    return ",".join(map(_written, ones))


def _written(one: JobDependency) -> str:
    element = "" if one.element is None else f"_{one.element}"
    minutes, seconds = divmod(round(one.delay), 60)
    delay = (f"+{round(one.delay)}s" if seconds else f"+{minutes}") if one.delay else ""
    return f"{one.condition.value}:{one.job}{element}{delay}"


_UNITS = {
    "Core": UnitType.PROCESSOR,
    "Socket": UnitType.SOCKET,
    "Node": UnitType.NODE,
    "Gpu": UnitType.GPU,
}
_GROUP_OPS = {"Intersect": NodeGroupOp.INTERSECT, "Uniform": NodeGroupOp.UNIFORM, "Union": NodeGroupOp.UNION}
_TASK_TYPES = {
    "Basic": TaskType.BASIC,
    "ParametricSweep": TaskType.SWEEP,
    "NodePrep": TaskType.NODE_PREP,
    "NodeRelease": TaskType.NODE_RELEASE,
    "Service": TaskType.SERVICE,
}

TEXT = ValueFormat(str, str)
FLAG = ValueFormat(parse_flag, lambda flag: "true" if flag else "false")
COUNT = ValueFormat(parse_int, str)
LEAST = ValueFormat(parse_least, str)
NAMES = ValueFormat(parse_names, ",".join)
NODES = ValueFormat(parse_nodes, ",".join)
IDS = ValueFormat(parse_ids, lambda ids: ",".join(map(str, ids)))
LICENCES = ValueFormat(parse_licences, format_licences)
EXIT_CODES = ValueFormat(parse_exit_codes, format_exit_codes)
ORDER = ValueFormat(parse_order, format_order)
SECONDS = ValueFormat(parse_seconds, format_seconds)
RUN_TIME = ValueFormat(parse_run_time, format_run_time)
PRIORITY = ValueFormat(parse_priority, format_priority)
PRIORITY_NAME = ValueFormat(parse_priority, format_nearest_priority)
WHEN = ValueFormat(lambda text: parse_date_time(text) if text.strip() else None, format_date_time)
DEPENDENCIES = ValueFormat(parse_dependencies, format_dependencies)
UNIT = _choice("unit type", _UNITS)
GROUP_OP = _choice("node group operator", _GROUP_OPS)
TASK_TYPE = _choice("task type", _TASK_TYPES)
GROUP_OP_TERM = _choice("node group operator", _GROUP_OPS, any_case=True)
TASK_TYPE_TERM = _choice("task type", {**_TASK_TYPES, "Parametric": TaskType.SWEEP}, any_case=True)

BY_FORM: Mapping[str, ValueFormat] = {
    "text": TEXT,
    "flag": FLAG,
    "whole": COUNT,
    "names": NAMES,
    "nodes": NODES,
    "jobs": IDS,
    "dependencies": DEPENDENCIES,
    "span": SECONDS,
    "moment": WHEN,
    "memory": LEAST,
    "at_least": LEAST,
    "memory_bounds": LEAST,
    "priority": PRIORITY,
    "codes": EXIT_CODES,
    "licences": LICENCES,
    "order": ORDER,
    "group_op": GROUP_OP,
    "sweep": COUNT,
}
"""How one value is written, by the form of its option in the catalogue."""
