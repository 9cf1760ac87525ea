"""What jobs use: of running tasks now, as nodes measure it; of jobs in all, and smaller requests."""

import asyncio
from collections.abc import Mapping

from headnode.adapters.nodes.link import NodeLink
from headnode.adapters.wire.agent_messages import AttemptUsage
from headnode.apps.server.api.job_objects import suspended_since
from headnode.apps.server.api.job_views import page_of
from headnode.apps.server.api.verbs import READS, verb
from headnode.apps.server.job_lookup import FoundJob, states_named
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.bounds import PAGE_BYTES
from headnode.core.model.efficiency import ResourceUse, shares_of, smaller_request, why_no_suggestion
from headnode.core.model.errors import Unavailable, WrongState
from headnode.core.model.job import JobSpec, UnitType
from headnode.core.model.outcome import NOT_MEASURED
from headnode.core.model.quantities import FOREVER, Instant, JobId, Seconds
from headnode.core.model.task import ARRAY_INDEX, SPECIAL, TaskSpec, TaskType
from headnode.core.model.user import User
from headnode.core.state.job_record import JobRecord, JobRun, LiveAttempt
from headnode.core.state.job_request import own_request
from headnode.core.state.transitions import STATE_NAMES, JobState
from headnode.protocol.job_answers import (
    EfficiencyAnswer,
    EfficiencyObject,
    EfficiencyRequest,
    JobUsageAnswer,
    SuggestedRequest,
    TaskUsageNow,
)
from headnode.protocol.requests import JobIdRequest, ListJobsRequest

_STARTERS = frozenset({"mpiexec", "mpirun", "srun"})  # programs that start a number of processes


@verb(READS)
async def job_efficiency(context: ServerContext, by: User, request: EfficiencyRequest) -> EfficiencyAnswer:
    """Show what jobs used of what they held and requested, newest id first.

    Raises:  NotFound ``no-such-job``; BadRequest ``state``.
    """
    if request.job is not None:
        return EfficiencyAnswer([efficiency_object(context, context.lookups.job(request.job))], None)
    owner = by.name if request.owner == "" else request.owner
    wanted = ListJobsRequest(
        before=request.before,
        limit=request.limit,
        name=request.name,
        project=request.project,
        since=request.since,
        until=request.until,
    )
    page = page_of(context, wanted, owner, states_named(request.states))
    jobs: list[EfficiencyObject] = []
    read = 0  # bytes: unlike lists, this reads descriptions of jobs that are alive too
    for job in page.jobs:
        read += len(job.record.spec)
        if jobs and read > PAGE_BYTES.most:
            return EfficiencyAnswer(jobs, jobs[-1].id)
        jobs.append(efficiency_object(context, job))
    return EfficiencyAnswer(jobs, page.more)


def efficiency_object(context: ServerContext, job: FoundJob) -> EfficiencyObject:
    """Return what a job used of what it held and requested."""
    record, brief = job.record, context.briefs.of(job)
    use = resource_use(record, job.taken, alternatives=bool(job.spec.alternatives), now=context.now())
    shares, smaller = shares_of(use), smaller_request(use)
    gpus = brief.minimum if brief.unit == UnitType.GPU.value and use.processors else 0
    return EfficiencyObject(
        id=record.id,
        owner=record.owner,
        name=brief.name,
        command=brief.command,
        project=brief.project,
        state=STATE_NAMES[record.state],
        so_far=not record.state.is_final,
        exclusive=job.taken.exclusive,
        gpus=gpus,
        processors=use.processors,
        processor_time=use.processor_time,
        held_time=use.held_time,
        wall_time=use.wall_time,
        run_time=use.run_time,
        run_time_limit=None if use.limit == FOREVER else use.limit,
        peak_memory=use.peak or None,
        process_memory=use.memory or None,
        node_memory=use.node_memory or None,
        task_processors=use.task_processors or None,
        processor_share=shares.processors,
        memory_share=shares.memory,
        run_time_share=shares.run_time,
        unused=shares.unused,
        suggestion=None if smaller is None else SuggestedRequest(*smaller),
        no_suggestion=why_no_suggestion(use),
    )


def resource_use(record: JobRecord, spec: JobSpec, *, alternatives: bool, now: Instant) -> ResourceUse:
    """Return what a job requested, held and used; `spec` has the request that it was given."""
    run = record.run
    if run is None or not run.usage.processors:
        none = Seconds(0.0)
        return ResourceUse(0, None, none, none, none, limit=spec.run_time, obstacle=_never_here(run))
    usage, request = run.usage, own_request(spec)
    last = _last_run(record, run, now)
    wall = Seconds(usage.wall_time + (last if run.started is not None and run.ended is None else 0.0))
    task = _only_task(spec)
    each = _task_processors(spec, task, usage.processors, request.maximum)
    return ResourceUse(
        processors=usage.processors,
        processor_time=None if usage.used == NOT_MEASURED else usage.cpu_time,
        wall_time=wall,
        run_time=last,
        held_time=usage.held_until(now) or usage.processors * wall,
        limit=spec.run_time,
        peak=usage.used.peak_memory,
        memory=spec.process_memory or 0,
        node_memory=spec.held.memory,
        task_processors=each,
        on_one_node=each == 1 or len(usage.nodes) == 1 or spec.single_node,
        fewest=_fewest(spec, task) if task and each == usage.processors and len(usage.nodes) == 1 else 0,
        next_processors=_at_least(spec, request.minimum),
        one_task=task is not None,
        obstacle=_obstacle(record, run, spec, alternatives=alternatives),
    )


def _never_here(run: JobRun | None) -> str:
    return f"it ran at {run.resource}" if run is not None and run.resource else ""


def _last_run(record: JobRecord, run: JobRun, now: Instant) -> Seconds:
    """Return how long the last run of a job took, without the time in which it was suspended."""
    if run.started is None:
        return Seconds(0.0)
    since = suspended_since(record) if run.ended is None else None
    return Seconds(max(0.0, (run.ended or since or now) - run.started - run.not_run))


def _only_task(spec: JobSpec) -> TaskSpec | None:
    """Return the task of a job that has one task of one instance."""
    if len(spec.tasks) == 1 and spec.tasks[0].kind is TaskType.BASIC:
        return spec.tasks[0]
    return None


def _task_processors(spec: JobSpec, task: TaskSpec | None, held: int, most: int) -> int:
    """Return how many processors each task had; 0 if that is not known."""
    if any(each.exclusive or each.kind in SPECIAL for each in spec.tasks):
        return 0
    if task is not None and task.maximum >= most and not spec.exclusive:
        return held
    sizes = {(each.minimum, each.maximum) for each in spec.tasks}
    if len(sizes) != 1 or spec.unit not in (UnitType.PROCESSOR, UnitType.GPU):
        return 0
    ((least, largest),) = sizes
    return _at_least(spec, least) if least == largest else 0


def _at_least(spec: JobSpec, units: int) -> int:
    """Return how many processors so many units are at the least."""
    return units * spec.processors_per_gpu if spec.unit is UnitType.GPU else units


def _fewest(spec: JobSpec, task: TaskSpec) -> int:
    """Return how many processors a smaller request must have; 0 if its number may not be changed.

    A task of a fixed size may run on fewer.  One with a range does not run on fewer than its minimum, and
    one that starts a number of processes may not run on fewer at all.
    """
    starter = task.command.strip().partition(" ")[0].rpartition("/")[2]
    if spec.unit is not UnitType.PROCESSOR or spec.exclusive or task.exclusive or spec.together:
        return 0
    if task.distribution is not None or starter in _STARTERS or spec.dialect in ARRAY_INDEX:
        return 0
    request = own_request(spec)
    ranges = ((task.minimum, task.maximum), (request.minimum, request.maximum))
    return max(1, spec.minimum_processors_per_node or 1, *(least for least, most in ranges if least < most))


def _obstacle(record: JobRecord, run: JobRun, spec: JobSpec, *, alternatives: bool) -> str:
    """Return why what a job used does not say what the next one needs; empty if it does."""
    state = record.state
    if not state.is_final:
        return "it has not ended"
    if state is not JobState.FINISHED:
        verb_ = "was canceled" if state is JobState.CANCELED else "failed"
        return f"it {verb_}" + (f": {record.message}" if record.message else "")
    if any(progress.failed or progress.canceled for progress in run.tasks):
        return "not all of its tasks finished"
    if spec.interactive or spec.run_until_canceled or any(t.kind is TaskType.SERVICE for t in spec.tasks):
        return "its user ends it, not its program"
    return "it has alternative requests" if alternatives else ""


_KILOBYTES = 1024  # in MB


@verb(READS)
async def job_usage(context: ServerContext, _by: User, request: JobIdRequest) -> JobUsageAnswer:
    """Measure what the running tasks of a job use now.

    Raises:  NotFound ``no-such-job``; WrongState ``not-running``, ``elsewhere``; Unavailable ``node-away``.
    """
    found = context.lookups.job(request.job)
    run = found.record.run
    if found.ended or run is None or not run.places:
        raise WrongState(
            code="not-running",
            what=f"job {request.job} does not run: it is {found.record.state.value}",
            fix=f"see what its ended tasks used: hn job efficiency {request.job}",
        )
    if found.record.is_elsewhere:
        raise WrongState(
            code="elsewhere",
            what=f"job {request.job} runs at {run.resource!r}, which measures its tasks when they end",
            fix="ask the scheduler there",
        )
    asked = sorted(run.places)
    answers = await asyncio.gather(*(_measured(context.links.get(node), found.record.id) for node in asked))
    measured = {node: usage for node, usage in zip(asked, answers, strict=True) if usage is not None}
    if not measured:
        raise Unavailable(
            code="node-away",
            what=f"no node of job {request.job} answers: {', '.join(asked)}",
            fix="try again when `hn node list` shows them as Ready",
        )
    rows = _rows(run, measured, found.taken, context.now())
    return JobUsageAnswer(request.job, rows, [node for node in asked if node not in measured])


async def _measured(link: NodeLink | None, job: JobId) -> tuple[AttemptUsage, ...] | None:
    """Return what a node measures; None: it is away, or too old to be asked."""
    if link is None or not link.knows_signals:
        return None
    try:
        return await link.measure(job)
    except Unavailable:
        return None


def _rows(
    run: JobRun, measured: Mapping[str, tuple[AttemptUsage, ...]], spec: JobSpec, now: Instant
) -> list[TaskUsageNow]:
    """Return what nodes say of the live attempts that are placed there; the rest is left out."""
    rows = dict[tuple[int, int, str], TaskUsageNow]()  # one for each attempt
    memory = spec.process_memory or 0
    for node, usage in measured.items():
        for one in usage:
            live = _live(run, one)
            processors = len(dict(live.placement).get(node, ())) if live is not None else 0
            if live is None or not processors:
                continue
            basic = spec.tasks[one.task - 1].kind is TaskType.BASIC
            rows[one.task, one.instance, node] = TaskUsageNow(
                task=one.task,
                instance=None if basic else one.instance,
                node=node,
                processors=processors,
                run_time=None if live.started is None else max(0.0, now - live.started),
                user_time=one.user_time,
                system_time=one.system_time,
                memory=one.memory,
                peak_memory=one.peak_memory,
                requested_memory=(memory * processors + spec.held.memory) * _KILOBYTES or None,
                processes=one.processes,
            )
    return sorted(rows.values(), key=lambda row: (row.task, row.instance or 1, row.node))


def _live(run: JobRun, one: AttemptUsage) -> LiveAttempt | None:
    """Return the attempt that a node has measured; None: it does not run any more, or never did."""
    if not 0 < one.task <= len(run.tasks):
        return None
    live = run.tasks[one.task - 1].live.get(one.instance)
    return live if live is not None and live.attempt == one.attempt else None
