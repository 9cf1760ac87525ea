"""Where a job stands in the queue: the jobs ahead of it, what is in its way, and what orders it."""

from collections.abc import Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from headnode.apps.server.api.job_objects import Object
from headnode.apps.server.explain.applicable_changes import (
    PolicySnapshot,
    known_instant,
)
from headnode.apps.server.server_context import ServerContext
from headnode.apps.server.waiting_reasons import reserved_for_others, with_decay_time
from headnode.core.model.job import JobRequest
from headnode.core.model.quantities import FOREVER, JobId, format_priority
from headnode.core.scheduling.explain.changes import Subject, planned_start
from headnode.core.scheduling.node_table import node_objection, rules_of
from headnode.core.scheduling.plan import Reason, Shares, Why
from headnode.core.scheduling.reasons import explain
from headnode.core.scheduling.view import View, first_ahead
from headnode.core.state.job_request import request_of
from headnode.protocol.answers import ProcessorCount
from headnode.protocol.explanations import (
    BlockingReservation,
    JobAhead,
    NodeHolder,
    ReasonObject,
    ReservedStart,
)
from headnode.protocol.user_answers import PriorityScore

Ahead = TypeVar("Ahead", bound=JobAhead)
MAX_AHEAD = 5  # jobs ahead that are told one by one
MAX_HOLDERS = 5  # of one node that are named; of the others their number is told
MAX_BUSY_NODES = 50  # of one explanation whose holders are named


def holders_of(
    context: ServerContext, view: View, request: JobRequest, reasons: Sequence[Reason]
) -> dict[str, tuple[list[NodeHolder], int]]:
    """Return by node the jobs that hold processors there, the largest first, and how many more there are.

    Only nodes of the reasons that would serve the request if they were free.
    Cost:  O(nodes + shares of running jobs).
    """
    busy = _busy_nodes(view, request, reasons)
    holders: dict[str, list[NodeHolder]] = {name: [] for name in busy}
    owners = context.cluster.jobs
    for running in view.running if busy else ():
        for node, processors in running.allocation:
            if node in holders:
                owner = owners[running.job].owner if running.job in owners else ""
                until = known_instant(running.end)
                holders[node].append(NodeHolder(running.job, processors, until, owner))
    return {node: (_largest(jobs), max(0, len(jobs) - MAX_HOLDERS)) for node, jobs in holders.items()}


def _busy_nodes(view: View, request: JobRequest, reasons: Sequence[Reason]) -> list[str]:
    rules = rules_of(request)
    busy: list[str] = []
    for reason in reasons:
        node = view.nodes.get(reason.what) if reason.why is Why.NODE and len(busy) < MAX_BUSY_NODES else None
        if node is not None and not node.closed and node.jobs and not node_objection(rules, node.facts):
            busy.append(reason.what)
    return busy


def _largest(jobs: list[NodeHolder]) -> list[NodeHolder]:
    """Return the first of the holders; those that have ended since then are left out."""
    first = sorted(jobs, key=lambda each: (-each.processors, each.job))[:MAX_HOLDERS]
    return [each for each in first if each.owner]


def queue_standing(context: ServerContext, snapshot: PolicySnapshot) -> Object:
    """Return the standing of a queued job: what blocks it, the jobs before it, its reservation."""
    view, plan, subject = snapshot.view, snapshot.plan, snapshot.subject
    outcome = planned_start(plan, view, subject)
    first, ahead = first_ahead(view, subject.turn, MAX_AHEAD)
    own = next((kept for kept in plan.reservations if kept.job == subject.job), None)
    reasons = () if outcome.now else _with_reserved(context, subject, explain(view, plan, subject.request))
    return {
        "reasons": _reason_objects(context, snapshot, reasons),
        "ahead": ahead,
        "jobs_ahead": [_job_ahead(JobAhead, context, turn.job) for turn in first],
        "score": _score(context, snapshot),
        "planned_start": known_instant(outcome.at),
        "would_start": allocation_object(outcome.starts),
        "reservation": None
        if own is None
        else ReservedStart(known_instant(own.at), allocation_object(own.allocation)),
        "blocked_by": _blocking_reservation(context, snapshot, reasons),
    }


def _score(context: ServerContext, snapshot: PolicySnapshot) -> PriorityScore | None:
    """Return what orders the job within its priority; None if there are no weights."""
    if snapshot.view.positions is None:
        return None
    from headnode.apps.server.api.limits import score_object  # few clusters have weights
    from headnode.engine.policy_registry import order_in_use

    order = order_in_use(context.engine.policies, context.engine.settings)
    return None if order is None else score_object(order.scores(snapshot.view).get(snapshot.subject.job))


def _reason_objects(
    context: ServerContext, snapshot: PolicySnapshot, reasons: tuple[Reason, ...]
) -> list[ReasonObject]:
    """Return the reasons as clients get them, those about busy nodes with the jobs that hold them."""
    request, view = snapshot.subject.request, snapshot.view
    holders = holders_of(context, view, request, reasons)
    objects = []
    for reason in reasons:
        jobs, more = holders.get(reason.what, ([], 0)) if reason.why is Why.NODE else ([], 0)
        shown = reason_object(with_decay_time(context.cluster, request, reason, view))
        objects.append(replace(shown, holders=jobs, more_holders=more) if jobs else shown)
    return objects


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


def reason_object(reason: Reason) -> ReasonObject:
    """Return a reason as clients get it."""
    return ReasonObject(reason.why.value, reason.text, reason.what)


def allocation_object(shares: Shares) -> list[ProcessorCount]:
    """Return an allocation as clients get it."""
    return [ProcessorCount(node, processors) for node, processors in shares]
