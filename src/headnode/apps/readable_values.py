"""Times, sizes, counts and limits as people read them."""

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def instant(at: float | None) -> str:
    """Write a point of time (seconds since 1970) as local ISO 8601 with its offset; "" for none.

    >>> import os; os.environ["TZ"] = "UTC"; time.tzset(); instant(0.0)
    '1970-01-01T00:00:00+00:00'
    """
    if at is None:
        return ""
    text = time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(at))
    return f"{text[:-2]}:{text[-2:]}"


def local_times(sentence: str) -> str:
    """Write a sentence of the head with each of its times, which are in UTC, as `instant` does.

    >>> import os; os.environ["TZ"] = "UTC"; time.tzset(); local_times("held until 1970-01-01T00:00:00Z")
    'held until 1970-01-01T00:00:00+00:00'
    """
    if "Z" not in sentence:
        return sentence
    import calendar
    import re

    def local(match: "re.Match[str]") -> str:
        try:
            return instant(calendar.timegm(time.strptime(match[0], "%Y-%m-%dT%H:%M:%SZ")))
        except (ValueError, OverflowError, OSError):
            return match[0]  # it only looks like a time

    return re.sub(r"(?<![\w-])\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ(?!\w)", local, sentence)


def state_word(job: "Mapping[str, Any]") -> str:
    """Return the state of a job for a reader; Staging while it only waits for its files."""
    waits = job.get("pending_kind") == "staging" or job.get("state_detail") == "staging in"
    return "Staging" if waits and job["state"] == "Suspended" else str(job["state"])


def duration(seconds: float | None) -> str:
    """Write a span of time for a reader, two units at most; None has no end.  No span is below zero.

    >>> duration(42), duration(5400), duration(100000), duration(-3600)
    ('42 s', '1 h 30 min', '1 d 3 h', '0 s')
    """
    if seconds is None:
        return "infinite"
    seconds = max(0.0, seconds)
    if 0 < seconds < 10 and seconds != int(seconds):
        return f"{seconds:.2g} s"
    whole, parts = int(seconds), []
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        count, whole = divmod(whole, size)
        if count:
            parts.append(f"{count} {unit}")
        elif parts:
            break
    return " ".join(parts[:2]) or "0 s"


def elapsed(since: float | None, until: float | None) -> float | None:
    """Return the seconds between two instants.

    None if one is not known, or if the clock was set back between them: then nobody knows how long it was.

    >>> elapsed(10.0, 12.5), elapsed(None, 12.5), elapsed(3600.0, 0.0)
    (2.5, None, None)
    """
    if since is None or until is None or until < since:
        return None
    return until - since


def short_duration(seconds: float | None) -> str:
    """Write a span of time for a column of a table; "" for none.

    >>> short_duration(42), short_duration(62), short_duration(5400), short_duration(100000)
    ('42s', '1m02s', '1h30m', '1d03h')
    """
    if seconds is None:
        return ""
    whole = int(seconds)
    for size, unit, small, smaller in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            return f"{whole // size}{unit}{whole % size // small:02}{smaller}"
    return f"{whole}s"


def time_limit(seconds: float | None) -> str:
    """Write a run time limit as it is typed; None has no end.

    >>> time_limit(5400), time_limit(172800), time_limit(90), time_limit(None)
    ('1h30m', '2d', '1m30s', 'none')
    """
    if seconds is None:
        return "none"
    left, parts = int(-(-seconds // 1)), []
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m"), (1, "s")):
        count, left = divmod(left, size)
        parts.append(f"{count}{unit}" if count else "")
    return "".join(parts) or "0m"


def parameter_text(value: str, unit: str) -> str:
    """Write the value of a cluster parameter: a time as it may be typed, all else as it is.

    >>> parameter_text("90", "s"), parameter_text("14", "days"), parameter_text("5", "%")
    ('1m30s', '14d', '5')
    >>> parameter_text("1.1574074074074073e-05", "days")  # 1 s in days
    '1s'
    """
    seconds = {"s": 1.0, "days": 86400.0}.get(unit)
    if seconds is None or not value or not float(value):
        return value
    from headnode.core.formats.text.quantities import format_span
    from headnode.core.model.quantities import Seconds

    return format_span(Seconds(round(float(value) * seconds, 6)))


def parameter_unit(unit: str) -> str:
    """Return the unit of a parameter that its text does not have.

    >>> parameter_unit("s"), parameter_unit("%")
    ('', '%')
    """
    return "" if unit in ("s", "days") else unit


def instant_short(at: float | None, now: float) -> str:
    """Write a point of time (seconds since 1970) in local time for a column: the clock alone for today.

    >>> import os; os.environ["TZ"] = "UTC"; time.tzset(); instant_short(60.0, 90.0), instant_short(60.0, 1e5)
    ('00:01', 'Jan 01 00:01')
    """
    if at is None:
        return ""
    then, today = time.localtime(at), time.localtime(now)
    if then[:3] == today[:3]:
        return time.strftime("%H:%M", then)
    return time.strftime("%b %d %H:%M" if then[0] == today[0] else "%Y-%m-%d", then)


def memory(kilobytes: int | None) -> str:
    """Write an amount of memory (kB) in the unit that suits it; "" for none.

    >>> memory(900), memory(11344), memory(3_500_000)
    ('900 kB', '11 MB', '3.3 GB')
    """
    if kilobytes is None:
        return ""
    if kilobytes < 10_000:
        return f"{kilobytes} kB"
    megabytes = kilobytes / 1024
    return f"{megabytes:.0f} MB" if megabytes < 1000 else f"{megabytes / 1024:.1f} GB"


def size_of_bytes(number: int | None) -> str:
    """Write a number of bytes in the unit that suits it; "" for none.

    >>> size_of_bytes(0), size_of_bytes(900), size_of_bytes(11_344), size_of_bytes(3_500_000_000)
    ('', '1 kB', '12 kB', '3.3 GB')
    """
    return memory(-(-number // 1024)) if number else ""


def measured_counts(used: "Mapping[str, Any]") -> dict[str, str]:
    """Return what was counted of a task or a job, by its title; a head of before may not say all of it."""
    return {
        "Read": size_of_bytes(used.get("bytes_read")),
        "Written": size_of_bytes(used.get("bytes_written")),
    }


def counted(count: int, thing: str, several: str = "") -> str:
    """Write a count with its noun: ``1 task``, ``2 tasks``."""
    return f"{count} {thing if count == 1 else several or thing + 's'}"


def unit_word(unit: str) -> str:
    """Return the unit of an answer as it stands in a sentence."""
    return "GPU" if unit == "gpu" else unit


def limits(record: "Mapping[str, Any]") -> str:
    """Write a minimum and maximum as ``2-4``, or ``2`` when they are the same."""
    least, most = record.get("minimum"), record.get("maximum")
    low, high = ("*" if least is None else str(least)), ("*" if most is None else str(most))
    return low if low == high else f"{low}-{high}"
