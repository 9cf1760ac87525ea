"""A filter for logs that others can fill: some lines of each kind a minute, then how many were left out."""

import logging
import threading
import time

from headnode.core.model.bounds import STRANGER_LINES

WINDOW = 60.0  # seconds


class FewLines(logging.Filter):
    """Lets the first lines of each kind pass; lines are of one kind when their text before arguments is."""

    def __init__(self, most: int = STRANGER_LINES.most, window: float = WINDOW) -> None:
        super().__init__()
        self._most, self._window = most, window
        self._seen: dict[str, tuple[float, int]] = {}  # when the window began, and the lines in it
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether the line is written; the first after a window tells how many were not."""
        kind, now = str(record.msg)[:200], time.monotonic()
        with self._lock:
            began, lines = self._seen.get(kind, (now, 0))
            over = now - began >= self._window
            left_out = max(0, lines - self._most) if over else 0
            began, lines = (now, 1) if over else (began, lines + 1)
            self._seen[kind] = began, lines
            if len(self._seen) > 1000:
                self._seen.clear()
        if left_out:
            record.msg = f"{record.msg} (and {left_out} more lines like this were left out)"
        if lines == self._most:
            record.msg = f"{record.msg} (further lines like this are left out for {self._window:.0f} s)"
        return lines <= self._most
