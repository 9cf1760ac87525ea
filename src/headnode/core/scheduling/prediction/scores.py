"""How often predictions held, and how far off they were."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from headnode.core.model.quantities import NEVER, Instant
from headnode.core.scheduling.prediction.run_times import quantile

WAITS: Sequence[tuple[str, float]] = (
    ("under 1 h", 3_600.0),
    ("1-6 h", 21_600.0),
    ("6-24 h", 86_400.0),
    ("more", float("inf")),
)
"""Classes of predicted waits (P50): their names, and where each ends, in seconds."""


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
    """Return the scores of jobs that had to wait, by how long they were told, in the classes `WAITS`."""
    waiting = [one for one in judged if one.waited]
    scores, begins = {}, 0.0
    for name, ends in WAITS:
        scores[name] = score([one for one in waiting if begins <= one.p50 - one.made < ends])
        begins = ends
    return scores
