"""What a job cannot have on this cluster: it is refused before submission, or reported as without effect."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from headnode.adapters.notify.outbox import DeliverySettings
from headnode.apps.server.server_context import ServerContext, SiteFeatures
from headnode.core.formats.fidelity import Fidelity, ReportItem
from headnode.core.model.errors import BadRequest, Refused
from headnode.core.model.job import JobRequest, JobSpec
from headnode.core.model.job_checks import check_job
from headnode.core.model.template import DEFAULT_TEMPLATE
from headnode.core.model.user import User
from headnode.core.scheduling.explain.reasons import never_with_any
from headnode.core.scheduling.plan import Reason
from headnode.core.state.groups import about
from headnode.core.state.job_request import request_of
from headnode.core.state.notices import addresses, is_hook, is_mail
from headnode.core.state.permissions import is_other, plain_name
from headnode.core.state.templates import submission_filters, submitted_spec


def unsupported_features(spec: JobSpec, site: SiteFeatures) -> tuple[ReportItem, ...]:
    """Return an item for each request of the job that will have no effect."""
    found: list[ReportItem] = []
    if spec.notify_on_start or spec.notify_on_completion:
        found += [_unsupported("notification", what) for what in unsent_notices(spec, site.ways)]
    if spec.template and not site.templates and spec.template.lower() != DEFAULT_TEMPLATE.lower():
        what = f"{spec.template!r} has no effect: this cluster has no templates (hn template import)"
        found.append(_unsupported("job template", what))
    if site.licences is not None:
        found += [_unsupported("licence", what) for what in _uncounted_licences(spec, site.licences)]
    if spec.dialect == "terms":  # readers of files tell it with its place
        from headnode.core.formats.text import windows

        found += windows.items(spec)
    return tuple(found)


def _uncounted_licences(spec: JobSpec, counted: frozenset[str]) -> Iterator[str]:
    """Yield what is to be said of each licence that this cluster does not count."""
    there = ", ".join(sorted(counted)) or "none"
    wishes = [*spec.licences, *(request for other in spec.alternatives for request in other.licences or ())]
    for feature in sorted({request.feature for request in wishes} - counted):
        yield (
            f"the job waits for no licence {feature!r}, which this cluster does not count; it counts {there} "
            "(hn cluster params Licences)"
        )


def unsent_notices(spec: JobSpec, ways: DeliverySettings) -> Iterator[str]:
    """Yield why nobody will be told, for each address of a job that asks for notices."""
    own = addresses(spec.email)
    if not own and not ways.domain:
        yield "it names no address for its notices: add one with /emailaddress, or use `hn job wait`"
    for address in own:
        if is_hook(address, ways.hooks):
            continue
        if not is_mail(address):
            allowed = f" or hooks at {', '.join(ways.hooks)}" if ways.hooks else ""
            yield f"notices cannot go to {address!r}: name an address of mail{allowed}"
    if not ways.server and (any(map(is_mail, own)) or (not own and ways.domain)):
        yield "this cluster sends no mail until an administrator sets EmailSmtpServer; use `hn job wait`"


def _unsupported(where: str, what: str) -> ReportItem:
    return ReportItem(Fidelity.NOT_SUPPORTED, where, what)


def refuse_unfit(context: ServerContext, by: User, *specs: JobSpec, owner: str = "") -> None:
    """Refuse jobs that are wrong in themselves, or could never run because no nodes would ever serve them.

    Jobs are looked at as they would be in the queue: with the defaults of their templates, as their owners.
    owner:  of all these jobs; empty: `by`, or whom an administrator has named
    Raises:  BadRequest; of several jobs it says which; what `shaped` does.
    """
    requests = []
    for number, spec in enumerate(specs):
        with _naming_job(spec, number, len(specs)):
            check_job(spec)
            _refuse_grid_features(spec)
            queued = submitted_spec(context.cluster, by, spec)
            requests.append(_request(context, owner or _owner(by, spec), queued))
    in_the_way = _never_fits(context, requests)
    for number, (spec, request) in enumerate(zip(specs, requests, strict=True)):
        with _naming_job(spec, number, len(specs)):
            _refuse_too_large(in_the_way.get(request, ()))


def refuse_unfit_now(context: ServerContext, by: User, *specs: JobSpec, owner: str = "") -> None:
    """Refuse as `refuse_unfit`, but for jobs that filters may still change: they are looked at afterwards."""
    now = (spec for spec in specs if not submission_filters(context.cluster, spec))
    refuse_unfit(context, by, *now, owner=owner)


def refuse_unfit_change(context: ServerContext, owner: str, spec: JobSpec) -> None:
    """Refuse what would make a job unfit that was submitted before, and has what its template gave it.

    Raises:  BadRequest.
    """
    check_job(spec)
    _refuse_grid_features(spec)
    request = _request(context, owner, spec)
    _refuse_too_large(_never_fits(context, [request]).get(request, ()))


def _owner(by: User, spec: JobSpec) -> str:
    return plain_name(spec.run_as) if is_other(by, spec) else by.name


@contextmanager
def _naming_job(spec: JobSpec, number: int, of: int) -> Iterator[None]:
    try:
        yield
    except Refused as no:
        raise about(no, spec, number, of) from None


def _refuse_grid_features(spec: JobSpec) -> None:
    if spec.extensions or any(task.extensions for task in spec.tasks):  # which a job in a few words has not
        from headnode.core.formats.grid import refuse_other_batch, refuse_transfers

        refuse_transfers(spec)
        refuse_other_batch(spec)


def _never_fits(
    context: ServerContext, requests: Sequence[JobRequest]
) -> dict[JobRequest, tuple[Reason, ...]]:
    """Return what is in the way of each request; equal ones are looked at once."""
    view = context.engine.view(context.now())
    if not view.nodes:
        return {}
    if context.engine.settings.text("LicenceProgram"):  # what it tells is how many there are for now
        view = replace(view, licences={})
    return {request: never_with_any(request, view) for request in dict.fromkeys(requests)}


def _request(context: ServerContext, owner: str, spec: JobSpec) -> JobRequest:
    """Return the request of an owner's job; whether its reservation lets it in is decided elsewhere."""
    request = context.cluster.for_user(owner, request_of(spec))
    if not request.reservation:
        return request
    own = request.reservation if request.reservation in context.cluster.reservation_index.named else ""
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
