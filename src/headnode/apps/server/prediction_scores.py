"""Scores of predicted starts, by what became of them."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Final

from headnode.core.model.quantities import NEVER, Instant
from headnode.core.scheduling.prediction.predictor import (
    JudgedPrediction,
    PredictionScore,
    by_predicted_wait,
    score,
)
from headnode.engine.ports import Prediction, PredictionStore
from headnode.protocol.cluster_answers import ScoreObject, ScoresOfPredictions
from headnode.protocol.metric_answers import CoverageObject

PREDICTIONS_PAGE: Final = 1000  # predictions
COVERAGE_LIFETIME: Final = 60.0  # seconds


def judged_predictions(predictions: PredictionStore, since: Instant) -> Iterator[Prediction]:
    """Yield the judged predictions, page by page: writes wait while a page is read."""
    before = None
    while page := predictions.judged_predictions(since, PREDICTIONS_PAGE, before):
        yield from page
        last = page[-1]
        before = (NEVER if last.started is None else last.started, last.job)


def prediction_scores(predictions: Sequence[Prediction]) -> ScoresOfPredictions:
    """Return the scores of judged predictions: of all, by predicted wait, and by policy; spans in seconds.

    Cost:  half a second for the 100,000 that are kept at most: beside the event loop, please.
    """
    by_policy: dict[str, list[JudgedPrediction]] = {}
    for each in predictions:
        if each.started is not None and each.p50 is not None:
            promise = NEVER if each.promise is None else each.promise
            p90 = NEVER if each.p90 is None else each.p90
            judged = JudgedPrediction(each.made, promise, each.p50, p90, each.started)
            by_policy.setdefault(each.policy, []).append(judged)
    everything = [judged for some in by_policy.values() for judged in some]
    return ScoresOfPredictions(
        everything=_scores_of(everything),
        by_predicted_wait=_by_wait(everything),
        by_policy={policy: _scores_of(some) for policy, some in sorted(by_policy.items())},
    )


def _scores_of(judged: Sequence[JudgedPrediction]) -> ScoreObject:
    return _score_object(score(judged), score(_promised(judged)), score(_bounded(judged)))


def _by_wait(judged: Sequence[JudgedPrediction]) -> dict[str, ScoreObject]:
    promised, bounded = by_predicted_wait(_promised(judged)), by_predicted_wait(_bounded(judged))
    return {
        name: _score_object(all_of_it, promised[name], bounded[name])
        for name, all_of_it in by_predicted_wait(judged).items()
    }


def _promised(judged: Sequence[JudgedPrediction]) -> list[JudgedPrediction]:
    return [one for one in judged if one.promise < NEVER]


def _bounded(judged: Sequence[JudgedPrediction]) -> list[JudgedPrediction]:
    return [one for one in judged if one.p90 < NEVER]


def _score_object(
    all_of_it: PredictionScore, promised: PredictionScore, bounded: PredictionScore
) -> ScoreObject:
    """Return a score; promises and bounds count only where there were some."""
    return ScoreObject(
        jobs=all_of_it.jobs,
        p50_held=all_of_it.p50_held,
        p50_error=_finite(all_of_it.p50_error),
        p90_held=bounded.p90_held,
        spread=_finite(bounded.spread),
        promised=promised.jobs,
        promise_held=promised.promise_held,
        promise_error=_finite(promised.promise_error),
    )


def _finite(seconds: float | None) -> float | None:
    return seconds if seconds is not None and isfinite(seconds) else None


class PredictionCoverage:
    """How often the newest predictions held, looked up once a minute at most."""

    def __init__(self, predictions: PredictionStore) -> None:
        self._predictions = predictions
        self._found = CoverageObject(0, None, None, None)
        self._until = 0.0  # monotonic
        self._looking = asyncio.Lock()

    async def newest(self) -> CoverageObject:
        """Return the coverage of the newest predictions."""
        async with self._looking:
            if time.monotonic() >= self._until:
                self._found = await asyncio.to_thread(self._look)
                self._until = time.monotonic() + COVERAGE_LIFETIME
        return self._found

    def _look(self) -> CoverageObject:
        judged = self._predictions.judged_predictions(Instant(0.0), PREDICTIONS_PAGE)
        found = prediction_scores(judged).everything
        return CoverageObject(found.jobs, found.p50_held, found.p90_held, found.promise_held)
