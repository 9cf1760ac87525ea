"""Small rules that the checks of jobs and of tasks share."""

from collections.abc import Iterable, Mapping
from typing import NoReturn

from headnode.core.model.errors import BadRequest
from headnode.core.model.task import TaskSpec

LEAST_CODE, MOST_CODE = -(2**31), 2**31 - 1


def refuse(code: str, what: str, fix: str) -> NoReturn:
    """Raise the refusal."""
    raise BadRequest(code=code, what=what, fix=fix)


def called(number: int, task: TaskSpec) -> str:
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
