"""The kinds of values in a grid description, and the rows of its tables: a key, its values, its effect."""

import re
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Any

import msgspec

from headnode.core.formats.fidelity import Fidelity
from headnode.core.model.errors import Path

MOST_CODE = 2**32 - 1  # an exit code without sign
MOST_COUNT = 2**31 - 1
ID = re.compile(r"[A-Za-z0-9_-]+")
WHOLE: Path = ()
"""The way to the whole value, when no part of it is to blame."""

Schema = Mapping[str, Any]


class GridValue(msgspec.Struct, frozen=True):
    """A kind of value.  `fault` returns the way to what is wrong in a value, or None.

    `plain` is a type of which every value is right; what is of another may still be.
    """

    title: str
    schema: Schema
    fault: Callable[[Any], Path | None]
    fix: str
    plain: type | None = None


def _single(title: str, schema: Schema, fits: Callable[[Any], bool], fix: str) -> GridValue:
    return GridValue(title, schema, lambda value: None if fits(value) else WHOLE, fix)


def _any_of(plain: type, title: str, schema: Schema, fix: str) -> GridValue:
    return GridValue(title, schema, lambda value: None if type(value) is plain else WHOLE, fix, plain)


def _list_of(item: GridValue, title: str, fix: str, *, least: int = 0) -> GridValue:
    def fault(value: Any) -> Path | None:
        if type(value) is not list or len(value) < least:
            return WHOLE
        if item.plain is not None and set(map(type, value)) <= {item.plain}:
            return None
        for number, part in enumerate(value):
            inner = item.fault(part)
            if inner is not None:
                return (number, *inner)
        return None

    schema = {"type": "array", "items": item.schema} | ({"minItems": least} if least else {})
    return GridValue(title, schema, fault, fix)


def _object_of(schema: Schema, types: frozenset[type], title: str, fix: str) -> GridValue:
    def fault(value: Any) -> Path | None:
        if type(value) is not dict:
            return WHOLE
        if types.issuperset(map(type, value.values())):
            return None
        return next((key,) for key, part in value.items() if type(part) not in types)

    return GridValue(title, {"type": "object", "additionalProperties": schema}, fault, fix)


def _whole(title: str, least: int, most: int, fix: str) -> GridValue:
    schema = {"type": "integer", "minimum": least, "maximum": most}
    return _single(title, schema, lambda value: type(value) is int and least <= value <= most, fix)


def _part(name: str, title: str) -> GridValue:
    """Return an object that has a table of its own, by which it is checked."""
    schema = {"$ref": f"#/$defs/{name}"}
    return _any_of(dict, title, schema, "write it in braces: {...}")


TEXT = _any_of(str, "text", {"type": "string"}, "write it in double quotes")
SOME_TEXT = _single(
    "text that is not empty",
    {"type": "string", "minLength": 1},
    lambda value: type(value) is str and value != "",
    "write it in double quotes",
)
URI = _any_of(str, "text, a URI", {"type": "string", "format": "uri"}, "write it as gsiftp://host/directory/")
VERSION = _single("the number 2", {"const": 2}, lambda value: type(value) is int and value == 2, "write 2")
FLAG = _any_of(bool, "true or false", {"type": "boolean"}, "write true or false")
INTEGER = _whole("a whole number", -MOST_COUNT - 1, MOST_COUNT, "write a whole number, without quotes")
AMOUNT = _whole("a whole number of at least 0", 0, MOST_COUNT, "write 0 or more, without quotes")
EXIT_CODE = _whole(
    "an exit code without sign", 0, MOST_CODE, f"write a number from 0 to {MOST_CODE}, without quotes"
)
JOB_TYPES = ("single", "mpi", "openmp", "hybrid")
JOB_TYPE = _single(
    f"one of {', '.join(JOB_TYPES)}",
    {"enum": list(JOB_TYPES)},
    lambda value: value in JOB_TYPES,
    f"write {', '.join(JOB_TYPES)}",
)
NAME = _single(
    "an id",
    {"type": "string", "pattern": f"^{ID.pattern}$"},
    lambda value: type(value) is str and ID.fullmatch(value) is not None,
    "write letters of ASCII, digits, '-' and '_'",
)
TEXTS = _list_of(TEXT, "a list of texts", 'write texts in brackets: ["-n", "4"]')
HOSTS = _list_of(
    _single("a name", {"type": "string", "pattern": r"^[^\s,]+$"}, lambda v: _is_name(v), ""),
    "a list of host names",
    'write at least one name in brackets: ["n1"]',
    least=1,
)
IDS = _list_of(TEXT, "a list of task ids", 'write ids in brackets: ["b", "c"]')
GROUPS = _list_of(
    _list_of(TEXT, "a group", "", least=2),
    "a list of groups of task ids",
    'write groups of two tasks or more, in brackets: [["a", "b"]]',
    least=1,
)
ENVIRONMENT = _object_of(
    {"type": ["string", "integer"]},
    frozenset((str, int)),
    "names with texts",
    'write {"NAME": "text"}',
)
FILES = _object_of(
    {"type": "string"},
    frozenset((str,)),
    "names of files with paths or URLs",
    'write {"file": "path or URL"}',
)
ANYTHING = _any_of(dict, "an object", {"type": "object"}, "write it in braces")
TASKS = _list_of(_part("item", "a task"), "a list of tasks", "write at least one task in brackets", least=1)
DEFINITION = _part("task", "the definition of a task")
REQUIREMENTS = _part("requirements", "an object of requirements")


def _is_name(name: Any) -> bool:
    return type(name) is str and name != "" and "," not in name and not any(map(str.isspace, name))


class GridRole(Enum):
    """What becomes of a key in the model."""

    FORM = auto()  # it belongs to the form of the document: its version, its parts
    FIELD = auto()  # it has a typed field
    KEPT = auto()  # it has no effect here; it is kept in the extensions and written back


class GridRow(msgspec.Struct, frozen=True, kw_only=True):
    """One key.  Rows stand in the order in which documents are written."""

    key: str
    value: GridValue
    source: str
    field: str = ""  # of JobSpec or TaskSpec, in words for the reference page
    role: GridRole = GridRole.FIELD
    kind: Fidelity = Fidelity.KEPT
    becomes: str = ""  # said once in the report of a read; "": the code that reads the key says it
    required: bool = False
    substituted: bool = False  # ``{name}`` in its texts is replaced


class GridTable(msgspec.Struct, frozen=True):
    """The keys of one kind of object; no others may be in it."""

    title: str  # what a person calls the object
    by_key: Mapping[str, GridRow]
    elsewhere: Mapping[str, str]  # keys that people write here, and where they belong
    required: frozenset[str]
    plain: Mapping[str, type]  # for keys of which every value of a type is right, that type

    @property
    def rows(self) -> tuple[GridRow, ...]:
        """The rows in the order in which documents are written."""
        return tuple(self.by_key.values())


def table_of(title: str, *rows: GridRow, elsewhere: Mapping[str, str] | None = None) -> GridTable:
    """Return the table of rows."""
    required = frozenset(row.key for row in rows if row.required)
    plain = {row.key: row.value.plain for row in rows if row.value.plain is not None}
    return GridTable(title, {row.key: row for row in rows}, elsewhere or {}, required, plain)
