"""The parts of the page, in the order in which somebody who has to decide reads them."""

from collections.abc import Iterator, Sequence
from pathlib import PurePath

from lxml.etree import _Element
from lxml.html.builder import E

from headnode.apps.simulate.html import texts
from headnode.apps.simulate.html.classes import by_run_time, by_size
from headnode.apps.simulate.html.elements import figure, plain, section
from headnode.apps.simulate.html.findings import headlines
from headnode.apps.simulate.html.period import LENGTHS
from headnode.apps.simulate.html.study import Study
from headnode.apps.simulate.html.tables import (
    classes_table,
    figures_table,
    longest_table,
    moved_tables,
    priorities_table,
)

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


def heading(about: Study) -> str:
    """Say in a line what the page is about: policies and log."""
    *most, last = (one.outcome.name for one in about.found)
    return f"{', '.join(most)}{' and ' if most else ''}{last} on {PurePath(about.name).name}"


def begin(about: Study) -> Iterator[_Element]:
    """Yield what stands above all: title, what was simulated, what was found."""
    yield E.h1(plain(heading(about)))
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


def figures(about: Study) -> _Element:
    """Return the table of figures."""
    said = texts.FIGURES + (texts.BEST if about.several else "")
    return section("figures", "Figures", figures_table(about.found), E.p(said, {"class": "note"}))


def priorities(about: Study) -> _Element:
    """Return what was stopped for others, and what jobs of each priority had of it."""
    return section(
        "priorities",
        "Priorities, and what was stopped for others",
        priorities_table(about.simulation),
        E.p(texts.PRIORITIES, {"class": "note"}),
    )


def the_log(about: Study) -> _Element:
    """Return what was left out of the log and what was changed, a sentence each."""
    items = [E.li(plain(remark)) for remark in about.remarks]
    told = E.ul(*items) if items else E.p(texts.NOTHING_LEFT_OUT)
    return section("log", "What was left out of the log, and why", told)


def over_time(details: Sequence[str]) -> _Element:
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
            texts.OVER_TIME,
        ),
    )


def kinds(about: Study) -> _Element:
    """Return waits and slowdowns by size and by run time."""
    work, found = about.workload, about.found
    return section(
        "kinds",
        "Waits and slowdowns, by size and length of jobs",
        figure("by-size", "Waits and bounded slowdowns of jobs by processors", _MIDDLE, texts.KINDS),
        classes_table(work, by_size(work), found, "Processors"),
        figure("by-run-time", "Waits and bounded slowdowns of jobs by run time", _MIDDLE, texts.KINDS),
        classes_table(work, by_run_time(work), found, "Run time"),
    )


def changes(about: Study) -> _Element:
    """Return who starts earlier and who later, and who by most."""
    first = about.found[0].outcome.name
    return section(
        "changes",
        "Who gains and who loses",
        figure(
            "changes",
            f"How many jobs start earlier or later than under {first}, by how much",
            _LOW,
            texts.CHANGES,
        ),
        *moved_tables(about),
    )


def jobs(about: Study) -> _Element:
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


def machine(about: Study) -> _Element:
    """Return the chart of jobs on processors, or why there is none."""
    if not about.has_bars:
        return section("machine", "Jobs on processors", E.p(texts.NO_BARS))
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
            texts.MACHINE + (texts.POOL if about.simulation.machine is None else texts.NODES),
        ),
    )
