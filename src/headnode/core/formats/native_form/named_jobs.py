"""Jobs to wait for that the cluster finds by name or by the submitter's id, in the native form.

>>> parse_named_jobs([{"name": "mesh"}, {"id": "sim-1", "condition": "OnExit"}])[1].by_id
True
"""

from collections.abc import Mapping
from typing import Any

from headnode.core.formats.native_form.quantities import one_of, refuse, shown
from headnode.core.formats.native_form.rows import Value
from headnode.core.model.named_parents import Condition, NamedParent

_NAME, _ID, _CONDITION = "name", "id", "condition"
_CONDITIONS = {condition.value: condition for condition in Condition}
_FIX = 'write [{name = "mesh"}], or [{id = "sim-1", condition = "OnExit"}]'
_TEXT = {"type": "string"}


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
    "properties": {_NAME: _TEXT, _ID: _TEXT, _CONDITION: {"enum": list(_CONDITIONS)}},
    "oneOf": [{"required": [_NAME]}, {"required": [_ID]}],
    "additionalProperties": False,
}
NAMED_JOBS = Value(
    "a list of tables with a name or an id, and a condition",
    parse_named_jobs,
    format_named_jobs,
    {"anyOf": [_TABLE, {"type": "array", "items": _TABLE}]},
)
