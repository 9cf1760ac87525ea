"""The tables of the report: figures of each policy, kinds of jobs, who gains and loses."""

from collections.abc import Callable, Iterator, Sequence
from heapq import nlargest
from typing import NamedTuple

from lxml.etree import _Element
from lxml.html.builder import E

from headnode.apps.cli.words import span
from headnode.apps.simulate.by_priority import by_priority
from headnode.apps.simulate.html.classes import JobClass, slowdowns, spread
from headnode.apps.simulate.html.differences import most_gaining, most_losing
from headnode.apps.simulate.html.elements import Content, folded, plain, table
from headnode.apps.simulate.html.findings import Finding, percent
from headnode.apps.simulate.html.study import Study
from headnode.apps.simulate.simulation import Simulation
from headnode.core.model.workload import Workload

_MOST = 10  # jobs that gain, and as many that lose
_LONGEST = 20  # waits, where nothing is compared


class _Column(NamedTuple):
    title: str
    value: Callable[[Finding], float]
    said: Callable[[float], str]
    best: Callable[[Sequence[float]], float] = min


_COLUMNS = (
    _Column("Mean wait", lambda one: one.outcome.figures.mean_wait, span),
    _Column("Median wait", lambda one: spread(one.waits).median, span),
    _Column("Nine in ten wait at most", lambda one: spread(one.waits).ninth, span),
    _Column("Longest wait", lambda one: max(one.waits), span),
    _Column(
        "Bounded slowdown", lambda one: one.outcome.figures.mean_bounded_slowdown, lambda it: f"{it:,.2f}"
    ),
    _Column("Utilisation", lambda one: one.outcome.figures.utilisation, percent, max),
    _Column("Makespan", lambda one: one.outcome.figures.makespan, span),
)


def figures_table(found: Sequence[Finding]) -> _Element:
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


def _cells(column: _Column, found: Sequence[Finding]) -> list[Content]:
    values = [column.value(one) for one in found]
    texts = [column.said(value) for value in values]
    best = column.said(column.best(values))
    if len(set(texts)) == 1:
        return [*texts]
    return [E.strong(text) if text == best else text for text in texts]


def _compared(one: Finding) -> Sequence[str]:
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
            span(of.mean_first_wait),
            span(of.mean_wait),
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
    workload: Workload, classes: Sequence[JobClass], found: Sequence[Finding], kind: str
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
    return folded(
        f"The same as a table, by {kind.lower()}",
        table(f"Waits and slowdowns by {kind.lower()}", heads, rows),
    )


def _class_rows(
    workload: Workload, classes: Sequence[JobClass], found: Sequence[Finding]
) -> Iterator[Sequence[str]]:
    measures = [(one.waits, slowdowns(workload, one.outcome.starts)) for one in found]
    for jobs in classes:
        for one, (waits, slow) in zip(found, measures, strict=True):
            wait, slowdown = (spread([values[job] for job in jobs.places]) for values in (waits, slow))
            yield (
                jobs.name,
                one.outcome.name,
                f"{len(jobs.places):,}",
                span(wait.median),
                span(wait.ninth),
                f"{slowdown.median:,.2f}",
                f"{slowdown.ninth:,.2f}",
            )


def moved_tables(about: Study) -> Iterator[_Element]:
    """Yield, for each policy but the first, the jobs that gain and lose most, folded."""
    for place, one in enumerate(about.found[1:]):
        if one.difference is not None:
            gain = _moved(about, one, most_gaining(one.difference, _MOST), "earlier")
            lose = _moved(about, one, most_losing(one.difference, _MOST), "later")
            yield folded(f"Jobs that {one.outcome.name} moves most", gain, lose, opened=place == 0)


def _moved(about: Study, one: Finding, places: Sequence[int], where: str) -> _Element:
    first, policy = about.found[0], one.outcome.name
    if not places:
        nobody: _Element = E.p(plain(f"Under {policy}, no job starts {where}."))
        return nobody
    title = f"{policy}: jobs that start {where} by most than under {first.outcome.name}"
    heads = (*_JOB, f"Wait, {first.outcome.name}", f"Wait, {policy}", f"Starts {where} by")
    rows = []
    for job in places:
        old, new = first.waits[job], one.waits[job]
        rows.append((*_job(about, job), span(old), span(new), span(abs(new - old))))
    return table(title, heads, rows)


def longest_table(about: Study) -> _Element:
    """Return the jobs that wait longest under the only policy."""
    waits = about.found[0].waits
    places = [job for job in nlargest(_LONGEST, range(len(waits)), key=waits.__getitem__) if waits[job] > 0]
    rows = [(*_job(about, job), span(waits[job])) for job in places]
    return table("Jobs that wait longest", (*_JOB, "Wait"), rows) if rows else E.p("No job waits.")


_JOB = ("Job", "Submitted", "Processors", "Run time", "Estimate")


def _job(about: Study, job: int) -> Sequence[str]:
    work = about.workload
    return (
        str(work.numbers[job]),
        about.calendar.said(work.submits[job]),
        f"{work.processors[job]:,}",
        span(work.run_times[job]),
        span(work.estimates[job]),
    )
