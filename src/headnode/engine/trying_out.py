"""Starts on paused nodes: administrators' jobs, and nothing else, start there.

The policies know paused nodes as closed.  What they leave waiting is tried on a cluster of only these nodes,
with only administrators' jobs in the queue.  No job starts on paused and other nodes at once.
"""

from collections.abc import Collection, Iterator

from msgspec.structs import replace

from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.paused import named_nodes, starts_paused
from headnode.core.model.node import NodeState
from headnode.core.model.quantities import JobId
from headnode.core.scheduling.decision import Start
from headnode.core.scheduling.easy_backfill import plan
from headnode.core.scheduling.node_view import NodeView
from headnode.core.scheduling.view import RunningJob, View, WaitingClass


def has_paused(cluster: Cluster) -> bool:
    """Return whether a node is paused."""
    return any(node.state is NodeState.PAUSED for node in cluster.nodes.values())


def starts_on_paused(cluster: Cluster, view: View, starting: Collection[JobId]) -> tuple[Start, ...]:
    """Return the starts of administrators' jobs on paused nodes; those of `starting` start elsewhere.

    Cost:  O(nodes and kinds of waiting job), and a plan of those that qualify.
    """
    paused = {name.casefold() for name, node in cluster.nodes.items() if node.state is NodeState.PAUSED}
    queue = list(_waiting(cluster, view, paused, starting))
    if not queue:
        return ()
    nodes = {name: _opened(cluster, name, node, view) for name, node in view.nodes.items()}
    kept = {name: node for name, node in nodes.items() if name.casefold() in paused}
    running = [there for job in view.running if (there := _on(job, kept)).allocation]
    return plan(View(now=view.now, nodes=kept, queue=queue, running=running, licences=view.licences)).starts


def _waiting(
    cluster: Cluster, view: View, paused: set[str], starting: Collection[JobId]
) -> Iterator[WaitingClass]:
    """Yield those of the queue that an administrator submitted and that paused nodes may do for."""
    for each in view.queue:
        named = named_nodes(each.request)
        if named and not named & paused:
            continue
        turns = tuple(turn for turn in each.turns if _may(cluster, JobId(turn[2]), starting))
        if turns:
            yield WaitingClass(replace(each.request, others=()), turns)


def _may(cluster: Cluster, job: JobId, starting: Collection[JobId]) -> bool:
    return job not in starting and starts_paused(cluster.jobs[job])


def _opened(cluster: Cluster, name: str, node: NodeView, view: View) -> NodeView:
    """Return a node as if nobody had paused it; one that is drained stays closed."""
    drained = cluster.nodes[name].closes <= view.now
    return replace(node, closed="drained" if drained else "")


def _on(job: RunningJob, nodes: dict[str, NodeView]) -> RunningJob:
    return replace(job, allocation=tuple(share for share in job.allocation if share[0] in nodes))
