"""The clock of this machine, and one that a test or a simulation moves."""

import time

from headnode.core.model.errors import BadRequest
from headnode.core.model.quantities import Instant, Seconds


class VirtualClock:
    """A `Clock` that stands still between two calls of `advance`.

    >>> clock = VirtualClock(Instant(100.0))
    >>> clock.advance(Seconds(2.5))
    >>> clock.now()
    102.5
    """

    def __init__(self, now: Instant) -> None:
        self._now = now
        self._set_by = Seconds(0.0)

    def now(self) -> Instant:
        """Return the present instant."""
        return self._now

    def advance(self, seconds: Seconds) -> None:
        """Let time go by.

        Raises:  BadRequest ``clock-backwards`` when `seconds` is negative; see `jump`.
        """
        if seconds < 0:
            raise BadRequest(
                code="clock-backwards",
                what=f"time cannot go by {seconds} seconds",
                fix="use jump to show a clock that is set back",
            )
        self._now = Instant(self._now + seconds)

    def advance_to(self, instant: Instant) -> None:
        """Let time go by until an instant, exactly.

        Raises:  BadRequest ``clock-backwards`` when that is over; see `jump`.
        """
        self.advance(Seconds(instant - self._now))
        self._now = instant

    def jump(self, to: Instant) -> None:
        """Set the clock, forwards or backwards, as an administrator may set that of a machine."""
        self._set_by = Seconds(self._set_by + to - self._now)
        self._now = to

    def set_by(self) -> Seconds:
        """Return by how much it was set since this was asked before."""
        earlier, self._set_by = self._set_by, Seconds(0.0)
        return earlier


MIN_JUMP = 2.0  # seconds; less is a clock that is kept right


class WallClock:
    """A `Clock` that tells the machine's time.  It jumps when the machine's clock is set."""

    def __init__(self) -> None:
        self._ahead = _ahead_of_boot()

    def now(self) -> Instant:
        """Return the present instant."""
        return Instant(time.time())

    def set_by(self) -> Seconds:
        """Return by how much it was set since this was asked before; small corrections are none."""
        before, self._ahead = self._ahead, _ahead_of_boot()
        moved = self._ahead - before
        return Seconds(moved if abs(moved) >= MIN_JUMP else 0.0)


def _ahead_of_boot() -> float:
    """Return the time of day at which the machine was started: it changes when the clock is set."""
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
