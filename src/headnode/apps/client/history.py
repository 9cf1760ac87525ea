"""The past of the cluster: the ended jobs of a period, asked of the head page by page."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from statistics import fmean, median
from typing import Any

from headnode.adapters.files.job_logs import ClusterHistory
from headnode.apps.client.client import Client
from headnode.core.formats.swf import SwfHeader, SwfJob
from headnode.core.model.errors import BadRequest

PAGE = 500  # jobs looked at for one answer; the head writes nothing while it reads them

HistoryProgress = Callable[[int, int], None]
"""Is told how many jobs have come, and how many have ended in all."""


def ask_history(
    client: Client,
    since: float | None = None,
    until: float | None = None,
    progress: HistoryProgress = lambda _come, _ended: None,
) -> ClusterHistory:
    """Return the ended jobs that were submitted from `since` and before `until`.

    Unit:    seconds since 1970.
    Raises:  what `Client.ask` raises; BadRequest ``history-empty`` when there are none.
    """
    first = _page(client, 0, since, until)
    jobs, page = list(_logged(first)), first
    while page["more"] is not None:
        page = _page(client, page["more"], since, until)
        jobs += _logged(page)
        progress(len(jobs), first["ended"])
    if not jobs:
        raise _empty(first, since, until)
    about = SwfHeader(first["cluster"], first["version"], first["processors"], first["nodes"])
    return ClusterHistory(about, sorted(jobs), first["queued"], first["running"])


def _page(client: Client, after: int, since: float | None, until: float | None) -> Mapping[str, Any]:
    return client.ask("ended_jobs", after=after, limit=PAGE, since=since, until=until)


def _logged(page: Mapping[str, Any]) -> Iterator[SwfJob]:
    return map(_logged_job, page["jobs"])


def _logged_job(job: Mapping[str, Any]) -> SwfJob:
    started = job["started"]
    parents = job["parents"]
    return SwfJob(
        submitted=job["submitted"],
        number=job["id"],
        started=started,
        run_time=None if started is None else job["ended"] - started,
        held=job["processors"],
        requested=_requested(job),
        limit=job["run_time"],
        memory=job["memory"],
        state=job["state"].lower(),
        user=job["owner"],
        project=job["project"],
        program=job["name"],
        parent=parents[0] if len(parents) == 1 else None,
        priority=job["priority"],
    )


def _requested(job: Mapping[str, Any]) -> int | None:
    """Return how many processors were asked for, if that is what was held, or would have been."""
    definite = job["unit"] == "processor" and job["minimum"] == job["maximum"]
    if not definite or (job["started"] is not None and job["processors"] != job["minimum"]):
        return None
    return int(job["minimum"])


def _empty(first: Mapping[str, Any], since: float | None, until: float | None) -> BadRequest:
    if since is None and until is None:
        return BadRequest(
            code="history-empty",
            what=f"no job of cluster {first['cluster']!r} has ended yet",
            fix="name a job log instead, or wait until some jobs have ended",
        )
    return BadRequest(
        code="history-empty",
        what=f"none of the {first['ended']} ended jobs of cluster {first['cluster']!r} was submitted then",
        fix="choose another period with --since and --until",
    )


def summary(history: ClusterHistory) -> dict[str, Any]:
    """Return what the jobs were like; times in seconds."""
    jobs = history.jobs
    waits = sorted(job.started - job.submitted for job in jobs if job.started is not None)
    return {
        "cluster": history.about.cluster,
        "processors": history.about.processors,
        "jobs": dict(Counter(job.state for job in jobs)),
        "first_submitted": jobs[0].submitted,
        "last_submitted": jobs[-1].submitted,
        "users": len({job.user for job in jobs}),
        "never_started": len(jobs) - len(waits),
        "without_limit": sum(job.limit is None for job in jobs),
        "processor_seconds": sum(job.held * (job.run_time or 0.0) for job in jobs),
        "wait": {"mean": fmean(waits), "median": median(waits)} if waits else {"mean": None, "median": None},
        "queued": history.queued,
        "running": history.running,
    }
