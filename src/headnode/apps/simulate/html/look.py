"""How all charts look.  Inks are those of the page's style sheet, for light, dark and paper."""

from html import escape
from typing import Any

import plotly.graph_objects as go

# Told apart by most who do not see all colours, and readable on white and on black.
_COLOURS = ("#3b82d0", "#e07b1a", "#1f9d78", "#b65fc0", "#a38a12", "#d4526e", "#6f7f95", "#2fa4b8")
_INK = "#5a6472"
_GRID = "rgba(128, 138, 150, 0.25)"
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


def chart(traces: "list[go.Scatter] | list[go.Bar]", **layout: Any) -> go.Figure:
    """Return a chart in the common look."""
    figure = go.Figure(traces)
    settle(figure, **layout)
    return figure


def settle(figure: go.Figure, **layout: Any) -> None:
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
    figure.update_xaxes(gridcolor=_GRID, linecolor=_GRID, zeroline=False, automargin=True)
    figure.update_yaxes(gridcolor=_GRID, linecolor=_GRID, zeroline=False, automargin=True)
