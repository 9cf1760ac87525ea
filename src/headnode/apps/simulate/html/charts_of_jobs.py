"""The charts of kinds of jobs: how long they wait, and whom a policy moves."""

import re
from collections.abc import Callable, Sequence
from math import log10

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from headnode.apps.cli.words import span
from headnode.apps.simulate.html.classes import JobClass, slowdowns, spread
from headnode.apps.simulate.html.differences import STEPS
from headnode.apps.simulate.html.findings import Finding, percent
from headnode.apps.simulate.html.look import SPANS, chart, colour, label, settle
from headnode.core.model.workload import Workload

_SLOWDOWNS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10_000, 100_000, 1_000_000)
_GAP = "<br>"
_BREAKS = re.compile(r"(over|under|to|the|same|days|h|min) ")  # where names of steps are broken into lines


def by_class(
    workload: Workload, classes: Sequence[JobClass], found: Sequence[Finding], kind: str
) -> go.Figure:
    """Draw waits and slowdowns of classes of jobs: medians, and whiskers to what nine in ten have."""
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.06)
    highest = [1.0, 1.0]
    for place, one in enumerate(found):
        measures = (one.waits, slowdowns(workload, one.outcome.starts))
        for row, (values, said) in enumerate(zip(measures, (span, _times), strict=True)):
            trace = _spreads(place, one.outcome.name, classes, values, said)
            trace.showlegend = row == 0
            figure.add_trace(trace, row=row + 1, col=1)
            highest[row] = max(highest[row], *trace.customdata)
            trace.customdata = None
    settle(figure, scattermode="group", scattergap=0.35)
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


def changes(found: Sequence[Finding], first: str) -> go.Figure:
    """Draw how many jobs start earlier and later than under the first policy, by how much."""
    traces = [_steps(place, one) for place, one in enumerate(found) if one.difference is not None]
    figure = chart(traces, barmode="group", bargap=0.25)
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


def _steps(place: int, one: Finding) -> go.Bar:
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
