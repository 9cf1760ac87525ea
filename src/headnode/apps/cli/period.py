"""``--since`` and ``--until``: a period of the cluster's past."""

from headnode.apps.cli.options import Option, usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from headnode.apps.cli.options import Asked

AGO = "or 90m, 1h, 2d, 1w: so long ago"
SINCE = Option("since", "TIME", f"Only jobs submitted from this date and time on (UTC), {AGO}")
UNTIL = Option("until", "TIME", f"Only jobs submitted before this date and time (UTC), {AGO}")
DAY = 86400.0  # seconds
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": DAY, "w": 7 * DAY}


def moment(asked: "Asked", name: str, *, ahead: bool = False) -> float | None:
    """Return the point of time that an option names, in seconds since 1970; None when it was not given.

    A number with a unit is so long ago; with `ahead`, so long from now.
    Raises:  BadRequest ``date-time``.
    """
    text = asked.text(name)
    if text is None:
        return None
    count, unit = text.strip()[:-1], text.strip()[-1:].lower()
    if unit in _UNITS and count.isascii() and count.isdigit() and len(count) <= 6:
        import time

        return time.time() + (1 if ahead else -1) * int(count) * _UNITS[unit]
    from headnode.apps.cli.typed_times import refuse_two_dates
    from headnode.core.formats.dates import parse_date_time

    refuse_two_dates(text)
    return parse_date_time(text)


def period(asked: "Asked") -> tuple[float | None, float | None]:
    """Return since when and until when; None for no bound.

    Raises:  BadRequest ``date-time``; ``usage`` when nothing can be between them.
    """
    since, until = moment(asked, "since"), moment(asked, "until")
    if since is not None and until is not None and since >= until:
        raise usage("the period ends before it begins", "give the earlier date to --since")
    return since, until


def told_on_terminal() -> "Callable[[int, int], None]":
    """Return who tells how many jobs of the history have come; on a terminal the line is gone at the end."""
    from headnode.apps.cli.telling import Telling

    telling = Telling()

    def told(come: int, ended: int) -> None:
        if come < ended:
            telling.tell(f"asking the head: {come} of {ended} jobs")
        else:
            telling.__exit__()

    return told
