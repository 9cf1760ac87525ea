"""Alternatives of a job in the native form: other requests that it would do with.

Sizes of an alternative count one unit, which may be another than the job's.  In a file without tables of
tasks an alternative has none either: what its keys say of the one task stands among those of the job.
Source: SSS 3.1.0, "Requested" (attributes conj, group and preference).
"""

from collections.abc import Mapping
from typing import Any

from headnode.core.formats.json_text import Path
from headnode.core.formats.native_form.key_reading import KeyReader
from headnode.core.formats.native_form.keys import (
    ALTERNATIVE_ROWS,
    ALTERNATIVES,
    SIZES,
    TASK_ALTERNATIVE_ROWS,
    TASKS,
)
from headnode.core.formats.native_form.rows import NEEDS, Row
from headnode.core.model.job import Alternative, JobSpec, TaskAlternative, UnitType
from headnode.core.model.node_needs import ANY_NODE

OF_THE_TASK = {*SIZES, *(TASK_ALTERNATIVE_ROWS.keys() - ALTERNATIVE_ROWS.keys())}
"""Keys that are said of the task in a file without tables of tasks."""

_ANY_NODE_KEY = "features"
"""Without a feature in it, the key says that any node will do, whatever the job says."""


def alternatives(
    found: Any, spec: JobSpec, reader: KeyReader, path: Path, *, alone: bool
) -> tuple[Alternative, ...]:
    """Read the alternatives of a job; `alone` says that its file has no tables of tasks.

    Raises:  BadRequest with line and column, as reading a job; ``tasks`` when an alternative has another
             number of tasks than the job.
    """
    tables = reader.tables(found, ALTERNATIVES, path, "processors = 2")
    return tuple(
        _read(one, spec, reader.another(), (*path, number), alone=alone) for number, one in enumerate(tables)
    )


def _read(
    found: Mapping[str, Any], spec: JobSpec, reader: KeyReader, path: Path, *, alone: bool
) -> Alternative:
    whose = f"alternative {int(path[-1]) + 1}"
    flat = alone and TASKS not in found
    of_task = {key: value for key, value in found.items() if flat and key in OF_THE_TASK}
    said = {key: value for key, value in found.items() if key != TASKS and key not in of_task}
    fields = reader.fields(said, ALTERNATIVE_ROWS, whose, path)
    tables = reader.tables(found.get(TASKS, []), TASKS, (*path, TASKS), "processors = 2")
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


def _task(found: Mapping[str, Any], reader: KeyReader, whose: str, path: Path) -> TaskAlternative:
    return TaskAlternative(**reader.fields(found, TASK_ALTERNATIVE_ROWS, whose, path))


def fits_alone(one: Alternative) -> bool:
    """Whether an alternative can stand in a file without tables of tasks."""
    return (one.minimum, one.maximum) == (None, None) and (one.unit is None or _is_sized(one))


def _is_sized(one: Alternative) -> bool:
    return any(task.minimum is not None or task.maximum is not None for task in one.tasks)


def alternative_table(one: Alternative, spec: JobSpec, *, alone: bool) -> dict[str, Any]:
    """Return the keys and values of an alternative, only what it says."""
    unit = one.unit or spec.unit
    found = _said(one, ALTERNATIVE_ROWS, unit)
    if one.unit not in (None, spec.unit) and not _is_sized(one) and not any(key in found for key in SIZES):
        found = {_size_key(unit): "*"} | found
    tasks = [_said(task, TASK_ALTERNATIVE_ROWS, unit) for task in one.tasks]
    if alone and one.tasks and _is_flat(one.tasks[0], tasks[0]):
        return tasks[0] | found
    return found | ({TASKS: tasks} if tasks else {})


def _is_flat(task: TaskAlternative, keys: Mapping[str, Any]) -> bool:
    """Whether what an alternative says of the one task can stand among what it says of the job."""
    closed = (task.minimum is None) is (task.maximum is None)
    return closed and bool(keys) and keys.keys() <= OF_THE_TASK


def _said(one: Alternative | TaskAlternative, rows: Mapping[str, Row], unit: UnitType) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, row in rows.items():
        if row.filled[0].startswith(f"{NEEDS}."):
            if one.needs is None or row.taken(one) == row.taken(_NOTHING):
                continue
        elif (key in SIZES and SIZES[key] is not unit) or all(value is None for value in row.taken(one)):
            continue
        values = row.taken(one)
        found[key] = row.value.write(values if len(values) > 1 else values[0])
    if one.needs == ANY_NODE:
        found[_ANY_NODE_KEY] = []
    return found


def _size_key(unit: UnitType) -> str:
    return next(key for key in SIZES if SIZES[key] is unit)


_NOTHING = Alternative(needs=ANY_NODE)
