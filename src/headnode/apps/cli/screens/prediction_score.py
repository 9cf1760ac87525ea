"""How often predicted starts held: those of the cluster, and those made over a log."""

from headnode.apps.cli.arguments import DAY
from headnode.apps.readable_values import counted, duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from headnode.apps.simulate.predictions import PolicyPredictionScore, PredictionScores
    from headnode.core.scheduling.prediction.scores import PredictionScore

NO_PREDICTIONS = (
    "no job that had to wait has started in the last {days}; predictions are judged when jobs start"
)
PREDICTION_COLUMNS = (
    "Predicted Wait",
    "Jobs",
    "P50 Held",
    "Off By",
    "P90 Held",
    "P50 To P90",
    "Promise Held",
    "Promise Off By",
)


def prediction_rows(told: "Mapping[str, Any]") -> list[dict[str, str]]:
    """Return a line for all, for each length of predicted wait, and for each policy if there were several."""
    scores = dict(told["by_predicted_wait"])
    if len(told["by_policy"]) > 1:
        scores |= {f"under {policy}": score for policy, score in told["by_policy"].items()}
    lines = {"any time": told["all"], **scores}
    return [_prediction_row(name, score) for name, score in lines.items() if score["jobs"]]


def _prediction_row(name: str, score: "Mapping[str, Any]") -> dict[str, str]:
    return {
        "Predicted Wait": name,
        "Jobs": str(score["jobs"]),
        "P50 Held": _part(score["p50_held"]),
        "Off By": _offset(score["p50_error"]),
        "P90 Held": _part(score["p90_held"]),
        "P50 To P90": _offset(score["spread"]),
        "Promise Held": _part(score["promise_held"]),
        "Promise Off By": _offset(score["promise_error"]),
    }


def prediction_trailer(told: "Mapping[str, Any]", days: int) -> str:
    """Return what the numbers mean."""
    if not told["all"]["jobs"]:
        return ""
    return (
        f"Jobs that had to wait and started in the last {counted(days, 'day')}. P50 should hold for\n"
        "half of them, P90 for nine of ten. Off by: the median distance from it."
    )


def _part(part: float | None) -> str:
    return "" if part is None else f"{part:.1%}".replace("%", " %")


def _offset(seconds: float | None) -> str:
    return "" if seconds is None else duration(seconds)


LOG_COLUMNS = ("Policy", *PREDICTION_COLUMNS)


def log_rows(predictions: "PredictionScores") -> list[dict[str, str]]:
    """Return rows for each policy: all jobs, those that had to wait, and these by what they were told."""
    return [row for outcome in predictions.outcomes for row in _policy_rows(outcome)]


def _policy_rows(outcome: "PolicyPredictionScore") -> "Iterator[dict[str, str]]":
    everybody = prediction_rows(_as_document(outcome.all, {}))
    waited = prediction_rows(_as_document(outcome.waited, outcome.by_predicted_wait))
    for row in everybody:
        yield {"Policy": outcome.policy, **row, "Predicted Wait": "any or none"}
    for row in waited:
        yield {"Policy": outcome.policy, **row}


def _as_document(
    score: "PredictionScore", by_predicted_wait: "dict[str, PredictionScore]"
) -> "dict[str, Any]":
    import msgspec

    told = {"all": score, "by_predicted_wait": by_predicted_wait, "by_policy": {}}
    return msgspec.to_builtins(told)  # type: ignore[no-any-return]


def how_to_read(predictions: "PredictionScores") -> str:
    """Return what the numbers mean."""
    return (
        "P50 should hold for half of the jobs that had to wait, P90 for nine of ten; the promise is the\n"
        "plan by the limits users gave. Off by: the median distance from the start. Any or none: with the\n"
        "jobs that started at once. Only jobs that came after "
        f"{predictions.warm_up / DAY:.3g} days count; those before taught."
    )
