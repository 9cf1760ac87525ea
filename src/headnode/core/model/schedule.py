"""Schedules of recurring jobs: five fields of cron, a word such as ``@daily``, or ``@every 15m``.

Fields of cron are times of the clock in a time zone.  `cronsim` evaluates them as Debian's cron does, a
change to or from summer time included.  ``@every`` counts seconds from an anchor, whatever the clocks show.

Source:  crontab(5) of Debian; decision 0070.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from itertools import pairwise
from math import floor, inf
from types import MappingProxyType
from typing import Final, NamedTuple

from headnode.core.model.bounds import SCHEDULE_TEXT, TIME
from headnode.core.model.errors import BadRequest
from headnode.core.model.quantities import Instant, Seconds

WORDS: Final = MappingProxyType(
    {
        "@hourly": "0 * * * *",
        "@daily": "0 0 * * *",
        "@midnight": "0 0 * * *",
        "@weekly": "0 0 * * 0",
        "@monthly": "0 0 1 * *",
        "@yearly": "0 0 1 1 *",
        "@annually": "0 0 1 1 *",
    }
)
"""What the words mean in fields of cron."""

_EVERY: Final = re.compile(r"@every\s+((?:\d{1,9}[smhd])+)", re.IGNORECASE)
_AMOUNT: Final = re.compile(r"(\d+)([smhd])")
_UNITS: Final = MappingProxyType({"s": 1, "m": 60, "h": 3600, "d": 86_400})
_ZONE: Final = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+){0,3}")
EPOCH: Final = Instant(0.0)
FIELDS: Final = 5
COMPARED: Final = 64  # times of a schedule whose distances are looked at
SPAN: Final = (
    400 * 86_400.0
)  # seconds in which these are: to find 64 times that come once in 28 years takes 0.2 s
_BACK: Final = (3600.0, 2 * 86_400.0)
"""How far before a time its predecessor is looked for among all times, in seconds."""
_MINUTE: Final = 60.0  # times of cron are no nearer to each other


class Schedule(NamedTuple):
    """A schedule that was read: fields of cron in a time zone, or a number of seconds from an anchor."""

    cron: str
    zone: tzinfo
    every: Seconds
    anchor: Instant

    def times_after(self, after: Instant) -> Iterator[Instant]:
        """Yield the times later than `after`, ascending; none if no later one comes within 50 years."""
        if self.every:
            number = max(0, floor((after - self.anchor) / self.every))
            while True:
                number += 1
                at = Instant(self.anchor + number * self.every)
                if at > TIME.most:
                    return
                if at > after:
                    yield at
        yield from self._cron_times(after)

    def _cron_times(self, after: Instant) -> Iterator[Instant]:
        """Yield each instant once: around a change of the clock, cronsim may go back to one before."""
        from cronsim import CronSim  # a head without recurring jobs does without

        try:
            for moment in CronSim(self.cron, datetime.fromtimestamp(after, self.zone)):
                at = Instant(moment.timestamp())
                if at > after:
                    yield at
                    after = at
        except (OverflowError, ValueError):  # beyond the year 9999
            return

    def next_after(self, after: Instant) -> Instant | None:
        """Return the first time later than `after`; None if there is none within 50 years."""
        return next(self.times_after(after), None)

    def last_until(self, until: Instant, after: Instant) -> Instant | None:
        """Return the last time that is later than `after` and not later than `until`.

        Cost:  some 3,000 times of the schedule, however far apart both are: far ones are found by halves.
        """
        if self.every:
            at = Instant(self.anchor + floor((until - self.anchor) / self.every) * self.every)
            return at if at > max(after, self.anchor) else None
        for back in _BACK:
            begin = max(after, Instant(until - back))
            found = self._last_of(begin, until)
            if found is not None or begin == after:
                return found
        return self._last_of_far(until, after)

    def _last_of(self, after: Instant, until: Instant) -> Instant | None:
        """Return it where there are few: the times from `after` on."""
        found = None
        for at in self.times_after(after):
            if at > until:
                break
            found = at
        return found

    def _last_of_far(self, until: Instant, after: Instant) -> Instant | None:
        """Return it where it may be long ago: in the later half of what is left, if a time is there."""
        begin, end = after, until
        while end - begin > _MINUTE:
            middle = Instant((begin + end) / 2)
            at = self.next_after(middle)
            if at is None or at > until:
                end = middle
            else:
                begin = middle
        return self._last_of(begin, until)

    def first_times(self, after: Instant) -> list[Instant]:
        """Return the first time later than `after` and those that follow, 64 at most and within 400 days."""
        found: list[Instant] = []
        for at in self.times_after(after):
            if len(found) == COMPARED or (found and at > found[0] + SPAN):
                break
            found.append(at)
        return found

    def shortest_interval(self, times: Sequence[Instant]) -> Seconds:
        """Return the shortest distance of its `first_times`, in seconds; infinite if there is one or none."""
        if self.every:
            return self.every
        return Seconds(min((later - earlier for earlier, later in pairwise(times)), default=inf))


def read_schedule(text: str, zone: str, anchor: Instant = EPOCH) -> Schedule:
    """Return the schedule that a text describes.

    zone:    IANA's name of the time zone in which fields of cron are meant
    anchor:  from where ``@every`` counts
    Raises:  BadRequest ``schedule``, ``time-zone``.

    >>> read_schedule("@every 1h30m", "UTC", Instant(60.0)).next_after(Instant(60.0))
    5460.0
    >>> read_schedule("30 4 * * mon", "Europe/Berlin").next_after(Instant(0.0))
    358200.0
    """
    where = zone_named(zone)
    words = " ".join(text.split()) if len(text) <= SCHEDULE_TEXT.most else ""
    if (every := _EVERY.fullmatch(words)) is not None:
        amounts = _AMOUNT.findall(every[1].lower())
        seconds = sum(int(number) * _UNITS[unit] for number, unit in amounts)
        if seconds <= 0 or seconds > TIME.most:
            raise _wrong(text, "the interval is 0 or too long")
        return Schedule("", where, Seconds(float(seconds)), anchor)
    return Schedule(_cron_fields(text, words), where, Seconds(0.0), anchor)


def _cron_fields(text: str, words: str) -> str:
    from cronsim import CronSim, CronSimError

    fields = WORDS.get(words.lower(), words)
    if fields.startswith("@"):
        known = ", ".join(sorted(WORDS))
        raise _wrong(text, f"the words are {known} and @every INTERVAL, such as @every 1h30m")
    if (count := len(fields.split())) != FIELDS:
        raise _wrong(text, f"it has {count} field{'' if count == 1 else 's'}, and cron has {FIELDS}")
    try:
        CronSim(fields, datetime(2000, 1, 1, tzinfo=UTC))
    except CronSimError as error:
        raise _wrong(text, str(error)) from None
    return fields


def _wrong(text: str, why: str) -> BadRequest:
    shown = text if len(text) <= SCHEDULE_TEXT.most else f"{text[:40]}..."
    return BadRequest(
        code="schedule",
        what=f"{shown!r} is not a schedule: {why}",
        fix="write minute, hour, day of the month, month and day of the week, such as '0 4 * * *'; or @daily",
        path=("schedule",),
    )


@lru_cache(64)
def zone_named(name: str) -> tzinfo:
    """Return the time zone of a name of IANA, such as ``Europe/Berlin``; UTC needs no files.

    Raises:  BadRequest ``time-zone``.
    """
    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        if not _ZONE.fullmatch(name) or len(name) > SCHEDULE_TEXT.most:
            raise ValueError(name)
        return ZoneInfo(name)
    except (ValueError, OSError, ZoneInfoNotFoundError):
        raise BadRequest(
            code="time-zone",
            what=f"the head knows no time zone {name[:64]!r}",
            fix="use a name of IANA, as Europe/Berlin or UTC; if the head knows none, install tzdata there",
            path=("zone",),
        ) from None
