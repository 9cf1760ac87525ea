"""Cancel every job before the head ends, in steps that leave room for other requests."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from typing import Final

from headnode.apps.server.server_context import ServerContext
from headnode.core.model.bounds import MB
from headnode.core.model.quantities import JobId
from headnode.core.model.user import User
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.job_record import started_run
from headnode.core.state.node_loss import LOST
from headnode.core.state.stop import StopJob
from headnode.core.state.transitions import ACTIVE, JobState
from headnode.protocol.cluster_answers import UnendedJob

JOBS_AT_ONCE: Final = 200  # canceled in one step: others are answered between the steps
BYTES_AT_ONCE: Final = MB  # of their descriptions
ANSWER_TIME: Final = 10.0  # seconds for nodes and resources to say that all is stopped


async def cancel_all_jobs(context: ServerContext, by: User) -> list[UnendedJob]:
    """Cancel all jobs that wait or run, some at a time, and wait until nothing runs.

    Nothing starts meanwhile.  Jobs at unreachable nodes are not waited for, others no longer than the grace
    period of tasks and `ANSWER_TIME`.  Return the jobs that have not ended.
    Raises:  Unavailable if the journal cannot be written; then jobs start again.
    """
    context.engine.close(closing=True)
    ends = False
    try:
        asked: set[JobId] = set()
        while jobs := [job for job in _running_first(context.cluster) if job not in asked]:
            for some in _in_steps(context.cluster, jobs):
                await context.ask_together([_canceled(by, job) for job in some])
            asked.update(jobs)
        until = time.monotonic() + context.engine.settings.number("TaskCancelGracePeriod") + ANSWER_TIME
        while _can_end(context.cluster) and time.monotonic() < until:
            await asyncio.sleep(0.02)
        ends = True
        return [
            UnendedJob(job, sorted(_places(context.cluster, job))) for job in sorted(context.cluster.graphs)
        ]
    finally:
        if not ends:
            context.engine.close(closing=False)
            context.batcher.set_alarm()


def _can_end(cluster: ClusterState) -> bool:
    """Return True if a job that has not ended is at a node that can be reached, or at a resource."""
    nodes = cluster.nodes
    return any(
        not places or any(name not in nodes or nodes[name].state not in LOST for name in places)
        for places in (_places(cluster, job) for job in cluster.graphs)
    )


def _places(cluster: ClusterState, job: JobId) -> set[str]:
    """Return the nodes where something of a job is, or the resource."""
    run = started_run(cluster.jobs[job])
    live = (live for each in run.tasks for live in each.live.values())
    return {name for one in live for name, _ in one.placement} | set(run.holdings)


def _canceled(by: User, job: JobId) -> StopJob:
    return StopJob(by=by, job=job, outcome="canceled", message="the cluster went down")


def _running_first(cluster: ClusterState) -> list[JobId]:
    """Return the jobs that run and those that wait."""
    states = {job: record.state for job, record in cluster.jobs.items()}
    running = [job for job, state in states.items() if state in ACTIVE or state is JobState.ENDING]
    return [*running, *(job for job, state in states.items() if state is JobState.QUEUED)]


def _in_steps(cluster: ClusterState, jobs: Sequence[JobId]) -> Iterator[list[JobId]]:
    """Yield the jobs, as many at a time as one step may have."""
    some: list[JobId] = []
    size = 0
    for job in jobs:
        some.append(job)
        size += len(cluster.jobs[job].spec) if job in cluster.jobs else 0
        if len(some) >= JOBS_AT_ONCE or size >= BYTES_AT_ONCE:
            yield some
            some, size = [], 0
    if some:
        yield some
