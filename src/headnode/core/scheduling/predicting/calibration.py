"""From what the replays say to what to tell people: corrected by how such sayings turned out before.

A replay knows nothing of jobs that have yet to come, and draws too little of what may happen.  How far off it
was is learned as a ratio, for short and for long waits apart: P50 from that of the waits to the median of
the replays, P90 from that to the latest of them.
"""

from collections.abc import Iterable
from math import inf, log2
from typing import NamedTuple

import msgspec

from headnode.core.model.quantities import FOREVER, Instant, Seconds
from headnode.core.scheduling.predicting.foresight import Foreseen
from headnode.core.scheduling.predicting.recent import Recent

REMEMBERED = 500  # outcomes for each length of wait
FEWEST = 20  # outcomes for a length of wait, or those of all lengths are taken
_SHORT = 600.0  # seconds added to both sides of a ratio: that a minute became two means little
_DAY = 86_400.0  # seconds
_APART = 0.1  # of the wait

Key = tuple[float, int | None]
"""A level and a class of waits."""


class Expected(NamedTuple):
    """What to tell: half of such jobs start by `p50`, nine of ten by `p90`.  Seconds of waiting from now."""

    p50: Seconds
    p90: Seconds


class Learned(msgspec.Struct, frozen=True, array_like=True):
    """Ratios of the waits that came to those foreseen, oldest first, for waits of about one length.

    `last` is when the newest was learned, if that was told.
    """

    level: float
    length: int | None  # None: of all lengths
    ratios: tuple[float, ...]
    last: float | None = None


class Calibration:
    """Learns from every job that had to wait and has started.  Bounded: lengths are classes of doubles.

    Neighbours in a long queue share their luck for as long as they wait, so that hundreds of outcomes may
    be one.  Of waits of more than a day only those that ended a tenth of the wait apart are taken; so are
    those of waits of any length where all lengths are taken together.
    """

    def __init__(self, state: Iterable[Learned] = ()) -> None:
        self._ratios: dict[Key, Recent] = {}
        self._last: dict[Key, float] = {}
        for one in state:
            self._ratios[one.level, one.length] = Recent(REMEMBERED, one.ratios)
            if one.last is not None:
                self._last[one.level, one.length] = one.last

    def expected(self, foreseen: Foreseen, at_most: Seconds = FOREVER) -> Expected:
        """Return what to tell of a job; `at_most` is a wait that cannot be exceeded, if there is one.

        As long as too little has been learned: the median of the replays, and the plan by the limits.
        """
        p50 = min(self._corrected(0.5, foreseen.middle, foreseen.middle), at_most)
        p90 = min(self._corrected(0.9, foreseen.longest, foreseen.by_limits), at_most)
        return Expected(Seconds(p50), Seconds(max(p50, p90)))

    def learn(self, foreseen: Foreseen, waited: Seconds, now: Instant | None = None) -> None:
        """Remember how long a job waited of which that was foreseen when it came.

        `now` is when it started; None takes it however close it is to the one before.
        """
        for level, wait in ((0.5, foreseen.middle), (0.9, foreseen.longest)):
            if wait < inf:
                for length in (_length(wait), None):
                    if self._apart((level, length), wait, now):
                        ratio = (waited + _SHORT) / (wait + _SHORT)
                        self._ratios.setdefault((level, length), Recent(REMEMBERED)).add(ratio)

    def state(self) -> tuple[Learned, ...]:
        """Return all that was learned, for a snapshot."""
        return tuple(
            Learned(*key, ratios.values(), self._last.get(key)) for key, ratios in self._ratios.items()
        )

    def _apart(self, key: Key, wait: float, now: Instant | None) -> bool:
        """Return whether an outcome is far enough from the one before, and remember when it was if so."""
        if now is None:
            return True
        last = self._last.get(key)
        if last is not None and (key[1] is None or wait > _DAY) and now < last + _APART * wait:
            return False
        self._last[key] = now
        return True

    def _corrected(self, level: float, wait: float, untaught: float) -> float:
        """Return the wait that a part `level` of such jobs did not exceed."""
        for length in (_length(wait), None) if wait < inf else ():
            ratios = self._ratios.get((level, length))
            if ratios is not None and len(ratios) >= FEWEST:
                return max(0.0, ratios.quantile(level) * (wait + _SHORT) - _SHORT)
        return untaught


def _length(wait: float) -> int:
    """Return the class of waits: under 10 minutes, under 30, under 70, and so on by doubles."""
    return int(log2(wait / _SHORT + 1))
