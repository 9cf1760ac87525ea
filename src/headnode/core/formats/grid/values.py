"""The kinds of values in a grid description: how they are checked, and their JSON Schema."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from headnode.core.formats.json_text import Path

MOST_CODE = 2**32 - 1  # an exit code without sign
MOST_COUNT = 2**31 - 1
ID = re.compile(r"[A-Za-z0-9_-]+")
WHOLE: Path = ()
"""The way to the whole value, when no part of it is to blame."""

Schema = Mapping[str, Any]


class Value(msgspec.Struct, frozen=True):
    """A kind of value.  `fault` returns the way to what is wrong in a value, or None."""

    title: str
    schema: Schema
    fault: Callable[[Any], Path | None]
    fix: str


def _is_text(value: Any) -> bool:
    return type(value) is str


def _single(title: str, schema: Schema, fits: Callable[[Any], bool], fix: str) -> Value:
    return Value(title, schema, lambda value: None if fits(value) else WHOLE, fix)


def _first_wrong(parts: Iterable[tuple[str | int, Any]], fits: Callable[[Any], bool]) -> Path | None:
    return next(((step,) for step, part in parts if not fits(part)), None)


def _list_of(item: Value, title: str, fix: str, *, least: int = 0) -> Value:
    def fault(value: Any) -> Path | None:
        if type(value) is not list or len(value) < least:
            return WHOLE
        for number, part in enumerate(value):
            inner = item.fault(part)
            if inner is not None:
                return (number, *inner)
        return None

    schema = {"type": "array", "items": item.schema} | ({"minItems": least} if least else {})
    return Value(title, schema, fault, fix)


def _object_of(schema: Schema, fits: Callable[[Any], bool], title: str, fix: str) -> Value:
    def fault(value: Any) -> Path | None:
        return _first_wrong(value.items(), fits) if type(value) is dict else WHOLE

    return Value(title, {"type": "object", "additionalProperties": schema}, fault, fix)


def _whole(title: str, least: int, most: int, fix: str) -> Value:
    schema = {"type": "integer", "minimum": least, "maximum": most}
    return _single(title, schema, lambda value: type(value) is int and least <= value <= most, fix)


def _part(name: str, title: str) -> Value:
    """Return an object that has a table of its own, by which it is checked."""
    schema = {"$ref": f"#/$defs/{name}"}
    return _single(title, schema, lambda value: type(value) is dict, "write it in braces: {...}")


TEXT = _single("text", {"type": "string"}, _is_text, "write it in double quotes")
SOME_TEXT = _single(
    "text that is not empty",
    {"type": "string", "minLength": 1},
    lambda value: _is_text(value) and value != "",
    "write it in double quotes",
)
URI = _single(
    "text, a URI", {"type": "string", "format": "uri"}, _is_text, "write it as gsiftp://host/directory/"
)
VERSION = _single("the number 2", {"const": 2}, lambda value: type(value) is int and value == 2, "write 2")
FLAG = _single("true or false", {"type": "boolean"}, lambda value: type(value) is bool, "write true or false")
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
    lambda value: _is_text(value) and ID.fullmatch(value) is not None,
    "write letters of ASCII, digits, '-' and '_'",
)
TEXTS = _list_of(TEXT, "a list of texts", 'write texts in brackets: ["-n", "4"]')
HOSTS = _list_of(
    _single("a name", {"type": "string", "pattern": r"^[^\s,]+$"}, lambda v: _is_text(v) and _is_name(v), ""),
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
    lambda value: type(value) in (str, int),
    "names with texts",
    'write {"NAME": "text"}',
)
FILES = _object_of(
    {"type": "string"}, _is_text, "names of files with paths or URLs", 'write {"file": "path or URL"}'
)
ANYTHING = _single("an object", {"type": "object"}, lambda value: type(value) is dict, "write it in braces")
TASKS = _list_of(_part("item", "a task"), "a list of tasks", "write at least one task in brackets", least=1)
DEFINITION = _part("task", "the definition of a task")
REQUIREMENTS = _part("requirements", "an object of requirements")


def _is_name(name: str) -> bool:
    return bool(name) and "," not in name and not any(part.isspace() for part in name)
