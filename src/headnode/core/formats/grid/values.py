"""The kinds of values in a grid description, and the rows of its tables: a key, its values, its effect."""

import re
from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import Annotated, Any, Literal

from msgspec import Meta

from headnode.core.formats.fidelity import Fidelity
from headnode.core.formats.text.key_tables import KeyRow, KeyTable, KeyValue, described_form

MOST_CODE = 2**32 - 1  # an exit code without sign
MOST_COUNT = 2**31 - 1
ID = re.compile(r"[A-Za-z0-9_-]+")
_END = r"$(?!\n)"
"""The end of a text: for msgspec, as for Python, ``$`` alone is also before a newline at the end."""

_QUOTED, _BRACES = "write it in double quotes", "write it in braces: {...}"
TEXT = KeyValue("text", str, _QUOTED)
SOME_TEXT = KeyValue("text that is not empty", Annotated[str, Meta(min_length=1)], _QUOTED)
URI = KeyValue("text, a URI", described_form({"format": "uri"}, str), "write it as gsiftp://host/directory/")
VERSION = KeyValue("the number 2", Literal[2], "write 2")
FLAG = KeyValue("true or false", bool, "write true or false")
INTEGER = KeyValue(
    "a whole number",
    Annotated[int, Meta(ge=-MOST_COUNT - 1, le=MOST_COUNT)],
    "write a whole number, without quotes",
)
AMOUNT = KeyValue(
    "a whole number of at least 0",
    Annotated[int, Meta(ge=0, le=MOST_COUNT)],
    "write 0 or more, without quotes",
)
EXIT_CODE = KeyValue(
    "an exit code without sign",
    Annotated[int, Meta(ge=0, le=MOST_CODE)],
    f"write a number from 0 to {MOST_CODE}, without quotes",
)
JOB_TYPE = KeyValue(
    "one of single, mpi, openmp, hybrid",
    Literal["single", "mpi", "openmp", "hybrid"],
    "write single, mpi, openmp, hybrid",
)
NAME = KeyValue(
    "an id",
    Annotated[str, Meta(pattern=f"^{ID.pattern}{_END}")],
    "write letters of ASCII, digits, '-' and '_'",
)
TEXTS = KeyValue("a list of texts", list[str], 'write texts in brackets: ["-n", "4"]', part=TEXT)
_HOST = KeyValue("a name", Annotated[str, Meta(pattern=rf"^[^\s,]+{_END}")])
HOSTS = KeyValue(
    "a list of host names",
    Annotated[list[_HOST.form], Meta(min_length=1)],  # type: ignore[name-defined]  # made at run time
    'write at least one name in brackets: ["n1"]',
    part=_HOST,
)
IDS = KeyValue("a list of task ids", list[str], 'write ids in brackets: ["b", "c"]', part=TEXT)
_GROUP = KeyValue("a group of two task ids or more", Annotated[list[str], Meta(min_length=2)], part=TEXT)
GROUPS = KeyValue(
    "a list of groups of task ids",
    Annotated[list[_GROUP.form], Meta(min_length=1)],  # type: ignore[name-defined]  # made at run time
    'write groups of two tasks or more, in brackets: [["a", "b"]]',
    part=_GROUP,
)
ENVIRONMENT = KeyValue(
    "names with texts", dict[str, str | int], 'write {"NAME": "text"}', part=KeyValue("text", str | int)
)
FILES = KeyValue(
    "names of files with paths or URLs",
    dict[str, str],
    'write {"file": "path or URL"}',
    part=KeyValue("a path or URL", str),
)
ANYTHING = KeyValue("an object", dict[str, Any], "write it in braces")


def object_of(table: KeyTable["GridRow"], title: str) -> KeyValue:
    """Return the kind of an object that has rows of its own, by which it is checked."""
    return KeyValue(title, dict, _BRACES, inside=table.form)


def objects_of(table: KeyTable["GridRow"], title: str, fix: str) -> KeyValue:
    """Return the kind of a list of at least one object with rows of its own."""
    least = Meta(min_length=1)
    inside = Annotated[list[table.form], least]  # type: ignore[name-defined]  # made at run time
    return KeyValue(
        title,
        Annotated[list[dict[str, Any]], least],
        fix,
        part=KeyValue("an object", dict, _BRACES),
        inside=inside,
    )


class GridRole(Enum):
    """What becomes of a key in the model."""

    FORM = auto()  # it belongs to the form of the document: its version, its parts
    FIELD = auto()  # it has a typed field
    KEPT = auto()  # it has no effect here; it is kept in the extensions and written back


class GridRow(KeyRow, frozen=True, kw_only=True):
    """One key; its help names the source."""

    field: str = ""  # of JobSpec or TaskSpec, in words for the reference page
    role: GridRole = GridRole.FIELD
    kind: Fidelity = Fidelity.KEPT
    becomes: str = ""  # said once in the report of a read; "": the code that reads the key says it
    substituted: bool = False  # ``{name}`` in its texts is replaced


class GridTable(KeyTable[GridRow]):
    """The keys of one kind of object; `elsewhere` has keys that people write here, and where they belong."""

    def __init__(
        self, title: str, name: str, rows: Iterable[GridRow], elsewhere: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(title, rows, name)
        self.elsewhere = elsewhere or {}
