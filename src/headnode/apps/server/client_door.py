"""Clients of other machines: a login is taken for a token, and a token says who asks.

They come to the port of the nodes and are told apart by the protocol that they ask for in the handshake.
"""

import asyncio
import logging
import secrets
from typing import Any

from headnode.adapters.nodes.entrance import Known
from headnode.adapters.nodes.framing import read_frame
from headnode.adapters.nodes.joining import digest_of
from headnode.adapters.nodes.keeping_alive import keep_alive
from headnode.apps.server.auditing import entry
from headnode.apps.server.callers import TokenCaller
from headnode.apps.server.conversation import Conversation, send
from headnode.apps.server.desk import Desk
from headnode.apps.server.failed_logins import FailedLogins
from headnode.apps.server.requests import read_request, read_wish, refusal
from headnode.apps.server.watching import Watchers
from headnode.apps.server.wishes import TakeLoginWish, TokenWish
from headnode.core.lifecycle import commands as c
from headnode.core.lifecycle.events import TokenMade
from headnode.core.model.bounds import CLIENT_GREETING, GREETING_TIME
from headnode.core.model.errors import BadRequest, HeadnodeError, NotAllowed, Unavailable

log = logging.getLogger("headnode.clients")
strangers = logging.getLogger("headnode.strangers")


class ClientDoor:
    """Serves every client of other machines.  A bad one costs its own connection only."""

    def __init__(self, desk: Desk, watchers: Watchers) -> None:
        self._desk, self._watchers = desk, watchers
        self._failed = FailedLogins()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, known: Known) -> None:
        """Serve one connection until it is over; `known` is called after the login."""
        address = _address(writer)
        keep_alive(writer)
        try:
            caller = await self._greet(reader, writer, address)
            if caller is not None:
                known()
                await self._serve_known(caller, reader, writer)
        except HeadnodeError as error:
            strangers.warning("a client at %s was turned away: %s", address, error)
            send(writer, refusal(error))
        except (ConnectionError, TimeoutError) as error:
            strangers.info("a client at %s has disconnected: %s", address, error or "it was too slow")
        finally:
            writer.close()

    async def _greet(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str
    ) -> TokenCaller | None:
        """Return who it is; None: he has got what he came for.

        Raises:  NotAllowed ``token`` and ``login``; BadRequest.
        """
        async with asyncio.timeout(GREETING_TIME.most):
            data = await read_frame(reader, CLIENT_GREETING.most)
        if data is None:
            return None
        verb, fields = read_request(data)
        match verb:
            case "take_login":
                send(writer, await self._take(fields, address))
                return None
            case "log_in":
                return await self._known(fields, address)
        raise BadRequest(
            code="log-in",
            what=f"a client of another machine begins with log_in, not with {verb!r}",
            fix="hn login",
        )

    async def _take(self, fields: dict[str, Any], address: str) -> dict[str, Any]:
        """Give a token for a login."""
        wish = read_wish(TakeLoginWish, "take_login", fields)
        if not isinstance(wish, TakeLoginWish):
            raise BadRequest(code="request", what="no login is shown")
        self._desk.audit.make_ready()
        token = secrets.token_urlsafe(32)
        take = c.TakeLogin(login=digest_of(wish.secret), digest=digest_of(token), address=address)
        try:
            made = next(event for event in await self._desk.ask(take) if isinstance(event, TokenMade))
        except NotAllowed as error:
            await self._tell_failure(address, "take_login", error.code)
            raise
        await self._tell_audit(address, "take_login", "done", user=made.user, token=made.token)
        return {
            "ok": True,
            "token": token,
            "number": made.token,
            "user": made.user,
            "expires": made.expires,
            "cluster": self._desk.name,
        }

    async def _known(self, fields: dict[str, Any], address: str) -> TokenCaller:
        wish = read_wish(TokenWish, "log_in", fields)
        digest = digest_of(wish.token if isinstance(wish, TokenWish) else "")
        try:
            await self._desk.ask(c.UseToken(digest=digest, address=address))
            return TokenCaller(self._desk, self._desk.roles, digest, address)
        except NotAllowed as error:
            await self._tell_failure(address, "log_in", error.code)
            raise

    async def _tell_failure(self, address: str, verb: str, outcome: str) -> None:
        before = self._failed.note(self._desk.now())
        if before is not None:
            await self._tell_audit(
                address, verb, outcome, more={"unwritten_before": before} if before else {}
            )

    async def _tell_audit(
        self, address: str, verb: str, outcome: str, more: dict[str, int] | None = None, **about: object
    ) -> None:
        try:
            line = entry(self._desk.now(), None, address, verb, about, outcome)
            await self._desk.audit.append(line | (more or {}))
        except Unavailable as error:
            log.critical("%s", error)

    async def _serve_known(
        self, caller: TokenCaller, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        user = caller.user()
        with self._desk.shares.connected(user.uid, administrator=user.administrator) as share:
            send(writer, {"ok": True, "user": user.name, "cluster": self._desk.name})
            await Conversation(self._desk, self._watchers, caller, share, (reader, writer)).go_on()


def _address(writer: asyncio.StreamWriter) -> str:
    peer = writer.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple) and peer else "?"
