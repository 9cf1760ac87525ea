"""How often predicted starts held, as clients get it."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from headnode.core.model.quantities import NEVER
from headnode.core.scheduling.predicting.scores import Judged, Score, by_predicted_wait, score
from headnode.engine.ports import Prediction

Object = dict[str, Any]


def scored(predictions: Sequence[Prediction]) -> Object:
    """Return the scores of judged predictions: of all, by predicted wait, and by policy; spans in seconds.

    Cost:  half a second for the 100,000 that are kept at most: beside the event loop, please.
    """
    by_policy: dict[str, list[Judged]] = {}
    for each in predictions:
        if each.started is not None and each.p50 is not None:
            promise = NEVER if each.promise is None else each.promise
            p90 = NEVER if each.p90 is None else each.p90
            judged = Judged(each.made, promise, each.p50, p90, each.started)
            by_policy.setdefault(each.policy, []).append(judged)
    everything = [judged for some in by_policy.values() for judged in some]
    return {
        "all": _scored(everything),
        "by_predicted_wait": _by_wait(everything),
        "by_policy": {policy: _scored(some) for policy, some in sorted(by_policy.items())},
    }


def _scored(judged: Sequence[Judged]) -> Object:
    return _object(score(judged), score(_promised(judged)), score(_bounded(judged)))


def _by_wait(judged: Sequence[Judged]) -> Mapping[str, Object]:
    promised, bounded = by_predicted_wait(_promised(judged)), by_predicted_wait(_bounded(judged))
    return {
        name: _object(all_of_it, promised[name], bounded[name])
        for name, all_of_it in by_predicted_wait(judged).items()
    }


def _promised(judged: Sequence[Judged]) -> list[Judged]:
    return [one for one in judged if one.promise < NEVER]


def _bounded(judged: Sequence[Judged]) -> list[Judged]:
    return [one for one in judged if one.p90 < NEVER]


def _object(all_of_it: Score, promised: Score, bounded: Score) -> Object:
    """Return a score; promises and bounds count only where there were some."""
    return {
        "jobs": all_of_it.jobs,
        "p50_held": all_of_it.p50_held,
        "p50_error": _finite(all_of_it.p50_error),
        "p90_held": bounded.p90_held,
        "spread": _finite(bounded.spread),
        "promised": promised.jobs,
        "promise_held": promised.promise_held,
        "promise_error": _finite(promised.promise_error),
    }


def _finite(seconds: float | None) -> float | None:
    return seconds if seconds is not None and isfinite(seconds) else None
