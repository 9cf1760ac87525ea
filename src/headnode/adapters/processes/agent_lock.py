"""One agent for each state directory."""

import fcntl
import os
from pathlib import Path

LOCK = "agent.lock"


def take(directory: Path) -> int | None:
    """Lock an agent's directory for as long as this process lives; None when another has it."""
    descriptor = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def holder(directory: Path) -> int | None:
    """Return the process id of the agent that lives in the directory; None when there is none.

    Raises:  PermissionError when it is another user's.
    """
    if not (directory / LOCK).exists() or not is_held(directory):
        return None
    text = (directory / LOCK).read_text()
    return int(text) if text.strip().isdigit() else None


def is_held(directory: Path) -> bool:
    """Whether an agent lives in the directory."""
    descriptor = take(directory)
    if descriptor is None:
        return True
    os.close(descriptor)
    return False
