"""Values of the command line that job files do not have: sizes, pairs, minutes of hold."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from headnode.core.formats.dates import parse_date_time
from headnode.core.model.errors import BadRequest, Broken
from headnode.core.model.quantities import Instant

Fields = dict[str, Any]

_SPAN = re.compile(r"\s*(\*|\d{1,9})\s*(?:-\s*(\*|\d{1,9})\s*)?\Z", re.ASCII)
_PROPERTIES = re.compile(r"\w+=[^=;]*(?:;\w+=[^=;]*)*")
_NEXT_VARIABLE = re.compile(r";(?=[^=;\s]+=)")


def _span(text: str) -> tuple[int | None, int | None]:
    """Read min[-max]; None stands for an asterisk."""
    found = _SPAN.match(text)
    if not found:
        raise BadRequest(
            code="size",
            what=f"{text!r} is not a size",
            fix="write min-max, one number for both, or * for calculated, for example 2-8",
        )
    low, high = found[1], found[2] or found[1]
    return (None if low == "*" else int(low)), (None if high == "*" else int(high))


def job_size(text: str) -> Fields:
    """Read min[-max] of a job; an asterisk leaves it to be calculated."""
    minimum, maximum = _span(text)
    return {"minimum": minimum, "maximum": maximum}


def task_size(text: str) -> Fields:
    """Read min[-max] of a task."""
    minimum, maximum = _span(text)
    if minimum is None or maximum is None:
        raise BadRequest(
            code="size", what=f"{text!r} gives no size for a task", fix="write numbers, for example 1-4"
        )
    return {"minimum": minimum, "maximum": maximum}


def per_node(what: str) -> Callable[[str], Fields]:
    """Return a reader of min[-max] of what every node must have; nothing or 0 asks for nothing."""

    def read(text: str) -> Fields:
        minimum, maximum = _span(text) if text.strip() else (None, None)
        given = maximum if "-" in text else None
        return {f"minimum_{what}": minimum or None, f"maximum_{what}": given or None}

    return read


def moment(text: str, now: Instant | None) -> Instant | None:
    """Read a date and time, or minutes from `now`; nothing takes it away."""
    if not text.strip():
        return None
    if not re.fullmatch(r"\s*[0-9]{1,9}\s*", text):
        return parse_date_time(text)
    if now is None:
        raise Broken(code="no-clock", what="a point of time in minutes was read without the time")
    return Instant(now + 60 * int(text))


def read_pairs(value: str | Mapping[str, str]) -> dict[str, str]:
    """Read ``name=value;name=value``; a semicolon that no name follows belongs to the value."""
    if isinstance(value, Mapping):
        return dict(value)
    pairs = [pair.partition("=") for pair in _NEXT_VARIABLE.split(value) if pair]
    if not all(name.strip() and equals for name, equals, _ in pairs):
        raise BadRequest(
            code="pairs", what=f"{value!r} is not a list of n=v", fix="write name=value;name=value"
        )
    return {name.strip(): text for name, _, text in pairs}


def read_properties(value: str | Mapping[str, str]) -> Fields:
    """Read custom properties.

    Source:  HPC Pack option customproperties.
    """
    if isinstance(value, str) and value and not _PROPERTIES.fullmatch(value):
        raise BadRequest(
            code="pairs",
            what=f"{value!r} is not a list of custom properties",
            fix="write name=value;name=value, names of letters, digits and underscores",
        )
    return {"properties": read_pairs(value)}
