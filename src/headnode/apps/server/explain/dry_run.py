"""What would become of a job if it was submitted now.  Nothing is made, changed or recorded."""

from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import replace

from headnode.apps.server.api.groups import with_parents
from headnode.apps.server.api.job_briefs import brief_of
from headnode.apps.server.api.job_objects import job_object
from headnode.apps.server.api.job_submission import (
    DescribedJobs,
    create_command,
    read_jobs,
    refuse_unfit,
    users_named,
    with_terms,
)
from headnode.apps.server.api.jobs import refuse_description, refuse_submitted
from headnode.apps.server.explain.applicable_changes import (
    ChangeCommand,
    change_of_draft,
    new_turn,
    room_of_new,
    snapshot_with,
)
from headnode.apps.server.explain.explain_job import (
    deadline_object,
    empty_explanation,
    helpful_changes,
    latest_start,
    outside_queue,
    would_be_handed,
)
from headnode.apps.server.explain.queue_standing import queue_standing, reason_object
from headnode.apps.server.job_lookup import FoundJob
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.job import JobSpec, all_dependencies
from headnode.core.model.quantities import JobId, instant_text
from headnode.core.model.resource import is_elsewhere
from headnode.core.model.user import User
from headnode.core.scheduling.explain.changes import Subject
from headnode.core.scheduling.explain.counterfactual import Suggestion
from headnode.core.scheduling.plan import Reason, Why
from headnode.core.state.decide import decide
from headnode.core.state.groups import linked
from headnode.core.state.job_events import JobSubmitted
from headnode.core.state.job_record import JobRecord
from headnode.core.state.modify import ModifyJob
from headnode.core.state.permissions import owner_of
from headnode.core.state.resources import with_resource
from headnode.core.state.submit import CreateJob, SubmitJob
from headnode.core.state.transitions import JobState
from headnode.protocol import requests as w
from headnode.protocol.answers import JobObject
from headnode.protocol.explanations import CheckAnswer, Explanation, PredictedJob

MAX_PREDICTED = 20  # jobs of one file


class _DryRunJob(NamedTuple):
    """A job that could be submitted; `job` is the id of one that was made before."""

    spec: JobSpec
    waits: tuple[Reason, ...]  # for which other jobs
    job: JobId | None
    written: bool  # its tasks are written down already: options do not change them


async def dry_run(context: ServerContext, by: User, request: w.SubmitJobRequest) -> CheckAnswer:
    """Return the result of a submission, and what would become of each job. Nothing is created or changed.

    Each job is examined as if the others of its file did not exist, except those that it waits for.
    Raises:  whatever would refuse the submission.
    """
    if request.job is not None:
        predicted = await _predicted(context, by, _created_before(context, by, request, request.job))
        return CheckAnswer((), predicted.job, predicted.explanation)
    described = await with_parents(context, by, await read_jobs(context, by, request, to_submit=True))
    candidates = _candidates(context, by, described, written=request.jobfile is not None)
    starts = [await _predicted(context, by, candidate) for candidate in candidates[:MAX_PREDICTED]]
    if len(candidates) == 1:
        return CheckAnswer(described.report, starts[0].job, starts[0].explanation)
    return CheckAnswer(described.report, jobs=starts, count=len(candidates))


async def _predicted(context: ServerContext, by: User, candidate: _DryRunJob) -> PredictedJob:
    spec = with_resource(context.cluster.resource_index.named, candidate.spec)
    job = candidate.job or JobId(context.cluster.next_job)
    turn = replace(new_turn(context.cluster, spec), job=job)
    owner = owner_of(by, spec, users_named(by, (spec,)))
    request = context.cluster.request_if_queued(owner.name, spec)
    now = context.now()
    outside = _reasons_outside(candidate, now)
    answer = empty_explanation(context) | {"job": candidate.job, "name": spec.name}
    if is_elsewhere(spec.resource):
        answer["reasons"] = [reason_object(each) for each in (would_be_handed(spec.resource), *outside)]
        return PredictedJob(_job_object(context, by, candidate), Explanation(**answer))
    snapshot = await snapshot_with(context, Subject(turn, request, owner.name, spec.project))
    answer |= queue_standing(context, snapshot)
    if outside:
        answer |= outside_queue(answer, outside, spec.hold_until if _held(spec, now) else None, None)
    else:

        def way(offer: Suggestion) -> ChangeCommand:
            return change_of_draft(spec, offer, written=candidate.written, now=now)

        answer |= await helpful_changes(context, snapshot, room_of_new(spec, by), way)
        answer |= await latest_start(context, snapshot)
    answer["deadline"] = deadline_object(spec, answer["expected"], answer["planned_start"])
    return PredictedJob(_job_object(context, by, candidate), Explanation(**answer))


def _candidates(
    context: ServerContext, by: User, described: DescribedJobs, *, written: bool
) -> list[_DryRunJob]:
    """Return the jobs of a description, if their submission is not refused."""
    refuse_unfit(context, by, *described.specs)
    events = decide(context.cluster, create_command(context, by, described, submit=True), context.now())
    first = context.cluster.next_job
    submitted = {event.job - first: event for event in events if isinstance(event, JobSubmitted)}
    specs = linked(described.specs, described.links, first)
    candidates = []
    for number, spec in enumerate(specs):
        inside = [
            _wait(f"job {one.job - first + 1} of the file to {one.condition.words}")
            for one in all_dependencies(spec)
            if one.job >= first
        ]
        waits = (*_waits(context, spec, submitted[number].waits_for), *inside)
        candidates.append(_DryRunJob(described.specs[number], waits, None, written))
    return candidates


def _waits(context: ServerContext, spec: JobSpec, waits_for: tuple[int, ...]) -> Iterator[Reason]:
    return (_wait(text, str(parent)) for parent, text in context.awaited_jobs(spec, waits_for))


def _wait(text: str, parent: str = "") -> Reason:
    return Reason(Why.DEPENDENCY, f"it would wait for {text}", parent)


def _created_before(context: ServerContext, by: User, request: w.SubmitJobRequest, job: int) -> _DryRunJob:
    refuse_description(request)
    found = context.lookups.job(job)
    spec = with_terms(request.terms, (), found.spec, now=context.now())
    _refuse_change(context, by, found, spec)
    refuse_unfit(context, by, spec, owner=found.record.owner)
    parents = context.lookups.ended_parents(spec)
    owner = replace(by, name=found.record.owner, uid=found.record.uid, gid=found.record.gid)
    made = CreateJob(by=owner, spec=spec, submit=True, parents=parents, users=users_named(by, (spec,)))
    events = decide(context.cluster, made, context.now())
    waits_for = next(event.waits_for for event in events if isinstance(event, JobSubmitted))
    return _DryRunJob(spec, tuple(_waits(context, spec, waits_for)), found.record.id, written=True)


def _refuse_change(context: ServerContext, by: User, job: FoundJob, spec: JobSpec) -> None:
    """Refuse a job that cannot be submitted, or not with these options, because of its state or its owner."""
    fields = tuple(
        name for name in JobSpec.__struct_fields__ if getattr(job.spec, name) != getattr(spec, name)
    )
    if fields:
        archived = job.record if job.ended else None
        known = users_named(by, (spec,))
        ended = context.lookups.ended_parents(spec)
        change = ModifyJob(
            by=by,
            job=job.record.id,
            spec=spec,
            fields=fields,
            archived=archived,
            users=known,
            parents=ended,
        )
        decide(context.cluster, change, context.now())
    else:
        refuse_submitted(job)
    if not job.ended:  # one that is over was brought back by the change
        parents = context.lookups.ended_parents(spec)
        decide(context.cluster, SubmitJob(by=by, job=job.record.id, parents=parents), context.now())


def _held(spec: JobSpec, now: float) -> bool:
    return spec.hold_until is not None and spec.hold_until > now


def _reasons_outside(candidate: _DryRunJob, now: float) -> list[Reason]:
    """Return why the job would not even be considered."""
    reasons: list[Reason] = []
    until = candidate.spec.hold_until
    if until is not None and until > now:
        reasons.append(Reason(Why.HOLD, f"it would be held until {instant_text(until)}"))
    reasons += [Reason(Why.HOLD, f"it would have the hold {name!r}", name) for name in candidate.spec.holds]
    return [*reasons, *candidate.waits]


def _job_object(context: ServerContext, by: User, candidate: _DryRunJob) -> JobObject:
    owner = owner_of(by, candidate.spec, users_named(by, (candidate.spec,)))
    record = JobRecord(
        id=candidate.job or JobId(context.cluster.next_job),
        owner=owner.name,
        uid=owner.uid,
        gid=owner.gid,
        spec=b"",
        state=JobState.CONFIGURING,
        priority=candidate.spec.priority,
        created=context.now(),
    )
    return job_object(JobObject, record, brief_of(record, candidate.spec), id=candidate.job)
