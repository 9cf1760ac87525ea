"""A control group for each shepherd, where this machine lets us have one: it can be killed as a whole.

There are two arrangements with a version 2 tree (alone, or beside version 1 as ``unified``), and none.
Standard library only: this is loaded by the shepherd factory.
"""

import contextlib
import os
import time
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_PLACES = (_ROOT, _ROOT / "unified")
_PAUSE = 0.005  # seconds between two looks


def tree() -> Path | None:
    """Return the root of the version 2 tree if we may make groups in it, else None."""
    for place in _PLACES:
        if (place / "cgroup.controllers").exists():
            return place if os.access(place, os.W_OK) and os.access(place / "cgroup.procs", os.W_OK) else None
    return None


def group(marker: str) -> Path | None:
    """Return where the group of a shepherd is, whether it exists or not; None where there are no groups."""
    root = tree()
    return None if root is None else root / f"headnode-{marker}"


def enter(marker: str) -> bool:
    """Make the group and put this process into it; False when that is not possible."""
    path = group(marker)
    if path is None:
        return False
    try:
        path.mkdir(exist_ok=True)
        (path / "cgroup.procs").write_text(str(os.getpid()))
    except OSError:
        return False
    return True


def end(marker: str, patience: float) -> bool:
    """Kill all in the group and remove it; True when it is gone, or never was, within `patience` seconds."""
    path = group(marker)
    if path is None or not path.exists():
        return True
    until = time.monotonic() + patience
    while path.exists():
        with contextlib.suppress(OSError):  # before Linux 5.14 there is no cgroup.kill
            (path / "cgroup.kill").write_text("1")
        with contextlib.suppress(OSError):  # busy while something in it still dies
            path.rmdir()
            return True
        if time.monotonic() > until:
            return False
        time.sleep(_PAUSE)
    return True


def exists(marker: str) -> bool:
    """Tell whether the group of a shepherd is there."""
    path = group(marker)
    return path is not None and path.exists()
