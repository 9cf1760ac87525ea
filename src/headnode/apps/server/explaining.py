"""Why a job waits, when it will start, and what would let it: the policy itself is asked again."""

from collections.abc import Callable
from typing import Any

from headnode.apps.server import wishes as w
from headnode.apps.server.deadlines import deadline_object
from headnode.apps.server.desk import Desk
from headnode.apps.server.expecting import expected_start
from headnode.apps.server.filter_reasons import kept_for_others
from headnode.apps.server.holders import holders_of
from headnode.apps.server.lookups import Found
from headnode.apps.server.preemption_reasons import preemption_reasons
from headnode.apps.server.verbs_groups import relations
from headnode.apps.server.ways import (
    Way,
    changer,
    modify_command,
    new_turn,
    room_of_draft,
    room_of_queued,
    way_of_made,
)
from headnode.apps.server.what_if import (
    Picture,
    found_changes,
    known,
    picture_with,
    start_by_limits,
)
from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle.decide import decide
from headnode.core.lifecycle.requests import request_of
from headnode.core.lifecycle.states import PEOPLE_SAY, JobState
from headnode.core.lifecycle.waiting import task_reasons
from headnode.core.model.errors import Refused
from headnode.core.model.quantities import FOREVER, Instant, JobId, format_priority
from headnode.core.model.user import User
from headnode.core.scheduling.counterfactuals.axes import Room
from headnode.core.scheduling.counterfactuals.search import Offer
from headnode.core.scheduling.counterfactuals.subject import Subject, outcome_of
from headnode.core.scheduling.counterfactuals.wording import in_words
from headnode.core.scheduling.decision import Reason, Reservation, Shares, Why
from headnode.core.scheduling.explain import explain, first_ahead

Object = dict[str, Any]
MOST_TASKS = 20
MOST_AHEAD = 5  # jobs ahead that are told one by one


async def explain_job(desk: Desk, by: User, wish: w.JobWish) -> Object:
    """Say what a job waits for, when it may start, and what would let it start now or sooner."""
    found = desk.lookups.job(wish.job)
    answer = blank(desk)
    answer |= {"job": found.record.id, "name": found.spec.name, "state": PEOPLE_SAY[found.record.state]}
    if not found.ended or found.record.skipped:
        answer["dependencies"] = relations(desk, found)["dependencies"]
    if found.ended:
        return answer
    answer["tasks"] = _waiting_tasks(desk, found)
    preempted = [reason_object(each) for each in preemption_reasons(desk.engine.last_plan, found.record)]
    if found.record.state.is_queued:
        answer |= await _queued(desk, by, found)
    elif found.record.state in (JobState.SUSPENDED, JobState.VALIDATING):
        answer["reasons"] = [reason_object(reason) for reason in desk.waits_outside(found.record)]
    elif found.record.state is JobState.CONFIGURING:
        answer |= await _draft(desk, by, found)
    answer["reasons"] = [*preempted, *answer["reasons"]]
    return answer | {"deadline": deadline_object(found.spec, answer)}


def blank(desk: Desk) -> Object:
    """Return an explanation that says nothing yet: every key with its empty value."""
    return {
        "job": None,
        "name": "",
        "state": "Configuring",
        "policy": desk.engine.settings.text("SchedulingPolicy"),
        "refused": None,
        "reasons": [],
        "ahead": 0,
        "jobs_ahead": [],
        "not_before": None,
        "would_start": [],
        "reservation": None,
        "behind": None,
        "changes": [],
        "searched": False,
        "cut": False,
        "expected": None,
        "deadline": None,
        "tasks": [],
        "dependencies": [],
    }


async def _queued(desk: Desk, by: User, found: Found) -> Object:
    record, spec = found.record, found.spec
    by = changer(record, by)
    picture = await picture_with(desk, Subject(desk.cluster.turn(record), desk.cluster.request(record)))
    answer = stands(desk, picture)
    outside = desk.waits_outside(record)
    if outside:
        return answer | kept_outside(answer, outside, desk.cluster.held.get(record.id), record.id)
    if record.state is JobState.RESUMING:  # nothing that it asks for can be changed
        reasons = _to_go_on(desk, found, answer)
        return answer | {"reasons": reasons, "expected": await expected_start(desk, record)}
    room = room_of_queued(desk.cluster, spec, by)

    def way(offer: Offer) -> Way:
        return way_of_made(desk.cluster, record, spec, offer, by, desk.now())

    answer |= await changes(desk, picture, room, way)
    return answer | {"expected": await expected_start(desk, record)}


def _to_go_on(desk: Desk, found: Found, answer: Object) -> list[Object]:
    """Return why a suspended job does not go on: what others have of its nodes, and what else there is."""
    own = [reason_object(reason) for reason in desk.missing_to_go_on(found.record)]
    about_nodes = (Why.PROCESSORS, Why.NODE)
    return own + [reason for reason in answer["reasons"] if reason["why"] not in about_nodes]


async def _draft(desk: Desk, by: User, found: Found) -> Object:
    """Say what would become of a job if it was submitted now."""
    record, spec = found.record, found.spec
    by = changer(record, by)
    parents = desk.lookups.ended_parents(spec)
    try:
        decide(desk.cluster, c.SubmitJob(by=by, job=record.id, parents=parents), desk.now())
    except Refused as no:
        return {"refused": {"code": no.code, "what": no.what, "fix": no.fix}}
    turn = (*new_turn(desk.cluster, spec)[:2], record.id)
    picture = await picture_with(desk, Subject(turn, desk.cluster.would_ask(record.owner, spec)))

    def way(offer: Offer) -> Way:
        return way_of_made(desk.cluster, record, spec, offer, by, desk.now())

    answer = stands(desk, picture) | await changes(desk, picture, room_of_draft(spec, by), way)
    return answer | await would_start_by(desk, picture)


def stands(desk: Desk, picture: Picture) -> Object:
    """Return how a job stands that is in the line: what is in its way, who is before it, its reservation."""
    view, plan, subject = picture.view, picture.plan, picture.subject
    outcome = outcome_of(plan, view, subject)
    first, ahead = first_ahead(view, subject.turn, MOST_AHEAD)
    own = next((kept for kept in plan.reservations if kept.job == subject.job), None)
    reasons = () if outcome.now else _with_kept(desk, subject, explain(view, plan, subject.request))
    return {
        "reasons": _told(desk, picture, reasons),
        "ahead": ahead,
        "jobs_ahead": [_job_ahead(desk, JobId(turn[2])) for turn in first],
        "not_before": known(outcome.at),
        "would_start": places(outcome.starts),
        "reservation": None if own is None else {"at": known(own.at), "nodes": places(own.allocation)},
        "behind": _behind(desk, picture, reasons),
    }


def _told(desk: Desk, picture: Picture, reasons: tuple[Reason, ...]) -> list[Object]:
    """Return the reasons as clients get them, those about busy nodes with who holds these."""
    holders = holders_of(desk, picture.view, picture.subject.request, reasons)
    told = []
    for reason in reasons:
        jobs, more = holders.get(reason.what, ([], 0)) if reason.why is Why.NODE else ([], 0)
        told.append(reason_object(reason) | ({"holders": jobs, "more_holders": more} if jobs else {}))
    return told


def _with_kept(desk: Desk, subject: Subject, reasons: tuple[Reason, ...]) -> tuple[Reason, ...]:
    """Return the reasons with what filters keep for others, where what is free is too little."""
    if not any(reason.why in (Why.PROCESSORS, Why.NODE, Why.LICENCES) for reason in reasons):
        return reasons
    general = [reason for reason in reasons if reason.why is not Why.NODE]
    nodes = [reason for reason in reasons if reason.why is Why.NODE]
    return (*general, *kept_for_others(desk.cluster, desk.engine.offers, subject.job), *nodes)


def _behind(desk: Desk, picture: Picture, reasons: tuple[Reason, ...]) -> Object | None:
    """Return the reservation of another job that is in the way: the one the policy names, or the first."""
    others = [kept for kept in picture.plan.reservations if kept.job != picture.subject.job]
    named = {reason.what for reason in reasons if reason.why in (Why.RESERVATION, Why.POLICY, Why.PRIORITY)}
    kept = next((kept for kept in others if str(kept.job) in named), None)
    return None if kept is None else _reservation(desk, kept)


def _reservation(desk: Desk, kept: Reservation) -> Object:
    return {**_job_ahead(desk, kept.job), "at": known(kept.at), "nodes": places(kept.allocation)}


def _job_ahead(desk: Desk, job: JobId) -> Object:
    found = desk.lookups.job(job)  # it may have ended since the picture was taken
    record, spec = found.record, found.spec
    request = request_of(spec)
    return {
        "job": job,
        "owner": record.owner,
        "name": spec.name,
        "priority": record.priority,
        "priority_name": format_priority(record.priority),
        "minimum": request.minimum,
        "maximum": request.maximum,
        "unit": request.unit.value,
        "run_time": None if request.run_time == FOREVER else request.run_time,
    }


async def changes(desk: Desk, picture: Picture, room: Room, way: Callable[[Offer], Way]) -> Object:
    """Return what would let the job start now or sooner, each with the way to do it."""
    if outcome_of(picture.plan, picture.view, picture.subject).now:
        return {}
    found = await found_changes(desk, picture, room)
    offers = [_change(offer, picture, way(offer)) for offer in found.offers]
    return {"changes": offers, "searched": True, "cut": found.cut}


async def would_start_by(desk: Desk, picture: Picture) -> Object:
    """Return when a job that is not submitted would start at the latest, if it would have to wait.

    In the shape of what is expected of queued jobs; nothing is learned from the past for it.
    """
    outcome = outcome_of(picture.plan, picture.view, picture.subject)
    if outcome.now:
        return {}
    promise = known(outcome.at) or await start_by_limits(desk, picture)
    why = "" if promise else "jobs without a run time limit are before it, or it was too long to work out"
    return {
        "expected": {
            "promise": promise,
            "p50": None,
            "p90": None,
            "made": picture.view.now,
            "policy": desk.engine.settings.text("SchedulingPolicy"),
            "why": why,
        }
    }


def _change(offer: Offer, picture: Picture, way: Way) -> Object:
    return {
        "text": in_words(offer, picture.subject.request),
        "now": offer.outcome.now,
        "at": known(offer.outcome.at),
        "nodes": places(offer.outcome.starts),
        "options": way.options,
        "command": way.command,
    }


def kept_outside(answer: Object, outside: list[Reason], held: Instant | None, job: JobId | None) -> Object:
    """Return what is different in the answer for a job that is held, or whose parents have not finished.

    The rest of the answer is as if it was in the line.  `job` is None for one that has no id yet.
    """
    different = {
        "reasons": [*map(reason_object, outside), *answer["reasons"]],
        "not_before": None,
        "would_start": [],
    }
    if held is None or len(outside) > 1 or not answer["would_start"]:
        return different
    options = {"holduntil": ""}
    lifted = {
        "text": "without the hold",
        "now": True,
        "at": answer["not_before"],
        "nodes": answer["would_start"],
        "options": options,
        "command": "" if job is None else modify_command(job, options),
    }
    return different | {"not_before": held, "changes": [lifted]}


def reason_object(reason: Reason) -> Object:
    """Return a reason as clients get it."""
    return {"why": reason.why.value, "text": reason.text, "what": reason.what}


def places(shares: Shares) -> list[Object]:
    """Return an allocation as clients get it."""
    return [{"node": node, "processors": processors} for node, processors in shares]


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
