"""Requirements of nodes and processes in the native form: features, speed, held memory, layout, limits.

>>> LIMITS.read({"nofile": 1024, "as": "1 GB:2 GB", "cpu": ":600"})[1:]
(ResourceLimit(name='as', soft=1073741824, hard=2147483648), ResourceLimit(name='cpu', soft=None, hard=600))
>>> RESOURCE_VALUES["features"].read(["gpu", ["big", "huge"]])
(('gpu',), ('big', 'huge'))
>>> SPEED.read("2.4 GHz"), SPEED.write(2400)
(2400, '2400 MHz')
>>> RESOURCE_VALUES["held"].read({"memory": "20 GB"}).memory
20480
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta

from headnode.core.formats.native.values import FLAG, MEMORY
from headnode.core.formats.text.key_tables import KeyRow, KeyTable, KeyValue
from headnode.core.formats.text.quantities import format_memory, parse_memory, refuse, shown
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import HeldAmounts
from headnode.core.model.task import Distribution, ResourceLimit

_SPEED = re.compile(r"\s*([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*([mg])hz\s*\Z", re.IGNORECASE)
_MEGABYTE = 2**20
MOST_INTEGER = 2**63 - 1  # that TOML has
Features = tuple[tuple[str, ...], ...]
Limits = tuple[ResourceLimit, ...]


def _features(value: Any) -> Features:
    """Return features, all of which a node must have; a list inside the list is a choice."""
    wanted = [value] if isinstance(value, str) else value
    return tuple((one,) if isinstance(one, str) else tuple(one) for one in wanted)


def _write_features(features: Features) -> str | list[str | list[str]]:
    written = [one[0] if len(one) == 1 else list(one) for one in features]
    return written[0] if len(written) == 1 and isinstance(written[0], str) else written


def _speed(value: str) -> int:
    """Return a speed in MHz."""
    found = _SPEED.match(value)
    speed = float(found[1]) * (1000 if found[2] in "gG" else 1) if found else 0.5
    if abs(speed - round(speed)) > 1e-6:
        raise SPEED.refusal(value)
    return round(speed)


SPEED = KeyValue(
    "a speed: 2400 MHz, 2.4 GHz",
    str,
    'write whole MHz with the unit, for example "2400 MHz" or "2.4 GHz"',
    _speed,
    lambda megahertz: f"{megahertz} MHz",
    code="speed",
)

_HELD_FIX = 'write {memory = "20 GB"}'
_HELD = KeyTable(
    f"a table of {', '.join(HeldAmounts.__struct_fields__)}",
    [
        KeyRow(key=field, value=MEMORY, help=f"{field} of each node")
        for field in HeldAmounts.__struct_fields__
    ],
    "held",
)


def _write_held(held: HeldAmounts) -> dict[str, str]:
    amounts = {field: getattr(held, field) for field in _HELD.by_key}
    return {field: format_memory(amount) for field, amount in amounts.items() if amount}


_ROUND_ROBIN = "round-robin"
_COUNT = KeyValue("a whole number of at least 1", Annotated[int, Meta(ge=1)], "write 2, or leave it out")
_GEOMETRY = KeyValue(
    "a list of lists of numbers",
    list[list[int]],
    "write the numbers of the processes that share a node: [[1, 2], [3]]",
    lambda value: tuple(map(tuple, value)),
)
_LAYOUT = KeyTable(
    "a distribution of processes over nodes",
    [
        KeyRow(key="per_node", value=_COUNT, help="number on each node"),
        KeyRow(key="nodes", value=_COUNT, help="evenly over this number of nodes"),
        KeyRow(key="round_robin", value=FLAG, help="one on each node before the second on any"),
        KeyRow(key="geometry", value=_GEOMETRY, help="for each node, the numbers of its processes, from 1"),
    ],
    "distribution",
)
_LAYOUT_FIX = 'write {per_node = 2}, {nodes = 3}, {geometry = [[1, 2], [3]]} or "round-robin"'


def _distribution(value: Any) -> Distribution:
    if value == _ROUND_ROBIN:
        return Distribution(round_robin=True)
    return Distribution(**_LAYOUT.read(value, _LAYOUT_FIX, "distribution"))


def _write_distribution(layout: Distribution) -> dict[str, Any]:
    written = {key: getattr(layout, key) for key in _LAYOUT.by_key}
    written["geometry"] = list(map(list, layout.geometry))
    return {key: value for key, value in written.items() if value}


_SIDE = re.compile(r"-?[0-9]{1,20}\Z")
_LIMIT_FIX = 'write a number, or "soft:hard", for example nofile = 1024 or as = "4 GB:8 GB"'


def _limits(value: Any) -> Limits:
    """Return limits, of a table or a list of ``name=limit``; a number is both soft and hard."""
    if isinstance(value, dict):
        return tuple(_limit(name, said) for name, said in value.items())
    if not all("=" in one for one in value):
        raise LIMITS.refusal(value)
    return tuple(_limit(name, said) for name, _, said in (one.rpartition("=") for one in value))


def _limit(name: str, value: int | str) -> ResourceLimit:
    soft, colon, hard = (part.strip() for part in str(value).partition(":"))
    return ResourceLimit(name, _side(name, soft), _side(name, hard if colon else soft))


def _side(name: str, text: str) -> int | None:
    if not text:
        return None
    if _SIDE.match(text):
        return int(text)
    try:
        return parse_memory(text) * _MEGABYTE
    except BadRequest:
        refuse("resource-limit", f"{name}: {shown(text)} is no limit", _LIMIT_FIX)


def _write_limits(limits: Limits) -> dict[str, int | str] | list[str]:
    """Write limits as a table, or as a list when one name is there twice."""
    table = {one.name: _write_limit(one) for one in limits}
    if len(table) == len(limits):
        return table
    return [f"{one.name}={_write_limit(one)}" for one in limits]


def _write_limit(limit: ResourceLimit) -> int | str:
    if limit.soft == limit.hard and limit.soft is not None:
        return limit.soft if abs(limit.soft) <= MOST_INTEGER else str(limit.soft)
    return f"{'' if limit.soft is None else limit.soft}:{'' if limit.hard is None else limit.hard}"


LIMITS = KeyValue(
    "names of limits with a number, or soft:hard",
    dict[str, int | str] | list[str],
    _LIMIT_FIX,
    _limits,
    _write_limits,
    code="resource-limit",
    part=KeyValue("a limit", int | str),
)

RESOURCE_VALUES: Mapping[str, KeyValue] = {
    "features": KeyValue(
        "a feature, or a list of them; a list inside is a choice",
        str | list[str | list[str]],
        'write ["gpu", "big"] for both of them, [["gpu", "big"]] for either',
        _features,
        _write_features,
        code="features",
        part=KeyValue("a feature, nor a list of features to choose from", str | list[str]),
    ),
    "held": KeyValue(
        "a table of memory, disk and swap with amounts",
        Any,
        make=lambda value: HeldAmounts(**_HELD.read(value, _HELD_FIX)),
        write=_write_held,
        inside=_HELD.form,
    ),
    "distribution": KeyValue(
        'a table of per_node, nodes, round_robin, geometry; or "round-robin"',
        Any,
        make=_distribution,
        write=_write_distribution,
        inside=Literal["round-robin"] | _LAYOUT.form,
    ),
    "speed": SPEED,
    "limits": LIMITS,
}
"""How values are read and written here, by their form in the catalogue."""
