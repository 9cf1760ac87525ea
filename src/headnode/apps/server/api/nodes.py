"""The verbs about nodes: their state and history, draining, inviting, describing and removing them."""

import asyncio
import time
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from headnode.apps.server.api.verbs import ADMINISTERS, READS, secret_again, verb
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.bounds import HISTORY_PAGE
from headnode.core.model.errors import BadRequest, WrongState
from headnode.core.model.node import NodeFacts, NodeState
from headnode.core.model.quantities import Instant, instant_text
from headnode.core.model.task import public_command
from headnode.core.model.user import User
from headnode.core.state import events as e
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.drain import DrainNode
from headnode.core.state.events import Event
from headnode.core.state.join import InviteNode, SetNode
from headnode.core.state.node_record import Drain, NodeRecord
from headnode.core.state.nodes import ChangeNode
from headnode.core.state.permissions import must_administer
from headnode.core.state.start import exclusive_holder, gpus_held
from headnode.protocol import requests as w
from headnode.protocol.answers import HistoryAnswer, HistoryEntry
from headnode.protocol.cluster_answers import (
    ClusterCounts,
    NextReservation,
    ProcessorTotals,
    RemovedAnswer,
)
from headnode.protocol.node_answers import (
    CoreUse,
    DetailedNode,
    InvitationAnswer,
    NodeAnswer,
    NodeDrain,
    NodeObject,
    NodeReservedTime,
    NodesAnswer,
    Oversubscription,
)

_STATE_WORDS = {
    NodeState.PENDING: "Pending",
    NodeState.READY: "Ready",
    NodeState.PAUSED: "Paused",
    NodeState.UNREACHABLE: "Unreachable",
    NodeState.LOST_PAUSED: "Unreachable",
}


NODE_WORDS = ("Pending", "Ready", "Paused", "Draining", "Drained", "Unreachable")
"""Every state of a node that people see.  One that drains is Drained once no job has anything of it."""


def node_state(cluster: ClusterState, node: NodeRecord, now: Instant) -> str:
    """Return the word people see."""
    if node.state not in (NodeState.READY, NodeState.PAUSED) or node.closes > now:
        return _STATE_WORDS[node.state]
    return "Draining" if cluster.on_node(node.facts.name) else "Drained"


NodeForm = TypeVar("NodeForm", bound=NodeObject)


def node_object(
    kind: type[NodeForm], cluster: ClusterState, node: NodeRecord, now: Instant, **more: Any
) -> NodeForm:
    """Return a node as clients see it, with `more` fields of its kind."""
    facts, name = node.facts, node.facts.name
    free = len(cluster.cores.free_on(name))
    return kind(
        name=name,
        state=node_state(cluster, node, now),
        since=node.since,
        processors=facts.processors,
        sockets=facts.sockets,
        cores_per_socket=facts.cores_per_socket,
        threads_per_core=facts.threads_per_core,
        memory=facts.memory,
        speed=facts.speed,
        disk=facts.disk,
        swap=facts.swap,
        gpus=facts.gpus,
        gpus_held=gpus_held(cluster, facts),
        only_user=facts.only_user,
        used=facts.processors - free,
        free=free,
        groups=list(facts.groups),
        features=list(facts.features),
        architecture=facts.architecture,
        system=facts.system,
        control_groups=facts.control_groups,
        enforced=list(facts.enforced),
        machine_processors=list(facts.machine_processors),
        exclusive=exclusive_holder(cluster, name),
        comment=node.comment,
        remote=bool(node.key),
        version=facts.version,
        address=facts.address,
        reservations=_reserved(cluster, name, now),
        oversubscribed=[Oversubscription(*each) for each in cluster.cores.overdrawn(name).items()],
        drains=[_drain(drain) for drain in sorted(node.drains, key=lambda drain: drain.closes)],
        **{"jobs": len(cluster.cores.holders.get(name, ()))} | more,
    )


def _reserved(cluster: ClusterState, name: str, now: Instant) -> list[NodeReservedTime]:
    there = cluster.reservation_index.on.get(name, ())
    return [
        NodeReservedTime(each.name, each.start, each.end, each.says()) for each in there if each.end > now
    ]


def _drain(drain: Drain) -> NodeDrain:
    return NodeDrain(drain.closes, drain.since, drain.cause, drain.reason, drain.by, drain.force)


def core_uses(cluster: ClusterState, name: str, processors: int) -> list[CoreUse]:
    """Return the processors of a node and those it has no more but jobs hold, each with what runs there."""
    held = [
        max(cluster.graph(job).run.allocation.get(name) or (0,))
        for job in cluster.cores.holders.get(name, ())
    ]
    most = max([processors - 1, *held]) + 1  # some may be held that the node has no more
    cores: list[dict[str, Any]] = [
        {"processor": number, "job": None, "task": None, "command": ""} for number in range(most)
    ]
    for job in cluster.cores.holders.get(name, ()):
        graph = cluster.graph(job)
        for number in graph.run.allocation.get(name, ()):
            cores[number]["job"] = job
        for index, progress in enumerate(graph.run.tasks):
            for live in progress.live.values():
                for node, numbers in live.placement:
                    for number in numbers if node == name else ():
                        command = public_command(graph.spec.tasks[index].command)
                        cores[number] |= {"task": index + 1, "command": command}
    there = (core for core in cores if core["processor"] < processors or core["job"] is not None)
    return [CoreUse(**core) for core in there]


def _next_reservation(cluster: ClusterState, now: Instant) -> NextReservation | None:
    """Return what there is of the reservation that began first, or will."""
    coming = [each for each in cluster.reservation_index.named.values() if each.end > now]
    first = min(coming, key=lambda each: (each.start, each.key), default=None)
    if first is None:
        return None
    return NextReservation(first.name, first.start, first.end, len(first.nodes))


def cluster_counts(cluster: ClusterState, now: Instant) -> ClusterCounts:
    """Return nodes by state, processors, and how many tasks run.  Only those of ready nodes are free."""
    by_state: dict[str, int] = {}
    total = ready = free = used = 0
    for name, node in cluster.nodes.items():
        state = node_state(cluster, node, now)
        by_state[state] = by_state.get(state, 0) + 1
        processors, idle = node.facts.processors, len(cluster.cores.free_on(name))
        total += processors
        used += processors - idle
        if state == _STATE_WORDS[NodeState.READY]:
            ready += processors
            free += idle
    live = sum(len(progress.live) for job in cluster.graphs for progress in cluster.graph(job).run.tasks)
    return ClusterCounts(
        nodes=by_state,
        processors=ProcessorTotals(total, ready, free, used),
        tasks_running=live,
        next_reservation=_next_reservation(cluster, now),
    )


_COMPARED = (
    "processors",
    "sockets",
    "cores_per_socket",
    "threads_per_core",
    "memory",
    "disk",
    "swap",
    "gpus",
    "version",
    "address",
    "control_groups",
)
_TOLD_LATER = ("version", "address")  # a machine that joins has not dialed as a node yet
_DRAINED = {
    "health": "Drained by its health check",
    "hook": "Drained by a hook",
    "bad-report": "Drained for an invalid report",
    "fault": "Drained by a fault of the node",
    "failures": "Drained by start failures",
}
_WORDS: dict[type[Event], str] = {
    e.NodeApproved: "Approved",
    e.NodePaused: "Paused",
    e.NodeResumed: "Resumed",
    e.NodeRemoved: "Removed",
    e.NodeUnreachable: "Unreachable",
    e.NodeReachable: "Reachable again",
    e.NodeKeyPinned: "Joined with a key of its own",
}


def node_sentences(events: Iterable[Event]) -> Iterator[tuple[Instant, str]]:
    """Yield when something happened to one node, and what, in the order of the events."""
    facts: NodeFacts | None = None
    for event in events:
        if isinstance(event, e.NodeRegistered):
            if text := _registered(facts, event):
                yield event.at, text
            facts = event.facts
        elif text := _sentence(event):
            yield event.at, text
        if isinstance(event, e.NodeRemoved):
            facts = None


def _registered(before: NodeFacts | None, event: e.NodeRegistered) -> str:
    now = event.facts
    if before is None:
        count = f"{now.processors} processor{'s' if now.processors != 1 else ''}"
        return f"Registered with {count}" + ("" if event.approved else ", not yet approved")
    changed = [
        f"{name} {getattr(before, name) or 'none'} to {getattr(now, name) or 'none'}"
        for name in _COMPARED
        if getattr(before, name) != getattr(now, name)
        and not (name in _TOLD_LATER and not getattr(before, name))
    ]
    rebooted = before.boot_id and now.boot_id != before.boot_id
    sentence = "Its machine was rebooted" if rebooted else "Registered anew"
    return f"{sentence}: {', '.join(changed)}" if changed else sentence if rebooted else ""


def _sentence(event: Event) -> str:
    by = f" by {user}" if (user := getattr(event, "by", "")) else ""
    match event:
        case e.NodeDrained(cause=cause, closes=closes, reason=reason, force=force):
            sentence = _DRAINED.get(cause, f"Drained{by}") + (", by force" if force else "")
            sentence += f", from {instant_text(closes)} on" if closes > event.at else ""
            return f"{sentence}: {reason}" if reason else sentence
        case e.NodeDrainLifted(cause=cause) if not by:
            return "Its health check succeeds again" if cause == "health" else f"Drain lifted ({cause})"
        case e.NodeDrainLifted():
            return f"Drain lifted{by}"
        case e.NodeModified(groups=groups, features=features, comment=comment):
            changes = {"groups": groups, "features": features, "comment": comment}
            named = [name for name, value in changes.items() if value is not None]
            return f"Set{by}: {', '.join(named)}"
        case _:
            return _WORDS[type(event)] + by if type(event) in _WORDS else ""


EMPTYING_TIME = 5.0  # seconds for a node that is taken offline by force to tell that nothing runs there
BETWEEN_EMPTY_CHECKS = 0.02  # seconds


@verb(READS)
async def nodes(context: ServerContext, by: User, request: w.ListNodesRequest) -> NodesAnswer:  # noqa: ARG001
    """Show the nodes."""
    wanted = {state.strip().lower() for state in request.states} - {"all", "*", ""}
    known = {word.lower() for word in NODE_WORDS}
    if wanted - known:
        raise BadRequest(
            code="state",
            what=f"{sorted(wanted - known)[0]!r} is not a state of a node",
            fix=f"use {', '.join(NODE_WORDS)} or all",
        )
    now = context.now()
    objects = [
        node_object(NodeObject, context.cluster, node, now)
        for _, node in sorted(context.cluster.nodes.items())
        if not wanted or node_state(context.cluster, node, now).lower() in wanted
    ]
    return NodesAnswer(objects)


@verb(READS)
async def node(context: ServerContext, by: User, request: w.NodeNameRequest) -> NodeAnswer:  # noqa: ARG001
    """Show one node."""
    return NodeAnswer(node_answer(context, request.node))


def node_answer(context: ServerContext, name: str) -> DetailedNode:
    """Return a node with its jobs and processors, when it was heard last, and when it will be given up."""
    cluster, now, contact = context.cluster, context.now(), context.contacts.get(name)
    node, left = cluster.node(name), context.given_up_in(name)
    return node_object(
        DetailedNode,
        cluster,
        node,
        now,
        jobs=sorted(cluster.cores.holders.get(name, ())),
        cores=core_uses(cluster, name, node.facts.processors),
        last_heartbeat=None if contact is None else contact.at,
        load=None if contact is None else contact.load,
        tasks_lost_at=None if left is None else now + left,
    )


@verb(READS)
async def node_history(context: ServerContext, by: User, request: w.NodeHistoryRequest) -> HistoryAnswer:  # noqa: ARG001
    """Show what happened to a node, also to one that was removed."""
    events = context.lookups.archive.node_history(request.node, min(max(1, request.limit), HISTORY_PAGE.most))
    if not events:
        context.cluster.node(request.node)  # refuses an unknown name
    return HistoryAnswer([HistoryEntry(at, text) for at, text in node_sentences(events)])


@verb(ADMINISTERS)
async def approve_node(context: ServerContext, by: User, request: w.NodeNameRequest) -> NodeAnswer:
    """Let a pending node take jobs."""
    return await _change_node(context, by, request, "approve")


@verb(ADMINISTERS)
async def pause_node(context: ServerContext, by: User, request: w.NodeNameRequest) -> NodeAnswer:
    """Start no new jobs on a node."""
    return await _change_node(context, by, request, "pause")


@verb(ADMINISTERS)
async def resume_node(context: ServerContext, by: User, request: w.NodeNameRequest) -> NodeAnswer:
    """Let a paused or drained node take jobs again."""
    return await _change_node(context, by, request, "resume")


@verb(ADMINISTERS)
async def drain_node(context: ServerContext, by: User, request: w.DrainNodeRequest) -> NodeAnswer:
    """Start no new jobs on a node but those that end by a date; with `force` its tasks are stopped then."""
    closes = None if request.closes is None else Instant(request.closes)
    await context.ask(
        DrainNode(by=by, node=request.node, closes=closes, reason=request.reason, force=request.force)
    )
    if request.force:
        await _until_empty(context, request.node)
    return NodeAnswer(node_answer(context, request.node))


async def _until_empty(context: ServerContext, node: str) -> None:
    """Wait until no job holds processors of a node, but not long: its agent may not answer."""
    until = time.monotonic() + EMPTYING_TIME
    while context.cluster.on_node(node) and time.monotonic() < until:
        await asyncio.sleep(BETWEEN_EMPTY_CHECKS)


async def _change_node(context: ServerContext, by: User, request: w.NodeNameRequest, what: str) -> NodeAnswer:
    await context.ask(ChangeNode(by=by, node=request.node, action=what))
    return NodeAnswer(node_answer(context, request.node))


def new_invitation(context: ServerContext) -> tuple[str, str]:
    """Return an invitation to this head, and the digest of its secret.

    Raises:  WrongState ``not-listening``.
    """
    if context.network is None:
        raise WrongState(
            code="not-listening",
            what="the head does not listen for other machines",
            fix="start it again with: hn down; hn up --listen HOST",
        )
    return context.network.invitation()


@verb(ADMINISTERS, again=secret_again)
async def invite_node(context: ServerContext, by: User, request: w.InviteNodeRequest) -> InvitationAnswer:
    """Make an invitation, which works once, or once for each of `nodes`."""
    must_administer(by, "invite nodes")
    invitation, digest = new_invitation(context)
    expires = Instant(context.now() + request.lifetime)
    node, nodes, approve = request.node, request.nodes, request.approve
    await context.ask(InviteNode(by, digest, expires, approve, node=node, nodes=tuple(nodes)))
    return InvitationAnswer(invitation, expires, approve, node, nodes)


@verb(ADMINISTERS)
async def modify_node(context: ServerContext, by: User, request: w.SetNodeRequest) -> NodeAnswer:
    """Set the groups, features and comment of a node. Missing fields stay unchanged."""
    groups = None if request.groups is None else tuple(request.groups)
    features = None if request.features is None else tuple(request.features)
    await context.ask(
        SetNode(by=by, node=request.node, groups=groups, features=features, comment=request.comment)
    )
    return NodeAnswer(node_answer(context, request.node))


@verb(ADMINISTERS)
async def remove_node(context: ServerContext, by: User, request: w.NodeNameRequest) -> RemovedAnswer:
    """Remove a node from the cluster; its key is no longer valid."""
    await context.ask(ChangeNode(by=by, node=request.node, action="remove"))
    return RemovedAnswer(request.node)
