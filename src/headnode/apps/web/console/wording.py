"""How values are written on pages: times, texts of others, numbers."""

from datetime import UTC, datetime

from markupsafe import Markup, escape

from headnode.apps.cli.table import printable
from headnode.apps.readable_values import duration


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


def count(number: int) -> str:
    """Return a number with its thousands apart."""
    return f"{number:,}"
