"""Connections of the gateway of the REST API and the console, which name the user for whom they speak.

Only the account that the head was told of speaks for other users, and never for root; every account speaks
for itself.  A token speaks for its user.
Source:  docs/decisions/0032-the-gateway.md.
"""

import asyncio
import logging
import os

from headnode.adapters.identity.users import Account, account
from headnode.adapters.nodes.entrance import digest_of
from headnode.adapters.wire.frames import read_frame
from headnode.adapters.wire.peers import peer_ids, user_name
from headnode.apps.server.api.access import audit_entry, audited_fields
from headnode.apps.server.api.verbs import read_fields, read_request, refusal
from headnode.apps.server.doors.conversation import send, serve_client
from headnode.apps.server.doors.tls import FailedLogins, TokenCaller, TokenDesk
from headnode.apps.server.doors.user_shares import Roles
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.bounds import CLIENT_GREETING, GREETING_TIME
from headnode.core.model.errors import BadRequest, HeadnodeError, NotAllowed, NotFound, Unavailable
from headnode.core.model.user import User
from headnode.core.state import tokens as c
from headnode.protocol.requests import Name, VerbRequest

log = logging.getLogger("headnode.clients")


class SpeakForUserRequest(VerbRequest, frozen=True):
    """act_for_user: what a connection of the gateway begins with.  Either `user` or `token` is given."""

    address: Name  # of the user's browser or program
    user: Name | None = None
    token: Name | None = None
    by_key: bool = False  # the user is whom a peer with the site key names: it has a role only if told so


class SpokenForUser:
    """A user for whom the gateway speaks."""

    near = False  # what the gateway says comes from anywhere
    session = True

    def __init__(self, roles: Roles, spoken_for: Account, request: SpeakForUserRequest) -> None:
        self.origin, self.host = f"{'sss' if request.by_key else 'web'} {request.address}", request.address
        self._roles, self._account, self._by_key = roles, spoken_for, request.by_key

    def user(self) -> User:
        """Return the current user.

        Raises:  NotAllowed ``no-root-by-key``.
        """
        return self._roles.of(self._account, by_key=self._by_key)


class GatewayDoor:
    """Serves every connection of gateways.  A bad one costs itself only."""

    def __init__(self, context: ServerContext, gateway_user: str) -> None:
        """`gateway_user`: the account that may speak for other users; "" if none may."""
        self._context = context
        self._gateway = _uid_of(gateway_user)
        self._failed, self._desk = FailedLogins(), TokenDesk(context)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until it is over."""
        try:
            caller = await self._greet(reader, writer)
            if caller is not None:
                greeting = {"ok": True, "user": caller.user().name, "cluster": self._context.name}
                await serve_client(self._context, caller, (reader, writer), greeting)
        except HeadnodeError as error:
            send(writer, refusal(error))
        except (ConnectionError, TimeoutError) as error:
            log.debug("a gateway has disconnected: %s", error or "it was too slow")
            writer.transport.abort()
        finally:
            writer.close()

    async def _greet(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> SpokenForUser | TokenCaller | None:
        """Return the user of a connection; None if it needs no further answer.

        Raises:  NotAllowed ``not-gateway``, ``no-root-by-web``, ``no-root-by-key`` or ``token``; BadRequest.
        """
        async with asyncio.timeout(GREETING_TIME.most):
            data = await read_frame(reader, CLIENT_GREETING.most)
        if data is None:
            return None
        verb, fields = read_request(data)
        pid, uid, _ = peer_ids(writer.get_extra_info("socket"))
        if verb == "exchange_login":
            send(writer, await self._desk.take(fields, f"pid {pid}"))
            return None
        request = read_fields(SpeakForUserRequest, verb, fields)
        if verb != "act_for_user" or not isinstance(request, SpeakForUserRequest):
            raise BadRequest(code="request", what=f"a gateway begins with act_for_user, not with {verb!r}")
        if not request.address.isprintable():
            raise BadRequest(code="request", what="the address is not printable text", path=("address",))
        try:
            if request.token is not None:
                return await self._of_token(uid, request.token, request.address)
            caller = SpokenForUser(self._context.roles, self._admitted(uid, request.user), request)
            caller.user()  # refuses root by a site key
            return caller
        except (NotAllowed, NotFound) as error:
            await self._note_failure(f"pid {pid} of {user_name(uid)}", request, error.code)
            raise

    def _admitted(self, uid: int, name: str | None) -> Account:
        """Return the account of a user that the process of another account may speak for.

        Raises:  NotAllowed ``not-gateway`` or ``no-root-by-web``; NotFound ``no-such-user``.
        """
        if name is None:
            raise BadRequest(code="request", what="neither a user nor a token is named", path=("user",))
        wanted = account(name)
        if wanted.uid == uid:
            return wanted
        if uid != self._gateway:
            raise NotAllowed(
                code="not-gateway",
                what=f"{user_name(uid)!r} may not speak for {name!r}",
                fix=f"start the head with: hn up --gateway-user {user_name(uid)}",
            )
        _refuse_root(uid, wanted.uid, name)
        return wanted

    async def _of_token(self, uid: int, token: str, address: str) -> TokenCaller:
        """Return the user of a token that the process of an account shows.

        Raises:  NotAllowed ``token`` or ``no-root-by-web``.
        """
        digest = digest_of(token)
        caller = TokenCaller(self._context, self._context.roles, digest, address, c.NEW_WEB_TOKEN)
        await self._context.ask(c.UseToken(digest=digest, address=address))
        user = caller.user()
        _refuse_root(uid, user.uid, user.name)
        caller.origin = f"web {address}"
        return caller

    async def _note_failure(self, place: str, request: SpeakForUserRequest, outcome: str) -> None:
        """Write a refusal to the audit log, unless there were many."""
        before = self._failed.note(self._context.now())
        if before is None:
            return
        more = {"unwritten_before": before} if before else {}
        about = audited_fields({"user": request.user} if request.user else {})
        line = audit_entry(self._context.now(), None, place, "act_for_user", about, outcome)
        try:
            await self._context.audit.append(line | {"address": request.address} | more)
        except Unavailable as error:
            log.critical("%s", error)


def _refuse_root(uid: int, wanted: int, name: str) -> None:
    """Refuse that the process of another account speaks for root, or for the account of the head.

    Raises:  NotAllowed ``no-root-by-web``.
    """
    if wanted in (0, os.geteuid()) and uid != wanted:
        raise NotAllowed(
            code="no-root-by-web",
            what=f"a gateway does not speak for {name!r}",
            fix="log in as another user; the cluster parameter Administrators names administrators",
        )


def _uid_of(name: str) -> int | None:
    if not name:
        return None
    try:
        return account(name).uid
    except NotFound:
        log.critical("the gateway user %r is no longer a user of this machine: no gateway is admitted", name)
        return None
