"""Values of a job in the words of its owner: what a template says about them when it refuses them."""

from math import inf
from typing import Any

from headnode.core.model.quantities import Priority, format_priority

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))
_IN_MEGABYTES = ("minimum_memory", "maximum_memory", "process_memory")


def in_words(field: str, value: Any) -> str:
    """Return a value of a field as people write it.

    >>> in_words("run_time", 10_800.0), in_words("priority", 4000), in_words("exclusive", False)
    ('3h', 'Highest', 'no')
    """
    if isinstance(value, list | tuple):
        return " or ".join(in_words(field, one) for one in value) or "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value if value.isidentifier() else repr(str(value))
    if not isinstance(value, int | float):
        return str(value)
    if field == "run_time":
        return _span(value)
    if field == "priority":
        return format_priority(Priority(int(value)))
    return f"{value:g} MB" if field in _IN_MEGABYTES else f"{value:g}"


def _span(seconds: float) -> str:
    if seconds == inf:
        return "infinite"
    pieces, rest = [], seconds
    for size, name in _UNITS:
        count, rest = divmod(rest, size)
        pieces.append(f"{count:.0f}{name}" if count else "")
    return "".join(pieces) or f"{seconds:g}s"
