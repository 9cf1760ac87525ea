"""Metrics of the cluster by HPC Pack's REST API: counted from the jobs that have ended and those that run."""

import math
import time
from datetime import UTC, datetime
from typing import Any, Final

from headnode.apps.web.console.load_chart import ProcessorSpan, mean_in_use
from headnode.apps.web.hpc_pack.pages import MOST_ROWS
from headnode.apps.web.hpc_pack.property_lists import read_date
from headnode.apps.web.hpc_pack.requests import HpcReply, HpcRequest
from headnode.apps.web.problems import wrong
from headnode.core.model.errors import NotFound

CORES_IN_USE: Final = "HPCCoresInUse"
DEFINITIONS: Final = (
    {
        "Name": CORES_IN_USE,
        "DisplayName": "Cores in use",
        "Description": "The number of processors that jobs hold, on average in each step",
    },
)
SHORTEST_STEP: Final = 60.0  # seconds
MOST_VALUES: Final = 1000  # in one history
MOST_LOOKED_AT: Final = 5_000  # of the newest jobs
DAY: Final = 86400.0
WEEK: Final = 7  # days
COUNTED: Final = {"Finished": "finished", "Canceled": "canceled", "Failed": "failed"}


async def definitions(request: HpcRequest) -> HpcReply:
    """List the metrics that have a history."""
    await request.ask("ping")
    return HpcReply(list(DEFINITIONS))


async def history(request: HpcRequest) -> HpcReply:
    """Show a metric from `fromTime` to `toTime`, in at most 1,000 steps of a minute or more."""
    if (name := request.path("metric")).lower() != CORES_IN_USE.lower():
        raise NotFound(
            code="no-such-metric",
            what=f"there is no metric {name[:64]!r}",
            fix="see /hpc/cluster/metrics/definitions",
        )
    begin, end = _time(request, "fromTime"), min(_time(request, "toTime"), time.time())
    if begin >= end:
        raise wrong("query", "fromTime is not before toTime and now", "", ("fromTime",))
    step = max(SHORTEST_STEP, math.ceil((end - begin) / MOST_VALUES))
    steps = math.ceil((end - begin) / step)
    running = (await request.ask("jobs", states=["Running"], limit=MOST_ROWS))["jobs"]
    spans = [ProcessorSpan(job["started"] or end, end, job["allocated"]) for job in running]
    spans += [
        ProcessorSpan(job["started"], job["ended"], job["processors"])
        for job in await _ended(request, begin)
        if job["started"] is not None
    ]
    values = mean_in_use(spans, begin, steps, until=end, step_of=step)
    points = [(begin + number * step, value) for number, value in enumerate(values)]
    return HpcReply(_data(CORES_IN_USE, begin, end, {"Cluster": points}))


async def jobs(request: HpcRequest) -> HpcReply:
    """Count the jobs that ended in the last 7 days: how many until the end of each day, and until now."""
    now = time.time()
    begin = now - WEEK * DAY
    ended = await _ended(request, begin)
    days = [begin + number * DAY for number in range(1, WEEK + 1)]
    counts = {
        f"Number of {word} jobs": [
            (day, sum(job["state"] == state and begin < job["ended"] <= day for job in ended)) for day in days
        ]
        for state, word in COUNTED.items()
    }
    return HpcReply(_data("Jobs", begin, now, counts))


async def _ended(request: HpcRequest, since: float) -> list[dict[str, Any]]:
    """Return those of the newest jobs that ended after an instant."""
    newest = (await request.ask("jobs", limit=1))["jobs"]
    after: int | None = max(0, newest[0]["id"] - MOST_LOOKED_AT) if newest else None
    found: list[dict[str, Any]] = []
    while after is not None:
        page = await request.ask("ended_jobs", after=after, since=since, limit=MOST_ROWS)
        found += page["jobs"]
        after = page["more"]
    return found


def _time(request: HpcRequest, name: str) -> float:
    """Return an instant of the query.

    Raises:  BadRequest ``query``, ``date``.
    """
    if (text := request.query.get(name)) is None:
        raise wrong("query", f"{name} is missing", "write it as 2026-11-22T15:00:00Z", (name,))
    return read_date(text)


def _data(
    name: str, begin: float, end: float, instances: dict[str, list[tuple[float, float]]]
) -> dict[str, Any]:
    return {
        "MetricName": name,
        "FromTime": _iso(begin),
        "ToTime": _iso(end),
        "Instances": [
            {"InstanceName": each, "Values": [{"Key": _iso(at), "Value": value} for at, value in points]}
            for each, points in instances.items()
        ],
    }


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
