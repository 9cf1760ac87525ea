"""Reservations of nodes: which nodes, whether they can be had, and what follows when one ends."""

from collections.abc import Iterator

from msgspec.structs import replace

from headnode.core.model.errors import WrongState
from headnode.core.model.node import NodeState, folded_names, natural_order
from headnode.core.model.quantities import NEVER, Instant, JobId, instant_text
from headnode.core.model.reservation import NodeReservation, check_reservation
from headnode.core.model.user import User
from headnode.core.state import events as e
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.command import Command
from headnode.core.state.events import (
    Event,
    ReservationCanceled,
    ReservationCreated,
    ReservationEnded,
    ReservationModified,
)
from headnode.core.state.job_events import JobEnding
from headnode.core.state.job_record import JobRecord
from headnode.core.state.node_record import NodeRecord
from headnode.core.state.permissions import must_administer
from headnode.core.state.reservation_index import reservation_named
from headnode.core.state.stop import cancel_queued, stop_live


class MakeReservation(Command, frozen=True):
    """Reserve nodes; `regardless`: even if jobs may still run there when the reservation begins."""

    by: User
    reservation: NodeReservation
    regardless: bool = False


class ChangeReservation(Command, frozen=True):
    """Change these fields of a reservation to those of `reservation`; the others stay."""

    by: User
    name: str
    reservation: NodeReservation
    fields: tuple[str, ...]
    regardless: bool = False


class CancelReservation(Command, frozen=True):
    """Cancel a reservation; the jobs in it continue."""

    by: User
    name: str


class AdvanceReservation(Command, frozen=True):
    """Engine: end the reservation if its time is over; replace the nodes that it lost."""

    name: str


MAX_NAMED = 5


def make_reservation(cluster: ClusterState, command: MakeReservation, now: Instant) -> list[Event]:
    """Reserve nodes.

    Raises:  NotAllowed; WrongState ``reservation-exists``; and as `_placed` does.
    """
    must_administer(command.by, "reserve nodes")
    if command.reservation.key in cluster.reservation_index.named:
        raise WrongState(
            code="reservation-exists",
            what=f"there is a reservation {command.reservation.name!r} already",
            fix="choose another name, or change it: hn reservation modify",
        )
    reservation = replace(command.reservation, by=command.by.name)
    placed = _placed(cluster, reservation, now, regardless=command.regardless)
    return [ReservationCreated(at=now, reservation=placed, by=command.by.name)]


def change_reservation(cluster: ClusterState, command: ChangeReservation, now: Instant) -> list[Event]:
    """Change a reservation; its nodes are chosen again only if the change affects them.

    Raises:  NotAllowed; NotFound ``no-such-reservation``; and as `_placed` does.
    """
    must_administer(command.by, "change reservations")
    known = reservation_named(cluster.reservation_index.named, command.name)
    reservation = replace(known, **{name: getattr(command.reservation, name) for name in command.fields})
    if reservation == known:
        return []
    if {"start", "end", "nodes", "count", "node_groups", "features"} & set(command.fields):
        reservation = replace(reservation, nodes=() if reservation.count else reservation.nodes)
        reservation = _placed(cluster, reservation, now, regardless=command.regardless)
    return [
        ReservationModified(
            at=now, reservation=reservation, by=command.by.name, changed=", ".join(command.fields)
        )
    ]


def cancel_reservation(cluster: ClusterState, command: CancelReservation, now: Instant) -> list[Event]:
    """Take a reservation back.

    Raises:  NotAllowed; NotFound ``no-such-reservation``.
    """
    must_administer(command.by, "cancel reservations")
    known = reservation_named(cluster.reservation_index.named, command.name)
    return [ReservationCanceled(at=now, name=known.name, by=command.by.name)]


def advance_reservation(cluster: ClusterState, command: AdvanceReservation, now: Instant) -> list[Event]:
    """End a reservation whose time is over, with the jobs inside if it says so; replace nodes that left."""
    known = cluster.reservation_index.named.get(command.name)
    if known is None:
        return []
    if known.end > now:
        return _renewed(cluster, known, now)
    ended: list[Event] = [ReservationEnded(at=now, name=known.name)]
    if known.at_end == "cancel":
        for record in _inside(cluster, known):
            ended += _canceled(cluster, record, known, now)
    return ended


def _inside(cluster: ClusterState, reservation: NodeReservation) -> Iterator[JobRecord]:
    for job in sorted(cluster.graphs):
        record = cluster.jobs[job]
        if record.state.is_active and cluster.request(record).reservation == reservation.key:
            yield record


def _canceled(
    cluster: ClusterState, record: JobRecord, reservation: NodeReservation, now: Instant
) -> list[Event]:
    message = f"reservation {reservation.name} has ended"
    return [
        JobEnding(at=now, job=record.id, outcome="canceled", message=message),
        *cancel_queued(record, now, message),
        *stop_live(record, cluster.graph(record.id), "failed", message, now),
    ]


def _renewed(cluster: ClusterState, reservation: NodeReservation, now: Instant) -> list[Event]:
    """Replace nodes that left, if the reservation takes any nodes and others are available."""
    stay = tuple(name for name in reservation.nodes if _is_there(cluster, name))
    if not reservation.count or len(stay) == reservation.count:
        return []
    missing = reservation.count - len(stay)
    others = [name for name in _choice(cluster, reservation, now) if name not in reservation.nodes]
    if not others:
        return []
    nodes = tuple(sorted((*stay, *others[:missing])))
    if len(others) < missing:  # those that left may come back
        gone = [name for name in reservation.nodes if name not in stay]
        nodes = tuple(sorted((*nodes, *gone[: missing - len(others)])))
    renewed = replace(reservation, nodes=nodes)
    return [ReservationModified(at=now, reservation=renewed, changed="nodes")]


def _is_there(cluster: ClusterState, name: str) -> bool:
    node = cluster.nodes.get(name)
    return node is not None and node.state is NodeState.READY


def _placed(
    cluster: ClusterState, reservation: NodeReservation, now: Instant, *, regardless: bool
) -> NodeReservation:
    """Return the reservation on its nodes.

    Raises:  NotFound ``no-such-node``; BadRequest as `check_reservation`; WrongState ``too-few-nodes``,
             ``reservation-overlaps`` or ``jobs-run-there``.
    """
    check_reservation(reservation, now)
    if reservation.count:
        free = _choice(cluster, reservation, now)
        if len(free) < reservation.count:
            raise WrongState(
                code="too-few-nodes",
                what=f"only {len(free)} nodes are ready, meet the requirements and are not reserved then",
                fix="choose fewer nodes or another time",
            )
        reservation = replace(reservation, nodes=tuple(sorted(free[: reservation.count])))
    else:
        reservation = replace(
            reservation, nodes=tuple(sorted({_real(cluster, name) for name in reservation.nodes}))
        )
        _refuse_overlaps(cluster, reservation)
    if not regardless:
        _refuse_running(cluster, reservation, now)
    return reservation


def _real(cluster: ClusterState, name: str) -> str:
    folded = {known.lower(): known for known in cluster.nodes}
    return cluster.node(folded.get(name.lower(), name)).facts.name


def _refuse_overlaps(cluster: ClusterState, reservation: NodeReservation) -> None:
    for name in reservation.nodes:
        for other in cluster.reservation_index.on.get(name, ()):
            if other.key != reservation.key and other.meets(reservation.start, reservation.end):
                raise WrongState(
                    code="reservation-overlaps",
                    what=f"node {name!r} is reserved {other.says()}",
                    fix="choose another time or other nodes, or change that reservation first",
                )


def _choice(cluster: ClusterState, reservation: NodeReservation, now: Instant) -> list[str]:
    """Return the nodes that would do, first those on which nothing runs by then, or is over soonest."""
    found: list[tuple[float, str]] = []
    for name, node in cluster.nodes.items():
        booked = any(
            other.key != reservation.key and other.meets(reservation.start, reservation.end)
            for other in cluster.reservation_index.on.get(name, ())
        )
        if node.state is NodeState.READY and not booked and _is_asked_for(node, reservation):
            late = max((end for _, end in _ends_after(cluster, reservation, name, now)), default=0.0)
            found.append((late, name))
    return [name for _, name in sorted(found)]


def _is_asked_for(node: NodeRecord, reservation: NodeReservation) -> bool:
    groups = {name.casefold() for name in node.facts.groups}
    features = {name.casefold() for name in node.facts.features}
    asked_groups = {name.casefold() for name in reservation.node_groups}
    asked_features = {name.casefold() for name in reservation.features}
    return asked_groups <= groups and asked_features <= features


def _ends_after(
    cluster: ClusterState, reservation: NodeReservation, node: str, now: Instant
) -> Iterator[tuple[JobId, Instant]]:
    """Yield the jobs on a node that may still run when it begins, and when they are surely over."""
    for job in sorted(cluster.on_node(node)):
        record = cluster.jobs[job]
        run = record.run
        end = NEVER if run is None or run.deadline is None else run.deadline
        inside = cluster.request(record).reservation == reservation.key
        if end > max(reservation.start, now) and not inside:
            yield job, end


def _refuse_running(cluster: ClusterState, reservation: NodeReservation, now: Instant) -> None:
    jobs: dict[JobId, Instant] = {}
    nodes: list[str] = []
    for name in reservation.nodes:
        there = dict(_ends_after(cluster, reservation, name, now))
        jobs |= there
        nodes += [name] if there else []
    if not jobs:
        return
    listed = [f"job {job} {_until(end)}" for job, end in sorted(jobs.items())[:MAX_NAMED]]
    if len(jobs) > MAX_NAMED:
        listed.append(f"{len(jobs) - MAX_NAMED} more")
    where = ", ".join(folded_names(sorted(nodes, key=natural_order)))
    raise WrongState(
        code="jobs-run-there",
        what=f"on {where} jobs may still run when reservation {reservation.name!r} begins: "
        + ", ".join(listed),
        fix="choose a later time or other nodes, cancel them, or reserve regardless: --ignore-running",
    )


def _until(end: Instant) -> str:
    if end == NEVER:
        return "(no run time limit)"
    return f"(until {instant_text(end)})"


def reservation_kept(cluster: ClusterState, event: e.ReservationCreated | e.ReservationModified) -> None:
    """Nodes are reserved, or otherwise than before."""
    cluster.keep_reservation(event.reservation)


def reservation_gone(cluster: ClusterState, event: e.ReservationCanceled | e.ReservationEnded) -> None:
    """A reservation is no more."""
    cluster.drop_reservation(event.name.lower())
