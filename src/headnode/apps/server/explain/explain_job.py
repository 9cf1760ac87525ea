"""Why a job waits, when it will start, and what would let it: the policy itself is asked again."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from headnode.apps.server.api.groups import dependencies_of
from headnode.apps.server.api.job_objects import Object
from headnode.apps.server.api.job_views import deadline_object, expected_start
from headnode.apps.server.api.site import site_explanation
from headnode.apps.server.explain.applicable_changes import (
    ChangeCommand,
    PolicySnapshot,
    change_of_job,
    changer,
    found_changes,
    known_instant,
    modify_command,
    new_turn,
    room_of_draft,
    room_of_queued,
    snapshot_with,
    start_by_limits,
)
from headnode.apps.server.job_lookup import FoundJob
from headnode.apps.server.server_context import ServerContext
from headnode.apps.server.waiting_reasons import decay_told, preemption_reasons, reserved_for_others
from headnode.core.model.errors import Refused
from headnode.core.model.job import JobRequest
from headnode.core.model.quantities import FOREVER, Instant, JobId, format_priority
from headnode.core.model.resource import is_elsewhere
from headnode.core.model.user import User
from headnode.core.scheduling.explain.change_words import changes_in_words
from headnode.core.scheduling.explain.changes import ChangeLimits, Subject, planned_start
from headnode.core.scheduling.explain.counterfactual import Suggestion
from headnode.core.scheduling.node_table import node_objection, rules_of
from headnode.core.scheduling.plan import Reason, Shares, Why
from headnode.core.scheduling.reasons import explain
from headnode.core.scheduling.view import View, first_ahead
from headnode.core.state import submit as c
from headnode.core.state.decide import decide
from headnode.core.state.job_request import request_of
from headnode.core.state.resources import with_resource
from headnode.core.state.task_placement import task_reasons
from headnode.core.state.transitions import STATE_NAMES, JobState
from headnode.protocol.answers import ExpectedStartObject, ProcessorCount
from headnode.protocol.job_answers import (
    BlockingReservation,
    Explanation,
    HelpfulChange,
    JobAhead,
    NodeHolder,
    ReasonObject,
    RefusalObject,
    ReservedStart,
    WaitingTask,
)

MOST_HOLDERS = 5  # of one node that are named; of the others their number is told
MOST_BUSY_NODES = 50  # of one explanation whose holders are named


def holders_of(
    context: ServerContext, view: View, request: JobRequest, reasons: Sequence[Reason]
) -> dict[str, tuple[list[NodeHolder], int]]:
    """Return by node the jobs that hold processors there, the largest first, and how many more there are.

    Only nodes of the reasons that would serve the request if they were free.
    Cost:  O(nodes + shares of running jobs).
    """
    busy = _busy_nodes(view, request, reasons)
    found: dict[str, list[NodeHolder]] = {name: [] for name in busy}
    owners = context.cluster.jobs
    for running in view.running if busy else ():
        for node, processors in running.allocation:
            if node in found:
                owner = owners[running.job].owner if running.job in owners else ""
                until = known_instant(running.end)
                found[node].append(NodeHolder(running.job, processors, until, owner))
    return {node: (_largest(jobs), max(0, len(jobs) - MOST_HOLDERS)) for node, jobs in found.items()}


def _busy_nodes(view: View, request: JobRequest, reasons: Sequence[Reason]) -> list[str]:
    rules = rules_of(request)
    busy: list[str] = []
    for reason in reasons:
        node = view.nodes.get(reason.what) if reason.why is Why.NODE and len(busy) < MOST_BUSY_NODES else None
        if node is not None and not node.closed and node.jobs and not node_objection(rules, node.facts):
            busy.append(reason.what)
    return busy


def _largest(jobs: list[NodeHolder]) -> list[NodeHolder]:
    """Return the first of the holders; those that have ended since then are left out."""
    first = sorted(jobs, key=lambda each: (-each.processors, each.job))[:MOST_HOLDERS]
    return [each for each in first if each.owner]


Ahead = TypeVar("Ahead", bound=JobAhead)

MOST_TASKS = 20
MOST_AHEAD = 5  # jobs ahead that are told one by one


async def explanation_of(context: ServerContext, by: User, job: int) -> Explanation:
    """Return why a job waits, when it may start, and which changes would let it start now or sooner."""
    found = context.lookups.job(job)
    answer = empty_explanation(context)
    answer |= {"job": found.record.id, "name": found.spec.name, "state": STATE_NAMES[found.record.state]}
    if not found.ended or found.record.skipped:
        answer["dependencies"] = dependencies_of(context, found)
    if found.ended:
        return Explanation(**answer)
    answer["tasks"] = _waiting_tasks(context, found)
    preempted = [reason_object(each) for each in preemption_reasons(context.engine.last_plan, found.record)]
    if context.goes_elsewhere(found.record):
        answer["reasons"] = [reason_object(reason) for reason in context.reasons_elsewhere(found.record)]
        answer["site"] = site_explanation(context, by, found.record)
        answer["expected"] = await expected_start(context, found.record)
    elif found.record.state.is_queued:
        answer |= await _queued(context, by, found)
    elif found.record.state is JobState.CONFIGURING:
        answer |= await _draft(context, by, found)
    else:
        answer["reasons"] = [reason_object(reason) for reason in context.reasons_outside_queue(found.record)]
        answer["expected"] = await expected_start(context, found.record)
    answer["reasons"] = [*preempted, *answer["reasons"]]
    answer["deadline"] = deadline_object(found.spec, answer["expected"], answer["planned_start"])
    return Explanation(**answer)


def empty_explanation(context: ServerContext) -> Object:
    """Return an explanation that says nothing yet: every key with its empty value."""
    return {
        "job": None,
        "name": "",
        "state": "Configuring",
        "policy": context.engine.settings.text("SchedulingPolicy"),
        "refused": None,
        "reasons": [],
        "ahead": 0,
        "jobs_ahead": [],
        "planned_start": None,
        "would_start": [],
        "reservation": None,
        "blocked_by": None,
        "changes": [],
        "searched": False,
        "incomplete": False,
        "expected": None,
        "deadline": None,
        "tasks": [],
        "dependencies": [],
        "site": None,
    }


async def _queued(context: ServerContext, by: User, found: FoundJob) -> Object:
    record, spec = found.record, found.spec
    by = changer(record, by)
    snapshot = await snapshot_with(
        context,
        Subject(context.cluster.turn(record), context.cluster.request(record), record.owner, spec.project),
    )
    answer = queue_standing(context, snapshot)
    outside = context.reasons_outside_queue(record)
    if outside:
        return answer | outside_queue(answer, outside, context.cluster.queue.held.get(record.id), record.id)
    if record.state is JobState.RESUMING:  # nothing that it asks for can be changed
        reasons = _resume_reasons(context, found, answer)
        return answer | {"reasons": reasons, "expected": await expected_start(context, record)}
    room = room_of_queued(context.cluster, spec, by)

    def way(offer: Suggestion) -> ChangeCommand:
        return change_of_job(context.cluster, record, spec, offer, by, context.now())

    answer |= await helpful_changes(context, snapshot, room, way)
    answer["reasons"] = [*answer["reasons"], *map(reason_object, context.reasons_of_pools(record))]
    return answer | {"expected": await expected_start(context, record)}


def _resume_reasons(context: ServerContext, found: FoundJob, answer: Object) -> list[ReasonObject]:
    """Return why a suspended job does not go on: what others have of its nodes, and what else there is."""
    own = [reason_object(reason) for reason in context.missing_to_resume(found.record)]
    about_nodes = (Why.PROCESSORS, Why.NODE)
    return own + [reason for reason in answer["reasons"] if reason.kind not in about_nodes]


async def _draft(context: ServerContext, by: User, found: FoundJob) -> Object:
    """Say what would become of a job if it was submitted now."""
    record, spec = found.record, found.spec
    by = changer(record, by)
    parents = context.lookups.ended_parents(spec)
    try:
        decide(context.cluster, c.SubmitJob(by=by, job=record.id, parents=parents), context.now())
    except Refused as no:
        return {"refused": RefusalObject(no.code, no.what, no.fix)}
    spec = with_resource(context.cluster.resource_index.named, spec)
    if is_elsewhere(spec.resource):
        return {"reasons": [reason_object(would_be_handed(spec.resource))]}
    turn = new_turn(context.cluster, spec)._replace(job=record.id)
    snapshot = await snapshot_with(
        context,
        Subject(turn, context.cluster.request_if_queued(record.owner, spec), record.owner, spec.project),
    )

    def way(offer: Suggestion) -> ChangeCommand:
        return change_of_job(context.cluster, record, spec, offer, by, context.now())

    answer = queue_standing(context, snapshot) | await helpful_changes(
        context, snapshot, room_of_draft(spec, by), way
    )
    return answer | await latest_start(context, snapshot)


def queue_standing(context: ServerContext, snapshot: PolicySnapshot) -> Object:
    """Return the standing of a queued job: what blocks it, the jobs before it, its reservation."""
    view, plan, subject = snapshot.view, snapshot.plan, snapshot.subject
    outcome = planned_start(plan, view, subject)
    first, ahead = first_ahead(view, subject.turn, MOST_AHEAD)
    own = next((kept for kept in plan.reservations if kept.job == subject.job), None)
    reasons = () if outcome.now else _with_reserved(context, subject, explain(view, plan, subject.request))
    return {
        "reasons": _reason_objects(context, snapshot, reasons),
        "ahead": ahead,
        "jobs_ahead": [_job_ahead(JobAhead, context, turn.job) for turn in first],
        "planned_start": known_instant(outcome.at),
        "would_start": allocation_object(outcome.starts),
        "reservation": None
        if own is None
        else ReservedStart(known_instant(own.at), allocation_object(own.allocation)),
        "blocked_by": _blocking_reservation(context, snapshot, reasons),
    }


def _reason_objects(
    context: ServerContext, snapshot: PolicySnapshot, reasons: tuple[Reason, ...]
) -> list[ReasonObject]:
    """Return the reasons as clients get them, those about busy nodes with the jobs that hold them."""
    request, view = snapshot.subject.request, snapshot.view
    holders = holders_of(context, view, request, reasons)
    told = []
    for reason in reasons:
        jobs, more = holders.get(reason.what, ([], 0)) if reason.why is Why.NODE else ([], 0)
        shown = reason_object(decay_told(context.cluster, request, reason, view))
        told.append(replace(shown, holders=jobs, more_holders=more) if jobs else shown)
    return told


def _with_reserved(
    context: ServerContext, subject: Subject, reasons: tuple[Reason, ...]
) -> tuple[Reason, ...]:
    """Return the reasons with what filters keep for others, where what is free is too little."""
    if not any(reason.why in (Why.PROCESSORS, Why.NODE, Why.LICENCES) for reason in reasons):
        return reasons
    general = [reason for reason in reasons if reason.why is not Why.NODE]
    nodes = [reason for reason in reasons if reason.why is Why.NODE]
    return (*general, *reserved_for_others(context.cluster, context.engine.offers, subject.job), *nodes)


def _blocking_reservation(
    context: ServerContext, snapshot: PolicySnapshot, reasons: tuple[Reason, ...]
) -> BlockingReservation | None:
    """Return the reservation of another job that is in the way: the one the policy names, or the first."""
    others = [kept for kept in snapshot.plan.reservations if kept.job != snapshot.subject.job]
    named = {reason.what for reason in reasons if reason.why in (Why.RESERVATION, Why.POLICY, Why.PRIORITY)}
    kept = next((kept for kept in others if str(kept.job) in named), None)
    if kept is None:
        return None
    at, nodes = known_instant(kept.at), allocation_object(kept.allocation)
    return _job_ahead(BlockingReservation, context, kept.job, at=at, nodes=nodes)


def _job_ahead(kind: type[Ahead], context: ServerContext, job: JobId, **more: Any) -> Ahead:
    found = context.lookups.job(job)  # it may have ended since the snapshot was taken
    record, spec = found.record, found.spec
    request = request_of(spec)
    return kind(
        job=job,
        owner=record.owner,
        name=spec.name,
        priority=record.priority,
        priority_name=format_priority(record.priority),
        minimum=request.minimum,
        maximum=request.maximum,
        unit=request.unit.value,
        run_time=None if request.run_time == FOREVER else request.run_time,
        **more,
    )


async def helpful_changes(
    context: ServerContext,
    snapshot: PolicySnapshot,
    room: ChangeLimits,
    way: Callable[[Suggestion], ChangeCommand],
) -> Object:
    """Return what would let the job start now or sooner, each with the way to do it."""
    if planned_start(snapshot.plan, snapshot.view, snapshot.subject).now:
        return {}
    found = await found_changes(context, snapshot, room)
    offers = [_change(offer, snapshot, way(offer)) for offer in found.offers]
    return {"changes": offers, "searched": True, "incomplete": found.cut}


async def latest_start(context: ServerContext, snapshot: PolicySnapshot) -> Object:
    """Return when a job that is not submitted would start at the latest, if it would have to wait.

    In the shape of what is expected of queued jobs; nothing is learned from the past for it.
    """
    outcome = planned_start(snapshot.plan, snapshot.view, snapshot.subject)
    if outcome.now:
        return {}
    promise = known_instant(outcome.at) or await start_by_limits(context, snapshot)
    why = "" if promise else "jobs without a run time limit are before it, or it was too long to work out"
    return {
        "expected": ExpectedStartObject(
            promise=promise,
            p50=None,
            p90=None,
            predicted_at=snapshot.view.now,
            policy=context.engine.settings.text("SchedulingPolicy"),
            reason=why,
        )
    }


def _change(offer: Suggestion, snapshot: PolicySnapshot, way: ChangeCommand) -> HelpfulChange:
    return HelpfulChange(
        text=changes_in_words(offer, snapshot.subject.request),
        now=offer.outcome.now,
        at=known_instant(offer.outcome.at),
        nodes=allocation_object(offer.outcome.starts),
        options=way.options,
        command=way.command,
    )


def outside_queue(answer: Object, outside: list[Reason], held: Instant | None, job: JobId | None) -> Object:
    """Return what is different in the answer for a job that is held, or whose parents have not finished.

    The rest of the answer is as if it was in the line.  `job` is None for one that has no id yet.
    """
    different = {
        "reasons": [*map(reason_object, outside), *answer["reasons"]],
        "planned_start": None,
        "would_start": [],
    }
    if held is None or len(outside) > 1 or not answer["would_start"]:
        return different
    options = {"holduntil": ""}
    lifted = HelpfulChange(
        text="without the hold",
        now=True,
        at=answer["planned_start"],
        nodes=answer["would_start"],
        options=options,
        command="" if job is None else modify_command(job, options),
    )
    return different | {"planned_start": held, "changes": [lifted]}


def would_be_handed(resource: str) -> Reason:
    """Return what would become of a job for a resource."""
    words = f"it would be handed over to {resource}, whose scheduler decides when it starts"
    return Reason(Why.RESOURCE, words, resource)


def reason_object(reason: Reason) -> ReasonObject:
    """Return a reason as clients get it."""
    return ReasonObject(reason.why.value, reason.text, reason.what)


def allocation_object(shares: Shares) -> list[ProcessorCount]:
    """Return an allocation as clients get it."""
    return [ProcessorCount(node, processors) for node, processors in shares]


def _waiting_tasks(context: ServerContext, found: FoundJob) -> list[WaitingTask]:
    run = found.record.run
    if run is None or found.record.state is not JobState.RUNNING:
        return []
    told: list[WaitingTask] = []
    for index, progress in enumerate(run.tasks):
        if not progress.queued or len(told) == MOST_TASKS:
            continue
        reasons = task_reasons(context.cluster, found.record, index)
        told.append(
            WaitingTask(
                task=index + 1,
                name=found.spec.tasks[index].name,
                instance=next(iter(progress.queued)),
                waiting=len(progress.queued),
                reasons=[ReasonObject(each.why, each.text, each.what) for each in reasons],
            )
        )
    return told
