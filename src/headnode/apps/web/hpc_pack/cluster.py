"""The cluster and its metrics by HPC Pack's REST API.

Metrics are counted from the jobs that have ended and those that run.
"""

import math
import re
import socket
import time
from datetime import UTC, datetime
from typing import Any, Final
from zlib import crc32

import msgspec

from headnode.apps.web.console.load_chart import ProcessorSpan, mean_in_use
from headnode.apps.web.hpc_pack.property_lists import DATE_FORMAT, read_date
from headnode.apps.web.hpc_pack.requests import MAX_ROWS, HpcReply, HpcRequest, number_in
from headnode.apps.web.problems import wrong
from headnode.core.model.errors import NotFound

_ROLES: Final = {"administrator": "Administrator", "operator": "JobOperator"}
MAX_OPERATIONS: Final = 1000


async def version(request: HpcRequest) -> HpcReply:
    """Show the version, in four numbers as HPC Pack has it."""
    own = re.findall(r"[0-9]+", (await request.ask("ping"))["version"])
    return HpcReply(".".join([*own, "0", "0", "0"][:4]))


async def head_node(request: HpcRequest) -> HpcReply:
    """Show the machine of the head."""
    await request.ask("ping")
    return HpcReply(socket.gethostname())


async def date_format(request: HpcRequest) -> HpcReply:  # noqa: ARG001
    """Show the form of dates in answers."""
    return HpcReply(DATE_FORMAT)


async def roles(request: HpcRequest) -> HpcReply:
    """Show the roles of the user."""
    role = (await request.ask("whoami"))["role"]
    return HpcReply(["User", *([_ROLES[role]] if role in _ROLES else [])])


async def templates(request: HpcRequest) -> HpcReply:
    """List the names of the job templates."""
    names = [each["name"] for each in (await request.ask("templates"))["templates"]]
    return HpcReply(names if "Default" in names else ["Default", *names])


async def operations(request: HpcRequest) -> HpcReply:
    """Show the newest changes of the audit log, the newest first."""
    return HpcReply((await _operations(request))[: min(number_in(request, "limit", 100), MAX_OPERATIONS)])


async def first_operation(request: HpcRequest) -> HpcReply:
    """Show the oldest of these changes."""
    operations = await _operations(request)
    return HpcReply(operations[-1] if operations else None)


async def operation(request: HpcRequest) -> HpcReply:
    """Show one of these changes."""
    wanted = request.path("operation")
    for each in await _operations(request):
        if each["Id"] == wanted:
            return HpcReply(each)
    raise NotFound(code="no-such-operation", what=f"there is no operation {wanted[:64]!r} any more")


async def _operations(request: HpcRequest) -> list[dict[str, Any]]:
    """Return the changes of the audit log that were asked for, the newest first."""
    since, until = request.query.get("fromTime"), request.query.get("toTime")
    nodes = request.names("nodeNames")
    entries = (await request.ask("audit_log", limit=MAX_OPERATIONS))["entries"]
    operations = []
    for entry in entries:
        at = read_date(entry["when"])
        node = str(entry.get("node") or "(cluster)")
        if (
            (since and at <= read_date(since))
            or (until and at >= read_date(until))
            or (nodes and node not in nodes)
        ):
            continue
        operations.append(_operation(at, node, entry))
    return sorted(operations, key=lambda each: str(each["UpdateTime"]), reverse=True)


def _operation(at: float, node: str, entry: dict[str, Any]) -> dict[str, Any]:
    return {
        "Id": f"{at:.3f}-{crc32(msgspec.json.encode(entry)):08x}",
        "Name": entry["verb"],
        "Operator": entry["user"],
        "Node": node,
        "State": "Committed" if entry["outcome"] == "done" else "Failed",
        "Cancelable": False,
        "UpdateTime": datetime.fromtimestamp(at, UTC).isoformat(),
        "Entries": None,
    }


CORES_IN_USE: Final = "HPCCoresInUse"
DEFINITIONS: Final = (
    {
        "Name": CORES_IN_USE,
        "DisplayName": "Cores in use",
        "Description": "The number of processors that jobs hold, on average in each step",
    },
)
MIN_STEP: Final = 60.0  # seconds
MAX_VALUES: Final = 1000  # in one history
MAX_LOOKED_AT: Final = 5_000  # of the newest jobs
DAY: Final = 86400.0
WEEK: Final = 7  # days
COUNTED: Final = {"Finished": "finished", "Canceled": "canceled", "Failed": "failed"}


async def metric_definitions(request: HpcRequest) -> HpcReply:
    """List the metrics that have a history."""
    await request.ask("ping")
    return HpcReply(list(DEFINITIONS))


async def metric_history(request: HpcRequest) -> HpcReply:
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
    step = max(MIN_STEP, math.ceil((end - begin) / MAX_VALUES))
    steps = math.ceil((end - begin) / step)
    running = (await request.ask("jobs", states=["Running"], limit=MAX_ROWS))["jobs"]
    spans = [ProcessorSpan(job["started"] or end, end, job["allocated"]) for job in running]
    spans += [
        ProcessorSpan(job["started"], job["ended"], job["processors"])
        for job in await _ended(request, begin)
        if job["started"] is not None
    ]
    values = mean_in_use(spans, begin, steps, until=end, step_of=step)
    points = [(begin + number * step, value) for number, value in enumerate(values)]
    return HpcReply(_data(CORES_IN_USE, begin, end, {"Cluster": points}))


async def job_counts(request: HpcRequest) -> HpcReply:
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
    after: int | None = max(0, newest[0]["id"] - MAX_LOOKED_AT) if newest else None
    jobs: list[dict[str, Any]] = []
    while after is not None:
        page = await request.ask("ended_jobs", after=after, since=since, limit=MAX_ROWS)
        jobs += page["jobs"]
        after = page["more"]
    return jobs


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
