"""The chart of the machine's days: processors in use, jobs waiting, and what they ask for."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from headnode.apps.cli.words import span
from headnode.apps.simulate.html.curves import Curve, Grid, drawn, grid, in_use, waiting
from headnode.apps.simulate.html.look import colour, label, settle
from headnode.apps.simulate.html.study import Study
from headnode.apps.simulate.simulation import Outcome

_FEW, _MANY = 130, 1600  # steps: to see the year at a glance, and to look into it
_TITLES = ("Processors in use (%)", "Jobs waiting (most)", "Processors they ask for (most)")


class OverTime(NamedTuple):
    """The chart with its coarsest steps; `details` has what to put into its traces, by the width of steps."""

    figure: go.Figure
    details: dict[str, dict[str, Any]]


def over_time(about: Study) -> OverTime:
    """Draw what happened over time, for every policy."""
    details = {span(steps.width): _traces(about, steps) for steps in _grids(about)}
    return OverTime(_figure(about, next(iter(details.values()))), details)


def _grids(about: Study) -> list[Grid]:
    midnight = about.calendar.midnight
    coarse, fine = (grid(about.first, about.last, most, midnight) for most in (_FEW, _MANY))
    return [fine] if coarse.width == fine.width else [coarse, fine]


def _traces(about: Study, steps: Grid) -> dict[str, Any]:
    curves = [curve for outcome in about.simulation.outcomes for curve in _curves(about, outcome, steps)]
    return {
        "x0": [about.calendar.axis(steps.begin)] * len(curves),
        "dx": [about.calendar.width(steps.width)] * len(curves),
        "y": [curve[0] for curve in curves],
        "customdata": [curve[1] for curve in curves],
    }


_Drawn = tuple[Sequence[float], Sequence[tuple[float, float, float]]]
"""Heights, and for each of them the mean, the lowest and the highest level."""


def _curves(about: Study, outcome: Outcome, steps: Grid) -> Sequence[_Drawn]:
    work, size = about.workload, about.processors
    use = drawn(in_use(work, outcome.starts), steps)
    jobs = drawn(waiting(work, outcome.starts, [1] * len(work.numbers)), steps)
    asked = drawn(waiting(work, outcome.starts, work.processors), steps)
    used = _said(use, 100 / size)
    return ([mean for mean, _, _ in used], used), (jobs.highest, _said(jobs)), (asked.highest, _said(asked))


def _said(curve: Curve, factor: float = 1) -> list[tuple[float, float, float]]:
    rows = zip(curve.means, curve.lowest, curve.highest, strict=True)
    return [
        (round(mean * factor, 1), round(low * factor, 1), round(high * factor, 1)) for mean, low, high in rows
    ]


def _figure(about: Study, data: dict[str, Any]) -> go.Figure:
    figure = make_subplots(rows=3, cols=1, shared_xaxes=True, vertical_spacing=0.06)
    for place, outcome in enumerate(about.simulation.outcomes):
        for row in range(3):
            figure.add_trace(_trace(place, outcome, row, data), row=row + 1, col=1)
    settle(figure, hovermode="x unified")
    kind = "linear" if about.calendar.zero is None else "date"
    figure.update_xaxes(type=kind, hoverformat=",.1f" if kind == "linear" else "%a %d %b %Y, %H:%M")
    figure.update_xaxes(title=about.calendar.title, row=3, col=1)
    for row, title in enumerate(_TITLES, start=1):
        figure.update_yaxes(title=title, rangemode="tozero", row=row, col=1)
    return figure


def _trace(place: int, outcome: Outcome, row: int, data: dict[str, Any]) -> go.Scatter:
    unit = " %" if row == 0 else ""
    return go.Scatter(
        name=label(outcome.policy),
        legendgroup=str(place),
        showlegend=row == 0,
        mode="lines",
        line={"shape": "hv", "width": 1.6, "color": colour(place)},
        hovertemplate=f"%{{customdata[0]:,}}{unit} (%{{customdata[1]:,}} to %{{customdata[2]:,}}{unit})",
        **{key: values[place * 3 + row] for key, values in data.items()},
    )
