"""The plan: what ran, runs and will run, by node, class of nodes, owner or project, drawn and as a table."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from zlib import crc32

from headnode.apps.cli.screens.job_table import waits_in_words
from headnode.apps.web.console.load_chart import PlannedBar, bars_of, classes_of, in_rows, lanes_of
from headnode.apps.web.console.visit import ConsolePage, HeadAnswer, Model, Visit
from headnode.core.model.node import natural_order
from headnode.protocol.state_names import ENDED_STATES

HOUR: Final = 3600.0
WIDTH: Final = 1000.0
LABELS: Final = 96.0  # of the width, left of the bars
LANE: Final = 15.0  # of the height; jobs of a row that overlap are in lanes
GAP: Final = 5.0  # between two rows
MAX_ROWS: Final = 100  # on a page
MAX_BARS: Final = 1500
MIN_WIDTH: Final = 3.0  # of a bar; shorter ones side by side are drawn as one
MAX_RUNNING: Final = 10_000
PAST_JOBS: Final = 1000
AT_ONCE: Final = 1000  # jobs of an answer
WAITING_JOBS: Final = 300
TABLE_ROWS: Final = 200
KEPT: Final = 3.0  # seconds that running and ended jobs are kept for all that look
SPANS: Final = {"2h": 2.0, "6h": 6.0, "24h": 24.0, "3d": 72.0, "7d": 168.0}
MIN_WINDOW, MAX_WINDOW = 60.0, 366 * 24 * HOUR  # of a window
ROWS_BY: Final = ("node", "class", "owner", "project")
COLOURED_BY: Final = ("owner", "project", "state", "wait")
COLOURS: Final = 8


class PlanWindow(NamedTuple):
    """The time that is drawn, in seconds since 1970."""

    begin: float
    end: float

    @classmethod
    def of(cls, visit: Visit) -> "PlanWindow":
        """Return the window of the address: `from` and `to`, or a length around now or an instant."""
        begin, end = visit.number("from"), visit.number("to")
        if begin is not None and end is not None and end > begin and end < 1e11:
            return cls(float(begin), min(max(end, begin + MIN_WINDOW), begin + MAX_WINDOW))
        span = SPANS.get(visit.query.get("span", ""), SPANS["6h"]) * HOUR
        middle = min(float(visit.number("at") or visit.now), 1e11)
        return cls(middle - span / 3, middle + 2 * span / 3)

    @property
    def span(self) -> float:
        """Its length in seconds."""
        return self.end - self.begin

    def x(self, at: float) -> float:
        """Return where an instant is drawn; those outside are at the border."""
        inside = min(max(at, self.begin), self.end)
        return round(LABELS + (WIDTH - LABELS) * (inside - self.begin) / self.span, 1)

    def shows(self, bar: PlannedBar) -> bool:
        """Whether a part of a bar is in it."""
        return bar.since < self.end and bar.end > self.begin

    def moved(self, by: float, scale: float = 1.0) -> dict[str, int]:
        """Return the parameters of this window moved by a part of its length, and scaled about its middle."""
        middle, half = self.begin + self.span * (0.5 + by), self.span * scale / 2
        return {"from": round(middle - half), "to": round(middle + half)}


async def show_plan(visit: Visit) -> Model:
    """Return the plan in the window of the address."""
    window = PlanWindow.of(visit)
    by, rows_by = visit.query.get("by", ""), visit.query.get("rows", "")
    by = by if by in COLOURED_BY else COLOURED_BY[0]
    rows_by = rows_by if rows_by in ROWS_BY else ROWS_BY[0]
    nodes = sorted((await visit.ask("nodes"))["nodes"], key=lambda node: natural_order(node["name"]))
    queue = await visit.ask("queue", limit=WAITING_JOBS)
    reservations = (await visit.ask("reservations"))["reservations"]
    running, ended = await _jobs(visit)
    bars = [bar for bar in bars_of(running, queue["jobs"], ended, visit.now) if window.shows(bar)]
    rows, classes = in_rows(bars, rows_by, nodes), classes_of(nodes)
    first = min(visit.number("row") or 0, max(0, len(rows) - 1))
    page = dict(list(rows.items())[first : first + MAX_ROWS])
    drawn, height, cut = drawn_rows(page, window, by)
    row_of = {node: classes[node] if rows_by == "class" else node for node in classes}
    if rows_by not in ("node", "class"):
        row_of = {}
    return {
        "title": "Plan",
        **_choices(visit, window, by, rows_by),
        **_pages(visit, first, len(page), len(rows)),
        **_whole_table(bars, visit.now),
        "rows": drawn,
        "height": round(height + 24, 1),
        "width": WIDTH,
        "labels": LABELS,
        "now": window.x(visit.now) if window.begin <= visit.now <= window.end else None,
        "ticks": list(_ticks(window)),
        "reserved": _reserved(reservations, row_of, drawn, window),
        "cut": cut,
        "past_from": _past_from(ended, window),
        "legend": _legend(bars, by),
        "waiting": queue["waiting"],
        "shown_waiting": WAITING_JOBS,
        "begin": window.begin,
        "end": window.end,
    }


def _past_from(ended: Sequence[HeadAnswer], window: PlanWindow) -> float | None:
    """Return the instant before which ended jobs are missing in the window; None if none is."""
    cut = len(ended) >= PAST_JOBS and ended[-1]["ended"] > window.begin
    return float(ended[-1]["ended"]) if cut else None


def _pages(visit: Visit, first: int, count: int, total: int) -> Model:
    """Return which rows are shown, and the addresses of others."""
    return {
        "row_count": total,
        "first_row": first + 1,
        "last_row": first + count,
        "rows_before": visit.here(row=max(0, first - MAX_ROWS) or None) if first else None,
        "rows_after": visit.here(row=first + MAX_ROWS) if first + MAX_ROWS < total else None,
    }


def _whole_table(bars: Iterable[PlannedBar], now: float) -> Model:
    rows = _table(bars, now)
    return {"table": rows[:TABLE_ROWS], "table_total": len(rows)}


async def _jobs(visit: Visit) -> tuple[list[HeadAnswer], list[HeadAnswer]]:
    """Return the running jobs, and the newest that have ended, the latest first."""

    async def running() -> list[HeadAnswer]:
        bars: list[HeadAnswer] = []
        before = None
        while len(bars) < MAX_RUNNING:
            answer = await visit.ask("jobs", states=["Running"], limit=AT_ONCE, before=before)
            bars += map(_drawn_fields, answer["jobs"])
            if (before := answer["more"]) is None:
                break
        return bars

    async def ended() -> list[HeadAnswer]:
        answer = await visit.ask("jobs", states=ENDED_STATES, limit=PAST_JOBS)
        begun = [_drawn_fields(job) for job in answer["jobs"] if job["started"] is not None]
        return sorted(begun, key=lambda job: -job["ended"])

    of_user = visit.you["user"]
    return await visit.kept(f"running {of_user}", KEPT, running), await visit.kept(
        f"ended {of_user}", KEPT, ended
    )


def _drawn_fields(job: HeadAnswer) -> HeadAnswer:
    """Return what of a job is drawn: answers of 10,000 jobs are not kept whole."""
    names = ("id", "owner", "project", "state", "started", "submitted", "ended", "run_time", "nodes")
    return {name: job[name] for name in names} | {"name": (job["name"] or job["command"])[:60]}


def _choices(visit: Visit, window: PlanWindow, by: str, rows_by: str) -> Model:
    """Return the addresses of other windows, rows and colours."""
    plain = {"at": None, "from": None, "to": None}
    whole = not visit.query.get("from")
    return {
        "ways": [{"name": word, "path": visit.here(by=word), "here": word == by} for word in COLOURED_BY],
        "rows_by": [
            {"name": word, "path": visit.here(rows=word, row=None), "here": word == rows_by}
            for word in ROWS_BY
        ],
        "by_rows": rows_by,
        "spans": [
            {
                "name": word,
                "path": visit.here(span=word, **plain),
                "here": whole and abs(hours * HOUR - window.span) < 1,
            }
            for word, hours in SPANS.items()
        ],
        "earlier": visit.here(**{**plain, **window.moved(-0.5)}),
        "later": visit.here(**{**plain, **window.moved(0.5)}),
        "closer": visit.here(**{**plain, **window.moved(0.0, 0.5)}),
        "wider": visit.here(**{**plain, **window.moved(0.0, 2.0)}),
        "today": visit.here(**plain),
    }


# ---------------------------------------------------------------- the drawing


def drawn_rows(
    rows: Mapping[str, list[PlannedBar]], window: PlanWindow, by: str
) -> tuple[list[Model], float, bool]:
    """Return the rows with their bars in units of the drawing, its height, and whether bars are missing."""
    left, y, shown = MAX_BARS, 0.0, []
    for name, bars in rows.items():
        lanes = lanes_of(bars)
        drawn: list[Model] = []
        for number, lane in enumerate(lanes):
            drawn += _lane(lane, window, by, y + GAP / 2 + number * LANE)
        height = GAP + LANE * max(1, len(lanes))
        shown.append({"name": name, "y": round(y, 1), "height": height, "bars": drawn[: max(0, left)]})
        left -= len(drawn)
        y += height
    return shown, y, left < 0


def _lane(lane: Sequence[PlannedBar], window: PlanWindow, by: str, y: float) -> list[Model]:
    """Return the bars of a lane; short ones side by side are one, which says how many they are."""
    drawn: list[Model] = []
    for bar in lane:
        one = _bar(bar, window, by, y)
        last = drawn[-1] if drawn else None
        if last and _are_one(last, one):
            last |= {"many": last["many"] + 1, "whole": round(one["x"] + one["whole"] - last["x"], 1)}
            last["width"] = last["whole"] if last["kind"] != "planned" else 0
        else:
            drawn.append(one)
    return drawn


def _are_one(last: Model, one: Model) -> bool:
    """Whether two bars are too short, and too near to each other, to be drawn apart."""
    near = one["x"] - (last["x"] + last["whole"]) <= MIN_WIDTH / 2
    return bool(near and last["narrow"] and one["narrow"] and last["kind"] == one["kind"])


def _bar(bar: PlannedBar, window: PlanWindow, by: str, y: float) -> Model:
    job, x = bar.job, window.x(bar.since)
    solid = window.x(bar.since if bar.kind == "planned" else bar.until)
    whole = round(max(2.0, window.x(bar.limit) - x), 1)
    return {
        "job": job["id"],
        "name": job["name"] or job.get("command", ""),
        "owner": job["owner"],
        "kind": bar.kind,
        "colour": _colour(_group(bar, by), by),
        "x": x,
        "y": round(y, 1),
        "width": round(max(1.0, solid - x), 1) if bar.kind != "planned" else 0,
        "whole": whole,
        "letters": int((whole - 8) / 6.2),
        "narrow": whole <= MIN_WIDTH,
        "many": 1,
        "since": bar.since,
        "limit": None if math.isinf(bar.end) else bar.end,
    }


def _group(bar: PlannedBar, by: str) -> str:
    if by == "wait":
        waited = (bar.job["started"] or bar.since) - (bar.job["submitted"] or bar.since)
        return "under 1 min" if waited < 60 else "under 1 h" if waited < HOUR else "1 h and more"
    return str(bar.job[by])


def _colour(group: str, by: str) -> str:
    """Return the class of a group's colour: a state has that of its mark, another word always the same."""
    return f"s-{group.lower()}" if by == "state" else f"p{crc32(group.encode()) % COLOURS}"


def _legend(bars: Iterable[PlannedBar], by: str) -> list[Model]:
    groups = dict.fromkeys(_group(bar, by) for bar in bars)
    return [{"name": group or "none", "colour": _colour(group, by)} for group in list(groups)[:12]]


def _ticks(window: PlanWindow) -> Iterable[Model]:
    """Yield five to eight instants of the window, at full steps."""
    steps = (10, 30, 60, 300, 900, 1800, 3600, 7200, 6 * 3600, 12 * 3600, 86400, 7 * 86400, 30 * 86400)
    step = next((each for each in steps if window.span / each <= 8), 60 * 86400)
    at = math.ceil(window.begin / step) * step
    while at < window.end:
        yield {"x": window.x(at), "at": at}
        at += step


def _reserved(
    reservations: Iterable[HeadAnswer], row_of: Mapping[str, str], rows: Iterable[Model], window: PlanWindow
) -> list[Model]:
    """Return the reservations in the rows of their nodes."""
    drawn = {row["name"]: row for row in rows}
    return [
        {
            "name": each["name"],
            "x": window.x(each["start"]),
            "y": drawn[row]["y"],
            "height": drawn[row]["height"],
            "width": round(window.x(each["end"]) - window.x(each["start"]), 1),
        }
        for each in reservations
        if each["start"] < window.end and each["end"] > window.begin
        for row in dict.fromkeys(row_of.get(node, "") for node in each["nodes"])
        if row in drawn
    ]


def _table(bars: Iterable[PlannedBar], now: float) -> list[dict[str, Any]]:
    """Return the same as rows: what runs, then what starts, then what ran."""
    order = ("running", "planned", "past")
    return [
        {
            "id": bar.job["id"],
            "name": bar.job["name"] or bar.job.get("command", ""),
            "owner": bar.job["owner"],
            "mark": {"running": "running", "planned": "queued"}.get(bar.kind, bar.job["state"].lower()),
            "start": bar.since,
            "end": None if math.isinf(bar.end) else bar.end,
            "where": _where(bar, now),
        }
        for bar in sorted(bars, key=lambda each: (order.index(each.kind), each.since))
    ]


def _where(bar: PlannedBar, now: float) -> str:
    if bar.kind != "planned":
        return str(bar.job["nodes"])
    places = bar.job["places"]
    if not places:
        return waits_in_words({**bar.job, "expected": None}, now)
    more = f" and {len(places) - 3} more" if len(places) > 3 else ""
    return ", ".join(f"{place['node']} ({place['processors']})" for place in places[:3]) + more


PLAN_PAGES: Final = (ConsolePage("/plan", "plan.html", show_plan),)
