"""Read the native form, and find the position of a job or task."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from headnode.core.formats.fidelity import FidelityReport
from headnode.core.formats.native.keys import (
    ALTERNATIVES,
    GROUP,
    JOB_KEYS,
    JOBS_TABLE,
    SIZES,
    TASK_KEYS,
    TASK_ONLY,
    TASKS,
)
from headnode.core.formats.native.table_reading import Fields, KeyReader, alternatives, links_by_name
from headnode.core.formats.text.quantities import shown
from headnode.core.formats.text.toml_text import PlacedValues, read_toml_or_json
from headnode.core.model.dependency import DependencyLink
from headnode.core.model.errors import BadRequest, Path, TextPosition
from headnode.core.model.job import DEPENDENCY_FIELDS, JobSpec, UnitType
from headnode.core.model.task import TaskSpec, TaskType

_RUNNABLE = (TaskType.BASIC, TaskType.SWEEP)


class NativeJobs(msgspec.Struct, frozen=True):
    """The jobs of a file, and which of them wait for which."""

    jobs: tuple[JobSpec, ...]
    links: tuple[DependencyLink, ...] = ()


def read_jobs(data: bytes | str) -> tuple[NativeJobs, FidelityReport]:
    """Read the jobs of a file in the native form, TOML or JSON.  The report is empty: all is understood.

    Raises:  BadRequest with line and column: ``not-toml`` or as `read_json`, ``not-a-job``, ``unknown-key``
             (with the nearest right one), ``unit-mismatch``, ``misplaced-key``, ``unknown-job``,
             ``dependency-circle``, or what is wrong with a value.
    """
    text = read_toml_or_json(data)
    found = text.value
    if isinstance(found, dict) and JOBS_TABLE in found:
        return _several(text, found), ()
    job = _NativeReader(text, ()).job()
    for field in DEPENDENCY_FIELDS.values():
        strange = [one for one in getattr(job, field) if isinstance(one, str)]
        if strange:
            what = f"job: {field} names {strange[0][:60]!r}, and there is no other job in the file"
            KeyReader(text).refuse((field,), "unknown-job", what, "write the number of a job")
    return NativeJobs((job,)), ()


def read_job(data: bytes | str) -> tuple[JobSpec, FidelityReport]:
    """Read the only job of a file, as `read_jobs`.

    Raises:  as `read_jobs`, and BadRequest ``several-jobs``.
    """
    found, report = read_jobs(data)
    if len(found.jobs) != 1:
        what = f"the file holds {len(found.jobs)} jobs, but only one is possible here"
        raise BadRequest(code="several-jobs", what=what, fix="write each into a file of its own")
    return found.jobs[0], report


def _several(text: PlacedValues, table: Mapping[str, Any]) -> NativeJobs:
    """Return the jobs of a file that has a table for each."""
    reader = KeyReader(text)
    strange = next((key for key in table if key not in (JOBS_TABLE, GROUP)), None)
    if strange is not None:
        fix = f"write it below [[{JOBS_TABLE}]]; above them only {GROUP} is possible"
        what = f"{strange[:60]!r} is above the jobs"
        reader.refuse((strange,), "misplaced-key", what, fix)
    tables = table[JOBS_TABLE]
    if not isinstance(tables, list) or not tables:
        what = f"{JOBS_TABLE} is {shown(tables)}, not a list of jobs"
        reader.refuse((JOBS_TABLE,), "value", what, f"write [[{JOBS_TABLE}]], and below it the job")
    jobs = [_NativeReader(text, (JOBS_TABLE, number)).job() for number in range(len(tables))]
    if GROUP in table:
        group = reader.value(JOB_KEYS[GROUP], table[GROUP], "file", (GROUP,))
        jobs = [replace(job, job_group=job.job_group or group) for job in jobs]
    return NativeJobs(*links_by_name(jobs, reader))


class _NativeReader:
    """Reads one job, which stands at `path` of a file."""

    def __init__(self, text: PlacedValues, path: Path) -> None:
        self._path, self._reader = path, KeyReader(text)
        self._whose = f"job {int(path[-1]) + 1}" if path else "job"
        self._found = text.value
        for step in path:
            self._found = self._found[step]

    def job(self) -> JobSpec:
        """Return the job; what it waits for may still be a name."""
        found, reader = self._found, self._reader
        if not isinstance(found, dict):
            what = (
                f"{self._whose} is not a table of keys" if self._path else "the file is not a table of keys"
            )
            reader.refuse(self._path, "not-a-job", what, 'write command = "./run"')
        own = [key for key in found if key in TASK_ONLY]
        if own and TASKS in found:
            what = f"{own[0]!r} stands in the {self._whose}, which has tasks of its own"
            reader.refuse((*self._path, own[0]), "misplaced-key", what, f"write it below [[{TASKS}]]")
        of_task = {key for key in found if key in TASK_ONLY or (own and key in SIZES)}
        aside = {*of_task, TASKS, ALTERNATIVES}
        said = {key: value for key, value in found.items() if key not in aside}
        fields = reader.fields(said, JOB_KEYS, self._whose, self._path)
        if own:
            task = self._task({key: found[key] for key in found if key in of_task}, self._whose, self._path)
            tasks: tuple[TaskSpec, ...] = (task,)
        else:
            tasks = tuple(self._tasks(found.get(TASKS, [])))
        spec = JobSpec(**fields, unit=reader.unit or UnitType.PROCESSOR, tasks=tasks)
        if ALTERNATIVES not in found:
            return spec
        path = (*self._path, ALTERNATIVES)
        return replace(
            spec, alternatives=alternatives(found[ALTERNATIVES], spec, reader, path, alone=bool(own))
        )

    def _tasks(self, value: Any) -> Iterable[TaskSpec]:
        tables: Sequence[Mapping[str, Any]] = self._reader.tables(
            value, TASKS, (*self._path, TASKS), 'command = "./run"'
        )
        whose = "task" if not self._path else f"{self._whose}: task"
        for number, one in enumerate(tables):
            yield self._task(one, f"{whose} {number + 1}", (*self._path, TASKS, number))

    def _task(self, table: Mapping[str, Any], whose: str, path: Path) -> TaskSpec:
        fields = self._reader.fields(table, TASK_KEYS, whose, path)
        if "sweep" in table:
            fields.setdefault("kind", TaskType.SWEEP)
        fields.setdefault("rerunnable", fields.get("kind", TaskType.BASIC) in _RUNNABLE)
        self._check_closed(fields, table, whose, path)
        return TaskSpec(**fields)

    def _check_closed(self, fields: Fields, table: Mapping[str, Any], whose: str, path: Path) -> None:
        for bound in ("minimum", "maximum"):
            if fields.get(bound, 1) is None:
                key = next(key for key in SIZES if key in table)
                what = f"{whose}: {key} gives no size for a task"
                self._reader.refuse((*path, key), "size", what, 'write numbers, for example 4 or "2-8"')


def place_of(data: bytes | str, path: Path) -> TextPosition:
    """Return the position of a job or task that was read: ``("jobs", 1, "tasks", 0)``, or less of that.

    What is not in the file by itself is at the nearest table around it.
    Raises:  BadRequest as `read_toml_or_json` when `data` cannot be read.
    """
    return read_toml_or_json(data).place_of(path)
