"""The verbs about standby heads: which there are, inviting and removing them."""

from headnode.apps.server.api.nodes import new_invitation
from headnode.apps.server.api.verbs import ADMINISTERS, READS, secret_again, verb
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.quantities import Instant
from headnode.core.model.user import User
from headnode.core.state.join import InviteNode, RemoveStandby
from headnode.core.state.permissions import must_administer
from headnode.protocol.cluster_answers import RemovedAnswer
from headnode.protocol.node_answers import (
    InviteStandbyRequest,
    StandbyInvitationAnswer,
    StandbyNameRequest,
    StandbysAnswer,
)
from headnode.protocol.requests import VerbRequest


@verb(READS)
async def standbys(context: ServerContext, by: User, request: VerbRequest) -> StandbysAnswer:  # noqa: ARG001
    """Show the standby heads, and how far each is."""
    network, heads = context.network, context.standbys
    return StandbysAnswer(
        network.address() if network is not None else "",
        context.cluster.term,
        context.engine.number,
        context.engine.settings.number("StandbyWait"),
        heads.objects() if heads is not None else [],
    )


@verb(ADMINISTERS, again=secret_again)
async def invite_standby(
    context: ServerContext, by: User, request: InviteStandbyRequest
) -> StandbyInvitationAnswer:
    """Make an invitation for a standby head, which works once. It gets the keys of the cluster."""
    must_administer(by, "invite standby heads")
    invitation, digest = new_invitation(context)
    expires = Instant(context.now() + request.lifetime)
    await context.ask(InviteNode(by=by, digest=digest, expires=expires, node=request.name, standby=True))
    return StandbyInvitationAnswer(invitation, expires, request.name)


@verb(ADMINISTERS)
async def remove_standby(context: ServerContext, by: User, request: StandbyNameRequest) -> RemovedAnswer:
    """Send no more events to a standby head. It keeps the keys that it has."""
    await context.ask(RemoveStandby(by=by, name=request.name))
    return RemovedAnswer(request.name)
