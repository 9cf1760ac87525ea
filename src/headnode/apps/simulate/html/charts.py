"""The charts of the report and their theme: the machine's days, kinds of jobs, earlier and later starts."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from math import log10
from typing import Any, NamedTuple

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from headnode.apps.readable_values import duration
from headnode.apps.simulate.html.study import STEPS, PolicyFinding, Study, percent
from headnode.apps.simulate.report import JobClass, slowdowns, spread
from headnode.apps.simulate.simulation import PolicyOutcome
from headnode.core.model.workload import Workload
from headnode.core.scheduling.pool.replay import job_ends

# Told apart by most who do not see all colours, and readable on white and on black.
_COLOURS = ("#3b82d0", "#e07b1a", "#1f9d78", "#b65fc0", "#a38a12", "#d4526e", "#6f7f95", "#2fa4b8")
_INK = "#5a6472"
_GRID_INK = "rgba(128, 138, 150, 0.25)"
SPANS = {
    1: "1 s",
    10: "10 s",
    60: "1 min",
    600: "10 min",
    3600: "1 h",
    21600: "6 h",
    86400: "1 d",
    604800: "1 week",
    2419200: "4 weeks",
    31536000: "1 year",
}
"""Spans of time (seconds) that axes have marks at, in words."""


def colour(place: int) -> str:
    """Return the colour of the policy at a place."""
    return _COLOURS[place % len(_COLOURS)]


def label(text: str) -> str:
    """Return a text such that a chart shows it as it is, and not as markup."""
    return escape(text, quote=False)


def themed_chart(traces: "list[go.Scatter] | list[go.Bar]", **layout: Any) -> go.Figure:
    """Return a chart in the common look."""
    figure = go.Figure(traces)
    apply_theme(figure, **layout)
    return figure


def apply_theme(figure: go.Figure, **layout: Any) -> None:
    """Give a chart the common look."""
    figure.update_layout(
        template="none",
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "system-ui, sans-serif", "size": 13, "color": _INK},
        margin={"l": 70, "r": 16, "t": 40, "b": 50},
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.01, "x": 0},
        hoverlabel={"bgcolor": "#1d2530", "bordercolor": "#1d2530", "font": {"color": "#f2f5f8"}},
        **layout,
    )
    figure.update_xaxes(gridcolor=_GRID_INK, linecolor=_GRID_INK, zeroline=False, automargin=True)
    figure.update_yaxes(gridcolor=_GRID_INK, linecolor=_GRID_INK, zeroline=False, automargin=True)


_WIDTHS = (1, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2419200)


class TimeGrid(NamedTuple):
    """`size` equal steps of time from `begin` on, `width` seconds each, for all from `first` to `last`."""

    begin: float
    width: float
    size: int
    first: float
    last: float

    @property
    def covered(self) -> Iterator[float]:
        """The seconds of each step that are between the first and the last."""
        for step in range(self.size):
            begin = self.begin + step * self.width
            yield min(begin + self.width, self.last) - max(begin, self.first)


class StepCurve(NamedTuple):
    """For each step of a grid: the mean over its time, the lowest and the highest level."""

    means: Sequence[float]
    lowest: Sequence[int]
    highest: Sequence[int]


def grid(first: float, last: float, most: int, midnight: float = 0) -> TimeGrid:
    """Return at most `most` steps from `first` to `last` that begin at full hours, days or weeks."""
    width: float = next((width for width in _WIDTHS if (last - first) / width <= most - 1), _WIDTHS[-1])
    while (last - first) / width > most - 1:
        width *= 2
    begin = midnight + (first - midnight) // width * width
    return TimeGrid(begin, width, int((last - begin) // width) + 1, first, last)


def in_use(workload: Workload, starts: Sequence[float]) -> Counter[float]:
    """Return by how much the number of processors in use changes at which seconds."""
    changes: Counter[float] = Counter()
    for start, end, count in zip(starts, job_ends(workload, starts), workload.processors, strict=True):
        changes[start] += count
        changes[end] -= count
    return changes


def waiting(workload: Workload, starts: Sequence[float], sizes: Sequence[int]) -> Counter[float]:
    """Return by how much the sum of the sizes of the waiting jobs changes; with sizes of 1, their number."""
    changes: Counter[float] = Counter()
    for submit, start, size in zip(workload.submits, starts, sizes, strict=True):
        changes[submit] += size
        changes[start] -= size
    return changes


def curve_points(changes: Mapping[float, int], steps: TimeGrid) -> StepCurve:
    """Return the curve of a level that is 0 at first and changes so."""
    areas, lowest, highest = [0.0] * steps.size, [_NO_CURVE] * steps.size, [0] * steps.size
    last, step, edge = steps.size - 1, 0, steps.begin + steps.width
    for begin, end, level in _levels(changes, steps):
        while True:
            upto = end if end <= edge or step == last else edge
            if upto > begin:
                areas[step] += level * (upto - begin)
                lowest[step] = level if level < lowest[step] else lowest[step]
                highest[step] = level if level > highest[step] else highest[step]
            if upto == end:
                break
            begin, step = edge, step + 1
            edge = steps.begin + (step + 1) * steps.width
    means = [area / time if time > 0 else 0.0 for area, time in zip(areas, steps.covered, strict=True)]
    return StepCurve(means, [0 if level == _NO_CURVE else level for level in lowest], highest)


_NO_CURVE = 1 << 62  # no level is that high


def _levels(changes: Mapping[float, int], steps: TimeGrid) -> Iterator[tuple[float, float, int]]:
    """Yield (begin, end, level) of each stretch of time; what lasts no time is no level."""
    level = 0
    for begin, end in pairwise([steps.first, *sorted(changes), steps.last]):
        level += changes.get(begin, 0) if begin != end else 0
        if begin < end:
            yield begin, end, level


_FEW, _MANY = 200, 1600  # steps: to see the year at a glance, and to look into it
_TITLES = ("Processors in use (%)", "Jobs waiting", "Processors asked for")
_ROWS = len(_TITLES)


class TimelineChart(NamedTuple):
    """The chart with its coarsest steps; `details` has what to put into its traces, by the width of steps."""

    figure: go.Figure
    details: dict[str, dict[str, Any]]


def timeline_chart(about: Study) -> TimelineChart:
    """Draw what happened over time, for every policy."""
    changes = [change for one in about.found for change in _size_changes(about, one.outcome)]
    details = {duration(steps.width): _traces(about, changes, steps) for steps in _grids(about)}
    return TimelineChart(_figure(about, next(iter(details.values()))), details)


def _size_changes(about: Study, outcome: PolicyOutcome) -> Iterator[Mapping[float, int]]:
    """Yield the changes of the level of each row of the chart."""
    work = about.workload
    yield in_use(work, outcome.starts) if outcome.preemption_cost is None else outcome.preemption_cost.held
    yield waiting(work, outcome.starts, [1] * len(work.numbers))
    yield waiting(work, outcome.starts, work.processors)


def _grids(about: Study) -> list[TimeGrid]:
    midnight = about.calendar.midnight
    coarse, fine = (grid(about.first, about.last, most, midnight) for most in (_FEW, _MANY))
    return [fine] if coarse.width == fine.width else [coarse, fine]


def _traces(about: Study, changes: Sequence[Mapping[float, int]], steps: TimeGrid) -> dict[str, Any]:
    used = 100 / about.processors
    rows = [_row(curve_points(change, steps), place % _ROWS, used) for place, change in enumerate(changes)]
    return {
        "x0": [about.calendar.axis(steps.begin)] * len(rows),
        "dx": [about.calendar.width(steps.width)] * len(rows),
        # A step is drawn from its point to the next; the last one needs an end.
        "y": [[*heights, heights[-1]] for heights, _ in rows],
        "customdata": [[*levels, levels[-1]] for _, levels in rows],
    }


def _row(
    curve: StepCurve, row: int, used: float
) -> tuple[Sequence[float], Sequence[tuple[float, float, float]]]:
    """Return the heights of the steps, and for each the mean, the lowest and the highest level."""
    factor = used if row == 0 else 1
    means, lowest, highest = ([round(level * factor, 1) for level in levels] for levels in curve)
    return means if row == 0 else highest, list(zip(means, lowest, highest, strict=True))


def _figure(about: Study, data: dict[str, Any]) -> go.Figure:
    figure = make_subplots(rows=_ROWS, cols=1, shared_xaxes=True, vertical_spacing=0.06)
    for place, outcome in enumerate(about.simulation.outcomes):
        for row in range(_ROWS):
            figure.add_trace(_trace(place, outcome, row, data), row=row + 1, col=1)
    apply_theme(figure, hovermode="x unified")
    if about.calendar.zero is None:
        figure.update_xaxes(type="linear", tickprefix="day ", hoverformat=",.2f")
    else:
        figure.update_xaxes(type="date", hoverformat="%a %d %b %Y, %H:%M")
    figure.update_xaxes(title=about.calendar.title, row=_ROWS, col=1)
    for row, title in enumerate(_TITLES, start=1):
        figure.update_yaxes(title=title, rangemode="tozero", row=row, col=1)
    figure.update_yaxes(range=[0, 103], row=1, col=1)
    return figure


def _trace(place: int, outcome: PolicyOutcome, row: int, data: dict[str, Any]) -> go.Scatter:
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


_SLOWDOWNS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10_000, 100_000, 1_000_000)
_GAP = "<br>"
_BREAKS = re.compile(r"(over|under|to|the|same|days|h|min) ")  # where names of steps are broken into lines


def classes_chart(
    workload: Workload, classes: Sequence[JobClass], found: Sequence[PolicyFinding], kind: str
) -> go.Figure:
    """Draw waits and slowdowns of classes of jobs: medians, and whiskers to what nine in ten have."""
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.06)
    highest = [1.0, 1.0]
    for place, one in enumerate(found):
        measures = (one.waits, slowdowns(workload, one.outcome.starts))
        for row, (values, said) in enumerate(zip(measures, (duration, _times), strict=True)):
            trace = _spreads(place, one.outcome.name, classes, values, said)
            trace.showlegend = row == 0
            figure.add_trace(trace, row=row + 1, col=1)
            highest[row] = max(highest[row], *trace.customdata)
            trace.customdata = None
    apply_theme(figure, scattermode="group", scattergap=0.35)
    figure.update_xaxes(type="category", showgrid=False, tickangle=0)
    figure.update_xaxes(title=kind, row=2, col=1)
    _spans_axis(figure, highest[0])
    _slowdowns_axis(figure, highest[1])
    return figure


def _spreads(
    place: int,
    policy: str,
    classes: Sequence[JobClass],
    values: Sequence[float],
    said: Callable[[float], str],
) -> go.Scatter:
    spreads = [spread([values[job] for job in one.places]) for one in classes]
    # A logarithm has no 0; the axis says that its foot is 1 or less.
    medians, ninths = ([max(1.0, value) for value in column] for column in zip(*spreads, strict=True))
    return go.Scatter(
        name=label(policy),
        legendgroup=str(place),
        offsetgroup=str(place),
        mode="markers",
        x=[f"{one.name}{_GAP}{len(one.places):,} jobs" for one in classes],
        y=medians,
        marker={"size": 9, "color": colour(place)},
        error_y={
            "array": [high - low for low, high in zip(medians, ninths, strict=True)],
            "arrayminus": [0] * len(medians),
            "thickness": 2.5,
            "width": 5,
        },
        customdata=ninths,
        hovertext=[
            f"{label(policy)}: median {said(one.median)}, nine in ten up to {said(one.ninth)}"
            for one in spreads
        ],
        hovertemplate="%{hovertext}<extra></extra>",
    )


def _times(slowdown: float) -> str:
    return f"{slowdown:,.3g}" if slowdown < 1000 else f"{slowdown:,.0f}"


def _spans_axis(figure: go.Figure, highest: float) -> None:
    texts = ["up to 1 s" if seconds == 1 else text for seconds, text in SPANS.items()]
    figure.update_yaxes(
        title="Wait", type="log", tickvals=list(SPANS), ticktext=texts, range=_range(highest), row=1, col=1
    )


def _slowdowns_axis(figure: go.Figure, highest: float) -> None:
    texts = [f"{value:,}" for value in _SLOWDOWNS]
    title = "Bounded slowdown"
    figure.update_yaxes(
        title=title, type="log", tickvals=_SLOWDOWNS, ticktext=texts, range=_range(highest), row=2, col=1
    )


def _range(highest: float) -> tuple[float, float]:
    top = max(1.0, log10(highest))
    return -0.04 * top, 1.06 * top


def changes_chart(found: Sequence[PolicyFinding], first: str) -> go.Figure:
    """Draw how many jobs start earlier and later than under the first policy, by how much."""
    traces = [_steps(place, one) for place, one in enumerate(found) if one.difference is not None]
    figure = themed_chart(traces, barmode="group", bargap=0.25)
    figure.update_xaxes(
        title=f"Start, compared with {label(first)}",
        tickvals=list(range(len(STEPS))),
        ticktext=[_BREAKS.sub(rf"\1{_GAP}", step) for step in STEPS],
        showgrid=False,
        tickangle=0,
        tickfont={"size": 11},
    )
    figure.update_yaxes(title="Jobs (%)", rangemode="tozero")
    return figure


def _steps(place: int, one: PolicyFinding) -> go.Bar:
    counts = one.difference.steps if one.difference is not None else ()
    jobs = len(one.waits)
    return go.Bar(
        name=label(one.outcome.name),
        marker={"color": colour(place)},
        x=list(range(len(counts))),
        y=[count * 100 / jobs for count in counts],
        hovertext=[
            f"{label(one.outcome.name)}: {count:,} jobs ({percent(count / jobs)}) start {step}"
            for count, step in zip(counts, STEPS, strict=True)
        ],
        hovertemplate="%{hovertext}<extra></extra>",
        showlegend=True,
    )
