"""What a job holds of each of its nodes, in the native form.

>>> parse_held({"memory": "20 GB"}).memory
20480
"""

from typing import Any

from headnode.core.formats.native_form.quantities import format_memory, parse_memory, refuse, shown
from headnode.core.formats.native_form.rows import Value
from headnode.core.model.held import Held

_FIELDS = Held.__struct_fields__
_TEXT = {"type": "string"}


def parse_held(value: Any) -> Held:
    """Read a table of memory, disk and swap.

    Raises:  BadRequest ``value``.
    """
    if not isinstance(value, dict) or not value.keys() <= set(_FIELDS):
        refuse("value", f"{shown(value)} is not a table of {', '.join(_FIELDS)}", 'write {memory = "20 GB"}')
    return Held(**{name: parse_memory(said) for name, said in value.items()})


def format_held(held: Held) -> dict[str, str]:
    """Write what a job holds as `parse_held` reads it, only what is held."""
    amounts = {name: getattr(held, name) for name in _FIELDS}
    return {name: format_memory(amount) for name, amount in amounts.items() if amount}


HELD = Value(
    "a table of memory, disk and swap with amounts",
    parse_held,
    format_held,
    {"type": "object", "properties": dict.fromkeys(_FIELDS, _TEXT), "additionalProperties": False},
)
