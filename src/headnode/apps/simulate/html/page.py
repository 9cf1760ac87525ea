"""The report as a file: what ``template/report.html`` shows, and all the page needs to show it by itself."""

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from heapq import nlargest
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from headnode.adapters.files.job_logs import unwritable, user_file
from headnode.apps.readable_values import duration
from headnode.apps.simulate.html.charts import changes_chart, classes_chart, timeline_chart, timeline_details
from headnode.apps.simulate.html.processors import first_period, packed_jobs
from headnode.apps.simulate.html.study import (
    PolicyFinding,
    Study,
    class_spreads,
    headlines,
    most_gaining,
    most_losing,
    percent,
    study,
)
from headnode.apps.simulate.report import by_priority, by_run_time, by_size, spread
from headnode.apps.simulate.simulation import Simulation
from headnode.core.model.errors import Unavailable

_FOLDER = files(__package__) / "template"
_LIBRARY = "plotly>=6"
_MAX_WAITS = 20  # waits, where nothing is compared
_MAX_OWNERS = 30  # that waited for limits, under each policy
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def check_report(path: str) -> None:
    """See whether a report can be drawn and written there.

    Raises:  Unavailable ``report-library`` when the library that draws is not installed; BadRequest
             ``report-file`` when there is no directory for the file, or nobody may write there.
    """
    if find_spec("plotly") is None:
        raise Unavailable(
            code="report-library",
            what="the report is drawn with plotly, which is not installed",
            fix=f"{sys.executable} -m pip install '{_LIBRARY}'",
        )
    target = Path(path).resolve()
    if target.is_dir() or not os.access(target if target.exists() else target.parent, os.W_OK):
        raise unwritable("report", path, "it is a directory" if target.is_dir() else "it is not writable")


def write_report(path: str, log: str, simulation: Simulation, remarks: Sequence[str]) -> int:
    """Write the report about a simulation of the log of that name, with remarks about the log.

    Returns its size in bytes.

    Raises:  BadRequest ``report-file`` when the file cannot be written; one that was there is left alone.
    """
    content = page(study(log, simulation, remarks))
    with user_file("report", path) as file:
        file.write(content)
    return len(content)


def page(about: Study) -> bytes:
    """Return the report as HTML in UTF-8.

    Cost:  five megabytes for the library that draws, 10 bytes for each job and 5 more for each policy.
    """
    from plotly.offline import get_plotlyjs  # optional, see `check_report`

    work, details = about.workload, timeline_details(about)
    sizes = class_spreads(work, by_size(work), about.findings)
    run_times = class_spreads(work, by_run_time(work), about.findings)
    charts = {
        "over-time": timeline_chart(about, next(iter(details.values()))),
        "by-size": classes_chart(sizes, about.findings, "Processors of the job"),
        "by-run-time": classes_chart(run_times, about.findings, "Run time of the job"),
        **({"changes": changes_chart(about.findings)} if about.several else {}),
    }
    text: str = _template().render(
        about=about,
        work=work,
        title=_title(about),
        facts=_facts(about),
        headlines=headlines(about.findings),
        columns=[_cells(column, about.findings) for column in _COLUMNS],
        kinds=(("by-size", "Processors", sizes), ("by-run-time", "Run time", run_times)),
        known=_known(about, charts, details),
        by_priority=by_priority,
        most_owners=_MAX_OWNERS,
        longest=_longest,
        moved={"earlier": most_gaining, "later": most_losing},
        own_file=lambda name: Markup((_FOLDER / name).read_text("utf-8")),  # noqa: S704 (a file of ours)
        library=Markup(get_plotlyjs()),  # noqa: S704 (a program as it is)
    )
    return text.encode()


def _template() -> Template:
    """Return the template: it escapes every text, and refuses a name that it does not know."""
    environment = Environment(
        loader=PackageLoader(__package__, "template"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_plain,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    environment.filters |= {"duration": duration, "percent": percent, "number": "{:,}".format, "zip": zip}
    return environment.get_template("report.html")


def _plain(value: Any) -> Any:
    """Return a text without characters that a page may not contain; anything else as it is."""
    return _FORBIDDEN.sub("\ufffd", value) if type(value) is str else value


def _title(about: Study) -> str:
    """Say in a line what the page is about: policies and log."""
    *most, last = (one.outcome.name for one in about.findings)
    return f"{', '.join(most)}{' and ' if most else ''}{last} on {PurePath(about.name).name}"


def _facts(about: Study) -> Iterator[str]:
    """Yield what was simulated."""
    yield _counted(len(about.workload.numbers), "job")
    machine, scene = about.simulation.machine, about.simulation.scene
    nodes = ""
    if machine is not None:
        nodes = f" on {len(machine.nodes):,} {'whole ' if machine.whole_nodes else ''}nodes"
    yield _counted(about.processors, "processor") + nodes
    yield f"{about.calendar.time_text(about.first)} to {about.calendar.time_text(about.last)}"
    yield f"ties {scene.ties.value}"
    yield from (f"{name}={value}" for name, value in scene.parameters)
    if not about.has_bars:
        yield f"jobs do with {scene.asking.least} % of their processors"
    header = about.simulation.log.header
    yield from (header[label] for label in ("Computer", "Installation") if header.get(label))


def _counted(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


class _FigureColumn(NamedTuple):
    title: str
    value: Callable[[PolicyFinding], float]
    text_of: Callable[[float], str] = duration
    best: Callable[[Sequence[float]], float] = min


_COLUMNS = (
    _FigureColumn("Mean wait", lambda one: one.outcome.figures.mean_wait),
    _FigureColumn("Median wait", lambda one: spread(one.waits).median),
    _FigureColumn("Nine in ten wait at most", lambda one: spread(one.waits).ninth),
    _FigureColumn("Longest wait", lambda one: max(one.waits)),
    _FigureColumn(
        "Bounded slowdown", lambda one: one.outcome.figures.mean_bounded_slowdown, "{:,.2f}".format
    ),
    _FigureColumn("Utilisation", lambda one: one.outcome.figures.utilisation, percent, max),
    _FigureColumn("Makespan", lambda one: one.outcome.figures.makespan),
)


def _cells(
    column: _FigureColumn, findings: Sequence[PolicyFinding]
) -> tuple[str, Sequence[tuple[str, bool]]]:
    """Return the title of a column, and for each policy its cell, and whether it is the best of several."""
    values = [column.value(one) for one in findings]
    texts, best = [column.text_of(value) for value in values], column.text_of(column.best(values))
    return column.title, [(text, text == best and len(set(texts)) > 1) for text in texts]


def _longest(waits: Sequence[float]) -> list[int]:
    """Return the places of the jobs that wait longest, the longest first."""
    places = nlargest(_MAX_WAITS, range(len(waits)), key=waits.__getitem__)
    return [place for place in places if waits[place] > 0]


def _known(about: Study, charts: dict[str, Any], details: dict[str, Any]) -> dict[str, Any]:
    """Return what the program of the page must know; times in seconds on the log's clock."""
    return {
        "zero": about.calendar.zero,
        "brief": about.calendar.brief,
        "first": about.first,
        "last": about.last,
        "charts": charts,
        "details": details if len(details) > 1 else {},
        "gantt": first_period(about) if about.has_bars else None,
        **packed_jobs(about.simulation),
    }
