"""What a row of the tables is: one key of the native form, its values, and the fields it fills."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec


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
    fields: tuple[str, ...] = ()  # of JobSpec or TaskSpec; () means: the one that is called like the key
    example: Any = None

    @property
    def filled(self) -> tuple[str, ...]:
        """The fields that the key fills; several are read and written as a tuple."""
        return self.fields or (self.key,)


def by_key(*rows: Row) -> Mapping[str, Row]:
    """Return rows by their keys."""
    return {row.key: row for row in rows}
