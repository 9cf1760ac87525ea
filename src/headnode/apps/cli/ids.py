"""Reads the ids that people type: ``12``, ``12-15``, ``12.3``, ``12.3.7``."""

from headnode.apps.cli.options import usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_IN_A_RANGE = 100_000


def job_id(words: "Sequence[str]") -> int:
    """Return the one job id that was given.

    Raises:  BadRequest ``usage`` when there is none, or more than one.
    """
    ids = job_ids(words)
    if len(ids) != 1:
        raise usage(f"{len(ids)} jobs were given", "give the id of one job")
    return ids[0]


def job_ids(words: "Sequence[str]") -> list[int]:
    """Return the ids of one or several jobs; ``12-15`` are four of them.

    Raises:  BadRequest ``usage``.
    """
    ids = [id_ for word in words for part in word.split(",") for id_ in _range(part)]
    if not ids:
        raise usage("no job was given", "give the id of a job, or !! for the last one this shell made")
    return ids


def task_address(words: "Sequence[str]") -> tuple[int, int, int | None]:
    """Return job, task and instance of ``12.3`` (no instance) or ``12.3.7``.

    Raises:  BadRequest ``usage``.
    """
    parts = words[0].split(".") if len(words) == 1 else []
    if len(parts) not in (2, 3):
        job = parts[0] if len(parts) == 1 and parts[0].isdigit() else "12"
        raise usage(
            f"{' '.join(words)!r} is no task", f"write job.task or job.task.instance, for example {job}.1"
        )
    numbers = [_number(part) for part in parts]
    return numbers[0], numbers[1], numbers[2] if len(numbers) == 3 else None


def output_address(words: "Sequence[str]") -> tuple[int, int | None, int | None]:
    """Return job, task and instance of ``12`` (all of the job), ``12.3`` or ``12.3.7``.

    Raises:  BadRequest ``usage``.
    """
    if len(words) == 1 and "." not in words[0]:
        return _number(words[0]), None, None
    return task_address(words)


def _range(text: str) -> "Sequence[int]":
    first, dash, last = text.partition("-")
    if not dash:
        return (_number(first),)
    low, high = _number(first), _number(last)
    if not 0 <= high - low < MOST_IN_A_RANGE:
        raise usage(f"{text!r} is no range of jobs", f"write FIRST-LAST, {MOST_IN_A_RANGE} jobs at most")
    return range(low, high + 1)


def _number(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= 18:
        return int(text)
    if text.startswith(("/", "-")):
        raise usage(f"{text!r} is no id, and no option of this command", "see the options with --help")
    raise usage(f"{text!r} is no id", "ids are whole numbers, for example 12, or 12.1 for a task")
