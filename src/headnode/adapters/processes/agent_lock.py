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
    return descriptor


def is_held(directory: Path) -> bool:
    """Whether an agent lives in the directory."""
    descriptor = take(directory)
    if descriptor is None:
        return True
    os.close(descriptor)
    return False
