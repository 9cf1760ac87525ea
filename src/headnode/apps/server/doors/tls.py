"""Clients of other machines: a login is exchanged for a token, and a token identifies the user.

They come to the port of the nodes; the protocol that they ask for in the handshake tells them apart.
"""

import asyncio
import logging
import secrets
from typing import Any

from headnode.adapters.identity.users import account
from headnode.adapters.nodes.entrance import PeerAuthenticated, digest_of
from headnode.adapters.wire.frames import keep_alive, read_frame
from headnode.apps.server.api.access import audit_entry, audited_fields
from headnode.apps.server.api.verbs import read_fields, read_request, refusal
from headnode.apps.server.doors.conversation import send, serve_client
from headnode.apps.server.doors.user_shares import Roles
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.bounds import CLIENT_GREETING, GREETING_TIME
from headnode.core.model.errors import BadRequest, HeadnodeError, NotAllowed, NotFound, Unavailable
from headnode.core.model.user import User
from headnode.core.state import tokens as c
from headnode.core.state.events import TokenCreated
from headnode.core.state.tokens import LOG_IN_AGAIN, valid
from headnode.protocol.requests import Name, VerbRequest


class TakeLoginRequest(VerbRequest, frozen=True):
    """take_login: what a client without a token begins with."""

    secret: Name


class LogInRequest(VerbRequest, frozen=True):
    """log_in: what a client of another machine begins with."""

    token: Name


FAILED_LOGIN_WINDOW = 60.0  # seconds
MAX_FAILED_LOGINS = 60  # lines in each window; the others are counted


class FailedLogins:
    """Says which failures get a line, and how many before it got none."""

    def __init__(self) -> None:
        self._began = 0.0
        self._written = 0
        self._unwritten = 0

    def note(self, now: float) -> int | None:
        """Return how many before this one got no line; None: neither does this one."""
        if not 0 <= now - self._began < FAILED_LOGIN_WINDOW:
            self._began, self._written = now, 0
        if self._written >= MAX_FAILED_LOGINS:
            self._unwritten += 1
            return None
        self._written += 1
        unwritten, self._unwritten = self._unwritten, 0
        return unwritten


class TokenCaller:
    """A client on another machine, authenticated by a token."""

    near = False
    session = False

    def __init__(
        self, context: ServerContext, roles: Roles, digest: str, address: str, fix: str = LOG_IN_AGAIN
    ) -> None:
        """Look up the user of the token; `fix` is how the user gets another.

        Raises:  NotAllowed ``token``, also when its user is no user of this machine any more.
        """
        self._context, self._roles, self._digest = context, roles, digest
        self.origin = self.host = address
        self._fix = fix
        name = valid(context.cluster, digest, context.now(), fix).user
        try:
            self._account = account(name)
        except NotFound:
            raise NotAllowed(
                code="token",
                what=f"{name!r} is no longer a user of the head's machine",
                fix="ask an administrator",
            ) from None

    def user(self) -> User:
        """Return the current user, if the token is still valid.

        Raises:  NotAllowed ``token``.
        """
        token = valid(self._context.cluster, self._digest, self._context.now(), self._fix)
        return self._roles.of(self._account).limited_to(token.role)


log = logging.getLogger("headnode.clients")
strangers_log = logging.getLogger("headnode.strangers")


class TokenDesk:
    """Gives tokens for logins, and finds the users of tokens; failures are in the audit log."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._failed = FailedLogins()

    async def take(self, fields: dict[str, Any], address: str) -> dict[str, Any]:
        """Give a token for a login.

        Raises:  NotAllowed ``login``; BadRequest.
        """
        request = read_fields(TakeLoginRequest, "exchange_login", fields)
        if not isinstance(request, TakeLoginRequest):
            raise BadRequest(code="request", what="the request has no secret of a login line")
        self._context.audit.make_ready()
        token = secrets.token_urlsafe(32)
        take = c.TakeLogin(login=digest_of(request.secret), digest=digest_of(token), address=address)
        try:
            made = next(event for event in await self._context.ask(take) if isinstance(event, TokenCreated))
        except NotAllowed as error:
            await self._report_failure(address, "exchange_login", error.code)
            raise
        await self._report_audit(address, "exchange_login", "done", user=made.user, token=made.number)
        return {
            "ok": True,
            "token": token,
            "number": made.number,
            "user": made.user,
            "expires": made.expires,
            "cluster": self._context.name,
        }

    async def known(self, fields: dict[str, Any], address: str) -> TokenCaller:
        """Return the user of a token.

        Raises:  NotAllowed ``token``.
        """
        request = read_fields(LogInRequest, "log_in", fields)
        digest = digest_of(request.token if isinstance(request, LogInRequest) else "")
        try:
            await self._context.ask(c.UseToken(digest=digest, address=address))
            return TokenCaller(self._context, self._context.roles, digest, address)
        except NotAllowed as error:
            await self._report_failure(address, "log_in", error.code)
            raise

    async def _report_failure(self, address: str, verb: str, outcome: str) -> None:
        before = self._failed.note(self._context.now())
        if before is not None:
            await self._report_audit(
                address, verb, outcome, more={"unwritten_before": before} if before else {}
            )

    async def _report_audit(
        self, address: str, verb: str, outcome: str, more: dict[str, int] | None = None, **about: object
    ) -> None:
        try:
            line = audit_entry(self._context.now(), None, address, verb, audited_fields(about), outcome)
            await self._context.audit.append(line | (more or {}))
        except Unavailable as error:
            log.critical("%s", error)


class TlsDoor:
    """Serves every client of other machines.  A bad one costs its own connection only."""

    def __init__(self, context: ServerContext) -> None:
        self._context, self._desk = context, TokenDesk(context)

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, authenticated: PeerAuthenticated
    ) -> None:
        """Serve one connection until it is over; `authenticated` is called after the login."""
        address = _address(writer)
        keep_alive(writer)
        try:
            caller = await self._greet(reader, writer, address)
            if caller is not None:
                authenticated()
                greeting = {"ok": True, "user": caller.user().name, "cluster": self._context.name}
                greeting |= heads_of(self._context)
                await serve_client(self._context, caller, (reader, writer), greeting)
        except HeadnodeError as error:
            strangers_log.warning("a client at %s was turned away: %s", address, error)
            send(writer, refusal(error))
        except (ConnectionError, TimeoutError) as error:
            strangers_log.info("a client at %s has disconnected: %s", address, error or "it was too slow")
        finally:
            writer.close()

    async def _greet(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str
    ) -> TokenCaller | None:
        """Return the client; None if the connection needs no further answer.

        Raises:  NotAllowed ``token`` and ``login``; BadRequest.
        """
        async with asyncio.timeout(GREETING_TIME.most):
            data = await read_frame(reader, CLIENT_GREETING.most)
        if data is None:
            return None
        verb, fields = read_request(data)
        match verb:
            case "exchange_login":
                send(writer, await self._desk.take(fields, address) | heads_of(self._context))
                return None
            case "log_in":
                return await self._desk.known(fields, address)
        raise BadRequest(
            code="log-in",
            what=f"a client of another machine begins with log_in, not with {verb!r}",
            fix="hn login",
        )


def heads_of(context: ServerContext) -> dict[str, Any]:
    """Return what a client remembers: the term, and the addresses where the head may be if it is away."""
    standbys = context.cluster.standbys.values()
    return {"standbys": [each.address for each in standbys], "term": context.cluster.term}


def _address(writer: asyncio.StreamWriter) -> str:
    peer = writer.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple) and peer else "?"
