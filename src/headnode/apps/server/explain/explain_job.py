"""Why a job waits, when it will start, and what would let it: the policy itself is asked again."""

from collections.abc import Callable

import msgspec

from headnode.apps.server.api.groups import dependencies_of
from headnode.apps.server.api.job_objects import Object
from headnode.apps.server.api.job_views import expected_start
from headnode.apps.server.api.site import site_explanation
from headnode.apps.server.explain.applicable_changes import (
    ChangeCommand,
    PolicySnapshot,
    change_of_job,
    changer,
    found_changes,
    known_instant,
    modify_command,
    new_turn,
    room_of_draft,
    room_of_queued,
    snapshot_with,
    start_by_limits,
)
from headnode.apps.server.explain.queue_standing import allocation_object, queue_standing, reason_object
from headnode.apps.server.job_lookup import FoundJob
from headnode.apps.server.server_context import ServerContext
from headnode.apps.server.waiting_reasons import instance_reasons, preemption_reasons
from headnode.core.model.errors import Refused
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Instant, JobId
from headnode.core.model.resource import is_elsewhere
from headnode.core.model.user import User
from headnode.core.scheduling.explain.change_words import changes_in_words
from headnode.core.scheduling.explain.changes import ChangeLimits, Subject, planned_start
from headnode.core.scheduling.explain.counterfactual import Suggestion
from headnode.core.scheduling.plan import Reason, Why
from headnode.core.state import submit as c
from headnode.core.state.decide import decide
from headnode.core.state.job_record import TaskProgress
from headnode.core.state.job_request import last_start
from headnode.core.state.resources import with_resource
from headnode.core.state.task_placement import task_reasons
from headnode.core.state.transitions import STATE_NAMES, JobState
from headnode.protocol.answers import ExpectedStartObject
from headnode.protocol.explanations import (
    DeadlineObject,
    Explanation,
    HelpfulChange,
    ReasonObject,
    RefusalObject,
    WaitingTask,
)

MAX_TASKS = 20


async def explanation_of(context: ServerContext, by: User, job: int) -> Explanation:
    """Return why a job waits, when it may start, and which changes would let it start now or sooner."""
    found = context.lookups.job(job)
    answer = empty_explanation(context)
    answer |= {"job": found.record.id, "name": found.spec.name, "state": STATE_NAMES[found.record.state]}
    if not found.ended or found.record.skipped:
        answer["dependencies"] = dependencies_of(context, found)
    if found.ended:
        return Explanation(**answer)
    answer["tasks"] = _waiting_tasks(context, found)
    preempted = [reason_object(each) for each in preemption_reasons(context.engine.last_plan, found.record)]
    if context.goes_elsewhere(found.record):
        answer["reasons"] = [reason_object(reason) for reason in context.reasons_elsewhere(found.record)]
        answer["site"] = site_explanation(context, by, found.record)
        answer["expected"] = await expected_start(context, found.record)
    elif found.record.state.is_queued:
        answer |= await _queued(context, by, found)
    elif found.record.state is JobState.CONFIGURING:
        answer |= await _draft(context, by, found)
    else:
        answer["reasons"] = [reason_object(reason) for reason in context.reasons_outside_queue(found.record)]
        answer["expected"] = await expected_start(context, found.record)
    answer["reasons"] = [*preempted, *answer["reasons"]]
    answer["deadline"] = deadline_object(found.spec, answer["expected"], answer["planned_start"])
    return Explanation(**answer)


def empty_explanation(context: ServerContext) -> Object:
    """Return an explanation that says nothing yet: every key with its empty value."""
    return {
        "job": None,
        "name": "",
        "state": "Configuring",
        "policy": context.engine.settings.text("SchedulingPolicy"),
        "refused": None,
        "reasons": [],
        "ahead": 0,
        "jobs_ahead": [],
        "score": None,
        "planned_start": None,
        "would_start": [],
        "reservation": None,
        "blocked_by": None,
        "changes": [],
        "searched": False,
        "incomplete": False,
        "expected": None,
        "deadline": None,
        "tasks": [],
        "dependencies": [],
        "site": None,
    }


def deadline_object(
    spec: JobSpec, expected: ExpectedStartObject | None, not_before: float | None
) -> DeadlineObject | None:
    """Return a job's deadline, and by how many seconds it would be late; None for a job without one.

    A job is taken to run as long as its limit lets it, without one not at all.
    `by_limits` follows from the promised start, or from `not_before`, `expected` and `at_worst` from those
    expected half of the time and nine times of ten.  None: no such start is known; 0 or less: it would be
    in time.
    """
    latest = last_start(spec)
    if latest is None or spec.end_by is None:
        return None

    def late(start: float | None) -> float | None:
        return None if start is None else start - latest

    return DeadlineObject(
        at=spec.end_by,
        last_start=latest,
        by_limits=late((expected.promise if expected else None) or not_before),
        expected=late(expected.p50 if expected else None),
        at_worst=late(expected.p90 if expected else None),
    )


async def _queued(context: ServerContext, by: User, job: FoundJob) -> Object:
    record, spec = job.record, job.spec
    by = changer(record, by)
    snapshot = await snapshot_with(
        context,
        Subject(record.turn, context.cluster.request(record), record.owner, spec.project),
    )
    answer = queue_standing(context, snapshot)
    outside = context.reasons_outside_queue(record)
    if outside:
        return answer | outside_queue(answer, outside, context.cluster.queue.held.get(record.id), record.id)
    if record.state is JobState.RESUMING:  # nothing that it asks for can be changed
        reasons = _resume_reasons(context, job, answer)
        return answer | {"reasons": reasons, "expected": await expected_start(context, record)}
    room = room_of_queued(context.cluster, spec, by)

    def way(offer: Suggestion) -> ChangeCommand:
        return change_of_job(context.cluster, record, spec, offer, by, context.now())

    answer |= await helpful_changes(context, snapshot, room, way)
    answer["reasons"] = [*answer["reasons"], *map(reason_object, context.reasons_of_pools(record))]
    return answer | {"expected": await expected_start(context, record)}


def _resume_reasons(context: ServerContext, job: FoundJob, answer: Object) -> list[ReasonObject]:
    """Return why a suspended job does not go on: what others have of its nodes, and what else there is."""
    own = [reason_object(reason) for reason in context.missing_to_resume(job.record)]
    about_nodes = (Why.PROCESSORS, Why.NODE)
    return own + [reason for reason in answer["reasons"] if reason.kind not in about_nodes]


async def _draft(context: ServerContext, by: User, job: FoundJob) -> Object:
    """Say what would become of a job if it was submitted now."""
    record, spec = job.record, job.spec
    by = changer(record, by)
    parents = context.lookups.ended_parents(spec)
    try:
        decide(context.cluster, c.SubmitJob(by=by, job=record.id, parents=parents), context.now())
    except Refused as no:
        return {"refused": RefusalObject(no.code, no.what, no.fix)}
    spec = with_resource(context.cluster.resource_index.named, spec)
    if is_elsewhere(spec.resource):
        return {"reasons": [reason_object(would_be_handed(spec.resource))]}
    turn = msgspec.structs.replace(new_turn(context.cluster, spec), job=record.id)
    snapshot = await snapshot_with(
        context,
        Subject(turn, context.cluster.request_if_queued(record.owner, spec), record.owner, spec.project),
    )

    def way(offer: Suggestion) -> ChangeCommand:
        return change_of_job(context.cluster, record, spec, offer, by, context.now())

    answer = queue_standing(context, snapshot) | await helpful_changes(
        context, snapshot, room_of_draft(spec, by), way
    )
    return answer | await latest_start(context, snapshot)


async def helpful_changes(
    context: ServerContext,
    snapshot: PolicySnapshot,
    room: ChangeLimits,
    command_of: Callable[[Suggestion], ChangeCommand],
) -> Object:
    """Return what would let the job start now or sooner, each with the way to do it."""
    if planned_start(snapshot.plan, snapshot.view, snapshot.subject).now:
        return {}
    changes = await found_changes(context, snapshot, room)
    offers = [_change(offer, snapshot, command_of(offer)) for offer in changes.offers]
    return {"changes": offers, "searched": True, "incomplete": changes.cut}


async def latest_start(context: ServerContext, snapshot: PolicySnapshot) -> Object:
    """Return when a job that is not submitted would start at the latest, if it would have to wait.

    In the shape of what is expected of queued jobs; nothing is learned from the past for it.
    """
    outcome = planned_start(snapshot.plan, snapshot.view, snapshot.subject)
    if outcome.now:
        return {}
    promise = known_instant(outcome.at) or await start_by_limits(context, snapshot)
    why = "" if promise else "jobs without a run time limit are before it, or it was too long to work out"
    return {
        "expected": ExpectedStartObject(
            promise=promise,
            p50=None,
            p90=None,
            predicted_at=snapshot.view.now,
            policy=context.engine.settings.text("SchedulingPolicy"),
            reason=why,
        )
    }


def _change(offer: Suggestion, snapshot: PolicySnapshot, command: ChangeCommand) -> HelpfulChange:
    return HelpfulChange(
        text=changes_in_words(offer, snapshot.subject.request),
        now=offer.outcome.now,
        at=known_instant(offer.outcome.at),
        nodes=allocation_object(offer.outcome.starts),
        options=command.options,
        command=command.command,
    )


def outside_queue(answer: Object, outside: list[Reason], held: Instant | None, job: JobId | None) -> Object:
    """Return what is different in the answer for a job that is held, or whose parents have not finished.

    The rest of the answer is as if it was in the line.  `job` is None for one that has no id yet.
    """
    different = {
        "reasons": [*map(reason_object, outside), *answer["reasons"]],
        "planned_start": None,
        "would_start": [],
    }
    if held is None or len(outside) > 1 or not answer["would_start"]:
        return different
    options = {"holduntil": ""}
    lifted = HelpfulChange(
        text="without the hold",
        now=True,
        at=answer["planned_start"],
        nodes=answer["would_start"],
        options=options,
        command="" if job is None else modify_command(job, options),
    )
    return different | {"planned_start": held, "changes": [lifted]}


def would_be_handed(resource: str) -> Reason:
    """Return what would become of a job for a resource."""
    sentence = f"it would be handed over to {resource}, whose scheduler decides when it starts"
    return Reason(Why.RESOURCE, sentence, resource)


def _blocked_task(job: FoundJob, index: int, progress: TaskProgress) -> WaitingTask:
    reasons = instance_reasons(job.record, index, progress)
    return WaitingTask(
        task=index + 1,
        name=job.spec.tasks[index].name,
        instance=progress.blocked.firsts[0],
        waiting=len(progress.blocked),
        reasons=[ReasonObject(each.why, each.text, each.what) for each in reasons],
    )


def _waiting_tasks(context: ServerContext, job: FoundJob) -> list[WaitingTask]:
    run = job.record.run
    if run is None or job.record.state is not JobState.RUNNING:
        return []
    waiting: list[WaitingTask] = []
    for index, progress in enumerate(run.tasks):
        if len(waiting) < MAX_TASKS and progress.blocked:
            waiting.append(_blocked_task(job, index, progress))
        if not progress.queued or len(waiting) == MAX_TASKS:
            continue
        reasons = task_reasons(context.cluster, job.record, index)
        waiting.append(
            WaitingTask(
                task=index + 1,
                name=job.spec.tasks[index].name,
                instance=next(iter(progress.queued)),
                waiting=len(progress.queued),
                reasons=[ReasonObject(each.why, each.text, each.what) for each in reasons],
            )
        )
    return waiting
