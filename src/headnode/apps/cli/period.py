"""``--since`` and ``--until``: a period of the cluster's past."""

from headnode.apps.cli.options import Option, usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from headnode.apps.cli.options import Asked

SINCE = Option("since", "DATE", "Only jobs submitted from this date and time on (UTC), or Nd: N days ago")
UNTIL = Option("until", "DATE", "Only jobs submitted before this date and time (UTC), or Nd: N days ago")
DAY = 86400.0  # seconds


def moment(asked: "Asked", name: str) -> float | None:
    """Return the point of time that an option names, in seconds since 1970; None when it was not given.

    Raises:  BadRequest ``date-time``.
    """
    text = asked.text(name)
    if text is None:
        return None
    days = text.lower().removesuffix("d")
    if days != text.lower() and days.isdecimal() and len(days) <= 6:
        import time

        return time.time() - int(days) * DAY
    from headnode.core.formats.dates import parse_date_time

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
    """Return who tells how many jobs of the history have come; on a terminal only, gone at the end."""
    import sys

    def told(come: int, ended: int) -> None:
        if sys.stderr.isatty():
            done = "" if come < ended else "\r\033[K"
            sys.stderr.write(done or f"\r\033[Kasking the head: {come} of {ended} jobs")
            sys.stderr.flush()

    return told
