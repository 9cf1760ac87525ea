"""Ids and times that people type: ``12``, ``12-15``, ``12.3.7``, ``--since 2d``; and a group in a line."""

from headnode.apps.cli.options import Arguments, CliOption, usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

MAX_IN_A_RANGE = 100_000


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
        raise usage(
            "no job was given", "give the id of a job, or '!!' with the quotes for the last job of this shell"
        )
    return ids


def task_address(words: "Sequence[str]") -> tuple[int, int, int | None]:
    """Return job, task and instance of ``12.3`` (no instance) or ``12.3.7``.

    Raises:  BadRequest ``usage``.
    """
    parts = words[0].split(".") if len(words) == 1 else []
    if len(parts) not in (2, 3):
        job = parts[0] if len(parts) == 1 and parts[0].isdigit() else "12"
        raise usage(
            f"{' '.join(words)!r} is not a task", f"write job.task or job.task.instance, for example {job}.1"
        )
    numbers = [_number(part) for part in parts]
    return numbers[0], numbers[1], numbers[2] if len(numbers) == 3 else None


def tasks_named(words: "Sequence[str]") -> list[str]:
    """Return the tasks or instances that are meant, each as a word: ``12.3.5-7`` are three of them.

    Raises:  BadRequest ``usage``.
    """
    named: list[str] = []
    for word in words:
        above, _, last = word.rpartition(".")
        ranged = above and "-" in last
        named += [f"{above}.{number}" for number in _range(last)] if ranged else [word]
    return named


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
    if not 0 <= high - low < MAX_IN_A_RANGE:
        raise usage(f"{text!r} is not a range", f"write FIRST-LAST, {MAX_IN_A_RANGE} at most")
    return range(low, high + 1)


def _number(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= 18:
        return int(text)
    if "." in text and text.replace(".", "").isdigit():
        job = text.partition(".")[0]
        raise usage(
            f"{text!r} is a task, not a job", f"give the id of its job, {job}; see also: hn task --help"
        )
    if text.startswith(("/", "-")):
        raise usage(f"{text!r} is neither an id nor an option of this command", "see the options with --help")
    if text.lower() in ("all", "*"):
        raise usage(f"{text!r} is not an id", "where a command takes all your jobs, write --me: see --help")
    raise usage(f"{text!r} is not an id", "ids are whole numbers, for example 12, or 12.1 for a task")


def group_text(group: "dict[str, Any]") -> str:
    """Return the state of a group in a line, such as ``Group render is Active: 2 finished, 1 running``."""
    order = ("Configuring", "Queued", "Suspended", "Running", "Finished", "Failed", "Canceled")
    counts = group["counts"]
    parts = [f"{counts[state]} {state.lower()}" for state in order if counts.get(state)]
    skipped = len(group["skipped"])
    note = f" ({skipped} of them skipped)" if skipped else ""
    return f"Group {group['group']} is {group['state']}: {', '.join(parts)}{note}"


AGO = "or 90m, 1h, 2d, 1w before now"
SINCE = CliOption("since", "TIME", f"Only jobs submitted from this date and time on (local), {AGO}")
UNTIL = CliOption("until", "TIME", f"Only jobs submitted before this date and time (local), {AGO}")
DAY = 86400.0  # seconds
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": DAY, "w": 7 * DAY}


def moment(args: Arguments, name: str, *, ahead: bool = False) -> float | None:
    """Return the point of time that an option names, in seconds since 1970; None when it was not given.

    A number with a unit is so long ago; with `ahead`, so long from now.
    Raises:  BadRequest ``date-time``.
    """
    text = args.text(name)
    if text is None:
        return None
    count, unit = text.strip()[:-1], text.strip()[-1:].lower()
    if unit in _UNITS and count.isascii() and count.isdigit() and len(count) <= 6:
        import time

        return time.time() + (1 if ahead else -1) * int(count) * _UNITS[unit]
    from headnode.apps.cli.typed_dates import typed_date

    also = "2h for two hours from now" if ahead else "90m, 1h, 2d or 1w for a time before now"
    return typed_date(name, text, also, ahead=ahead)


def period(args: Arguments) -> tuple[float | None, float | None]:
    """Return since when and until when; None for no bound.

    Raises:  BadRequest ``date-time``; ``usage`` when nothing can be between them.
    """
    since, until = moment(args, "since"), moment(args, "until")
    if since is not None and until is not None and since >= until:
        raise usage("the period ends before it begins", "give the earlier date to --since")
    return since, until
