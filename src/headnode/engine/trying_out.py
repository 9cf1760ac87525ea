"""Starts on paused nodes: administrators' jobs that name them, and nothing else, run there.

The policies know paused nodes as closed.  Here they are shown a cluster of only these nodes, with only the
jobs that want no others.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.paused import named_nodes
from headnode.core.model.node import NodeState
from headnode.core.model.quantities import JobId
from headnode.core.scheduling.decision import Start
from headnode.core.scheduling.node_view import NodeView
from headnode.core.scheduling.priority_fcfs import plan
from headnode.core.scheduling.view import RunningJob, View, WaitingClass


def has_paused(cluster: Cluster) -> bool:
    """Return whether a node is paused."""
    return any(node.state is NodeState.PAUSED for node in cluster.nodes.values())


def starts_on_paused(cluster: Cluster, view: View) -> tuple[Start, ...]:
    """Return the starts of administrators' jobs on paused nodes, in the order of the queue.

    Cost:  O(nodes and kinds of waiting job), and a plan of those that qualify.
    """
    paused = {name.casefold() for name, node in cluster.nodes.items() if node.state is NodeState.PAUSED}
    queue = list(_waiting(cluster, view, paused))
    if not queue:
        return ()
    nodes = {name: _opened(cluster, name, node, view) for name, node in view.nodes.items()}
    kept = {name: node for name, node in nodes.items() if name.casefold() in paused}
    running = [there for job in view.running if (there := _on(job, kept)).allocation]
    return plan(View(now=view.now, nodes=kept, queue=queue, running=running, licences=view.licences)).starts


def _waiting(cluster: Cluster, view: View, paused: set[str]) -> Iterator[WaitingClass]:
    """Yield those of the queue that an administrator submitted and that name paused nodes only."""
    for each in view.queue:
        named = named_nodes(each.request)
        if not named or not named <= paused:
            continue
        turns = tuple(turn for turn in each.turns if cluster.jobs[JobId(turn[2])].privileged)
        if turns:
            yield WaitingClass(replace(each.request, others=()), turns)


def _opened(cluster: Cluster, name: str, node: NodeView, view: View) -> NodeView:
    """Return a node as if nobody had paused it; one that is drained stays closed."""
    drained = cluster.nodes[name].closes <= view.now
    return replace(node, closed="drained" if drained else "")


def _on(job: RunningJob, nodes: dict[str, NodeView]) -> RunningJob:
    return replace(job, allocation=tuple(share for share in job.allocation if share[0] in nodes))
