"""``{name}`` in a description becomes the value of the name.

Source: the Pilot command line, which replaced the names that it was given.  It left others as they were, to
fail on the node; here they are refused, unless no values are given at all: braces are no names then.
"""

import re
from collections.abc import Mapping
from typing import Any

from headnode.core.formats.fidelity import Kind
from headnode.core.formats.grid.keys import JOB_ROWS, TASK_ROWS
from headnode.core.formats.grid.page import Findings, Page
from headnode.core.formats.grid.rows import Row, Table
from headnode.core.formats.json_text import Path

_NAME = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
Found = dict[str, Any]


class Substitution:
    """Puts values in for names, wherever the tables allow it.  Without values nothing is replaced."""

    def __init__(self, page: Page, findings: Findings, variables: Mapping[str, str]) -> None:
        self._page, self._findings, self._variables = page, findings, variables
        self._looks = bool(variables) or page.says(_NAME)

    def job(self, job: Found) -> Found:
        """Return the job with values for names in it and in the definitions that are written in it.

        Raises:  BadRequest ``no-value`` for a name without one, when there are values; ``given-twice``.
        """
        if not self._looks:
            return job
        tasks = [self._item(item, number) for number, item in enumerate(job["tasks"])]
        return self._object(job, JOB_ROWS, "job", ()) | {"tasks": tasks}

    def task(self, task: Found, whose: str, path: Path = ()) -> Found:
        """Return a task definition with values for names; raises as `job`."""
        return self._object(task, TASK_ROWS, whose, path) if self._looks else task

    def _item(self, item: Found, number: int) -> Found:
        if "definition" not in item:
            return item
        whose, path = f"task {item['id']!r}", ("tasks", number, "definition")
        return item | {"definition": self.task(item["definition"], whose, path)}

    def _object(self, found: Found, table: Table, whose: str, path: Path) -> Found:
        changed = {
            key: self._value(value, table.by_key[key], whose, (*path, key))
            for key, value in found.items()
            if table.by_key[key].substituted
        }
        return found | changed

    def _value(self, value: Any, row: Row, whose: str, path: Path) -> Any:
        match value:
            case str():
                return self._text(value, whose, path)
            case list():
                return [self._value(part, row, whose, (*path, at)) for at, part in enumerate(value)]
            case dict():
                return self._pairs(value, row, whose, path)
        return value

    def _pairs(self, pairs: Mapping[str, Any], row: Row, whose: str, path: Path) -> Found:
        """Replace in values, and in names too, but not in those of variables of the environment."""
        replaced: Found = {}
        for name, value in pairs.items():
            inside = (*path, name)
            new = name if row.key == "environment" else self._text(name, whose, inside)
            if new in replaced:
                what = f"{whose}: {name!r} becomes {new!r}, which already exists"
                self._page.refuse(inside, "given-twice", what, "give the names other values")
            replaced[new] = self._value(value, row, whose, inside)
        return replaced

    def _text(self, text: str, whose: str, path: Path) -> str:
        def value_of(name: re.Match[str]) -> str:
            if name[1] in self._variables:
                return self._variables[name[1]]
            if self._variables:
                what = f"{whose}: {name[0]} has no value"
                fix = f"add --set {name[1]}=VALUE; to keep the braces: --set {name[1]}='{name[0]}'"
                self._page.refuse(path, "no-value", what, fix)
            what = f"{name[0]} stays as it is; to put in a value: --set {name[1]}=VALUE"
            self._findings.add(self._page, Kind.NOTE, whose, what, path)
            return name[0]

        return _NAME.sub(value_of, text) if "{" in text else text
