"""What starts on paused nodes.

The policies know paused nodes as closed.  What they leave waiting is tried on a cluster of only these nodes,
with only administrators' jobs in the queue.  No job starts on paused and other nodes at once.
"""

from collections.abc import Collection, Iterator

from msgspec.structs import replace

from headnode.core.model.node import NodeState
from headnode.core.model.quantities import JobId
from headnode.core.scheduling.node_view import NodeView
from headnode.core.scheduling.plan import Start
from headnode.core.scheduling.policies import plan_easy
from headnode.core.scheduling.view import RunningJob, View, WaitingClass
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.prep_release import named_nodes, starts_paused


def paused_node_starts(cluster: ClusterState, view: View, starting: Collection[JobId]) -> tuple[Start, ...]:
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
    return plan_easy(
        View(now=view.now, nodes=kept, queue=queue, running=running, licences=view.licences)
    ).starts


def _waiting(
    cluster: ClusterState, view: View, paused: set[str], starting: Collection[JobId]
) -> Iterator[WaitingClass]:
    """Yield those of the queue that an administrator submitted and that paused nodes may do for."""
    for each in view.queue:
        named = named_nodes(each.request)
        if named and not named & paused:
            continue
        jobs = cluster.jobs
        turns = tuple(t for t in each.turns if t.job not in starting and starts_paused(jobs[t.job]))
        if turns:
            yield WaitingClass(replace(each.request, alternatives=()), turns, each.owner, each.project)


def _opened(cluster: ClusterState, name: str, node: NodeView, view: View) -> NodeView:
    """Return a node as if it were not paused; a drained node stays closed."""
    return replace(node, closed="drained" if cluster.nodes[name].closes <= view.now else "")


def _on(job: RunningJob, nodes: dict[str, NodeView]) -> RunningJob:
    return replace(job, allocation=tuple(share for share in job.allocation if share[0] in nodes))
