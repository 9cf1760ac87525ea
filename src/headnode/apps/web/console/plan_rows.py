"""The bars of the plan, from the jobs that the head names, and the rows and lanes in which they are."""

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from ClusterShell.NodeSet import NodeSet, NodeSetException

from headnode.apps.web.console.visit import Told

MOST_LANES: Final = 8  # of a row; the last one has the rest, one over another
NO_NODE: Final = "no node yet"


class PlannedBar(NamedTuple):
    """A job: from `since` until `until`, and at the latest until `limit` (seconds since 1970)."""

    job: Told
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
    running: Iterable[Told], waiting: Iterable[Told], ended: Iterable[Told], now: float
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


def classes_of(nodes: Iterable[Told]) -> dict[str, str]:
    """Return the class of each node: its groups, or else its size."""
    return {node["name"]: ", ".join(node["groups"]) or f"{node['processors']} processors" for node in nodes}


def in_rows(bars: Iterable[PlannedBar], by: str, nodes: Sequence[Told]) -> dict[str, list[PlannedBar]]:
    """Return the bars of each row; a row of nodes or classes is there without a bar, too."""
    if by in ("owner", "project"):
        found: dict[str, list[PlannedBar]] = {}
        for bar in bars:
            found.setdefault(bar.job[by] or "none", []).append(bar)
        return dict(sorted(found.items()))
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
    """Return bars in as few lanes as they need, none over another; at most `MOST_LANES`."""
    lanes: list[list[PlannedBar]] = []
    ends: list[float] = []
    for bar in sorted(bars, key=lambda each: each.since):
        free = next((number for number, end in enumerate(ends) if end <= bar.since), None)
        if free is None and len(lanes) < MOST_LANES:
            lanes.append([])
            ends.append(0.0)
            free = len(lanes) - 1
        number = MOST_LANES - 1 if free is None else free
        lanes[number].append(bar)
        ends[number] = max(ends[number], bar.end)
    return lanes
