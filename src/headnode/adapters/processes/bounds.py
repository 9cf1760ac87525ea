"""What one attempt may have of its node, all its processes together.

Standard library only: this is loaded by the shepherd factory.
"""

from collections.abc import Iterable
from typing import NamedTuple

from headnode.adapters.processes.limits import Asked

_MB = 1024 * 1024
PROCESSES = "nproc"  # the limit that a group counts, where there is one


class Bounds(NamedTuple):
    """`processors`: those of the machine that it is bound to; none: it is not bound.

    `memory`: MB for each of its processors here; 0: as much as there is.  `held`: how many those are.
    `parallel`: it has several, so that it is likely to be several processes.
    """

    processors: tuple[int, ...] = ()
    memory: int = 0
    held: int = 1
    parallel: bool = False

    @property
    def most_memory(self) -> int | None:
        """How many bytes it may have; None: there is no limit."""
        return self.memory * self.held * _MB or None


UNBOUND = Bounds()


def most_processes(limits: Iterable[Asked]) -> int | None:
    """Return how many processes an attempt may have, threads counted, if it asks for such a limit."""
    for name, *sides in limits:
        if name == PROCESSES:
            return min((side for side in sides if isinstance(side, int) and side >= 0), default=None)
    return None


def without_processes(limits: Iterable[Asked]) -> tuple[Asked, ...]:
    """Return the limits but for that of processes, which the group of the attempt keeps."""
    return tuple(limit for limit in limits if limit[0] != PROCESSES)
