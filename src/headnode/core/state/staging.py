"""What follows for a job while only files are transferred: its limit stands still, it needs no processors.

The release is a suspension by the system, of a job whose programs have not started (decision 0040).
"""

from headnode.core.model.quantities import Instant, Seconds
from headnode.core.state import suspension_events as sj
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.job_record import JobRecord, JobRun, LiveAttempt
from headnode.core.state.job_request import STAGING_WAKE_UP, hold_end, set_limits
from headnode.core.state.task_graph import TaskGraph


def keep_limit(cluster: ClusterState, record: JobRecord, run: JobRun, at: Instant) -> None:
    """Count the time in which nothing of a job runs but transfers: its run time limit stands still.

    A suspension counts as a whole when it is over (`end_suspension`).  Before the first of a job has started
    at a resource, no limit counts.
    """
    if not run.stages or run.started is None or (run.suspension is not None and run.suspension.allocation):
        return
    lives = _lives(run)
    only_transfers = bool(lives) and all(live.staging for live in lives)
    if only_transfers is (run.staged_since is not None):
        return
    if run.staged_since is None:
        run.staged_since = at
        cluster.agenda.wake_ups.set((record.id, STAGING_WAKE_UP), hold_end(cluster.parameters, at))
    else:
        run.staged_time = Seconds(run.staged_time + max(0.0, at - run.staged_since))
        run.staged_since = None
    set_limits(run, cluster.spec(record))
    cluster.agenda.set_deadline(record.id, run.deadline)


def may_release(cluster: ClusterState, graph: TaskGraph, now: Instant) -> bool:
    """Whether a job has long enough held processors for which it only waits for files.

    Not while its nodes are made ready for it or are cleaned, nor while they are taken from it.
    """
    run = graph.run
    if run.staged_since is None or not run.allocation or run.end is not None or cluster.agenda.closing:
        return False
    if now < hold_end(cluster.parameters, run.staged_since) or any(
        live.staging != "in" for live in _lives(run)
    ):
        return False
    return not (graph.tends_nodes or run.unready or run.cleaning or run.recalled)


def brought(run: JobRun) -> bool:
    """Whether a job that was suspended for the transfers to its nodes can go on: not all of them go on."""
    lives = _lives(run)
    return not lives or any(live.staging != "in" for live in lives)


def go_on(cluster: ClusterState, record: JobRecord, run: JobRun, at: Instant) -> None:
    """Start what has its files: the job has processors again."""
    for live in _lives(run):
        if live.staging == "ready":
            live.staging = ""
    keep_limit(cluster, record, run, at)


def resume_when_brought(record: JobRecord, graph: TaskGraph, now: Instant) -> list[sj.JobResuming]:
    """Return what queues a job for its processors when the files of one of its tasks are there."""
    run = graph.run
    if run.suspension is None or not run.suspension.staging or run.end is not None or not brought(run):
        return []
    return [sj.JobResuming(at=now, job=record.id, staging=True)]


def _lives(run: JobRun) -> list[LiveAttempt]:
    return [live for progress in run.tasks for live in progress.live.values()]
