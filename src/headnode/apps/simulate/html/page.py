"""The page: its sections in the order in which they are read, its texts, and all it needs to show them."""

import json
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import PurePath
from typing import Any

from lxml.etree import _Element
from lxml.html import tostring
from lxml.html.builder import E
from plotly.offline import get_plotlyjs

from headnode.apps.simulate.html import charts
from headnode.apps.simulate.html.charts import TimelineChart, timeline_chart
from headnode.apps.simulate.html.processor_chart import LENGTHS, first_period, packed_jobs
from headnode.apps.simulate.html.study import Study, headlines
from headnode.apps.simulate.html.tables import (
    classes_table,
    figure,
    figures_table,
    longest_table,
    moved_tables,
    plain,
    priorities_table,
    section,
)
from headnode.apps.simulate.report import by_run_time, by_size

FIGURES = (
    "Utilisation is the part of all processors in use during the makespan, which goes from the first "
    "arrival to the last end. The bounded slowdown of a job is (wait + run time) / run time, where no "
    "run time counts as less than 10 s; the table has the mean of all jobs."
)
BEST = " The best of each column is bold. Jobs earlier and later are counted against the first line."
PRIORITIES = (
    "The first wait is until a job begins. The mean wait is all that it takes beyond its run time: what it "
    "loses by being stopped, and by having fewer processors than its own, counts as waiting. Lost is the "
    "work of tasks that were stopped for others and began anew. At limit: jobs that were over at their run "
    "time limits, with work left to do."
)
NO_BARS = (
    "Jobs have more processors at one time than at another in this simulation, and are not drawn as bars. "
    "The start of a job is as far before its end as it would have run on all its processors."
)
NOTHING_LEFT_OUT = (
    "Nothing was left out and nothing was changed: every line of the log was replayed as it stands."
)
OVER_TIME = (
    "For the processors in use, each step is the average over its time. For what waits, it is the most "
    "that waited at any moment of its time, so that no peak is hidden. Point at a step for the average, "
    "the lowest and the highest. Click a policy to leave it out, twice to see it alone. Drag over the "
    "chart to look closer, double-click to get back."
)
KINDS = (
    "Dots are medians: half of the jobs have no more. Whiskers end where nine in ten jobs have no more. "
    "The scale is logarithmic."
)
CHANGES = "The share of all jobs that start so much earlier or later. Point at a bar for the number of jobs."
MACHINE = (
    "At first, this is the busiest day under the policy with the shortest mean wait: the day on which "
    "waiting jobs ask for most processors. "
)
POOL = (
    "The simulation counts processors and does not name them. Here, each job gets the first gap it fits "
    "into when it starts, or else the lowest free processors, in several pieces."
)
NODES = "Jobs are on the nodes that the head gave them. Names of nodes stand where their processors begin."
NO_SCRIPT = "The charts and the table of all jobs need JavaScript. All other figures are here without it."


LINKS = (
    ("figures", "Figures"),
    ("priorities", "Priorities"),
    ("log", "The log"),
    ("time", "Over time"),
    ("kinds", "Sizes and lengths"),
    ("changes", "Who gains, who loses"),
    ("jobs", "Every job"),
    ("machine", "The machine"),
)
_TALL, _MIDDLE, _LOW = 760, 640, 420  # heights of charts in pixels


def page_heading(about: Study) -> str:
    """Say in a line what the page is about: policies and log."""
    *most, last = (one.outcome.name for one in about.found)
    return f"{', '.join(most)}{' and ' if most else ''}{last} on {PurePath(about.name).name}"


def opening_sections(about: Study) -> Iterator[_Element]:
    """Yield what stands above all: title, what was simulated, what was found."""
    yield E.h1(plain(page_heading(about)))
    yield E.p(plain(" · ".join(_facts(about))), {"class": "about"})
    sentences = [E.p(plain(sentence)) for sentence in headlines(about.found)]
    yield E.div(*sentences, {"class": "found", "role": "note", "aria-label": "What was found"})
    absent = {
        *(() if about.several else ("changes",)),
        *(() if about.simulation.is_about_parameters else ("priorities",)),
    }
    links = [E.a(title, href=f"#{anchor}") for anchor, title in LINKS if anchor not in absent]
    yield E.nav(*links, {"aria-label": "Parts of this page"})


def _facts(about: Study) -> Iterator[str]:
    jobs = len(about.workload.numbers)
    yield f"{jobs:,} job{'' if jobs == 1 else 's'}"
    machine = about.simulation.machine
    nodes = (
        ""
        if machine is None
        else f" on {len(machine.nodes):,} {'whole ' if machine.whole_nodes else ''}nodes"
    )
    yield f"{about.processors:,} processor{'' if about.processors == 1 else 's'}{nodes}"
    yield f"{about.calendar.said(about.first)} to {about.calendar.said(about.last)}"
    scene = about.simulation.scene
    yield f"ties {scene.ties.value}"
    yield from (f"{name}={value}" for name, value in scene.parameters)
    if not about.has_bars:
        yield f"jobs do with {scene.asking.least} % of their processors"
    header = about.simulation.log.header
    yield from (header[label] for label in ("Computer", "Installation") if header.get(label))


def figures_section(about: Study) -> _Element:
    """Return the table of figures."""
    said = FIGURES + (BEST if about.several else "")
    return section("figures", "Figures", figures_table(about.found), E.p(said, {"class": "note"}))


def priorities_section(about: Study) -> _Element:
    """Return what was stopped for others, and what jobs of each priority had of it."""
    return section(
        "priorities",
        "Priorities, and what was stopped for others",
        priorities_table(about.simulation),
        E.p(PRIORITIES, {"class": "note"}),
    )


def log_section(about: Study) -> _Element:
    """Return what was left out of the log and what was changed, a sentence each."""
    items = [E.li(plain(remark)) for remark in about.remarks]
    told = E.ul(*items) if items else E.p(NOTHING_LEFT_OUT)
    return section("log", "What was left out of the log, and why", told)


def timeline_section(details: Sequence[str]) -> _Element:
    """Return the place of the charts over time."""
    options = [E.option(width, value=width) for width in details]
    chooser = E.div(E.label("Length of a step", E.select(*options, id="detail")), {"class": "controls"})
    return section(
        "time",
        "The machine over time",
        *([chooser] if len(details) > 1 else []),
        figure(
            "over-time",
            "Step curves of processors in use, jobs waiting and processors these ask for, for every policy",
            _TALL,
            OVER_TIME,
        ),
    )


def kinds_section(about: Study) -> _Element:
    """Return waits and slowdowns by size and by run time."""
    work, found = about.workload, about.found
    return section(
        "kinds",
        "Waits and slowdowns, by size and length of jobs",
        figure("by-size", "Waits and bounded slowdowns of jobs by processors", _MIDDLE, KINDS),
        classes_table(work, by_size(work), found, "Processors"),
        figure("by-run-time", "Waits and bounded slowdowns of jobs by run time", _MIDDLE, KINDS),
        classes_table(work, by_run_time(work), found, "Run time"),
    )


def changes_section(about: Study) -> _Element:
    """Return who starts earlier and who later, and who by most."""
    first = about.found[0].outcome.name
    return section(
        "changes",
        "Who gains and who loses",
        figure(
            "changes",
            f"How many jobs start earlier or later than under {first}, by how much",
            _LOW,
            CHANGES,
        ),
        *moved_tables(about),
    )


def jobs_section(about: Study) -> _Element:
    """Return the table of all jobs, to search and to sort."""
    controls = E.div(
        E.label("Job number begins with", E.input(type="search", id="job-number", inputmode="numeric")),
        E.label("Processors, at least", E.input(type="number", id="job-size", min="1", step="1")),
        *(_comparison(about) if about.several else []),
        E.button("Save all as CSV", type="button", id="jobs-file"),
        {"class": "controls"},
    )
    shown = E.table(
        E.caption("Click a heading to sort, a job to see it on its processors"),
        E.thead(E.tr(id="jobs-head")),
        E.tbody(id="jobs-body"),
        {"class": "chooser"},
    )
    turn = E.div(
        E.button("◀ before", type="button", id="jobs-back"),
        E.span(id="jobs-said", role="status"),
        E.button("next ▶", type="button", id="jobs-on"),
        {"class": "controls"},
    )
    wide = E.div(shown, {"class": "wide", "tabindex": "0", "role": "region", "aria-label": "All jobs"})
    return section(
        "jobs", "Every job", *([] if about.several else [longest_table(about)]), controls, wide, turn
    )


def _comparison(about: Study) -> Iterator[_Element]:
    """Yield the choice of a policy to compare with the first, and of whom it moves."""
    first, *others = (one.outcome.name for one in about.found)
    policies = [E.option(plain(policy), value=str(place)) for place, policy in enumerate(others, start=1)]
    moves = {"any": "at any time", "sooner": "earlier", "later": "later"}
    starts = [E.option(title, value=value) for value, title in moves.items()]
    yield E.label(plain(f"Compared with {first}, jobs start under"), E.select(*policies, id="job-policy"))
    yield E.label("earlier or later", E.select(*starts, id="job-moved"))


def machine_section(about: Study) -> _Element:
    """Return the chart of jobs on processors, or why there is none."""
    if not about.has_bars:
        return section("machine", "Jobs on processors", E.p(NO_BARS))
    policies = [E.option(plain(one.outcome.name), value=str(place)) for place, one in enumerate(about.found)]
    lengths = [E.option(title, value=str(seconds)) for seconds, title in LENGTHS]
    kind = (
        {"type": "number", "step": "any"}
        if about.calendar.zero is None
        else {"type": "datetime-local", "step": "1" if about.calendar.brief else "60"}
    )
    unit = "From day" if about.calendar.zero is None else f"From ({about.calendar.zone})"
    controls = E.div(
        E.label("Policy", E.select(*policies, id="gantt-policy")),
        E.label(unit, E.input(kind, id="gantt-begin")),
        E.label("Length", E.select(*lengths, E.option("as zoomed", value=""), id="gantt-length")),
        E.button("◀ earlier", type="button", id="gantt-back"),
        E.button("later ▶", type="button", id="gantt-on"),
        {"class": "controls"},
    )
    return section(
        "machine",
        "Jobs on processors",
        controls,
        E.p(id="gantt-said", role="status"),
        figure(
            "gantt",
            "Jobs as bars on processors over time, coloured by how long they waited",
            _MIDDLE,
            MACHINE + (POOL if about.simulation.machine is None else NODES),
        ),
    )


# The browser itself sees to it that the page asks no network for anything.
_RULES = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
_PLACE = "the library"  # plotly is put in its place as it is: it holds characters that lxml refuses


def page(about: Study) -> bytes:
    """Return the report as HTML in UTF-8.

    Cost:  five megabytes for the library that draws, 10 bytes for each job and 5 more for each policy.
    """
    curves = timeline_chart(about)
    content = [
        *opening_sections(about),
        figures_section(about),
        *([priorities_section(about)] if about.simulation.is_about_parameters else []),
        log_section(about),
        timeline_section(list(curves.details)),
        kinds_section(about),
        *([changes_section(about)] if about.several else []),
        jobs_section(about),
        machine_section(about),
    ]
    return _whole(page_heading(about), content, _known(about, curves))


def _known(about: Study, curves: TimelineChart) -> dict[str, Any]:
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


def _charts(about: Study, curves: TimelineChart) -> dict[str, Any]:
    work, found = about.workload, about.found
    figures = {
        "over-time": curves.figure,
        "by-size": charts.classes_chart(work, by_size(work), found, "Processors of the job"),
        "by-run-time": charts.classes_chart(work, by_run_time(work), found, "Run time of the job"),
    }
    if about.several:
        figures["changes"] = charts.changes_chart(found, found[0].outcome.name)
    return {name: figure.to_plotly_json() for name, figure in figures.items()}


def _whole(title: str, content: Sequence[_Element], known: dict[str, Any]) -> bytes:
    document = E.html(
        _head(title),
        E.body(
            E.main(*content),
            E.noscript(E.p(NO_SCRIPT)),
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
