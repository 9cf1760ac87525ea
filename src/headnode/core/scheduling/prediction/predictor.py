"""Predicted starts, corrected by earlier ones, and a policy over a pool that predicts every job.

A replay knows no jobs that are still to be submitted, and draws too little of what may happen.  Its error
is learned as a ratio, for short and for long waits apart: P50 from that of the waits to the median of
the replays, P90 from that to the latest of them.

The policy over a pool goes through a log as a cluster would: run times are known when jobs end, waits when
they start, and nothing is known earlier.
"""

from collections.abc import Iterable, Sequence
from math import inf, log2
from typing import NamedTuple

import msgspec

from headnode.core.model.quantities import FOREVER, NEVER, Instant, Seconds
from headnode.core.model.workload import Workload
from headnode.core.scheduling.pool.replay import ForkablePolicy
from headnode.core.scheduling.prediction.replays import PolicyTraits, PredictedWait, ReplayInput, Replays
from headnode.core.scheduling.prediction.run_times import JobTraits, RecentValues, RunTimeHistory
from headnode.core.scheduling.prediction.scores import JudgedPrediction

REMEMBERED = 500  # outcomes for each length of wait
FEWEST = 20  # outcomes for a length of wait, or those of all lengths are taken
_SHORT = 600.0  # seconds added to both sides of a ratio: that a minute became two means little
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

    Its size is bounded: lengths of waits are classed by doubling.

    Neighbours in a long queue share their luck for as long as they wait, so that hundreds of outcomes may
    be one.  Of waits of more than a day only those that ended a tenth of the wait apart are taken; so are
    those of waits of any length where all lengths are taken together.
    """

    def __init__(self, state: Iterable[CalibrationRecord] = ()) -> None:
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
                for length in (_length(wait), None):
                    if self._apart((level, length), wait, now):
                        ratio = (waited + _SHORT) / (wait + _SHORT)
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
        for length in (_length(wait), None) if wait < inf else ():
            ratios = self._ratios.get((level, length))
            if ratios is not None and len(ratios) >= FEWEST:
                return max(0.0, ratios.quantile(level) * (wait + _SHORT) - _SHORT)
        return untaught


def _length(wait: float) -> int:
    """Return the class of waits: under 10 minutes, under 30, under 70, and so on by doubles."""
    return int(log2(wait / _SHORT + 1))


_FRESH = 0.01  # of the wait foreseen: that much later it is still worth telling


class PredictingPolicy:
    """A wrapper of a replay's policy that records predictions and changes no decision."""

    def __init__(self, workload: Workload, policy: ForkablePolicy, manners: PolicyTraits) -> None:
        self._policy, self._manners = policy, manners
        self.history, self.calibration = RunTimeHistory(), Calibration()
        self._new: list[int] = []
        self._queued: dict[int, Instant] = {}
        self._running: dict[int, Instant] = {}
        self._told: dict[int, tuple[PredictedWait, JudgedPrediction]] = {}
        self._asked = _traits_of(workload)
        self._outlook: Replays | None = None
        self._fresh_until = Instant(0.0)
        self.judged: list[JudgedPrediction] = []
        """Every prediction and what became of it, in the order of starts."""

    def arrived(self, now: float, job: int) -> None:
        """Keep the job until the pass has been: what starts at once needs no prediction."""
        self._policy.arrived(now, job)
        self._queued[job] = Instant(now)
        self._new.append(job)

    def ended(self, now: float, job: int) -> None:
        """Learn how long it ran."""
        self._policy.ended(now, job)
        self.history.learn(self._asked[job], Seconds(now - self._running.pop(job)))

    def expected_ends(self, now: float) -> None:
        """Nothing is learned from it."""
        self._policy.expected_ends(now)

    def wakes(self) -> float:
        """Return what the policy says."""
        return self._policy.wakes()

    def starts(self, now: float) -> Sequence[int]:
        """Judge what was told of the jobs that start, and tell those that have come and must wait."""
        started = self._policy.starts(now)
        for job in started:
            self._judge(Instant(now), job)
        waiting = [job for job in self._new if job in self._queued]
        self._new.clear()
        if waiting:
            self._tell(Instant(now), waiting)
        return started

    def _judge(self, now: Instant, job: int) -> None:
        made = self._queued.pop(job)
        self._running[job] = now
        told = self._told.pop(job, None)
        if told is None:
            self.judged.append(JudgedPrediction(made, made, made, made, now))
            return
        foreseen, judged = told
        self.calibration.learn(foreseen, Seconds(now - made), now)
        self.judged.append(judged._replace(started=now))

    def _tell(self, now: Instant, waiting: Sequence[int]) -> None:
        for job, foreseen in self._outlook_on(now, waiting).foresee(now, waiting).items():
            at_most = foreseen.by_limits if self._manners.firm else FOREVER
            p50, p90 = self.calibration.expected(foreseen, at_most)
            promise = Instant(now + foreseen.by_limits)
            self._told[job] = (
                foreseen,
                JudgedPrediction(now, promise, Instant(now + p50), Instant(now + p90), NEVER),
            )

    def _outlook_on(self, now: Instant, waiting: Sequence[int]) -> Replays:
        """Return the futures; where nobody overtakes, those seen a while ago, with the new jobs behind."""
        if self._outlook is not None and now < self._fresh_until:
            for job in waiting:
                self._outlook.joined(job)
            return self._outlook
        scene = ReplayInput(now, self._policy, self._running, self._asked.__getitem__)
        outlook = Replays(scene, self.history, self._manners.replays(len(self._queued)))
        if self._manners.in_turn:
            self._outlook = outlook
            self._fresh_until = Instant(now + _FRESH * outlook.foresee(now, waiting[-1:])[waiting[-1]].middle)
        return outlook


def _traits_of(workload: Workload) -> Sequence[JobTraits]:
    unknown = [""] * len(workload.submits)
    return [
        JobTraits(user, name, Seconds(estimate))
        for user, name, estimate in zip(
            workload.users or unknown, workload.names or unknown, workload.estimates, strict=True
        )
    ]
