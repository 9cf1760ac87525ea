"""The charts of the report, as plotly.js takes them: the machine's days, kinds of jobs, moved starts."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from math import log10
from typing import Any, NamedTuple

from headnode.apps.readable_values import duration
from headnode.apps.simulate.html.study import STEPS, ClassSpreads, PolicyFinding, Study, percent
from headnode.apps.simulate.report import Spread
from headnode.apps.simulate.simulation import PolicyOutcome
from headnode.core.model.workload import Workload
from headnode.core.scheduling.pool.replay import job_ends

Chart = dict[str, Any]
"""``data``, the traces, and ``layout``."""

# Told apart by most who do not see all colours, and readable on white and on black.
_COLOURS = ("#3b82d0", "#e07b1a", "#1f9d78", "#b65fc0", "#a38a12", "#d4526e", "#6f7f95", "#2fa4b8")
_GRID_INK = "rgba(128, 138, 150, 0.25)"
_AXIS = {"gridcolor": _GRID_INK, "linecolor": _GRID_INK, "zeroline": False, "automargin": True}
_THEME = {
    "paper_bgcolor": "rgba(0,0,0,0)",
    "plot_bgcolor": "rgba(0,0,0,0)",
    "font": {"family": "system-ui, sans-serif", "size": 13, "color": "#5a6472"},
    "margin": {"l": 70, "r": 16, "t": 40, "b": 50},
    "legend": {"orientation": "h", "yanchor": "bottom", "y": 1.01, "x": 0},
    "hoverlabel": {"bgcolor": "#1d2530", "bordercolor": "#1d2530", "font": {"color": "#f2f5f8"}},
}


def chart(traces: Sequence[Chart], x: Chart, *rows: Chart, **layout: Any) -> Chart:
    """Return a chart in the common look: an x axis below one y axis or several, a row each."""
    axes = {f"yaxis{row if row > 1 else ''}": _AXIS | y for row, y in enumerate(rows, start=1)}
    grid = {"rows": len(rows), "columns": 1, "pattern": "coupled", "ygap": 0.06 * len(rows)}
    return {"data": traces, "layout": {**_THEME, "grid": grid, "xaxis": _AXIS | x, **axes, **layout}}


def label(text: str) -> str:
    """Return a text such that a chart shows it as it is, and not as markup."""
    return escape(text, quote=False)


def _policy_trace(place: int, policy: str, row: int) -> Chart:
    """Return what the traces of a policy have in common: name and colour, once in the legend; and the row."""
    return {
        "name": label(policy),
        "legendgroup": str(place),
        "showlegend": row == 0,
        "yaxis": f"y{row + 1 if row else ''}",
        "marker": {"color": _COLOURS[place % len(_COLOURS)]},
    }


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
_TITLES = ("Processors in use (%)", "Jobs waiting", "Processors requested")
_LEVELS = "%{customdata[0]:,} (%{customdata[1]:,} to %{customdata[2]:,})"
_HOVER = ("%{customdata[0]:,} % (%{customdata[1]:,} to %{customdata[2]:,} %)", _LEVELS, _LEVELS)


def timeline_details(about: Study) -> dict[str, Chart]:
    """Return what to put into the traces of the chart over time, by the width of its steps, widest first."""
    changes = [change for one in about.findings for change in _size_changes(about, one.outcome)]
    midnight = about.calendar.midnight
    grids = [grid(about.first, about.last, most, midnight) for most in (_FEW, _MANY)]
    return {duration(steps.width): _columns(about, changes, steps) for steps in grids}


def _size_changes(about: Study, outcome: PolicyOutcome) -> Iterator[Mapping[float, int]]:
    """Yield the changes of the level of each row of the chart."""
    work = about.workload
    yield in_use(work, outcome.starts) if outcome.preemption_cost is None else outcome.preemption_cost.held
    yield waiting(work, outcome.starts, [1] * len(work.numbers))
    yield waiting(work, outcome.starts, work.processors)


def _columns(about: Study, changes: Sequence[Mapping[float, int]], steps: TimeGrid) -> Chart:
    used = 100 / about.processors
    rows = [
        _row(curve_points(change, steps), place % len(_TITLES), used) for place, change in enumerate(changes)
    ]
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


def timeline_chart(about: Study, columns: Chart) -> Chart:
    """Draw what happened over time, for every policy; `columns` are one of `timeline_details`."""
    places = [(place, row) for place in range(len(about.findings)) for row in range(len(_TITLES))]
    traces = [
        _policy_trace(place, about.findings[place].outcome.name, row)
        | {"mode": "lines", "line": {"shape": "hv", "width": 1.6}, "hovertemplate": _HOVER[row]}
        | {key: values[trace] for key, values in columns.items()}
        for trace, (place, row) in enumerate(places)
    ]
    share, *counts = ({"title": {"text": title}, "rangemode": "tozero"} for title in _TITLES)
    return chart(traces, time_axis(about), share | {"range": [0, 103]}, *counts, hovermode="x unified")


def time_axis(about: Study) -> Chart:
    """Return the axis of the log's calendar."""
    days = {"type": "linear", "tickprefix": "day ", "hoverformat": ",.2f"}
    dates = {"type": "date", "hoverformat": "%a %d %b %Y, %H:%M"}
    return {"title": {"text": about.calendar.title}, **(days if about.calendar.zero is None else dates)}


_SPANS = {
    1: "up to 1 s",
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
_SLOWDOWNS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10_000, 100_000, 1_000_000)
_BREAK = "<br>"
_BREAKS = re.compile(r"(over|under|to|the|same|days|h|min) ")  # where names of steps are broken into lines


def classes_chart(classes: Sequence[ClassSpreads], findings: Sequence[PolicyFinding], kind: str) -> Chart:
    """Draw waits and slowdowns of classes of jobs: medians, and whiskers to what nine in ten have."""
    names = [f"{label(one.name)}{_BREAK}{one.jobs:,} jobs" for one in classes]
    waits = [[one.waits[place] for one in classes] for place in range(len(findings))]
    slow = [[one.slowdowns[place] for one in classes] for place in range(len(findings))]
    traces = [
        _policy_trace(place, one.outcome.name, row)
        | _whiskers(place, one.outcome.name, names, values, text_of)
        for row, (of_policies, text_of) in enumerate(((waits, duration), (slow, _times)))
        for place, (one, values) in enumerate(zip(findings, of_policies, strict=True))
    ]
    return chart(
        traces,
        {"type": "category", "showgrid": False, "tickangle": 0, "title": {"text": kind}},
        _log_axis("Wait", _SPANS, waits),
        _log_axis("Bounded slowdown", {value: f"{value:,}" for value in _SLOWDOWNS}, slow),
        scattermode="group",
        scattergap=0.35,
    )


def _whiskers(
    place: int, policy: str, names: Sequence[str], values: Sequence[Spread], text_of: Callable[[float], str]
) -> Chart:
    # A logarithm has no 0; the axis says that its foot is 1 or less.
    medians = [max(1.0, value.median) for value in values]
    above = [max(1.0, value.ninth) - median for value, median in zip(values, medians, strict=True)]
    return {
        "offsetgroup": str(place),
        "mode": "markers",
        "x": names,
        "y": medians,
        "marker": {"size": 9, "color": _COLOURS[place % len(_COLOURS)]},
        "error_y": {"array": above, "arrayminus": [0] * len(above), "thickness": 2.5, "width": 5},
        "hovertext": [
            f"{label(policy)}: median {text_of(one.median)}, nine in ten up to {text_of(one.ninth)}"
            for one in values
        ],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def _times(slowdown: float) -> str:
    return f"{slowdown:,.3g}" if slowdown < 1000 else f"{slowdown:,.0f}"


def _log_axis(title: str, marks: Mapping[int, str], of_policies: Sequence[Sequence[Spread]]) -> Chart:
    top = max(1.0, *(log10(max(1.0, one.ninth)) for values in of_policies for one in values))
    return {
        "title": {"text": title},
        "type": "log",
        "tickvals": list(marks),
        "ticktext": list(marks.values()),
        "range": [-0.04 * top, 1.06 * top],
    }


def changes_chart(findings: Sequence[PolicyFinding]) -> Chart:
    """Draw how many jobs start earlier and later than under the first policy, by how much."""
    traces = [
        _policy_trace(place, one.outcome.name, 0) | _steps(one.outcome.name, one.difference.steps)
        for place, one in enumerate(findings)
        if one.difference is not None
    ]
    x = {
        "title": {"text": f"Start, compared with {label(findings[0].outcome.name)}"},
        "tickvals": list(range(len(STEPS))),
        "ticktext": [_BREAKS.sub(rf"\1{_BREAK}", step) for step in STEPS],
        "showgrid": False,
        "tickangle": 0,
        "tickfont": {"size": 11},
    }
    y = {"title": {"text": "Jobs (%)"}, "rangemode": "tozero"}
    return chart(traces, x, y, barmode="group", bargap=0.25)


def _steps(policy: str, counts: Sequence[int]) -> Chart:
    jobs = sum(counts)
    return {
        "type": "bar",
        "x": list(range(len(counts))),
        "y": [count * 100 / jobs for count in counts],
        "hovertext": [
            f"{label(policy)}: {count:,} jobs ({percent(count / jobs)}) start {step}"
            for count, step in zip(counts, STEPS, strict=True)
        ],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }
