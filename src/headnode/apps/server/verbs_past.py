"""The verbs of the local protocol that are about the past of the whole cluster."""

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import Any

from headnode import __version__
from headnode.apps.server import wishes as w
from headnode.apps.server.desk import Desk
from headnode.apps.server.scoring import scored
from headnode.core.lifecycle.events import ParameterSet
from headnode.core.lifecycle.states import ACTIVE, PEOPLE_SAY, JobState
from headnode.core.model.quantities import FOREVER, NEVER, Instant
from headnode.core.model.user import User
from headnode.engine import past
from headnode.engine.ports import Prediction, Predictions
from headnode.engine.settings import check_parameter, parameters_with

Object = dict[str, Any]
LONGEST_PAGE = 5000  # ended jobs looked at for one answer
JUDGED_PAGE = 1000  # predictions


async def past_jobs(desk: Desk, by: User, wish: w.PastWish) -> Object:  # noqa: ARG001  (everybody sees all)
    """Show a page of the jobs that are over, in the order of their ids, and what is still to come.

    It reads beside the event loop: a page of a thousand takes some 50 ms.
    """
    since = None if wish.since is None else Instant(wish.since)
    until = None if wish.until is None else Instant(wish.until)
    limit = min(max(1, wish.limit), LONGEST_PAGE)
    archive = desk.lookups.archive
    page = await asyncio.to_thread(past.past_jobs, archive, wish.after, limit, since, until)
    answer: Object = {"jobs": [_shown(job) for job in page.jobs], "more": page.more}
    if wish.after == 0:
        answer |= _about(desk)
    return answer


async def params_history(desk: Desk, by: User, wish: w.ParamsHistoryWish) -> Object:
    """Show the newest changes of cluster parameters, in order; to administrators also whose they are."""
    there_are = parameters_with(desk.engine.policies)
    names = {check_parameter(name, None, there_are).name for name in wish.names}
    limit = min(max(1, wish.limit), LONGEST_PAGE)
    archive = desk.lookups.archive

    def read() -> list[Object]:
        values: dict[str, str | None] = {}
        found: deque[Object] = deque(maxlen=limit)
        for event in archive.parameter_changes():
            before, values[event.name] = values.get(event.name), event.value
            if not names or event.name in names:
                found.append(_change(event, before, by))
        return list(found)

    return {"changes": await asyncio.to_thread(read)}


def _change(event: ParameterSet, before: str | None, by: User) -> Object:
    """Return one change; None for a value is the default, for who did it that it is not for the asker."""
    return {
        "at": event.at,
        "name": event.name,
        "before": before,
        "value": event.value,
        "by": event.by if by.administrator else None,
        "from": event.origin if by.administrator else None,
    }


async def predictions(desk: Desk, by: User, wish: w.PredictionsWish) -> Object:  # noqa: ARG001
    """Show how often predicted starts held: of the jobs that had to wait and have started since then."""
    since = Instant(0.0 if wish.since is None else wish.since)
    scores = await asyncio.to_thread(lambda: scored(list(_judged(desk.predictions, since))))
    return {"since": wish.since, "policy": desk.engine.settings.text("SchedulingPolicy")} | scores


def _judged(predictions: Predictions, since: Instant) -> Iterator[Prediction]:
    """Yield what was judged, page by page: nobody can write while a page is read."""
    before = None
    while page := predictions.judged_predictions(since, JUDGED_PAGE, before):
        yield from page
        last = page[-1]
        before = (NEVER if last.started is None else last.started, last.job)


def _about(desk: Desk) -> Object:
    """Return what a log of this cluster says of it, and how many jobs are not over."""
    counts, nodes = desk.cluster.counts, desk.cluster.nodes.values()
    return {
        "cluster": desk.name,
        "version": __version__,
        "processors": sum(node.facts.processors for node in nodes),
        "nodes": len(nodes),
        "ended": sum(desk.lookups.archive.count_ended(owner=None).values()),
        "queued": counts.get(JobState.QUEUED, 0),
        "running": sum(counts.get(state, 0) for state in (JobState.ENDING, *ACTIVE)),
    }


def _shown(job: past.PastJob) -> Object:
    request = job.request
    return {
        "id": job.id,
        "owner": job.owner,
        "name": job.name,
        "project": job.project,
        "state": PEOPLE_SAY[JobState(job.state)],
        "submitted": job.submitted,
        "started": job.started,
        "ended": job.ended,
        "processors": job.processors,
        "minimum": request.minimum,
        "maximum": request.maximum,
        "unit": request.unit.value,
        "run_time": None if request.run_time == FOREVER else request.run_time,
        "priority": job.priority,
        "exclusive": request.exclusive,
        "memory": job.memory,
        "parents": list(job.parents),
        "requeues": job.requeues,
    }
