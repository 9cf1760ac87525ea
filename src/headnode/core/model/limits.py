"""Limits that the operating system keeps for every process of a task.

Source: SSS 3.1.0, "ResourceLimit"; setrlimit(2).
"""

from collections.abc import Iterable

import msgspec

UNLIMITED = -1
"""How setrlimit writes that there is no limit."""

LIMITS = {
    "as": "bytes of address space",
    "core": "bytes of a core file",
    "cpu": "seconds of processor time",
    "data": "bytes of data segment",
    "fsize": "bytes of a file written",
    "memlock": "bytes locked in memory",
    "msgqueue": "bytes in message queues",
    "nofile": "open files",
    "nproc": "processes of the user",
    "rss": "bytes resident in memory",
    "rtprio": "realtime priority",
    "sigpending": "pending signals",
    "stack": "bytes of stack",
}
"""The limits there are, and what each counts."""


class ResourceLimit(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A limit by the name that setrlimit knows it by in small letters: cpu, core, data, fsize, nofile ...

    Bytes or seconds or numbers, as setrlimit counts them; -1: no limit; None leaves that side as it was.
    """

    name: str
    soft: int | None = None
    hard: int | None = None


def limits_in_force(job: Iterable[ResourceLimit], task: Iterable[ResourceLimit]) -> tuple[ResourceLimit, ...]:
    """Return the limits of a task: the job's, with the task's own in place of those of the same name."""
    return tuple({limit.name: limit for limit in (*job, *task)}.values())


def reaches(limit: int | None, other: int | None) -> bool:
    """Tell whether a limit is at least another; both as they are written, None when nothing is said.

    >>> reaches(-1, 5), reaches(5, -1), reaches(4, 5), reaches(None, 5), reaches(5, None)
    (True, False, False, True, True)
    """
    if limit is None or other is None or limit == UNLIMITED:
        return True
    return other != UNLIMITED and limit >= other
