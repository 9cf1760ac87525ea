"""What people see of how often predicted starts would have held over a log."""

from collections.abc import Iterator
from typing import Any

import msgspec

from headnode.apps.cli.screens.judged import PREDICTION_COLUMNS, prediction_rows
from headnode.apps.simulate.predictions import DAY, Foretold, Predictions
from headnode.core.scheduling.predicting.scores import Score

COLUMNS = ("Policy", *PREDICTION_COLUMNS)


def rows(predictions: Predictions) -> list[dict[str, str]]:
    """Return rows for each policy: all jobs, those that had to wait, and these by what they were told."""
    return [row for outcome in predictions.outcomes for row in _rows(outcome)]


def _rows(outcome: Foretold) -> Iterator[dict[str, str]]:
    everybody = prediction_rows(_told(outcome.all, {}))
    waited = prediction_rows(_told(outcome.waited, outcome.by_predicted_wait))
    for row in everybody:
        yield {"Policy": outcome.policy, **row, "Predicted Wait": "any or none"}
    for row in waited:
        yield {"Policy": outcome.policy, **row}


def _told(score: Score, by_predicted_wait: dict[str, Score]) -> dict[str, Any]:
    told = {"all": score, "by_predicted_wait": by_predicted_wait, "by_policy": {}}
    return msgspec.to_builtins(told)  # type: ignore[no-any-return]


def how_to_read(predictions: Predictions) -> str:
    """Return what the numbers mean."""
    return (
        "P50 should hold for half of the jobs that had to wait, P90 for nine of ten; the promise is the\n"
        "plan by the limits users gave. Off by: the median distance from the start. Any or none: with the\n"
        "jobs that started at once. Only jobs that came after "
        f"{predictions.warm_up / DAY:.3g} days count; those before taught."
    )
