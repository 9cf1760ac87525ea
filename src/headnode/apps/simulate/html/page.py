"""The page: a document with its charts, its jobs and all it needs to show them, in one piece."""

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from lxml.etree import _Element
from lxml.html import tostring
from lxml.html.builder import E
from plotly.offline import get_plotlyjs

from headnode.apps.simulate.html import charts_of_jobs, parts, texts
from headnode.apps.simulate.html.charts_over_time import OverTime, over_time
from headnode.apps.simulate.html.classes import by_run_time, by_size
from headnode.apps.simulate.html.columns import packed_jobs
from headnode.apps.simulate.html.elements import plain
from headnode.apps.simulate.html.period import first_period
from headnode.apps.simulate.html.study import Study

# The browser itself sees to it that the page asks no network for anything.
_RULES = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
_PLACE = "the library"  # plotly is put in its place as it is: it holds characters that lxml refuses


def page(about: Study) -> bytes:
    """Return the report as HTML in UTF-8.

    Cost:  five megabytes for the library that draws, 10 bytes for each job and 5 more for each policy.
    """
    curves = over_time(about)
    content = [
        *parts.begin(about),
        parts.figures(about),
        *([parts.priorities(about)] if about.simulation.is_about_parameters else []),
        parts.the_log(about),
        parts.over_time(list(curves.details)),
        parts.kinds(about),
        *([parts.changes(about)] if about.several else []),
        parts.jobs(about),
        parts.machine(about),
    ]
    return _whole(parts.heading(about), content, _known(about, curves))


def _known(about: Study, curves: OverTime) -> dict[str, Any]:
    """Return what the program of the page must know; times in seconds on the log's clock."""
    return {
        "zero": about.calendar.zero,
        "brief": about.calendar.brief,
        "first": about.first,
        "last": about.last,
        "charts": _charts(about, curves),
        "details": curves.details if len(curves.details) > 1 else {},
        "gantt": first_period(about) if about.has_bars else None,
        **packed_jobs(about.simulation),
    }


def _charts(about: Study, curves: OverTime) -> dict[str, Any]:
    work, found = about.workload, about.found
    figures = {
        "over-time": curves.figure,
        "by-size": charts_of_jobs.by_class(work, by_size(work), found, "Processors of the job"),
        "by-run-time": charts_of_jobs.by_class(work, by_run_time(work), found, "Run time of the job"),
    }
    if about.several:
        figures["changes"] = charts_of_jobs.changes(found, found[0].outcome.name)
    return {name: figure.to_plotly_json() for name, figure in figures.items()}


def _whole(title: str, content: Sequence[_Element], known: dict[str, Any]) -> bytes:
    document = E.html(
        _head(title),
        E.body(
            E.main(*content),
            E.noscript(E.p(texts.NO_SCRIPT)),
            E.script(_json(known), {"type": "application/json", "id": "known"}),
            E.script(_PLACE),
            E.script(_program()),
        ),
        lang="en",
    )
    text: bytes = tostring(document, doctype="<!DOCTYPE html>", encoding="utf-8")
    before, _, after = text.partition(f"<script>{_PLACE}</script>".encode())
    return b"".join((before, b"<script>", get_plotlyjs().encode(), b"</script>", after))


def _head(title: str) -> _Element:
    head: _Element = E.head(
        E.meta(charset="utf-8"),
        E.meta({"http-equiv": "Content-Security-Policy", "content": _RULES}),
        E.meta(name="viewport", content="width=device-width, initial-scale=1"),
        E.title(plain(title)),
        E.style(_file("page.css")),
    )
    return head


def _json(known: dict[str, Any]) -> str:
    text = json.dumps(known, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")  # nothing in it can end the script


def _program() -> str:
    parts = (files(__package__) / "program").iterdir()
    return "\n".join(part.read_text(encoding="utf-8") for part in sorted(parts, key=lambda part: part.name))


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
