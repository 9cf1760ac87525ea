"""The period that the chart of processors shows first, and how that chart looks."""

from typing import Any

import plotly.graph_objects as go

from headnode.apps.simulate.html.calendar import DAY
from headnode.apps.simulate.html.columns import firsts
from headnode.apps.simulate.html.curves import drawn, grid, waiting
from headnode.apps.simulate.html.look import chart, label
from headnode.apps.simulate.html.study import Study

LENGTHS = (
    (3600, "1 hour"),
    (21600, "6 hours"),
    (DAY, "1 day"),
    (3 * DAY, "3 days"),
    (7 * DAY, "1 week"),
    (28 * DAY, "4 weeks"),
)
_MARKS = 40  # on the axis of nodes
_STEPS = 1600  # among which the busiest is looked for


def first_period(about: Study) -> dict[str, Any]:
    """Return what the chart shows first: the busiest day under the policy with the shortest mean wait.

    The busiest is that on which the waiting jobs ask for most processors: there policies have a choice.
    """
    outcomes, midnight = about.simulation.outcomes, about.calendar.midnight
    policy = min(range(len(outcomes)), key=lambda place: outcomes[place].figures.mean_wait)
    steps = grid(about.first, about.last, _STEPS, midnight)
    asked = drawn(waiting(about.workload, outcomes[policy].starts, about.workload.processors), steps).means
    busiest = steps.begin + max(range(steps.size), key=asked.__getitem__) * steps.width
    whole_days = about.last - about.first >= DAY
    return {
        "policy": policy,
        "begin": midnight + (busiest - midnight) // DAY * DAY if whole_days else about.first,
        "length": DAY if whole_days else about.last - about.first,
        "layout": _layout(about).to_plotly_json(),
    }


def _layout(about: Study) -> go.Layout:
    figure = chart([], barmode="overlay", bargap=0, hovermode="closest")
    figure.update_layout(uniformtext={"mode": "hide", "minsize": 9}, legend={"title": {"text": "Wait:"}})
    figure.update_xaxes(type="linear" if about.calendar.zero is None else "date", title=about.calendar.title)
    figure.update_yaxes(title="Processors", range=[0.5, about.processors + 0.5], showgrid=False)
    if about.simulation.machine is not None:
        figure.update_yaxes(title="Nodes", **_node_marks(firsts(about.simulation.machine)))
    return figure.layout


def _node_marks(first: dict[str, int]) -> dict[str, Any]:
    """Return marks where nodes begin: all of them, or as many as there is room for."""
    shown = list(first.items())[:: -(-len(first) // _MARKS)]
    return {
        "tickvals": [processor + 0.5 for _, processor in shown],
        "ticktext": [label(node) for node, _ in shown],
        "ticklabelposition": "outside top",
        "showgrid": True,
    }
