"""The verbs of the local protocol that are about reservations of nodes."""

from typing import Any

from headnode.adapters.identity.users import members_of
from headnode.apps.server import wishes as w
from headnode.apps.server.desk import Desk
from headnode.core.formats.native_form.node_names import parse_nodes
from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.reserving import reservation_named
from headnode.core.model.errors import BadRequest
from headnode.core.model.node_runs import as_counted, runs_of
from headnode.core.model.quantities import Instant, JobId
from headnode.core.model.reservation import NodeReservation
from headnode.core.model.user import User

Object = dict[str, Any]


async def reservations(desk: Desk, by: User, wish: w.Wish) -> Object:  # noqa: ARG001  (everybody sees all)
    """Show every reservation, in the order in which they begin."""
    known = sorted(desk.cluster.bookings.named.values(), key=lambda each: (each.begins, each.key))
    return {"reservations": [_object(desk.cluster, each, desk.now()) for each in known]}


async def reservation(desk: Desk, by: User, wish: w.ReservationWish) -> Object:  # noqa: ARG001
    """Show one."""
    found = reservation_named(desk.cluster.bookings.named, wish.name)
    return {"reservation": _object(desk.cluster, found, desk.now())}


async def make_reservation(desk: Desk, by: User, wish: w.SetReservationWish) -> Object:
    """Reserve nodes; say whose promised starts are lost by it."""
    now = desk.now()
    fields = _fields(wish, Instant(now if wish.begins is None else wish.begins))
    if "ends" not in fields:
        raise BadRequest(
            code="reservation-time",
            what=f"reservation {wish.name!r} has no end",
            fix="give an end (--to) or a duration (--for)",
        )
    whole: Object = {"name": wish.name, "begins": now} | fields
    asked = NodeReservation(**whole)
    promised = _promised(desk)
    await desk.ask(c.MakeReservation(by=by, reservation=asked, regardless=wish.ignore_running))
    return _answer(desk, wish.name, promised)


async def change_reservation(desk: Desk, by: User, wish: w.SetReservationWish) -> Object:
    """Let a reservation be another; say whose promised starts are lost by it."""
    known = reservation_named(desk.cluster.bookings.named, wish.name)
    fields = _fields(wish, known.begins if wish.begins is None else Instant(wish.begins))
    if "nodes" in fields:
        fields.setdefault("count", 0)
    elif "count" in fields:
        fields["nodes"] = ()
    whole: Object = {"name": known.name, "begins": known.begins, "ends": known.ends} | fields
    asked = NodeReservation(**whole)
    promised = _promised(desk)
    await desk.ask(
        c.ChangeReservation(
            by=by,
            name=known.name,
            reservation=asked,
            fields=tuple(fields),
            regardless=wish.ignore_running,
        )
    )
    return _answer(desk, known.name, promised)


async def cancel_reservation(desk: Desk, by: User, wish: w.ReservationWish) -> Object:
    """Take a reservation back; say which jobs wait for it in vain."""
    known = reservation_named(desk.cluster.bookings.named, wish.name)
    waiting = _jobs(desk.cluster, known, running=False)
    await desk.ask(c.CancelReservation(by=by, name=wish.name))
    return {"canceled": known.name, "waiting": waiting}


def _fields(wish: w.SetReservationWish, begins: Instant) -> Object:
    """Return the fields that are named, as a reservation has them."""
    fields: Object = {
        name: tuple(value)
        for name in ("node_groups", "features", "users", "projects", "groups")
        if (value := getattr(wish, name)) is not None
    }
    if wish.groups is not None:
        fields["members"] = tuple(sorted({user for group in wish.groups for user in members_of(group)}))
    if wish.nodes is not None:
        fields["nodes"] = parse_nodes(wish.nodes)
    if wish.begins is not None:
        fields["begins"] = begins
    if wish.lasts is not None:
        fields["ends"] = Instant(begins + wish.lasts)
    elif wish.ends is not None:
        fields["ends"] = Instant(wish.ends)
    plain = {name: getattr(wish, name) for name in ("count", "at_end", "automatic", "reason")}
    return fields | {name: value for name, value in plain.items() if value is not None}


def _promised(desk: Desk) -> dict[JobId, Instant]:
    """Return when waiting jobs are promised to start."""
    plan = desk.engine.last_plan
    return {} if plan is None else {each.job: each.at for each in plan.reservations}


def _answer(desk: Desk, name: str, before: dict[JobId, Instant]) -> Object:
    """Return a reservation, and the jobs that were promised an earlier start before it was made so."""
    found, now = desk.cluster.bookings.named[name.lower()], _promised(desk)
    later = [
        {"job": job, "before": at, "now": now.get(job)}
        for job, at in sorted(before.items())
        if job in desk.cluster.jobs
        and desk.cluster.jobs[job].state.is_queued
        and now.get(job, Instant(float("inf"))) > at
    ]
    told = [each | {"now": None if each["now"] in (None, float("inf")) else each["now"]} for each in later]
    return {"reservation": _object(desk.cluster, found, desk.now()), "later": told}


def _object(cluster: Cluster, each: NodeReservation, now: Instant) -> Object:
    return {
        "name": each.name,
        "state": "Active" if each.begins <= now else "Planned",
        "begins": each.begins,
        "ends": each.ends,
        "nodes": list(each.nodes),
        "node_set": ",".join(runs_of(sorted(each.nodes, key=as_counted))),
        "count": each.count,
        "node_groups": list(each.node_groups),
        "features": list(each.features),
        "users": list(each.users),
        "groups": list(each.groups),
        "projects": list(each.projects),
        "maintenance": each.is_maintenance,
        "at_end": each.at_end,
        "automatic": each.automatic,
        "reason": each.reason,
        "by": each.by,
        "running": _jobs(cluster, each, running=True),
        "waiting": _jobs(cluster, each, running=False),
    }


def _jobs(cluster: Cluster, each: NodeReservation, *, running: bool) -> list[JobId]:
    """Return the jobs that name it and run, or wait to."""
    if running:
        return sorted(
            job for job in cluster.running if cluster.request(cluster.jobs[job]).reservation == each.key
        )
    named = (turns for request, turns in cluster.queue.items() if request.reservation == each.key)
    return sorted(JobId(turn[2]) for turns in named for turn in turns)
