"""Read a table of keys by its rows; the alternatives of a job; dependencies between the jobs of a file."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from msgspec.structs import replace

from headnode.core.formats.native.keys import (
    ALTERNATIVE_ROWS,
    ALTERNATIVES,
    JOB_KEYS,
    JOBS_TABLE,
    OF_TASKS,
    RIGHT_NAMES,
    SIZES,
    TASK_ALTERNATIVE_ROWS,
    TASK_ONLY,
    TASKS,
)
from headnode.core.formats.native.values import NEEDS, NativeRow, with_needs_joined
from headnode.core.formats.text.quantities import shown
from headnode.core.formats.text.source_text import nearest_name
from headnode.core.formats.text.toml_text import PlacedValues
from headnode.core.model.dependency import DependencyLink
from headnode.core.model.errors import BadRequest, Path
from headnode.core.model.job import DEPENDENCY_FIELDS, Alternative, JobSpec, TaskAlternative, UnitType
from headnode.core.model.node_needs import ANY_NODE
from headnode.core.model.value_checks import find_cycle

Fields = dict[str, Any]
_SHOWN = 30
_KNOWN_JOB_KEYS = (*JOB_KEYS, *TASK_ONLY, TASKS, ALTERNATIVES)


class KeyReader:
    """Reads the tables of one job, in which all sizes count the same: `unit`, when there is any."""

    def __init__(self, text: PlacedValues, unit: UnitType | None = None) -> None:
        self._text = text
        self.unit = unit

    def another(self) -> "KeyReader":
        """Return a reader of the same text that has met no size yet."""
        return KeyReader(self._text)

    def fields(
        self, table: Mapping[str, Any], rows: Mapping[str, NativeRow], whose: str, path: Path
    ) -> Fields:
        """Read every key by its row."""
        fields: Fields = {}
        for key, value in table.items():
            row = rows.get(key)
            if row is None:
                self._refuse_key(key, rows, whose, path)
            if key in SIZES:
                self._count(key, table, whose, path)
            read = self.value(row, value, whose, (*path, key))
            if len(row.filled) == 1:
                fields[row.filled[0]] = read
            else:
                fields |= zip(row.filled, read, strict=True)
        return with_needs_joined(fields)

    def tables(self, value: Any, name: str, path: Path, example: str) -> Sequence[Mapping[str, Any]]:
        """Return a list of tables as it is."""
        if not isinstance(value, list):
            self.refuse(path, "value", f"{name} is {shown(value)}, not a list", f"write [[{name}]]")
        for number, one in enumerate(value):
            if not isinstance(one, dict):
                what = f"{name.removesuffix('s')} {number + 1} is {shown(one)}, not a table"
                self.refuse((*path, number), "value", what, f"write [[{name}]], and below it {example}")
        return value

    def value(self, row: NativeRow, value: Any, whose: str, path: Path) -> Any:
        """Read one value."""
        try:
            return row.value.read(value)
        except BadRequest as wrong:
            inside = (*path, *wrong.path)
            self.refuse(inside, wrong.code, f"{whose}: {row.key}: {wrong.what}", wrong.fix)

    def refuse(self, path: Path, code: str, what: str, fix: str) -> NoReturn:
        """Refuse the file for what stands at `path`.

        Raises:  BadRequest, always, with line and column.
        """
        raise BadRequest(code=code, what=what, fix=fix, path=path, place=self._text.place_of(path))

    def _count(self, key: str, table: Mapping[str, Any], whose: str, path: Path) -> None:
        """Take what a size counts as that of the job, or refuse another one."""
        others = [size for size in SIZES if size != key and (size in table or SIZES[size] is self.unit)]
        if others:
            what = f"{whose}: {key} beside {others[0]}: a job and its tasks count one of them"
            fix = f"write {others[0]} here too, or {key} everywhere"
            self.refuse((*path, key), "unit-mismatch", what, fix)
        self.unit = SIZES[key]

    def _refuse_key(self, key: str, rows: Mapping[str, NativeRow], whose: str, path: Path) -> NoReturn:
        is_job = rows is JOB_KEYS
        known = _KNOWN_JOB_KEYS if is_job else tuple(rows)
        meant = RIGHT_NAMES.get(key.lower(), "")
        meant = meant if meant in known else OF_TASKS.get(meant, "")
        meant = meant if meant in known else nearest_name(key, known)
        if not is_job and not meant and key in _KNOWN_JOB_KEYS:
            fix = f"it belongs to the job: write it above the first [[{TASKS}]]"
        elif meant:
            fix = f"did you mean {meant!r}?"
        else:
            more = "; hn check --schema native shows all" if len(known) > _SHOWN else ""
            fix = f"the keys are {', '.join(known[:_SHOWN])}{more}"
        self.refuse((*path, key), "unknown-key", f"{whose}: there is no key {key[:60]!r}", fix)


OF_THE_TASK = {*SIZES, *(TASK_ALTERNATIVE_ROWS.keys() - ALTERNATIVE_ROWS.keys())}
"""Keys that are said of the task in a file without tables of tasks."""

_ANY_NODE_KEY = "features"
"""Without a feature in it, the key says that any node will do, whatever the job says."""


def alternatives(
    value: Any, spec: JobSpec, reader: KeyReader, path: Path, *, alone: bool
) -> tuple[Alternative, ...]:
    """Read the alternatives of a job; `alone` says that its file has no tables of tasks.

    Raises:  BadRequest with line and column, as reading a job; ``tasks`` when an alternative has another
             number of tasks than the job.
    """
    tables = reader.tables(value, ALTERNATIVES, path, "processors = 2")
    return tuple(
        _read(one, spec, reader.another(), (*path, number), alone=alone) for number, one in enumerate(tables)
    )


def _read(
    table: Mapping[str, Any], spec: JobSpec, reader: KeyReader, path: Path, *, alone: bool
) -> Alternative:
    whose = f"alternative {int(path[-1]) + 1}"
    flat = alone and TASKS not in table
    of_task = {key: value for key, value in table.items() if flat and key in OF_THE_TASK}
    said = {key: value for key, value in table.items() if key != TASKS and key not in of_task}
    fields = reader.fields(said, ALTERNATIVE_ROWS, whose, path)
    tables = reader.tables(table.get(TASKS, []), TASKS, (*path, TASKS), "processors = 2")
    if tables and len(tables) != len(spec.tasks):
        what = f"{whose} has {len(tables)} tasks, and the job {len(spec.tasks)}"
        fix = "write one table for each task of the job, in their order, or none"
        reader.refuse((*path, TASKS), "tasks", what, fix)
    tasks = tuple(
        _task(one, reader, f"{whose}: task {number + 1}", (*path, TASKS, number))
        for number, one in enumerate(tables)
    )
    if of_task:
        tasks = (_task(of_task, reader, whose, path),)
        if None in (tasks[0].minimum, tasks[0].maximum) and of_task.keys() & SIZES.keys():
            what = f"{whose} gives no size for a task"
            reader.refuse(path, "size", what, 'write numbers, for example 4 or "2-8"')
    unit = reader.unit if reader.unit is not spec.unit else None
    return Alternative(**fields, unit=unit, tasks=tasks)


def _task(table: Mapping[str, Any], reader: KeyReader, whose: str, path: Path) -> TaskAlternative:
    return TaskAlternative(**reader.fields(table, TASK_ALTERNATIVE_ROWS, whose, path))


def fits_alone(one: Alternative) -> bool:
    """Whether an alternative can stand in a file without tables of tasks."""
    return (one.minimum, one.maximum) == (None, None) and (one.unit is None or _is_sized(one))


def _is_sized(one: Alternative) -> bool:
    return any(task.minimum is not None or task.maximum is not None for task in one.tasks)


def alternative_table(one: Alternative, spec: JobSpec, *, alone: bool) -> dict[str, Any]:
    """Return the keys and values of an alternative, only what it says."""
    unit = one.unit or spec.unit
    found = _stated_fields(one, ALTERNATIVE_ROWS, unit)
    if one.unit not in (None, spec.unit) and not _is_sized(one) and not any(key in found for key in SIZES):
        found = {_size_key(unit): "*"} | found
    tasks = [_stated_fields(task, TASK_ALTERNATIVE_ROWS, unit) for task in one.tasks]
    if alone and one.tasks and _is_flat(one.tasks[0], tasks[0]):
        return tasks[0] | found
    return found | ({TASKS: tasks} if tasks else {})


def _is_flat(task: TaskAlternative, keys: Mapping[str, Any]) -> bool:
    """Whether what an alternative says of the one task can stand among what it says of the job."""
    closed = (task.minimum is None) is (task.maximum is None)
    return closed and bool(keys) and keys.keys() <= OF_THE_TASK


def _stated_fields(
    one: Alternative | TaskAlternative, rows: Mapping[str, NativeRow], unit: UnitType
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, row in rows.items():
        if row.filled[0].startswith(f"{NEEDS}."):
            if one.needs is None or row.taken(one) == row.taken(_NOTHING):
                continue
        elif (key in SIZES and SIZES[key] is not unit) or all(value is None for value in row.taken(one)):
            continue
        found[key] = row.written(one)
    if one.needs == ANY_NODE:
        found[_ANY_NODE_KEY] = []
    return found


def _size_key(unit: UnitType) -> str:
    return next(key for key in SIZES if SIZES[key] is unit)


_NOTHING = Alternative(needs=ANY_NODE)


_SHOWN_LINKS = 12
ParentNames = dict[str, list[str]]
"""The names of jobs that a job waits for, by the key that says so."""


def links_by_name(
    jobs: Sequence[JobSpec], reader: KeyReader
) -> tuple[tuple[JobSpec, ...], tuple[DependencyLink, ...]]:
    """Return the jobs without the names that they wait for, and links in their place.

    Raises:  BadRequest with line and column: ``unknown-job``, ``name-twice``, ``dependency-circle``.
    """
    by_name: dict[str, list[int]] = {}
    for number, job in enumerate(jobs):
        by_name.setdefault(job.name, []).append(number)
    links: dict[DependencyLink, None] = {}
    found = []
    for child, job in enumerate(jobs):
        ids: dict[str, tuple[int, ...]] = {}
        for condition, field in DEPENDENCY_FIELDS.items():
            parents: tuple[Any, ...] = getattr(job, field)
            names = [one for one in parents if isinstance(one, str)]
            ids[field] = tuple(one for one in parents if not isinstance(one, str))
            for name in names:
                parent = _parent(name, by_name, reader, child, field)
                links[DependencyLink(child, parent, condition)] = None
        found.append(replace(job, **ids))
    _check_circle(jobs, tuple(links), reader)
    return tuple(found), tuple(links)


def _parent(name: str, by_name: Mapping[str, list[int]], reader: KeyReader, child: int, field: str) -> int:
    numbers = by_name.get(name, []) if name else []
    path = (JOBS_TABLE, child, field)
    whose = f"job {child + 1}: {field} names {name[:60]!r}"
    if not numbers:
        meant = nearest_name(name, [one for one in by_name if one])
        fix = (
            f"did you mean {meant!r}?"
            if meant
            else "write the name of a job of the file, a number, or named_parents"
        )
        reader.refuse(path, "unknown-job", f"{whose}, which is not a job of the file", fix)
    if len(numbers) > 1:
        what = f"{whose}, but {len(numbers)} jobs of the file have that name"
        reader.refuse(path, "name-twice", what, "give each a name of its own")
    return numbers[0]


def _check_circle(jobs: Sequence[JobSpec], links: Sequence[DependencyLink], reader: KeyReader) -> None:
    parents: dict[int, list[int]] = {}
    for link in links:
        parents.setdefault(link.child, []).append(link.parent)
    circle = find_cycle(parents)
    if circle:
        names = " -> ".join(jobs[number].name for number in circle[:_SHOWN_LINKS])
        what = f"the jobs wait for each other in a circle: {names}"
        reader.refuse((JOBS_TABLE, circle[0]), "dependency-circle", what, "remove one of the names")


def names_for_links(
    jobs: Sequence[JobSpec], links: Sequence[DependencyLink]
) -> tuple[list[JobSpec], list[ParentNames]]:
    """Return the jobs, those that others wait for with a name of their own, and the names each waits for."""
    times = Counter(job.name for job in jobs)
    taken = set(times)
    awaited = {link.parent for link in links}
    called = [
        _free(job.name or "job", taken)
        if number in awaited and (not job.name or times[job.name] > 1)
        else job.name
        for number, job in enumerate(jobs)
    ]
    found: list[ParentNames] = [{} for _ in jobs]
    for link in links:
        found[link.child].setdefault(DEPENDENCY_FIELDS[link.condition], []).append(called[link.parent])
    return [replace(job, name=name) for job, name in zip(jobs, called, strict=True)], found


def _free(stem: str, taken: set[str]) -> str:
    """Return the stem with the first number that makes it free, and take it."""
    number = 1
    while f"{stem}-{number}" in taken:
        number += 1
    taken.add(f"{stem}-{number}")
    return f"{stem}-{number}"
