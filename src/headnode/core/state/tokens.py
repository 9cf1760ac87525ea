"""Logins and tokens: a login is offered, taken once for a token, and the token used from other machines."""

import msgspec

from headnode.core.model.errors import BadRequest, NotFound
from headnode.core.model.quantities import Instant, Seconds
from headnode.core.model.user import TokenRole, User
from headnode.core.state import events as e
from headnode.core.state.cluster_state import ClusterState
from headnode.core.state.command import Command
from headnode.core.state.node_record import LoginRecord, TokenRecord, valid_secret
from headnode.core.state.permissions import must_administer


class OfferLogin(Command, frozen=True):
    """Offer a login: the secret with this digest gives a token of the user, valid for `lifetime` seconds."""

    by: User
    digest: str
    user: str
    lifetime: Seconds
    name: str = ""
    role: TokenRole = "all"


class TakeLogin(Command, frozen=True):
    """Exchange the secret of a login for the token with this digest, from an address."""

    login: str
    digest: str
    address: str = ""


class UseToken(Command, frozen=True):
    """Authenticate a connection from an address with a token."""

    digest: str
    address: str = ""


class RevokeToken(Command, frozen=True):
    """Revoke the token with this number."""

    by: User
    token: int


LOGIN_LIFETIME = Seconds(3600.0)
"""How long a login can be taken."""
MAX_TOKEN = 366 * 86400  # seconds
MAX_OFFERS = 1_000  # logins that were not taken yet
MAX_TOKENS = 100  # of one user
BETWEEN_USES = 600.0  # seconds from a use that was written down to the next that is
_LOG_IN = "get another on the head node: hn token new"
LOG_IN_AGAIN = f"{_LOG_IN}; then hn login"
NEW_WEB_TOKEN = f"{_LOG_IN} --web; then send it: Authorization: Bearer TOKEN"


def offer(cluster: ClusterState, command: OfferLogin, now: Instant) -> list[e.Event]:
    """Offer a login, whose secret can be exchanged for a token of the user until it expires."""
    if command.user != command.by.name:
        must_administer(command.by, f"make a token for {command.user!r}")
    if not 0 < command.lifetime <= MAX_TOKEN:
        raise BadRequest(
            code="lifetime",
            what=f"a token cannot be valid for {command.lifetime:.0f} s",
            fix=f"use a lifetime of at most {MAX_TOKEN // 86400} days",
        )
    alive = [token for token in cluster.tokens.values() if token.user == command.user and token.expires > now]
    if len(alive) >= MAX_TOKENS:
        raise BadRequest(
            code="tokens",
            what=f"{command.user!r} has {len(alive)} tokens, and {MAX_TOKENS} are possible",
            fix="revoke tokens that are not needed: hn token list; hn token revoke NUMBER",
        )
    if sum(login.expires > now for login in cluster.logins.values()) >= MAX_OFFERS:
        raise BadRequest(
            code="logins",
            what=f"{MAX_OFFERS} login lines are unused, which is the maximum",
            fix="wait until some have been used or have expired",
        )
    return [
        e.LoginOffered(
            at=now,
            digest=command.digest,
            user=command.user,
            expires=Instant(now + LOGIN_LIFETIME),
            lifetime=command.lifetime,
            by=command.by.name,
            name=command.name,
            role=command.role,
        )
    ]


def take(cluster: ClusterState, command: TakeLogin, now: Instant) -> list[e.Event]:
    """Give a token for a login, once.

    Raises:  NotAllowed ``login``.
    """
    login = valid_secret(cluster.logins, command.login, now, "login", _LOG_IN)
    return [
        e.TokenCreated(
            at=now,
            number=cluster.next_token,
            digest=command.digest,
            user=login.user,
            expires=Instant(now + login.lifetime),
            login=login.digest,
            address=command.address,
            name=login.name,
            role=login.role,
        )
    ]


def valid(cluster: ClusterState, digest: str, now: Instant, fix: str = LOG_IN_AGAIN) -> TokenRecord:
    """Return the token of this digest; `fix` is how its user gets another.

    Raises:  NotAllowed ``token`` when there is none, or it has expired.
    """
    return valid_secret(cluster.tokens, digest, now, "token", fix)


def use(cluster: ClusterState, command: UseToken, now: Instant) -> list[e.Event]:
    """Note that a token is used, now and then.

    Raises:  NotAllowed ``token``.
    """
    token = valid(cluster, command.digest, now)
    if (
        token.last_used is not None
        and 0 <= now - token.last_used < BETWEEN_USES
        and token.address == command.address
    ):
        return []
    return [e.TokenUsed(at=now, digest=token.digest, address=command.address)]


def revoke(cluster: ClusterState, command: RevokeToken, now: Instant) -> list[e.Event]:
    """Make a token worth nothing.

    Raises:  NotFound ``no-such-token``; of others' tokens only administrators are told that they are there.
    """
    token = numbered(cluster, command.token, command.by)
    return [e.TokenRevoked(at=now, digest=token.digest, by=command.by.name)]


def numbered(cluster: ClusterState, number: int, by: User) -> TokenRecord:
    """Return the token of this number, if `by` may know of it.

    Raises:  NotFound ``no-such-token``.
    """
    for token in cluster.tokens.values():
        if token.number == number and (token.user == by.name or by.administrator):
            return token
    raise NotFound(
        code="no-such-token", what=f"you have no token {number}", fix="see your tokens: hn token list"
    )


def offered(cluster: ClusterState, event: e.LoginOffered) -> None:
    """Apply: a login can be taken; those that have expired are forgotten."""
    for digest in [each.digest for each in cluster.logins.values() if each.expires <= event.at]:
        del cluster.logins[digest]
    cluster.logins[event.digest] = LoginRecord(
        event.digest, event.user, event.expires, event.lifetime, event.name, event.role
    )


def made(cluster: ClusterState, event: e.TokenCreated) -> None:
    """Apply: there is a token, and its login is used up; tokens that have expired are forgotten."""
    cluster.logins.pop(event.login, None)
    for digest in [each.digest for each in cluster.tokens.values() if each.expires <= event.at]:
        del cluster.tokens[digest]
    cluster.tokens[event.digest] = TokenRecord(
        number=event.number,
        digest=event.digest,
        user=event.user,
        created=event.at,
        expires=event.expires,
        address=event.address,
        name=event.name,
        role=event.role,
    )
    cluster.next_token = event.number + 1


def used(cluster: ClusterState, event: e.TokenUsed) -> None:
    """Apply: a token was used from somewhere."""
    token = cluster.tokens[event.digest]
    cluster.tokens[event.digest] = msgspec.structs.replace(token, last_used=event.at, address=event.address)


def revoked(cluster: ClusterState, event: e.TokenRevoked) -> None:
    """Apply: a token is worth nothing."""
    del cluster.tokens[event.digest]
