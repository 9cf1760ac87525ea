"""What people see of how often the starts that the cluster predicted held."""

from headnode.apps.cli.words import counted, span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

NONE_YET = "no job that had to wait has started in the last {days}; predictions are judged when jobs start"
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
    return [_row(name, score) for name, score in lines.items() if score["jobs"]]


def _row(name: str, score: "Mapping[str, Any]") -> dict[str, str]:
    return {
        "Predicted Wait": name,
        "Jobs": str(score["jobs"]),
        "P50 Held": _part(score["p50_held"]),
        "Off By": _span(score["p50_error"]),
        "P90 Held": _part(score["p90_held"]),
        "P50 To P90": _span(score["spread"]),
        "Promise Held": _part(score["promise_held"]),
        "Promise Off By": _span(score["promise_error"]),
    }


def trailer(told: "Mapping[str, Any]", days: int) -> str:
    """Return what the numbers mean."""
    if not told["all"]["jobs"]:
        return ""
    return (
        f"Jobs that had to wait and started in the last {counted(days, 'day')}. P50 should hold for\n"
        "half of them, P90 for nine of ten. Off by: the median distance from it."
    )


def _part(part: float | None) -> str:
    return "" if part is None else f"{part:.1%}".replace("%", " %")


def _span(seconds: float | None) -> str:
    return "" if seconds is None else span(seconds)
