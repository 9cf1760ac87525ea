"""Say when an attempt was ended for want of memory: to the program that is a SIGKILL like any other.

Standard library only: this is loaded by the shepherd factory.
"""

import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

from headnode.adapters.processes.bounds import Bounds

if TYPE_CHECKING:
    from headnode.adapters.processes.attempts import Attempt

_ALL_OF_IT = 0.9  # of its limit: who was killed with less did not reach it
_ASK = "/estimatedprocessmemory"
_KB = 1024
_SHELLS_ADD = 128  # a shell tells by this exit status and the number that a signal ended its program


class Kills:
    """Counts the processes that were killed for want of memory since it was asked before."""

    def __init__(self, count: Callable[[], int]) -> None:
        self._count, self._known = count, count()

    def fresh(self) -> int:
        """Return how many there were since."""
        before, self._known = self._known, self._count()
        return self._known - before


def above_its_memory(bounds: Bounds) -> str:
    """Return the sentence for an attempt that needed more memory than it asked for."""
    each = f" ({bounds.memory} MB for each of its {bounds.held} processors)" if bounds.held > 1 else ""
    return (
        f"the task was killed: it needed more than the {bounds.memory * bounds.held} MB{each} that it asked "
        f"for; ask for more with {_ASK}"
    )


def by_memory(attempt: "Attempt", killed: int) -> str:
    """Return the sentence for an attempt of which processes were killed for want of memory; else nothing.

    `killed`: how many those were, or may have been: without a group the figures are those of the whole job
    here, or of the whole node.
    """
    if not killed or attempt.usage is None or attempt.verdict[0] != "exited":
        return ""
    if attempt.figures is not None:
        return for_want_of_memory(attempt.bounds, attempt.figures.peak)
    return _NONE_LEFT if _by_kill(attempt.usage[0]) else ""


def for_want_of_memory(bounds: Bounds, peak: int | None) -> str:
    """Return the sentence for a group of which processes were killed for want of memory; `peak` in kB."""
    return above_its_memory(bounds) if _reached_its_limit(bounds, peak) else _NONE_LEFT


_NONE_LEFT = (
    f"a process of the task was killed because its node had no memory left; with {_ASK} memory is "
    "reserved for the task, and other tasks cannot use it"
)


def _reached_its_limit(bounds: Bounds, peak: int | None) -> bool:
    most = bounds.most_memory
    return most is not None and (peak is None or peak * _KB >= _ALL_OF_IT * most)


def _by_kill(status: int) -> bool:
    if os.WIFSIGNALED(status):
        return os.WTERMSIG(status) == signal.SIGKILL
    return os.WEXITSTATUS(status) == _SHELLS_ADD + signal.SIGKILL
