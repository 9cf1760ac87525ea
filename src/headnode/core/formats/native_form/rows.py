"""What a row of the tables is: one key of the native form, its values, and the fields it fills."""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

import msgspec

from headnode.core.model.node_needs import NodeNeeds

NEEDS = "needs"
"""The field that holds what is demanded of nodes; its own fields are keys beside the others."""


class Value(msgspec.Struct, frozen=True):
    """A kind of value: how it is read from a file and written into one, and its JSON Schema.

    `read` raises BadRequest without a place; whoever reads the file adds it.
    """

    title: str
    read: Callable[[Any], Any]
    write: Callable[[Any], Any]
    schema: Mapping[str, Any]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One key.  Rows stand in the order in which files are written."""

    key: str
    value: Value
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


def by_key(*rows: Row) -> Mapping[str, Row]:
    """Return rows by their keys."""
    return {row.key: row for row in rows}


def gathered(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields with those inside needs put together."""
    inner = {field: value for field, value in fields.items() if field.startswith(f"{NEEDS}.")}
    if not inner:
        return dict(fields)
    needs = NodeNeeds(**{field.removeprefix(f"{NEEDS}."): value for field, value in inner.items()})
    return {field: value for field, value in fields.items() if field not in inner} | {NEEDS: needs}
