"""Apply the events of nodes."""

from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.arrows import node_target
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.records import NodeRecord
from headnode.core.model.node import NodeState


def registered(cluster: Cluster, event: e.NodeRegistered) -> None:
    """A node is new, or says something new of itself."""
    known = cluster.nodes.get(event.facts.name)
    if known is None:
        wanted = NodeState.READY if event.approved else NodeState.PENDING
        known = NodeRecord(facts=event.facts, state=node_target(None, event, wanted), since=event.at)
        cluster.nodes[event.facts.name] = known
    else:
        known.state = node_target(known.state, event)
        known.facts = event.facts
    cluster.open_node(known)


def moved(cluster: Cluster, event: e.NodeFact) -> None:
    """A node is in another state."""
    known = cluster.node(event.node)
    known.state = node_target(known.state, event)
    known.since = event.at
    cluster.redraw_nodes.add(event.node)
    cluster.touched |= cluster.holders.get(event.node, set())  # their tasks may go there now, or no longer
    cluster.pass_needed = True


def removed(cluster: Cluster, event: e.NodeRemoved) -> None:
    """A node is gone for good."""
    known = cluster.node(event.node)
    node_target(known.state, event)
    del cluster.nodes[event.node]
    cluster.redraw_nodes.add(event.node)
    cluster.free.pop(event.node, None)
    cluster.pass_needed = True
