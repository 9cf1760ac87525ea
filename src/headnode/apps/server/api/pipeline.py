"""One request of a client, whatever door it comes through: admitted, carried out, written to the audit log.

A door identifies its client (`Caller`), opens a session for it, and sends what `carry_out` returns.
"""

import contextlib
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final, Protocol

import msgspec
from msgspec.structs import replace

from headnode.apps.server.api.access import DONE, audit_entry, audited_answer, audited_fields
from headnode.apps.server.api.streams import StreamHandler
from headnode.apps.server.api.verbs import (
    RequestFields,
    Verb,
    VerbKind,
    VerbTable,
    decoded_size,
    read_fields,
    read_request,
    without_frames,
)
from headnode.apps.server.doors.user_shares import UserShare
from headnode.apps.server.server_context import ServerContext
from headnode.core.model.bounds import SHORT_LIST, SMALL_DECODED
from headnode.core.model.errors import BadRequest, HeadnodeError, NotAllowed, Unavailable, WrongState
from headnode.core.model.user import ExpectedState, IdempotencyKey, User
from headnode.core.state.decide import REPEATED, receipt_of, refuse_changed, state_of
from headnode.protocol.answers import VerbAnswer
from headnode.protocol.requests import VerbRequest

VERBS: Final[Mapping[str, Verb[Any, Any]]] = VerbTable(
    "headnode.apps.server.api",
    at_start=("jobs", "job_views", "groups", "nodes", "cluster", "access"),
    later=(
        "watch",
        "tasks",
        "job_batches",
        "job_efficiency",
        "queue",
        "events",
        "filters_templates",
        "reservations",
        "node_commands",
        "shell",
        "job_control",
        "delegations",
        "resources",
        "site",
        "limits",
        "standby",
        "recurring",
        "bank",
    ),
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
    session: bool  # the gateway speaks for a browser that has logged in

    def user(self) -> User:
        """Return the user of the client as known now.

        Raises:  NotAllowed if the client has no valid user any more.
        """


class IfMatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request changes something only if what `verb` shows of it has one of these tags; `*`: whatever it is.

    A tag is the first 32 hexadecimal digits of the SHA-256 of the answer without ``ok``, as it is sent.
    """

    verb: str
    tags: Annotated[list[str], msgspec.Meta(max_length=SHORT_LIST.most)]
    fields: RequestFields = {}


GUARDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "job": "job",
        "task": "job",
        "node": "node",
        "reservation": "name",
        "template": "template",
        "parameters": "",
    }
)
"""The verbs that show something that can be guarded, and their fields that name it."""
GUARD_FIELD: Final = "if_match"
ANYTHING: Final = "*"
NEVER: Final = b"no state is so"


def tag_of(answer: VerbAnswer) -> str:
    """Return the tag of an answer."""
    return hashlib.sha256(msgspec.json.encode(answer)).hexdigest()[:32]


class ClientSession:
    """One client with its share of the head: requests are carried out in turn with those of other users.

    A door holds `room_for` the bytes of a request while it reads and carries them out, and `sending` those of
    an answer until the client has read most of it.  After each answer it calls `answered`.
    """

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
        await self._context.batcher.settled()

    def room_for(self, size: int) -> contextlib.AbstractAsyncContextManager[None]:
        """Wait until there is room for a request of so many bytes, and hold it."""
        return self._shares.room_for(self._share, size)

    def sending(self, size: int) -> contextlib.AbstractContextManager[None]:
        """Count an answer of so many bytes until the client has read most of it."""
        return self._shares.unread(self._share, size)

    def answered(self) -> None:
        """End the head if a client asked for it: that client has its answer now."""
        if self._context.going_down:
            self._context.shut_down()

    async def carry_out(self, request: bytes) -> Reply:
        """Return the reply to a request when it is the user's turn.

        Raises:  HeadnodeError, which the door sends as the answer; ConnectionResetError when the client has
                 gone by then: what it still asked for is dropped.
        """
        await self._turn_of_client()
        size = decoded_size(request)
        is_small = size <= SMALL_DECODED.most
        async with contextlib.nullcontext() if is_small else self._room_to_decode(size):
            name, fields = read_request(request)
            del request  # from here on, nothing keeps what is not needed any more
            carried_out = self._carry_out_audited(_verb_named(name), fields)
            del fields
            return await carried_out

    @contextlib.asynccontextmanager
    async def _room_to_decode(self, size: int) -> AsyncIterator[None]:
        """Wait for so many bytes of memory, and hold these.

        Raises:  ConnectionResetError.
        """
        async with self._shares.room_to_decode(self._share, size):
            await self._turn_of_client()  # others had their turns while there was no room
            yield

    async def _turn_of_client(self) -> None:
        await self._shares.turn(self._share)
        if self._is_gone():
            raise ConnectionResetError("the client has disconnected")

    async def _carry_out_audited(self, verb: Verb[Any, Any], fields: RequestFields) -> Reply:
        user: User | None = None
        about = audited_fields(fields)
        try:
            user = self.user()
            verb.admit(user, near=self._caller.near, session=self._caller.session)
            if verb.again is not None and self._context.engine.closing:
                raise _closing()
            if verb.access.changes:
                self._context.audit.make_ready()
            rest, once = split_key(verb, fields)
            rest, guard = split_guard(verb, rest)
            request = read_fields(verb.request, verb.name, rest)
            del fields, rest
            if verb.kind is VerbKind.UPDATES:
                return self._updates(verb, user, about, request)
            only_adds = verb.adds and guard is None and getattr(request, "job", None) is None
            if self._context.cluster.limit_index.group_names and verb.access.changes:
                from headnode.apps.server.user_groups import note_groups  # few clusters have such limits

                await note_groups(self._context, [user])
            performed = self._perform_once(verb, user, once, guard, request)
            del request  # the answer may wait for the disk
            with contextlib.closing(performed):
                async with contextlib.nullcontext() if only_adds else self._context.batcher.shown():
                    reply = await performed
        except HeadnodeError as error:
            await self._write_audit(verb, user, about, without_frames(error))
            raise
        if verb.access.changes:
            await self._write_audit(verb, user, about | audited_answer(reply), None)
        return reply

    async def _perform_once(
        self,
        verb: Verb[Any, Any],
        user: User,
        once: IdempotencyKey | None,
        guard: IfMatch | None,
        request: VerbRequest,
    ) -> Reply:
        """Carry a request out; one with an idempotency key once only, one with a guard if that holds.

        Raises:  what refuses it.
        """
        if once is not None and (known := await self._answer_again(verb, user, once, request)) is not None:
            return known
        if guard is not None:
            user = replace(user, expected=await self._expected(user, guard))
        if once is None:
            return await self._perform(verb, user, request)
        try:
            return await self._perform(verb, replace(user, once=once), request)
        except WrongState as refused:
            if refused.code != REPEATED:
                raise
            known = await self._answer_again(verb, user, once, request)  # the same request came twice at once
            if known is None:
                raise
            return known

    async def _expected(self, user: User, guard: IfMatch) -> ExpectedState:
        """Return the state in which something is as the user has read it; the change is decided in no other.

        Raises:  WrongState ``changed``; what refuses to show it.
        """
        named = guard.fields.get(GUARDS[guard.verb], "")
        request = read_fields(VERBS[guard.verb].request, guard.verb, guard.fields)
        expected = ExpectedState(guard.verb, str(named), b"")
        if guard.verb == "task":
            expected = replace(expected, kind="job")
        state = state_of(self._context.cluster, expected.kind, expected.name)  # before it is shown
        answer = await VERBS[guard.verb].function(self._context, user, request)
        if not {tag_of(answer), ANYTHING} & set(guard.tags):
            refuse_changed(self._context.cluster, replace(expected, state=NEVER))
        return replace(expected, state=state)

    async def _answer_again(
        self, verb: Verb[Any, Any], user: User, once: IdempotencyKey, request: VerbRequest
    ) -> VerbAnswer | None:
        """Return the answer to a request that was carried out before; None: it was not.

        Raises:  BadRequest ``idempotency-conflict``; what the verb raises.
        """
        receipt = receipt_of(self._context.cluster, user, once, self._context.now())
        if receipt is not None and self._context.engine.unwritten:
            await self._context.batcher.settled()
            receipt = receipt_of(self._context.cluster, user, once, self._context.now())
        if receipt is None or verb.again is None:
            return None
        return await verb.again(self._context, user, receipt, request)

    async def _perform(self, verb: Verb[Any, Any], user: User, request: VerbRequest) -> Reply:
        reply: Reply = await verb.function(self._context, user, request)
        return reply

    async def _updates(
        self, verb: Verb[Any, Any], user: User, about: dict[str, Any], request: VerbRequest
    ) -> Updates:
        """Yield the answers to a request that has several."""
        try:
            await self._context.batcher.settled()
            updates: Updates = verb(self._context, self, request)
            async with contextlib.aclosing(updates):
                async for answer in updates:
                    yield answer
        except HeadnodeError as error:
            await self._write_audit(verb, user, about, error)
            raise

    async def _write_audit(
        self, verb: Verb[Any, Any], user: User | None, about: dict[str, Any], refused: HeadnodeError | None
    ) -> None:
        """Write a change to the audit log, and a request that was refused for want of rights.

        Raises:  Unavailable ``audit-late`` when a change cannot be written.
        """
        if not (verb.access.changes or isinstance(refused, NotAllowed)):
            return
        outcome = DONE if refused is None else refused.code
        line = audit_entry(self._context.now(), user, self._caller.origin, verb.name, about, outcome)
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


def _closing() -> Unavailable:
    what = "the head cancels all jobs and ends; it takes no new ones"
    return Unavailable(code="closing", what=what, fix="try again when the head was started again")


def _verb_named(name: str) -> Verb[Any, Any]:
    """Return the verb of a name.

    Raises:  BadRequest ``verb``.
    """
    if name not in VERBS:
        from headnode.core.formats.text.source_text import nearest_name  # only a misspelt name needs it

        close = nearest_name(name, [*VERBS])
        raise BadRequest(
            code="verb",
            what=f"there is no verb {name[:64]!r}",
            fix=f"did you mean {close!r}?" if close else "",
        )
    return VERBS[name]


IDEMPOTENCY_FIELD: Final = "idempotency"
MAX_KEY: Final = 64  # characters


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
    if not isinstance(key, str) or not 0 < len(key) <= MAX_KEY or not key.isprintable():
        raise BadRequest(
            code="idempotency",
            what="the idempotency key is not printable text",
            fix=f"use 1 to {MAX_KEY} characters, such as a UUID",
        )
    body = msgspec.json.encode([verb.name, rest], order="deterministic")
    return rest, IdempotencyKey(key, hashlib.sha256(body).digest()[:16], verb.name)


def split_guard(verb: Verb[Any, Any], fields: RequestFields) -> tuple[RequestFields, IfMatch | None]:
    """Return the fields without the guard, and the guard.

    Raises:  BadRequest ``if-match`` for one that is none, or for a verb that changes nothing.
    """
    if GUARD_FIELD not in fields:
        return fields, None
    rest = {name: value for name, value in fields.items() if name != GUARD_FIELD}
    try:
        guard = msgspec.convert(fields[GUARD_FIELD], IfMatch)
    except msgspec.ValidationError as error:
        raise BadRequest(code="if-match", what=f"{GUARD_FIELD} is wrong: {error}") from None
    if not verb.access.changes or guard.verb not in GUARDS:
        raise BadRequest(
            code="if-match",
            what=f"{verb.name} takes no {GUARD_FIELD} with the verb {guard.verb[:64]!r}",
            fix=f"use it for changes, with one of {', '.join(GUARDS)}",
        )
    return rest, guard
