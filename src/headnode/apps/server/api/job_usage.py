"""The verb ``job_usage``: what the running tasks of a job use now, as its nodes measure it."""

import asyncio
from collections.abc import Mapping

from headnode.adapters.nodes.link import NodeLink
from headnode.adapters.wire.agent_messages import AttemptUsage
from headnode.apps.server.api.verbs import READS, verb
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.errors import Unavailable, WrongState
from headnode.core.model.job import JobSpec
from headnode.core.model.quantities import Instant, JobId
from headnode.core.model.task import TaskType
from headnode.core.model.user import User
from headnode.core.state.job_record import JobRun, LiveAttempt
from headnode.protocol.job_answers import JobUsageAnswer, TaskUsageNow
from headnode.protocol.requests import JobIdRequest

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
    rows, memory = [], spec.process_memory
    for node, usage in measured.items():
        for one in usage:
            live = _live(run, one)
            processors = len(dict(live.placement).get(node, ())) if live is not None else 0
            if live is None or not processors:
                continue
            basic = spec.tasks[one.task - 1].kind is TaskType.BASIC
            rows.append(
                TaskUsageNow(
                    task=one.task,
                    instance=None if basic else one.instance,
                    node=node,
                    processors=processors,
                    run_time=None if live.started is None else max(0.0, now - live.started),
                    user_time=one.user_time,
                    system_time=one.system_time,
                    memory=one.memory,
                    peak_memory=one.peak_memory,
                    requested_memory=memory * _KILOBYTES * processors if memory else None,
                    processes=one.processes,
                )
            )
    return sorted(rows, key=lambda row: (row.task, row.instance or 1, row.node))


def _live(run: JobRun, one: AttemptUsage) -> LiveAttempt | None:
    """Return the attempt that a node has measured; None: it does not run any more, or never did."""
    if not 0 < one.task <= len(run.tasks):
        return None
    live = run.tasks[one.task - 1].live.get(one.instance)
    return live if live is not None and live.attempt == one.attempt else None
