"""Requirements of nodes and processes in the native form: features, speed, held memory, layout, limits.

>>> parse_limits({"nofile": 1024, "as": "1 GB:2 GB", "cpu": ":600"})[1:]
(ResourceLimit(name='as', soft=1073741824, hard=2147483648), ResourceLimit(name='cpu', soft=None, hard=600))
>>> parse_features(["gpu", ["big", "huge"]]), format_features((("gpu",), ("big", "huge")))
((('gpu',), ('big', 'huge')), ['gpu', ['big', 'huge']])
>>> parse_speed("2.4 GHz"), format_speed(2400)
(2400, '2400 MHz')
>>> parse_held({"memory": "20 GB"}).memory
20480
"""

import re
from collections.abc import Mapping
from typing import Any

from headnode.core.formats.native.values import NativeValue
from headnode.core.formats.text.quantities import format_memory, parse_memory, refuse, shown
from headnode.core.formats.text.source_text import nearest_name
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import HeldAmounts
from headnode.core.model.task import Distribution, ResourceLimit

_SPEED = re.compile(r"\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*([mg])hz\s*\Z", re.IGNORECASE)
Features = tuple[tuple[str, ...], ...]


def parse_features(value: Any) -> Features:
    """Read a feature, or a list of features, all of which a node must have; a list inside it is a choice.

    Raises:  BadRequest ``features``.
    """
    wanted = [value] if isinstance(value, str) else value
    if not isinstance(wanted, list):
        _refuse_features(value)
    return tuple(_choice(one) for one in wanted)


def _choice(value: Any) -> tuple[str, ...]:
    choices = [value] if isinstance(value, str) else value
    if not isinstance(choices, list) or not all(isinstance(name, str) for name in choices):
        _refuse_features(value)
    return tuple(choices)


def _refuse_features(value: Any) -> None:
    fix = 'write ["gpu", "big"] for both of them, [["gpu", "big"]] for either'
    refuse("features", f"{shown(value)} is no list of features", fix)


def format_features(features: Features) -> str | list[str | list[str]]:
    """Write features as `parse_features` reads them."""
    written = [one[0] if len(one) == 1 else list(one) for one in features]
    return written[0] if len(written) == 1 and isinstance(written[0], str) else written


def parse_speed(value: Any) -> int:
    """Read the speed of a processor with its unit.

    Unit:    MHz (returned).
    Raises:  BadRequest ``speed``.
    """
    found = _SPEED.match(value) if isinstance(value, str) else None
    speed = float(found[1]) * (1000 if found[2] in "gG" else 1) if found else 0.5
    if found is None or abs(speed - round(speed)) > 1e-6:
        fix = 'write a number with its unit, for example "2400 MHz" or "2.4 GHz"'
        refuse("speed", f"{shown(value)} is not the speed of a processor in whole MHz", fix)
    return round(speed)


def format_speed(megahertz: int) -> str:
    """Write a speed as `parse_speed` reads it."""
    return f"{megahertz} MHz"


_TEXT = {"type": "string"}
_ITEM = {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]}
FEATURES = NativeValue(
    "a feature, or a list of them; a list inside is a choice",
    parse_features,
    format_features,
    {"anyOf": [_TEXT, {"type": "array", "items": _ITEM}]},
)
SPEED = NativeValue("a speed: 2400 MHz, 2.4 GHz", parse_speed, format_speed, _TEXT)


_FIELDS = HeldAmounts.__struct_fields__
_AMOUNT_TEXT = {"type": "string"}


def parse_held(value: Any) -> HeldAmounts:
    """Read a table of memory, disk and swap.

    Raises:  BadRequest ``value``.
    """
    if not isinstance(value, dict) or not value.keys() <= set(_FIELDS):
        refuse("value", f"{shown(value)} is not a table of {', '.join(_FIELDS)}", 'write {memory = "20 GB"}')
    return HeldAmounts(**{name: parse_memory(said) for name, said in value.items()})


def format_held(held: HeldAmounts) -> dict[str, str]:
    """Write what a job holds as `parse_held` reads it, only what is held."""
    amounts = {name: getattr(held, name) for name in _FIELDS}
    return {name: format_memory(amount) for name, amount in amounts.items() if amount}


HELD = NativeValue(
    "a table of memory, disk and swap with amounts",
    parse_held,
    format_held,
    {"type": "object", "properties": dict.fromkeys(_FIELDS, _AMOUNT_TEXT), "additionalProperties": False},
)


_ROUND_ROBIN = "round-robin"
_LAYOUT = {"per_node", "nodes", "round_robin", "geometry"}
_MEGABYTE = 2**20
MOST_INTEGER = 2**63 - 1  # that TOML has
_SIDE = re.compile(r"-?[0-9]{1,20}\Z")
_LIMIT_FIX = 'write a number, or "soft:hard", for example nofile = 1024 or as = "4 GB:8 GB"'
Limits = tuple[ResourceLimit, ...]


def parse_distribution(value: Any) -> Distribution:
    """Read a table of per_node, nodes, round_robin and geometry; a text may be round-robin.

    Raises:  BadRequest ``distribution``.
    """
    if value == _ROUND_ROBIN:
        return Distribution(round_robin=True)
    fix = 'write {per_node = 2}, {nodes = 3}, {geometry = [[1, 2], [3]]} or "round-robin"'
    if not isinstance(value, dict):
        refuse("distribution", f"{shown(value)} is not a distribution of processes over nodes", fix)
    for key in value:
        if key not in _LAYOUT:
            meant = nearest_name(key, _LAYOUT)
            hint = f"did you mean {meant!r}?" if meant else fix
            refuse("distribution", f"there is no {key[:60]!r} in a distribution", hint)
    return Distribution(
        per_node=_count(value, "per_node"),
        nodes=_count(value, "nodes"),
        round_robin=_flag(value.get("round_robin", False)),
        geometry=_geometry(value.get("geometry", [])),
    )


def _count(table: Mapping[str, Any], key: str) -> int:
    count = table.get(key, 1)
    if type(count) is not int:
        refuse("distribution", f"{key} is {shown(count)}, not a whole number", f"write {key} = 2")
    if count == 0:
        refuse("distribution", f"{key} is 0", f"write 1 or more, or leave {key} out")
    return int(count) if key in table else 0


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        refuse("distribution", f"round_robin is {shown(value)}", "write true or false, without quotes")
    return value


def _geometry(value: Any) -> tuple[tuple[int, ...], ...]:
    fix = "write the numbers of the processes that share a node: [[1, 2], [3]]"
    for row in value if isinstance(value, list) else [value]:
        if not isinstance(row, list) or not all(type(one) is int for one in row):
            refuse("distribution", "geometry is no list of lists of numbers", fix)
    return tuple(tuple(row) for row in value)


def format_distribution(layout: Distribution) -> dict[str, Any]:
    """Write a distribution as `parse_distribution` reads it, only what it says."""
    written = {
        "per_node": layout.per_node,
        "nodes": layout.nodes,
        "round_robin": layout.round_robin,
        "geometry": [list(row) for row in layout.geometry],
    }
    return {key: value for key, value in written.items() if value}


def parse_limits(value: Any) -> Limits:
    """Read a table of names with limits, or a list of ``name=limit``; a number is both soft and hard.

    Raises:  BadRequest ``resource-limit``.
    """
    if isinstance(value, dict):
        return tuple(_limit(name, said) for name, said in value.items())
    if not isinstance(value, list) or not all(isinstance(one, str) and "=" in one for one in value):
        refuse("resource-limit", f"{shown(value)} is no table of limits", _LIMIT_FIX)
    return tuple(_limit(name, said) for name, _, said in (one.rpartition("=") for one in value))


def _limit(name: str, value: Any) -> ResourceLimit:
    if type(value) not in (int, str):
        refuse("resource-limit", f"{name}: {shown(value)} is no limit", _LIMIT_FIX)
    soft, colon, hard = (part.strip() for part in str(value).partition(":"))
    return ResourceLimit(name, _side(name, soft), _side(name, hard if colon else soft))


def _side(name: str, text: str) -> int | None:
    if not text:
        return None
    if _SIDE.match(text):
        return int(text)
    try:
        return parse_memory(text) * _MEGABYTE
    except BadRequest as wrong:
        raise BadRequest(
            code="resource-limit", what=f"{name}: {shown(text)} is no limit", fix=_LIMIT_FIX
        ) from wrong


def format_limits(limits: Limits) -> dict[str, int | str] | list[str]:
    """Write limits as `parse_limits` reads them; a list, when one name is there twice."""
    table = {one.name: _written(one) for one in limits}
    if len(table) == len(limits):
        return table
    return [f"{one.name}={_written(one)}" for one in limits]


def _written(limit: ResourceLimit) -> int | str:
    if limit.soft == limit.hard and limit.soft is not None:
        return limit.soft if abs(limit.soft) <= MOST_INTEGER else str(limit.soft)
    return f"{'' if limit.soft is None else limit.soft}:{'' if limit.hard is None else limit.hard}"


_NUMBER = {"type": "integer", "minimum": 0}
_LIMIT = {"type": ["integer", "string"]}
DISTRIBUTION = NativeValue(
    'a table of per_node, nodes, round_robin, geometry; or "round-robin"',
    parse_distribution,
    format_distribution,
    {
        "anyOf": [
            {"const": _ROUND_ROBIN},
            {
                "type": "object",
                "properties": {
                    "per_node": {"description": "number on each node", **_NUMBER, "minimum": 1},
                    "nodes": {"description": "evenly over this number of nodes", **_NUMBER, "minimum": 1},
                    "round_robin": {
                        "description": "one on each node before the second on any",
                        "type": "boolean",
                    },
                    "geometry": {
                        "description": "for each node, the numbers of its processes, from 1",
                        "type": "array",
                        "items": {"type": "array", "items": {"type": "integer"}},
                    },
                },
                "additionalProperties": False,
            },
        ]
    },
)
LIMITS = NativeValue(
    "names of limits with a number, or soft:hard",
    parse_limits,
    format_limits,
    {
        "anyOf": [
            {"type": "object", "additionalProperties": _LIMIT},
            {"type": "array", "items": {"type": "string"}},
        ]
    },
)
