"""The verbs about tasks and their output."""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Literal

from headnode.adapters.nodes.link import node_away
from headnode.apps.server.api import job_objects as show
from headnode.apps.server.api.access import hides_environment, seen_by
from headnode.apps.server.api.groups import with_parents
from headnode.apps.server.api.job_objects import instances_of, progress_of
from headnode.apps.server.api.job_submission import read_jobs, users_named
from headnode.apps.server.api.jobs import live_job
from headnode.apps.server.api.task_output import (
    output_at_resource,
    output_is_kept,
    output_paths,
    output_removed,
    read_own_file,
)
from headnode.apps.server.api.verbs import OVERSEES, READS, VerbAccess, VerbUsers, verb
from headnode.apps.server.job_lookup import FoundJob
from headnode.apps.server.server_context import ServerContext
from headnode.apps.server.waiting_reasons import with_transfers
from headnode.core.formats.slash_terms import with_changed_task
from headnode.core.model.bounds import TASK_PAGE
from headnode.core.model.errors import BadRequest, NotFound, WrongState
from headnode.core.model.resource import PLACE_MARK
from headnode.core.model.task import TaskSpec, TaskType
from headnode.core.model.user import User
from headnode.core.state import modify as c
from headnode.core.state.filters import changes
from headnode.core.state.job_events import InstanceEnd
from headnode.core.state.job_record import TaskProgress
from headnode.core.state.permissions import may_read_output
from headnode.core.state.rerun import way_to_run_again
from headnode.core.state.stop import RequeueTask, StopTask
from headnode.core.state.task_placement import task_reasons
from headnode.core.state.transitions import TaskState
from headnode.protocol import requests as w
from headnode.protocol.answers import InstanceCounts, TaskObject
from headnode.protocol.job_answers import (
    InstanceCountsAnswer,
    InstanceCountsRequest,
    ModifiedTask,
    OutputAnswer,
    OutputBytesAnswer,
    ReplacedJob,
    SweepPart,
    TaskAnswer,
    TasksAnswer,
    TaskStateAnswer,
)
from headnode.protocol.state_names import ENDED_STATES


@verb(VerbAccess(VerbUsers.OWNER, changes=True))
async def modify_task(context: ServerContext, by: User, request: w.ModifyTaskRequest) -> ModifiedTask:
    """Change options of a task, before the job is submitted."""
    found = live_job(context, request.job)
    spec = with_changed_task(found.spec, request.task, request.terms)
    before, after = found.spec.tasks[request.task - 1], spec.tasks[request.task - 1]
    fields = [name for name in after.__struct_fields__ if getattr(before, name) != getattr(after, name)]
    if fields:
        command = c.ModifyJob(
            by=by, job=found.record.id, spec=spec, fields=("tasks",), changed_task=request.task
        )
        await context.ask(command)
    return ModifiedTask(request.job, request.task, fields)


@verb(VerbAccess(VerbUsers.OWNER, changes=True))
async def replace_job(context: ServerContext, by: User, request: w.ReplaceJobRequest) -> ReplacedJob:
    """Describe a job anew that was created and never submitted; its number stays."""
    found = live_job(context, request.job)
    described = await with_parents(context, by, await read_jobs(context, by, request))
    if len(described.specs) != 1 or described.links:
        raise BadRequest(
            code="several-jobs",
            what=f"the job file describes {len(described.specs)} jobs, and job {request.job} is one",
            fix="send a file with one job",
        )
    (spec,) = described.specs
    fields = changes(found.spec, spec)
    if fields:
        known = users_named(by, described.specs)
        record = found.record
        await context.ask(
            c.ModifyJob(by=by, job=record.id, spec=spec, fields=fields, users=known, replaced=True)
        )
    return ReplacedJob(request.job, list(fields), described.report)


@verb(READS)
async def tasks(context: ServerContext, by: User, request: w.ListTasksRequest) -> TasksAnswer:  # noqa: ARG001  (everybody sees all)
    """Show the tasks of a job, or the instances of one of them."""
    job = context.lookups.job(request.job)
    limit = min(max(1, request.limit), TASK_PAGE.most)
    states = {_task_state_named(state) for state in request.states if state.lower() not in ("all", "*")}
    if request.expand is not None:
        return _instances(context, job, request, states, limit)
    listed: list[TaskObject] = []
    for number in range(request.after + 1, len(job.spec.tasks) + 1):
        if len(listed) == limit:
            return TasksAnswer(listed, number - 1)
        state = show.task_state(job.record, show.progress_of(job.record, job.spec, number))
        if not states or state in states:
            listed.append(_task(context, job, number))
    return TasksAnswer(listed, None)


def _task_state_named(state: str) -> str:
    plain = state.strip().lower().replace("cancelled", "canceled")
    by_name = {
        "notsubmitted": "Configuring",
        "not submitted": "Configuring",
        "configuring": "Configuring",
    }
    known = {word.lower(): word for word in ("Queued", "Running", *ENDED_STATES)} | by_name
    if plain not in known:
        raise BadRequest(
            code="state",
            what=f"{state!r} is not a state of a task",
            fix="use Queued, Running, Finished, Failed, Canceled or all",
        )
    return known[plain]


def _instances(
    context: ServerContext, job: FoundJob, request: w.ListTasksRequest, states: set[str], limit: int
) -> TasksAnswer:
    number = request.expand or 0
    task_of(job, number)
    chosen = list(islice(show.instances_in(job.record, job.spec, number, states, request.after), limit + 1))
    page = chosen[:limit]
    rows = _rows(context, job, number, page)
    pending = _pending(context, job, number)
    listed = []
    for instance in page:
        row = rows.get(instance)
        one = show.instance_object(job.record, job.spec, number, instance, row, pending)
        listed.append(with_transfers(context.transferring(job.record), job.record, one))
    return TasksAnswer(listed, page[-1] if len(chosen) > limit else None)


def _rows(context: ServerContext, job: FoundJob, number: int, page: list[int]) -> dict[int, InstanceEnd]:
    if not page:
        return {}
    span = page[-1] - page[0] + 1
    if span > 4 * len(page):
        rows = [context.lookups.archive.instance(job.record.id, number, instance) for instance in page]
        return {row.instance: row for row in rows if row is not None}
    found_rows = context.lookups.archive.instances(job.record.id, number, page[0] - 1, span)
    return {row.instance: row for row in found_rows if row.instance <= page[-1]}


def task_of(job: FoundJob, number: int) -> TaskSpec:
    """Return the description of a task.

    Raises:  NotFound ``no-such-task``.
    """
    if not 1 <= number <= len(job.spec.tasks):
        count = len(job.spec.tasks)
        raise NotFound(
            code="no-such-task",
            what=f"job {job.record.id} has no task {number}",
            fix=f"it has tasks 1 to {count}" if count else "it has no tasks",
        )
    return job.taken.tasks[number - 1]


def _task(context: ServerContext, job: FoundJob, number: int) -> TaskObject:
    row = None
    if job.spec.tasks[number - 1].kind is TaskType.BASIC:
        row = context.lookups.archive.instance(job.record.id, number, 1)
    answer = show.task_object(job.record, job.spec, number, row, _pending(context, job, number))
    return with_transfers(context.transferring(job.record), job.record, answer)


def _pending(context: ServerContext, job: FoundJob, number: int) -> str:
    if job.ended:
        return ""
    reasons = task_reasons(context.cluster, job.record, number - 1)
    return reasons[0].text if reasons else ""


def _task_answer(
    context: ServerContext, job: FoundJob, request: w.TaskIdRequest
) -> tuple[TaskSpec, TaskObject]:
    task = task_of(job, request.task)
    if request.instance is None:
        return task, _task(context, job, request.task)
    check_instance(job, request)
    row = context.lookups.archive.instance(job.record.id, request.task, request.instance)
    pending = _pending(context, job, request.task)
    answer = show.instance_object(job.record, job.spec, request.task, request.instance, row, pending)
    return task, with_transfers(context.transferring(job.record), job.record, answer)


def check_instance(job: FoundJob, request: w.TaskIdRequest) -> None:
    """Refuse an instance that the task does not have."""
    count = show.instances_of(job.record, job.spec, request.task)
    if request.instance is not None and not 1 <= request.instance <= count:
        raise NotFound(
            code="no-such-instance",
            what=f"task {job.record.id}.{request.task} has no sub-task {request.instance}",
            fix=f"it has sub-tasks 1 to {count}" if count else "it has none yet",
        )


@verb(READS)
async def task(context: ServerContext, by: User, request: w.TaskIdRequest) -> TaskAnswer:
    """Show a task, or one instance of it, with everything that the user may know."""
    job = context.lookups.job(request.job)
    seen, left_out = seen_by(context, by, job)
    spec, answer = _task_answer(context, FoundJob(job.record, seen, ended=job.ended), request)
    return TaskAnswer(show.detailed_task(answer, spec, private=hides_environment(left_out)))


@verb(OVERSEES)
async def cancel_task(context: ServerContext, by: User, request: w.StopTaskRequest) -> TaskStateAnswer:
    """Cancel a task, or one instance of it."""
    return await _stop_task(context, by, request, "canceled", "failed")


@verb(OVERSEES)
async def finish_task(context: ServerContext, by: User, request: w.StopTaskRequest) -> TaskStateAnswer:
    """Stop a task, or one instance of it, and count running instances as finished."""
    return await _stop_task(context, by, request, "finished", "finished")


async def _stop_task(
    context: ServerContext,
    by: User,
    request: w.StopTaskRequest,
    word: str,
    outcome: Literal["failed", "finished"],
) -> TaskStateAnswer:
    job = _active(context, request, word)
    command = StopTask(
        by=by,
        job=job.record.id,
        task=request.task,
        instance=request.instance,
        message=request.message,
        force=request.force,
        outcome=outcome,
    )
    await context.ask(command)
    job = context.lookups.job(request.job)
    stopped = w.TaskIdRequest(job=request.job, task=request.task, instance=request.instance)
    return TaskStateAnswer(_task_answer(context, job, stopped)[1].state)


def _active(context: ServerContext, request: w.TaskIdRequest, word: str) -> FoundJob:
    job = context.lookups.job(request.job)
    task_of(job, request.task)
    if job.ended:
        raise WrongState(
            code="job-over",
            what=f"job {request.job} is {job.record.state.value}, so no task of it can be {word}",
            fix=way_to_run_again(job.record),
        )
    return job


@verb(OVERSEES)
async def requeue_task(context: ServerContext, by: User, request: w.TaskIdRequest) -> TaskStateAnswer:
    """Run again what has ended of a task, or one instance that runs."""
    found = _active(context, request, "requeued")
    command = RequeueTask(by=by, job=found.record.id, task=request.task, instance=request.instance)
    await context.ask(command)
    return TaskStateAnswer("Queued")


@verb(READS)
async def task_output(context: ServerContext, by: User, request: w.TaskIdRequest) -> OutputAnswer:
    """Show where the output of a task is. The client reads it with its own rights."""
    job = context.lookups.job(request.job)
    spec = task_of(job, request.task)
    check_instance(job, request)
    if spec.kind is not TaskType.BASIC and request.instance is None:
        count = show.instances_of(job.record, job.spec, request.task)
        raise BadRequest(
            code="which-instance",
            what=f"task {request.job}.{request.task} is a {_task_kind(spec)} of {count} sub-tasks",
            fix=f"name one, for example {request.job}.{request.task}.1",
        )
    instance = request.instance or 1
    progress = show.progress_of(job.record, job.spec, request.task)
    live = progress.live.get(instance)
    row = context.lookups.archive.instance(job.record.id, request.task, instance)
    node = live.placement[0][0] if live is not None else (row.node if row is not None else "")
    state = show.instance_state(job.record, progress, instance)
    if state in (TaskState.CONFIGURING, TaskState.QUEUED) or not node:
        return OutputAnswer(None, None, captured=False, captured_path=None, state=state.value)
    if node.startswith(PLACE_MARK):
        if live is None and row is not None and row.outcome.never_began:
            return OutputAnswer(None, None, captured=False, captured_path=None, state=state.value)
        attempt = live.attempt if live is not None else row.attempt if row is not None else 1
        return output_at_resource(context, by, job, request, instance, attempt, node, state.value)
    place = live.placement if live is not None else ((node, ()),)
    record = context.cluster.nodes.get(node)
    remote = record is not None and bool(record.key)
    kept = output_is_kept(context.state, node, job.record.id)
    variables = context.engine.settings.environment()
    paths = output_paths(context.state, context.name, job, request.task, instance, place, variables)
    return OutputAnswer(
        **paths,
        state=state.value,
        requesting_user=by.name,
        remote=remote,
        removed="" if remote or not job.ended or kept else output_removed(job.record.id),
    )


def _task_kind(task: TaskSpec) -> str:
    return task.kind.value if task.kind in (TaskType.SWEEP, TaskType.SERVICE) else f"{task.kind.value} task"


@verb(VerbAccess(VerbUsers.OWNER))
async def read_output(context: ServerContext, by: User, request: w.ReadOutputRequest) -> OutputBytesAnswer:
    """Read output on its node, with the rights of the job's user."""
    job = context.lookups.job(request.job)
    may_read_output(by, job.record)
    where = await task_output(
        context, by, w.TaskIdRequest(job=request.job, task=request.task, instance=request.instance)
    )
    node = where.node or ""
    own = getattr(where, request.stream) if request.stream != "captured" else None
    if node.startswith(PLACE_MARK) and context.hand_off is not None:
        span = request.offset, request.limit
        return await context.hand_off.read(job.record, own or where.captured_path or "", span)
    if own is not None and own != where.captured_path:
        return await read_own_file(context, job.record, node, own, (request.offset, request.limit))
    if not where.captured:
        why = "wrote all its output to files of its own" if node else f"has not run: it is {where.state}"
        what = f"task {request.job}.{request.task} {why}"
        raise NotFound(code="no-output", what=what, fix="see: hn task view")
    link = context.links.get(node)
    if link is None:
        raise node_away(node)
    span = request.offset, request.limit
    read = await link.read_output(job.record.id, request.task, request.instance or 1, span)
    if read.problem:
        raise NotFound(code="no-output", what=read.problem, fix="see: hn task view")
    if read.missing and job.ended:
        raise NotFound(code="no-output", what=output_removed(job.record.id), fix="see: hn job view")
    return OutputBytesAnswer(read.data, read.size)


@verb(READS)
async def instance_counts(
    context: ServerContext,
    by: User,  # noqa: ARG001
    request: InstanceCountsRequest,
) -> InstanceCountsAnswer:
    """Divide the instances of a task into parts, and show how many of each are in each state."""
    job = context.lookups.job(request.job)
    task_of(job, request.task)
    total = instances_of(job.record, job.spec, request.task)
    progress = progress_of(job.record, job.spec, request.task)
    return InstanceCountsAnswer(sweep_parts(progress, total, request.parts), total)


def sweep_parts(progress: TaskProgress, total: int, parts: int) -> list[SweepPart]:
    """Return at most `parts` parts of instances 1 to `total`, with the states of their instances.

    Cost:  O(parts + intervals + live instances).
    """
    size = max(1, -(-total // parts))
    number = -(-total // size)
    running = _by_part(((instance, instance) for instance in progress.live), size, number)
    finished, failed, canceled = (
        _by_part(seen.spans(), size, number)
        for seen in (progress.finished, progress.failed, progress.canceled)
    )
    answers = []
    for part in range(number):
        first, last = part * size + 1, min(total, (part + 1) * size)
        count = last - first + 1
        states = (running[part], finished[part], failed[part], canceled[part])
        answers.append(SweepPart(first, last, InstanceCounts(count, count - sum(states), *states)))
    return answers


def _by_part(spans: Iterable[tuple[int, int]], size: int, number: int) -> Sequence[int]:
    """Return how many numbers of the spans are in each part of `size`, counted from 1."""
    counts = [0] * number
    for first, last in spans:
        for part in range((first - 1) // size, min(number - 1, (last - 1) // size) + 1):
            counts[part] += min(last, (part + 1) * size) - max(first, part * size + 1) + 1
    return counts
