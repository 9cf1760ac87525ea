"""What a row of the tables is: one key of a grid description, its values, and what becomes of it."""

from collections.abc import Mapping
from enum import Enum, auto

import msgspec

from headnode.core.formats.fidelity import Kind
from headnode.core.formats.grid.values import Value


class Role(Enum):
    """What becomes of a key in the model."""

    FORM = auto()  # it belongs to the form of the document: its version, its parts
    FIELD = auto()  # it has a typed field
    KEPT = auto()  # it has no effect here; it is kept in the extensions and written back


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One key.  Rows stand in the order in which documents are written."""

    key: str
    value: Value
    source: str
    field: str = ""  # of JobSpec or TaskSpec, in words for the reference page
    role: Role = Role.FIELD
    kind: Kind = Kind.KEPT
    becomes: str = ""  # said once in the report of a read; "": the code that reads the key says it
    required: bool = False
    substituted: bool = False  # ``{name}`` in its texts is replaced


class Table(msgspec.Struct, frozen=True):
    """The keys of one kind of object; no others may be in it."""

    title: str  # what a person calls the object
    by_key: Mapping[str, Row]
    elsewhere: Mapping[str, str]  # keys that people write here, and where they belong
    required: frozenset[str]
    plain: Mapping[str, type]  # for keys of which every value of a type is right, that type

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows in the order in which documents are written."""
        return tuple(self.by_key.values())


def table(title: str, *rows: Row, elsewhere: Mapping[str, str] | None = None) -> Table:
    """Return the table of `rows`."""
    required = frozenset(row.key for row in rows if row.required)
    plain = {row.key: row.value.plain for row in rows if row.value.plain is not None}
    return Table(title, {row.key: row for row in rows}, elsewhere or {}, required, plain)
