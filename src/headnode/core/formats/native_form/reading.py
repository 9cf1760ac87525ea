"""Reading the native form."""

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from headnode.core.formats.fidelity import Report
from headnode.core.formats.json_text import Path
from headnode.core.formats.native_form.keys import JOB_ROWS, MEANT, SIZES, TASK_ONLY, TASK_ROWS, TASKS
from headnode.core.formats.native_form.quantities import shown
from headnode.core.formats.native_form.rows import Row
from headnode.core.formats.native_form.texts import Found, read_text
from headnode.core.formats.nearest import nearest
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import JobSpec, UnitType
from headnode.core.model.task import TaskSpec, TaskType

Fields = dict[str, Any]
_RUNNABLE = (TaskType.BASIC, TaskType.SWEEP)


def read_job(data: bytes | str) -> tuple[JobSpec, Report]:
    """Read a job in the native form, TOML or JSON.  The report is empty: all of it is understood.

    Raises:  BadRequest with line and column: ``not-toml`` or as `read_json`, ``not-a-job``, ``unknown-key``
             (with the nearest right one), ``unit-mismatch``, ``misplaced-key``, or what is wrong with
             a value.
    """
    return _Reader(read_text(data)).job(), ()


class _Reader:
    """Reads one file."""

    def __init__(self, text: Found) -> None:
        self._text = text
        self._unit: UnitType | None = None

    def job(self) -> JobSpec:
        """Return the job."""
        found = self._text.value
        if not isinstance(found, dict):
            self._refuse((), "not-a-job", "the file is not a table of keys", 'write command = "./run"')
        own = [key for key in found if key in TASK_ONLY]
        if own and TASKS in found:
            what = f"{own[0]!r} stands in the job, which has tasks of its own"
            self._refuse((own[0],), "misplaced-key", what, f"write it below [[{TASKS}]]")
        of_task = {key for key in found if key in TASK_ONLY or (own and key in SIZES)}
        fields = self._fields({key: found[key] for key in found if key not in of_task}, JOB_ROWS, "job", ())
        if own:
            task = self._task({key: found[key] for key in found if key in of_task}, "job", ())
            tasks: tuple[TaskSpec, ...] = (task,)
        else:
            tasks = tuple(self._tasks(found.get(TASKS, [])))
        return JobSpec(**fields, unit=self._unit or UnitType.PROCESSOR, tasks=tasks)

    def _tasks(self, found: Any) -> Iterable[TaskSpec]:
        if not isinstance(found, list):
            self._refuse((TASKS,), "value", f"{TASKS} is {shown(found)}, not a list", f"write [[{TASKS}]]")
        for number, one in enumerate(found):
            path: Path = (TASKS, number)
            if not isinstance(one, dict):
                what = f"task {number + 1} is {shown(one)}, not a table"
                self._refuse(path, "value", what, f'write [[{TASKS}]], and below it command = "./run"')
            yield self._task(one, f"task {number + 1}", path)

    def _task(self, found: Mapping[str, Any], whose: str, path: Path) -> TaskSpec:
        fields = self._fields(found, TASK_ROWS, whose, path)
        if "sweep" in found:
            fields.setdefault("kind", TaskType.SWEEP)
        fields.setdefault("rerunnable", fields.get("kind", TaskType.BASIC) in _RUNNABLE)
        for bound in ("minimum", "maximum"):
            if fields.get(bound, 1) is None:
                key = next(key for key in SIZES if key in found)
                what = f"{whose}: {key} leaves the size of a task open"
                self._refuse((*path, key), "size", what, 'write numbers, for example 4 or "2-8"')
        return TaskSpec(**fields)

    def _fields(self, found: Mapping[str, Any], rows: Mapping[str, Row], whose: str, path: Path) -> Fields:
        """Read every key by its row."""
        fields: Fields = {}
        for key, value in found.items():
            if key == TASKS and whose == "job":
                continue
            row = rows.get(key)
            if row is None:
                self._refuse_key(key, rows, whose, path)
            if key in SIZES:
                self._count(key, found, whose, path)
            read = self._value(row, value, whose, (*path, key))
            fields |= zip(row.filled, read if len(row.filled) > 1 else (read,), strict=True)
        return fields

    def _count(self, key: str, found: Mapping[str, Any], whose: str, path: Path) -> None:
        """Take what a size counts as that of the file, or refuse another one."""
        others = [size for size in SIZES if size != key and (size in found or SIZES[size] is self._unit)]
        if others:
            what = f"{whose}: {key} beside {others[0]}: a job and its tasks count one of them"
            fix = f"write {others[0]} here too, or {key} everywhere"
            self._refuse((*path, key), "unit-mismatch", what, fix)
        self._unit = SIZES[key]

    def _value(self, row: Row, value: Any, whose: str, path: Path) -> Any:
        try:
            return row.value.read(value)
        except BadRequest as wrong:
            self._refuse(path, wrong.code, f"{whose}: {row.key}: {wrong.what}", wrong.fix)

    def _refuse_key(self, key: str, rows: Mapping[str, Row], whose: str, path: Path) -> NoReturn:
        known = (*rows, *TASK_ONLY, TASKS) if whose == "job" else tuple(rows)
        meant = MEANT.get(key.lower(), "")
        meant = meant if meant in known else nearest(key, known)
        if whose != "job" and not meant and (key in JOB_ROWS or key == TASKS):
            fix = f"it belongs to the job: write it above the first [[{TASKS}]]"
        elif meant:
            fix = f"did you mean {meant!r}?"
        else:
            fix = f"the keys are {', '.join(known)}"
        self._refuse((*path, key), "unknown-key", f"{whose}: there is no key {key[:60]!r}", fix)

    def _refuse(self, path: Path, code: str, what: str, fix: str) -> NoReturn:
        raise BadRequest(code=code, what=f"{self._text.find(path)}: {what}", fix=fix)
