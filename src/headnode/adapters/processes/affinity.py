"""Processors: what this process may use, and programs that are started on some of them only.

Standard library only: this is loaded by the shepherd factory.
Source: sched_setaffinity(2).
"""

import contextlib
import os
from collections.abc import Collection, Iterator


def machine_processors() -> tuple[int, ...]:
    """Return the numbers that the machine gives to the processors which this process may use, in order."""
    return tuple(sorted(os.sched_getaffinity(0)))


def bind_this(processors: Collection[int]) -> None:
    """Bind this process for good; none named: leave it as it is, as when they are not there any more."""
    if processors:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, processors)


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Stay bound to the same processors, whatever groups this process enters meanwhile.

    Systems before Linux 6.2 bind whoever enters a group of version 2 to all the processors of the group.
    """
    own = os.sched_getaffinity(0)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # the group has none of them
            os.sched_setaffinity(0, own)


@contextlib.contextmanager
def bound_to(processors: Collection[int]) -> Iterator[None]:
    """Let what is started meanwhile have these processors only; none named: all that this process has.

    A processor that is not there any more leaves the others; if none is left nothing is bound.
    """
    if not processors:
        yield
        return
    own = os.sched_getaffinity(0)
    try:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, processors)
        yield
    finally:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, own)
