"""What charts show: the load of the cluster, the bars of the plan, and the jobs of a node over a day."""

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Final, NamedTuple

from ClusterShell.NodeSet import NodeSet, NodeSetException

from headnode.apps.web.console.visit import HeadAnswer, Model, Visit
from headnode.protocol.state_names import ENDED_STATES

MAX_LANES: Final = 8  # of a row; the last one has the rest, one over another
NO_NODE: Final = "no node yet"


class PlannedBar(NamedTuple):
    """A job: from `since` until `until`, and at the latest until `limit` (seconds since 1970)."""

    job: HeadAnswer
    since: float
    until: float
    limit: float
    kind: str  # past, running or planned
    nodes: tuple[str, ...]

    @property
    def end(self) -> float:
        """Where its drawing ends."""
        return self.until if self.kind == "past" else self.limit


def bars_of(
    running: Iterable[HeadAnswer], waiting: Iterable[HeadAnswer], ended: Iterable[HeadAnswer], now: float
) -> list[PlannedBar]:
    """Return the bars of jobs; waiting ones without a known start have none."""
    bars = [
        PlannedBar(job, job["started"], job["ended"], job["ended"], "past", node_names(job["nodes"]))
        for job in ended
        if job["started"] is not None and job["ended"] is not None
    ]
    for job in running:
        start = job["started"] or now
        limit = math.inf if job["run_time"] is None else max(now, start + job["run_time"])
        bars.append(PlannedBar(job, start, now, limit, "running", node_names(job["nodes"])))
    for job in waiting:
        expected = job["expected"] or {}
        known = (expected.get("promise"), expected.get("p50"))  # bars on nodes follow the run time limits
        start = next((at for at in (known if job["places"] else known[::-1]) if at is not None), None)
        if start is not None:
            limit = math.inf if job["run_time"] is None else start + job["run_time"]
            nodes = tuple(place["node"] for place in job["places"])
            bars.append(PlannedBar(job, start, limit, limit, "planned", nodes))
    return bars


@lru_cache(maxsize=4096)
def node_names(text: str) -> tuple[str, ...]:
    """Return the names of a node set."""
    if not text or ("[" not in text and "," not in text):
        return (text,) if text else ()
    try:
        return tuple(NodeSet(text))
    except NodeSetException:
        return (text,)


def classes_of(nodes: Iterable[HeadAnswer]) -> dict[str, str]:
    """Return the class of each node: its groups, or else its size."""
    return {node["name"]: ", ".join(node["groups"]) or f"{node['processors']} processors" for node in nodes}


def in_rows(bars: Iterable[PlannedBar], by: str, nodes: Sequence[HeadAnswer]) -> dict[str, list[PlannedBar]]:
    """Return the bars of each row; a row of nodes or classes is there without a bar, too."""
    if by in ("owner", "project"):
        by_row: dict[str, list[PlannedBar]] = {}
        for bar in bars:
            by_row.setdefault(bar.job[by] or "none", []).append(bar)
        return dict(sorted(by_row.items()))
    classes = classes_of(nodes)
    names: Iterable[str] = sorted(set(classes.values())) if by == "class" else classes
    rows: dict[str, list[PlannedBar]] = {name: [] for name in names}
    waits: list[PlannedBar] = []
    for bar in bars:
        for row in dict.fromkeys(classes.get(node, node) if by == "class" else node for node in bar.nodes):
            if row in rows:
                rows[row].append(bar)
        if not bar.nodes:
            waits.append(bar)
    return rows | ({NO_NODE: waits} if waits else {})


def lanes_of(bars: Iterable[PlannedBar]) -> list[list[PlannedBar]]:
    """Return bars in as few lanes as they need, none over another; at most `MAX_LANES`."""
    lanes: list[list[PlannedBar]] = []
    ends: list[float] = []
    for bar in sorted(bars, key=lambda each: each.since):
        free = next((number for number, end in enumerate(ends) if end <= bar.since), None)
        if free is None and len(lanes) < MAX_LANES:
            lanes.append([])
            ends.append(0.0)
            free = len(lanes) - 1
        number = MAX_LANES - 1 if free is None else free
        lanes[number].append(bar)
        ends[number] = max(ends[number], bar.end)
    return lanes


HOUR: Final = 3600.0
PAST: Final = 24 * HOUR  # seconds
AHEAD: Final = 6 * HOUR
STEP: Final = 900.0  # seconds of a step of a chart
ROWS_EVERY: Final = 4  # steps to a row of the table
NEWEST: Final = 1000  # of the jobs that have ended, for the chart of a node
LOOKED_AT: Final = 3000  # of the newest jobs
KEPT: Final = 60.0  # seconds that the past is kept
MAX_DURATION: Final = 1e12


class ProcessorSpan(NamedTuple):
    """Processors that are in use from `since` until `until` (seconds since 1970)."""

    since: float
    until: float
    processors: int


class Series(NamedTuple):
    """A line of a chart; `colour` is a colour of tokens.css."""

    label: str
    values: Sequence[float | None]
    colour: str
    filled: bool = False
    dashed: bool = False


def chart(name: str, x: Sequence[float], lines: Sequence[Series], caption: str, **more: float | str) -> Model:
    """Return what a page needs to draw lines over `x`, and to show them as a table.

    more:  `top`, the least height; `now`, an instant that is marked; `unit`, of `x` if it is no time;
    `parts`, if values are no counts
    """
    rows = range(0, len(x), max(1, ROWS_EVERY if len(x) > 4 * ROWS_EVERY else 1))
    return {
        "name": name,
        "words": caption,
        "data": {"x": x, "series": [line._asdict() for line in lines], **more},
        "columns": [line.label for line in lines],
        "unit": more.get("unit", ""),
        "rows": [{"x": x[row], "values": [line.values[row] for line in lines]} for row in rows],
    }


async def load_chart(visit: Visit, running: list[HeadAnswer], waiting: list[HeadAnswer], total: int) -> Model:
    """Return the processors in use over the last day, and those that are planned for the next hours."""
    now = visit.now
    past = await visit.kept("past load", KEPT, lambda: _past(visit))
    began = (now - PAST) // STEP * STEP
    before, after = round((now - began) / STEP + 0.5), round(AHEAD / STEP)
    in_use = [ProcessorSpan(job["started"] or now, now, job["allocated"]) for job in running]
    planned = [
        ProcessorSpan(now, (job["started"] or now) + (job["run_time"] or MAX_DURATION), job["allocated"])
        for job in running
    ]
    for job in waiting:
        expected = job["expected"] or {}
        start = expected.get("promise") or expected.get("p50")  # running jobs are planned to their limits too
        if start is not None:
            planned.append(ProcessorSpan(start, start + (job["run_time"] or MAX_DURATION), job["minimum"]))
    values = mean_in_use([*past, *in_use], began, before, until=now)
    instant = began + before * STEP
    ahead = [min(value, float(total)) for value in mean_in_use(planned, instant, after)]
    none: list[float | None] = [None]
    lines = (
        Series("In use", [*values, *none * after], "running", filled=True),
        Series("Planned", [*none * (before - 1), values[-1], *ahead], "queued", filled=True, dashed=True),
        Series("Processors", [float(total)] * (before + after), "idle", dashed=True),
    )
    x = [began + step * STEP for step in range(before + after)]
    return chart("load", x, lines, _words(values, ahead, total), top=total, now=now)


async def _past(visit: Visit) -> list[ProcessorSpan]:
    """Return what the newest ended jobs held."""
    newest = (await visit.ask("jobs", limit=1))["jobs"]
    after = max(0, newest[0]["id"] - LOOKED_AT) if newest else 0
    jobs = (await visit.ask("ended_jobs", after=after, limit=LOOKED_AT))["jobs"]
    since = visit.now - PAST - STEP
    return [
        ProcessorSpan(job["started"], job["ended"], job["processors"])
        for job in jobs
        if job["started"] is not None and job["ended"] > since
    ]


def mean_in_use(
    spans: Iterable[ProcessorSpan],
    began: float,
    steps: int,
    until: float | None = None,
    step_of: float = STEP,
) -> list[float]:
    """Return the mean number of processors in use in each step from `began` on.

    until:   the instant at which the last step ends, if it is a shorter one
    step_of: seconds of a step
    Cost:  O(spans + steps).
    """
    used, whole = [0.0] * steps, [0] * (steps + 1)  # `whole`: changes of what is held for whole steps
    for since, end, processors in spans:
        low = max(0.0, (since - began) / step_of)
        high = min(float(steps), (end - began) / step_of)
        if high <= low:
            continue
        first, last = int(low), int(high)
        if first == last:
            used[first] += (high - low) * processors
            continue
        used[first] += (first + 1 - low) * processors
        whole[first + 1] += processors
        whole[last] -= processors
        if last < steps:
            used[last] += (high - last) * processors
    used = [part + held for part, held in zip(used, accumulate(whole), strict=False)]
    if until is not None and steps:
        used[-1] /= max(0.01, (until - began) / step_of - (steps - 1))
    return [round(value, 2) for value in used]


def _words(values: list[float], ahead: list[float], total: int) -> str:
    """Return what the chart shows, for those that do not see it."""
    if not total:
        return "There are no processors."
    mean = 100 * sum(values) / (len(values) * total)
    coming = 100 * sum(ahead) / (len(ahead) * total)
    return (
        f"{mean:.0f} % of {total:,} processors were in use over the last 24 hours; "
        f"{coming:.0f} % are planned for the next 6 hours."
    )


async def node_chart(visit: Visit, node: str, running: Iterable[HeadAnswer], processors: int) -> Model:
    """Return how many jobs a node had over the last day, and its processors that they use now."""
    newest = await visit.kept(f"newest {visit.you['user']}", KEPT, lambda: _newest_ended(visit))
    began = (visit.now - PAST) // STEP * STEP
    steps = round((visit.now - began) / STEP + 0.5)
    spans = [
        ProcessorSpan(job["started"], job["ended"], 1)
        for job in newest
        if job["ended"] > began and node in node_names(job["nodes"])
    ]
    spans += [ProcessorSpan(job["started"], visit.now, 1) for job in running if job["started"] is not None]
    values = mean_in_use(spans, began, steps, until=visit.now)
    mean = sum(values) / len(values)
    caption = f"{mean:.1f} jobs ran at a time over the last 24 hours, on {processors} processors."
    x = [began + step * STEP for step in range(steps)]
    return chart("node", x, (Series("Jobs", values, "running", filled=True),), caption, now=visit.now)


async def _newest_ended(visit: Visit) -> list[HeadAnswer]:
    """Return of the newest jobs that have ended when and where they ran."""
    jobs = (await visit.ask("jobs", states=ENDED_STATES, limit=NEWEST))["jobs"]
    names = ("started", "ended", "nodes")
    return [{name: job[name] for name in names} for job in jobs if job["started"] is not None]
