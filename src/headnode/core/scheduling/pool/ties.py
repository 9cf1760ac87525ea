"""What goes first of the things that happen at the same instant: it changes the outcome, so it has a name."""

from enum import StrEnum


class Ties(StrEnum):
    """The orders that published tables were made with."""

    ENDS_FIRST = "ends-first"
    """All ends, all arrivals, then one pass."""

    ARRIVALS_FIRST = "arrivals-first"
    """A pass after each single event, arrivals before ends, ends by the order of their starts.

    Jobs that have reached their estimated end count as ended from the first of those passes on.
    """
