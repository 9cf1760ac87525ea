"""The load of the cluster as a drawing: processors in use over the last day, and what is planned ahead."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from headnode.apps.web.console.visit import Model, Told, Visit

PAST: Final = 24 * 3600.0  # seconds
AHEAD: Final = 6 * 3600.0
BUCKETS: Final = 120  # of the drawing
LOOKED_AT: Final = 3000  # of the newest jobs
KEPT: Final = 60.0  # seconds that the past is kept
WIDTH: Final = 960.0
HEIGHT: Final = 140.0
LONGEST: Final = 1e12


class ProcessorSpan(NamedTuple):
    """Processors that are in use from `since` until `until` (seconds since 1970)."""

    since: float
    until: float
    processors: int


async def load_chart(visit: Visit, running: list[Told], waiting: list[Told], total: int) -> Model:
    """Return the drawing: the load of the past as one line, the load that is planned as another."""
    now = visit.now
    past = await visit.kept("past load", KEPT, lambda: _past(visit))
    began, end = now - PAST, now + AHEAD
    in_use = [ProcessorSpan(job["started"] or now, now, job["allocated"]) for job in running]
    planned = [
        ProcessorSpan(now, (job["started"] or now) + (job["run_time"] or LONGEST), job["allocated"])
        for job in running
    ]
    for job in waiting:
        expected = job["expected"] or {}
        start = expected.get("promise") or expected.get("p50")  # running jobs are planned to their limits too
        if start is not None:
            planned.append(ProcessorSpan(start, start + (job["run_time"] or LONGEST), job["minimum"]))
    step = (end - began) / BUCKETS
    values = _in_buckets([*past, *in_use], began, step, 0, round(PAST / step))
    ahead = [
        min(value, float(total)) for value in _in_buckets(planned, began, step, round(PAST / step), BUCKETS)
    ]
    most = max([total, *values, *ahead, 1])
    x_now = WIDTH * PAST / (PAST + AHEAD)
    return {
        "past": _line(values, 0, most),
        "ahead": _line(ahead, len(values), most),
        "now": round(x_now, 1),
        "total": total,
        "top": round(HEIGHT * (1 - total / most), 1),
        "hours": [
            {"x": round(WIDTH * (PAST + hours * 3600) / (PAST + AHEAD), 1), "at": now + hours * 3600}
            for hours in (-24, -18, -12, -6, 6)
        ],
        "words": _words(values, ahead, total),
        "used": sum(job["allocated"] for job in running),
    }


async def _past(visit: Visit) -> list[ProcessorSpan]:
    """Return what the newest ended jobs held."""
    newest = (await visit.ask("jobs", limit=1))["jobs"]
    after = max(0, newest[0]["id"] - LOOKED_AT) if newest else 0
    jobs = (await visit.ask("ended_jobs", after=after, limit=LOOKED_AT))["jobs"]
    since = visit.now - PAST
    return [
        ProcessorSpan(job["started"], job["ended"], job["processors"])
        for job in jobs
        if job["started"] is not None and job["ended"] > since
    ]


def _in_buckets(
    spans: Iterable[ProcessorSpan], began: float, step: float, first: int, last: int
) -> list[float]:
    """Return the mean number of processors in use in each bucket from `first` to before `last`.

    Cost:  O(spans + buckets) for spans within a bucket; a span that covers many adds to each.
    """
    used = [0.0] * (last - first)
    for since, until, processors in spans:
        low = max(float(first), (since - began) / step)
        high = min(float(last), (until - began) / step)
        for bucket in range(int(low), min(last, int(high) + 1)):
            share = min(high, bucket + 1) - max(low, bucket)
            if share > 0:
                used[bucket - first] += share * processors
    return used


def _line(values: list[float], first: int, most: float) -> str:
    """Return the outline of an area as the points of an SVG polygon."""
    width = WIDTH / BUCKETS
    points = [(first * width, HEIGHT)]
    for number, value in enumerate(values, start=first):
        y = HEIGHT * (1 - value / most)
        points += [(number * width, y), ((number + 1) * width, y)]
    points.append(((first + len(values)) * width, HEIGHT))
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _words(values: list[float], ahead: list[float], total: int) -> str:
    """Return what the drawing shows, for those that do not see it."""
    if not total:
        return "There are no processors."
    mean = 100 * sum(values) / (len(values) * total)
    coming = 100 * sum(ahead) / (len(ahead) * total)
    return (
        f"{mean:.0f} % of {total:,} processors were in use over the last 24 hours; "
        f"{coming:.0f} % are planned for the next 6 hours."
    )
