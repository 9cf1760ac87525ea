"""Until when tasks may go on though nobody can be told of them.

The clock goes on while the machine sleeps, and nobody can set it.
Standard library only: this is loaded by the shepherd factory.
Source: clock_gettime(2), CLOCK_BOOTTIME.
"""

import time

FOR_EVER = float("inf")


def boot_time() -> float:
    """Return the seconds since this machine was started."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Lease:
    """For ever, until somebody says until when."""

    def __init__(self) -> None:
        self._until = FOR_EVER

    def renew(self, until: float | None) -> None:
        """Go by this from now on: seconds since the machine was started; None: for ever."""
        self._until = FOR_EVER if until is None else until

    @property
    def left(self) -> float:
        """The seconds that are left; infinite for ever, below 0 when it is over."""
        return self._until - boot_time()

    @property
    def is_over(self) -> bool:
        """Whether tasks must stand still."""
        return self.left <= 0
