"""The verbs of the local protocol by which administrators invite, describe and remove nodes."""

from typing import Any

from headnode.apps.server import wishes as w
from headnode.apps.server.desk import Desk
from headnode.apps.server.verbs_cluster import detailed
from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle.permission import must_administer
from headnode.core.model.errors import WrongState
from headnode.core.model.quantities import Instant
from headnode.core.model.user import User

Object = dict[str, Any]


async def invite_node(desk: Desk, by: User, wish: w.InviteWish) -> Object:
    """Make an invitation that works once."""
    must_administer(by, "invite nodes")
    if desk.network is None:
        raise WrongState(
            code="not-listening",
            what="this head has no address for other machines",
            fix="start it with one: hn down; hn up --listen HOST",
        )
    invitation, digest = desk.network.invitation()
    expires = Instant(desk.now() + wish.lifetime)
    await desk.ask(c.InviteNode(by=by, digest=digest, expires=expires, approve=wish.approve, node=wish.node))
    return {"invitation": invitation, "expires": expires, "approve": wish.approve, "node": wish.node}


async def set_node(desk: Desk, by: User, wish: w.SetNodeWish) -> Object:
    """Set what administrators know of a node."""
    groups = None if wish.groups is None else tuple(wish.groups)
    features = None if wish.features is None else tuple(wish.features)
    await desk.ask(c.SetNode(by=by, node=wish.node, groups=groups, features=features, comment=wish.comment))
    return {"node": detailed(desk, wish.node)}


async def remove_node(desk: Desk, by: User, wish: w.NodeWish) -> Object:
    """Let a node be part of the cluster no longer; its key is worth nothing from then on."""
    await desk.ask(c.ChangeNode(by=by, node=wish.node, wish="remove"))
    return {"removed": wish.node}
