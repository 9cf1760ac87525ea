"""Numbers with units: spans and points of time, histograms of them, priorities, run time limits as typed.

Source: CCS, "Standard job and task options", row *runtime*; Slurm, ``sbatch --time``."""

import math
import re
from bisect import bisect_left
from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import NewType

from headnode.core.model.errors import BadRequest

Seconds = NewType("Seconds", float)  # a span of time, never negative
Instant = NewType("Instant", float)  # seconds since 1970-01-01 00:00 UTC
FOREVER, NEVER = Seconds(math.inf), Instant(math.inf)


def instant_text(at: float) -> str:
    """Return an instant as it stands in the sentences of the head: ISO 8601 in UTC, to the second.

    Clients write it in the time zone of their user, see ``local_times`` in ``apps/readable_values``.

    >>> instant_text(0.0)
    '1970-01-01T00:00:00Z'
    """
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


JobId = NewType("JobId", int)
Priority = NewType("Priority", int)  # 0 (lowest) to 4000 (highest)

SortKey = int | float | tuple[float, ...]
"""What a policy orders the queue by; those of one queue are all numbers or all tuples of numbers."""


LOWEST, HIGHEST = Priority(0), Priority(4000)
ANCHORS: Mapping[str, Priority] = MappingProxyType(
    {
        "Lowest": Priority(0),
        "BelowNormal": Priority(1000),
        "Normal": Priority(2000),
        "AboveNormal": Priority(3000),
        "Highest": Priority(4000),
    }
)

_SECONDS_IN = MappingProxyType({"minute": 60, "hour": 3600, "day": 86400})
_PRIORITY = re.compile(r"(?:([a-z]+)(?:([+-])(\d{1,9}))?|(\d{1,9}))\Z", re.ASCII | re.IGNORECASE)


def parse_run_time(text: str) -> Seconds:
    """Read a run time limit written the Compute Cluster way.

    Unit:    seconds (returned); ``[[days:]hours:]minutes`` or ``infinite`` (read).
    Raises:  BadRequest ``run-time`` when a field is missing, negative or not a number.
    Source:  CCS, "Standard job and task options", row *runtime*.

    >>> parse_run_time("1:30")
    5400.0
    """
    if text.strip().lower() == "infinite":
        return FOREVER
    fields = text.strip().split(":")
    if len(fields) > len(_SECONDS_IN) or not all(f.isascii() and f.isdigit() and len(f) <= 9 for f in fields):
        raise BadRequest(
            code="run-time",
            what=f"run time {text!r} is not understood",
            fix="write [[days:]hours:]minutes, for example 1:30, or infinite",
        )
    smallest_first = zip(reversed(fields), _SECONDS_IN.values(), strict=False)
    return Seconds(float(sum(int(count) * unit for count, unit in smallest_first)))


def format_run_time(span: Seconds) -> str:
    """Write a run time limit the Compute Cluster way; whole minutes, rounded up.

    >>> format_run_time(Seconds(5400.0))
    '1:30'
    """
    if span == FOREVER:
        return "Infinite"
    minutes = math.ceil(span / 60)
    days, rest = divmod(minutes, 1440)
    hours, minutes = divmod(rest, 60)
    if days:
        return f"{days}:{hours:02}:{minutes:02}"
    return f"{hours}:{minutes:02}" if hours else str(minutes)


def parse_priority(text: str) -> Priority:
    """Read a priority: a name, a name plus or minus a number, or a number from 0 to 4000.

    Raises:  BadRequest ``priority``.
    Source:  CCS, "Content format", row *Priority*; the numbers are HPC Pack's.

    >>> parse_priority("Normal+150"), parse_priority("abovenormal-10"), parse_priority("17")
    (2150, 2990, 17)
    """
    match = _PRIORITY.match(text.strip())
    value = -1
    if match:
        word, sign, offset, number = match.groups()
        base = {name.lower(): anchor for name, anchor in ANCHORS.items()}.get((word or "").lower())
        if number is not None:
            value = int(number)
        elif base is not None:
            value = base + int(f"{sign}{offset}" if sign else 0)
    if not LOWEST <= value <= HIGHEST:
        raise BadRequest(
            code="priority",
            what=f"priority {text!r} is not between {LOWEST} and {HIGHEST}",
            fix="write Lowest, BelowNormal, Normal, AboveNormal or Highest, one of them plus or minus a "
            "number such as Normal+150, or a number from 0 to 4000",
        )
    return Priority(value)


def format_priority(priority: Priority) -> str:
    """Write a priority by its nearest name below, or above when that is closer.

    >>> format_priority(Priority(2150)), format_priority(Priority(2990)), format_priority(Priority(2000))
    ('Normal+150', 'AboveNormal-10', 'Normal')
    """
    below = max((value, name) for name, value in ANCHORS.items() if value <= priority)
    above = min((value, name) for name, value in ANCHORS.items() if value >= priority)
    if below[0] == priority:
        return below[1]
    if priority - below[0] <= 500:
        return f"{below[1]}+{priority - below[0]}"
    return f"{above[1]}-{above[0] - priority}"


_WITH_UNITS = re.compile(r"(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m(?:in)?)?(?:(\d{1,9})s)?\Z", re.ASCII)
_DAYS_AND_CLOCK = re.compile(r"(\d{1,9})-(\d{1,2})(?::(\d{1,2}))?(?::(\d{1,2}))?\Z", re.ASCII)
_UNITS = MappingProxyType({"d": 86400, "h": 3600, "m": 60, "s": 1})


def parse_time_limit(text: str) -> Seconds:
    """Read a time limit of the command line.

    Unit:    seconds (returned).
    Read:    minutes (``90``), numbers with units (``1h30m``, ``45s``), ``days-hours[:minutes[:seconds]]``,
             ``[[days:]hours:]minutes``, ``infinite`` or ``unlimited``.
    Raises:  BadRequest ``run-time``.

    >>> parse_time_limit("1h30m"), parse_time_limit("1-12:30"), parse_time_limit("90")
    (5400.0, 131400.0, 5400.0)
    """
    plain = "".join(text.split()).lower()
    if plain == "unlimited":
        return FOREVER
    match = _WITH_UNITS.match(plain) or _DAYS_AND_CLOCK.match(plain)
    if match is None or not plain:
        return _compute_cluster(text)
    counts = (int(count or 0) for count in match.groups())
    return Seconds(float(sum(count * unit for count, unit in zip(counts, _UNITS.values(), strict=True))))


def _compute_cluster(text: str) -> Seconds:
    try:
        return parse_run_time(text)
    except BadRequest as wrong:
        fix = "write it with units, for example 1h30m, 90m or 2d, or infinite"
        raise BadRequest(code=wrong.code, what=wrong.what, fix=fix) from wrong


def format_time_limit(span: Seconds) -> str:
    """Write a time limit with its units; whole minutes, rounded up.

    >>> format_time_limit(Seconds(5400.0)), format_time_limit(Seconds(90000.0)), format_time_limit(FOREVER)
    ('1h30m', '1d1h', 'infinite')
    """
    if span == FOREVER:
        return "infinite"
    left, parts = math.ceil(span / 60) * 60, []
    for unit, seconds in _UNITS.items():
        count, left = divmod(left, seconds)
        parts.append(f"{count}{unit}" if count else "")
    return "".join(parts) or "0m"


STEP_BOUNDS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Of steps of the head, in seconds."""
LIFE_BOUNDS = (1.0, 10.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 43_200.0, 86_400.0, 259_200.0, 604_800.0)
"""Of the waits and runs of jobs, in seconds."""


class DurationHistogram:
    """Counts of durations: `counts[i]` of those up to `bounds[i]` seconds, the last of longer ones."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0  # seconds

    def add(self, seconds: float) -> None:
        """Count one duration; less than none, of a clock that was set back, counts as none."""
        if seconds < 0.0:
            seconds = 0.0
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds
