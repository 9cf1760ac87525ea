"""Refusing what could never run, before it is submitted."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from headnode.apps.server.desk import Desk
from headnode.core.lifecycle.deciding_groups import about
from headnode.core.lifecycle.filters import submission_filters
from headnode.core.lifecycle.requests import request_of
from headnode.core.model.checks import check
from headnode.core.model.errors import BadRequest, Refused
from headnode.core.model.job import JobRequest, JobSpec
from headnode.core.scheduling.decision import Reason
from headnode.core.scheduling.otherwise import never_with_any


def refuse_unfit(desk: Desk, *specs: JobSpec) -> None:
    """Refuse jobs that are wrong in themselves, or could never run because the cluster is too small.

    Raises:  BadRequest; of several jobs it says which.
    """
    for number, spec in enumerate(specs):
        with _told_of(spec, number, len(specs)):
            check(spec)
            _refuse_transfers(spec)
    in_the_way = _never_fits(desk, specs)
    for number, spec in enumerate(specs):
        with _told_of(spec, number, len(specs)):
            _refuse_too_large(in_the_way.get(_request(desk, spec), ()))


def refuse_unfit_now(desk: Desk, *specs: JobSpec) -> None:
    """Refuse as `refuse_unfit`, but for jobs that filters may still change: they are looked at afterwards."""
    refuse_unfit(desk, *(spec for spec in specs if not submission_filters(desk.cluster, spec)))


@contextmanager
def _told_of(spec: JobSpec, number: int, of: int) -> Iterator[None]:
    try:
        yield
    except Refused as no:
        raise about(no, spec, number, of) from None


def _refuse_transfers(spec: JobSpec) -> None:
    if any(task.extensions for task in spec.tasks):  # transfers are among them: a job in a few words has none
        from headnode.core.formats.grid import refuse_transfers

        refuse_transfers(spec)


def _never_fits(desk: Desk, specs: Sequence[JobSpec]) -> dict[JobRequest, tuple[Reason, ...]]:
    """Return what is in the way of each request; equal ones are looked at once."""
    view = desk.engine.view(desk.now())
    if not view.nodes:
        return {}
    if desk.engine.settings.text("LicenceProgram"):  # what it tells is how many there are for now
        view = replace(view, licences={})
    requests = dict.fromkeys(_request(desk, spec) for spec in specs)
    return {request: never_with_any(request, view) for request in requests}


def _request(desk: Desk, spec: JobSpec) -> JobRequest:
    """Return a job's request; whether its reservation is there, and lets it in, is decided elsewhere."""
    request = request_of(spec)
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
            fix="ask for what is there: see `hn node list`, for features and groups `hn node view NAME`, "
            "for licences `hn cluster view`",
        )
