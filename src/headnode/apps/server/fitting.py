"""Refusing what could never run, before it is submitted."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from headnode.apps.server.desk import Desk
from headnode.core.lifecycle.deciding_groups import about
from headnode.core.lifecycle.deciding_templates import submitted_spec
from headnode.core.lifecycle.filters import submission_filters
from headnode.core.lifecycle.owners import is_other, plain_name
from headnode.core.lifecycle.requests import request_of
from headnode.core.model.checks import check
from headnode.core.model.errors import BadRequest, Refused
from headnode.core.model.job import JobRequest, JobSpec
from headnode.core.model.user import User
from headnode.core.scheduling.decision import Reason
from headnode.core.scheduling.otherwise import never_with_any


def refuse_unfit(desk: Desk, by: User, *specs: JobSpec, owner: str = "") -> None:
    """Refuse jobs that are wrong in themselves, or could never run because no nodes would ever serve them.

    Jobs are looked at as they would be in the queue: with the defaults of their templates, as their owners.
    owner:  of all these jobs; empty: `by`, or whom an administrator has named
    Raises:  BadRequest; of several jobs it says which; what `shaped` does.
    """
    requests = []
    for number, spec in enumerate(specs):
        with _told_of(spec, number, len(specs)):
            check(spec)
            _refuse_elsewhere(spec)
            queued = submitted_spec(desk.cluster, by, spec)
            requests.append(_request(desk, owner or _owner(by, spec), queued))
    in_the_way = _never_fits(desk, requests)
    for number, (spec, request) in enumerate(zip(specs, requests, strict=True)):
        with _told_of(spec, number, len(specs)):
            _refuse_too_large(in_the_way.get(request, ()))


def refuse_unfit_now(desk: Desk, by: User, *specs: JobSpec, owner: str = "") -> None:
    """Refuse as `refuse_unfit`, but for jobs that filters may still change: they are looked at afterwards."""
    now = (spec for spec in specs if not submission_filters(desk.cluster, spec))
    refuse_unfit(desk, by, *now, owner=owner)


def refuse_unfit_change(desk: Desk, owner: str, spec: JobSpec) -> None:
    """Refuse what would make a job unfit that was submitted before, and has what its template gave it.

    Raises:  BadRequest.
    """
    check(spec)
    _refuse_elsewhere(spec)
    request = _request(desk, owner, spec)
    _refuse_too_large(_never_fits(desk, [request]).get(request, ()))


def _owner(by: User, spec: JobSpec) -> str:
    return plain_name(spec.run_as) if is_other(by, spec) else by.name


@contextmanager
def _told_of(spec: JobSpec, number: int, of: int) -> Iterator[None]:
    try:
        yield
    except Refused as no:
        raise about(no, spec, number, of) from None


def _refuse_elsewhere(spec: JobSpec) -> None:
    if spec.extensions or any(task.extensions for task in spec.tasks):  # which a job in a few words has not
        from headnode.core.formats.grid import refuse_other_batch, refuse_transfers

        refuse_transfers(spec)
        refuse_other_batch(spec)


def _never_fits(desk: Desk, requests: Sequence[JobRequest]) -> dict[JobRequest, tuple[Reason, ...]]:
    """Return what is in the way of each request; equal ones are looked at once."""
    view = desk.engine.view(desk.now())
    if not view.nodes:
        return {}
    if desk.engine.settings.text("LicenceProgram"):  # what it tells is how many there are for now
        view = replace(view, licences={})
    return {request: never_with_any(request, view) for request in dict.fromkeys(requests)}


def _request(desk: Desk, owner: str, spec: JobSpec) -> JobRequest:
    """Return the request of an owner's job; whether its reservation lets it in is decided elsewhere."""
    request = desk.cluster.for_user(owner, request_of(spec))
    if not request.reservation:
        return request
    own = request.reservation if request.reservation in desk.cluster.bookings.named else ""
    others = tuple(replace(other, reservation=own, welcome=(own,)) for other in request.others)
    return replace(request, reservation=own, welcome=(own,), others=others)


def _refuse_too_large(reasons: tuple[Reason, ...]) -> None:
    if reasons:
        raise BadRequest(
            code="never-fits",
            what="the job can never run on this cluster: " + "; ".join(r.text for r in reasons),
            fix="request what the cluster has: `hn node list`; for features and groups `hn node view NAME`; "
            "for licences `hn cluster view`",
        )
