"""Which nodes drain because they cannot start attempts, and how often lost work is tried again."""

from collections.abc import Mapping

from headnode.core.model.faults import Fault, fault_of, may_be_fault_of_node
from headnode.core.model.node import NodeState
from headnode.core.model.quantities import Instant, JobId
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.events import Event, NodeDrained, NodeDrainLifted, SuspectJob
from headnode.core.state.job_events import InstanceEnd, JobHeld
from headnode.core.state.job_record import JobRecord, JobRun
from headnode.core.state.node_record import MAX_NAMED, MAX_REASON, FailureStreak
from headnode.core.state.transitions import JobState

JOB_RETRY_COUNT = 3
"""How often a job goes back to the queue because it lost nodes, unless the parameter says otherwise."""

TASK_RETRY_COUNT = 3
"""How often a task that may run twice is run again after the system lost it, unless the parameter says so."""


def job_retries(cluster: ClusterState) -> int:
    """Return how often a job may go back to the queue because it lost nodes."""
    return int(float(cluster.parameters.get("JobRetryCount", JOB_RETRY_COUNT)))


def task_retries(cluster: ClusterState) -> int:
    """Return how often an instance may be run again that the system lost."""
    return int(float(cluster.parameters.get("TaskRetryCount", TASK_RETRY_COUNT)))


START_FAILURE_LIMIT = 10
"""After how many start failures in a row a node is drained, unless the parameter says otherwise."""


def drain_for_fault(cluster: ClusterState, node: str, message: str, now: Instant) -> list[Event]:
    """Drain a node that fails to start attempts; jobs release the idle processors that they hold there.

    The first reason stays until an administrator resumes the node.
    """
    known = cluster.nodes.get(node)
    if known is None or any(drain.cause == "fault" for drain in known.drains):
        return []
    return [NodeDrained(at=now, node=node, closes=now, cause="fault", reason=message[:MAX_REASON])]


def is_node_at_fault(cluster: ClusterState, node: str, trouble: str) -> bool:
    """Whether an attempt that could not be started counts as never run: the job is not to blame.

    On a node that was drained for such failures no more of them are laid to jobs.
    """
    if fault_of(trouble) is not Fault.JOB:
        return True
    known = cluster.nodes.get(node)
    drained = known is not None and any(drain.cause == "failures" for drain in known.drains)
    return drained and may_be_fault_of_node(trouble)


def drain_for_failures(
    cluster: ClusterState, record: JobRecord, node: str, over: tuple[InstanceEnd, ...], now: Instant
) -> list[Event]:
    """Close a node where one attempt after the other fails to start, if that tells of the node."""
    failed = [how for how in over if how.outcome.started is None and may_be_fault_of_node(how.outcome.fault)]
    if not failed or any(how.outcome.started is not None for how in over):
        return []
    row = cluster.start_failures.row(node, now)
    for _ in failed:
        row = row.longer(record.id, record.owner)
    limit = _limit(cluster)
    if not limit or row.count < limit or node not in cluster.nodes or cluster.nodes[node].closes <= now:
        return []
    if not _tells_of_node(cluster, record, node, row, failed, now):
        return []
    last = failed[-1]
    reason = (
        f"{row.count} tasks in a row could not start on this node, while tasks started on other nodes; "
        f"the last was {record.id}.{last.task}.{last.instance}: {last.outcome.message}"
    )
    return [NodeDrained(at=now, node=node, closes=now, cause="failures", reason=reason[:MAX_REASON])]


def _tells_of_node(
    cluster: ClusterState,
    record: JobRecord,
    node: str,
    row: FailureStreak,
    failed: list[InstanceEnd],
    now: Instant,
) -> bool:
    """Whether start failures are more likely the node's than the jobs'.

    They are when attempts start on other nodes meanwhile, of the same task or while several jobs fail here.
    A user whose jobs alone fail closes no node that others use, and the last open node stays open.
    """
    known = cluster.start_failures
    if not _others_are_open(cluster, node, now) or not known.started_elsewhere(node, row.since):
        return False
    if len(row.owners) == 1 and known.others_ran(row.owners, row.since):
        return False
    if len(row.jobs) >= MAX_NAMED:
        return True
    return record.run is not None and any(_ran_elsewhere(record.run, how.task, node) for how in failed)


def _limit(cluster: ClusterState) -> int:
    return int(float(cluster.parameters.get("NodeStartFailureLimit", START_FAILURE_LIMIT)))


def _others_are_open(cluster: ClusterState, node: str, now: Instant) -> bool:
    return any(
        each.state is NodeState.READY and each.closes > now
        for name, each in cluster.nodes.items()
        if name != node
    )


def _ran_elsewhere(run: JobRun, task: int, node: str) -> bool:
    """Whether instances of a task have started on other nodes."""
    progress = run.tasks[task - 1]
    live = (each for each in progress.live.values() if each.started is not None)
    return bool(progress.finished) or any(each.placement[0][0] != node for each in live)


MAX_NODES = 2  # that prologs of one owner's jobs drain before these jobs are held
HOLD = "system"  # the name of the hold: operators and administrators release it
NOBODY = ""  # the owner of jobs that are over, who is not known any more
NO_JOB = JobId(0)
_MAX_MESSAGE = 320  # characters, as of holds that people set


def in_doubt(cluster: ClusterState, node: str, job: JobId, now: Instant) -> SuspectJob | None:
    """Return a doubt if a job may be to blame for a prolog that failed on a node; None if the node is."""
    known, record = cluster.nodes[node], cluster.jobs.get(job)
    if any(drain.cause == "hook" and drain.suspect is None for drain in known.drains):
        return None
    if record is None:  # it was canceled meanwhile
        return SuspectJob(job, NOBODY, now)
    if _is_ready_elsewhere(record, node):
        return None
    before = cluster.suspects.get(node) or known.suspect
    if before is not None and _prologs_tell_of_node(cluster, before, record):
        return None
    return SuspectJob(record.id, record.owner, now)


def is_held_for_prologs(record: JobRecord | None) -> bool:
    """Whether a job is held because of its prologs: what its last nodes still report is known."""
    return record is not None and any(hold.name == HOLD and not hold.by for hold in record.holds)


def requeue_held_for_prologs(
    cluster: ClusterState, record: JobRecord, message: str, now: Instant
) -> list[Event]:
    """Return what follows where a job goes back to the queue, as `blame_for_prolog` does."""
    if all(doubt.job != record.id for doubt in cluster.suspects.values()):
        return []
    return blame_for_prolog(cluster, record.owner, message, now, cluster.suspects, record.id)


def blame_for_prolog(
    cluster: ClusterState,
    owner: str,
    said: str,
    now: Instant,
    doubts: Mapping[str, SuspectJob],
    returning: JobId = NO_JOB,
) -> list[Event]:
    """Return what holds the jobs of an owner whose prologs failed on too many nodes, and frees these nodes.

    said:       what the last prolog said
    doubts:     nodes that are drained, or are just before, while a job may be to blame
    returning:  a job that is put into the queue just before
    """
    nodes = {node: doubt for node, doubt in sorted(doubts.items()) if doubt.owner == owner}
    if len(nodes) < MAX_NODES:
        return []
    message = f"prologs failed on {len(nodes)} nodes ({', '.join(nodes)}), only for jobs of {owner}: {said}"
    jobs = sorted({doubt.job for doubt in nodes.values()})
    held = [job for job in jobs if job == returning or _waits(cluster.jobs.get(job))]
    return [
        *(JobHeld(at=now, job=job, name=HOLD, message=message[:_MAX_MESSAGE]) for job in held),
        *(NodeDrainLifted(at=now, node=node, cause="hook", suspect=doubt) for node, doubt in nodes.items()),
    ]


def _waits(record: JobRecord | None) -> bool:
    return record is not None and record.state is JobState.QUEUED


def _is_ready_elsewhere(record: JobRecord, node: str) -> bool:
    run = record.run
    if run is None or not run.prolog:
        return False
    return any(other != node and other not in run.unready for other in run.places)


def _prologs_tell_of_node(cluster: ClusterState, before: SuspectJob, record: JobRecord) -> bool:
    """Whether a node is to blame that has failed another job before, and made no job ready since.

    Several jobs of one owner tell nothing of the node where others have jobs, which will tell, or where
    prologs of others have ended well meanwhile.
    """
    if before.job == record.id or before.owner == NOBODY:
        return False
    if before.owner != record.owner:
        return True
    if any(other.owner != record.owner for other in cluster.jobs.values()):
        return False
    return not cluster.ready_prologs.others_since(record.owner, before.since)
