"""A description that is read: its text with positions, its objects, and the findings about them."""

import re
from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import Any, NamedTuple, NoReturn

import msgspec

from headnode.core.formats.fidelity import CountedItems, Fidelity, FidelityReport, ReportItem
from headnode.core.formats.grid.keys import GridRole, GridRow, GridTable
from headnode.core.formats.text.json_text import JsonText, read_json
from headnode.core.model.errors import BadRequest, Path, TextPosition


class GridText:
    """One text.  `file` is the name of a file that a job refers to; "" for the text of the job itself."""

    def __init__(self, text: JsonText, file: str = "", below: Path = ()) -> None:
        self._text, self._file, self._below = text, file, below

    @property
    def value(self) -> Any:
        """What the text says, below where the description begins."""
        value = self._text.value
        for step in self._below:
            value = value[step]
        return value

    def says(self, pattern: re.Pattern[str]) -> bool:
        """Return whether the text as it is written has a match of `pattern`."""
        return pattern.search(self._text.text) is not None

    def inside(self, *steps: str) -> "GridText":
        """Return the same text, where what is read begins further inside."""
        return GridText(self._text, self._file, (*self._below, *steps))

    def refuse(self, path: Path, code: str, what: str, fix: str) -> NoReturn:
        """Refuse the text for what stands at `path`.

        Raises:  BadRequest, always, with line and column.
        """
        raise BadRequest(code=code, what=what, fix=fix, place=self.place_of(path), file=self._file)

    def place_of(self, path: Path) -> TextPosition:
        """Return the place of what stands at `path`."""
        return self._text.place_of((*self._below, *path))

    def item(self, kind: Fidelity, where: str, what: str, path: Path) -> ReportItem:
        """Return a finding about what stands at `path`."""
        whose = f"{where} in {self._file!r}" if self._file else where
        return ReportItem(kind, whose, what, *self.place_of(path))


def read_grid_text(data: bytes | str, file: str = "") -> GridText:
    """Read a JSON text.

    Raises:  BadRequest as `read_json`; with the name of the file in front, if it has one.
    """
    try:
        return GridText(read_json(data), file)
    except BadRequest as wrong:
        if not file:
            raise
        raise BadRequest(
            code=wrong.code, what=wrong.sentence, fix=wrong.fix, place=wrong.place, file=file
        ) from wrong


class KeyOutcomes:
    """What always becomes of the keys of objects that have the same ones; there are `more` than the first."""

    __slots__ = ("kept", "more", "told")

    def __init__(self, table: GridTable, keys: Iterable[str]) -> None:
        rows = [row for row in map(table.by_key.__getitem__, keys) if row.becomes]
        self.told = [(row.key, row.kind, f"{row.key}: {row.becomes}") for row in rows]
        self.kept = [row.key for row in rows if row.role is GridRole.KEPT]
        self.more = 0


class GridFindings(CountedItems):
    """The report in the making: what is the same with several tasks is said once, with their number."""

    def __init__(self) -> None:
        super().__init__()
        self._outlines: dict[tuple[str, tuple[str, ...]], KeyOutcomes] = {}

    def add_at(
        self, page: GridText, kind: Fidelity, where: str, what: str, path: Path, same: str = ""
    ) -> None:
        """Add a finding about what stands at `path` of page; `same` is all that others like it share."""
        self.add(kind, lambda: page.item(kind, where, what, path), (kind, same or what))

    def outline(
        self, page: GridText, table: GridTable, found: Mapping[str, Any], whose: str, path: Path
    ) -> KeyOutcomes:
        """Add what always becomes of the keys of an object, and return which of them are kept."""
        alike = table.title, tuple(found)
        outline = self._outlines.get(alike)
        if outline is None:
            outline = self._outlines[alike] = KeyOutcomes(table, found)
            for key, kind, what in outline.told:
                self.add_at(page, kind, whose, what, (*path, key))
        else:
            outline.more += 1
        return outline

    def report(self) -> FidelityReport:
        """Return all findings, in the order in which they were made."""
        for outline in self._outlines.values():
            for _, kind, what in outline.told:
                self.again((kind, what), outline.more)
            outline.more = 0
        return super().report()


_EMPTY: tuple[Any, ...] = ("", {}, [])


class Behaviour(Enum):
    """Where the published description and the Pilot service differ, which of them is followed.

    PUBLISHED: names of environment variables become upper case; a path without a storage base is ignored.
    PILOT: names stay as they are written; a path without a storage base is refused.
    """

    PUBLISHED = auto()
    PILOT = auto()


class GridObject(NamedTuple):
    """An object at `path` of a page.  `whose` is how a person would call it."""

    page: GridText
    path: Path
    whose: str
    found: dict[str, Any]
    findings: GridFindings

    def tell(self, kind: Fidelity, key: str, what: str, same: str = "") -> None:
        """Say what became of a key; `same` is all that it shares with others like it."""
        what = f"{key}: {what}"
        if not self.findings.again((kind, same or what)):
            self.findings.add_at(self.page, kind, self.whose, what, (*self.path, key), same)

    def refuse(self, key: str, code: str, what: str, fix: str) -> NoReturn:
        """Refuse the description for a key.

        Raises:  BadRequest, always, with line and column.
        """
        self.page.refuse((*self.path, key), code, f"{self.whose}: {what}", fix)

    def kept(self, table: GridTable, prefix: str = "") -> dict[str, str]:
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


def from_extension(row: GridRow, text: str) -> Any:
    """Read a value that `as_extension` wrote; None when it is not one of the row's values."""
    if row.value.accepts(text):
        return text
    try:
        value = msgspec.json.decode(text)
    except msgspec.MsgspecError:
        return None
    return value if row.value.accepts(value) else None
