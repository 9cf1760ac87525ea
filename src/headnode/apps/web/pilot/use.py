"""Where the tasks of grid jobs could run, what ended jobs used, and what the service is."""

from collections.abc import Mapping
from typing import Any, Final

from headnode import __version__
from headnode.apps.web.pilot.grid_jobs import OVER, PAGE, Object, job_of, listed_job
from headnode.apps.web.pilot.histories import time_text
from headnode.apps.web.pilot.requests import GridReply, GridRequest
from headnode.core.model.errors import Refused

MOST_ACCOUNTED: Final = 1_000  # jobs in an answer


async def resources(request: GridRequest) -> GridReply:
    """Show where the tasks of a job could run now; nothing is started."""
    found = await job_of(request)
    answer: Mapping[str, Any] = {}
    runnable = found.shown["state"] != "Configuring"
    if not runnable:
        try:
            answer = await request.ask("check_job", job=found.id)
            runnable = True
        except Refused as refused:
            return GridReply({"runnable": False, "resources": [], "reason": refused.what})
    nodes = [each["name"] for each in (await request.ask("nodes"))["nodes"] if each["state"] == "Ready"]
    told = [
        {"task_id": item["id"], "resources": _hosts(item, nodes)}
        for item in (await found.definition())["tasks"]
    ]
    reasons = answer.get("explanation", {}).get("sentence")
    return GridReply({"runnable": runnable, "resources": told, **({"reason": reasons} if reasons else {})})


def _hosts(item: Object, nodes: list[str]) -> list[str]:
    """Return the nodes that a task may use by name."""
    wanted = item.get("definition", {}).get("requirements", {}).get("hostname")
    return nodes if wanted is None else [node for node in nodes if node in wanted]


async def last_jobs(request: GridRequest) -> GridReply:
    """Show the use of the last jobs of the user that are over, newest first."""
    most = min(request.number("count"), MOST_ACCOUNTED)
    answer = await request.ask("jobs", owner="", states=list(OVER), limit=most)
    return GridReply([_used(request, job) for job in answer["jobs"]])


async def jobs_of_period(request: GridRequest) -> GridReply:
    """Show the use of the jobs of the user that ended in a period, in seconds since 1970."""
    since, until = request.number("since"), request.number("until")
    found: list[Object] = []
    before = None
    while len(found) < MOST_ACCOUNTED:
        answer = await request.ask("jobs", owner="", states=list(OVER), before=before, limit=PAGE)
        found += [_used(request, job) for job in answer["jobs"] if since <= (job["ended"] or 0) <= until]
        before = answer["more"]
        if before is None:
            break
    return GridReply(found[:MOST_ACCOUNTED])


def _used(request: GridRequest, job: Object) -> Object:
    times = {name: time_text(job[name]) for name in ("created", "started", "ended") if job[name] is not None}
    return {
        **listed_job(request, job["id"]),
        "state": "finished" if job["state"] == "Finished" else "aborted",
        **times,
    }


async def version(request: GridRequest) -> GridReply:  # noqa: ARG001
    """Show the version of the service."""
    return GridReply({"service": "headnode", "version": __version__, "schema": 2})


async def policy(request: GridRequest) -> GridReply:  # noqa: ARG001
    """Say how long jobs are kept."""
    return GridReply({"expires": "records of jobs are kept; captured output as long as the cluster keeps it"})
