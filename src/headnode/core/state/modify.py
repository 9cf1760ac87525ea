"""Changes to a job's description and progress: what may change in which state."""

from collections.abc import Mapping

import msgspec

from headnode.core.model.errors import BadRequest, WrongState
from headnode.core.model.field_rows import QUEUED, RUNNING, fields_that, option_names
from headnode.core.model.fields import OPTIONS_OF_JOBS
from headnode.core.model.job import Alternative, JobSpec, TaskAlternative
from headnode.core.model.job_checks import check_job, check_runnable
from headnode.core.model.quantities import NEVER, Instant, JobId
from headnode.core.model.task import PROCESS_COUNT, SPECIAL
from headnode.core.model.user import User
from headnode.core.model.value_checks import task_title
from headnode.core.state import filters
from headnode.core.state import job_events as e
from headnode.core.state import job_request as suspension
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.command import Command
from headnode.core.state.depend import AwaitedParents, ParentOutcome, set_awaited
from headnode.core.state.events import Event
from headnode.core.state.job_record import (
    JobRecord,
    JobRun,
    decode_spec,
    encode_record,
    encode_spec,
    not_begun,
    spec_of,
)
from headnode.core.state.job_request import check_end_by, check_still_ahead, last_start, limit_end
from headnode.core.state.permissions import may_change, may_rewrite, owner_change_event
from headnode.core.state.reservation_index import check_may_go_in, check_stays_clear
from headnode.core.state.resources import check_may_be_handed
from headnode.core.state.start import run_of
from headnode.core.state.submit import check_description_memory, check_hold, check_privileges
from headnode.core.state.task_placement import check_could_run
from headnode.core.state.templates import refuse_modified
from headnode.core.state.transitions import JobState, job_target


class ModifyJob(Command, frozen=True):
    """Modify a job.  `fields` are the names of the changed fields; `tasks` may grow at the end."""

    by: User
    job: JobId
    spec: JobSpec
    fields: tuple[str, ...]
    archived: JobRecord | None = None  # the job, when it is over
    users: Mapping[str, User] = {}  # as in `CreateJob`
    replaced: bool = False  # a job that was never submitted is described anew, with other tasks
    changed_task: int | None = None  # the number of the one task that changes, of a job not yet submitted
    parents: Mapping[int, ParentOutcome] = {}  # as in `RequeueJob`
    skipped: tuple[JobRecord, ...] = ()


class RequeueJob(Command, frozen=True):
    """Requeue a job; finished tasks do not run again."""

    by: User
    job: JobId
    archived: JobRecord | None = None
    parents: Mapping[int, ParentOutcome] = {}  # what became of those that it, and the skipped, depend on
    skipped: tuple[JobRecord, ...] = ()  # what was canceled for its end


class SetProgress(Command, frozen=True):
    """Set the progress of a job."""

    by: User
    job: JobId
    percent: int | None = None
    message: str | None = None


WHEN_QUEUED = fields_that(QUEUED, OPTIONS_OF_JOBS)
"""The fields of a queued job that may change."""

WHEN_RUNNING = fields_that(RUNNING, OPTIONS_OF_JOBS)
"""The fields of a running job that may change."""


WAITS = frozenset({"parents", "after_failure", "after_exit", "after_start", "dependencies", "any_dependency"})
"""The fields with dependencies that a queued job may change."""


def modify(cluster: ClusterState, command: ModifyJob, now: Instant) -> list[Event]:
    """Replace a job's description where its state allows it."""
    record = living_or_archived_job(cluster, command)
    may_rewrite(command.by, record, command.fields)
    if not command.fields:
        return []
    written = cluster.written(record)
    spec = _merged(record, written, command)
    spec = spec if command.replaced else followed_by_script(written, spec)
    if spec.priority != record.priority:
        check_privileges(spec, command.by)
    check_job(spec)
    gift: list[e.JobOwnerChanged] = []
    if "run_as" in command.fields:
        may = record.state is JobState.CONFIGURING
        gift = owner_change_event(command.by, record, spec, command.users, now, may=may)
    encoded = encode_spec(spec)
    check_description_memory(cluster, record.owner, len(encoded) - len(record.spec))
    modified = e.JobModified(
        at=now, job=record.id, spec=encoded, by=command.by.name, changed=", ".join(command.fields)
    )
    if record.state is JobState.QUEUED and not WAITS.isdisjoint(command.fields):
        from headnode.core.state.children import with_dependencies  # few jobs wait for others

        modified = with_dependencies(cluster, record, spec, command.parents, modified)
    if record.state in (JobState.FAILED, JobState.CANCELED):
        revived = e.JobUnarchived(at=now, job=record.id, record=encode_record(record), by=command.by.name)
        configured = e.JobConfiguring(at=now, job=record.id, by=command.by.name)
        by = command.by.name
        from headnode.core.state.revive import revived_with_parent  # few jobs run again

        again = [*revived_with_parent(cluster, record, command.skipped, command.parents, by, now)]
        cluster.limit_index.check_events(again)
        return [revived, configured, modified, *again]
    _check_change(cluster, record, spec, command, now)
    return [modified, *gift]


def followed_by_script(before: JobSpec, after: JobSpec) -> JobSpec:
    """Return a changed job; if it is a batch script, its program and variables follow the request."""
    if after.dialect not in PROCESS_COUNT:
        return after
    from headnode.core.model.batch_variables import follow_request  # most jobs are no batch scripts

    return follow_request(before, after)


def _check_change(
    cluster: ClusterState, record: JobRecord, spec: JobSpec, command: ModifyJob, now: Instant
) -> None:
    """Refuse what the state of the job does not let change, or what it could not be submitted with."""
    _refuse_fields(record, cluster.written(record), spec, _changeable(record), command.fields)
    if "tasks" in command.fields and record.state is not JobState.CONFIGURING:
        _check_places_of_added(cluster, record, command)
    if record.state.is_active:
        _check_running(record, command)
        if cluster.reservation_index.on and "run_time" in command.fields:
            end = NEVER if record.run is None else limit_end(spec, record.run)
            check_stays_clear(cluster.reservation_index.on, record, cluster.request(record), end)
        if cluster.limit_index.any and "run_time" in command.fields:
            from headnode.core.state.limit_use import check_room_for_time  # few clusters have limits

            check_room_for_time(cluster, record, spec, now)
        check_still_ahead(spec, now)
    if record.state is JobState.QUEUED:
        check_end_by(spec, now)
    if record.state is not JobState.CONFIGURING:
        if not command.by.administrator:
            refuse_modified(cluster, spec)
        if "reservation" in command.fields:
            check_may_go_in(cluster.reservation_index.named, spec, command.by, now)
        check_may_be_handed(cluster.resource_index.named, spec)
        check_hold(spec, now)
        check_runnable(spec)
        if spec.project != cluster.written(record).project:
            cluster.limit_index.check_submission([("", spec.project)])
            _check_room(cluster, record, spec.project, now)


def _check_room(cluster: ClusterState, record: JobRecord, project: str, now: Instant) -> None:
    if cluster.limit_index.by_project:
        from headnode.core.state.limit_use import check_room_in_project  # few clusters have such limits

        check_room_in_project(cluster, record, project, now)


def _merged(record: JobRecord, now: JobSpec, command: ModifyJob) -> JobSpec:
    """Return the description as it is now, with what is named changed: changes of others hold too."""
    unknown = sorted(set(command.fields) - set(JobSpec.__struct_fields__))
    if unknown:
        raise BadRequest(
            code="no-such-field",
            what=f"a job has no {', '.join(unknown)}",
            fix="see `hn help job modify`",
            path=(unknown[0],),
        )
    if command.replaced:
        _check_never_submitted(record)
    elif command.changed_task is not None:
        _check_changed(record, now, command.spec, command.changed_task)
    elif "tasks" in command.fields:
        _check_added(record, now, command.spec)
    merged = msgspec.structs.replace(now, **{name: getattr(command.spec, name) for name in command.fields})
    if "alternatives" in command.fields or not now.alternatives:
        return merged
    return msgspec.structs.replace(merged, alternatives=_followed(record, merged, command))


def _followed(record: JobRecord, merged: JobSpec, command: ModifyJob) -> tuple[Alternative, ...]:
    """Return a job's alternatives after a change.

    They say nothing of new tasks; and the one under which the job runs has the new run time limit.
    """
    found = []
    option = record.run.alternative if record.run is not None and record.state.is_active else 0
    for number, other in enumerate(merged.alternatives, start=1):
        fresh = (TaskAlternative(),) * (len(merged.tasks) - len(other.tasks)) if other.tasks else ()
        limited = number == option and "run_time" in command.fields and other.run_time is not None
        limit = command.spec.run_time if limited else other.run_time
        found.append(msgspec.structs.replace(other, tasks=other.tasks + fresh, run_time=limit))
    return tuple(found)


def _check_never_submitted(record: JobRecord) -> None:
    """Refuse to describe a job anew that has tasks with a state of their own."""
    if record.state is not JobState.CONFIGURING or record.run is not None:
        raise WrongState(
            code="already-submitted",
            what=f"job {record.id} cannot be replaced: it, or a task of it, has left the state configuring",
            fix="create a new job",
        )


def _check_changed(record: JobRecord, now: JobSpec, requested: JobSpec, task: int) -> None:
    """Refuse a change of a task once its job was submitted, and one of a job that has changed meanwhile."""
    if record.state is not JobState.CONFIGURING:
        raise WrongState(
            code="not-modifiable",
            what=f"task {record.id}.{task} cannot change: job {record.id} is {record.state.value}",
            fix=f"make a changed copy: hn job clone {record.id}",
            path=("tasks", task - 1),
        )
    same = [pair for pair in zip(now.tasks, requested.tasks, strict=False) if pair[0] == pair[1]]
    if len(now.tasks) != len(requested.tasks) or len(same) < len(now.tasks) - 1:
        raise WrongState(
            code="stale-tasks",
            what=f"the tasks of job {record.id} have changed at the same time",
            fix="repeat the command",
        )


def _check_added(record: JobRecord, now: JobSpec, requested: JobSpec) -> None:
    """Refuse tasks that are not added behind the existing ones: a task added meanwhile would be lost."""
    known = len(now.tasks)
    if len(requested.tasks) <= known or requested.tasks[:known] != now.tasks:
        raise WrongState(
            code="stale-tasks",
            what=f"job {record.id} has {known} tasks now, and the numbers of the new ones do not follow",
            fix="repeat the command: the job was changed at the same time",
        )


def _check_places_of_added(cluster: ClusterState, record: JobRecord, command: ModifyJob) -> None:
    """Special tasks come with their job: its nodes are prepared from the first.  Others must find a node."""
    known = len(cluster.written(record).tasks)
    for number, task in enumerate(command.spec.tasks[known:], known + 1):
        if task.kind in SPECIAL:
            raise WrongState(
                code="special-task",
                what=f"task {number} of job {record.id} is a {task.kind.value} task, "
                f"and the job is {record.state.value}",
                fix="add it before the job is submitted: hn job new, hn job add, hn job submit",
                path=("tasks", number - 1),
            )
        if record.state.is_active:
            check_could_run(cluster, record, task, task_title(number, task))


def _changeable(record: JobRecord) -> frozenset[str] | None:
    """Return the fields that may change in this state; None for all."""
    if record.state is JobState.CONFIGURING:
        return None
    if record.state is JobState.QUEUED:
        return WHEN_QUEUED
    return WHEN_RUNNING if record.state.is_active else frozenset()


def _refuse_fields(
    record: JobRecord,
    former: JobSpec,
    requested: JobSpec,
    allowed: frozenset[str] | None,
    fields: tuple[str, ...],
) -> None:
    if allowed is None:
        return
    wrong = sorted(set(fields) - allowed)
    if wrong:
        found = _options_changed(wrong, former, requested)
        names, options = " and ".join(map(repr, found)), "option" if len(found) == 1 else "options"
        raise WrongState(
            code="not-modifiable",
            what=f"{options} {names} of job {record.id} cannot change while it is {record.state.value}",
            fix=f"make a changed copy: hn job clone {record.id}"
            if not allowed
            else f"in this state only these can: {', '.join(option_names(allowed, OPTIONS_OF_JOBS))}",
            path=(wrong[0],),
        )


def _options_changed(fields: list[str], former: JobSpec, requested: JobSpec) -> list[str]:
    """Return the command-line options of the changed fields; the unit of a size tells which one it is."""
    parts = type(former.needs).__struct_fields__ if "needs" in fields else ()
    found = [
        f"needs.{part}" for part in parts if getattr(former.needs, part) != getattr(requested.needs, part)
    ]
    sizes = {"minimum", "maximum", "unit"} & set(fields)
    names = option_names({*found, *fields} - sizes - {"needs"}, OPTIONS_OF_JOBS)
    return sorted([*names, f"num{requested.unit.value}s"] if sizes else names)


def _check_running(record: JobRecord, command: ModifyJob) -> None:
    run = record.run
    if "tasks" in command.fields and run is not None and run.parts:
        raise WrongState(
            code="gang-is-whole",
            what=f"job {record.id} accepts no more tasks: it is a gang, whose tasks start together",
            fix="make a changed copy of it: hn job clone, or submit the task as a job of its own",
            path=("tasks",),
        )
    if "run_time" in command.fields and run is not None and (run.backfilled or run.lowered_limit is not None):
        why = "was backfilled" if run.backfilled else "started"
        raise WrongState(
            code="backfilled",
            what=f"the run time limit of job {record.id} cannot change: the job {why} because of it",
            fix="wait for its end, or cancel it and submit it again",
            path=("run_time",),
        )
    if run is not None and run.end is not None and not run.end.requeue and "tasks" in command.fields:
        raise WrongState(
            code="ending",
            what=f"job {record.id} accepts no new tasks: it is ending",
            fix="submit them as a job of their own",
            path=("tasks",),
        )


def living_or_archived_job(cluster: ClusterState, command: RequeueJob | ModifyJob) -> JobRecord:
    """Return the live job, or else the archived one; another user may have requeued it just now."""
    alive = cluster.jobs.get(command.job)
    return alive or command.archived or cluster.job(command.job)


def set_progress(cluster: ClusterState, command: SetProgress, now: Instant) -> list[Event]:
    """Note how far a job is."""
    record = cluster.job(command.job)
    may_change(command.by, record)
    if command.percent is not None and not 0 <= command.percent <= 100:
        raise BadRequest(
            code="progress", what=f"progress {command.percent} is not a percentage", fix="write 0 to 100"
        )
    return [e.ProgressSet(at=now, job=record.id, percent=command.percent, message=command.message)]


def job_modified(cluster: ClusterState, event: e.JobModified) -> None:
    record = cluster.job(event.job)
    state = job_target(record.state, event)
    if state.is_queued:
        cluster.dequeue(record)
    spec = decode_spec(event.spec)
    record.describe(event.spec, spec)
    if event.waits_for is not None:
        set_awaited(cluster, record, AwaitedParents(event.waits_for, event.satisfied, event.start_after))
    filters.forget_offer(record)
    if record.run is not None:
        known, taken = len(record.run.tasks), spec_of(record)
        record.run.tasks += [not_begun(task) for task in taken.tasks[known:]]
        _extend_run(cluster, record, record.run, taken)
    cluster.move(record, state)
    if state is JobState.QUEUED:
        record.hold_until, record.last_start = spec.hold_until, last_start(spec)
        record.placement = None  # the job that it is now may start elsewhere first
    if state.is_queued:
        cluster.enqueue(record)


def _extend_run(cluster: ClusterState, record: JobRecord, run: JobRun, spec: JobSpec) -> None:
    """New tasks join the graph, and a new run time limit counts from the start."""
    graph = cluster.graphs.get(record.id)
    if graph is None:
        return
    graph.spec = spec
    graph.work_out()
    cluster.remember_request(record, spec)
    cluster.usage.count(record, spec.project, cluster.request(record))
    if run.started is not None:
        suspension.set_limits(run, spec)
        cluster.agenda.set_deadline(record.id, run.deadline)


def progress_set(cluster: ClusterState, event: e.ProgressSet) -> None:
    record = cluster.job(event.job)
    job_target(record.state, event)
    run = run_of(cluster, record)
    if event.percent is not None:
        run.percent = event.percent
    if event.message is not None:
        run.progress_message = event.message
