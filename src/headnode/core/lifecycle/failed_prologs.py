"""Decide whose fault a failed prolog is: the node's, or the job's.

A prolog that fails drains its node at once.  That is the node's fault for certain if the prolog of the same
job has ended well on another node, or if the node has failed jobs of several owners in a row, or several
jobs where all are one owner's.  Until then it may be the job's: a prolog reads the job's name, project,
template and work directory.

If prologs of one owner's jobs have failed on `MOST_NODES` nodes and none of that is certain, these jobs are
what is common: they are held, and the nodes take jobs again.  So no job, and no owner, drains a cluster.

Source: Slurm, "Prolog and Epilog Guide": a failed prolog drains the node, and the job is requeued and held.
"""

from collections.abc import Mapping

from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.events import Doubt, Event
from headnode.core.lifecycle.records import JobRecord
from headnode.core.lifecycle.states import JobState
from headnode.core.model.quantities import Instant, JobId

MOST_NODES = 2  # that prologs of one owner's jobs drain before these jobs are held
HOLD = "system"  # the name of the hold: operators and administrators release it
NOBODY = ""  # the owner of jobs that are over, who is not known any more
NO_JOB = JobId(0)
_LONGEST_MESSAGE = 320  # characters, as of holds that people set


def in_doubt(cluster: Cluster, node: str, job: JobId, now: Instant) -> Doubt | None:
    """Return a doubt if a job may be to blame for a prolog that failed on a node; None if the node is."""
    known, record = cluster.nodes[node], cluster.jobs.get(job)
    if any(drain.cause == "hook" and drain.doubt is None for drain in known.drains):
        return None
    if record is None:  # it was canceled meanwhile
        return Doubt(job, NOBODY, now)
    if _is_ready_elsewhere(record, node):
        return None
    before = cluster.doubts.get(node) or known.doubt
    if before is not None and _tells_of_node(cluster, before, record):
        return None
    return Doubt(record.id, record.owner, now)


def is_held_for_prologs(record: JobRecord | None) -> bool:
    """Whether a job is held because of its prologs: what its last nodes still report is known."""
    return record is not None and any(hold.name == HOLD and not hold.by for hold in record.holds)


def goes_back(cluster: Cluster, record: JobRecord, said: str, now: Instant) -> list[Event]:
    """Return what follows where a job goes back to the queue, as `blamed` does."""
    if all(doubt.job != record.id for doubt in cluster.doubts.values()):
        return []
    return blamed(cluster, record.owner, said, now, cluster.doubts, record.id)


def blamed(
    cluster: Cluster,
    owner: str,
    said: str,
    now: Instant,
    doubts: Mapping[str, Doubt],
    returning: JobId = NO_JOB,
) -> list[Event]:
    """Return what holds the jobs of an owner whose prologs failed on too many nodes, and frees these nodes.

    said:       what the last prolog said
    doubts:     nodes that are drained, or are just before, while a job may be to blame
    returning:  a job that is put into the queue just before
    """
    nodes = {node: doubt for node, doubt in sorted(doubts.items()) if doubt.owner == owner}
    if len(nodes) < MOST_NODES:
        return []
    message = f"prologs failed on {len(nodes)} nodes ({', '.join(nodes)}), only for jobs of {owner}: {said}"
    jobs = sorted({doubt.job for doubt in nodes.values()})
    held = [job for job in jobs if job == returning or _waits(cluster.jobs.get(job))]
    return [
        *(e.JobHeld(at=now, job=job, name=HOLD, message=message[:_LONGEST_MESSAGE]) for job in held),
        *(e.NodeDrainLifted(at=now, node=node, cause="hook", doubt=doubt) for node, doubt in nodes.items()),
    ]


def _waits(record: JobRecord | None) -> bool:
    return record is not None and record.state is JobState.QUEUED


def _is_ready_elsewhere(record: JobRecord, node: str) -> bool:
    run = record.run
    if run is None or not run.readied:
        return False
    return any(other != node and other not in run.unready for other in run.places)


def _tells_of_node(cluster: Cluster, before: Doubt, record: JobRecord) -> bool:
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
