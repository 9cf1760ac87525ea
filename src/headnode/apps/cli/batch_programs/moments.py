"""Times that people type for Slurm: ``now-2days``, ``2026-01-31T12:00``, ``midnight``, ``16:30``.

Source:  Slurm 22.05, sacct(1), "--starttime"; sbatch(1), "--begin".
"""

import time

from headnode.apps.cli.batch_programs.words import ProgramRefusal

_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 7 * 86400}
_CLOCKS = {"midnight": (0, 0), "noon": (12, 0), "elevenses": (11, 0), "fika": (15, 0), "teatime": (16, 0)}
_DATES = ("%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H", "%Y-%m-%d", "%m/%d/%y", "%m/%d/%Y")


def moment(text: str, now: float, *, ahead: bool = False) -> float:
    """Return the time that is meant, in seconds since 1970; with `ahead` a time of day is that to come.

    Raises:  ProgramRefusal.
    """
    word = text.strip()
    lower = word.lower()
    if lower.startswith("now"):
        return now + _shift(lower[3:], text)
    if lower in ("today", "tomorrow"):
        return _of_day(now, 0, 0) + (86400 if lower == "tomorrow" else 0)
    if lower in _CLOCKS:
        return _next(now, *_CLOCKS[lower], ahead=ahead)
    if ":" in word and "-" not in word and "/" not in word:
        fields = word.split(":")
        if len(fields) in (2, 3) and all(
            each.isascii() and each.isdigit() and len(each) < 3 for each in fields
        ):
            hour, minute = int(fields[0]), int(fields[1])
            if hour < 24 and minute < 60:
                return _next(now, hour, minute, ahead=ahead)
    for form in _DATES if word[:1].isdigit() else ():
        try:
            return time.mktime(time.strptime(word.replace("-T", "T"), form))
        except (ValueError, OverflowError):
            continue
    if word.isascii() and word.isdigit() and len(word) < 12:
        return float(word)
    raise ProgramRefusal(f"Invalid time specification (pos=0): {text[:60]}")


def as_told(at: float) -> str:
    """Return a time as the head is told it: with its time zone, for the head may be in another.

    >>> as_told(0.0)
    '1970-01-01T00:00:00Z'
    """
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def _shift(text: str, whole: str) -> float:
    """Return the seconds of ``+2days`` or ``-1hour``; a number alone is in seconds."""
    if not text:
        return 0.0
    sign, rest = text[0], text[1:].strip()
    digits = 0
    while rest[digits : digits + 1].isdigit():
        digits += 1
    unit = rest[digits:].strip().rstrip("s") or "second"
    meant = [size for name, size in _UNITS.items() if name.startswith(unit)]
    if sign not in "+-" or not 0 < digits < 10 or not meant:
        raise ProgramRefusal(f"Invalid time specification (pos=3): {whole[:60]}")
    return (1 if sign == "+" else -1) * int(rest[:digits]) * meant[0]


def _of_day(now: float, hour: int, minute: int) -> float:
    today = time.localtime(now)
    return time.mktime((today.tm_year, today.tm_mon, today.tm_mday, hour, minute, 0, 0, 0, -1))


def _next(now: float, hour: int, minute: int, *, ahead: bool) -> float:
    at = _of_day(now, hour, minute)
    return at + 86400 if ahead and at < now else at
