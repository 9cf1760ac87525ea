"""The clock on the wall: the time of day as this machine has it."""

import time

from headnode.core.model.quantities import Instant, Seconds

LEAST = 2.0  # seconds; less is a clock that is kept right


class WallClock:
    """A `Clock` that tells the machine's time.  It jumps when somebody sets the machine's clock."""

    def __init__(self) -> None:
        self._ahead = _ahead_of_boot()

    def now(self) -> Instant:
        """Return the present instant."""
        return Instant(time.time())

    def set_by(self) -> Seconds:
        """Return by how much it was set since this was asked before; small corrections are none."""
        before, self._ahead = self._ahead, _ahead_of_boot()
        moved = self._ahead - before
        return Seconds(moved if abs(moved) >= LEAST else 0.0)


def _ahead_of_boot() -> float:
    """Return the time of day at which the machine was started: it changes when the clock is set."""
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
