"""Periods of LSF: ``-C 2026/11/1,2026/11/30``, ``-S 9:00,``, ``-D .-2,.``.

Source:  IBM Spectrum LSF 10.1, bhist(1), "Time interval format".
"""

import time
from datetime import datetime, timedelta

from headnode.apps.cli.batch_programs.lsf_rows import NOT_DONE
from headnode.apps.cli.batch_programs.words import ProgramRefusal, ProgramWords, number_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from headnode.apps.cli.batch_programs.rows import BatchRow

_FORM = "write YEAR/MONTH/DAY/HOUR:MINUTE,... or parts of it, . for now, .-2 for two days ago"
_MAX_DAYS = 31
OPTIONS = "C S D"
"""Options whose value is a period: of the end, of the submission, of the start."""


class LsfPeriod:
    """A period; None: it has no begin, or no end."""

    __slots__ = ("begin", "end")

    def __init__(self, begin: float | None, end: float | None) -> None:
        self.begin, self.end = begin, end

    def has(self, at: float | None) -> bool:
        """Return whether a time is in it."""
        if at is None:
            return False
        return (self.begin is None or at >= self.begin) and (self.end is None or at < self.end)


def period(text: str, now: float) -> LsfPeriod:
    """Return the period that is meant; one time without a comma is all of that minute, hour, day or month.

    >>> both = period("2026/11/30,2026/12/1/9:00", 0.0)
    >>> (both.end - both.begin) / 60 == (24 + 9) * 60 + 1
    True
    >>> hour = period("2026/11/30/9:", 0.0)
    >>> hour.end - hour.begin
    3600.0

    Raises:  ProgramRefusal.
    """
    first, comma, last = text.partition(",")
    if not text.strip(", "):
        raise _unreadable(text)
    begin = _spans(first.strip(), now, text) if first.strip() else None
    if not comma:
        return LsfPeriod(*begin) if begin else LsfPeriod(None, None)
    end = _spans(last.strip(), now, text) if last.strip() else None
    return LsfPeriod(begin[0] if begin else None, end[1] if end else None)


def is_in_periods(row: "BatchRow", line: ProgramWords) -> bool:
    """Return whether a row ended, was submitted and started in the periods of ``-C``, ``-S`` and ``-D``."""
    now = time.time()
    times = {"C": row.ended, "S": row.job["submitted"] or row.job["created"], "D": row.started}
    return all(period(line.value(option), now).has(at) for option, at in times.items() if line.has(option))


def _unreadable(text: str) -> ProgramRefusal:
    return ProgramRefusal(f"{text[:60]}: Illegal time format", _FORM, status=NOT_DONE, prefix="bare")


def _spans(text: str, now: float, whole: str) -> "tuple[float, float]":
    """Return when the minute, hour, day, month or year of a time begins and ends."""
    today = datetime.fromtimestamp(now)
    if text == ".":
        return now, now
    if text.startswith(".-"):
        days = number_of(text[2:], 2)
        if not days or days > _MAX_DAYS:
            raise _unreadable(whole)
        return _of_day(today - timedelta(days=days))
    *date, last = text.split("/")
    try:
        if ":" in last:
            return _of_clock(_day_of(date, today), last)
        return _of_date([*date, last], today)
    except (ValueError, OverflowError):
        raise _unreadable(whole) from None


def _day_of(parts: "list[str]", today: datetime) -> datetime:
    """Return the beginning of the day of ``[year/][month/]day``, or of today."""
    numbers = [int(part) for part in parts]
    if len(numbers) > 3:
        raise ValueError
    usual = [today.year, today.month, today.day]
    year, month, day = usual[: 3 - len(numbers)] + numbers
    return datetime(year, month, day)


def _of_clock(day: datetime, text: str) -> "tuple[float, float]":
    hour, _, minute = text.partition(":")
    begin = day.replace(hour=int(hour), minute=int(minute or 0))
    return begin.timestamp(), (begin + timedelta(minutes=1 if minute else 60)).timestamp()


def _of_date(parts: "list[str]", today: datetime) -> "tuple[float, float]":
    """Return the day of ``[year/][month/]day``, the month of ``[year/]month/`` or the year of ``year/``."""
    if parts[-1]:
        return _of_day(_day_of(parts, today))
    numbers = [int(part) for part in parts[:-1]]
    if len(numbers) == 1 and numbers[0] > 12:
        return datetime(numbers[0], 1, 1).timestamp(), datetime(numbers[0] + 1, 1, 1).timestamp()
    year, month = numbers if len(numbers) == 2 else (today.year, *numbers)
    following = datetime(year + month // 12, month % 12 + 1, 1)
    return datetime(year, month, 1).timestamp(), following.timestamp()


def _of_day(day: datetime) -> "tuple[float, float]":
    begin = day.replace(hour=0, minute=0, second=0, microsecond=0)
    return begin.timestamp(), (begin + timedelta(days=1)).timestamp()
