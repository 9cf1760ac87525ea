"""A description that is read: its text with positions, its objects, and the findings about them.

Its keys and values are checked by the tables, and its tasks as a graph without circles.
"""

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Any, NamedTuple, NoReturn

import msgspec

from headnode.core.formats.fidelity import CountedItems, Fidelity, FidelityReport, ReportItem
from headnode.core.formats.grid.keys import (
    ITEM_ROWS,
    JOB_ROWS,
    REQUIREMENT_ROWS,
    TASK_ROWS,
    GridRole,
    GridRow,
    GridTable,
)
from headnode.core.formats.text.json_text import JsonText, read_json
from headnode.core.formats.text.source_text import nearest_name
from headnode.core.model.bounds import UNREADABLE
from headnode.core.model.errors import BadRequest, Path, TextPosition
from headnode.core.model.value_checks import find_cycle


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

    __slots__ = ("becomes", "kept", "more")

    def __init__(self, table: GridTable, keys: Iterable[str]) -> None:
        rows = [row for row in map(table.by_key.__getitem__, keys) if row.becomes]
        self.becomes = [(row.kind, row.key, row.becomes) for row in rows]
        self.kept = [row.key for row in rows if row.role is GridRole.KEPT]
        self.more = 0


class GridFindings(CountedItems):
    """Collects findings for the report: a finding of several tasks is reported once, with their number."""

    def __init__(self) -> None:
        super().__init__()
        self._outlines: dict[tuple[str, tuple[str, ...]], KeyOutcomes] = {}

    def add_at(
        self, page: GridText, kind: Fidelity, where: str, what: str, path: Path, alike: Hashable = None
    ) -> None:
        """Add a finding about what stands at `path` of page; those of one `alike` are counted together."""
        self.add(kind, lambda: page.item(kind, where, what, path), alike or (kind, what))

    def outline(
        self, page: GridText, table: GridTable, values: Mapping[str, Any], whose: str, path: Path
    ) -> KeyOutcomes:
        """Add what always becomes of the keys of an object, and return which of them are kept."""
        alike = table.title, tuple(values)
        outline = self._outlines.get(alike)
        if outline is None:
            outline = self._outlines[alike] = KeyOutcomes(table, values)
            for kind, key, what in outline.becomes:
                self.add_at(page, kind, whose, f"{key}: {what}", (*path, key), (kind, key, what))
        else:
            outline.more += 1
        return outline

    def report(self) -> FidelityReport:
        """Return all findings, in the order in which they were made."""
        for outline in self._outlines.values():
            for alike in outline.becomes:
                self.again(alike, outline.more)
            outline.more = 0
        return super().report()


BASE, ATTEMPTS = "default_storage_base", "max_transfer_attempts"
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
    values: dict[str, Any]
    findings: GridFindings

    def report(self, kind: Fidelity, key: str, what: str, same: str = "") -> None:
        """Say what became of a key; `same` is all that it shares with others like it."""
        alike = kind, key, same or what  # not the sentence itself: most are only counted
        if not self.findings.again(alike):
            path = (*self.path, key)
            self.findings.add_at(self.page, kind, self.whose, f"{key}: {what}", path, alike)

    def refuse(self, key: str, code: str, what: str, fix: str) -> NoReturn:
        """Refuse the description for a key.

        Raises:  BadRequest, always, with line and column.
        """
        self.page.refuse((*self.path, key), code, f"{self.whose}: {what}", fix)

    def kept(self, table: GridTable, prefix: str = "") -> dict[str, str]:
        """Return the extensions for what is always kept, and report what always becomes the same.

        An empty value says nothing, and is not kept.
        """
        found = self.values
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
    except UNREADABLE:
        return None
    return value if row.value.accepts(value) else None


Items = Sequence[dict[str, Any]]
_SHOWN_TASKS = 12


def check_graph(page: GridText, job: dict[str, Any]) -> None:
    """Refuse ids that are there twice, unknown children and members of groups, and circles.

    Raises:  BadRequest ``id-twice``, ``unknown-task``, ``dependency-circle``, with line and column.
    Cost:    O(tasks + children).
    """
    items: Items = job["tasks"]
    numbers: dict[str, int] = {}
    for number, item in enumerate(items):
        first = numbers.setdefault(item["id"], number)
        if first != number:
            before = page.place_of(("tasks", first, "id"))
            what = f"a second task with the id {item['id']!r}, after the one at {before}"
            page.refuse(("tasks", number, "id"), "id-twice", what, "give each task an id of its own")
    for number, item in enumerate(items):
        whose = f"task {item['id']!r}"
        _check_known(page, item.get("children", ()), numbers, whose, ("tasks", number, "children"))
    for number, group in enumerate(job.get("groups", ())):
        _check_known(page, group, numbers, f"group {number + 1}", ("groups", number))
    _check_circle(page, items, numbers)


def _check_known(page: GridText, ids: Sequence[str], numbers: dict[str, int], whose: str, path: Path) -> None:
    for at, name in enumerate(ids):
        if name not in numbers:
            meant = nearest_name(name, numbers)
            known = ", ".join(list(numbers)[:_SHOWN_TASKS]) + (", ..." if len(numbers) > _SHOWN_TASKS else "")
            fix = f"did you mean {meant!r}?" if meant else f"the ids are {known}"
            page.refuse((*path, at), "unknown-task", f"{whose} names {name[:60]!r}, which is not a task", fix)


def _check_circle(page: GridText, items: Items, numbers: dict[str, int]) -> None:
    circle = find_cycle({item["id"]: item.get("children", ()) for item in items})
    if not circle:
        return
    first = circle[0]
    at = list(items[numbers[first]]["children"]).index(circle[1])
    page.refuse(
        ("tasks", numbers[first], "children", at),
        "dependency-circle",
        f"the tasks wait for each other in a circle: {circle_text(circle)}",
        "remove one of these children",
    )


def connects(groups: Sequence[Sequence[str]], every: Iterable[str]) -> bool:
    """Whether groups that share tasks bring all tasks together.

    >>> connects([["a", "b"], ["b", "c"]], "abc"), connects([["a", "b"], ["c", "d"]], "abcd")
    (True, False)
    """
    parents: dict[str, str] = {}

    def first(name: str) -> str:
        while parents.get(name, name) != name:
            parents[name] = name = parents[parents[name]]
        return name

    for group in groups:
        for name in group:
            parents[first(name)] = first(group[0])
    return len({first(name) for name in every}) == 1 and bool(groups)


def circle_text(circle: Iterable[str]) -> str:
    """Write a circle; a long one with its middle left out.

    >>> circle_text(["a", "b", "a"])
    'a -> b -> a'
    """
    names = list(circle)
    if len(names) > _SHOWN_TASKS:
        names[_SHOWN_TASKS // 2 : 1 - _SHOWN_TASKS // 2] = ["..."]
    return " -> ".join(names)


Found = dict[str, Any]
Check = Callable[[Found, str, Path], Found]
"""Returns an object whose form is right.  It is called so by a person, and stands there."""
_SHOWN_CHARACTERS = 60


class GridChecker:
    """Checks the objects of one page.  `lenient` repairs what is beyond doubt, and reports it."""

    def __init__(self, page: GridText, findings: GridFindings, *, lenient: bool) -> None:
        self._page, self._findings, self._lenient = page, findings, lenient

    def job(self, found: Found) -> Found:
        """Return a job whose form is right."""
        if JOB_ROWS.accepts(found) and not any(map(_is_defined_twice, found["tasks"])):
            return found
        job = self._object(found, JOB_ROWS, "job", ())
        tasks = [self._item(item, ("tasks", number)) for number, item in enumerate(job["tasks"])]
        return self._with_requirements(job, "job", ()) | {"tasks": tasks}

    def task(self, found: Found, whose: str, path: Path) -> Found:
        """Return a task definition whose form is right."""
        if TASK_ROWS.accepts(found):
            return found
        task = self._object(found, TASK_ROWS, whose, path)
        return self._with_requirements(task, whose, path)

    def _item(self, found: Found, path: Path) -> Found:
        whose = called(found)
        if self._lenient and "executable" in found and "definition" not in found:
            found = self._dressed(found, whose, path)
        item = self._object(found, ITEM_ROWS, whose, path)
        if _is_defined_twice(item):
            self._page.refuse(
                (*path, "filename"),
                "given-twice",
                f"{whose} has a definition and a filename",
                "remove one of them",
            )
        return self._with("definition", self.task, item, whose, path)

    def _dressed(self, found: Found, whose: str, path: Path) -> Found:
        """Return a task whose definition was written into it."""
        what = "the keys of the definition are in the task itself: they are read as its definition"
        self._findings.add_at(self._page, Fidelity.TRANSLATED, whose, what, (*path, "executable"))
        own = {key: value for key, value in found.items() if key in ITEM_ROWS.by_key}
        rest = {key: value for key, value in found.items() if key not in own}
        return own | {"definition": {"version": 2} | rest}

    def _with_requirements(self, found: Found, whose: str, path: Path) -> Found:
        return self._with("requirements", self._requirements, found, whose, path)

    def _requirements(self, found: Found, whose: str, path: Path) -> Found:
        return self._object(found, REQUIREMENT_ROWS, f"requirements of {whose}", path)

    def _with(self, key: str, check: Check, found: Found, whose: str, path: Path) -> Found:
        """Return an object whose part `key`, if there is one, is right too."""
        part = found.get(key)
        if part is None:
            return found
        checked = check(part, whose, (*path, key))
        return found if checked is part else found | {key: checked}

    def _object(self, found: Found, table: GridTable, whose: str, path: Path) -> Found:
        """Return the object as it is; a new one when something had to be repaired."""
        for key, value in found.items():
            row = table.by_key.get(key)
            if row is None:
                return self._repaired(found, key, table, whose, path)
            if not row.value.accepts(value):
                wrong, inside = row.value.refusal(value, "an object"), (*path, key)
                what, fix = f"{whose}: {key}: {wrong.what}", f"for {key!r}, {wrong.fix}"
                self._page.refuse((*inside, *wrong.path), "value", what, fix)
        missing = next((row for row in table.rows if row.required and row.key not in found), None)
        if missing:
            fix = f"add {missing.key!r}: {missing.value.fix}"
            self._page.refuse(path, "missing-key", f"{whose} has no {missing.key!r}", fix)
        return found

    def _repaired(self, found: Found, key: str, table: GridTable, whose: str, path: Path) -> Found:
        """Return the object with a key that is not known replaced by the one that was meant, or refuse it."""
        meant = nearest_name(key, table.by_key)
        if not (self._lenient and meant and meant not in found):
            self._refuse_key(key, meant, table, whose, path)
        what = f"{key!r} is not known: it is read as {meant!r}"
        self._findings.add_at(self._page, Fidelity.APPROXIMATED, whose, what, (*path, key))
        renamed = {meant if name == key else name: value for name, value in found.items()}
        return self._object(renamed, table, whose, path)

    def _refuse_key(self, key: str, meant: str, table: GridTable, whose: str, path: Path) -> NoReturn:
        kind = table.title if table.title.endswith("s") else f"a {table.title}"
        if key in table.elsewhere:
            fix = f"it belongs in the {table.elsewhere[key]}"
        elif meant:
            fix = f"did you mean {meant!r}?"
        else:
            fix = f"the keys of {kind} are {', '.join(table.by_key)}"
            fix += "; 'meta' may contain anything" if "meta" in table.by_key else ""
        self._page.refuse(
            (*path, key),
            "unknown-key",
            f"{whose}: {key[:_SHOWN_CHARACTERS]!r} is not a key of {kind}",
            fix,
        )


def _is_defined_twice(item: Found) -> bool:
    return "definition" in item and "filename" in item


def called(item: Found) -> str:
    """Return how a person would call a task of a job."""
    return f"task {str(item['id'])[:_SHOWN_CHARACTERS]!r}" if "id" in item else "a task without an id"
