"""Dates, spans of time, amounts of memory, sizes and sets of nodes, as people write them.

>>> parse_span("1h30m"), format_span(Seconds(5400.0))
(5400.0, '1h30m')
>>> parse_memory("4 GB"), format_memory(1536)
(4096, '1536 MB')"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any, NoReturn

from headnode.core.formats.text.source_text import nearest_name
from headnode.core.model.errors import BadRequest
from headnode.core.model.node import folded_names, is_plain
from headnode.core.model.quantities import FOREVER, Instant, Seconds

_START = datetime(1970, 1, 1, tzinfo=UTC)
_CLOCK = r"(?:[T ]\s*(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.(?P<fraction>\d{1,9}))?)?)?"
_NOON = r"(?:\s*(?P<half>[AP]M))?"
_ZONE = r"\s*(?P<zone>Z|UTC|(?P<sign>[+-])(?P<off_hour>\d{2}):?(?P<off_minute>\d{2}))?\Z"
_FORMS = tuple(
    re.compile(day + _CLOCK + _NOON + _ZONE, re.ASCII | re.IGNORECASE)
    for day in (
        r"(?P<year>\d{4})[-/](?P<month>\d{1,2})[-/](?P<day>\d{1,2})",
        r"(?P<month>\d{1,2})/(?P<day>\d{1,2})/(?P<year>\d{4})",
    )
)


def parse_date_time(text: str, *, local: bool = False) -> Instant:
    """Read a date, with or without a time of day; without a time zone it is UTC.

    `local`: without one it is in the time zone of this machine, as schedulers read their scripts.

    Unit:    seconds since 1970-01-01 00:00 UTC.
    Raises:  BadRequest ``date-time``.

    >>> parse_date_time("2030-01-02T03:04:05Z") == parse_date_time("1/2/2030 3:04:05 AM")
    True
    """
    found = next((match for form in _FORMS if (match := form.match(text.strip()))), None)
    moment = _moment(found, local=local) if found else None
    if moment is None:
        zone = "in local time" if local else "UTC"
        raise BadRequest(
            code="date-time",
            what=f"{text!r} is not a date and time",
            fix=f"write it as 2030-01-31T18:00:00Z; without a time zone it is {zone}",
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


def _moment(match: re.Match[str], *, local: bool) -> Instant | None:
    part = {name: int(match[name] or 0) for name in ("year", "month", "day", "minute", "second")}
    hour = _hour(int(match["hour"] or 0), (match["half"] or "").upper())
    try:
        wall = datetime(**part, hour=hour, tzinfo=UTC)
        if local and not match["zone"]:
            wall = wall.replace(tzinfo=None).astimezone()
    except (ValueError, OverflowError):  # of the first and last days there are
        return None
    fraction = float(f"0.{match['fraction'] or 0}")
    return Instant((wall - _START).total_seconds() + fraction - _offset(match))


def _hour(hour: int, half: str) -> int:
    if not half:
        return hour
    if not 1 <= hour <= 12:
        return 24  # no hour of any day, so the date is refused
    return hour % 12 + (12 if half == "PM" else 0)


def _offset(match: re.Match[str]) -> int:
    if not match["sign"]:
        return 0
    seconds = int(match["off_hour"]) * 3600 + int(match["off_minute"]) * 60
    return -seconds if match["sign"] == "-" else seconds


_NUMBER = r"[0-9]{1,18}(?:\.[0-9]{1,20})?(?:e[+-]?[0-9]{1,3})?"
_PIECE = re.compile(rf"\s*({_NUMBER})\s*([a-z]+)\s*", re.IGNORECASE)
_MEMORY = re.compile(rf"\s*({_NUMBER})\s*([a-z]+)\s*\Z", re.IGNORECASE)
_SIZE = re.compile(r"\s*(-?[0-9]{1,18}|\*)\s*(?:-\s*(-?[0-9]{1,18}|\*)\s*)?\Z")
_SECONDS_IN: Mapping[str, int] = {"w": 604800, "d": 86400, "h": 3600, "m": 60, "s": 1}
_SPELLED = {
    "w": ("w", "week", "weeks"),
    "d": ("d", "day", "days"),
    "h": ("h", "hr", "hrs", "hour", "hours"),
    "m": ("m", "min", "mins", "minute", "minutes"),
    "s": ("s", "sec", "secs", "second", "seconds"),
}
_UNITS: Mapping[str, int] = {word: _SECONDS_IN[unit] for unit, words in _SPELLED.items() for word in words}
_MEGABYTES_IN: Mapping[str, float] = {
    **{"kb": 1 / 1024, "kib": 1 / 1024, "mb": 1, "mib": 1, "gb": 1024, "gib": 1024},
    **{"tb": 1024**2, "tib": 1024**2, "m": 1, "g": 1024, "t": 1024**2},
}
Bounds = tuple[int | None, int | None]


def refuse(code: str, what: str, fix: str) -> NoReturn:
    """Raise the refusal; the reader of the file adds line and column."""
    raise BadRequest(code=code, what=what, fix=fix)


def shown(value: Any, table: str = "a table") -> str:
    """Return a value of a file as it may stand in a sentence; `table` is the word for a table.

    >>> shown([1, 2]), shown(True), shown("x" * 99)[:8]
    ('a list', 'true', "'xxxxxxx")
    """
    match value:
        case dict():
            return table
        case []:
            return "an empty list"
        case list():
            return "a list"
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
    text = repr(value) if isinstance(value, str | int | float) else str(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def parse_span(value: Any) -> Seconds:
    """Read a span of time: numbers with units, or infinite.

    Unit:    seconds (returned); weeks, days, hours, minutes and seconds (read).
    Raises:  BadRequest ``run-time``.
    """
    fix = 'write numbers with units, for example "90s", "45m", "1h30m", "2d", or "infinite"'
    if not isinstance(value, str):
        refuse("run-time", f"{shown(value)} has no unit", fix)
    text = value.strip().lower()
    if text == "infinite":
        return FOREVER
    total, at = 0.0, 0
    while piece := _PIECE.match(text, at):
        if piece[2] not in _UNITS:
            refuse("run-time", f"{piece[2][:20]!r} is not a unit of time", fix)
        total, at = total + float(piece[1]) * _UNITS[piece[2]], piece.end()
    if at != len(text) or not text or math.isinf(total):
        refuse("run-time", f"{shown(value)} is not a span of time", fix)
    return Seconds(total)


def format_span(span: Seconds) -> str:
    """Write a span of time so that `parse_span` reads exactly the same."""
    if span == FOREVER:
        return "infinite"
    pieces: list[str] = []
    rest = float(span)
    for unit in "dhm":
        count, rest = divmod(rest, _SECONDS_IN[unit])
        pieces.append(f"{count:.0f}{unit}" if count else "")
    text = "".join(pieces) + (f"{rest!r}s".replace(".0s", "s") if rest else "") or "0s"
    readable = _reads_as(text, span)
    return text if readable else f"{float(span)!r}s"


def _reads_as(text: str, span: Seconds) -> bool:
    try:
        return parse_span(text) == span
    except BadRequest:
        return False


def parse_memory(value: Any) -> int:
    """Read an amount of memory with its unit.

    Unit:    MB (returned); 1 GB is 1024 MB.
    Raises:  BadRequest ``memory``.
    """
    fix = 'write a number with its unit, for example "500 MB" or "4 GB"'
    match = _MEMORY.match(value) if isinstance(value, str) else None
    if match is None:
        refuse("memory", f"{shown(value)} is not an amount of memory", fix)
    unit = match[2].lower()
    if unit not in _MEGABYTES_IN:
        refuse("memory", f"{match[2][:20]!r} is not a unit of memory", fix)
    amount = float(match[1]) * _MEGABYTES_IN[unit]
    if math.isinf(amount) or amount != int(amount):
        refuse("memory", f"{shown(value)} is not a whole number of MB", fix)
    return int(match[1]) * int(_MEGABYTES_IN[unit]) if match[1].isdigit() and amount >= 1 else int(amount)


def format_memory(megabytes: int) -> str:
    """Write an amount of memory in the largest unit that needs no fraction."""
    for unit, size in (("TB", 1024**2), ("GB", 1024)):
        if megabytes and megabytes % size == 0:
            return f"{megabytes // size} {unit}"
    return f"{megabytes} MB"


def parse_bounds(value: Any) -> Bounds:
    """Read a number, or ``minimum-maximum``; ``*`` leaves one of them open.

    Raises:  BadRequest ``size``.

    >>> parse_bounds(4), parse_bounds("2-8"), parse_bounds("*-8"), parse_bounds("*")
    ((4, 4), (2, 8), (None, 8), (None, None))
    """
    if type(value) is int:
        return value, value
    match = _SIZE.match(value) if isinstance(value, str) else None
    if match is None:
        what = f"{shown(value)} is not a number, nor a minimum and a maximum"
        refuse("size", what, 'write 4, "2-8", or "*" for what is calculated from the tasks')
    low, high = match[1], match[2] or match[1]
    return (None if low == "*" else int(low)), (None if high == "*" else int(high))


def format_bounds(bounds: Bounds) -> int | str:
    """Write a minimum and a maximum as `parse_bounds` reads them."""
    low, high = bounds
    if low == high:
        return "*" if low is None else low
    return f"{'*' if low is None else low}-{'*' if high is None else high}"


def parse_at_least(value: Any) -> Bounds:
    """Read a number, which is a minimum, or ``minimum-maximum``, of what every node must have.

    Raises:  BadRequest ``size``.

    >>> parse_at_least(8), parse_at_least("*-8")
    ((8, None), (None, 8))
    """
    low, high = parse_bounds(value)
    return low, (high if isinstance(value, str) and "-" in value.strip()[1:] else None)


def format_at_least(bounds: Bounds) -> int | str:
    """Write bounds as `parse_at_least` reads them."""
    low, high = bounds
    if high is None and low is not None:
        return low
    return f"{'*' if low is None else low}-{'*' if high is None else high}"


def parse_memory_bounds(value: Any) -> Bounds:
    """Read an amount of memory, which is a minimum, or ``minimum - maximum``, each with its unit.

    Raises:  BadRequest ``memory``.

    >>> parse_memory_bounds("4 GB - 16 GB"), parse_memory_bounds("4-16 GB"), parse_memory_bounds("* - 2 GB")
    ((4096, 16384), (4096, 16384), (None, 2048))
    """
    if not isinstance(value, str) or "-" not in value:
        return parse_memory(value), None
    low, _, high = (part.strip() for part in value.partition("-"))
    unit = high.lstrip("0123456789. ")
    low = f"{low} {unit}" if re.fullmatch(r"[0-9.]+", low) else low
    return (None if low == "*" else parse_memory(low)), (None if high == "*" else parse_memory(high))


def format_memory_bounds(bounds: Bounds) -> str:
    """Write amounts of memory as `parse_memory_bounds` reads them."""
    low, high = ("*" if amount is None else format_memory(amount) for amount in bounds)
    return low if bounds[1] is None and bounds[0] is not None else f"{low} - {high}"


def one_of(what: str, value: Any, words: Mapping[str, Any]) -> Any:
    """Read one of several words.

    Raises:  BadRequest with the code `what`, and the word that was probably meant.
    """
    if isinstance(value, str) and value in words:
        return words[value]
    meant = nearest_name(value, words) if isinstance(value, str) else ""
    hint = f"did you mean {meant!r}? " if meant else ""
    refuse(what.replace(" ", "-"), f"{shown(value)} is not a valid {what}", f"{hint}write {', '.join(words)}")


MAX_NODES = 100_000
_TOKEN = re.compile(r"\\(.)|\[([^\[\]]*)\]|([\s,]+)|([^\\\[\],\s]+)|(.)", re.DOTALL)
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?\Z")
_FIX = 'write names and sets of them, for example "node1, node[3-5,8]" or ["node1", "node[3-5,8]"]'


def parse_nodes(value: Any) -> tuple[str, ...]:
    """Read a text of names and sets, separated by commas or blanks, or a list of names and sets.

    Raises:  BadRequest ``nodes``.

    >>> parse_nodes("a, n[08-10]"), parse_nodes(["r[1-2]n[1,3]"])
    (('a', 'n08', 'n09', 'n10'), ('r1n1', 'r1n3', 'r2n1', 'r2n3'))
    """
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        refuse("nodes", f"{shown(value)} names no nodes", _FIX)
    names: list[str] = []
    for text in texts:
        for pieces in _sets(text, split=isinstance(value, str)):
            if _combinations(pieces) > MAX_NODES - len(names):
                refuse("nodes", f"{shown(value)} names more than {MAX_NODES} nodes", "name fewer")
            names += ("".join(choice) for choice in product(*pieces))
    return tuple(names)


def _combinations(pieces: Iterable[Sequence[str]]) -> int:
    """Return how many names a set stands for, or any number above the limit."""
    count = 1
    for choices in pieces:
        count *= len(choices)
        if count > MAX_NODES:
            break
    return count


def _sets(text: str, *, split: bool) -> Iterator[list[Sequence[str]]]:
    """Yield each name or set as the choices for each of its pieces; `split` ends one at a comma or blank."""
    pieces: list[Sequence[str]] = []
    for token in _TOKEN.finditer(text):
        escaped, numbers, between, plain, stray = token.groups()
        if between is not None and split:
            if pieces:
                yield pieces
            pieces = []
        elif numbers is not None:
            pieces.append(_numbers(numbers, text))
        elif stray is not None:
            refuse("nodes", f"{shown(text)} has a stray {stray!r}", _FIX)
        else:
            pieces.append((escaped or between or plain,))
    if pieces or not split:
        yield pieces


def _numbers(text: str, whole: str) -> Sequence[str]:
    numbers: list[str] = []
    for part in text.split(","):
        match = _RANGE.match(part.strip())
        if match is None:
            refuse("nodes", f"{shown(part)} in {shown(whole)} is not a number or range", _FIX)
        first, last = match[1], match[2] or match[1]
        if int(last) < int(first) or int(last) - int(first) >= MAX_NODES:
            refuse("nodes", f"range {part.strip()!r} in {shown(whole)} is empty or too long", _FIX)
        width = len(first) if first.startswith("0") else 0
        numbers += (str(number).zfill(width) for number in range(int(first), int(last) + 1))
    return numbers


def format_nodes(names: tuple[str, ...]) -> str | list[str]:
    """Write names as `parse_nodes` reads them, in their order; runs of numbered names as sets.

    >>> format_nodes(("n1", "n2", "n3", "b")), format_nodes(("n1", "n2"))
    (['n[1-3]', 'b'], 'n[1-2]')
    """
    folded = list(folded_names(names))
    return folded[0] if len(folded) == 1 and is_plain(names[0]) else folded
