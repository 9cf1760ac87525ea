"""The chart of the machine's days: processors in use, jobs waiting, and what they ask for."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from headnode.apps.cli.words import span
from headnode.apps.simulate.html.curves import Curve, Grid, drawn, grid, in_use, waiting
from headnode.apps.simulate.html.look import colour, label, settle
from headnode.apps.simulate.html.study import Study
from headnode.apps.simulate.simulation import Outcome

_FEW, _MANY = 200, 1600  # steps: to see the year at a glance, and to look into it
_TITLES = ("Processors in use (%)", "Jobs waiting", "Processors asked for")
_ROWS = len(_TITLES)


class OverTime(NamedTuple):
    """The chart with its coarsest steps; `details` has what to put into its traces, by the width of steps."""

    figure: go.Figure
    details: dict[str, dict[str, Any]]


def over_time(about: Study) -> OverTime:
    """Draw what happened over time, for every policy."""
    changes = [change for one in about.found for change in _changes(about, one.outcome)]
    details = {span(steps.width): _traces(about, changes, steps) for steps in _grids(about)}
    return OverTime(_figure(about, next(iter(details.values()))), details)


def _changes(about: Study, outcome: Outcome) -> Iterator[Mapping[float, int]]:
    """Yield the changes of the level of each row of the chart."""
    work = about.workload
    yield in_use(work, outcome.starts) if outcome.toll is None else outcome.toll.held
    yield waiting(work, outcome.starts, [1] * len(work.numbers))
    yield waiting(work, outcome.starts, work.processors)


def _grids(about: Study) -> list[Grid]:
    midnight = about.calendar.midnight
    coarse, fine = (grid(about.first, about.last, most, midnight) for most in (_FEW, _MANY))
    return [fine] if coarse.width == fine.width else [coarse, fine]


def _traces(about: Study, changes: Sequence[Mapping[float, int]], steps: Grid) -> dict[str, Any]:
    used = 100 / about.processors
    rows = [_row(drawn(change, steps), place % _ROWS, used) for place, change in enumerate(changes)]
    return {
        "x0": [about.calendar.axis(steps.begin)] * len(rows),
        "dx": [about.calendar.width(steps.width)] * len(rows),
        # A step is drawn from its point to the next; the last one needs an end.
        "y": [[*heights, heights[-1]] for heights, _ in rows],
        "customdata": [[*levels, levels[-1]] for _, levels in rows],
    }


def _row(curve: Curve, row: int, used: float) -> tuple[Sequence[float], Sequence[tuple[float, float, float]]]:
    """Return the heights of the steps, and for each the mean, the lowest and the highest level."""
    factor = used if row == 0 else 1
    means, lowest, highest = ([round(level * factor, 1) for level in levels] for levels in curve)
    return means if row == 0 else highest, list(zip(means, lowest, highest, strict=True))


def _figure(about: Study, data: dict[str, Any]) -> go.Figure:
    figure = make_subplots(rows=_ROWS, cols=1, shared_xaxes=True, vertical_spacing=0.06)
    for place, outcome in enumerate(about.simulation.outcomes):
        for row in range(_ROWS):
            figure.add_trace(_trace(place, outcome, row, data), row=row + 1, col=1)
    settle(figure, hovermode="x unified")
    if about.calendar.zero is None:
        figure.update_xaxes(type="linear", tickprefix="day ", hoverformat=",.2f")
    else:
        figure.update_xaxes(type="date", hoverformat="%a %d %b %Y, %H:%M")
    figure.update_xaxes(title=about.calendar.title, row=_ROWS, col=1)
    for row, title in enumerate(_TITLES, start=1):
        figure.update_yaxes(title=title, rangemode="tozero", row=row, col=1)
    figure.update_yaxes(range=[0, 103], row=1, col=1)
    return figure


def _trace(place: int, outcome: Outcome, row: int, data: dict[str, Any]) -> go.Scatter:
    unit = " %" if row == 0 else ""
    return go.Scatter(
        name=label(outcome.name),
        legendgroup=str(place),
        showlegend=row == 0,
        mode="lines",
        line={"shape": "hv", "width": 1.6, "color": colour(place)},
        hovertemplate=f"%{{customdata[0]:,}}{unit} (%{{customdata[1]:,}} to %{{customdata[2]:,}}{unit})",
        **{key: values[place * _ROWS + row] for key, values in data.items()},
    )
