"""A JSON text that is read: what is found in it, and what is wrong with it, each with its place."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from headnode.core.formats.fidelity import Item, Kind, Report
from headnode.core.formats.grid.rows import Role, Table
from headnode.core.formats.json_text import JsonText, Path, read_json
from headnode.core.model.errors import BadRequest


class Page:
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

    def inside(self, *steps: str) -> "Page":
        """Return the same text, where what is read begins further inside."""
        return Page(self._text, self._file, (*self._below, *steps))

    def refuse(self, path: Path, code: str, what: str, fix: str) -> NoReturn:
        """Refuse the text for what stands at `path`.

        Raises:  BadRequest, always, with line and column.
        """
        raise BadRequest(code=code, what=f"{self.place(path)}: {what}", fix=fix)

    def place(self, path: Path) -> str:
        """Return the place of `path` as it is written in front of a sentence."""
        place = self._text.find((*self._below, *path))
        return f"file {self._file!r}, {place}" if self._file else str(place)

    def item(self, kind: Kind, where: str, what: str, path: Path) -> Item:
        """Return a finding about what stands at `path`."""
        place = self._text.find((*self._below, *path))
        return Item(kind, f"{where} in {self._file!r}" if self._file else where, what, *place)


def read_page(data: bytes | str, file: str = "") -> Page:
    """Read a JSON text.

    Raises:  BadRequest as `read_json`; with the name of the file in front, if it has one.
    """
    try:
        return Page(read_json(data), file)
    except BadRequest as wrong:
        if not file:
            raise
        raise BadRequest(code=wrong.code, what=f"file {file!r}, {wrong.what}", fix=wrong.fix) from wrong


class Outline:
    """What always becomes of the keys of objects that have the same ones; there are `more` than the first."""

    __slots__ = ("kept", "more", "told")

    def __init__(self, table: Table, keys: Iterable[str]) -> None:
        rows = [row for row in map(table.by_key.__getitem__, keys) if row.becomes]
        self.told = [(row.key, row.kind, f"{row.key}: {row.becomes}") for row in rows]
        self.kept = [row.key for row in rows if row.role is Role.KEPT]
        self.more = 0


class Findings:
    """The report in the making: what is the same with several tasks is said once, with their number."""

    def __init__(self) -> None:
        self._first: dict[tuple[Kind, str], tuple[Page, str, Path, str]] = {}
        self._times: dict[tuple[Kind, str], int] = {}
        self._outlines: dict[tuple[str, tuple[str, ...]], Outline] = {}

    def add(self, page: Page, kind: Kind, where: str, what: str, path: Path, same: str = "") -> None:
        """Add a finding about what stands at `path` of `page`; `same` is all that others like it share."""
        if not self.again(kind, same or what):
            key = (kind, same or what)
            self._first[key] = (page, where, path, what)
            self._times[key] = 1

    def again(self, kind: Kind, same: str) -> bool:
        """Count a finding if one like it was made before, and return whether it was."""
        key = (kind, same)
        times = self._times.get(key)
        if times is None:
            return False
        self._times[key] = times + 1
        return True

    def outline(self, page: Page, table: Table, found: Mapping[str, Any], whose: str, path: Path) -> Outline:
        """Add what always becomes of the keys of an object, and return which of them are kept."""
        alike = table.title, tuple(found)
        outline = self._outlines.get(alike)
        if outline is None:
            outline = self._outlines[alike] = Outline(table, found)
            for key, kind, what in outline.told:
                self.add(page, kind, whose, what, (*path, key))
        else:
            outline.more += 1
        return outline

    def report(self) -> Report:
        """Return all findings, in the order in which they were made."""
        for outline in self._outlines.values():
            for _, kind, what in outline.told:
                self._times[kind, what] += outline.more
            outline.more = 0
        return tuple(self._item(key, *first) for key, first in self._first.items())

    def _item(self, key: tuple[Kind, str], page: Page, where: str, path: Path, what: str) -> Item:
        times = self._times[key]
        return page.item(key[0], where, f"{what} ({times} times, here first)" if times > 1 else what, path)
