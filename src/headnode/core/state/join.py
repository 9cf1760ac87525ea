"""Which machines become nodes or standby heads: an administrator invites, the machine shows that once."""

from collections.abc import Collection

from headnode.core.model.errors import BadRequest, NotAllowed, NotFound
from headnode.core.model.node import NodeFacts, NodeState
from headnode.core.model.quantities import Instant, Seconds
from headnode.core.model.user import User
from headnode.core.state import events as e
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.command import AttemptKey, Command
from headnode.core.state.drain import vacate_node
from headnode.core.state.elastic_record import closing
from headnode.core.state.events import Event
from headnode.core.state.node_faults import drain_for_fault
from headnode.core.state.node_loss import rebooted
from headnode.core.state.node_record import InvitationRecord, valid_secret
from headnode.core.state.permissions import must_administer


class RegisterNode(Command, frozen=True):
    """Node: register these properties; the node can be reached.

    `kept`: the attempts of which it can tell, or will, how they are or ended.  It matters after a reboot.
    """

    facts: NodeFacts
    approved: bool = False
    key: str = ""  # digest of the key it showed; empty: it is on the head's own machine
    kept: tuple[AttemptKey, ...] = ()


class InviteNode(Command, frozen=True):
    """Invite a node: the secret with this digest admits one node, once; `node` restricts it to a name.

    `nodes`: it admits each of these nodes once.
    """

    by: User
    digest: str
    expires: Instant
    approve: bool = False  # it is ready at once
    node: str = ""
    standby: bool = False  # a standby head is invited, not a node
    nodes: tuple[str, ...] = ()


class AdmitNode(Command, frozen=True):
    """Admit a node of another machine, which shows an invitation and its own key."""

    digest: str  # of the invitation's secret
    facts: NodeFacts
    key: str  # digest of the node's key


class AdmitStandby(Command, frozen=True):
    """Admit a standby head, which shows an invitation and says where it listens (HOST:PORT)."""

    digest: str  # of the invitation's secret
    name: str
    address: str
    takeover_after: Seconds = Seconds(0.0)  # without the head, it takes over by itself; 0: never


class RemoveStandby(Command, frozen=True):
    """Send no more events to a standby head."""

    by: User
    name: str


class TakeOver(Command, frozen=True):
    """Standby: become the head; `forced`: the head before it did not hand over."""

    by: User
    name: str
    address: str
    forced: bool = False


class SetNode(Command, frozen=True):
    """Set the groups, features or comment of a node; None leaves the field unchanged."""

    by: User
    node: str
    groups: tuple[str, ...] | None = None
    features: tuple[str, ...] | None = None
    comment: str | None = None


MAX_NAME = 64  # characters: what a certificate has room for
MAX_INVITATION = 30 * 86400  # seconds
MAX_INVITATIONS = 10_000  # open at once; one for several nodes counts them
MAX_WAIT = 30 * 86400  # seconds
MAX_HOST, MAX_LABEL = 253, 63  # characters of a name in the network, and of a part of it
MAX_STANDBYS = 4  # heads send each of them all events
_INVITE = "an administrator can make another with `hn node invite`"


def invite(cluster: ClusterState, command: InviteNode, now: Instant) -> list[Event]:
    """Invite a node to join with this secret until the invitation expires."""
    must_administer(command.by, "invite nodes")
    names = tuple(dict.fromkeys(each for each in (command.node, *command.nodes) if each))
    for name in names:
        check_name(name)
    if not now < command.expires <= now + MAX_INVITATION:
        raise BadRequest(
            code="lifetime",
            what=f"an invitation cannot be valid for {command.expires - now:.0f} s",
            fix=f"use a lifetime of at most {MAX_INVITATION // 86400} days",
        )
    unused = (each for each in cluster.invitations.values() if each.expires > now)
    still = sum(max(1, len(each.names)) for each in unused)
    if still + max(1, len(names)) > MAX_INVITATIONS:
        raise BadRequest(
            code="invitations",
            what=f"{still} invitations are unused; at most {MAX_INVITATIONS} can be",
            fix="invite fewer nodes, or wait until some have joined or their invitations have expired",
        )
    return [
        e.NodeInvited(
            at=now,
            digest=command.digest,
            expires=command.expires,
            approve=command.approve,
            name="" if command.nodes else command.node,
            by=command.by.name,
            standby=command.standby,
            names=names if command.nodes else (),
        )
    ]


def admit(cluster: ClusterState, command: AdmitNode, now: Instant) -> list[Event]:
    """Admit a node of another machine, once for each invitation.

    A node that has not got the answer asks again: its key shows that it is the one that was admitted.
    Raises:  NotAllowed ``invitation`` or ``node-known``; BadRequest ``node-facts``, ``node-name``.
    """
    name = command.facts.name
    check_name(name)
    check_facts(command.facts)
    known = cluster.nodes.get(name)
    if known is not None and known.key == command.key and _has_joined(cluster, command):
        is_pending = known.state is NodeState.PENDING
        return [e.NodeRegistered(at=now, facts=command.facts)] if is_pending else []
    invitation = _shown(cluster, command, now)
    connected = known is not None and known.state in (NodeState.READY, NodeState.PAUSED)
    # each of several nodes has their invitation: none of them gets the jobs of another that is there
    named = name == invitation.name or (name in invitation.names and not connected)
    if known is not None and known.key != command.key and not named:
        raise NotAllowed(
            code="node-known",
            what=f"node {name!r} exists already and has another key",
            fix=f"choose another name with --name, or replace that node: hn node invite --for {name}",
        )
    events: list[Event] = []
    if known is None:
        events.append(e.NodeRegistered(at=now, facts=command.facts, approved=invitation.approve))
        if invitation.approve:  # it takes jobs once its agent is here
            events.append(e.NodeUnreachable(at=now, node=name))
    events.append(e.NodeKeyPinned(at=now, node=name, key=command.key, invitation=invitation.digest))
    elastic = cluster.elastic.of_secret(invitation.digest)
    return events if elastic is None else [*events, closing(*elastic, now, now)]


def _has_joined(cluster: ClusterState, command: AdmitNode) -> bool:
    """Whether the invitation is used up, or the name that this node has in one for several."""
    invitation = cluster.invitations.get(command.digest)
    return invitation is None or (bool(invitation.names) and not invitation.admits(command.facts.name))


def _shown(cluster: ClusterState, command: AdmitNode, now: Instant) -> InvitationRecord:
    invitation = valid_secret(cluster.invitations, command.digest, now, "invitation", _INVITE)
    if invitation.standby:
        raise NotAllowed(
            code="invitation",
            what="this invitation is for a standby head, not for a node",
            fix="use it with `hn standby join`, or make one for a node: hn node invite",
        )
    if invitation.names and not invitation.admits(command.facts.name):
        raise NotAllowed(
            code="invitation",
            what=f"this invitation is not for node {command.facts.name!r}, or that node has joined with it",
            fix="start the agent with --name and the name of a node that is invited; to let another machine "
            f"replace a node: hn node invite --for {command.facts.name}",
        )
    if not invitation.admits(command.facts.name):
        raise NotAllowed(
            code="invitation",
            what=f"this invitation is for node {invitation.name!r}, not for {command.facts.name!r}",
            fix=f"start the agent with --name {invitation.name}",
        )
    return invitation


def check_name(name: str) -> None:
    """Refuse what cannot be the name of a node.

    Raises:  BadRequest ``node-name``.
    """
    plain = all(sign.isalnum() or sign in "-._" for sign in name) and name.isascii()
    if not plain or not name[:1].isalnum() or len(name) > MAX_NAME:
        raise BadRequest(
            code="node-name",
            what=f"{name[:MAX_NAME]!r} cannot be the name of a node",
            fix=f"use up to {MAX_NAME} letters, digits, '-', '.' and '_', a letter or digit first",
        )


def check_address(address: str) -> None:
    """Refuse what no standby head can be reached at: HOST:PORT, dialed by the head again and again.

    Raises:  BadRequest ``listen``.
    """
    host, _, port = address.rpartition(":")
    plain = host.isascii() and all(sign.isalnum() or sign in "-._:%[]" for sign in host)
    labels = [len(label) for label in host.removesuffix(".").split(".")]
    usable = len(host) <= MAX_HOST and min(labels) > 0 and max(labels) <= MAX_LABEL
    if not (plain and usable and port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536):
        raise BadRequest(
            code="listen",
            what=f"a standby cannot be reached at {address[:80]!r}",
            fix="write the name or address of its machine, and a port: --listen head2.example.org:5817",
        )


def admit_standby(cluster: ClusterState, command: AdmitStandby, now: Instant) -> list[Event]:
    """Admit a standby head, once for each invitation; one of the same name is replaced.

    Only an invitation for its name lets another machine take the place of a standby: two machines may have
    the same name by mistake.  A machine has one place only: with a new name it is the same standby.
    Raises:  NotAllowed ``invitation``, ``standby-known``; BadRequest ``node-name``, ``listen``, ``standbys``,
             ``takeover-after``.
    """
    check_name(command.name)
    check_address(command.address)
    fix = "an administrator can make another with `hn standby invite`"
    invitation = valid_secret(cluster.invitations, command.digest, now, "invitation", fix)
    if not invitation.standby or invitation.name not in ("", command.name):
        whom = f"for the standby {invitation.name!r}" if invitation.standby else "for a node"
        raise NotAllowed(code="invitation", what=f"this invitation is {whom}", fix=fix)
    known = cluster.standbys.get(command.name)
    if known is not None and known.address != command.address and invitation.name != command.name:
        raise NotAllowed(
            code="standby-known",
            what=f"standby {command.name!r} exists already, at {known.address}",
            fix="choose another name with --name, or replace that one: "
            f"hn standby invite --for {command.name}",
        )
    renamed = [
        name
        for name, other in cluster.standbys.items()
        if other.address == command.address and name != command.name
    ]
    _check_number_of_standbys(cluster, command, renamed)
    return [
        *(e.StandbyRemoved(at=now, name=name) for name in renamed),
        e.StandbyAdmitted(
            at=now,
            name=command.name,
            address=command.address,
            invitation=invitation.digest,
            takeover_after=command.takeover_after,
        ),
    ]


def _check_number_of_standbys(cluster: ClusterState, command: AdmitStandby, renamed: Collection[str]) -> None:
    """Refuse too many standby heads, and a second one that takes over by itself."""
    others = [one for one in cluster.standbys.values() if one.name not in (command.name, *renamed)]
    if len(others) >= MAX_STANDBYS:
        raise BadRequest(
            code="standbys",
            what=f"the cluster has {MAX_STANDBYS} standby heads, which is the maximum",
            fix="remove one: hn standby remove NAME",
        )
    if not 0 <= command.takeover_after <= MAX_WAIT:
        raise BadRequest(
            code="takeover-after",
            what=f"a standby cannot take over after {command.takeover_after:g} s without the head",
            fix=f"use a span of at most {MAX_WAIT // 86400} days; 0: no takeover without a command",
        )
    automatic = [one.name for one in others if one.takeover_after]
    if command.takeover_after and automatic:
        raise BadRequest(
            code="takeover-after",
            what=f"standby {automatic[0]} takes over by itself already, and two could do so at once",
            fix="leave out --takeover-after here",
        )


def remove_standby(cluster: ClusterState, command: RemoveStandby, now: Instant) -> list[Event]:
    """Send no more events to a standby head.

    Raises:  NotFound ``no-such-standby``.
    """
    must_administer(command.by, "remove standby heads")
    if command.name not in cluster.standbys:
        raise NotFound(
            code="no-such-standby",
            what=f"there is no standby head {command.name!r}",
            fix="see: hn standby list",
        )
    return [e.StandbyRemoved(at=now, name=command.name, by=command.by.name)]


def take_over(cluster: ClusterState, command: TakeOver, now: Instant) -> list[Event]:
    """A standby becomes the head: the head before it has a lower term from now on."""
    must_administer(command.by, "make a standby the head")
    return [
        e.HeadTakenOver(
            at=now,
            name=command.name,
            address=command.address,
            term=cluster.term + 1,
            by=command.by.name,
            forced=command.forced,
        )
    ]


def set_node(cluster: ClusterState, command: SetNode, now: Instant) -> list[Event]:
    """Note what an administrator says of a node; saying it twice changes nothing."""
    must_administer(command.by, "describe nodes")
    known = cluster.node(command.node)
    for word in (*(command.groups or ()), *(command.features or ())):
        if not word.strip() or "," in word:
            raise BadRequest(
                code="node-word",
                what=f"{word!r} can be neither a node group nor a feature",
                fix="use words without commas",
            )
    details = (command.groups, command.features, command.comment)
    before = (known.groups, known.features, known.comment)
    if all(new is None or new == old for new, old in zip(details, before, strict=True)):
        return []
    return [
        e.NodeModified(
            at=now,
            node=command.node,
            groups=command.groups,
            features=command.features,
            comment=command.comment,
            by=command.by.name,
        )
    ]


def register(cluster: ClusterState, command: RegisterNode, now: Instant) -> list[Event]:
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
    if known is None:
        return [e.NodeRegistered(at=now, facts=command.facts, approved=command.approved)]
    events: list[Event] = []
    if known.facts != known.with_settings(command.facts):
        events.append(e.NodeRegistered(at=now, facts=command.facts))
    if known.facts.boot_id and command.facts.boot_id not in ("", known.facts.boot_id):
        events += rebooted(cluster, name, frozenset(command.kept), now)
    elif command.facts.processors < known.facts.processors:
        message = f"node {name} came back with {command.facts.processors} processors"
        events += vacate_node(cluster, name, command.facts.processors, message, now)
    if known.state in (NodeState.UNREACHABLE, NodeState.LOST_PAUSED):
        events.append(e.NodeReachable(at=now, node=name))
    if command.facts.gpus < known.facts.gpus:  # one is broken, or what counts them is
        there, before = command.facts.gpus, known.facts.gpus
        lost = f"the node has {there} GPU{'' if there == 1 else 's'}; it had {before} before"
        fix = f"if {there} is right: hn node resume {name}"
        events += drain_for_fault(cluster, name, f"{lost}; {fix}", now)
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
