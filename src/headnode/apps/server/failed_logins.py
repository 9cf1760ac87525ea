"""How many failed logins are written down one by one: strangers must not be able to fill the disk."""

WINDOW = 60.0  # seconds
MOST = 60  # lines in each window; the others are counted


class FailedLogins:
    """Says which failures get a line, and how many before it got none."""

    def __init__(self) -> None:
        self._began = 0.0
        self._written = 0
        self._unwritten = 0

    def note(self, now: float) -> int | None:
        """Return how many before this one got no line; None: neither does this one."""
        if not 0 <= now - self._began < WINDOW:
            self._began, self._written = now, 0
        if self._written >= MOST:
            self._unwritten += 1
            return None
        self._written += 1
        unwritten, self._unwritten = self._unwritten, 0
        return unwritten
