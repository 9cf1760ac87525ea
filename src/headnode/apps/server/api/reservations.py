"""The verbs about reservations of nodes."""

from headnode.adapters.identity.users import members_of
from headnode.apps.server.api.job_objects import Object
from headnode.apps.server.api.verbs import ADMINISTERS, READS, verb
from headnode.apps.server.server_context import ServerContext
from headnode.core.formats.text.quantities import parse_nodes
from headnode.core.model.errors import BadRequest
from headnode.core.model.node import folded_names, natural_order
from headnode.core.model.quantities import NEVER, Instant, JobId
from headnode.core.model.reservation import NodeReservation
from headnode.core.model.user import Receipt, User
from headnode.core.state import reservations as c
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.reservation_index import reservation_named
from headnode.protocol import requests as w
from headnode.protocol.node_answers import (
    CanceledReservation,
    ChangedReservation,
    DelayedStart,
    ReservationAnswer,
    ReservationObject,
    ReservationsAnswer,
)


@verb(READS)
async def reservations(context: ServerContext, by: User, request: w.VerbRequest) -> ReservationsAnswer:  # noqa: ARG001  (everybody sees all)
    """Show every reservation, in the order in which they begin."""
    known = sorted(context.cluster.reservation_index.named.values(), key=lambda each: (each.start, each.key))
    return ReservationsAnswer([_object(context.cluster, each, context.now()) for each in known])


@verb(READS)
async def reservation(
    context: ServerContext,
    by: User,  # noqa: ARG001
    request: w.ReservationNameRequest,
) -> ReservationAnswer:
    """Show one reservation."""
    known = reservation_named(context.cluster.reservation_index.named, request.name)
    return ReservationAnswer(_object(context.cluster, known, context.now()))


async def _made_again(
    context: ServerContext, by: User, _receipt: Receipt, request: w.SetReservationRequest
) -> ChangedReservation:
    answer = await reservation(context, by, w.ReservationNameRequest(name=request.name))
    return ChangedReservation(answer.reservation, delayed=[], repeated=True)


@verb(ADMINISTERS, again=_made_again)
async def create_reservation(
    context: ServerContext, by: User, request: w.SetReservationRequest
) -> ChangedReservation:
    """Reserve nodes; show the promised starts that it moves."""
    now = context.now()
    fields = _fields(request, Instant(now if request.start is None else request.start))
    if "end" not in fields:
        raise BadRequest(
            code="reservation-time",
            what=f"reservation {request.name!r} has no end",
            fix="set its end (hn: --to) or its duration (hn: --for)",
        )
    whole: Object = {"name": request.name, "start": now} | fields
    asked = NodeReservation(**whole)
    promised = _promised(context)
    await context.ask(c.MakeReservation(by=by, reservation=asked, regardless=request.ignore_running))
    return _answer(context, request.name, promised)


@verb(ADMINISTERS)
async def modify_reservation(
    context: ServerContext, by: User, request: w.SetReservationRequest
) -> ChangedReservation:
    """Change a reservation; show the promised starts that it moves. Missing fields stay unchanged."""
    known = reservation_named(context.cluster.reservation_index.named, request.name)
    fields = _fields(request, known.start if request.start is None else Instant(request.start))
    if "nodes" in fields:
        fields.setdefault("count", 0)
    elif "count" in fields:
        fields["nodes"] = ()
    whole: Object = {"name": known.name, "start": known.start, "end": known.end} | fields
    asked = NodeReservation(**whole)
    promised = _promised(context)
    await context.ask(
        c.ChangeReservation(
            by=by,
            name=known.name,
            reservation=asked,
            fields=tuple(fields),
            regardless=request.ignore_running,
        )
    )
    return _answer(context, known.name, promised)


@verb(ADMINISTERS)
async def cancel_reservation(
    context: ServerContext, by: User, request: w.ReservationNameRequest
) -> CanceledReservation:
    """Cancel a reservation; show the jobs that named it."""
    known = reservation_named(context.cluster.reservation_index.named, request.name)
    waiting = _jobs(context.cluster, known, running=False)
    await context.ask(c.CancelReservation(by=by, name=request.name))
    return CanceledReservation(known.name, waiting)


def _fields(request: w.SetReservationRequest, begins: Instant) -> Object:
    """Return the fields that are named, as a reservation has them."""
    fields: Object = {
        name: tuple(value)
        for name in ("node_groups", "features", "users", "projects", "groups")
        if (value := getattr(request, name)) is not None
    }
    if request.groups is not None:
        fields["members"] = tuple(sorted({user for group in request.groups for user in members_of(group)}))
    if request.nodes is not None:
        fields["nodes"] = parse_nodes(request.nodes)
    if request.start is not None:
        fields["start"] = begins
    if request.duration is not None:
        fields["end"] = Instant(begins + request.duration)
    elif request.end is not None:
        fields["end"] = Instant(request.end)
    plain = {name: getattr(request, name) for name in ("count", "at_end", "automatic", "reason")}
    return fields | {name: value for name, value in plain.items() if value is not None}


def _promised(context: ServerContext) -> dict[JobId, Instant]:
    """Return when waiting jobs are promised to start."""
    plan = context.engine.last_plan
    return {} if plan is None else {each.job: each.at for each in plan.reservations}


def _answer(context: ServerContext, name: str, before: dict[JobId, Instant]) -> ChangedReservation:
    """Return a reservation, and the jobs that were promised an earlier start before it was made so."""
    reservation, now = context.cluster.reservation_index.named[name.lower()], _promised(context)
    later = [
        DelayedStart(job, before=at, now=None if now.get(job) in (None, NEVER) else now[job])
        for job, at in sorted(before.items())
        if job in context.cluster.jobs
        and context.cluster.jobs[job].state.is_queued
        and now.get(job, NEVER) > at
    ]
    return ChangedReservation(_object(context.cluster, reservation, context.now()), later)


def _object(cluster: ClusterState, each: NodeReservation, now: Instant) -> ReservationObject:
    return ReservationObject(
        name=each.name,
        state="Active" if each.start <= now else "Planned",
        start=each.start,
        end=each.end,
        nodes=list(each.nodes),
        node_set=",".join(folded_names(sorted(each.nodes, key=natural_order))),
        count=each.count,
        node_groups=list(each.node_groups),
        features=list(each.features),
        users=list(each.users),
        groups=list(each.groups),
        projects=list(each.projects),
        maintenance=each.is_maintenance,
        at_end=each.at_end,
        automatic=each.automatic,
        reason=each.reason,
        by=each.by,
        running=_jobs(cluster, each, running=True),
        waiting=_jobs(cluster, each, running=False),
    )


def _jobs(cluster: ClusterState, each: NodeReservation, *, running: bool) -> list[int]:
    """Return the jobs that name it and run, or wait to."""
    if running:
        return sorted(
            job for job in cluster.running if cluster.request(cluster.jobs[job]).reservation == each.key
        )
    named = (turns for request, turns in cluster.queue.by_request.items() if request.reservation == each.key)
    return sorted(turn.job for turns in named for turn in turns)
