"""The elements of the page, and its tables: figures of each policy, kinds of jobs, who gains and loses."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import nlargest
from typing import Any, NamedTuple

from lxml.etree import _Element
from lxml.html.builder import E

from headnode.apps.readable_values import duration
from headnode.apps.simulate.html.study import PolicyFinding, Study, most_gaining, most_losing, percent
from headnode.apps.simulate.report import JobClass, by_priority, slowdowns, spread
from headnode.apps.simulate.simulation import Simulation
from headnode.core.model.workload import Workload

Content = Any
"""A text, an element, or attributes."""

_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def plain(text: str) -> str:
    """Return a text without characters that a page may not contain."""
    return _FORBIDDEN.sub("\ufffd", text)


def section(name: str, title: str, *content: Content) -> _Element:
    """Return a part of the page that a link can name."""
    found: _Element = E.section(
        E.h2(title, id=f"{name}-title"), *content, {"id": name, "aria-labelledby": f"{name}-title"}
    )
    return found


def figure(name: str, label: str, height: int, caption: str) -> _Element:
    """Return the place of the chart of that name; `label` tells those who cannot see it what it shows."""
    found: _Element = E.figure(
        E.div(
            {
                "id": f"{name}-chart",
                "class": "chart",
                "role": "img",
                "aria-label": plain(label),
                "style": f"height:{height}px",
            }
        ),
        E.figcaption(plain(caption)),
    )
    return found


def table(title: str, heads: Sequence[str], rows: Iterable[Sequence[Content]]) -> _Element:
    """Return a table whose first column names the rows; the others are numbers, set to the right."""
    head = E.tr(*(E.th(plain(text), scope="col") for text in heads))
    body = [E.tr(E.th(_cell(row[0]), scope="row"), *(E.td(_cell(cell)) for cell in row[1:])) for row in rows]
    found: _Element = E.div(
        E.table(E.caption(plain(title)), E.thead(head), E.tbody(*body)),
        {"class": "wide", "tabindex": "0", "role": "region", "aria-label": plain(title)},
    )
    return found


def _cell(content: Content) -> Content:
    return plain(content) if isinstance(content, str) else content


def folded_section(summary: str, *content: Content, opened: bool = False) -> _Element:
    """Return something that is shown on demand."""
    found: _Element = E.details(E.summary(plain(summary)), *content, {"open": ""} if opened else {})
    return found


_MOST = 10  # jobs that gain, and as many that lose
_LONGEST = 20  # waits, where nothing is compared


class _FigureColumn(NamedTuple):
    title: str
    value: Callable[[PolicyFinding], float]
    said: Callable[[float], str]
    best: Callable[[Sequence[float]], float] = min


_COLUMNS = (
    _FigureColumn("Mean wait", lambda one: one.outcome.figures.mean_wait, duration),
    _FigureColumn("Median wait", lambda one: spread(one.waits).median, duration),
    _FigureColumn("Nine in ten wait at most", lambda one: spread(one.waits).ninth, duration),
    _FigureColumn("Longest wait", lambda one: max(one.waits), duration),
    _FigureColumn(
        "Bounded slowdown", lambda one: one.outcome.figures.mean_bounded_slowdown, lambda it: f"{it:,.2f}"
    ),
    _FigureColumn("Utilisation", lambda one: one.outcome.figures.utilisation, percent, max),
    _FigureColumn("Makespan", lambda one: one.outcome.figures.makespan, duration),
)


def figures_table(found: Sequence[PolicyFinding]) -> _Element:
    """Return the figures of each policy; the best of a column stands out."""
    columns = [_cells(column, found) for column in _COLUMNS]
    compared = [_compared(one) for one in found] if len(found) > 1 else [()] * len(found)
    rows = [
        [one.outcome.name, *(column[place] for column in columns), *compared[place]]
        for place, one in enumerate(found)
    ]
    heads = ["Policy", *(column.title for column in _COLUMNS)]
    heads += [] if len(found) == 1 else ["Jobs earlier", "Jobs later"]
    return table("Figures of each policy", heads, rows)


def _cells(column: _FigureColumn, found: Sequence[PolicyFinding]) -> list[Content]:
    values = [column.value(one) for one in found]
    texts = [column.said(value) for value in values]
    best = column.said(column.best(values))
    if len(set(texts)) == 1:
        return [*texts]
    return [E.strong(text) if text == best else text for text in texts]


def _compared(one: PolicyFinding) -> Sequence[str]:
    if one.difference is None:
        return ("", "")
    return f"{one.difference.earlier:,}", f"{one.difference.later:,}"


def priorities_table(simulation: Simulation) -> _Element:
    """Return what was stopped for others, and what jobs of each priority had of it, for every outcome."""
    heads = (
        "Policy",
        "Priority",
        "Jobs",
        "Mean first wait",
        "Mean wait",
        "Bounded slowdown",
        "Jobs queued again",
        "Tasks stopped",
        "Lost (processor hours)",
        "At limit",
    )
    rows = [
        (
            outcome.name,
            of.priority,
            f"{of.jobs:,}",
            duration(of.mean_first_wait),
            duration(of.mean_wait),
            f"{of.mean_bounded_slowdown:,.2f}",
            f"{of.jobs_returned:,}",
            f"{of.tasks_stopped:,}",
            f"{of.lost_processor_hours:,.1f}",
            f"{of.jobs_cut:,}",
        )
        for outcome in simulation.outcomes
        for of in by_priority(simulation, outcome)
    ]
    return table("Jobs of each priority", heads, rows)


def classes_table(
    workload: Workload, classes: Sequence[JobClass], found: Sequence[PolicyFinding], kind: str
) -> _Element:
    """Return medians and 90th percentiles of waits and slowdowns of classes of jobs."""
    rows = list(_class_rows(workload, classes, found))
    heads = (
        kind,
        "Policy",
        "Jobs",
        "Median wait",
        "Nine in ten wait at most",
        "Median slowdown",
        "90th percentile",
    )
    return folded_section(
        f"The same as a table, by {kind.lower()}",
        table(f"Waits and slowdowns by {kind.lower()}", heads, rows),
    )


def _class_rows(
    workload: Workload, classes: Sequence[JobClass], found: Sequence[PolicyFinding]
) -> Iterator[Sequence[str]]:
    measures = [(one.waits, slowdowns(workload, one.outcome.starts)) for one in found]
    for jobs in classes:
        for one, (waits, slow) in zip(found, measures, strict=True):
            wait, slowdown = (spread([values[job] for job in jobs.places]) for values in (waits, slow))
            yield (
                jobs.name,
                one.outcome.name,
                f"{len(jobs.places):,}",
                duration(wait.median),
                duration(wait.ninth),
                f"{slowdown.median:,.2f}",
                f"{slowdown.ninth:,.2f}",
            )


def moved_tables(about: Study) -> Iterator[_Element]:
    """Yield, for each policy but the first, the jobs that gain and lose most, folded."""
    for place, one in enumerate(about.found[1:]):
        if one.difference is not None:
            gain = _moved(about, one, most_gaining(one.difference, _MOST), "earlier")
            lose = _moved(about, one, most_losing(one.difference, _MOST), "later")
            yield folded_section(f"Jobs that {one.outcome.name} moves most", gain, lose, opened=place == 0)


def _moved(about: Study, one: PolicyFinding, places: Sequence[int], where: str) -> _Element:
    first, policy = about.found[0], one.outcome.name
    if not places:
        nobody: _Element = E.p(plain(f"Under {policy}, no job starts {where}."))
        return nobody
    title = f"{policy}: jobs that start {where} by most than under {first.outcome.name}"
    heads = (*_JOB, f"Wait, {first.outcome.name}", f"Wait, {policy}", f"Starts {where} by")
    rows = []
    for job in places:
        old, new = first.waits[job], one.waits[job]
        rows.append((*_job(about, job), duration(old), duration(new), duration(abs(new - old))))
    return table(title, heads, rows)


def longest_table(about: Study) -> _Element:
    """Return the jobs that wait longest under the only policy."""
    waits = about.found[0].waits
    places = [job for job in nlargest(_LONGEST, range(len(waits)), key=waits.__getitem__) if waits[job] > 0]
    rows = [(*_job(about, job), duration(waits[job])) for job in places]
    return table("Jobs that wait longest", (*_JOB, "Wait"), rows) if rows else E.p("No job waits.")


_JOB = ("Job", "Submitted", "Processors", "Run time", "Estimate")


def _job(about: Study, job: int) -> Sequence[str]:
    work = about.workload
    return (
        str(work.numbers[job]),
        about.calendar.said(work.submits[job]),
        f"{work.processors[job]:,}",
        duration(work.run_times[job]),
        duration(work.estimates[job]),
    )
