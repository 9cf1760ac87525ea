"""How values are written on pages: times, texts of others, numbers."""

import re
from datetime import UTC, datetime
from typing import Final

from markupsafe import Markup, escape

from headnode.apps.cli.table import printable
from headnode.apps.readable_values import duration, instant_short

_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d")


def shown(text: object) -> str:
    """Return a text of others with control and direction characters spelt out; the template escapes it."""
    return printable(str(text))


def shown_lines(text: object) -> Markup:
    """Return a text of several lines, each as `shown` has it."""
    return Markup("\n").join(escape(printable(line)) for line in str(text).split("\n"))


def iso(at: float) -> str:
    """Return an instant (seconds since 1970) as ISO 8601 in local time with its offset."""
    return datetime.fromtimestamp(at, UTC).astimezone().isoformat(timespec="seconds")


def relative(at: float, now: float) -> str:
    """Return how far an instant is from now, such as ``in 4 min`` or ``3 h 10 min ago``."""
    if abs(at - now) < 1:
        return "now"
    span = duration(abs(float(int(at - now))))
    return f"in {span}" if at > now else f"{span} ago"


def instant_exact(at: float, now: float) -> str:
    """Return a point of time (seconds since 1970) as `instant_short` has it, with its seconds."""
    return f"{instant_short(at, now)}:{int(at) % 60:02}"


def with_times(text: object, now: float) -> Markup:
    """Return a text of lines as `shown_lines`, each instant in it as a time in the zone of the reader."""
    found, end = [], 0
    for match in _INSTANT.finditer(str(text)):
        try:
            at = datetime.fromisoformat(match[0]).timestamp()
            told = iso(at), instant_short(at, now)
        except (ValueError, OverflowError):
            continue  # of a name that only looks like one
        found += [
            shown_lines(str(text)[end : match.start()]),
            Markup('<time datetime="{0}" title="{0}" data-clock>{1}</time>').format(*told),
        ]
        end = match.end()
    return Markup().join([*found, shown_lines(str(text)[end:])])


def count(number: int) -> str:
    """Return a number with its thousands apart."""
    return f"{number:,}"
