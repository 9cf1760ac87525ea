"""Dates that people type: without a time zone they are in local time, as `hn` shows dates."""

import re
import time
from datetime import UTC, date, datetime, timedelta

from headnode.core.formats.text.quantities import format_date_time, parse_date_time, parse_span
from headnode.core.model.errors import BadRequest
from headnode.core.model.quantities import Instant

IN_MINUTES = "2h, or 120, for two hours from now"
_START = datetime(1970, 1, 1)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_SPAN = re.compile(r"\s*\+?(?:[0-9]{1,6}[smhdw])+\s*", re.ASCII)
_IN_TABLES = re.compile(rf"(?:({'|'.join(_MONTHS)}) (\d\d?) )?(\d\d:\d\d)", re.ASCII | re.IGNORECASE)


def typed_date(
    option: str, text: str, also: str = "", *, ahead: bool = False, month_first: bool = False
) -> Instant:
    """Return the instant that the value of an option means, in seconds since 1970.

    A span with units, such as 2h or +1h30m, is so long from now if `ahead`.

    `also`: what else than a date the option takes, for the error.
    `ahead`: a time of day alone is the next one; otherwise it is the last one.
    `month_first`: 1/2/2030 is in January, as in HPC Pack; otherwise it is refused.
    Raises:  BadRequest ``date-time``, ``usage``.
    """
    if ahead and _SPAN.fullmatch(text):
        return Instant(time.time() + parse_span(text.strip().removeprefix("+")))
    text = _with_day(text.strip(), datetime.fromtimestamp(time.time(), UTC).astimezone(), ahead=ahead)
    if not month_first:
        from headnode.apps.cli.slurm_and_pbs import refuse_ambiguous_date

        refuse_ambiguous_date(text)
    try:
        at = _instant(text, also)
        if not _names_zone(text):
            _refuse_changed_clocks(text)
    except BadRequest as wrong:
        what = f"option {option!r}: {wrong.what}"
        raise BadRequest(code=wrong.code, what=what, fix=wrong.fix, path=(option,)) from wrong
    return at


def _instant(text: str, also: str) -> Instant:
    try:
        return parse_date_time(text, local=True)
    except BadRequest as wrong:
        if also:
            wrong.fix += f"; or {also}"
        raise


def with_time_zone(option: str, text: str, *, month_first: bool = False) -> str:
    """Return the date of an option in UTC, for the head may be in another zone; minutes stay as they are.

    Raises:  BadRequest as `typed_date`.
    """
    if re.fullmatch(r"\s*[0-9]{0,9}\s*", text):
        return text
    return format_date_time(typed_date(option, text, IN_MINUTES, ahead=True, month_first=month_first))


def _with_day(text: str, now: datetime, *, ahead: bool) -> str:
    """Return the whole date for one of tables: ``14:05`` of this day, ``Jan 31 14:05`` of this year."""
    match = _IN_TABLES.fullmatch(text)
    if not match:
        return text
    month, day_of_month, clock = match.groups()
    if month:
        return f"{now.year}-{_MONTHS.index(month.title()) + 1:02}-{int(day_of_month):02}T{clock}"
    day: date = now.date()
    if ahead and clock < now.strftime("%H:%M"):
        day += timedelta(days=1)
    elif not ahead and clock > now.strftime("%H:%M"):
        day -= timedelta(days=1)
    return f"{day.isoformat()}T{clock}"


def _names_zone(date: str) -> bool:
    try:
        parse_date_time(f"{date}Z")
    except BadRequest:
        return True
    return False


def _refuse_changed_clocks(date: str) -> None:
    """Refuse a time of day that the clocks skip on this day, or show twice.

    Raises:  BadRequest ``date-time``.
    """
    wall = _START + timedelta(seconds=parse_date_time(date))
    readings = sorted(wall.replace(fold=fold).astimezone() for fold in (0, 1))
    if readings[0].utcoffset() == readings[1].utcoffset():
        return
    happens = "occurs twice" if readings[0].replace(tzinfo=None) == wall else "does not exist"
    raise BadRequest(
        code="date-time",
        what=f"{date!r} {happens} in local time, because of summer time",
        fix=f"write {readings[0].isoformat()} or {readings[1].isoformat()}",
    )
