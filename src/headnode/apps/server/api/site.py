"""The verbs about the site over which this head runs: its queue, its history and its nodes."""

from itertools import islice
from math import isfinite

from headnode.apps.server.api.verbs import READS, verb
from headnode.apps.server.server_context import ServerContext
from headnode.core.batch.dialect import MARKER, ForeignState
from headnode.core.batch.site import SiteJob, SiteSnapshot
from headnode.core.batch.slurm_reasons import may_start, reason_in_words
from headnode.core.model.bounds import PAGE
from headnode.core.model.errors import NotFound, Unavailable
from headnode.core.model.user import User
from headnode.core.state.job_record import JobRecord
from headnode.core.state.resources import ids_there, overlay_of
from headnode.engine.prediction import ExpectedStart
from headnode.engine.site_prediction import SiteForecast, ahead_of, turn_of
from headnode.protocol.answers import ExpectedStartObject
from headnode.protocol.requests import VerbRequest
from headnode.protocol.resource_answers import (
    SiteExplanation,
    SiteJobObject,
    SiteJobsAnswer,
    SiteJobsRequest,
    SiteNodeObject,
    SiteNodesAnswer,
    SiteObject,
    SitePartitionObject,
)

MAX_AHEAD = 5


@verb(READS)
async def site_jobs(context: ServerContext, by: User, request: SiteJobsRequest) -> SiteJobsAnswer:
    """Show the queue of the site under the overlay: running jobs first, then waiting ones in their order.

    If the site hides jobs, users other than administrators see only their own.
    Raises:  NotFound ``no-site``; Unavailable ``site-away``.
    """
    forecast, snapshot = _site(context)
    jobs = list(reversed(forecast.ended.values())) if request.ended else _in_order(snapshot)
    visible = [job for job in jobs if may_see(snapshot, by, job) and request.user in (None, job.user)]
    limit = min(max(1, request.limit), PAGE.most)
    objects = [job_object(context, forecast, job) for job in visible[:limit]]
    return SiteJobsAnswer(site_object(context, forecast, snapshot), objects, len(visible))


@verb(READS)
async def site_nodes(context: ServerContext, by: User, request: VerbRequest) -> SiteNodesAnswer:  # noqa: ARG001
    """Show the nodes of the site under the overlay.

    Raises:  NotFound ``no-site``; Unavailable ``site-away``.
    """
    forecast, snapshot = _site(context)
    nodes = [
        SiteNodeObject(
            name=node.name,
            state=node.state,
            partitions=list(node.partitions),
            processors=node.processors,
            used=node.allocated,
            memory=node.memory,
            features=list(node.features),
            closed=bool(node.closed),
        )
        for node in snapshot.nodes
    ]
    return SiteNodesAnswer(site_object(context, forecast, snapshot), nodes)


def _site(context: ServerContext) -> tuple[SiteForecast, SiteSnapshot]:
    known = overlay_of(context.cluster.resource_index.named)
    if known is None or context.hand_off is None:
        raise NotFound(
            code="no-site",
            what="this head does not run over another scheduler",
            fix="start one that does: hn up --over slurm, or hn up --over gridengine",
        )
    context.hand_off.want_site(known.key)
    forecast = context.hand_off.site.forecast
    snapshot = forecast.snapshot
    if snapshot is None or snapshot.resource != known.key or not snapshot.at:
        problem = snapshot.problem if snapshot is not None else ""
        raise Unavailable(
            code="site-away",
            what=f"{known.name} has not answered yet" + (f": {problem}" if problem else ""),
            fix="try again in a minute; see: hn resource list",
        )
    return forecast, snapshot


def _in_order(snapshot: SiteSnapshot) -> list[SiteJob]:
    alive = (job for job in snapshot.jobs if job.state is not ForeignState.ENDED)
    return sorted(alive, key=lambda job: (job.state is ForeignState.WAITING, *turn_of(job)))


def may_see(snapshot: SiteSnapshot, by: User, job: SiteJob) -> bool:
    """Return whether a user of this head may see a job: what the site hides from users stays hidden."""
    return not snapshot.facts.hides_jobs or by.administrator or job.user == by.name


def job_object(context: ServerContext, forecast: SiteForecast, job: SiteJob) -> SiteJobObject:
    """Return a job of the site as clients get it."""
    expected = forecast.expected(job.id) or ExpectedStart()
    return SiteJobObject(
        id=job.id,
        user=job.user,
        name=job.name,
        state=job.state.value,
        word=job.word,
        reason=job.reason,
        priority=job.priority,
        partitions=list(job.partitions),
        submitted=job.submitted,
        started=job.started,
        ended=job.ended,
        run_time=job.limit if isfinite(job.limit) else None,
        processors=job.processors,
        nodes=job.nodes,
        elements=job.elements,
        job=_ours(context, job),
        p50=expected.p50,
        p90=expected.p90,
        site_start=job.expected,
    )


def _ours(context: ServerContext, job: SiteJob) -> int | None:
    """Return our job for a job at the site.  Any user can use such a name there: the id must agree."""
    if not MARKER.fullmatch(job.name):
        return None
    number = int(job.name.split("-")[2].split(".")[0][:15])
    record = context.cluster.jobs.get(number)  # type: ignore[call-overload]
    return number if record is not None and job.id in ids_there(record) else None


def site_object(context: ServerContext, forecast: SiteForecast, snapshot: SiteSnapshot) -> SiteObject:
    """Return the site as clients get it."""
    facts = snapshot.facts
    counts = dict.fromkeys(ForeignState, 0)
    for job in snapshot.jobs:
        counts[job.state] += job.elements
    known = context.cluster.resource_index.named.get(snapshot.resource)
    return SiteObject(
        resource=known.name if known is not None else snapshot.resource,
        cluster=facts.cluster,
        version=facts.version,
        scheduler=facts.scheduler,
        partitions=[
            SitePartitionObject(
                name=each.name,
                default=each.is_default,
                state=each.state,
                run_time=each.most_time if isfinite(each.most_time) else None,
                default_run_time=each.default_time,
                nodes=each.nodes,
                processors=each.processors,
            )
            for each in facts.partitions
        ],
        polled=snapshot.at or None,
        problem=snapshot.problem,
        running=counts[ForeignState.RUNNING],
        waiting=counts[ForeignState.WAITING],
        left_out=snapshot.left_out,
        hides_jobs=facts.hides_jobs,
        accounting=snapshot.has_accounting,
        judged=forecast.judged,
    )


def waiting_there(context: ServerContext, record: JobRecord) -> SiteJob | None:
    """Return the first task of a job of ours that waits at the site; None if none is known to wait there."""
    known = overlay_of(context.cluster.resource_index.named)
    if known is None or context.hand_off is None or record.run is None or record.run.resource != known.key:
        return None
    found = (context.hand_off.site.job(each) for each in ids_there(record))
    return next((job for job in found if job is not None and job.state is ForeignState.WAITING), None)


def site_explanation(context: ServerContext, by: User, record: JobRecord) -> SiteExplanation | None:
    """Return why a job of ours waits at the site; None if it does not, or nothing is known of it yet."""
    job = waiting_there(context, record)
    if job is None or context.hand_off is None:
        return None
    forecast = context.hand_off.site.forecast
    context.hand_off.want_site(record.run.resource if record.run is not None else "")
    snapshot = forecast.snapshot
    if snapshot is None:
        return None
    ahead = ahead_of(snapshot, job)
    seen = (other for other in ahead if may_see(snapshot, by, other))
    return SiteExplanation(
        resource=snapshot.resource,
        id=job.id,
        reason=job.reason,
        text=reason_in_words(job.reason),
        priority=job.priority,
        partitions=list(job.partitions),
        ahead=sum(other.elements for other in ahead),
        jobs_ahead=[job_object(context, forecast, other) for other in islice(seen, MAX_AHEAD)],
        site_start=job.expected,
        polled=snapshot.at,
        judged=forecast.judged,
    )


def expected_there(context: ServerContext, record: JobRecord) -> ExpectedStartObject | None:
    """Return when a job of ours is expected to start at the site; None if it does not wait there."""
    job = waiting_there(context, record)
    if job is None or context.hand_off is None:
        return None
    forecast = context.hand_off.site.forecast
    expected = forecast.expected(job.id)
    snapshot = forecast.snapshot
    return ExpectedStartObject(
        promise=None,
        p50=None if expected is None else expected.p50,
        p90=None if expected is None else expected.p90,
        predicted_at=forecast.computed,
        policy="" if snapshot is None else snapshot.facts.policy,
        reason="" if expected is not None else _why_unknown(job),
    )


def _why_unknown(job: SiteJob) -> str:
    if not may_start(job.reason):
        return f"it does not wait for its turn only: {reason_in_words(job.reason)}"
    return "nothing is predicted yet: the site was not asked since, or the job is too far back in its queue"
