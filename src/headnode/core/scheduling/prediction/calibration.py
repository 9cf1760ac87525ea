"""Predicted starts: what replays say of a wait, corrected by earlier predictions; how often these held."""

from collections.abc import Iterable, Sequence
from math import inf, log2
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from headnode.core.model.quantities import FOREVER, NEVER, Instant, Seconds
from headnode.core.scheduling.prediction.run_times import RecentValues, quantile

if TYPE_CHECKING:
    pass

_GOLDEN, _PLASTIC = 0.6180339887498949, 0.7548776662466927  # their multiples are spread evenly over (0, 1)

WAITS: Sequence[tuple[str, float]] = (
    ("under 1 h", 3_600.0),
    ("1-6 h", 21_600.0),
    ("6-24 h", 86_400.0),
    ("more", float("inf")),
)
"""Classes of predicted waits (P50): their names, and where each ends, in seconds."""


class PredictedWait(NamedTuple):
    """The wait of a job over all replays (median and longest), and if all jobs run to their limits.

    Unit:  seconds from the instant of looking ahead; inf if it never starts.
    """

    middle: Seconds
    longest: Seconds
    by_limits: Seconds


def predicted_wait(waits: Iterable[float], by_limits: float) -> PredictedWait:
    """Return what replays say of one job: how long it waits in each, and if all jobs run to their limits."""
    ascending = sorted(waits)
    return PredictedWait(Seconds(quantile(ascending, 0.5)), Seconds(ascending[-1]), Seconds(by_limits))


def replay_quantile(job: int, replay: int) -> float:
    """Return which quantile of its run times a job has in a replay: in the first the median, then any."""
    return 0.5 if replay == 0 else (job * _GOLDEN + replay * _PLASTIC) % 1.0


class JudgedPrediction(NamedTuple):
    """A prediction and the actual start; all are instants.

    `promise` is the start by the plan from the users' limits, `NEVER` if none follows from them.  A job that
    started at once was told so: all are `made`, the instant of its submission.
    """

    made: Instant
    promise: Instant
    p50: Instant
    p90: Instant
    started: Instant

    @property
    def waited(self) -> bool:
        """Whether it did not start at once."""
        return self.started > self.made


class PredictionScore(msgspec.Struct, frozen=True):
    """The quality of predictions: the parts of jobs that started by promise, P50 and P90, and the errors.

    Errors are medians of the distance to the start; `spread` is the mean time from P50 to P90; all in
    seconds.  None where there are no jobs, and of promises where none was given.
    """

    jobs: int
    promise_held: float | None = None
    p50_held: float | None = None
    p90_held: float | None = None
    promise_error: float | None = None
    p50_error: float | None = None
    spread: float | None = None


def score(judged: Sequence[JudgedPrediction]) -> PredictionScore:
    """Return how often these predictions held.

    Cost:  O(n log n).
    """
    promised = [one for one in judged if one.promise != NEVER]
    return PredictionScore(
        jobs=len(judged),
        promise_held=_mean([one.started <= one.promise for one in promised]),
        p50_held=_mean([one.started <= one.p50 for one in judged]),
        p90_held=_mean([one.started <= one.p90 for one in judged]),
        promise_error=_median([abs(one.started - one.promise) for one in promised]),
        p50_error=_median([abs(one.started - one.p50) for one in judged]),
        spread=_mean([one.p90 - one.p50 for one in judged]),
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _median(values: Sequence[float]) -> float | None:
    return quantile(sorted(values), 0.5) if values else None


def by_predicted_wait(judged: Sequence[JudgedPrediction]) -> dict[str, PredictionScore]:
    """Return the scores of jobs that had to wait, by predicted wait, in the classes `WAITS`."""
    waiting = [one for one in judged if one.waited]
    scores, begins = {}, 0.0
    for name, ends in WAITS:
        scores[name] = score([one for one in waiting if begins <= one.p50 - one.made < ends])
        begins = ends
    return scores


REMEMBERED = 500  # outcomes for each length of wait
MIN_OUTCOMES = 20  # outcomes for a length of wait, or those of all lengths are taken
SHORT = 600.0  # seconds, of waits at which a correction is not about parts but about minutes
_DAY = 86_400.0  # seconds
_APART = 0.1  # of the wait

CalibrationKey = tuple[float, int | None]
"""A level and a class of waits."""


class CalibratedWait(NamedTuple):
    """A predicted wait from now in seconds: half of such jobs start by `p50`, nine of ten by `p90`."""

    p50: Seconds
    p90: Seconds


class CalibrationRecord(msgspec.Struct, frozen=True, array_like=True):
    """Ratios of actual to predicted waits of about one length, oldest first.

    `last` is when the newest was learned, if that was told.
    """

    level: float
    length: int | None  # None: of all lengths
    ratios: tuple[float, ...]
    last: float | None = None


class Calibration:
    """Corrections of predicted waits, learned from every job that had to wait and has started.

    Its size is bounded: lengths of waits are classed by doubling.  `short` seconds are added to both sides of
    a ratio: that so short a wait became twice as long means little.

    Neighbours in a long queue share their luck for as long as they wait, so that hundreds of outcomes may
    be one.  Of waits of more than a day only those that ended a tenth of the wait apart are taken; so are
    those of waits of any length where all lengths are taken together.
    """

    def __init__(self, state: Iterable[CalibrationRecord] = (), short: float = SHORT) -> None:
        self._short = short
        self._ratios: dict[CalibrationKey, RecentValues] = {}
        self._last: dict[CalibrationKey, float] = {}
        for one in state:
            self._ratios[one.level, one.length] = RecentValues(REMEMBERED, one.ratios)
            if one.last is not None:
                self._last[one.level, one.length] = one.last

    def expected(self, foreseen: PredictedWait, at_most: Seconds = FOREVER) -> CalibratedWait:
        """Return what to tell of a job; `at_most` is a wait that cannot be exceeded, if there is one.

        As long as too little has been learned: the median of the replays, and the plan by the limits.
        """
        p50 = min(self._corrected(0.5, foreseen.middle, foreseen.middle), at_most)
        p90 = min(self._corrected(0.9, foreseen.longest, foreseen.by_limits), at_most)
        return CalibratedWait(Seconds(p50), Seconds(max(p50, p90)))

    def learn(self, foreseen: PredictedWait, waited: Seconds, now: Instant | None = None) -> None:
        """Remember how long a job waited of which that was foreseen when it came.

        `now` is when it started; None takes it however close it is to the one before.
        """
        for level, wait in ((0.5, foreseen.middle), (0.9, foreseen.longest)):
            if wait < inf:
                for length in (self._length(wait), None):
                    if self._apart((level, length), wait, now):
                        ratio = (waited + self._short) / (wait + self._short)
                        self._ratios.setdefault((level, length), RecentValues(REMEMBERED)).add(ratio)

    def state(self) -> tuple[CalibrationRecord, ...]:
        """Return all that was learned, for a snapshot."""
        return tuple(
            CalibrationRecord(*key, ratios.values(), self._last.get(key))
            for key, ratios in self._ratios.items()
        )

    def _apart(self, key: CalibrationKey, wait: float, now: Instant | None) -> bool:
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
        for length in (self._length(wait), None) if wait < inf else ():
            ratios = self._ratios.get((level, length))
            if ratios is not None and len(ratios) >= MIN_OUTCOMES:
                return max(0.0, ratios.quantile(level) * (wait + self._short) - self._short)
        return untaught

    def _length(self, wait: float) -> int:
        """Return the class of waits: under 10 minutes, under 30, under 70, and so on by doubles."""
        return int(log2(wait / self._short + 1))
