"""What the replay of a workload asks of a policy over a pool of equal processors."""

from collections.abc import Sequence
from typing import Protocol


class PoolPolicy(Protocol):
    """Told what happens to the jobs of a workload, known by their row; answers what starts.

    A policy knows what was asked for, never the real run time.  Instants never go back.
    """

    def arrived(self, now: float, job: int, /) -> None:
        """A job has come into the queue."""

    def ended(self, now: float, job: int, /) -> None:
        """A job it started has ended, at its estimated end or before."""

    def expected_ends(self, now: float, /) -> None:
        """Count jobs whose estimated end is now as ended; `ended` is still told of them later."""

    def starts(self, now: float, /) -> Sequence[int]:
        """Return the jobs that start now, in the order of their starts."""

    def wakes(self) -> float:
        """Return the next instant at which it may start jobs though nothing happens; inf if none."""


class ForkablePolicy(PoolPolicy, Protocol):
    """A policy that can be run ahead without being changed."""

    def fork(self) -> PoolPolicy:
        """Return an independent copy: queue, running jobs, reservations."""
