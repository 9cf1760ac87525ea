"""Rules for single values that jobs, tasks and holds share, and for their sizes; circles in a graph.

`check_bounds` is the first of all checks: those that follow may compare everything with everything.

Source: SSS 3.1.0, "Hold" (System in its examples); user, operator and system are the three that schedulers of
its family tell apart.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, TypeVar

import msgspec

from headnode.core.model import bounds as b
from headnode.core.model.bounds import Bound
from headnode.core.model.errors import BadRequest, Path, Step
from headnode.core.model.field_rows import JobOption
from headnode.core.model.job import DEPENDENCY_FIELDS, Alternative, JobSpec, TaskAlternative
from headnode.core.model.node_needs import ANY_NODE, NodeNeeds
from headnode.core.model.quantities import FOREVER
from headnode.core.model.task import Distribution, TaskSpec

MIN_CODE, MAX_CODE = -(2**31), 2**31 - 1


class JobPart(NamedTuple):
    """A job, one of its tasks, or a struct in one of them: its title in messages, and its path."""

    title: str
    path: Path = ()

    def __str__(self) -> str:
        return self.title

    def inside(self, *steps: Step) -> "JobPart":
        """Return a struct of this part, under the title of the part."""
        return JobPart(self.title, (*self.path, *steps))

    def refuse(self, code: str, what: str, fix: str, *field: Step) -> NoReturn:
        """Refuse the part for one of its fields, or for the part as a whole.

        Raises:  BadRequest, always.
        """
        raise BadRequest(code=code, what=what, fix=fix, path=(*self.path, *field))


THE_JOB = JobPart("the job")


def task_title(number: int, task: TaskSpec) -> str:
    """Return how a person would call a task."""
    return f"task {number} ({task.name!r})" if task.name else f"task {number}"


def task_part(number: int, task: TaskSpec) -> JobPart:
    """Return task `number` (from 1) as a part of its job."""
    return JobPart(task_title(number, task), ("tasks", number - 1))


def check_positive(part: JobPart, field: str, what: str, amount: int | None) -> None:
    """Refuse an amount below 1; None is no amount."""
    if amount is not None and not 1 <= amount <= MAX_CODE:
        part.refuse("size", f"{what} is {amount}", f"ask for 1 to {MAX_CODE}", field)


def check_whole_numbers(part: JobPart, spec: JobSpec | TaskSpec, options: Iterable[JobOption]) -> None:
    """Refuse a whole number that is not between the limits of its option."""
    for option in options:
        value = getattr(spec, option.fields[0])
        low, high = option.limits or (value, value)
        if value is not None and not low <= value <= high:
            key = option.key
            what = f"{key.replace('_', ' ')} {value} of {part} is not between {low} and {high}"
            part.refuse(key.replace("_", "-"), what, f"write {low} to {high}", option.fields[0])


def check_run_time(part: JobPart, span: float) -> None:
    """Refuse a run time limit that is no span of time."""
    if not span > 0:  # also true for what is not a number
        part.refuse(
            "run-time",
            f"the run time limit of {part} is {span:g} s",
            "write at least one minute, or Infinite",
            "run_time",
        )


def check_run_times(part: JobPart, limit: float, least: float | None) -> None:
    """Refuse a run time limit that is no span of time, and a minimum of it that is above it."""
    check_run_time(part, limit)
    if least is not None and not 0 < least <= limit:
        part.refuse(
            "minimum-run-time",
            f"the minimum {least:g} s of the run time limit of {part} is not within its limit, {limit:g} s",
            "lower the minimum, or raise the run time limit",
            "minimum_run_time",
        )


def check_listed(part: JobPart, what: str, name: str, *field: Step) -> None:
    """Refuse a name that cannot stand in a list."""
    if "," in name or not name.strip():
        fault = f"{what} {name!r} is empty or contains a comma"
        part.refuse("name", fault, "commas separate names: choose another", *field)


def check_environment(part: JobPart, environment: Mapping[str, str]) -> None:
    """Refuse names no environment variable can have."""
    for name in environment:
        if not name or "=" in name or name != name.strip():
            part.refuse(
                "environment-name",
                f"environment variable {name!r} of {part} has an invalid name",
                "write a name without '=' and without blanks at its ends",
                "environment",
                name,
            )


def check_codes(part: JobPart, codes: Iterable[tuple[int, int]] | None) -> None:
    """Refuse exit code ranges that hold nothing."""
    for at, (low, high) in enumerate(codes or ()):
        if not MIN_CODE <= low <= high <= MAX_CODE:
            what = f"valid exit codes {low}..{high} of {part}"
            part.refuse("exit-codes", what, "write the smaller number first", "valid_exit_codes", at)


DEFAULT_HOLD = "user"
PRIVILEGED_HOLDS = frozenset({"system", "operator"})
"""Only operators and administrators set and release these; names compare without regard to case."""

MAX_HOLDS = 32  # on one job
MAX_HOLD_NAME = 64  # characters


def check_hold_name(name: str, part: JobPart = THE_JOB) -> None:
    """Refuse a name that no hold can have; `part` is what a refusal is about.

    Raises:  BadRequest ``hold-name``.
    """
    if len(name) > MAX_HOLD_NAME or name != name.strip() or not name.isprintable() or "," in name or not name:
        part.refuse(
            "hold-name",
            f"{name[:MAX_HOLD_NAME]!r} is not a name for a hold",
            f"use 1 to {MAX_HOLD_NAME} characters, no comma, and no blank at its ends",
        )


def check_holds(names: Sequence[str]) -> None:
    """Refuse holds that a job cannot have: wrong names, one name twice, too many.

    Raises:  BadRequest ``hold-name``, ``holds``.
    """
    for at, name in enumerate(names):
        check_hold_name(name, THE_JOB.inside("holds", at))
    if len({name.casefold() for name in names}) < len(names):
        what = f"a hold is named twice in {', '.join(names[:MAX_HOLDS])}"
        THE_JOB.refuse("holds", what, "name each hold once", "holds")
    if len(names) > MAX_HOLDS:
        fix = f"at most {MAX_HOLDS} are possible"
        THE_JOB.refuse("holds", f"{len(names)} holds on one job", fix, "holds")


_NAMES = (
    "name",
    "job_group",
    "project",
    "template",
    "reservation",
    "run_as",
    "dialect",
    "node_group",
    "feature",
)
_PATHS = (
    *("standard_input", "standard_output", "standard_error", "work_directory"),
    *("path", "url", "storage_base"),
)
_SHORT = (
    "licences", "order_by", "alternatives", "holds", "resource_limits", "valid_exit_codes", "patterns",
    "excluded_patterns", "feature_patterns",
)  # fmt: skip
_PATTERNS = frozenset(("patterns", "excluded_patterns", "feature_patterns"))
_TEXTS: Mapping[str, Bound] = {
    **dict.fromkeys(_NAMES, b.NAME),
    **dict.fromkeys(_PATHS, b.PATH),
    "description": b.NOTE,
    "email": b.ADDRESS,
    "command": b.COMMAND,
    "script": b.SCRIPT,
}
_encode = msgspec.msgpack.Encoder().encode
_SMALLEST = b.NAME.most  # bytes of an encoded job in which nothing can be beyond a bound


def check_bounds(spec: JobSpec) -> None:
    """Refuse a job that is beyond the bounds.

    Raises:  BadRequest ``too-many-tasks``, ``too-large``, ``too-long``, ``too-many`` or ``number``.
    Cost:    O(tasks); nothing but encoding it for a job of a few words.
    """
    _check_numbers(THE_JOB, spec)
    if len(spec.tasks) > b.TASKS_OF_JOB.most:
        THE_JOB.refuse(
            "too-many-tasks",
            f"the job has {len(spec.tasks):,} tasks, and {b.TASKS_OF_JOB.most:,} are possible",
            "divide it into several jobs, or write repetitions as a sweep",
            "tasks",
        )
    for number, task in enumerate(spec.tasks, 1):
        if task.start or task.end or task.increment != 1 or task.group or task.run_time != FOREVER:
            _check_numbers(task_part(number, task), task)
    size = _size(spec)
    if size > b.DESCRIPTION.most:
        what = f"the job has {size:,} bytes with all its tasks, and {b.DESCRIPTION.most:,} are possible"
        THE_JOB.refuse("too-large", what, "put data into files, and name them in the tasks", "tasks")
    if size > _SMALLEST:
        _check_struct(THE_JOB, spec)
        for number, task in enumerate(spec.tasks, 1):
            if _size(task) > _SMALLEST:
                part = task_part(number, task)
                _check_struct(part._replace(title=part.title[:100]), task)


def _size(spec: JobSpec | TaskSpec) -> int:
    try:
        return len(_encode(spec))
    except (UnicodeEncodeError, OverflowError):  # refused by another rule, which says where it is
        return len(repr(spec))


def _check_numbers(part: JobPart, spec: JobSpec | TaskSpec) -> None:
    if spec.run_time != FOREVER and not spec.run_time <= b.RUN_TIME.most:
        part.refuse(
            "run-time",
            f"the run time limit of {part} is {spec.run_time:g} s",
            f"write at most {b.RUN_TIME.most // 86400:,} days, or Infinite",
            "run_time",
        )
    for what, number, bound, path in _numbers(spec):
        least = bound.least or 0
        if not least <= number <= bound.most:
            part.refuse(
                "number",
                f"{what} {number if abs(number) < 10**30 else '...'} of {part} is not possible",
                f"use {least:,} to {bound.most:,}",
                *path,
            )


def _numbers(spec: JobSpec | TaskSpec) -> Iterator[tuple[str, int, Bound, Path]]:
    """Yield the numbers of a job or task: how messages call them, the number, its bound, the path to it."""
    if isinstance(spec, TaskSpec):
        for field in ("start", "end", "increment"):
            yield field, getattr(spec, field), b.SWEEP, (field,)
        if spec.group is not None:
            yield "task group", spec.group, b.INTEGER, ("group",)
        return
    for field in DEPENDENCY_FIELDS.values():
        for at, parent in enumerate(getattr(spec, field)):
            yield "parent", parent, b.INTEGER, (field, at)
    for at, one in enumerate(spec.dependencies):
        yield "parent", one.job, b.INTEGER, ("dependencies", at, "job")
        yield "element", one.element or 0, b.SWEEP, ("dependencies", at, "element")
    for at, edge in enumerate(spec.group_edges):
        yield "task group", edge.parent, b.INTEGER, ("group_edges", at, "parent")
        yield "task group", edge.child, b.INTEGER, ("group_edges", at, "child")
    for at, licence in enumerate(spec.licences):
        if licence.amount is not None and licence.amount > 0:
            yield "licences", licence.amount, b.SIZE, ("licences", at, "amount")


def _check_struct(part: JobPart, spec: msgspec.Struct) -> None:
    """Hold every field that is not as it is by default against its bound."""
    for field in spec.__struct_fields__:
        value = getattr(spec, field)
        if value and (check := _CHECKS.get(type(value))) is not None and field != "tasks":
            check(part, field, value)


def _check_text(part: JobPart, field: str, text: str) -> None:
    bound = _TEXTS.get(field, b.WORD)
    if 4 * len(text) <= bound.most:
        return
    length = len(text.encode(errors="replace")) if bound.unit == "bytes" else len(text)
    if length > bound.most:
        part.refuse(
            "too-long", f"{field} of {part} has {length:,} {bound.unit}", f"use at most {bound}", field
        )


def _check_list(part: JobPart, field: str, entries: Sequence[Any]) -> None:
    bound = b.SHORT_LIST if field in _SHORT else b.GEOMETRY if field == "geometry" else b.LIST
    count = sum(map(len, entries)) + len(entries) if field == "geometry" else len(entries)
    if count > bound.most:
        part.refuse("too-many", f"{field} of {part} has {count:,} entries", f"use at most {bound}", field)
    text = b.PATTERN if field in _PATTERNS else b.NAME
    for at, entry in enumerate(entries):
        if isinstance(entry, str):
            if len(entry) > text.most:
                what = f"an entry in {field} of {part} has {len(entry):,} characters"
                part.refuse("too-long", what, f"use at most {text}", field, at)
        elif isinstance(entry, msgspec.Struct):
            _check_struct(part.inside(field, at), entry)
        elif isinstance(entry, tuple) and field == "features":
            _check_any_feature(part, at, entry)


def _check_any_feature(part: JobPart, at: int, names: Sequence[str]) -> None:
    """Check the features of which a node must have one: entry `at` of the features of `part`."""
    if len(names) > b.LIST.most:
        what = f"any_feature of {part} has {len(names):,} entries"
        part.refuse("too-many", what, f"use at most {b.LIST}", "features", at)
    for number, name in enumerate(names):
        if len(name) > b.NAME.most:
            what = f"an entry in any_feature of {part} has {len(name):,} characters"
            part.refuse("too-long", what, f"use at most {b.NAME}", "features", at, number)


def _check_mapping(part: JobPart, field: str, entries: Mapping[str, str]) -> None:
    bound = b.ENVIRONMENT if field == "environment" else b.KEPT
    size = sum(len(name.encode(errors="replace")) + 2 for name in entries)
    for name, text in entries.items():
        length = len(text.encode(errors="replace"))
        size += length
        if field == "environment" and length + len(name) >= b.VARIABLE.most:
            what = f"environment variable {name[:60]!r} of {part} has {length:,} bytes"
            part.refuse("too-long", what, f"use at most {b.VARIABLE}, or put it into a file", field, name)
    if size > bound.most:
        what = f"{field} of {part} has {size:,} bytes, names and values together"
        part.refuse("too-large", what, f"use at most {bound}", field)


def _check_inner(part: JobPart, field: str, value: msgspec.Struct) -> None:
    if value is not ANY_NODE:
        _check_struct(part.inside(field), value)


_CHECKS: Mapping[type, Callable[[JobPart, str, Any], None]] = {
    str: _check_text,
    tuple: _check_list,
    dict: _check_mapping,
    NodeNeeds: _check_inner,
    Distribution: _check_inner,
    Alternative: _check_inner,
    TaskAlternative: _check_inner,
}


Point = TypeVar("Point", bound=Hashable)


def find_cycle(graph: Mapping[Point, Iterable[Point]]) -> list[Point]:
    """Return the points of a circle, its first point again at its end; empty when there is none.

    Cost:  O(points + edges), without recursion.

    >>> find_cycle({"a": ["b"], "b": ["c"], "c": ["a"]})
    ['a', 'b', 'c', 'a']
    """
    done: set[Point] = set()
    for start in graph:
        circle = [] if start in done else _cycle_from(start, graph, done)
        if circle:
            return circle
    return []


def _cycle_from(start: Point, graph: Mapping[Point, Iterable[Point]], done: set[Point]) -> list[Point]:
    """Walk depth first from `start`; what is found to lead into no circle goes into `done`."""
    way: dict[Point, Iterator[Point]] = {start: iter(graph.get(start, ()))}  # in the order of the walk
    while way:
        last = next(reversed(way))
        point = next(way[last], None)
        if point is None:
            del way[last]
            done.add(last)
        elif point in way:
            points = list(way)
            return [*points[points.index(point) :], point]
        elif point not in done:
            way[point] = iter(graph.get(point, ()))
    return []
