"""Why a job waits, in full: the pass is asked again, with the same policy and the same placement code."""

from bisect import bisect_left
from typing import Any

from headnode.apps.server import wishes as w
from headnode.apps.server.desk import Desk
from headnode.apps.server.lookups import Found
from headnode.core.lifecycle.states import PEOPLE_SAY, JobState
from headnode.core.lifecycle.waiting import task_reasons
from headnode.core.model.quantities import NEVER
from headnode.core.model.user import User
from headnode.core.scheduling.decision import Reason, Start
from headnode.core.scheduling.explain import explain
from headnode.engine.passes import view_of

Object = dict[str, Any]
MOST_TASKS = 20


async def explain_job(desk: Desk, by: User, wish: w.JobWish) -> Object:  # noqa: ARG001  (everybody sees all)
    """Say what a job waits for, and what each of its waiting tasks waits for."""
    found = desk.lookups.job(wish.job)
    answer: Object = {
        "job": found.record.id,
        "name": found.spec.name,
        "state": PEOPLE_SAY[found.record.state],
        "reasons": [],
        "ahead": 0,
        "not_before": None,
        "tasks": [],
    }
    if found.record.state is JobState.QUEUED:
        answer |= _queued(desk, found)
    if not found.ended:
        answer["tasks"] = _waiting_tasks(desk, found)
    return answer


def _queued(desk: Desk, found: Found) -> Object:
    outside = desk.waits_outside(found.record)
    if outside:
        return {"reasons": [_reason(r) for r in outside]}
    cluster, now = desk.cluster, desk.now()
    view = view_of(cluster, now)
    plan = desk.engine.policies[desk.engine.settings.text("SchedulingPolicy")](view)
    request = cluster.request(found.record)
    turn = cluster.turn(found.record)
    answer: Object = {"ahead": sum(_before(turns, turn) for turns in cluster.queue.values())}
    if any(isinstance(start, Start) and start.job == found.record.id for start in plan.starts):
        return answer | {"reasons": [], "not_before": now}
    answer["reasons"] = [_reason(r) for r in explain(view, plan, request)]
    wait = plan.waits.get(request)
    first = cluster.queue[request][0] == turn
    if wait is not None and wait.not_before != NEVER:
        answer["not_before"] = wait.not_before if first else None
    return answer


def _before(turns: list[tuple[int, int, int]], turn: tuple[int, int, int]) -> int:
    return bisect_left(turns, turn)


def _reason(reason: Reason) -> Object:
    return {"why": reason.why.value, "text": reason.text, "what": reason.what}


def _waiting_tasks(desk: Desk, found: Found) -> list[Object]:
    run = found.record.run
    if run is None or found.record.state is not JobState.RUNNING:
        return []
    told: list[Object] = []
    for index, progress in enumerate(run.tasks):
        if not progress.queued or len(told) == MOST_TASKS:
            continue
        reasons = task_reasons(desk.cluster, found.record, index)
        told.append(
            {
                "task": index + 1,
                "name": found.spec.tasks[index].name,
                "instance": next(iter(progress.queued)),
                "waiting": len(progress.queued),
                "reasons": [{"why": r.why, "text": r.text, "what": r.what} for r in reasons],
            }
        )
    return told
