"""How long, and how often, a wait tries again while the head is away."""

import time

from headnode.core.model.errors import Unavailable

MIN_PAUSE, MAX_PAUSE = 0.2, 5.0  # seconds


class Patience:
    """The time that is left of a wait.  Pauses double until the head answers again."""

    def __init__(self, away: float, timeout: float | None) -> None:
        """`away`: seconds without a head; `timeout`: seconds for everything, None for ever."""
        self._away, self._last = away, time.monotonic()
        self._deadline = None if timeout is None else self._last + timeout
        self._pause = MIN_PAUSE

    @property
    def left(self) -> float | None:
        """The seconds that are left; None: no limit."""
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def answered(self) -> None:
        """Note that the head has answered."""
        self._last, self._pause = time.monotonic(), MIN_PAUSE

    def pause_after(self, away: Unavailable) -> float:
        """Return the seconds until the next attempt.

        Raises:  `away` when the head has been away for too long; TimeoutError.
        """
        if time.monotonic() - self._last > self._away:
            raise away
        left = self.left
        if left == 0.0:
            raise TimeoutError
        pause, self._pause = self._pause, min(2 * self._pause, MAX_PAUSE)
        return pause if left is None else min(pause, left)
