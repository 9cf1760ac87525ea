"""The plan: what ran, runs and will run on each node, as a drawing and as the same table."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple
from zlib import crc32

from ClusterShell.NodeSet import NodeSet, NodeSetException

from headnode.apps.cli.screens.job_table import waits_in_words
from headnode.apps.web.console.site import ConsolePage
from headnode.apps.web.console.visit import Model, Told, Visit
from headnode.core.model.node import natural_order

HOUR: Final = 3600.0
WIDTH: Final = 1000.0
ROW: Final = 20.0
LABELS: Final = 90.0  # of the width, left of the bars
MOST_ROWS: Final = 200
MOST_BARS: Final = 2000
PAST_JOBS: Final = 500
WAITING_JOBS: Final = 120
SPANS: Final = {"2h": 2.0, "6h": 6.0, "24h": 24.0, "3d": 72.0, "7d": 168.0}
COLOURED_BY: Final = ("owner", "project", "state", "wait")
COLOURS: Final = 8


class PlannedBar(NamedTuple):
    """A job on one row: from `since` until `until`, and at the latest until `limit` (seconds since 1970)."""

    job: Told
    since: float
    until: float
    limit: float
    kind: str  # past, running or planned


async def show_plan(visit: Visit) -> Model:
    """Return the plan in the window of the address."""
    span = SPANS.get(visit.query.get("span", ""), SPANS["6h"]) * HOUR
    middle = float(visit.number("at") or visit.now)
    begin, end = middle - span / 3, middle + 2 * span / 3
    by = visit.query.get("by", "owner")
    by = by if by in COLOURED_BY else "owner"
    nodes = (await visit.ask("nodes"))["nodes"]
    running = (await visit.ask("jobs", states=["Running"], limit=1000))["jobs"]
    queue = await visit.ask("queue", limit=WAITING_JOBS)
    ended = (await visit.ask("jobs", states=["Finished", "Failed", "Canceled"], limit=PAST_JOBS))["jobs"]
    reservations = (await visit.ask("reservations"))["reservations"]
    names = sorted((node["name"] for node in nodes), key=natural_order)[:MOST_ROWS]
    rows = bars_by_row(names, running, queue["jobs"], ended, visit.now)
    shown, cut = _drawn(rows, begin, end, by)
    return {
        "title": "Plan",
        **_choices(visit, middle, span, by),
        "rows": shown,
        "height": round(len(shown) * ROW + 24, 1),
        "width": WIDTH,
        "row": ROW,
        "labels": LABELS,
        "now": _x(visit.now, begin, end) if begin <= visit.now <= end else None,
        "ticks": list(_ticks(begin, end)),
        "reserved": _reserved(reservations, names, begin, end),
        "cut": cut or len(nodes) > MOST_ROWS,
        "legend": _legend(rows, by),
        "table": _table(running, queue["jobs"], visit.now),
        "waiting": queue["waiting"],
        "shown_waiting": WAITING_JOBS,
        "begin": begin,
        "end": end,
    }


def _choices(visit: Visit, middle: float, span: float, by: str) -> Model:
    """Return the addresses of other windows and colours."""
    return {
        "ways": [{"name": word, "path": visit.here(by=word), "here": word == by} for word in COLOURED_BY],
        "spans": [
            {"name": word, "path": visit.here(span=word), "here": hours * HOUR == span}
            for word, hours in SPANS.items()
        ],
        "earlier": visit.here(at=int(middle - span / 2)),
        "later": visit.here(at=int(middle + span / 2)),
        "today": visit.here(at=None),
    }


def bars_by_row(
    names: Sequence[str], running: Iterable[Told], waiting: Iterable[Told], ended: Iterable[Told], now: float
) -> dict[str, list[PlannedBar]]:
    """Return the bars of each node, and those of jobs without a node yet below all."""
    rows: dict[str, list[PlannedBar]] = {name: [] for name in names}
    waits: list[PlannedBar] = []
    for job in ended:
        if job["started"] is not None and job["ended"] is not None:
            _add(rows, job, PlannedBar(job, job["started"], job["ended"], job["ended"], "past"))
    for job in running:
        start = job["started"] or now
        limit = math.inf if job["run_time"] is None else start + job["run_time"]
        _add(rows, job, PlannedBar(job, start, now, limit, "running"))
    for job in waiting:
        expected = job["expected"] or {}
        known = (expected.get("promise"), expected.get("p50"))  # bars on nodes follow the run time limits
        start = next((at for at in (known if job["places"] else known[::-1]) if at is not None), None)
        if start is None:
            continue
        limit = math.inf if job["run_time"] is None else start + job["run_time"]
        bar = PlannedBar(job, start, limit, limit, "planned")
        if job["places"]:
            for place in job["places"]:
                rows.get(place["node"], waits).append(bar)
        else:
            waits.append(bar)
    for number, lane in enumerate(_lanes(waits)):
        rows["no node yet" if not number else ""] = lane
    return rows


def _add(rows: dict[str, list[PlannedBar]], job: Told, bar: PlannedBar) -> None:
    try:
        nodes = list(NodeSet(job["nodes"])) if job["nodes"] else []
    except NodeSetException:
        nodes = [job["nodes"]]
    for node in nodes:
        if node in rows:
            rows[node].append(bar)


def _lanes(bars: Iterable[PlannedBar]) -> list[list[PlannedBar]]:
    """Return bars in at most two lanes."""
    lanes: list[list[PlannedBar]] = []
    for bar in sorted(bars, key=lambda each: each.since):
        free = next((lane for lane in lanes if lane[-1].limit <= bar.since), None)
        if free is not None:
            free.append(bar)
        elif len(lanes) < 2:
            lanes.append([bar])
        else:
            lanes[1].append(bar)
    return lanes


def _drawn(rows: dict[str, list[PlannedBar]], begin: float, end: float, by: str) -> tuple[list[Model], bool]:
    """Return the rows with their bars in the units of the drawing; True if there are too many to draw."""
    left, shown = MOST_BARS, []
    for number, (name, bars) in enumerate(rows.items()):
        seen = [
            bar
            for bar in bars
            if bar.since < end and min(bar.limit, bar.until if bar.kind == "past" else math.inf) > begin
        ]
        chosen, left = seen[: max(0, left)], left - len(seen)
        shown.append(
            {
                "name": name,
                "y": round(number * ROW, 1),
                "bars": [_bar(bar, begin, end, by, number * ROW) for bar in chosen],
            }
        )
    return shown, left < 0


def _bar(bar: PlannedBar, begin: float, end: float, by: str, y: float) -> Model:
    job, x = bar.job, _x(max(bar.since, begin), begin, end)
    solid = _x(min(max(bar.until if bar.kind != "planned" else bar.since, begin), end), begin, end)
    last = _x(min(bar.limit, end), begin, end)
    return {
        "job": job["id"],
        "name": job["name"] or job["command"],
        "owner": job["owner"],
        "kind": bar.kind,
        "colour": _colour(_group(bar, by)),
        "x": x,
        "y": round(y + 3, 1),
        "width": round(max(1.0, solid - x), 1) if bar.kind != "planned" else 0,
        "whole": round(max(2.0, last - x), 1),
        "since": bar.since,
        "limit": None if math.isinf(bar.limit) else bar.limit,
    }


def _group(bar: PlannedBar, by: str) -> str:
    if by == "wait":
        waited = (bar.job["started"] or bar.since) - (bar.job["submitted"] or bar.since)
        return "under 1 min" if waited < 60 else "under 1 h" if waited < HOUR else "1 h and more"
    return str(bar.job[by])


def _colour(group: str) -> int:
    """Return the colour of a group: the same for the same word, always."""
    return crc32(group.encode()) % COLOURS


def _legend(rows: dict[str, list[PlannedBar]], by: str) -> list[Model]:
    groups = dict.fromkeys(_group(bar, by) for bars in rows.values() for bar in bars)
    return [{"name": group or "none", "colour": _colour(group)} for group in list(groups)[:12]]


def _x(at: float, begin: float, end: float) -> float:
    return round(LABELS + (WIDTH - LABELS) * (at - begin) / (end - begin), 1)


def _ticks(begin: float, end: float) -> Iterable[Model]:
    """Yield five to eight instants of the window, at full steps."""
    steps = (900, 1800, 3600, 2 * 3600, 6 * 3600, 12 * 3600, 86400)
    step = next((each for each in steps if (end - begin) / each <= 8), steps[-1])
    at = math.ceil(begin / step) * step
    while at < end:
        yield {"x": _x(at, begin, end), "at": at}
        at += step


def _reserved(reservations: Iterable[Told], names: Sequence[str], begin: float, end: float) -> list[Model]:
    rows = {name: number for number, name in enumerate(names)}
    return [
        {
            "name": each["name"],
            "x": _x(max(each["start"], begin), begin, end),
            "y": round(rows[node] * ROW + 1, 1),
            "width": round(
                _x(min(each["end"], end), begin, end) - _x(max(each["start"], begin), begin, end), 1
            ),
        }
        for each in reservations
        for node in each["nodes"]
        if node in rows and each["start"] < end and each["end"] > begin
    ]


def _table(running: Iterable[Told], waiting: Iterable[Told], now: float) -> list[dict[str, Any]]:
    """Return the same as rows: what runs and until when, what starts and when."""
    rows = []
    for job in running:
        ends = None if job["run_time"] is None or job["started"] is None else job["started"] + job["run_time"]
        rows.append(
            {"job": job, "mark": "running", "start": job["started"], "end": ends, "where": job["nodes"]}
        )
    for job in waiting:
        expected = job["expected"] or {}
        start = expected.get("p50") or expected.get("promise")
        ends = None if start is None or job["run_time"] is None else start + job["run_time"]
        places = ", ".join(f"{place['node']} ({place['processors']})" for place in job["places"][:3])
        where = places or waits_in_words({**job, "expected": None}, now)
        rows.append({"job": job, "mark": "queued", "start": start, "end": ends, "where": where})
    return [
        {
            **{k: v for k, v in row.items() if k != "job"},
            "id": row["job"]["id"],
            "name": row["job"]["name"] or row["job"]["command"],
            "owner": row["job"]["owner"],
        }
        for row in rows
    ]


PLAN_PAGES: Final = (ConsolePage("/plan", "plan.html", show_plan),)
