"""Points of time as text.

Source: HPC Pack job files carry culture-formed dates, which are UTC; Headnode writes ISO 8601.
"""

import math
import re
from datetime import UTC, datetime, timedelta

from headnode.core.model.errors import BadRequest
from headnode.core.model.quantities import Instant

_START = datetime(1970, 1, 1, tzinfo=UTC)
_CLOCK = r"(?:[T ]\s*(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.(?P<fraction>\d{1,9}))?)?)?"
_NOON = r"(?:\s*(?P<half>[AP]M))?"
_ZONE = r"\s*(?:Z|UTC|(?P<sign>[+-])(?P<off_hour>\d{2}):?(?P<off_minute>\d{2}))?\Z"
_FORMS = tuple(
    re.compile(day + _CLOCK + _NOON + _ZONE, re.ASCII | re.IGNORECASE)
    for day in (
        r"(?P<year>\d{4})[-/](?P<month>\d{1,2})[-/](?P<day>\d{1,2})",
        r"(?P<month>\d{1,2})/(?P<day>\d{1,2})/(?P<year>\d{4})",
    )
)


def parse_date_time(text: str) -> Instant:
    """Read a date, with or without a time of day; without a time zone it is UTC.

    Unit:    seconds since 1970-01-01 00:00 UTC.
    Raises:  BadRequest ``date-time``.

    >>> parse_date_time("2030-01-02T03:04:05Z") == parse_date_time("1/2/2030 3:04:05 AM")
    True
    """
    found = next((match for form in _FORMS if (match := form.match(text.strip()))), None)
    moment = _moment(found) if found else None
    if moment is None:
        raise BadRequest(
            code="date-time",
            what=f"{text!r} is not a date and time",
            fix="write it as 2030-01-31T18:00:00Z; without a time zone it is UTC",
        )
    return moment


def format_date_time(instant: Instant) -> str:
    """Write a point of time as ISO 8601 in UTC.

    >>> format_date_time(Instant(0.0))
    '1970-01-01T00:00:00Z'
    """
    instant = Instant(round(instant, 6))
    whole = math.floor(instant)
    text = (_START + timedelta(seconds=whole)).strftime("%Y-%m-%dT%H:%M:%S").rjust(19, "0")
    fraction = f"{instant - whole:.6f}"[1:].rstrip("0").rstrip(".")
    return f"{text}{fraction}Z"


def _moment(found: re.Match[str]) -> Instant | None:
    part = {name: int(found[name] or 0) for name in ("year", "month", "day", "minute", "second")}
    hour = _hour(int(found["hour"] or 0), (found["half"] or "").upper())
    try:
        local = datetime(**part, hour=hour, tzinfo=UTC)
    except ValueError:
        return None
    fraction = float(f"0.{found['fraction'] or 0}")
    return Instant((local - _START).total_seconds() + fraction - _offset(found))


def _hour(hour: int, half: str) -> int:
    if not half:
        return hour
    if not 1 <= hour <= 12:
        return 24  # no hour of any day, so the date is refused
    return hour % 12 + (12 if half == "PM" else 0)


def _offset(found: re.Match[str]) -> int:
    if not found["sign"]:
        return 0
    seconds = int(found["off_hour"]) * 3600 + int(found["off_minute"]) * 60
    return -seconds if found["sign"] == "-" else seconds
