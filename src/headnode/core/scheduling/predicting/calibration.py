"""From what the replays say to what to tell people: corrected by how such sayings turned out before.

A replay knows nothing of jobs that have yet to come, and draws too little of what may happen.  How far off it
was is learned as a ratio, for short and for long waits apart: P50 from that of the waits to the median of
the replays, P90 from that to the latest of them.
"""

from collections import deque
from collections.abc import Iterable
from math import inf, log2
from typing import NamedTuple

import msgspec

from headnode.core.model.quantities import FOREVER, Seconds
from headnode.core.scheduling.predicting.foresight import Foreseen
from headnode.core.scheduling.predicting.run_times import quantile

REMEMBERED = 500  # outcomes for each length of wait
FEWEST = 20  # outcomes for a length of wait, or those of all lengths are taken
_SHORT = 600.0  # seconds added to both sides of a ratio: that a minute became two means little


class Expected(NamedTuple):
    """What to tell: half of such jobs start by `p50`, nine of ten by `p90`.  Seconds of waiting from now."""

    p50: Seconds
    p90: Seconds


class Learned(msgspec.Struct, frozen=True, array_like=True):
    """Ratios of the waits that came to those foreseen, oldest first, for waits of about one length."""

    level: float
    length: int | None  # None: of all lengths
    ratios: tuple[float, ...]


class Calibration:
    """Learns from every job that had to wait and has started.  Bounded: lengths are classes of doubles."""

    def __init__(self, state: Iterable[Learned] = ()) -> None:
        self._ratios: dict[tuple[float, int | None], deque[float]] = {
            (one.level, one.length): deque(one.ratios, REMEMBERED) for one in state
        }

    def expected(self, foreseen: Foreseen, at_most: Seconds = FOREVER) -> Expected:
        """Return what to tell of a job; `at_most` is a wait that cannot be exceeded, if there is one.

        As long as too little has been learned: the median of the replays, and the plan by the limits.
        """
        p50 = min(self._corrected(0.5, foreseen.middle, foreseen.middle), at_most)
        p90 = min(self._corrected(0.9, foreseen.longest, foreseen.by_limits), at_most)
        return Expected(Seconds(p50), Seconds(max(p50, p90)))

    def learn(self, foreseen: Foreseen, waited: Seconds) -> None:
        """Remember how long a job waited of which that was foreseen when it came."""
        for level, wait in ((0.5, foreseen.middle), (0.9, foreseen.longest)):
            if wait < inf:
                ratio = (waited + _SHORT) / (wait + _SHORT)
                for length in (_length(wait), None):
                    self._ratios.setdefault((level, length), deque(maxlen=REMEMBERED)).append(ratio)

    def state(self) -> tuple[Learned, ...]:
        """Return all that was learned, for a snapshot."""
        return tuple(Learned(*key, tuple(ratios)) for key, ratios in self._ratios.items())

    def _corrected(self, level: float, wait: float, untaught: float) -> float:
        """Return the wait that a part `level` of such jobs did not exceed."""
        for length in (_length(wait), None) if wait < inf else ():
            ratios = self._ratios.get((level, length), ())
            if len(ratios) >= FEWEST:
                return max(0.0, quantile(sorted(ratios), level) * (wait + _SHORT) - _SHORT)
        return untaught


def _length(wait: float) -> int:
    """Return the class of waits: under 10 minutes, under 30, under 70, and so on by doubles."""
    return int(log2(wait / _SHORT + 1))
