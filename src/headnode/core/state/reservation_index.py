"""Reservations of nodes by name and time: which jobs they admit, and what may not run where and when."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from headnode.core.model.errors import BadRequest, NotAllowed, NotFound, Path, WrongState
from headnode.core.model.job import JobRequest, JobSpec
from headnode.core.model.quantities import Instant, format_time_limit
from headnode.core.model.reservation import NodeReservation
from headnode.core.model.user import User
from headnode.core.state.job_record import JobRecord, decode_spec
from headnode.core.state.job_request import shortest
from headnode.core.state.transitions import JobState

Reservations = Mapping[str, NodeReservation]
"""By key."""


class ReservationIndex:
    """The reservations of nodes by key, and those of each node in the order of their begin."""

    def __init__(self) -> None:
        self.named: dict[str, NodeReservation] = {}
        self.on: dict[str, tuple[NodeReservation, ...]] = {}

    def keep(self, reservation: NodeReservation) -> set[str]:
        """Add the reservation, or replace the one with its name; return the nodes concerned."""
        before = self.drop(reservation.key)
        self.named[reservation.key] = reservation
        self.on = by_node(self.named.values())
        return before | set(reservation.nodes)

    def drop(self, key: str) -> set[str]:
        """Remove the reservation if it exists; return the nodes concerned."""
        gone = self.named.pop(key, None)
        if gone is None:
            return set()
        self.on = by_node(self.named.values())
        return set(gone.nodes)

    def keys_on(self, node: str) -> set[str]:
        """Return the reservations of a node."""
        return {each.key for each in self.on.get(node, ())}


def admitted(reservations: Reservations, record: JobRecord, request: JobRequest) -> JobRequest:
    """Return the request of a job with the reservations that let it in: those it names or need not name."""
    own = request.reservation
    if own and own not in reservations and record.state is JobState.RESUMING:
        request = replace(request, reservation="")  # where it stands still there is no reservation any more
    requested = [each for key, each in reservations.items() if each.automatic or key == own]
    if not requested:
        return request
    project = decode_spec(record.spec).project if any(each.projects for each in requested) else ""
    return admitted_owner(requested, record.owner, project, request)


def admitted_owner(
    reservations: Iterable[NodeReservation], owner: str, project: str, request: JobRequest
) -> JobRequest:
    """Return a request with the reservations that let in jobs of an owner and project: as `admitted`."""
    requested = (each for each in reservations if each.automatic or each.key == request.reservation)
    open_reservations = tuple(sorted(each.key for each in requested if each.lets_in(owner, project)))
    if not open_reservations:
        return request
    others = tuple(replace(other, open_reservations=open_reservations) for other in request.alternatives)
    return replace(request, open_reservations=open_reservations, alternatives=others)


def by_node(reservations: Iterable[NodeReservation]) -> dict[str, tuple[NodeReservation, ...]]:
    """Return the reservations of each node, in the order in which they begin."""
    found: dict[str, tuple[NodeReservation, ...]] = {}
    for each in sorted(reservations, key=lambda one: (one.start, one.key)):
        for node in each.nodes:
            found[node] = (*found.get(node, ()), each)
    return found


def must_take(
    there: Iterable[NodeReservation], request: JobRequest, node: str, now: Instant, end: Instant
) -> None:
    """Refuse a job that is to run on a node from now until `end`, if its reservations do not let it.

    Raises:  WrongState ``stale-plan``.
    """
    inside = False
    for each in there:
        inside = inside or (each.key == request.reservation and each.start <= now < each.end)
        if each.key not in request.open_reservations and each.meets(now, max(end, now + 1e-6)):
            raise WrongState(code="stale-plan", what=f"node {node!r} is reserved {each.says()}")
    if request.reservation and not inside:
        raise WrongState(
            code="stale-plan", what=f"node {node!r} is not in reservation {request.reservation!r}"
        )


def reservation_named(reservations: Reservations, name: str, path: Path = ("name",)) -> NodeReservation:
    """Return a reservation; `path` is where the request names it.

    Raises:  NotFound ``no-such-reservation``.
    """
    found = reservations.get(name.lower())
    if found is None:
        raise NotFound(
            code="no-such-reservation",
            what=f"there is no reservation {name!r}",
            fix="see `hn reservation list`",
            path=path,
        )
    return found


def check_may_go_in(reservations: Reservations, spec: JobSpec, by: User, now: Instant) -> None:
    """Refuse a job that names a reservation in which it can never run.

    Raises:  NotFound ``no-such-reservation``; NotAllowed ``reservation-closed``; BadRequest
             ``reservation-too-short``.
    """
    if not spec.reservation:
        return
    found = reservation_named(reservations, spec.reservation, ("reservation",))
    if not found.lets_in(by.name, spec.project):
        whom = "maintenance only" if found.is_maintenance else found.says()[4:]
        raise NotAllowed(
            code="reservation-closed",
            what=f"reservation {found.name!r} does not accept jobs of {by.name!r}; it is for {whom}",
            fix="leave the reservation out, or ask an administrator",
            path=("reservation",),
        )
    left = found.end - max(found.start, now)
    if found.at_end == "limit" and (not shortest(spec) or shortest(spec) > left):
        limit = format_time_limit(spec.run_time)
        raise BadRequest(
            code="reservation-too-short",
            what=f"the run time limit {limit} is longer than reservation {found.name!r} lasts",
            fix=f"give it a run time limit of at most {int(left // 60)} minutes",
            path=("run_time",),
        )


def check_stays_clear(
    there: Mapping[str, tuple[NodeReservation, ...]], record: JobRecord, request: JobRequest, end: Instant
) -> None:
    """Refuse a running job a later end by which one of its nodes is reserved for others.

    Raises:  WrongState ``reserved-by-then``.
    """
    run = record.run
    if run is None:
        return
    before = run.deadline
    for node in run.allocation:
        for each in there.get(node, ()):
            known = before is None or each.start < before  # it runs into it already
            if not known and each.key not in request.open_reservations and each.start < end:
                raise WrongState(
                    code="reserved-by-then",
                    what=f"job {record.id} cannot run so long: node {node!r} is reserved {each.says()}",
                    fix="choose a run time limit that ends before then",
                )
