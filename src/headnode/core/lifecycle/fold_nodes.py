"""Apply the events of nodes."""

from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.arrows import node_target
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.fold_hooks import start_anew
from headnode.core.lifecycle.fold_stays import forget
from headnode.core.lifecycle.records import Drain, Invitation, NodeRecord, Stay
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
        if event.facts.boot_id not in ("", known.facts.boot_id) and known.facts.boot_id:
            _forget_preparations(cluster, event.facts.name)
        known.facts = known.with_settings(event.facts)
    cluster.open_node(known)
    cluster.look_who_must_leave(event.facts.name)
    cluster.look_who_is_served()


def _forget_preparations(cluster: Cluster, node: str) -> None:
    """What was prepared on a node was prepared for the time until it was started anew."""
    for job in cluster.on_node(node):
        run = cluster.jobs[job].run
        if run is not None:
            start_anew(run, node)
        if run is not None and run.stays.get(node) is Stay.READY:
            forget(run, node)
            cluster.touched.add(job)


def invited(cluster: Cluster, event: e.NodeInvited) -> None:
    """Somebody may join; invitations that have expired are forgotten."""
    for digest in [each.digest for each in cluster.invitations.values() if each.expires <= event.at]:
        del cluster.invitations[digest]
    cluster.invitations[event.digest] = Invitation(event.digest, event.expires, event.approve, event.name)


def key_pinned(cluster: Cluster, event: e.NodeKeyPinned) -> None:
    """A node is known by its key, and its invitation is used up."""
    cluster.node(event.node).key = event.key
    cluster.invitations.pop(event.invitation, None)


def described(cluster: Cluster, event: e.NodeSet) -> None:
    """An administrator said what is known of a node."""
    known = cluster.node(event.node)
    known.groups = known.groups if event.groups is None else event.groups
    known.features = known.features if event.features is None else event.features
    known.comment = known.comment if event.comment is None else event.comment
    known.facts = known.with_settings(known.facts)
    cluster.open_node(known)


def moved(cluster: Cluster, event: e.NodeFact) -> None:
    """A node is in another state."""
    known = cluster.node(event.node)
    known.state = node_target(known.state, event)
    known.since = event.at
    cluster.redraw_nodes.add(event.node)
    cluster.bookings.look_at(event.node)
    cluster.touched |= cluster.holders.get(event.node, set())  # their tasks may go there now, or no longer
    cluster.pass_needed = True


def drained(cluster: Cluster, event: e.NodeDrained) -> None:
    """A node closes, now or later."""
    known = cluster.node(event.node)
    drain = Drain(event.cause, event.at, event.closes, event.reason, event.by, event.force, event.doubt)
    _set_drains(cluster, known, (*_without(known, event.cause), drain))


def drain_lifted(cluster: Cluster, event: e.NodeDrainLifted) -> None:
    """A node does not close for this cause."""
    known = cluster.node(event.node)
    cluster.start_failures.forget(event.node)
    if event.cause == "hook":
        known.doubt = event.doubt
    _set_drains(cluster, known, _without(known, event.cause))


def _without(known: NodeRecord, cause: e.DrainCause) -> tuple[Drain, ...]:
    return tuple(drain for drain in known.drains if drain.cause != cause)


def _set_drains(cluster: Cluster, known: NodeRecord, drains: tuple[Drain, ...]) -> None:
    known.drains = drains
    cluster.look_whom_to_blame(known)
    cluster.look_who_must_leave(known.facts.name)
    cluster.redraw_nodes.add(known.facts.name)
    cluster.pass_needed = True


def removed(cluster: Cluster, event: e.NodeRemoved) -> None:
    """A node is gone for good."""
    known = cluster.node(event.node)
    node_target(known.state, event)
    del cluster.nodes[event.node]
    cluster.doubts.pop(event.node, None)
    cluster.start_failures.forget(event.node)
    cluster.look_who_is_served()
    cluster.bookings.look_at(event.node)
    cluster.redraw_nodes.add(event.node)
    cluster.free.pop(event.node, None)
    cluster.reduced.discard(event.node)
    cluster.pass_needed = True
