"""From what a client sends to jobs: files are read, parents and users found, unfit jobs refused."""

import asyncio
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from msgspec.structs import replace

from headnode.adapters.identity.users import Account, account
from headnode.adapters.notify.outbox import DeliverySettings
from headnode.apps.server.server_context import ServerContext, SiteFeatures
from headnode.core.formats.fidelity import Awareness, Fidelity, ReportItem, apply_awareness, parse_awareness
from headnode.core.model.bounds import JOB_FILE, JOBS, TASKS, TASKS_OF_FILE, Bound
from headnode.core.model.dependency import DependencyLink
from headnode.core.model.errors import BadRequest, NotFound, Refused
from headnode.core.model.job import JobRequest, JobSpec
from headnode.core.model.job_checks import check_job
from headnode.core.model.node_needs import ANY_NODE
from headnode.core.model.quantities import Instant
from headnode.core.model.task import ScriptOrigin, TaskSpec
from headnode.core.model.template import DEFAULT_TEMPLATE
from headnode.core.model.user import User
from headnode.core.scheduling.plan import Reason
from headnode.core.scheduling.reasons import never_with_any
from headnode.core.state import groups as c
from headnode.core.state.groups import about
from headnode.core.state.job_events import JobCreated
from headnode.core.state.job_record import encode_spec
from headnode.core.state.job_request import request_in, request_of
from headnode.core.state.notices import addresses, is_hook, is_mail
from headnode.core.state.permissions import is_other, plain_name
from headnode.core.state.submit import checked
from headnode.core.state.templates import submission_filters, submitted_spec
from headnode.protocol.requests import CreateJobRequest


def unsupported_features(spec: JobSpec, site: SiteFeatures) -> tuple[ReportItem, ...]:
    """Return an item for each request of the job that will have no effect."""
    items: list[ReportItem] = []
    if spec.notify_on_start or spec.notify_on_completion:
        items += [_unsupported("notification", what) for what in unsent_notices(spec, site.ways)]
    if spec.template and not site.templates and spec.template.lower() != DEFAULT_TEMPLATE.lower():
        why = "has no effect: the cluster has no job templates (hn template import)"
        items.append(_unsupported("job template", f"{spec.template!r} {why}"))
    if site.licences is not None and (spec.licences or spec.alternatives):
        items += [_unsupported("licence", what) for what in _uncounted_licences(spec, site.licences)]
    if spec.dialect == "terms":  # readers of files tell it with its place
        from headnode.core.formats.text.windows import items as meant_for_windows

        items += meant_for_windows(spec)
    return tuple(items)


def _uncounted_licences(spec: JobSpec, counted: frozenset[str]) -> Iterator[str]:
    """Yield a warning for each licence that this cluster does not count."""
    there = ", ".join(sorted(counted)) or "none"
    licences = [*spec.licences, *(request for other in spec.alternatives for request in other.licences or ())]
    for feature in sorted({request.feature for request in licences} - counted):
        yield (
            f"the job does not wait for licence {feature!r}: the cluster counts {there} "
            "(hn cluster params Licences)"
        )


def unsent_notices(spec: JobSpec, settings: DeliverySettings) -> Iterator[str]:
    """Yield why no notification will be sent, for each such address of a job."""
    own = addresses(spec.email)
    if not own and not settings.domain:
        yield "the job names no address for notifications: add one with /emailaddress, or use `hn job wait`"
    for address in own:
        if is_hook(address, settings.hooks):
            continue
        if not is_mail(address):
            allowed = f", or a webhook below {', '.join(settings.hooks)}" if settings.hooks else ""
            yield f"notifications cannot be sent to {address!r}: name an e-mail address{allowed}"
    if not settings.server and (any(map(is_mail, own)) or (not own and settings.domain)):
        yield "the cluster sends no e-mail until an administrator sets EmailSmtpServer; use `hn job wait`"


_unsupported = partial(ReportItem, Fidelity.NOT_SUPPORTED)


def refuse_unfit(context: ServerContext, by: User, *specs: JobSpec, owner: str = "") -> None:
    """Refuse jobs that are wrong in themselves, or could never run because no nodes would ever serve them.

    Jobs are looked at as they would be in the queue: with the defaults of their templates, as their owners.
    owner:  of all these jobs; empty: `by`, or the user that an administrator has named
    Raises:  BadRequest; of several jobs it says which; what `shaped` does.
    """
    requests = []
    for number, spec in enumerate(specs):
        try:
            data = checked(spec)
            _refuse_grid_features(spec)
            queued = submitted_spec(context.cluster, by, spec)
            data = data if queued is spec else encode_spec(queued)
            requests.append(_request(context, owner or _owner(by, spec), queued.project, request_in(data)))
        except Refused as no:
            raise about(no, spec, number, len(specs)) from None
    in_the_way = _never_fits(context, requests)
    for number, (spec, request) in enumerate(zip(specs, requests, strict=True)):
        try:
            _refuse_too_large(request, in_the_way.get(request, ()))
        except Refused as no:
            raise about(no, spec, number, len(specs)) from None


def refuse_unfit_now(context: ServerContext, by: User, *specs: JobSpec, owner: str = "") -> None:
    """Refuse as `refuse_unfit`, but for jobs that filters may still change: they are looked at afterwards."""
    now = (spec for spec in specs if not submission_filters(context.cluster, spec))
    refuse_unfit(context, by, *now, owner=owner)


def refuse_unfit_change(
    context: ServerContext, owner: str, spec: JobSpec, former: JobSpec | None = None
) -> None:
    """Refuse what would make a job unfit that was submitted before, and has what its template gave it.

    former:   the job as it is: what is in its way already, such as a limit that was lowered, is accepted
    Raises:  BadRequest.
    """
    check_job(spec)
    _refuse_grid_features(spec)
    specs = (spec,) if former is None else (spec, former)
    requests = [_request(context, owner, each.project, request_of(each)) for each in specs]
    in_the_way = _never_fits(context, requests)
    reasons = in_the_way.get(requests[0], ())
    if former is None or reasons != in_the_way.get(requests[1], ()):
        _refuse_too_large(requests[0], reasons)


def _owner(by: User, spec: JobSpec) -> str:
    return plain_name(spec.run_as) if is_other(by, spec) else by.name


def _refuse_grid_features(spec: JobSpec) -> None:
    if spec.extensions or any(task.extensions for task in spec.tasks):  # which a job in a few words has not
        from headnode.core.formats.grid import refuse_other_batch

        refuse_other_batch(spec)


def _never_fits(
    context: ServerContext, requests: Sequence[JobRequest]
) -> dict[JobRequest, tuple[Reason, ...]]:
    """Return what is in the way of each request; equal ones are looked at once."""
    view = context.engine.nodes_alone(context.now())
    if not view.nodes:
        return {}
    if context.engine.settings.text("LicenceProgram"):  # what it tells is how many there are for now
        view = replace(view, licences={})
    return {request: never_with_any(request, view) for request in set(requests) if not request.resource}


def _request(context: ServerContext, owner: str, project: str, described: JobRequest) -> JobRequest:
    """Return the request of an owner's job; whether its reservation lets it in is decided elsewhere."""
    request = context.cluster.limit_index.admit(owner, project, context.cluster.for_user(owner, described))
    if not request.reservation:
        return request
    own = request.reservation if request.reservation in context.cluster.reservation_index.named else ""
    others = tuple(
        replace(other, reservation=own, open_reservations=(own,)) for other in request.alternatives
    )
    return replace(request, reservation=own, open_reservations=(own,), alternatives=others)


def _refuse_too_large(request: JobRequest, reasons: tuple[Reason, ...]) -> None:
    if reasons:
        raise BadRequest(
            code="never-fits",
            what="the job can never run on this cluster: " + "; ".join(r.text for r in reasons),
            fix=f"request what the cluster has; see: {', '.join(_where_to_look(request))}",
        )


def _where_to_look(request: JobRequest) -> Iterator[str]:
    """Yield the commands that show what the cluster has of the things that were requested."""
    yield "hn node list"
    if request.needs != ANY_NODE or request.node_groups or request.minimum_memory or request.memory:
        yield "hn node view NAME (memory, features, groups)"
    if request.licences:
        yield "hn cluster view (licences)"
    if request.limits:
        yield "hn cluster limits (limits)"


def users_named(by: User, specs: Iterable[JobSpec]) -> dict[str, User]:
    """Return the named users that exist.  Only administrators may name other users."""
    if not by.administrator:
        return {}
    users: dict[str, User] = {}
    for name in {plain_name(spec.run_as) for spec in specs if is_other(by, spec)}:
        try:
            known = account(name)
        except NotFound:
            continue  # it is refused where the job is known
        users[name] = User(name=known.name, uid=known.uid, gid=known.gid)
    return users


async def note_named(context: ServerContext, by: User, specs: Iterable[JobSpec]) -> None:
    """Note the groups of the users that an administrator names, where limits ask for them."""
    named = users_named(by, specs) if context.cluster.limit_index.group_names else {}
    if named:
        from headnode.apps.server.user_groups import note_groups

        accounts = [Account(user.name, user.uid, user.gid) for user in named.values()]
        await note_groups(context, map(context.roles.of, accounts))


class DescribedJobs(NamedTuple):
    """What a client describes: its jobs, and which of them wait for which."""

    specs: Sequence[JobSpec]
    links: Sequence[DependencyLink]
    report: tuple[ReportItem, ...]
    awareness: Awareness | None = None  # the policy that the file names for what has no effect here
    file: str = ""  # the job file; "" if there is none


def create_command(
    context: ServerContext, by: User, described: DescribedJobs, *, submit: bool
) -> c.CreateJobs:
    """Return the request to make all jobs in one step."""
    ended = context.lookups.ended_parents(*described.specs)
    return c.CreateJobs(
        by=by,
        specs=tuple(described.specs),
        links=tuple(described.links),
        submit=submit,
        parents=ended,
        users=users_named(by, described.specs),
        sources={0: source_of(by, described)},
    )


def source_of(by: User, described: DescribedJobs) -> bytes:
    """Return the job file, compressed, that is kept with the jobs; empty if none is."""
    file = described.file
    if not file or len(file) > JOB_FILE.most or script_of(described.specs[0]):
        return b""
    owners = {plain_name(spec.run_as) if is_other(by, spec) else "" for spec in described.specs}
    of_one = len(owners) == 1  # each of several would see the variables of the jobs of the others
    return zlib.compress(file.encode()) if of_one else b""


def script_of(spec: JobSpec) -> str:
    """Return the batch script that a job was read from; "" if it was not."""
    return spec.tasks[0].script if len(spec.tasks) == 1 else ""


async def create_all(
    context: ServerContext, by: User, described: DescribedJobs, *, submit: bool
) -> list[int]:
    """Make all jobs in one step; return their ids in the order in which they are described.

    Raises:  what refuses one of them; then none is made.
    """
    await note_named(context, by, described.specs)
    made = await context.batcher.answer(create_command(context, by, described, submit=submit))
    return [event.job for event in made if isinstance(event, JobCreated)]


LARGE_JOB_FILE = 16_384  # characters of job files that are read beside the event loop


async def read_jobs(
    context: ServerContext,
    by: User,
    request: CreateJobRequest,
    site: SiteFeatures | None = None,
    *,
    to_submit: bool = False,
) -> DescribedJobs:
    """Return the descriptions that a client means: a job file, changed and added to by options.

    A job that is for a cluster of another name is refused.  `site` is that of the context, if it is known.
    to_submit: the request must describe a job file or a task, or a job that runs until it is canceled.
    Raises:  BadRequest, with line and column for a job file.
    """
    now, site = context.now(), site or context.site
    refuse_too_many(len(request.tasks))
    if request.jobfile is None:
        described = DescribedJobs([with_terms(request.terms, request.tasks, None, now=now)], (), ())
        if to_submit and not (request.tasks or described.specs[0].run_until_canceled):
            raise _nothing_to_submit()
    elif _takes_long(request.jobfile, request.files):
        async with context.reading:  # reading takes many times the memory of the text
            described = await asyncio.to_thread(_read_file, request.jobfile, request, site, by.name)
    else:
        described = _read_file(request.jobfile, request, site, by.name)
    bound = TASKS if request.jobfile is None else TASKS_OF_FILE
    refuse_too_many(sum(len(spec.tasks) for spec in described.specs), len(described.specs), bound)
    if request.jobfile is not None and (request.terms or request.tasks):
        specs = [with_terms(request.terms, request.tasks, spec, now=now) for spec in described.specs]
        described = described._replace(specs=specs)
    policy = described.awareness or parse_awareness(request.awareness)
    kept = [item for spec in described.specs for item in unsupported_features(spec, site)]
    return described._replace(report=described.report + apply_awareness(policy, dict.fromkeys(kept)))


def _takes_long(file: str, files: Mapping[str, str]) -> bool:
    """Return whether a file is large, or its macros may make much of it."""
    from headnode.core.formats.condor.recognition import is_submit_file

    return len(file) + sum(map(len, files.values())) > LARGE_JOB_FILE or is_submit_file(file)


def _nothing_to_submit() -> BadRequest:
    return BadRequest(
        code="nothing-to-submit",
        what="the request describes no task: a job without one would end at once",
        fix="send tasks or a job file, or the id of a created job; to add the tasks later, create the job "
        "without submitting it",
        path=("tasks",),
    )


def with_terms(
    terms: Mapping[str, Any],
    tasks: Iterable[Mapping[str, Any]] = (),
    base: JobSpec | None = None,
    *,
    now: Instant,
) -> JobSpec:
    """Return `base` with options and tasks as `hn` sends them; what reads them is imported with the first.

    Raises:  BadRequest.
    """
    from headnode.core.formats.slash_terms import read_terms

    return read_terms(terms, tasks, base, now=now)


def refuse_too_many(tasks: int, jobs: int = 1, bound: Bound = TASKS) -> None:
    """Refuse more tasks, or jobs, than one request may have.

    Raises:  BadRequest ``too-many-tasks`` or ``too-many-jobs``.
    """
    if tasks > bound.most:
        raise BadRequest(
            code="too-many-tasks",
            what=f"the request has {tasks:,} tasks; the limit is {bound} in a request",
            fix="write repetitions as a sweep, or make the job with some tasks, add the others in further "
            "requests, and submit it then: hn job new, hn job add, hn job submit /id:ID",
        )
    if jobs > JOBS.most:
        raise BadRequest(
            code="too-many-jobs",
            what=f"the request has {jobs:,} jobs, and {JOBS} are possible at once",
            fix="divide it into several files",
        )


async def read_tasks(text: str) -> tuple[TaskSpec, ...]:
    """Return the tasks of a file with one job, or with a Task element alone.

    Raises:  BadRequest as `read_jobs` does, and when the file describes several jobs.
    """
    from headnode.core.formats import dialects

    read = dialects.read
    reading = await asyncio.to_thread(read, text) if len(text) > LARGE_JOB_FILE else read(text)
    return reading.only_job().tasks


def _read_file(text: str, request: CreateJobRequest, site: SiteFeatures, user: str) -> DescribedJobs:
    from headnode.adapters.garbage import without_collection  # a head that reads no job files does without
    from headnode.core.formats import dialects

    how = dialects.ReadOptions(
        awareness=parse_awareness(request.awareness),
        strict=request.strict,
        lenient=request.lenient,
        language=dialects.dialect_named(request.dialect).language if request.dialect else None,
        files={name: content.encode() for name, content in request.files.items()},
        values=request.values,
        machine=site.name,
        resources=site.resources,
        user=user,
        origin=ScriptOrigin(
            words=tuple(request.script),
            directory=request.directory,
            environment=request.environment,
            options=tuple(request.options),
            system=(request.dialect or "").strip().lower(),
        ),
    )
    reading = without_collection(dialects.read, text, how)
    if not reading.jobs:
        raise BadRequest(code="no-jobs", what="the job file has only references to jobs", fix="write a Job")
    return DescribedJobs(reading.jobs, reading.links, reading.report, reading.awareness, text)
