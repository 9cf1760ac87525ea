"""What is asked for processes, in the native form: how they are laid on nodes, and their limits.

>>> parse_limits({"nofile": 1024, "as": "1 GB:2 GB", "cpu": ":600"})[1:]
(ResourceLimit(name='as', soft=1073741824, hard=2147483648), ResourceLimit(name='cpu', soft=None, hard=600))
"""

import re
from collections.abc import Mapping
from typing import Any

from headnode.core.formats.native_form.quantities import parse_memory, refuse, shown
from headnode.core.formats.native_form.rows import Value
from headnode.core.formats.nearest import nearest
from headnode.core.model.errors import BadRequest
from headnode.core.model.limits import ResourceLimit
from headnode.core.model.task import Distribution

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
            meant = nearest(key, _LAYOUT)
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
DISTRIBUTION = Value(
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
LIMITS = Value(
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
