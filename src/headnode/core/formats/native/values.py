"""The rows of the tables of keys, and the kinds of values in the native form.

>>> parse_named_jobs([{"name": "mesh"}, {"id": "sim-1", "condition": "OnExit"}])[1].by_id
True"""

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time
from itertools import pairwise
from operator import attrgetter
from typing import Any

import msgspec

from headnode.core.formats.hpc_values import format_exit_codes, parse_exit_codes, parse_licences, parse_order
from headnode.core.formats.text.quantities import (
    format_at_least,
    format_bounds,
    format_date_time,
    format_memory,
    format_memory_bounds,
    format_nodes,
    format_span,
    one_of,
    parse_at_least,
    parse_bounds,
    parse_date_time,
    parse_memory,
    parse_memory_bounds,
    parse_nodes,
    parse_span,
    refuse,
    shown,
)
from headnode.core.formats.text.toml_text import TomlMoment
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import Condition, GroupEdge, Licence, NamedParent, NodeGroupOp
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.quantities import Instant, Priority, format_priority, parse_priority
from headnode.core.model.task import TaskType

NEEDS = "needs"
"""The field that holds what is demanded of nodes; its own fields are keys beside the others."""


class NativeValue(msgspec.Struct, frozen=True):
    """A kind of value: how it is read from a file and written into one, and its JSON Schema.

    `read` raises BadRequest without a place; whoever reads the file adds it.
    """

    title: str
    read: Callable[[Any], Any]
    write: Callable[[Any], Any]
    schema: Mapping[str, Any]


class NativeRow(msgspec.Struct, frozen=True, kw_only=True):
    """One key.  Rows stand in the order in which files are written."""

    key: str
    value: NativeValue
    help: str
    fields: tuple[str, ...] = ()  # "needs.x" is inside needs; () means: the one that is called like the key
    example: Any = None

    @property
    def filled(self) -> tuple[str, ...]:
        """The fields that the key fills; several are read and written as a tuple."""
        return self.fields or (self.key,)

    def taken(self, spec: msgspec.Struct) -> tuple[Any, ...]:
        """Return what `spec` has in the fields of the key."""
        return tuple(attrgetter(field)(spec) for field in self.filled)


def by_key(*rows: NativeRow) -> Mapping[str, NativeRow]:
    """Return rows by their keys."""
    return {row.key: row for row in rows}


def with_needs_joined(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields with those inside needs put together."""
    inner = {field: value for field, value in fields.items() if field.startswith(f"{NEEDS}.")}
    if not inner:
        return dict(fields)
    needs = NodeNeeds(**{field.removeprefix(f"{NEEDS}."): value for field, value in inner.items()})
    return {field: value for field, value in fields.items() if field not in inner} | {NEEDS: needs}


_SWEEP = re.compile(r"\s*(?:(-?[0-9]{1,18})\s*-\s*)?(-?[0-9]{1,18})\s*(?::\s*(-?[0-9]{1,18})\s*)?\Z")
_CHAIN = re.compile(r"\s*-?[0-9]{1,18}\s*(?:->\s*-?[0-9]{1,18}\s*)+\Z")
_TEXT = {"type": "string"}
_SAME = {"type": ["string", "integer"]}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        refuse("value", f"{shown(value)} is not text", "write it in double quotes")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        refuse("value", f"{shown(value)} is not true or false", "write true or false, without quotes")
    return value


def _whole(value: Any) -> int:
    if type(value) is not int:
        refuse("value", f"{shown(value)} is not a whole number", "write digits, without quotes")
    return int(value)


def _names(value: Any) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        refuse("value", f"{shown(value)} is not a name, nor a list of names", 'write ["one", "two"]')
    return tuple(names)


def _write_names(names: tuple[str, ...]) -> str | list[str]:
    return names[0] if len(names) == 1 else list(names)


def _jobs(value: Any) -> tuple[int | str, ...]:
    """Read ids of jobs, and names of jobs of the same file."""
    jobs = value if isinstance(value, list) else [value]
    if not all(type(one) in (int, str) for one in jobs):
        refuse("value", f"{shown(value)} is not a job id, nor a list of them", "write 12, or [12, 13]")
    return tuple(jobs)


def _pairs(value: Any) -> dict[str, str]:
    """Read names with texts; a whole number may stand for its text."""
    if not isinstance(value, dict):
        refuse("value", f"{shown(value)} is not names with texts", 'write NAME = "text" below a [header]')
    for name, text in value.items():
        if type(text) not in (str, int):
            what = f"the value of {name!r}, {shown(text)}, is not text"
            refuse("value", what, f'write it in double quotes, for example {name} = "1.5"')
    return {name: str(text) for name, text in value.items()}


def _priority(value: Any) -> Priority:
    return parse_priority(str(value) if type(value) is int else _text(value))


def _write_priority(priority: Priority) -> str | int:
    return format_priority(priority) if 0 <= priority <= 4000 else priority


def _codes(value: Any) -> tuple[tuple[int, int], ...]:
    pieces = value if isinstance(value, list) else [value]
    if not all(type(piece) in (str, int) for piece in pieces):
        refuse("exit-codes", f"{shown(value)} is no list of exit codes", 'write [0, "10..12"]')
    return tuple(one for piece in pieces for one in parse_exit_codes(str(piece)))


def _write_codes(codes: tuple[tuple[int, int], ...]) -> list[str | int]:
    return [low if low == high else format_exit_codes(((low, high),)) for low, high in codes]


def _moment(value: Any) -> Instant:
    """Read a date and time; without a time zone it is UTC, without a time it is midnight."""
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        return Instant((aware - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
    if isinstance(value, date):
        return _moment(datetime.combine(value, time()))
    if type(value) in (int, float) and math.isfinite(value):
        return Instant(float(value))
    return parse_date_time(_text(value))


def _write_moment(instant: Instant) -> TomlMoment | float:
    """Write a date and time; seconds since 1970 where a date would not be exactly the same."""
    try:
        text = format_date_time(instant)
        return TomlMoment(text) if parse_date_time(text) == instant else float(instant)
    except (BadRequest, OverflowError, ValueError):
        return float(instant)


def _licences(value: Any) -> tuple[Licence, ...]:
    """Read a table of features with amounts, or a list of ``feature:amount``."""
    if isinstance(value, dict):
        return tuple(_licence(feature, amount) for feature, amount in value.items())
    return tuple(one for text in _names(value) for one in parse_licences(text))


def _licence(feature: str, amount: Any) -> Licence:
    if amount != "*" and type(amount) is not int:
        what = f"{shown(amount)} of licence {feature!r} is not a number"
        refuse("licence", what, 'write a number, or "*" for one for each processor')
    return Licence(feature, None if amount == "*" else amount)


def _write_licences(licences: tuple[Licence, ...]) -> dict[str, Any] | list[str]:
    table = {one.feature: "*" if one.amount is None else one.amount for one in licences}
    if len(table) == len(licences):
        return table
    return [f"{one.feature}:{'*' if one.amount is None else one.amount}" for one in licences]


def _edges(value: Any) -> tuple[GroupEdge, ...]:
    return tuple(edge for text in _names(value) for edge in _chain(text))


def _chain(text: str) -> tuple[GroupEdge, ...]:
    if not _CHAIN.match(text):
        fix = 'write "1 -> 2": group 2 waits for group 1'
        refuse("group-order", f"{shown(text)} is no order of groups", fix)
    return tuple(GroupEdge(first, then) for first, then in pairwise(map(int, text.split("->"))))


def _sweep(value: Any) -> tuple[int, int, int]:
    """Read ``start-end`` or ``start-end:step``; a number alone is the end, and the start is 1."""
    found = _SWEEP.match(str(value)) if type(value) in (str, int) else None
    if found is None:
        fix = 'write "1-100", or "0-100:5" for every fifth'
        refuse("sweep", f"{shown(value)} is not a range of numbers", fix)
    return int(found[1] or 1), int(found[2]), int(found[3] or 1)


def _write_sweep(swept: tuple[int, int, int]) -> str:
    start, end, step = swept
    return f"{start}-{end}" if step == 1 else f"{start}-{end}:{step}"


def _choice(what: str, words: Mapping[str, Any]) -> NativeValue:
    names = {value: word for word, value in words.items()}
    title = f"one of {', '.join(words)}"
    return NativeValue(
        title, lambda value: one_of(what, value, words), names.__getitem__, {"enum": list(words)}
    )


def _same(value: Any) -> Any:
    return value


TEXT = NativeValue("text", _text, _same, _TEXT)
FLAG = NativeValue("true or false", _flag, _same, {"type": "boolean"})
WHOLE = NativeValue("a whole number", _whole, _same, {"type": "integer"})
NAMES = NativeValue(
    "a name, or a list of names",
    _names,
    _write_names,
    {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]},
)
NODES = NativeValue("names of nodes, or sets like node[1-5]", parse_nodes, format_nodes, NAMES.schema)
JOBS = NativeValue(
    "a job id, or a list of them; names of jobs of the same file",
    _jobs,
    list,
    {"anyOf": [_SAME, {"type": "array", "items": _SAME}]},
)
PAIRS = NativeValue("names with texts", _pairs, dict, {"type": "object", "additionalProperties": _SAME})
SPAN = NativeValue("a span of time: 90s, 1h30m, 2d, infinite", parse_span, format_span, _TEXT)
MEMORY = NativeValue("an amount of memory: 500 MB, 4 GB", parse_memory, format_memory, _TEXT)
BOUNDS = NativeValue("a number, or minimum-maximum", parse_bounds, format_bounds, _SAME)
AT_LEAST = NativeValue("a number, or minimum-maximum", parse_at_least, format_at_least, _SAME)
MEMORY_BOUNDS = NativeValue(
    "an amount of memory, or minimum - maximum", parse_memory_bounds, format_memory_bounds, _TEXT
)
PRIORITY = NativeValue(
    "Lowest to Highest, one of them +n or -n, or 0 to 4000", _priority, _write_priority, _SAME
)
CODES = NativeValue(
    "exit codes and ranges", _codes, _write_codes, {"anyOf": [_SAME, {"type": "array", "items": _SAME}]}
)
MOMENT = NativeValue(
    "a date and time, without time zone UTC", _moment, _write_moment, {"type": ["string", "number"]}
)
LICENCES = NativeValue(
    "features with amounts, * for one for each processor",
    _licences,
    _write_licences,
    {"anyOf": [PAIRS.schema, NAMES.schema]},
)
EDGES = NativeValue(
    'orders of groups like "1 -> 2"',
    _edges,
    lambda edges: [f"{edge.parent} -> {edge.child}" for edge in edges],
    NAMES.schema,
)
ORDER = NativeValue(
    "memory, processors or speed, with a minus for the smaller first",
    lambda value: tuple(key for name in _names(value) for key in parse_order(name)),
    lambda keys: [f"{'-' if key.ascending else ''}{key.by}" for key in keys],
    NAMES.schema,
)
SWEEP = NativeValue("a range of numbers: 1-100, or 0-100:5", _sweep, _write_sweep, _SAME)
GROUP_OP = _choice("way to combine node groups", {op.value: op for op in NodeGroupOp})
TYPE = _choice("type of task", {kind.value: kind for kind in TaskType})


_NAME, _ID, _CONDITION = "name", "id", "condition"
_CONDITIONS = {condition.value: condition for condition in Condition}
_FIX = 'write [{name = "mesh"}], or [{id = "sim-1", condition = "OnExit"}]'
_NAME_TEXT = {"type": "string"}


def parse_named_jobs(value: Any) -> tuple[NamedParent, ...]:
    """Read a table, or a list of tables, of a name or an id, and a condition, which is OnSuccess by default.

    Raises:  BadRequest ``value``.
    """
    tables = value if isinstance(value, list) else [value]
    return tuple([_named_job(table) for table in tables])


def _named_job(table: Any) -> NamedParent:
    if not isinstance(table, dict) or not table.keys() <= {_NAME, _ID, _CONDITION}:
        refuse("value", f"{shown(table)} is not a table of a name or an id, and a condition", _FIX)
    said = [key for key in (_NAME, _ID) if key in table]
    if len(said) != 1 or not isinstance(table[said[0]], str):
        refuse("value", f"{shown(table)} does not have one text, a name or an id", _FIX)
    condition = one_of("condition", table.get(_CONDITION, Condition.ON_SUCCESS.value), _CONDITIONS)
    return NamedParent(table[said[0]], by_id=said[0] == _ID, condition=condition)


def format_named_jobs(parents: tuple[NamedParent, ...]) -> list[Mapping[str, str]]:
    """Write named jobs as `parse_named_jobs` reads them."""
    return [
        {_ID if one.by_id else _NAME: one.called}
        | ({} if one.condition is Condition.ON_SUCCESS else {_CONDITION: one.condition.value})
        for one in parents
    ]


_TABLE = {
    "type": "object",
    "properties": {_NAME: _NAME_TEXT, _ID: _NAME_TEXT, _CONDITION: {"enum": list(_CONDITIONS)}},
    "oneOf": [{"required": [_NAME]}, {"required": [_ID]}],
    "additionalProperties": False,
}
NAMED_JOBS = NativeValue(
    "a list of tables with a name or an id, and a condition",
    parse_named_jobs,
    format_named_jobs,
    {"anyOf": [_TABLE, {"type": "array", "items": _TABLE}]},
)
