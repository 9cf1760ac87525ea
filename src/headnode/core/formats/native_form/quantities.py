"""Spans of time, amounts of memory and sizes, as people write them.

>>> parse_span("1h30m"), format_span(Seconds(5400.0))
(5400.0, '1h30m')
>>> parse_memory("4 GB"), format_memory(1536)
(4096, '1536 MB')
"""

import math
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from headnode.core.formats.nearest import nearest
from headnode.core.model.errors import BadRequest
from headnode.core.model.quantities import FOREVER, Seconds

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
    """Raise the refusal; whoever reads the file adds the place."""
    raise BadRequest(code=code, what=what, fix=fix)


def shown(value: Any) -> str:
    """Return a value of a file as it may stand in a sentence.

    >>> shown([1, 2]), shown(True), shown("x" * 99)[:8]
    ('a list', 'true', "'xxxxxxx")
    """
    match value:
        case dict():
            return "a table"
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
            refuse("run-time", f"{piece[2][:20]!r} is no unit of time", fix)
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
    found = _MEMORY.match(value) if isinstance(value, str) else None
    if found is None:
        refuse("memory", f"{shown(value)} is not an amount of memory", fix)
    unit = found[2].lower()
    if unit not in _MEGABYTES_IN:
        refuse("memory", f"{found[2][:20]!r} is no unit of memory", fix)
    amount = float(found[1]) * _MEGABYTES_IN[unit]
    if math.isinf(amount) or amount != int(amount):
        refuse("memory", f"{shown(value)} is not a whole number of MB", fix)
    return int(found[1]) * int(_MEGABYTES_IN[unit]) if found[1].isdigit() and amount >= 1 else int(amount)


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
    found = _SIZE.match(value) if isinstance(value, str) else None
    if found is None:
        what = f"{shown(value)} is not a number, nor a minimum and a maximum"
        refuse("size", what, 'write 4, "2-8", or "*" for what is calculated from the tasks')
    low, high = found[1], found[2] or found[1]
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
    meant = nearest(value, words) if isinstance(value, str) else ""
    hint = f"did you mean {meant!r}? " if meant else ""
    refuse(what.replace(" ", "-"), f"{shown(value)} is no {what}", f"{hint}write {', '.join(words)}")
