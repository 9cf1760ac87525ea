"""Hold and release, suspend and resume jobs, end allocations, and send signals to processes of jobs."""

import asyncio
from collections.abc import Mapping
from typing import Final

from headnode.adapters.nodes.link import NodeLink
from headnode.apps.server.api.job_objects import hold_object
from headnode.apps.server.api.verbs import OVERSEES, verb
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.errors import BadRequest, Unavailable, WrongState
from headnode.core.model.job_checks import is_allocation
from headnode.core.model.quantities import JobId
from headnode.core.model.resource import PLACE_MARK
from headnode.core.model.signals import SignalTarget, signal_name, signal_number
from headnode.core.model.user import User
from headnode.core.state.hold import HoldJob, HoldTask, ReleaseJob, ReleaseTask
from headnode.core.state.job_record import JobRecord, JobRun
from headnode.core.state.permissions import may_change
from headnode.core.state.stop import StopJob
from headnode.core.state.suspend import ResumeJob, SuspendJob
from headnode.core.state.transitions import JobState, TaskState
from headnode.protocol import requests as w
from headnode.protocol.answers import JobStateAnswer
from headnode.protocol.job_answers import (
    EndAllocationRequest,
    HoldJobRequest,
    HoldsAnswer,
    ReleaseJobRequest,
    SignalJobAnswer,
    SignalJobRequest,
    TaskStateAnswer,
)

Attempts = tuple[tuple[int, int, int], ...]
"""Task, instance and attempt of each."""


@verb(OVERSEES)
async def suspend_job(context: ServerContext, by: User, request: w.JobIdRequest) -> JobStateAnswer:
    """Stop the processes of a running job, and release its processors."""
    await context.ask(SuspendJob(by=by, job=_live_record(context, request)))
    return _suspension_answer(context, request)


@verb(OVERSEES)
async def resume_job(context: ServerContext, by: User, request: w.JobIdRequest) -> JobStateAnswer:
    """Let a suspended job go on when its processors are free."""
    await context.ask(ResumeJob(by=by, job=_live_record(context, request)))
    return _suspension_answer(context, request)


def _live_record(context: ServerContext, request: w.JobIdRequest) -> JobId:
    """Return the id of a job that is not over.

    Raises:  NotFound ``no-such-job``, WrongState ``job-over``.
    """
    job = context.lookups.job(request.job)
    if job.ended:
        raise WrongState(
            code="job-over",
            what=f"job {request.job} has already ended: it is {job.record.state.value}",
            fix=f"run it again with hn job requeue {request.job}, "
            f"or make a copy with hn job clone {request.job}",
        )
    return job.record.id


def _suspension_answer(context: ServerContext, request: w.JobIdRequest) -> JobStateAnswer:
    return JobStateAnswer(request.job, context.lookups.job(request.job).record.state.value)


@verb(OVERSEES)
async def hold_job(context: ServerContext, by: User, request: HoldJobRequest) -> HoldsAnswer:
    """Keep a job from starting until the hold is released; with `requeue` also a running job."""
    command = HoldJob(
        by=by,
        job=_live_record(context, request),
        name=request.name,
        message=request.message,
        requeue=request.requeue,
    )
    await context.ask(command)
    return _held(context, request)


@verb(OVERSEES)
async def release_job(context: ServerContext, by: User, request: ReleaseJobRequest) -> HoldsAnswer:
    """Release a hold of a job, or all of them; return those that are left."""
    name = None if request.all else request.name
    await context.ask(ReleaseJob(by=by, job=_live_record(context, request), name=name))
    return _held(context, request)


@verb(OVERSEES)
async def hold_task(context: ServerContext, by: User, request: w.HoldTaskRequest) -> TaskStateAnswer:
    """Keep queued instances of a task from starting; with `requeue` also those that run."""
    job, task, instance = _live_record(context, request), request.task, request.instance
    await context.ask(HoldTask(by=by, job=job, task=task, instance=instance, requeue=request.requeue))
    return TaskStateAnswer("Queued")


@verb(OVERSEES)
async def release_task(context: ServerContext, by: User, request: w.TaskIdRequest) -> TaskStateAnswer:
    """Release held instances of a task."""
    job, task, instance = _live_record(context, request), request.task, request.instance
    await context.ask(ReleaseTask(by=by, job=job, task=task, instance=instance))
    return TaskStateAnswer("Queued")


def _held(context: ServerContext, request: w.JobIdRequest) -> HoldsAnswer:
    holds = context.lookups.job(request.job).record.holds
    return HoldsAnswer(request.job, [hold_object(hold) for hold in holds])


@verb(OVERSEES)
async def end_allocation(context: ServerContext, by: User, request: EndAllocationRequest) -> JobStateAnswer:
    """End an allocation after its command; with an exit code other than 0 the job has failed."""
    job = context.lookups.job(request.job)
    may_change(by, job.record)
    if not is_allocation(job.spec):
        raise BadRequest(
            code="no-allocation",
            what=f"job {request.job} does not end with a command of its client",
            fix=f"finish or cancel it: hn job finish {request.job}",
            path=("job",),
        )
    if not job.ended:
        command = StopJob(
            by=by,
            job=job.record.id,
            outcome="failed" if request.exit_code else "finished",
            message=f"the command of salloc ended with exit status {request.exit_code}",
            force=True,
        )
        await context.ask(command)
    return JobStateAnswer(request.job, context.lookups.job(request.job).record.state.value)


@verb(OVERSEES)
async def signal_job(context: ServerContext, by: User, request: SignalJobRequest) -> SignalJobAnswer:
    """Send a signal to the processes of a running job."""
    number = signal_number(request.signal)
    if request.instance is not None and request.task is None:
        raise BadRequest(
            code="signal", what="an instance is named without its task", fix="name the task, too: task"
        )
    job = context.lookups.job(request.job)
    may_change(by, job.record)
    run = _running(job.record)
    if job.record.is_elsewhere:
        return await _signal_there(context, job.record, run, request, number)
    chosen = _chosen(run, request)
    links = {node: context.links[node] for node in chosen if node in context.links}
    if old := sorted(node for node, link in links.items() if not link.knows_signals):
        raise Unavailable(
            code="old-node",
            what=f"nodes with a Headnode of before 0.3 send no signals: {', '.join(old)}",
            fix="install the version of the head there",
        )
    asked = {node: _ask(link, request, number, chosen[node]) for node, link in links.items()}
    answers = dict(zip(asked, await asyncio.gather(*asked.values()), strict=True))
    return _answer(request, number, chosen, answers)


def _running(record: JobRecord) -> JobRun:
    """Return the run of a job that runs.

    Raises:  WrongState ``not-running``.
    """
    if record.run is None or record.state is not JobState.RUNNING:
        raise WrongState(
            code="not-running",
            what=f"job {record.id} does not run: it is {record.state.value}",
            fix=f"see when it runs: hn job explain {record.id}",
        )
    return record.run


def _chosen(run: JobRun, request: SignalJobRequest) -> Mapping[str, Attempts | None]:
    """Return what gets the signal on each node; None: all that the job has there.

    Raises:  WrongState ``not-running``.
    """
    if request.task is None:
        return dict.fromkeys(run.places)
    _check_task(run, request)
    by_node: dict[str, list[tuple[int, int, int]]] = {}
    for instance, live in run.tasks[request.task - 1].live.items():
        if request.instance in (None, instance):
            for node, _ in live.placement:
                by_node.setdefault(node, []).append((request.task, instance, live.attempt))
    if not by_node:
        raise _nothing_runs(request)
    return {node: tuple(attempts) for node, attempts in by_node.items()}


def _check_task(run: JobRun, request: SignalJobRequest) -> None:
    if request.task is not None and not 0 < request.task <= len(run.tasks):
        raise BadRequest(
            code="no-such-task",
            what=f"job {request.job} has no task {request.task}",
            fix=f"see: hn job listtasks {request.job}",
            path=("task",),
        )


def _nothing_runs(request: SignalJobRequest) -> WrongState:
    what = f"job {request.job}" if request.task is None else f"task {request.job}.{request.task}"
    return WrongState(
        code="not-running",
        what=f"nothing of {what} runs that could get a signal",
        fix=f"see: hn job listtasks {request.job}",
    )


async def _signal_there(
    context: ServerContext, record: JobRecord, run: JobRun, request: SignalJobRequest, number: int
) -> SignalJobAnswer:
    """Send the signal by the scheduler of the resource where the job runs.

    Raises:  BadRequest ``signal-elsewhere``; Unavailable ``resource-away``; WrongState ``not-running``.
    """
    name = run.resource
    ids = _ids_there(run, request)
    if context.hand_off is None:
        raise Unavailable(code="resource-away", what="no jobs are handed over now", fix="try again")
    answer = await context.hand_off.signal(record, ids, number, request.target)
    if answer.impossible:
        what, whom = f"SIG{signal_name(number)}", _WHOM[request.target]
        raise BadRequest(
            code="signal-elsewhere",
            what=f"job {request.job} runs at {name!r}, where {what} cannot be sent to {whom}",
            fix='see which it can send: docs/hand-off.md, "Signals"',
            path=("target",),
        )
    if answer.problem:
        raise Unavailable(
            code="resource-away",
            what=f"no signal was sent to job {request.job} at {name!r}: {answer.problem}",
            fix="try again; see `hn resource list`",
        )
    return SignalJobAnswer(request.job, signal_name(number), len(ids), [PLACE_MARK + name], [])


_WHOM: Final[Mapping[SignalTarget, str]] = {
    "all": "all processes of a job",
    "program": "its program alone",
    "steps": "its steps alone",
}


def _ids_there(run: JobRun, request: SignalJobRequest) -> list[str]:
    """Return the ids at the resource of what runs there and gets the signal.

    Raises:  BadRequest ``no-such-task``; WrongState ``not-running``.
    """
    _check_task(run, request)
    ids = [
        live.foreign
        for task, progress in enumerate(run.tasks, start=1)
        for instance, live in sorted(progress.live.items())
        if request.task in (None, task) and request.instance in (None, instance)
        if live.foreign and live.state is TaskState.RUNNING
    ]
    if not ids:
        raise _nothing_runs(request)
    return ids


async def _ask(
    link: NodeLink, request: SignalJobRequest, number: int, attempts: Attempts | None
) -> int | None:
    """Return to how many processes of a node the signal went; None: the node does not answer."""
    try:
        return await link.send_signal(JobId(request.job), attempts, number, request.target)
    except Unavailable:
        return None


def _answer(
    request: SignalJobRequest,
    number: int,
    chosen: Mapping[str, Attempts | None],
    answers: Mapping[str, int | None],
) -> SignalJobAnswer:
    silent = sorted(node for node in chosen if answers.get(node) is None)
    if len(silent) == len(chosen):
        raise Unavailable(
            code="node-away",
            what=f"no node of job {request.job} answers: {', '.join(silent)}",
            fix="try again when `hn node list` shows them as Ready",
        )
    sent = {node: count for node, count in answers.items() if count}
    return SignalJobAnswer(request.job, signal_name(number), sum(sent.values()), sorted(sent), silent)
