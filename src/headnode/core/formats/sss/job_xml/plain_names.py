"""Properties that are nothing but the text of their element, as nearly all are: found once for each name.

Source: SSS 3.1.0, Tables 25-1 to 25-6.
"""

from collections.abc import Callable, Hashable
from typing import Any

import msgspec

from headnode.core.formats.sss.conditions import Extension
from headnode.core.formats.sss.consumables import Charge, Consumable
from headnode.core.formats.sss.properties import Property
from headnode.core.formats.sss.rows import Place, Row
from headnode.core.formats.sss.selections import Selection
from headnode.core.formats.sss.streams import Notifications, Stream
from headnode.core.formats.sss.structured_rows import ADAPTER, NETWORK
from headnode.core.formats.sss.tables import SPELLINGS
from headnode.core.formats.sss.value_types import STRING
from headnode.core.formats.sss.versions import Version

_SHAPES = (Property, Charge, Consumable, Selection, Stream, Notifications, Extension)
"""The structs that need no attribute and no more than their value."""


class PlainName(msgspec.Struct):
    """A name of a property: its row, the version it is of, and what may stand only once; None: any number.

    `called` is its name in 3.1.0; `read` is None where the text is the value; `heard` is how often the
    document has it.
    """

    name: str
    row: Row
    version: Version | None
    key: Hashable
    called: str
    shape: type[Property]
    read: Callable[[str], Any] | None
    is_program: bool
    heard: int = 0


def plain_names(place: Place, prefix: str) -> dict[str, PlainName]:
    """Return the names of such properties in `place`, by the tags in a namespace that `prefix` says."""
    return {
        f"{prefix}{name}": PlainName(
            name,
            row,
            spelling.version,
            key_of(row.shape(name=row.name), place, row),
            row.name,
            row.shape,
            None if row.type is STRING else row.type.read,
            is_program=row.name == "Executable",
        )
        for name, spelling in SPELLINGS[place].items()
        if (row := spelling.row).shape in _SHAPES and row not in (NETWORK, ADAPTER) and not spelling.alias
    }


def key_of(found: Property, place: Place, row: Row) -> Hashable:
    """Return what may stand only once in a place; None when any number of it may."""
    if place is Place.REQUESTED:
        return None
    if isinstance(found, Consumable):
        return (row.name, found.metric, getattr(found, "called", ""), getattr(found, "type", ""))
    return None if row.many else (row.name,)
