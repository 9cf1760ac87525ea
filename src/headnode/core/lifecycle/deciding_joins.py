"""Decide who may become a node: an administrator invites, a node shows the invitation once.

The secret itself is never kept: only its digest is.  A node is known by its key from then on.
"""

from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle import events as e
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.lifecycle.deciding_nodes import check_facts
from headnode.core.lifecycle.events import Event
from headnode.core.lifecycle.one_time import known_in_time
from headnode.core.lifecycle.permission import must_administer
from headnode.core.lifecycle.records import Invitation
from headnode.core.model.errors import BadRequest, NotAllowed
from headnode.core.model.quantities import Instant

LONGEST_NAME = 64  # characters: what a certificate has room for
LONGEST_INVITATION = 30 * 86400  # seconds
MOST_INVITATIONS = 10_000  # open at once
_INVITE = "an administrator can make another with `hn node invite`"


def invite(cluster: Cluster, command: c.InviteNode, now: Instant) -> list[Event]:
    """Let somebody join who shows the right secret in time."""
    must_administer(command.by, "invite nodes")
    if command.node:
        check_name(command.node)
    if not now < command.expires <= now + LONGEST_INVITATION:
        raise BadRequest(
            code="lifetime",
            what=f"an invitation of {command.expires - now:.0f} s is not possible",
            fix=f"use a span of at most {LONGEST_INVITATION // 86400} days",
        )
    still = sum(invitation.expires > now for invitation in cluster.invitations.values())
    if still >= MOST_INVITATIONS:
        raise BadRequest(
            code="invitations",
            what=f"{still} invitations are open",
            fix="wait until some have been used or have expired",
        )
    return [
        e.NodeInvited(
            at=now,
            digest=command.digest,
            expires=command.expires,
            approve=command.approve,
            name=command.node,
            by=command.by.name,
        )
    ]


def admit(cluster: Cluster, command: c.AdmitNode, now: Instant) -> list[Event]:
    """Let a node of another machine join, once for each invitation.

    Raises:  NotAllowed ``invitation`` or ``node-known``; BadRequest ``node-facts``, ``node-name``.
    """
    name = command.facts.name
    check_name(name)
    check_facts(command.facts)
    invitation = _shown(cluster, command, now)
    known = cluster.nodes.get(name)
    if known is not None and known.key != command.key and invitation.name != name:
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
    return [*events, e.NodeKeyPinned(at=now, node=name, key=command.key, invitation=invitation.digest)]


def _shown(cluster: Cluster, command: c.AdmitNode, now: Instant) -> Invitation:
    invitation = known_in_time(cluster.invitations, command.digest, now, "invitation", _INVITE)
    if invitation.name and invitation.name != command.facts.name:
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
    if not plain or not name[:1].isalnum() or len(name) > LONGEST_NAME:
        raise BadRequest(
            code="node-name",
            what=f"{name[:LONGEST_NAME]!r} cannot be the name of a node",
            fix=f"use up to {LONGEST_NAME} letters, digits, '-', '.' and '_', a letter or digit first",
        )


def set_node(cluster: Cluster, command: c.SetNode, now: Instant) -> list[Event]:
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
    said = (command.groups, command.features, command.comment)
    before = (known.groups, known.features, known.comment)
    if all(new is None or new == old for new, old in zip(said, before, strict=True)):
        return []
    return [
        e.NodeSet(
            at=now,
            node=command.node,
            groups=command.groups,
            features=command.features,
            comment=command.comment,
            by=command.by.name,
        )
    ]
