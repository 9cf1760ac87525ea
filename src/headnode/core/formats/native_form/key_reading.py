"""Reading one table of keys by its rows; what is wrong is said with line and column."""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from headnode.core.formats.json_text import Path
from headnode.core.formats.native_form.keys import (
    ALTERNATIVES,
    JOB_ROWS,
    MEANT,
    OF_TASKS,
    SIZES,
    TASK_ONLY,
    TASKS,
)
from headnode.core.formats.native_form.quantities import shown
from headnode.core.formats.native_form.rows import Row, gathered
from headnode.core.formats.native_form.texts import Found
from headnode.core.formats.nearest import nearest
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import UnitType

Fields = dict[str, Any]
_SHOWN = 30
_JOB_KEYS = (*JOB_ROWS, *TASK_ONLY, TASKS, ALTERNATIVES)


class KeyReader:
    """Reads the tables of one job, in which all sizes count the same: `unit`, when there is any."""

    def __init__(self, text: Found, unit: UnitType | None = None) -> None:
        self._text = text
        self.unit = unit

    def another(self) -> "KeyReader":
        """Return a reader of the same text that has met no size yet."""
        return KeyReader(self._text)

    def fields(self, found: Mapping[str, Any], rows: Mapping[str, Row], whose: str, path: Path) -> Fields:
        """Read every key by its row."""
        fields: Fields = {}
        for key, value in found.items():
            row = rows.get(key)
            if row is None:
                self._refuse_key(key, rows, whose, path)
            if key in SIZES:
                self._count(key, found, whose, path)
            read = self.value(row, value, whose, (*path, key))
            fields |= zip(row.filled, read if len(row.filled) > 1 else (read,), strict=True)
        return gathered(fields)

    def tables(self, found: Any, name: str, path: Path, example: str) -> Sequence[Mapping[str, Any]]:
        """Return a list of tables as it is."""
        if not isinstance(found, list):
            self.refuse(path, "value", f"{name} is {shown(found)}, not a list", f"write [[{name}]]")
        for number, one in enumerate(found):
            if not isinstance(one, dict):
                what = f"{name.removesuffix('s')} {number + 1} is {shown(one)}, not a table"
                self.refuse((*path, number), "value", what, f"write [[{name}]], and below it {example}")
        return found

    def value(self, row: Row, value: Any, whose: str, path: Path) -> Any:
        """Read one value."""
        try:
            return row.value.read(value)
        except BadRequest as wrong:
            self.refuse(path, wrong.code, f"{whose}: {row.key}: {wrong.what}", wrong.fix)

    def refuse(self, path: Path, code: str, what: str, fix: str) -> NoReturn:
        """Refuse the file for what stands at `path`.

        Raises:  BadRequest, always, with line and column.
        """
        raise BadRequest(code=code, what=f"{self._text.find(path)}: {what}", fix=fix)

    def _count(self, key: str, found: Mapping[str, Any], whose: str, path: Path) -> None:
        """Take what a size counts as that of the job, or refuse another one."""
        others = [size for size in SIZES if size != key and (size in found or SIZES[size] is self.unit)]
        if others:
            what = f"{whose}: {key} beside {others[0]}: a job and its tasks count one of them"
            fix = f"write {others[0]} here too, or {key} everywhere"
            self.refuse((*path, key), "unit-mismatch", what, fix)
        self.unit = SIZES[key]

    def _refuse_key(self, key: str, rows: Mapping[str, Row], whose: str, path: Path) -> NoReturn:
        is_job = rows is JOB_ROWS
        known = _JOB_KEYS if is_job else tuple(rows)
        meant = MEANT.get(key.lower(), "")
        meant = meant if meant in known else OF_TASKS.get(meant, "")
        meant = meant if meant in known else nearest(key, known)
        if not is_job and not meant and key in _JOB_KEYS:
            fix = f"it belongs to the job: write it above the first [[{TASKS}]]"
        elif meant:
            fix = f"did you mean {meant!r}?"
        else:
            more = "; hn check --schema native shows all" if len(known) > _SHOWN else ""
            fix = f"the keys are {', '.join(known[:_SHOWN])}{more}"
        self.refuse((*path, key), "unknown-key", f"{whose}: there is no key {key[:60]!r}", fix)
