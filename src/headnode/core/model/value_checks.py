"""Rules for single values that jobs, tasks and holds share, and for their sizes.

`check_bounds` is the first of all checks: those that follow may compare everything with everything.

Source: SSS 3.1.0, "Hold" (System in its examples); user, operator and system are the three that schedulers of
its family tell apart.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import msgspec

from headnode.core.model import bounds as b
from headnode.core.model.bounds import Bound
from headnode.core.model.errors import BadRequest
from headnode.core.model.job import Alternative, JobSpec, TaskAlternative
from headnode.core.model.node_needs import ANY_NODE, NodeNeeds
from headnode.core.model.quantities import FOREVER
from headnode.core.model.task import Distribution, TaskSpec

LEAST_CODE, MOST_CODE = -(2**31), 2**31 - 1


def refuse(code: str, what: str, fix: str) -> NoReturn:
    """Raise the refusal."""
    raise BadRequest(code=code, what=what, fix=fix)


def task_title(number: int, task: TaskSpec) -> str:
    """Return how a person would call a task."""
    return f"task {number} ({task.name!r})" if task.name else f"task {number}"


def check_positive(what: str, amount: int | None) -> None:
    """Refuse an amount below 1; None is no amount."""
    if amount is not None and not 1 <= amount <= MOST_CODE:
        refuse("size", f"{what} is {amount}", "ask for 1 or more")


def check_run_time(whose: str, span: float) -> None:
    """Refuse a run time limit that is no span of time."""
    if not span > 0:  # also true for what is not a number
        refuse(
            "run-time",
            f"the run time limit of {whose} is {span:g} s",
            "write at least one minute, or Infinite",
        )


def check_listed(what: str, name: str) -> None:
    """Refuse a name that cannot stand in a list."""
    if "," in name or not name.strip():
        refuse(
            "name", f"{what} {name!r} is empty or contains a comma", "commas separate names: choose another"
        )


def check_environment(whose: str, environment: Mapping[str, str]) -> None:
    """Refuse names no environment variable can have."""
    for name in environment:
        if not name or "=" in name or name != name.strip():
            refuse(
                "environment-name",
                f"environment variable {name!r} of {whose} cannot exist",
                "a name is not empty, contains no '=' and no blank at its ends",
            )


def check_codes(whose: str, codes: Iterable[tuple[int, int]] | None) -> None:
    """Refuse exit code ranges that hold nothing."""
    for low, high in codes or ():
        if not LEAST_CODE <= low <= high <= MOST_CODE:
            refuse(
                "exit-codes", f"valid exit codes {low}..{high} of {whose}", "write the smaller number first"
            )


DEFAULT_HOLD = "user"
PRIVILEGED_HOLDS = frozenset({"system", "operator"})
"""Only operators and administrators set and release these; names compare without regard to case."""

MOST_HOLDS = 32  # on one job
LONGEST_HOLD_NAME = 64  # characters


def check_hold_name(name: str) -> None:
    """Refuse a name that no hold can have.

    Raises:  BadRequest ``hold-name``.
    """
    if (
        len(name) > LONGEST_HOLD_NAME
        or name != name.strip()
        or not name.isprintable()
        or "," in name
        or not name
    ):
        refuse(
            "hold-name",
            f"{name[:LONGEST_HOLD_NAME]!r} is not a name for a hold",
            f"use 1 to {LONGEST_HOLD_NAME} characters, no comma, and no blank at its ends",
        )


def check_holds(names: Sequence[str]) -> None:
    """Refuse holds that a job cannot have: wrong names, one name twice, too many.

    Raises:  BadRequest ``hold-name``, ``holds``.
    """
    for name in names:
        check_hold_name(name)
    if len({name.casefold() for name in names}) < len(names):
        refuse("holds", f"a hold is named twice in {', '.join(names[:MOST_HOLDS])}", "name each hold once")
    if len(names) > MOST_HOLDS:
        refuse("holds", f"{len(names)} holds on one job", f"at most {MOST_HOLDS} are possible")


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
_PATHS = ("standard_input", "standard_output", "standard_error", "work_directory")
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
}
_encode = msgspec.msgpack.Encoder().encode
_SMALLEST = b.NAME.most  # bytes of an encoded job in which nothing can be beyond a bound


def check_bounds(spec: JobSpec) -> None:
    """Refuse a job that is beyond the bounds.

    Raises:  BadRequest ``too-many-tasks``, ``too-large``, ``too-long``, ``too-many`` or ``number``.
    Cost:    O(tasks); nothing but encoding it for a job of a few words.
    """
    _check_numbers("the job", spec)
    if len(spec.tasks) > b.TASKS_OF_JOB.most:
        refuse(
            "too-many-tasks",
            f"the job has {len(spec.tasks):,} tasks, and {b.TASKS_OF_JOB.most:,} are possible",
            "divide it into several jobs, or write repetitions as a sweep",
        )
    for number, task in enumerate(spec.tasks, 1):
        if task.start or task.end or task.increment != 1 or task.group or task.run_time != FOREVER:
            _check_numbers(task_title(number, task), task)
    size = _size(spec)
    if size > b.DESCRIPTION.most:
        what = f"the job has {size:,} bytes with all its tasks, and {b.DESCRIPTION.most:,} are possible"
        refuse("too-large", what, "put data into files, and name them in the tasks")
    if size > _SMALLEST:
        _check_struct("the job", spec)
        for number, task in enumerate(spec.tasks, 1):
            if _size(task) > _SMALLEST:
                _check_struct(task_title(number, task)[:100], task)


def _size(spec: JobSpec | TaskSpec) -> int:
    try:
        return len(_encode(spec))
    except (UnicodeEncodeError, OverflowError):  # refused by another rule, which says where it is
        return len(repr(spec))


def _check_numbers(whose: str, spec: JobSpec | TaskSpec) -> None:
    if spec.run_time != FOREVER and not spec.run_time <= b.RUN_TIME.most:
        refuse(
            "run-time",
            f"the run time limit of {whose} is {spec.run_time:g} s",
            f"write at most {b.RUN_TIME.most // 86400:,} days, or Infinite",
        )
    for what, number, bound in _numbers(spec):
        least = bound.least or 0
        if not least <= number <= bound.most:
            refuse(
                "number",
                f"{what} {number if abs(number) < 10**30 else '...'} of {whose} is not possible",
                f"use {least:,} to {bound.most:,}",
            )


def _numbers(spec: JobSpec | TaskSpec) -> Iterator[tuple[str, int, Bound]]:
    if isinstance(spec, TaskSpec):
        for what in ("start", "end", "increment"):
            yield what, getattr(spec, what), b.SWEEP
        if spec.group is not None:
            yield "task group", spec.group, b.INTEGER
        return
    for what in ("parents", "after_failure", "after_exit", "after_start"):
        for parent in getattr(spec, what):
            yield "parent", parent, b.INTEGER
    for edge in spec.group_edges:
        yield "task group", edge.parent, b.INTEGER
        yield "task group", edge.child, b.INTEGER
    for wish in spec.licences:
        if wish.amount is not None and wish.amount > 0:
            yield "licences", wish.amount, b.SIZE


def _check_struct(whose: str, spec: msgspec.Struct) -> None:
    """Hold every field that is not as it is by default against its bound."""
    for field in spec.__struct_fields__:
        value = getattr(spec, field)
        if value and (check := _CHECKS.get(type(value))) is not None and field != "tasks":
            check(whose, field, value)


def _check_text(whose: str, field: str, text: str) -> None:
    bound = _TEXTS.get(field, b.WORD)
    if 4 * len(text) <= bound.most:
        return
    length = len(text.encode(errors="replace")) if bound.unit == "bytes" else len(text)
    if length > bound.most:
        refuse("too-long", f"{field} of {whose} has {length:,} {bound.unit}", f"use at most {bound}")


def _check_list(whose: str, field: str, entries: Sequence[Any]) -> None:
    bound = b.SHORT_LIST if field in _SHORT else b.GEOMETRY if field == "geometry" else b.LIST
    count = sum(map(len, entries)) + len(entries) if field == "geometry" else len(entries)
    if count > bound.most:
        refuse("too-many", f"{field} of {whose} has {count:,} entries", f"use at most {bound}")
    text = b.PATTERN if field in _PATTERNS else b.NAME
    for entry in entries:
        if isinstance(entry, str):
            if len(entry) > text.most:
                what = f"an entry in {field} of {whose} has {len(entry):,} characters"
                refuse("too-long", what, f"use at most {text}")
        elif isinstance(entry, msgspec.Struct):
            _check_struct(whose, entry)
        elif isinstance(entry, tuple) and field == "features":
            _check_list(whose, "any_feature", entry)


def _check_mapping(whose: str, field: str, entries: Mapping[str, str]) -> None:
    bound = b.ENVIRONMENT if field == "environment" else b.KEPT
    size = sum(len(name.encode(errors="replace")) + 2 for name in entries)
    for name, text in entries.items():
        length = len(text.encode(errors="replace"))
        size += length
        if field == "environment" and length + len(name) >= b.VARIABLE.most:
            what = f"environment variable {name[:60]!r} of {whose} has {length:,} bytes"
            refuse("too-long", what, f"use at most {b.VARIABLE}, or put it into a file")
    if size > bound.most:
        what = f"{field} of {whose} has {size:,} bytes, names and values together"
        refuse("too-large", what, f"use at most {bound}")


_CHECKS: Mapping[type, Callable[[str, str, Any], None]] = {
    str: _check_text,
    tuple: _check_list,
    dict: _check_mapping,
    NodeNeeds: lambda whose, _, value: None if value is ANY_NODE else _check_struct(whose, value),
    Distribution: lambda whose, _, value: _check_struct(whose, value),
    Alternative: lambda whose, _, value: _check_struct(whose, value),
    TaskAlternative: lambda whose, _, value: _check_struct(whose, value),
}
