"""The states of nodes, and cluster parameters."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from headnode.core.model.errors import BadRequest, WrongState
from headnode.core.model.node import TOPOLOGY_PARAMETER, NodeState
from headnode.core.model.owner_limits import LIMIT_PARAMETERS, read_owner_limits
from headnode.core.model.quantities import Instant, JobId, Seconds
from headnode.core.model.user import User
from headnode.core.state import events as e
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.command import Command
from headnode.core.state.drain import lift_drains
from headnode.core.state.events import Event
from headnode.core.state.hooks import start_anew
from headnode.core.state.job_record import JobRecord, started_run
from headnode.core.state.job_request import TRANSFER_HOLD_PARAMETER, wake_ups
from headnode.core.state.node_record import Drain, InvitationRecord, NodeRecord, StandbyRecord
from headnode.core.state.owner_usage import HALF_LIFE, HALF_LIFE_PARAMETER, USAGE_WEIGHTS_PARAMETER
from headnode.core.state.permissions import must_administer
from headnode.core.state.transitions import NODE_TRANSITIONS, NodePhase, node_target, phase_on, set_phase


class NodeVanished(Command, frozen=True):
    """Engine: the connection to a node is lost."""

    node: str


class ChangeNode(Command, frozen=True):
    """Carry out `action` on a node: approve, pause, resume or remove."""

    by: User
    node: str
    action: str


class SetParameter(Command, frozen=True):
    """Set a cluster parameter; None restores its default."""

    by: User
    name: str
    value: str | None


class SetUserGroups(Command, frozen=True):
    """Head: in which groups with limits users are; the others stay as they are."""

    groups: Mapping[str, tuple[str, ...]]


class SkipNumbers(Command, frozen=True):
    """Raise the next job number by `count`, past the numbers of jobs created after the backup."""

    by: User
    count: int


class ShiftLimits(Command, frozen=True):
    """Engine: the clock was set forward by `by` seconds; run time limits move with it."""

    by: Seconds


def node_vanished(cluster: ClusterState, command: NodeVanished, now: Instant) -> list[Event]:
    """The head lost a node's connection."""
    known = cluster.nodes.get(command.node)
    if known is None or (known.state, e.NodeUnreachable) not in NODE_TRANSITIONS:
        return []
    return [e.NodeUnreachable(at=now, node=command.node)]


NodeChange = type[e.NodeApproved] | type[e.NodePaused] | type[e.NodeResumed] | type[e.NodeRemoved]
_CHANGES: dict[str, tuple[NodeChange, NodeState]] = {
    "approve": (e.NodeApproved, NodeState.READY),
    "pause": (e.NodePaused, NodeState.PAUSED),
    "resume": (e.NodeResumed, NodeState.READY),
    "remove": (e.NodeRemoved, NodeState.REMOVED),
}


def change_node(cluster: ClusterState, command: ChangeNode, now: Instant) -> list[Event]:
    """An administrator changes a node; asking twice changes nothing."""
    must_administer(command.by, f"{command.action} nodes")
    known = cluster.node(command.node)
    if command.action not in _CHANGES:
        raise BadRequest(
            code="node-wish",
            what=f"{command.action!r} is not a command for nodes",
            fix=f"use {', '.join(_CHANGES)}",
        )
    drained = any(drain.closes <= now for drain in known.drains)
    if command.action == "approve" and known.state is NodeState.READY and drained:
        raise WrongState(
            code="node-state",
            what=f"node {command.node!r} is drained; it was approved before",
            fix=f"make it accept jobs again: hn node resume {command.node}",
        )
    kind, already = _CHANGES[command.action]
    reopened = lift_drains(known, command.by, now) if command.action == "resume" else []
    if known.state is already or (reopened and (known.state, kind) not in NODE_TRANSITIONS):
        return reopened
    if (known.state, kind) not in NODE_TRANSITIONS:
        raise WrongState(
            code="node-state",
            what=f"node {command.node!r} is {known.state.value}, so {command.action} is not possible",
            fix="a pending node can be approved, a ready one paused, a paused or drained one resumed",
        )
    if command.action == "remove" and cluster.on_node(command.node):
        raise WrongState(
            code="node-busy",
            what=f"node {command.node!r} has jobs {sorted(cluster.on_node(command.node))}",
            fix="drain it and wait until they have ended, or cancel them",
        )
    return [kind(at=now, node=command.node, by=command.by.name), *reopened]


def shift_limits(cluster: ClusterState, command: ShiftLimits, now: Instant) -> list[Event]:
    """Record that the head's clock was set, if any job runs or is suspended."""
    there = cluster.resource_index.elsewhere
    return [e.ClockSet(at=now, seconds=command.by)] if cluster.running | cluster.detached | there else []


def skip_numbers(cluster: ClusterState, command: SkipNumbers, now: Instant) -> list[Event]:
    """Leave out the next job numbers after a restore."""
    must_administer(command.by, "skip job numbers")
    next_job = cluster.next_job + max(0, command.count)
    return [e.JobIdsSkipped(at=now, next_job=next_job, by=command.by.name)]


def set_parameter(cluster: ClusterState, command: SetParameter, now: Instant) -> list[Event]:
    """An administrator sets a cluster parameter; the engine has checked name and value.

    Raises:  BadRequest ``limits``.
    """
    must_administer(command.by, "set cluster parameters")
    if command.name in LIMIT_PARAMETERS and command.value is not None:
        read_owner_limits(command.value)  # what is recorded is read again with the journal
    if command.name == TOPOLOGY_PARAMETER and command.value is not None:
        from headnode.core.model.topology import switch_paths  # few clusters have switches

        switch_paths(command.value)
    if cluster.parameters.get(command.name) == command.value:
        return []
    by = command.by
    return [e.ParameterSet(at=now, name=command.name, value=command.value, by=by.name, origin=by.origin)]


def set_user_groups(cluster: ClusterState, command: SetUserGroups, now: Instant) -> list[Event]:
    """Note in which groups users are, where that has changed: in one event, for the queue is read anew."""
    known = cluster.limit_index.groups
    changed = {user: groups for user, groups in command.groups.items() if groups != known.get(user, ())}
    return [e.UserGroupsSet(at=now, groups=changed)] if changed else []


def node_registered(cluster: ClusterState, event: e.NodeRegistered) -> None:
    """A node is new, or says something new of itself."""
    known = cluster.nodes.get(event.facts.name)
    if known is None:
        wanted = NodeState.READY if event.approved else NodeState.PENDING
        known = NodeRecord(facts=event.facts, state=node_target(None, event, wanted), since=event.at)
        cluster.nodes[event.facts.name] = known
    else:
        known.state = node_target(known.state, event)
        if event.facts.boot_id not in ("", known.facts.boot_id) and known.facts.boot_id:
            _forget_preparations(cluster, event)
        known.facts = known.with_settings(event.facts)
    cluster.cores.open_node(known)
    cluster.cores.update_reduced(event.facts.name)
    cluster.update_personal()
    _count_usage_again(cluster, cluster.cores.holders.get(event.facts.name, ()))


def _count_usage_again(cluster: ClusterState, jobs: Iterable[JobId]) -> None:
    """Count from now on what running jobs use, with the weights and the nodes of now.

    Cost:  O(jobs), where usage has weights.
    """
    if not cluster.usage.depends_on_nodes:
        return
    for job in jobs:
        if job in cluster.running:
            _count_usage(cluster, cluster.jobs[job])


def _count_usage(cluster: ClusterState, record: JobRecord) -> None:
    cluster.usage.count(record, cluster.spec(record).project, cluster.request(record))


def _forget_preparations(cluster: ClusterState, event: e.NodeRegistered) -> None:
    """Reset the preparations of jobs on a node that has rebooted."""
    node = event.facts.name
    for job in cluster.on_node(node):
        run = cluster.jobs[job].run
        if run is not None:
            start_anew(run, node)
        if run is not None and phase_on(run.holdings, node) is NodePhase.READY:
            set_phase(run.holdings, node, event, NodePhase.ASSIGNED)
            cluster.agenda.dirty_jobs.add(job)


def node_invited(cluster: ClusterState, event: e.NodeInvited) -> None:
    """Add the invitation, and remove those that have expired."""
    for digest in [each.digest for each in cluster.invitations.values() if each.expires <= event.at]:
        del cluster.invitations[digest]
    cluster.invitations[event.digest] = InvitationRecord(
        event.digest, event.expires, event.approve, event.name, event.standby, event.names
    )


def standby_admitted(cluster: ClusterState, event: e.StandbyAdmitted) -> None:
    """A machine is a standby head, and its invitation is used up."""
    cluster.standbys[event.name] = StandbyRecord(event.name, event.address, event.at, event.takeover_after)
    cluster.invitations.pop(event.invitation, None)


def standby_removed(cluster: ClusterState, event: e.StandbyRemoved) -> None:
    """A machine is no standby head any more."""
    del cluster.standbys[event.name]


def head_taken_over(cluster: ClusterState, event: e.HeadTakenOver) -> None:
    """A standby is the head now."""
    cluster.standbys.pop(event.name, None)
    cluster.term = event.term


def key_pinned(cluster: ClusterState, event: e.NodeKeyPinned) -> None:
    """A node is known by its key, and its invitation is used up, or waits for the other nodes of it."""
    cluster.node(event.node).key = event.key
    invitation = cluster.invitations.pop(event.invitation, None)
    if invitation is not None and (others := tuple(each for each in invitation.names if each != event.node)):
        cluster.invitations[event.invitation] = replace(invitation, names=others)
    cluster.elastic.note_joined(event.invitation, event.at)


def node_set(cluster: ClusterState, event: e.NodeModified) -> None:
    """An administrator changed a node."""
    known = cluster.node(event.node)
    known.groups = known.groups if event.groups is None else event.groups
    known.features = known.features if event.features is None else event.features
    known.comment = known.comment if event.comment is None else event.comment
    known.facts = known.with_settings(known.facts)
    cluster.cores.open_node(known)
    _count_usage_again(cluster, cluster.cores.holders.get(event.node, ()))


def node_state_changed(cluster: ClusterState, event: e.NodeEvent) -> None:
    """A node is in another state."""
    known = cluster.node(event.node)
    known.state = node_target(known.state, event)
    known.since = event.at
    cluster.agenda.dirty_node_views.add(event.node)
    cluster.agenda.dirty_reservations |= cluster.reservation_index.keys_on(event.node)
    holders = cluster.cores.holders.get(event.node, set())  # their tasks may go there now, or no longer
    cluster.agenda.dirty_jobs |= holders
    cluster.agenda.pass_needed = True


def node_drained(cluster: ClusterState, event: e.NodeDrained) -> None:
    """A node closes, now or later."""
    known = cluster.node(event.node)
    drain = Drain(event.cause, event.at, event.closes, event.reason, event.by, event.force, event.suspect)
    _set_drains(cluster, known, (*_without(known, event.cause), drain))


def drain_lifted(cluster: ClusterState, event: e.NodeDrainLifted) -> None:
    """A node does not close for this cause."""
    known = cluster.node(event.node)
    cluster.start_failures.forget(event.node)
    if event.cause == "hook":
        known.suspect = event.suspect
    _set_drains(cluster, known, _without(known, event.cause))


def _without(node: NodeRecord, cause: e.DrainCause) -> tuple[Drain, ...]:
    return tuple(drain for drain in node.drains if drain.cause != cause)


def _set_drains(cluster: ClusterState, node: NodeRecord, drains: tuple[Drain, ...]) -> None:
    node.drains = drains
    cluster.update_doubts(node)
    cluster.cores.update_reduced(node.facts.name)
    cluster.agenda.dirty_node_views.add(node.facts.name)
    cluster.agenda.pass_needed = True


def node_removed(cluster: ClusterState, event: e.NodeRemoved) -> None:
    """A node is gone for good."""
    known = cluster.node(event.node)
    node_target(known.state, event)
    del cluster.nodes[event.node]
    cluster.suspects.pop(event.node, None)
    cluster.start_failures.forget(event.node)
    cluster.update_personal()
    cluster.agenda.dirty_reservations |= cluster.reservation_index.keys_on(event.node)
    cluster.agenda.dirty_node_views.add(event.node)
    cluster.cores.close_node(event.node)
    cluster.agenda.pass_needed = True


def numbers_skipped(cluster: ClusterState, event: e.JobIdsSkipped) -> None:
    cluster.next_job = max(cluster.next_job, event.next_job)


def user_groups_set(cluster: ClusterState, event: e.UserGroupsSet) -> None:
    for user, groups in event.groups.items():
        cluster.limit_index.set_groups(user, groups)
    if any(record.owner in event.groups for record in cluster.jobs.values()):
        cluster.read_limits()


def parameter_set(cluster: ClusterState, event: e.ParameterSet) -> None:
    if event.value is None:
        cluster.parameters.pop(event.name, None)
    else:
        cluster.parameters[event.name] = event.value
    if event.name == HALF_LIFE_PARAMETER:
        cluster.usage.set_half_life(float(HALF_LIFE if event.value is None else event.value))
    if event.name == USAGE_WEIGHTS_PARAMETER:
        cluster.usage.set_weights(cluster.parameters)
        for job in cluster.running:
            _count_usage(cluster, cluster.jobs[job])
    if event.name in LIMIT_PARAMETERS:
        cluster.read_limits()
    if event.name == TOPOLOGY_PARAMETER:
        cluster.agenda.dirty_node_views.update(cluster.nodes)
    if event.name == TRANSFER_HOLD_PARAMETER:
        for job in cluster.running:
            for name, until in wake_ups(started_run(cluster.jobs[job]), cluster.parameters).items():
                cluster.agenda.wake_ups.set((job, name), until)
    cluster.agenda.pass_needed = True
