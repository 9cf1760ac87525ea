"""The kinds of values in the native form, and the rows of its keys.

>>> VALUES["named_jobs"].read([{"name": "mesh"}, {"id": "sim-1", "condition": "OnExit"}])[1].by_id
True"""

import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time
from itertools import pairwise
from operator import attrgetter
from typing import Any, Literal

import msgspec

from headnode.core.formats.hpc_values import (
    format_dependencies,
    format_exit_codes,
    parse_dependencies,
    parse_exit_codes,
    parse_licences,
    parse_order,
)
from headnode.core.formats.text.key_tables import KeyRow, KeyTable, KeyValue, described_form
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
from headnode.core.model.dependency import Condition, NamedParent
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import GroupEdge, Licence, NodeGroupOp
from headnode.core.model.node_needs import NodeNeeds
from headnode.core.model.quantities import Instant, Priority, format_priority, parse_priority
from headnode.core.model.task import TaskType

NEEDS = "needs"
"""The field that holds what is demanded of nodes; its own fields are keys beside the others."""


class NativeRow(KeyRow, frozen=True, kw_only=True):
    """One key of the native form."""

    fields: tuple[str, ...] = ()  # "needs.x" is inside needs; () means: the one that is called like the key

    @property
    def filled(self) -> tuple[str, ...]:
        """The fields that the key fills; several are read and written as a tuple."""
        return self.fields or (self.key,)

    def taken(self, spec: msgspec.Struct) -> tuple[Any, ...]:
        """Return what `spec` has in the fields of the key."""
        return tuple(attrgetter(field)(spec) for field in self.filled)

    def written(self, spec: msgspec.Struct) -> Any:
        """Return what `spec` has in the fields of the key, as a file has it."""
        values = self.taken(spec)
        return self.value.write(values if len(values) > 1 else values[0])


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
_QUOTED = "write it in double quotes"
_TEXT_SCHEMA = described_form({"type": "string"})
"""The form of what its reader checks whole, since it explains better what is wrong with the text."""


def _each(value: Any) -> Iterable[Any]:
    """Return what a list has, or the one that may stand in place of a list of one."""
    return value if isinstance(value, list) else [value]


def _write_names(names: tuple[str, ...]) -> str | list[str]:
    return names[0] if len(names) == 1 else list(names)


def _write_priority(priority: Priority) -> str | int:
    return format_priority(priority) if 0 <= priority <= 4000 else priority


def _codes(value: Any) -> tuple[tuple[int, int], ...]:
    return tuple(one for piece in _each(value) for one in parse_exit_codes(str(piece)))


def _write_codes(codes: tuple[tuple[int, int], ...]) -> list[str | int]:
    return [low if low == high else format_exit_codes(((low, high),)) for low, high in codes]


def _moment(value: Any) -> Instant:
    """Read a date and time; without a time zone it is UTC, without a time it is midnight."""
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=UTC)
        return Instant((aware - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
    if isinstance(value, date):
        return _moment(datetime.combine(value, time()))
    if isinstance(value, str):
        return parse_date_time(value)
    if not math.isfinite(value):
        raise MOMENT.refusal(value)
    return Instant(float(value))


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
        return tuple(Licence(name, None if amount == "*" else amount) for name, amount in value.items())
    return tuple(one for text in _each(value) for one in parse_licences(text))


def _write_licences(licences: tuple[Licence, ...]) -> dict[str, Any] | list[str]:
    table = {one.feature: "*" if one.amount is None else one.amount for one in licences}
    if len(table) == len(licences):
        return table
    return [f"{one.feature}:{'*' if one.amount is None else one.amount}" for one in licences]


def _edges(value: Any) -> tuple[GroupEdge, ...]:
    return tuple(edge for text in _each(value) for edge in _chain(text))


def _chain(text: str) -> tuple[GroupEdge, ...]:
    if not _CHAIN.match(text):
        fix = 'write "1 -> 2": group 2 waits for group 1'
        refuse("group-order", f"{shown(text)} is not an order of groups", fix)
    return tuple(GroupEdge(first, then) for first, then in pairwise(map(int, text.split("->"))))


def _sweep(value: Any) -> tuple[int, int, int]:
    """Read ``start-end`` or ``start-end:step``; a number alone is the end, and the start is 1."""
    match = _SWEEP.match(str(value))
    if match is None:
        raise SWEEP.refusal(value)
    return int(match[1] or 1), int(match[2]), int(match[3] or 1)


def _write_sweep(swept: tuple[int, int, int]) -> str:
    start, end, step = swept
    return f"{start}-{end}" if step == 1 else f"{start}-{end}:{step}"


def _choice(what: str, words: Mapping[str, Any]) -> KeyValue:
    names = {value: word for word, value in words.items()}
    return KeyValue(
        f"one of {', '.join(words)}",
        described_form({"enum": list(words)}),
        make=lambda value: one_of(what, value, words),
        write=names.__getitem__,
    )


TEXT = KeyValue("text", str, _QUOTED)
FLAG = KeyValue("true or false", bool, "write true or false, without quotes")
WHOLE = KeyValue("a whole number", int, "write digits, without quotes")
NAMES = KeyValue(
    "a name, or a list of names",
    str | list[str],
    'write ["one", "two"]',
    lambda value: tuple(_each(value)),
    _write_names,
)
MEMORY = KeyValue("an amount of memory: 500 MB, 4 GB", _TEXT_SCHEMA, make=parse_memory, write=format_memory)
_SIZE = described_form({"type": ["string", "integer"]})
MOMENT = KeyValue(
    "a date and time, without time zone UTC",
    str | float,
    "write it as 2030-01-31T18:00:00Z",
    _moment,
    _write_moment,
    code="date-time",
    also=(date,),
)
SWEEP = KeyValue(
    "a range of numbers: 1-100, or 0-100:5",
    str | int,
    'write "1-100", or "0-100:5" for every fifth',
    _sweep,
    _write_sweep,
    code="sweep",
)

_JOB_FIX = 'write [{name = "mesh"}], or [{id = "sim-1", condition = "OnExit"}]'
_JOB_NAMED = KeyTable(
    "a table of a name or an id, and a condition",
    [
        KeyRow(key="name", value=TEXT, help="name of the job"),
        KeyRow(key="id", value=TEXT, help="Id of its SSS job object"),
        KeyRow(
            key="condition",
            value=_choice("condition", {one.value: one for one in Condition}),
            help="when it lets this job start; default: OnSuccess",
        ),
    ],
    "named_job",
)


def _named_job(table: Any) -> NamedParent:
    fields = _JOB_NAMED.read(table, _JOB_FIX)
    if ("name" in fields) is ("id" in fields):
        refuse("value", f"{shown(table)} does not have one text, a name or an id", _JOB_FIX)
    condition = fields.get("condition", Condition.ON_SUCCESS)
    return NamedParent(fields.get("name", fields.get("id", "")), by_id="id" in fields, condition=condition)


def _write_named_jobs(parents: tuple[NamedParent, ...]) -> list[Mapping[str, str]]:
    return [
        {"id" if one.by_id else "name": one.name}
        | ({} if one.condition is Condition.ON_SUCCESS else {"condition": one.condition.value})
        for one in parents
    ]


VALUES: Mapping[str, KeyValue] = {
    "text": TEXT,
    "flag": FLAG,
    "whole": WHOLE,
    "names": NAMES,
    "patterns": NAMES,
    "nodes": KeyValue(
        "names of nodes, or sets like node[1-5]",
        described_form({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
        make=parse_nodes,
        write=format_nodes,
    ),
    "jobs": KeyValue(
        "a job id, or a list of them; names of jobs of the same file",
        str | int | list[str | int],
        "write 12, or [12, 13]",
        lambda value: tuple(_each(value)),
        list,
    ),
    "dependencies": KeyValue(
        "a dependency like OnSuccess:12_3 or OnStart:12+5, or a list of them",
        str | list[str],
        'write "OnSuccess:12_3" for element 3 of job 12, or "OnStart:12+5": 5 minutes after its start',
        lambda value: tuple(one for text in _each(value) for one in parse_dependencies(text)),
        lambda ones: [format_dependencies([one]) for one in ones],
    ),
    "pairs": KeyValue(
        "names with texts",
        dict[str, str | int],
        'write NAME = "text" below a [header]',
        lambda value: {name: str(text) for name, text in value.items()},
        dict,
        part=KeyValue("text", str | int, _QUOTED),
    ),
    "span": KeyValue(
        "a span of time: 90s, 1h30m, 2d, infinite", _TEXT_SCHEMA, make=parse_span, write=format_span
    ),
    "memory": MEMORY,
    "bounds": KeyValue("a number, or minimum-maximum", _SIZE, make=parse_bounds, write=format_bounds),
    "at_least": KeyValue("a number, or minimum-maximum", _SIZE, make=parse_at_least, write=format_at_least),
    "memory_bounds": KeyValue(
        "an amount of memory, or minimum - maximum",
        _TEXT_SCHEMA,
        make=parse_memory_bounds,
        write=format_memory_bounds,
    ),
    "priority": KeyValue(
        "Lowest to Highest, one of them +n or -n, or 0 to 4000",
        str | int,
        'write "AboveNormal", "Normal+150" or 2150',
        lambda value: parse_priority(str(value)),
        _write_priority,
    ),
    "codes": KeyValue(
        "exit codes and ranges",
        str | int | list[str | int],
        'write [0, "10..12"]',
        _codes,
        _write_codes,
        code="exit-codes",
    ),
    "moment": MOMENT,
    "licences": KeyValue(
        "features with amounts, * for one for each processor",
        dict[str, int | Literal["*"]] | str | list[str],
        'write {solver = 2}, or ["solver:2"]',
        _licences,
        _write_licences,
        code="licence",
        part=KeyValue("a number", int | Literal["*"], 'write a number, or "*" for one for each processor'),
    ),
    "edges": KeyValue(
        'orders of groups like "1 -> 2"',
        str | list[str],
        'write ["1 -> 2"]: group 2 waits for group 1',
        _edges,
        lambda edges: [f"{edge.parent} -> {edge.child}" for edge in edges],
        code="group-order",
    ),
    "order": KeyValue(
        "memory, processors or speed, with a minus for the smaller first",
        str | list[str],
        'write ["memory", "-speed"]',
        lambda value: tuple(key for name in _each(value) for key in parse_order(name)),
        lambda keys: [f"{'-' if key.ascending else ''}{key.by}" for key in keys],
    ),
    "sweep": SWEEP,
    "group_op": _choice("way to combine node groups", {op.value: op for op in NodeGroupOp}),
    "type": _choice("type of task", {kind.value: kind for kind in TaskType}),
    "named_jobs": KeyValue(
        "a list of tables with a name or an id, and a condition",
        Any,
        make=lambda value: tuple(_named_job(table) for table in _each(value)),
        write=_write_named_jobs,
        inside=_JOB_NAMED.form | list[_JOB_NAMED.form],  # type: ignore[name-defined]  # a form is made at run time
    ),
}
"""How values are read and written here, by their form in the catalogue; `resource_values` has the others."""
