"""Points of time on a log's clock, as dates where the log says when it began, else as days since then."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

DAY = 86400  # seconds
_HOUR = 3600
_LATEST = datetime(2200, 1, 1, tzinfo=UTC).timestamp()  # later dates are slips of the pen
_FARTHEST = 14 * 3600  # seconds that a time zone may be away from UTC


class Calendar(NamedTuple):
    """What a log's second 0 is called.

    Unit:  seconds since 1970, as the clocks on the wall beside the machine count them, for `zero`; None
           where the log tells no date.  `zone` names these clocks.
           A `brief` log is over within an hour: there, seconds count.
    """

    zero: float | None
    zone: str
    brief: bool = False

    @property
    def title(self) -> str:
        """What stands under a time axis."""
        return "time since the log's start" if self.zero is None else f"date ({self.zone})"

    def axis(self, seconds: float) -> float:
        """Return the place on a time axis: milliseconds since 1970, or days."""
        return seconds / DAY if self.zero is None else (self.zero + seconds) * 1000

    def width(self, seconds: float) -> float:
        """Return how long a span of time is on the axis."""
        return seconds / DAY if self.zero is None else seconds * 1000

    def said(self, seconds: float) -> str:
        """Say a point of time.

        >>> Calendar(None, "").said(90000), Calendar(0.0, "UTC").said(90000)
        ('day 1, 01:00', 'Fri 2 Jan 1970, 01:00')
        """
        if self.zero is None:
            days, rest = divmod(int(seconds), DAY)
            return f"day {days:,}, {rest // 3600:02}:{rest % 3600 // 60:02}" + self._second(rest % 60)
        when = datetime.fromtimestamp(self.zero + seconds, UTC)
        return f"{when:%a} {when.day} {when:%b %Y, %H:%M}" + self._second(when.second)

    def _second(self, second: int) -> str:
        return f":{second:02}" if self.brief else ""

    @property
    def midnight(self) -> float:
        """A second of the log at which a day begins, at or before its second 0."""
        return 0 if self.zero is None else -(self.zero % DAY)


def calendar(header: Mapping[str, str], first: float, last: float) -> Calendar:
    """Read the calendar of a log that goes from its second `first` to its second `last`.

    The difference from UTC is that of the log's first day, all year: clocks that are set back would show two
    jobs at once.

    Source:  "The Standard Workload Format": UnixStartTime, TimeZoneString, TimeZone (older, seconds).
    """
    began, brief = _seconds(header.get("UnixStartTime", "")), last - first < _HOUR
    # Logs that were made anonymous say 0; nobody had a cluster in 1970.
    if began is None or began <= 0 or began + last > _LATEST:
        return Calendar(None, "", brief)
    shift = datetime.fromtimestamp(began, UTC).astimezone(_zone(header)).utcoffset() or timedelta()
    return Calendar(began + shift.total_seconds(), timezone(shift).tzname(None), brief)


def _zone(header: Mapping[str, str]) -> tzinfo:
    try:
        return ZoneInfo(header["TimeZoneString"])
    except (KeyError, ValueError, OSError, ZoneInfoNotFoundError):
        shift = _seconds(header.get("TimeZone", "")) or 0
        return timezone(timedelta(seconds=shift)) if abs(shift) <= _FARTHEST else UTC


def _seconds(text: str) -> int | None:
    number = text.removeprefix("-")
    if not (number.isascii() and number.isdigit() and len(number) <= 15):
        return None
    return int(text)
