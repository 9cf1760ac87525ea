"""One object of a description that is being translated: what it says, where it stands, what became of it."""

from enum import Enum, auto
from typing import Any, NamedTuple, NoReturn

import msgspec

from headnode.core.formats.fidelity import Kind
from headnode.core.formats.grid.page import Findings, Page
from headnode.core.formats.grid.rows import Row, Table
from headnode.core.formats.json_text import Path

_EMPTY: tuple[Any, ...] = ("", {}, [])


class Behaviour(Enum):
    """Where the published description and the Pilot service differ, which of them is followed.

    PUBLISHED: names of environment variables become upper case; a path without a storage base is ignored.
    PILOT: names stay as they are written; a path without a storage base is refused.
    """

    PUBLISHED = auto()
    PILOT = auto()


class Source(NamedTuple):
    """An object at `path` of a page.  `whose` is how a person would call it."""

    page: Page
    path: Path
    whose: str
    found: dict[str, Any]
    findings: Findings

    def tell(self, kind: Kind, key: str, what: str, same: str = "") -> None:
        """Say what became of a key; `same` is all that it shares with others like it."""
        what = f"{key}: {what}"
        if not self.findings.again(kind, same or what):
            self.findings.add(self.page, kind, self.whose, what, (*self.path, key), same)

    def refuse(self, key: str, code: str, what: str, fix: str) -> NoReturn:
        """Refuse the description for a key.

        Raises:  BadRequest, always, with line and column.
        """
        self.page.refuse((*self.path, key), code, f"{self.whose}: {what}", fix)

    def kept(self, table: Table, prefix: str = "") -> dict[str, str]:
        """Return the extensions for what is always kept, and report what always becomes the same.

        An empty value says nothing, and is not kept.
        """
        found = self.found
        outline = self.findings.outline(self.page, table, found, self.whose, self.path)
        return {prefix + key: as_extension(found[key]) for key in outline.kept if found[key] not in _EMPTY}


def as_extension(value: Any) -> str:
    """Write a value as an extension: text as it is, all else as JSON."""
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


def from_extension(row: Row, text: str) -> Any:
    """Read a value that `as_extension` wrote; None when it is not one of the row's values."""
    value: Any = text
    if row.value.fault(value) is not None:
        try:
            value = msgspec.json.decode(text)
        except msgspec.MsgspecError:
            return None
    return value if row.value.fault(value) is None else None
