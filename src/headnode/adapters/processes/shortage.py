"""Tell a node that has no processes, descriptors or memory left from a user who has used up his own.

Standard library only: this is loaded by the shepherd factory.
Source: fork(2), execve(2): EAGAIN, ENOMEM, EMFILE, ENFILE.
"""

import contextlib
import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path

from headnode.adapters.processes.hierarchies import ROOT

SHORT = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})
_GROUP = "headnode-"  # how the group of a shepherd with all of its job begins


def nothing_is_left() -> bool:
    """Whether this process gets no descriptor or no child, whatever program it is to start."""
    try:
        os.close(os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC))
        child = os.fork()
    except OSError as error:
        return error.errno in SHORT
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return False


def own_limit_is_reached() -> bool:
    """Whether the limits of this process, its user or its job are why there is no more: not the node."""
    bounded = (resource.RLIMIT_AS, resource.RLIMIT_DATA)
    if any(resource.getrlimit(which)[0] != resource.RLIM_INFINITY for which in bounded):
        return True
    processes = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    counted = os.getuid() != 0 and processes != resource.RLIM_INFINITY
    return (counted and _threads_of(os.getuid()) >= processes) or any(map(_is_full, _own_groups()))


def _threads_of(user: int) -> int:
    """Return how many threads a user has on this machine."""
    found = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):  # it has ended
                found += len(list((entry / "task").iterdir())) if entry.stat().st_uid == user else 0
    return found


def _own_groups() -> Iterator[Path]:
    """Yield the groups that hold what this job has of processes, one for each tree."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            tree = ROOT / "pids" if "pids" in controllers.split(",") else ROOT
            for group in (own := tree / path.lstrip("/"), *own.parents):
                if group.name.startswith(_GROUP):
                    yield group


def _is_full(group: Path) -> bool:
    with contextlib.suppress(OSError, ValueError):  # "max": there is no limit
        return int((group / "pids.current").read_text()) >= int((group / "pids.max").read_text())
    return False
