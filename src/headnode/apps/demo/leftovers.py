"""Processes that the demo started, found by a mark in their environment, which children inherit."""

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Final

PATIENCE: Final = 10.0  # seconds for processes that were told to end
PAUSE: Final = 0.02


def started_with(mark: tuple[str, str]) -> list[int]:
    """Return the processes of this user whose environment holds the variable `mark` with its value."""
    wanted = "=".join(mark).encode()
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            with contextlib.suppress(OSError):  # it is gone, or somebody else's
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
    return found


def see_them_gone(mark: tuple[str, str], patience: float = PATIENCE) -> list[int]:
    """Wait until none of them is left; kill those that stay, and return them."""
    deadline = time.monotonic() + patience
    while (left := started_with(mark)) and time.monotonic() < deadline:
        time.sleep(PAUSE)
    for process in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    return left
