"""The verbs of the local protocol that are about who may come in, and who did what."""

import asyncio
import secrets
from datetime import UTC, datetime
from typing import Any

from headnode.adapters.identity.users import account
from headnode.adapters.nodes.identity import Invitation
from headnode.adapters.nodes.joining import digest_of
from headnode.apps.server import audit_pages
from headnode.apps.server import wishes as w
from headnode.apps.server.desk import Desk
from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle.permission import must_administer
from headnode.core.lifecycle.records import Token
from headnode.core.lifecycle.tokens import LOGIN_LIFETIME
from headnode.core.model.errors import WrongState
from headnode.core.model.quantities import Instant, Seconds
from headnode.core.model.user import User

Object = dict[str, Any]


async def whoami(desk: Desk, by: User, wish: w.Wish) -> Object:  # noqa: ARG001
    """Say as whom the client is known."""
    return {"user": by.name, "uid": by.uid, "role": by.role.value, "cluster": desk.name}


async def new_token(desk: Desk, by: User, wish: w.NewTokenWish) -> Object:
    """Offer a login: what a client of another machine takes once for a token."""
    if desk.network is None:
        raise WrongState(
            code="not-listening",
            what="this head has no address for other machines",
            fix="an administrator starts it with one: hn down; hn up --listen HOST",
        )
    user = by.name
    if wish.user and wish.user != by.name:
        must_administer(by, f"make a token for {wish.user!r}")
        user = account(wish.user).name
    secret = secrets.token_urlsafe(18)
    lifetime = Seconds(wish.lifetime)
    await desk.ask(c.OfferLogin(by=by, digest=digest_of(secret), user=user, lifetime=lifetime))
    offered = Invitation(*desk.network.place(), secret, desk.network.fingerprint)
    expires = Instant(desk.now() + LOGIN_LIFETIME)
    return {"login": str(offered), "user": user, "expires": expires, "lifetime": wish.lifetime}


async def tokens(desk: Desk, by: User, wish: w.TokensWish) -> Object:
    """Show the asker's tokens; to administrators those of others too."""
    user = by.name if wish.user is None else wish.user
    if user != by.name:
        must_administer(by, "see the tokens of others")
    found = [
        token
        for token in desk.cluster.tokens.values()
        if token.expires > desk.now() and (user == "*" or token.user == user)
    ]
    return {"tokens": [_shown(token) for token in sorted(found, key=lambda token: token.number)]}


def _shown(token: Token) -> Object:
    return {
        "token": token.number,
        "user": token.user,
        "made": token.made,
        "expires": token.expires,
        "used": token.used,
        "address": token.address,
    }


async def revoke_token(desk: Desk, by: User, wish: w.RevokeTokenWish) -> Object:
    """Make a token worth nothing."""
    await desk.ask(c.RevokeToken(by=by, token=wish.token))
    return {"token": wish.token}


async def audit(desk: Desk, by: User, wish: w.AuditWish) -> Object:
    """Show what the audit log says."""
    must_administer(by, "read the audit log")
    since = datetime.fromtimestamp(wish.since, UTC).isoformat(timespec="milliseconds") if wish.since else ""
    path = desk.state / "audit.log"
    found = await asyncio.to_thread(
        audit_pages.page, path, job=wish.job, user=wish.user, since=since, limit=wish.limit
    )
    return {"entries": found}
