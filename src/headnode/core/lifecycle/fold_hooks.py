"""Apply what nodes do before a job comes to them, and after it has gone."""

from msgspec.structs import replace

from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.arrows import job_target
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.records import JobRecord, NodeRecord, Run
from headnode.core.model.errors import Broken


def _run(record: JobRecord) -> Run:
    if record.run is None:
        raise Broken(code="no-run", what=f"job {record.id} is {record.state} and has no run")
    return record.run


def enter(run: Run, readied: bool) -> None:
    """A job comes to its nodes; `readied`: they must say that they are ready for it."""
    run.readied, run.cleaning, run.forgiven = readied, {}, False
    run.unready = tuple(run.allocation) if readied else ()


def leave(run: Run, node: str) -> None:
    """A job has nothing of a node any more."""
    run.unready = tuple(other for other in run.unready if other != node)
    run.cleaning.pop(node, None)


def start_anew(run: Run, node: str) -> None:
    """A node was started anew: it must make itself ready once more for what is to come."""
    if run.readied and node in run.places and node not in run.unready:
        run.unready += (node,)


def readied(cluster: Cluster, event: e.NodeReadied) -> None:
    """A node is ready."""
    record = cluster.job(event.job)
    job_target(record.state, event)
    run = _run(record)
    run.unready = tuple(node for node in run.unready if node != event.node)
    cluster.ready_prologs.ended(record.owner, event.at)
    if event.node in cluster.nodes:
        cluster.nodes[event.node].doubt = None
    for node in [node for node, doubt in cluster.doubts.items() if doubt.job == event.job]:
        _lay_to_node(cluster, cluster.nodes[node])  # the same job was made ready elsewhere
    cluster.touched.add(event.job)


def _lay_to_node(cluster: Cluster, known: NodeRecord) -> None:
    known.drains = tuple(replace(drain, doubt=None) for drain in known.drains)
    cluster.look_whom_to_blame(known)


def cleaning(cluster: Cluster, event: e.NodesCleaning) -> None:
    """Nodes are being cleaned."""
    record = cluster.job(event.job)
    job_target(record.state, event)
    _run(record).cleaning.update(dict.fromkeys(event.nodes, event.until))
    cluster.wake_at(event.job, event.until)
    cluster.touched.add(event.job)
