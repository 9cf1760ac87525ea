"""Decide which nodes close because they cannot start what they are given.

A fault that a node names itself closes it at once.  So do start failures one after the other that are laid to
jobs, where they tell of the node: see `StartFailures`.  Both stay until an administrator resumes the node.

Source: Slurm, "scontrol": a node that fails to launch jobs is drained, with the reason, until it is resumed.
"""

from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.events import Event
from headnode.core.lifecycle.records import LONGEST_REASON, JobRecord, Run
from headnode.core.lifecycle.start_failures import MOST_NAMED, Row
from headnode.core.model.faults import Fault, fault_of, tells_of_node
from headnode.core.model.node import NodeState
from headnode.core.model.quantities import Instant

START_FAILURE_LIMIT = 10
"""After how many start failures in a row a node is drained, unless the parameter says otherwise."""


def by_fault(cluster: Cluster, node: str, said: str, now: Instant) -> list[Event]:
    """Close a node that cannot start what it is given: jobs give back what they hold there and do not use.

    The first reason stays until an administrator resumes the node.
    """
    known = cluster.nodes.get(node)
    if known is None or any(drain.cause == "fault" for drain in known.drains):
        return []
    return [e.NodeDrained(at=now, node=node, closes=now, cause="fault", reason=said[:LONGEST_REASON])]


def is_laid_to_node(cluster: Cluster, node: str, trouble: str) -> bool:
    """Whether an attempt that could not be started counts as never run: the job is not to blame.

    On a node that was drained for such failures no more of them are laid to jobs.
    """
    if fault_of(trouble) is not Fault.JOB:
        return True
    known = cluster.nodes.get(node)
    drained = known is not None and any(drain.cause == "failures" for drain in known.drains)
    return drained and tells_of_node(trouble)


def by_failures(
    cluster: Cluster, record: JobRecord, node: str, over: tuple[e.Ended, ...], now: Instant
) -> list[Event]:
    """Close a node where one attempt after the other fails to start, if that tells of the node."""
    failed = [how for how in over if how.started is None and tells_of_node(how.trouble)]
    if not failed or any(how.started is not None for how in over):
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
        f"{row.count} tasks in a row could not be started here, while others could elsewhere; "
        f"the last was {record.id}.{last.task}.{last.instance}: {last.message}"
    )
    return [e.NodeDrained(at=now, node=node, closes=now, cause="failures", reason=reason[:LONGEST_REASON])]


def _tells_of_node(
    cluster: Cluster, record: JobRecord, node: str, row: Row, failed: list[e.Ended], now: Instant
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
    if len(row.jobs) >= MOST_NAMED:
        return True
    return record.run is not None and any(_ran_elsewhere(record.run, how.task, node) for how in failed)


def _limit(cluster: Cluster) -> int:
    return int(float(cluster.parameters.get("NodeStartFailureLimit", START_FAILURE_LIMIT)))


def _others_are_open(cluster: Cluster, node: str, now: Instant) -> bool:
    return any(
        each.state is NodeState.READY and each.closes > now
        for name, each in cluster.nodes.items()
        if name != node
    )


def _ran_elsewhere(run: Run, task: int, node: str) -> bool:
    """Whether instances of a task have started on other nodes."""
    progress = run.tasks[task - 1]
    live = (each for each in progress.live.values() if each.started is not None)
    return bool(progress.finished) or any(each.place[0][0] != node for each in live)
