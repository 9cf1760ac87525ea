"""One request of a client, whatever door it comes through: admitted, carried out, written to the audit log.

A door identifies its client (`Caller`), opens a session for it, and sends what `carry_out` returns.
"""

import contextlib
import hashlib
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol

import msgspec
from msgspec.structs import replace

from headnode.apps.server.api import (
    access,
    cluster,
    events,
    filters_templates,
    groups,
    job_views,
    jobs,
    node_commands,
    nodes,
    queue,
    reservations,
    shell,
    tasks,
    watch,
)
from headnode.apps.server.api.access import DONE, audit_entry, audited_answer
from headnode.apps.server.api.streams import StreamHandler
from headnode.apps.server.api.verbs import RequestFields, Verb, VerbKind, read_fields, read_request
from headnode.apps.server.doors.user_shares import UserShare
from headnode.apps.server.server_context import ServerContext
from headnode.core.formats.text.source_text import nearest_name
from headnode.core.model.errors import BadRequest, HeadnodeError, NotAllowed, WrongState
from headnode.core.model.user import IdempotencyKey, User
from headnode.core.state.decide import REPEATED, receipt_of
from headnode.protocol.answers import VerbAnswer

VERB_MODULES: Final = (
    jobs,
    job_views,
    queue,
    watch,
    events,
    groups,
    tasks,
    nodes,
    node_commands,
    shell,
    reservations,
    filters_templates,
    cluster,
    access,
)
VERBS: Final[Mapping[str, Verb[Any, Any]]] = MappingProxyType(
    {each.name: each for module in VERB_MODULES for each in vars(module).values() if isinstance(each, Verb)}
)
"""Every verb of the protocol, by its name."""

Updates = AsyncGenerator[VerbAnswer, None]
Reply = VerbAnswer | Updates | StreamHandler
"""One answer; or answers to the last one; or the conversation that takes the connection over."""


class Caller(Protocol):
    """The client of a request, as its door identifies it."""

    origin: str  # where the client is, for the audit log
    host: str  # the host on which it is
    near: bool  # it is on the head's own machine

    def user(self) -> User:
        """Return the user of the client as known now.

        Raises:  NotAllowed if the client has no valid user any more.
        """


class ClientSession:
    """One client with its share of the head: requests are carried out in turn with those of other users."""

    def __init__(
        self, context: ServerContext, caller: Caller, share: UserShare, is_gone: Callable[[], bool]
    ) -> None:
        """`is_gone`: whether the client has gone, so that no further answer is needed."""
        self._context, self._caller, self._is_gone = context, caller, is_gone
        self._shares, self._share = context.shares, share

    def user(self) -> User:
        """Return the user of the client as known now.

        Raises:  NotAllowed if the client has no valid user any more.
        """
        return replace(self._caller.user(), origin=self._caller.origin, host=self._caller.host)

    async def turn(self) -> None:
        """Wait until it is the user's turn, and most of the answers so far are read."""
        await self._shares.turn(self._share)

    def room_for(self, size: int) -> contextlib.AbstractAsyncContextManager[None]:
        """Wait until there is room for a request of so many bytes, and hold it."""
        return self._shares.room_for(self._share, size)

    def sending(self, size: int) -> contextlib.AbstractContextManager[None]:
        """Count an answer of so many bytes until the client has read most of it."""
        return self._shares.unread(self._share, size)

    def answered(self) -> None:
        """End the head if it was told to: the client that told it so has its answer now."""
        if self._context.going_down:
            self._context.shut_down()

    async def carry_out(self, request: bytes) -> Reply:
        """Return the reply to a request when it is the user's turn.

        Raises:  HeadnodeError, which the door sends as the answer; ConnectionResetError when the client has
                 gone by then: what it still asked for is dropped.
        """
        await self._shares.turn(self._share)
        if self._is_gone():
            raise ConnectionResetError("the client has disconnected")
        name, fields = read_request(request)
        del request  # nothing keeps the bytes in memory
        verb = _verb_named(name)
        user: User | None = None
        try:
            user = self.user()
            verb.admit(user, near=self._caller.near)
            if verb.access.changes:
                self._context.audit.make_ready()
            if verb.kind is VerbKind.UPDATES:
                return self._updates(verb, user, fields)
            reply: Reply = await self._carry_out_once(verb, user, fields)
        except HeadnodeError as error:
            await self._write_audit(verb, user, fields, error)
            raise
        if verb.access.changes:
            await self._write_audit(verb, user, {**fields, **audited_answer(reply)}, None)
        return reply

    async def _carry_out_once(self, verb: Verb[Any, Any], user: User, fields: RequestFields) -> Reply:
        """Carry a request out; one with an idempotency key once only.

        Raises:  what refuses it.
        """
        rest, once = split_key(verb, fields)
        if once is None:
            return await self._perform(verb, user, rest)
        if (known := await self._answer_again(verb, user, once, rest)) is not None:
            return known
        try:
            return await self._perform(verb, replace(user, once=once), rest)
        except WrongState as refused:
            if refused.code != REPEATED:
                raise
            known = await self._answer_again(verb, user, once, rest)  # the same request came twice at once
            if known is None:
                raise
            return known

    async def _answer_again(
        self, verb: Verb[Any, Any], user: User, once: IdempotencyKey, fields: RequestFields
    ) -> VerbAnswer | None:
        """Return the answer to a request that was carried out before; None: it was not.

        Raises:  BadRequest ``idempotency-conflict``; what the verb raises.
        """
        receipt = receipt_of(self._context.cluster, user, once, self._context.now())
        if receipt is None or verb.again is None:
            return None
        return await verb.again(self._context, user, receipt, read_fields(verb.request, verb.name, fields))

    async def _perform(self, verb: Verb[Any, Any], user: User, fields: RequestFields) -> Reply:
        reply: Reply = await verb.function(self._context, user, read_fields(verb.request, verb.name, fields))
        return reply

    async def _updates(self, verb: Verb[Any, Any], user: User, fields: RequestFields) -> Updates:
        """Yield the answers to a request that has several."""
        try:
            updates: Updates = verb(self._context, self, read_fields(verb.request, verb.name, fields))
            async with contextlib.aclosing(updates):
                async for answer in updates:
                    yield answer
        except HeadnodeError as error:
            await self._write_audit(verb, user, fields, error)
            raise

    async def _write_audit(
        self, verb: Verb[Any, Any], user: User | None, fields: RequestFields, refused: HeadnodeError | None
    ) -> None:
        """Write a change to the audit log, and a request that was refused for want of rights.

        Raises:  Unavailable ``audit-late`` when a change cannot be written.
        """
        if not (verb.access.changes or isinstance(refused, NotAllowed)):
            return
        outcome = DONE if refused is None else refused.code
        line = audit_entry(self._context.now(), user, self._caller.origin, verb.name, fields, outcome)
        if refused is None:
            await self._context.audit.append(line)
            return
        with contextlib.suppress(HeadnodeError):  # nothing was changed; the line is written when it can be
            await self._context.audit.append(line)


@contextlib.contextmanager
def client_session(
    context: ServerContext, caller: Caller, is_gone: Callable[[], bool] = lambda: False
) -> Iterator[ClientSession]:
    """Give a client its share of the head as long as it is connected.

    Raises:  NotAllowed if the client has no valid user; Unavailable ``too-many-connections``.
    """
    user = caller.user()
    with context.shares.connected(user.uid, administrator=user.administrator) as share:
        yield ClientSession(context, caller, share, is_gone)


def _verb_named(name: str) -> Verb[Any, Any]:
    """Return the verb of a name.

    Raises:  BadRequest ``verb``.
    """
    if name not in VERBS:
        close = nearest_name(name, [*VERBS])
        raise BadRequest(
            code="verb",
            what=f"there is no verb {name[:64]!r}",
            fix=f"did you mean {close!r}?" if close else "",
        )
    return VERBS[name]


IDEMPOTENCY_FIELD: Final = "idempotency"
LONGEST_KEY: Final = 64  # characters


def split_key(verb: Verb[Any, Any], fields: RequestFields) -> tuple[RequestFields, IdempotencyKey | None]:
    """Return the fields without the key, and the key with a digest of the request.

    Raises:  BadRequest ``idempotency`` for a key that is none, or a verb that creates nothing.
    """
    if IDEMPOTENCY_FIELD not in fields:
        return fields, None
    rest = {name: value for name, value in fields.items() if name != IDEMPOTENCY_FIELD}
    key = fields[IDEMPOTENCY_FIELD]
    if verb.again is None:
        raise BadRequest(code="idempotency", what=f"{verb.name} takes no idempotency key", fix="leave it out")
    if not isinstance(key, str) or not 0 < len(key) <= LONGEST_KEY or not key.isprintable():
        raise BadRequest(
            code="idempotency",
            what="the idempotency key is not printable text",
            fix=f"use 1 to {LONGEST_KEY} characters, such as a UUID",
        )
    body = msgspec.json.encode([verb.name, rest], order="deterministic")
    return rest, IdempotencyKey(key, hashlib.sha256(body).digest()[:16], verb.name)
