"""Tells how far something is: a line of a terminal that changes, or lines at intervals in a file or pipe."""

import sys
import time

PATIENCE = 5.0  # seconds before a file or pipe is told anything, and between two lines there
OFTEN = 0.1  # seconds between two changes of a line on a terminal


class Telling:
    """Tells on standard error; `with` it, the line of a terminal is gone at the end."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._next = time.monotonic() + (0.0 if self._terminal else PATIENCE)

    def __enter__(self) -> "Telling":
        return self

    def __exit__(self, *_: object) -> None:
        if self._terminal:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()

    def tell(self, text: str) -> None:
        """Tell it, unless the last time was just now."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + (OFTEN if self._terminal else PATIENCE)
        sys.stderr.write(f"\r\033[K{text}" if self._terminal else f"hn: {text}\n")
        sys.stderr.flush()
