"""What clients see of jobs: pages of lists, expected starts, history.

The sentences of the history are those of HPC Pack, `job view /history`.
"""

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, TypeVar

import msgspec

from headnode.apps.readable_values import time_limit
from headnode.apps.server.api import job_objects as show
from headnode.apps.server.api.groups import members, summary
from headnode.apps.server.api.verbs import READS, verb
from headnode.apps.server.job_lookup import FoundJob, states_named
from headnode.apps.server.server_context import ServerContext
from headnode.apps.server.waiting_reasons import awaits_files, kind_of_wait, why_unpredictable
from headnode.core.model.bounds import HISTORY_PAGE, PAGE, PAGE_BYTES
from headnode.core.model.node import folded_names, natural_order
from headnode.core.model.quantities import Instant, JobId, instant_text
from headnode.core.model.user import User
from headnode.core.state import job_events as e
from headnode.core.state import suspension_events as sj
from headnode.core.state.events import BankNoted, Event, JobPlaced
from headnode.core.state.job_events import JobEvent, NodeCores
from headnode.core.state.job_record import JobRecord
from headnode.core.state.place_choice import places_in_words
from headnode.core.state.transitions import JobState
from headnode.engine.activation_offer import in_line
from headnode.engine.ports import Prediction
from headnode.engine.prediction import ExpectedStart
from headnode.protocol import requests as w
from headnode.protocol.answers import (
    ExpectedStartObject,
    HistoryAnswer,
    HistoryEntry,
    JobsAnswer,
    ListedJob,
    PredictionObject,
)
from headnode.protocol.requests import ListJobsRequest


async def expected_start(context: ServerContext, record: JobRecord) -> ExpectedStartObject | None:
    """Return the expected start of a job; None unless it waits for resources or its files only.

    Waits a little for a prediction that knows the latest events.  Times are in seconds since 1970.
    """
    known = expected_object(context, record)  # it also tells that the rate of files is known by now
    if record.is_elsewhere or not (record.id in context.cluster.detached or is_in_queue(context, record)):
        return known
    await context.predicted_starts.fresh(record.id)
    return expected_object(context, record)


def is_in_queue(context: ServerContext, record: JobRecord) -> bool:
    """Return whether a job waits for processors, and for nothing else."""
    if record.state is JobState.QUEUED:
        return in_line(context.cluster, record)
    outside = record.id in context.cluster.queue.held or record.holds or record.waits_for
    return record.state.is_queued and not outside


def expected_object(context: ServerContext, record: JobRecord) -> ExpectedStartObject | None:
    """Return what is known already of the start of a job."""
    if record.is_elsewhere:
        from headnode.apps.server.api.site import expected_there  # imported with the first such job

        return expected_there(context, record)
    if awaits_files(record):
        return context.predicted_starts.with_files(record)
    if not is_in_queue(context, record):
        return None
    foreseer = context.predicted_starts.foreseer
    expected = foreseer.expected(record.id)
    unknown = why_unpredictable(context.cluster, context.engine.offers, record)
    start = ExpectedStart() if expected is None or unknown else expected
    return ExpectedStartObject(
        promise=start.promise,
        p50=start.p50,
        p90=start.p90,
        predicted_at=foreseer.computed,
        policy=context.engine.settings.text("SchedulingPolicy"),
        reason=unknown or _why_unknown(expected),
    )


def _why_unknown(expected: ExpectedStart | None) -> str:
    """Say why something is not known; "" when all is."""
    if expected is None:
        return "the prediction has not reached its place in the queue yet"
    if expected.p50 is None:
        return "it waits for jobs without a run time limit, and no similar job has ended yet"
    if expected.promise is None:
        return "there is no promise: it waits for jobs without a run time limit"
    return ""


def prediction_object(prediction: Prediction | None) -> PredictionObject | None:
    """Return what was predicted of a job when it had come into the queue."""
    if prediction is None:
        return None
    return PredictionObject(
        predicted_at=prediction.made,
        policy=prediction.policy,
        promise=prediction.promise,
        p50=prediction.p50,
        p90=prediction.p90,
        started=prediction.started,
    )


_OF_INSTANCES: Final = frozenset({e.InstancesStarted, e.InstancesEnded})


def event_sentence(event: Event) -> str:
    """Return what happened, in words; empty for events that a reader of a job's history does not miss."""
    if type(event) in _OF_INSTANCES:
        return ""  # most events; the patterns below are tried one after the other, the frequent ones first
    match event:
        case e.JobStarted():
            return _start_sentence(event)
        case e.JobEnded(outcome=outcome, message=message):
            return f"Job {outcome.capitalize()}" + (f": {message}" if message else "")
        case e.AllocationShrunk(removed=place, message=message):
            return f"Allocation reduced by {_cores(place)}" + (f": {message}" if message else "")
        case e.JobCreated(owner=owner, by=by):
            return f"Created by {by} for {owner}" if by else f"Created by {owner}"
        case e.JobOwnerChanged(owner=owner, by=by):
            return f"Given to {owner} by {by}"
        case e.JobSubmitted(by=by):
            return f"Submitted by {by}" if by else "Submitted"
        case e.JobValidated(filters=filters, changed=what):
            passed = f"Passed {', '.join(filters)}" if filters else "Validated"
            return passed + (f", which changed {what}" if what else "")
        case e.FilterAnswered(message=words, until=until):
            return words[:1].upper() + words[1:] + _until(until)
        case e.JobModified(by=by, changed=what):
            return f"Modified by {by}: {what}" if by else f"Changed: {what}"
        case e.JobConfiguring(by=by):
            return f"Reconfigured by {by}"
        case e.AllocationGrown(added=place):
            return f"Allocation increased by {_cores(place)}"
        case e.AllocationReleased():
            return "All processors released: only transfers of files are left"
        case e.AllocationLost(removed=place, message=message):
            return f"Lost {_cores(place)}: {message}" if place else message[:1].upper() + message[1:]
        case e.ProcessorsRecalled(processors=()):
            return "Job is not being preempted any more"
        case e.ProcessorsRecalled(processors=shares, for_jobs=jobs, message=message):
            return (_preempted(jobs) if jobs else message[:1].upper() + message[1:]) + f": {_counted(shares)}"
        case e.NodesCleaning(nodes=nodes, message=message):
            return f"Epilog on {', '.join(nodes)}" + (f": {message}" if message else "")
        case _:
            return _waiting(event) or _stopping(event)


def _waiting(event: Event) -> str:
    match event:
        case BankNoted():
            from headnode.apps.server.api.bank import bank_sentence  # most heads have no bank

            return bank_sentence(event)
        case e.JobHeld(name=name, by=by, message=message):
            return f"Hold {name} set by {by}" + (f": {message}" if message else "")
        case JobPlaced(resource=resource, estimates=estimates, at=at):
            return f"Goes to {resource}: {places_in_words(estimates, at)}"
        case e.JobReleased(names=names, by=by):
            return f"Hold{'s' if len(names) > 1 else ''} {', '.join(names)} released by {by}"
        case sj.JobSuspending(staging=True):
            return "It releases its processors until its input files are copied"
        case sj.JobSuspended(staging=True):
            return "It has released its processors, while its input files are copied"
        case sj.JobResuming(staging=True):
            return "Its input files are there, and it waits for its processors"
        case sj.JobSuspending(by=by):
            return f"Suspend requested by {by}"
        case sj.JobSuspended(by=by):
            return f"Suspended again by {by}" if by else "Suspended"
        case sj.JobResuming(by=by):
            return f"Resume requested by {by}"
        case sj.JobResumed(allocation=place, by=by):
            return f"Resumed on {_cores(place)}" + (f" by {by}" if by else "")
        case _:
            return ""


def _stopping(event: Event) -> str:
    match event:
        case e.JobEnding(requeue=True, preempted_by=other) if other:
            return _preempted((other,))
        case e.JobEnding(requeue=True, by=by):
            return f"Requeue requested by {by}"
        case e.JobEnding(outcome="finished", by=""):
            return "All tasks ended"
        case e.JobEnding(outcome=outcome, by=by, force=force, message=message):
            request = "Finish" if outcome == "finished" else "Cancel"
            return f"{request} requested{' with force' if force else ''}" + (
                f" by {by}" if by else f": {message}"
            )
        case e.DispatchStopped(outcome=outcome, by=by):
            return f"{'Finish' if outcome == 'finished' else 'Cancel'} requested gracefully by {by}"
        case e.JobAutoRequeued(message=message):
            return f"Back in the queue: {message}"
        case e.JobRequeued(by=by, message=message) if by:
            return f"Requeued by {by}" + (f": {message}" if message else "")
        case e.JobRequeued():
            return "Requeued"
        case e.InstancesCanceled(task=task, message=message):
            return f"Task {task} canceled: {message}"
        case e.TasksCanceled(tasks=((task, _),), message=message):
            return f"Task {task} canceled: {message}"
        case e.TasksCanceled(tasks=tasks, message=message) if tasks:
            return f"{len(tasks)} tasks canceled: {message}"
        case e.InstancesRequeued(task=task, by=by):
            return f"Task {task} requeued by {by}"
        case e.InstancesHeld(task=task, by=by, spans=spans):
            return f"Instances {_spans_text(spans)} of task {task} held by {by}"
        case e.InstancesReleased(task=task, by=by, spans=spans):
            return f"Instances {_spans_text(spans)} of task {task} released by {by}"
        case _:
            return ""


def _spans_text(spans: Sequence[tuple[int, int]]) -> str:
    texts = [f"{first}" if first == last else f"{first}-{last}" for first, last in spans[:5]]
    return ", ".join(texts) + (" and others" if len(spans) > 5 else "")


def _until(at: Instant | None) -> str:
    if at is None:
        return ""
    return f", until {instant_text(at)}"


def _preempted(jobs: tuple[int, ...]) -> str:
    return f"Job is being preempted by job{'s' if len(jobs) > 1 else ''} {', '.join(map(str, jobs))}"


def _start_sentence(event: e.JobStarted) -> str:
    limit, backfilled = event.lowered_limit, " (backfilled)" if event.backfilled else ""
    lowered = "" if limit is None else f"; run time limit lowered to {time_limit(limit)}"
    return f"Started on {_cores(event.allocation)}{backfilled}{lowered}"


def _cores(place: NodeCores) -> str:
    return _counted([(node, len(numbers)) for node, numbers in place])


def _counted(shares: Sequence[tuple[str, int]]) -> str:
    return ", ".join([f"{node} with {count} core{'s' if count != 1 else ''}" for node, count in shares])


MAX_LOOKED_AT: Final = 5_000  # jobs, for one page; the answer says where the next one begins


class JobPage(msgspec.Struct, frozen=True):
    """A page: its jobs, and the id to pass as `before` for the next; None: there are no more."""

    jobs: list[FoundJob]
    more: int | None


def page_of(
    context: ServerContext, request: ListJobsRequest, owner: str | None, states: set[JobState]
) -> JobPage:
    """Return the jobs that a request asks for, after a look at no more than the bounds let it.

    A page ends early where much would have to be read for the next job.
    """
    limit = min(max(1, request.limit), PAGE.most)
    sifts = bool(request.name or request.project or request.since is not None or request.until is not None)
    most = MAX_LOOKED_AT if sifts else limit
    chosen: list[FoundJob] = []
    fits, looked_at, read, last = _condition(context, request), 0, 0, request.before
    for job in context.lookups.newest(owner, states, request.before, most + 1):
        if request.since is not None and job.record.created < request.since:
            return JobPage(chosen, None)  # ids are given in the order of creation
        read += context.briefs.weight(job)
        full = len(chosen) == limit or looked_at == most
        if full or (looked_at and read > PAGE_BYTES.most):
            return JobPage(chosen, last)
        looked_at, last = looked_at + 1, job.record.id
        if fits(job):
            chosen.append(job)
    return JobPage(chosen, None)


def _condition(context: ServerContext, request: ListJobsRequest) -> Callable[[FoundJob], bool]:
    name, project = request.name.lower(), request.project.lower()

    def fits(job: FoundJob) -> bool:
        if request.until is not None and job.record.created >= request.until:
            return False
        if not (name or project):
            return True
        brief = context.briefs.of(job)
        if project and brief.project.lower() != project:
            return False
        return not name or fnmatchcase((brief.name or brief.command).lower(), name)

    return fits


def listed_job(context: ServerContext, job: FoundJob) -> ListedJob:
    """Return a job as lists show it: with its command, its nodes and its expected start."""
    return job_in_list(ListedJob, context, job)


Listed = TypeVar("Listed", bound=ListedJob)


def job_in_list(kind: type[Listed], context: ServerContext, job: FoundJob, **more: Any) -> Listed:
    """Return a job as lists show it, with `more` fields of its kind."""
    brief, record, reason = context.briefs.of(job), job.record, context.reason_to_wait(job.record)
    nodes, held_until = _nodes_of(job), context.cluster.queue.held.get(record.id)
    return show.job_object(
        kind,
        record,
        brief,
        reason.text if reason else "",
        **kind_of_wait(reason),
        array=brief.array,
        node_groups=list(brief.node_groups),
        template=brief.template,
        node_count=len(nodes) or brief.nodes,
        command=brief.command,
        nodes=",".join(folded_names(nodes)),
        held=record.state.is_queued and (bool(record.holds) or held_until is not None),
        held_until=held_until,
        expected=expected_object(context, record),
        **more,
    )


def _nodes_of(job: FoundJob) -> list[str]:
    """Return the nodes that a job has, or had when it ended."""
    run = job.record.run
    return [] if run is None else sorted(run.allocation or run.usage.nodes, key=natural_order)


@verb(READS)
async def jobs(context: ServerContext, by: User, request: w.ListJobsRequest) -> JobsAnswer:
    """Show a page of jobs, newest id first.

    With `name`, `project`, `since` or `until` an answer examines at most 5,000 jobs, and may have none.
    """
    if request.group is not None:
        return _jobs_of_group(context, by, request, request.group)
    owner = by.name if request.owner == "" else request.owner
    page = page_of(context, request, owner, states_named(request.states))
    listed = [listed_job(context, job) for job in page.jobs]
    total = sum(context.cluster.counts.values()) + sum(
        context.lookups.archive.count_ended(owner=None).values()
    )
    return JobsAnswer(listed, page.more, total, damage=list(context.lookups.archive.damage()))


def _jobs_of_group(context: ServerContext, by: User, request: w.ListJobsRequest, name: str) -> JobsAnswer:
    """Show a page of the jobs that a group has now, and its state."""
    owner = {None: "*", "": None}.get(request.owner, request.owner)
    group = members(context, by, w.GroupNameRequest(group=name, owner=owner))
    states = states_named(request.states)
    wanted = [job for job in reversed(group) if not states or job.state in states]
    page = [job for job in wanted if request.before is None or job.id < request.before]
    limit, read = min(max(1, request.limit), PAGE.most), 0
    jobs: list[ListedJob] = []
    for record in page[:limit]:
        found = context.lookups.job(record.id)
        read += context.briefs.weight(found)
        if jobs and read > PAGE_BYTES.most:
            break
        jobs.append(listed_job(context, found))
    more = jobs[-1].id if len(page) > len(jobs) else None
    return JobsAnswer(jobs, more, len(group), group=summary(name, group))


def history_of(context: ServerContext, job: JobId, limit: int) -> list[HistoryEntry]:
    """Return what happened to a job: the newest events, oldest first."""
    events = context.lookups.archive.history(job, min(max(1, limit), HISTORY_PAGE.most))
    return [
        HistoryEntry(event.at, text)
        for event in events
        if isinstance(event, JobEvent) and (text := event_sentence(event))
    ]


@verb(READS)
async def job_history(context: ServerContext, by: User, request: w.JobHistoryRequest) -> HistoryAnswer:  # noqa: ARG001
    """Show what happened to a job."""
    return HistoryAnswer(history_of(context, context.lookups.job(request.job).record.id, request.limit))
