"""Where jobs that come late start in a simulated future that was computed without them.

Under EASY the last job of the queue changes nothing before it starts.  So a future computed without it tells
where it starts: at the first pass that leaves enough processors for it, now and at the reservation.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from headnode.core.model.workload import Workload


class RoomLeft(NamedTuple):
    """What a pass leaves: free processors, those beyond the reservation, and the instant of the reservation.

    A job that comes last starts if it takes no more than the free ones, and either takes no more than
    `extra` or ends by the `shadow`.
    """

    free: int
    extra: int
    shadow: float


@dataclass(slots=True)
class _RoomOfPass:
    at: float
    free: int
    extra: int
    shadow: float


class LateJobs:
    """The passes of one future, in order, and what they leave to jobs that come late.

    A job that has found a place takes it from those that come after it.  That others start later for its
    sake is left out.
    Cost:  one step for each pass of the future.
    """

    __slots__ = ("_estimates", "_passes", "_processors", "_room_left")

    def __init__(self, workload: Workload, room_left: Callable[[], RoomLeft]) -> None:
        self._processors, self._estimates = workload.processors, workload.estimates
        self._room_left = room_left
        self._passes: list[_RoomOfPass] = []

    def passed(self, now: float) -> None:
        """Remember what the pass of this instant left."""
        self._passes.append(_RoomOfPass(now, *self._room_left()))

    def start(self, now: float, job: int, lasts: float) -> float | None:
        """Return when a job that comes now starts, and let it hold its processors; None if nothing fits."""
        processors, estimate = self._processors[job], self._estimates[job]
        for nth, left in enumerate(self._passes):
            at = left.at
            if (
                processors <= left.free
                and at >= now
                and (processors <= left.extra or at + estimate <= left.shadow)
            ):
                self._hold(nth, processors, at + estimate, at + lasts)
                return at
        return None

    def _hold(self, first: int, processors: int, expected: float, until: float) -> None:
        """Take the processors out of what passes leave until then; by its estimate the job ends later."""
        for left in self._passes[first:]:
            if left.at >= until:
                return
            left.free -= processors
            if expected > left.shadow:
                left.extra -= processors
