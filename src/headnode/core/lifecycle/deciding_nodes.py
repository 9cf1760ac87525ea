"""Decide about nodes and cluster parameters.

Source: CCS, "Node status and life cycle".
"""

from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.arrows import NODE_ARROWS
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.deciding_drains import by_age, lifted
from headnode.core.lifecycle.deciding_losses import rebooted
from headnode.core.lifecycle.deciding_vacating import vacated
from headnode.core.lifecycle.events import Event
from headnode.core.lifecycle.hook_settings import HOOKS
from headnode.core.lifecycle.permission import must_administer
from headnode.core.model.errors import BadRequest, NotAllowed, WrongState
from headnode.core.model.node import NodeFacts, NodeState
from headnode.core.model.quantities import Instant


def register(cluster: Cluster, command: c.RegisterNode, now: Instant) -> list[Event]:
    """A node can be reached and says what it is; if it has rebooted, what it ran is lost."""
    check_facts(command.facts)
    name = command.facts.name
    known = cluster.nodes.get(name)
    if command.key != ("" if known is None else known.key):
        raise NotAllowed(
            code="node-key",
            what=f"node {name!r} is not known with this key",
            fix="join again with a new invitation: hn node invite",
        )
    aged = by_age(known, command.facts, cluster.parameters, now)
    if known is None:
        return [e.NodeRegistered(at=now, facts=command.facts, approved=command.approved), *aged]
    events: list[Event] = []
    if known.facts != known.with_settings(command.facts):
        events.append(e.NodeRegistered(at=now, facts=command.facts))
    if known.facts.boot_id and command.facts.boot_id not in ("", known.facts.boot_id):
        events += rebooted(cluster, name, frozenset(command.kept), now)
    elif command.facts.processors < known.facts.processors:
        message = f"node {name} came back with {command.facts.processors} processors"
        events += vacated(cluster, name, command.facts.processors, message, now)
    events += aged
    if known.state in (NodeState.UNREACHABLE, NodeState.LOST_PAUSED):
        events.append(e.NodeReachable(at=now, node=name))
    return events


def check_facts(facts: NodeFacts) -> None:
    """Refuse what no machine can be.

    Raises:  BadRequest ``node-facts``.
    """
    if not facts.name or facts.processors < 1 or facts.sockets < 1 or facts.memory < 0 or facts.speed < 0:
        raise BadRequest(
            code="node-facts",
            what=f"node {facts.name!r} reports {facts.processors} processors, {facts.sockets} sockets, "
            f"{facts.memory} MB of memory and {facts.speed} MHz",
            fix="give it a name, at least one processor and one socket, and no negative numbers",
        )


def vanished(cluster: Cluster, command: c.NodeVanished, now: Instant) -> list[Event]:
    """The head lost a node's connection."""
    known = cluster.nodes.get(command.node)
    if known is None or (known.state, e.NodeUnreachable) not in NODE_ARROWS:
        return []
    return [e.NodeUnreachable(at=now, node=command.node)]


NodeWish = type[e.NodeApproved] | type[e.NodePaused] | type[e.NodeResumed] | type[e.NodeRemoved]
_WISHES: dict[str, tuple[NodeWish, NodeState]] = {
    "approve": (e.NodeApproved, NodeState.READY),
    "pause": (e.NodePaused, NodeState.PAUSED),
    "resume": (e.NodeResumed, NodeState.READY),
    "remove": (e.NodeRemoved, NodeState.REMOVED),
}


def change(cluster: Cluster, command: c.ChangeNode, now: Instant) -> list[Event]:
    """An administrator changes a node; asking twice changes nothing."""
    must_administer(command.by, f"{command.wish} nodes")
    known = cluster.node(command.node)
    if command.wish not in _WISHES:
        raise BadRequest(
            code="node-wish",
            what=f"{command.wish!r} is not a command for nodes",
            fix=f"use {', '.join(_WISHES)}",
        )
    drained = any(drain.closes <= now for drain in known.drains)
    if command.wish == "approve" and known.state is NodeState.READY and drained:
        raise WrongState(
            code="node-state",
            what=f"node {command.node!r} is drained; it was approved before",
            fix=f"make it accept jobs again: hn node resume {command.node}",
        )
    kind, already = _WISHES[command.wish]
    reopened = lifted(known, command.by, now) if command.wish == "resume" else []
    if known.state is already or (reopened and (known.state, kind) not in NODE_ARROWS):
        return reopened
    if (known.state, kind) not in NODE_ARROWS:
        raise WrongState(
            code="node-state",
            what=f"node {command.node!r} is {known.state.value}, so {command.wish} is not possible",
            fix="a pending node can be approved, a ready one paused, a paused or drained one resumed",
        )
    if command.wish == "remove" and cluster.on_node(command.node):
        raise WrongState(
            code="node-busy",
            what=f"node {command.node!r} has jobs {sorted(cluster.on_node(command.node))}",
            fix="drain it and wait until they have ended, or cancel them",
        )
    return [kind(at=now, node=command.node, by=command.by.name), *reopened]


def shift_limits(cluster: Cluster, command: c.ShiftLimits, now: Instant) -> list[Event]:
    """Somebody has set the head's clock; that changes nothing where nothing runs."""
    return [e.ClockSet(at=now, by=command.by)] if cluster.running | cluster.aside else []


def skip_numbers(cluster: Cluster, command: c.SkipNumbers, now: Instant) -> list[Event]:
    """Leave out the next job numbers after a restore."""
    must_administer(command.by, "skip job numbers")
    next_job = cluster.next_job + max(0, command.count)
    return [e.NumbersSkipped(at=now, next_job=next_job, by=command.by.name)]


def set_parameter(cluster: Cluster, command: c.SetParameter, now: Instant) -> list[Event]:
    """An administrator sets a cluster parameter; the engine has checked name and value."""
    must_administer(command.by, "set cluster parameters")
    if cluster.parameters.get(command.name) == command.value:
        return []
    by = command.by
    events: list[Event] = [
        e.ParameterSet(at=now, name=command.name, value=command.value, by=by.name, origin=by.origin)
    ]
    if command.name in HOOKS:
        parameters = {**cluster.parameters, command.name: command.value}
        for known in cluster.nodes.values():
            events += by_age(known, known.facts, parameters, now)
    return events
