"""What an SSSRMAP message asks for: signature and actor are checked, then the head is asked as that user."""

import asyncio
import hashlib
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar
from weakref import WeakValueDictionary

import msgspec

from headnode.apps.web.head_client import HeadClient, WebCaller
from headnode.core.formats.sss.sssrmap.messages import (
    RmapRequest,
    RmapResponse,
    RmapStatus,
    canonical,
    chunks_of,
    envelope,
    read_request,
    write_response,
)
from headnode.core.formats.sss.sssrmap.queries import refuse_many
from headnode.core.formats.sss.sssrmap.signatures import checked_body
from headnode.core.formats.sss.sssrmap.spellings import PeerNames, peer_names
from headnode.core.formats.sss.sssrmap.status import MessageFault, StatusCode, status_of_error
from headnode.core.model.bounds import NAME, NOTE
from headnode.core.model.errors import HeadnodeError

log = logging.getLogger("headnode.sssrmap")
Found = TypeVar("Found")

FRESH: Final = 1.0  # seconds for which the answers to queries of a user are shared
ID_TIME: Final = 300.0  # seconds for which an id is good
ID_AHEAD: Final = 5.0  # seconds by which a peer's clock may be ahead: only so old ids live through a restart
STALE: Final = 5.0  # seconds for which they are still given while others are made
SHARE: Final = 20  # an answer is fresh for so many times the time that it took, up to STALE
MAX_AT_ONCE: Final = 2_000  # objects, or conditions on them, that are worked on without a pause
MAX_SHARED: Final = 30_000  # rows that are kept
_MAX_IDS: Final = 100_000
_AT_ONCE: Final = 12  # requests of a user at the head
_ID: Final = re.compile(r"([0-9]{9,11})-[A-Za-z0-9-]{8,200}\Z")


class RmapRules(msgspec.Struct, frozen=True):
    """Whom a listener believes, and how it answers."""

    key: bytes
    methods: frozenset[str]
    actors: Mapping[str, str] | None = None  # the users of actors; None: an actor is the user of its name
    names: PeerNames = PeerNames.V3_0
    require_id: bool = False


class KnownAnswer(NamedTuple):
    """What was found, until when it is fresh, until when it may be given, and how many rows it has."""

    fresh_until: float
    until: float
    answer: Any
    size: int


class SharedAnswers:
    """What was found for a user a moment ago, so that many queries are one request to the head.

    An answer that is a little older is given while the next one is being made: a head that is at its limit
    does not keep queries waiting.  One that took long to make is given for longer: so polls of a long queue
    take little of the head.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], KnownAnswer] = {}  # the oldest first
        self._coming: dict[tuple[Any, ...], asyncio.Task[Any]] = {}

    async def find(
        self, key: tuple[Any, ...], make: Callable[[], Awaitable[Found]], fresh: float = FRESH
    ) -> Found:
        """Return what was made under a key at most `fresh` seconds ago, or before while it is made anew."""
        now = time.monotonic()
        known, coming = self._known.get(key), self._coming.get(key)
        if coming is None and (known is None or now > known.fresh_until):
            coming = self._coming[key] = asyncio.create_task(self._make(key, make, now, fresh))
            coming.add_done_callback(_note_failure)
        if known is not None and now < known.until:
            found: Found = known.answer
            return found
        return await asyncio.shield(coming) if coming is not None else await make()

    def peek(self, key: tuple[Any, ...]) -> Any:
        """Return what queries of this moment are answered with; None if nothing is known."""
        known, now = self._known.get(key), time.monotonic()
        if known is None or now >= known.until or (now > known.fresh_until and key not in self._coming):
            return None
        return known.answer

    async def _make(
        self, key: tuple[Any, ...], make: Callable[[], Awaitable[Found]], since: float, fresh: float
    ) -> Found:
        this = asyncio.current_task()
        try:
            answer = await make()
            if self._coming.get(key) is this:  # nothing was changed meanwhile
                size = len(answer) if isinstance(answer, list) else 1
                took = time.monotonic() - since
                fresh_until = since + max(fresh, min(STALE, SHARE * took))
                until = fresh_until + max(STALE, fresh)
                self._keep(key, KnownAnswer(fresh_until, until, answer, size))
        finally:
            if self._coming.get(key) is this:
                del self._coming[key]
        return answer

    def _keep(self, key: tuple[Any, ...], answer: KnownAnswer) -> None:
        self._known.pop(key, None)
        self._known[key] = answer
        while sum(each.size for each in self._known.values()) > MAX_SHARED:
            del self._known[next(iter(self._known))]

    def tidy(self) -> None:
        """Forget what is too old to be given; called now and then."""
        now = time.monotonic()
        self._known = {key: each for key, each in self._known.items() if now < each.until}

    def forget(self) -> None:
        """Forget everything: something was changed."""
        self._known.clear()
        self._coming.clear()


def _note_failure(made: "asyncio.Task[Any]") -> None:
    """Look at how a task has ended that perhaps nobody waits for any more."""
    if not made.cancelled() and made.exception() is not None:
        log.debug("the answer to a query cannot be made: %s", made.exception())


class IdGuard:
    """Takes each id of a changing request once: ``SECONDS-RANDOM``, with the time at which it was made."""

    def __init__(self, started: float, *, required: bool) -> None:
        self._started, self._required = started, required
        self._seen: dict[bytes, float] = {}  # digests of ids, the oldest first

    def admit(self, request: RmapRequest, now: float) -> str | None:
        """Return the idempotency key of a request; None if its id promises nothing.

        Raises:  MessageFault 314, 424, 234.
        """
        made = _ID.match(request.id)
        if made is None:
            if self._required:
                raise MessageFault(
                    StatusCode.MISSING, "the Request has no id of its own", 'write id="SECONDS-RANDOM"'
                )
            return None
        if not max(self._started, now - ID_TIME) <= int(made[1]) + 1 <= now + ID_AHEAD:
            raise MessageFault(StatusCode.AUTHENTICATION, "the time in the id of the Request is not now")
        while self._seen and next(iter(self._seen.values())) < now - 2 * ID_TIME:
            del self._seen[next(iter(self._seen))]
        name = hashlib.sha256(f"{request.actor} {request.id}".encode()).digest()
        if name in self._seen and request.action.lower() not in REPEATABLE:
            raise MessageFault(StatusCode.NOT_UNIQUE, "a request with this id was carried out before")
        if len(self._seen) >= _MAX_IDS:
            raise MessageFault(StatusCode.BUSY, "too many requests", "try again later")
        self._seen.setdefault(name, now)
        return f"sssrmap {request.id}"


REPEATABLE: Final = frozenset(("submit", "create"))
"""The actions, in small letters, that the head itself carries out once for a key, and answers again."""


class HeadDesk:
    """The head as all requests use it: each user asks for a few things at once, and shares answers."""

    def __init__(self, head: HeadClient) -> None:
        self.head, self.shared = head, SharedAnswers()
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def turns(self, user: str) -> asyncio.Semaphore:
        """Return what a user's requests wait for."""
        return self._turns.setdefault(user, asyncio.Semaphore(_AT_ONCE))


class RmapCall:
    """One request whose actor is known."""

    def __init__(
        self,
        desk: HeadDesk,
        caller: WebCaller,
        request: RmapRequest,
        kind: str,
        names: PeerNames,
        key: str | None,
    ) -> None:
        """`kind` of objects; `names` that the peer uses; `key`: the idempotency key."""
        self._desk, self._caller, self.request = desk, caller, request
        self.kind, self.names, self.key = kind, names, key

    async def ask(self, verb: str, **fields: Any) -> dict[str, Any]:
        """Return the answer of the head to a verb.

        Raises:  HeadnodeError.
        """
        async with self._desk.turns(str(self._caller.user)):
            return await self._desk.head.ask_plain(self._caller, verb, **fields)

    async def shared(
        self, key: tuple[Any, ...], make: Callable[[], Awaitable[Found]], fresh: float = FRESH
    ) -> Found:
        """Return what queries of this user share for a moment."""
        return await self._desk.shared.find((self._caller.user, *key), make, fresh)

    def known(self, key: tuple[Any, ...]) -> Any:
        """Return what queries of this user share now; None if nothing is known."""
        return self._desk.shared.peek((self._caller.user, *key))

    def part(self, request: RmapRequest, kind: str, names: PeerNames) -> "RmapCall":
        """Return the call of the same user for a part of what is asked."""
        return RmapCall(self._desk, self._caller, request, kind, names, None)


Function = Callable[[RmapCall], Awaitable[RmapResponse]]
Actions = Mapping[str, Mapping[str, Function]]


class RmapService:
    """Answers messages."""

    def __init__(
        self, head: HeadClient, rules: RmapRules, actions: Actions, join: Function, started: float
    ) -> None:
        """`actions`: what is done, by kinds of objects and names of actions; `started` since 1970.

        join:  answers queries of several kinds of objects
        """
        self._desk, self._rules, self._actions, self._join = HeadDesk(head), rules, actions, join
        self._ids = IdGuard(started, required=rules.require_id)
        self._kinds = {kind.lower(): kind for kind in actions}

    def tidy(self) -> None:
        """Forget what no query will be answered with; called now and then."""
        self._desk.shared.tidy()

    async def answer(self, message: bytes, address: str) -> list[bytes]:
        """Return the answer to a message, in one or several chunks."""
        request_id = ""
        try:
            request = read_request(checked_body(message, self._rules.key, self._rules.methods))
            request_id = request.id
            response = await self._respond(request, address)
        except HeadnodeError as error:
            return [envelope(refusal_of(error, request_id))]
        response = msgspec.structs.replace(response, id=request_id)
        return await in_turn(len(response.data), partial(_written, response, request.chunk_size))

    async def _respond(self, request: RmapRequest, address: str) -> RmapResponse:
        refuse_many(request)
        if not request.objects:
            raise MessageFault(
                StatusCode.NO_OBJECT, "the Request has no Object", "write <Object>Job</Object>"
            )
        kinds = [self._kind(name) for name in request.objects]
        request = msgspec.structs.replace(request, objects=tuple(kinds))
        function = self._function(kinds[0], request.action)
        changes = request.action.lower() != "query"
        if len(kinds) > 1:
            if changes:
                raise MessageFault(
                    StatusCode.COMBINATION,
                    "several Objects, which only a Query can have",
                    "ask for one kind at a time",
                )
            function = self._join
        caller = WebCaller(address, user=self._user(request.actor), by_key=True)
        key = self._ids.admit(request, time.time()) if changes else None
        names = peer_names(request, kinds[0], self._rules.names)
        try:
            return await function(RmapCall(self._desk, caller, request, kinds[0], names, key))
        finally:
            if changes:
                self._desk.shared.forget()

    def _kind(self, name: str) -> str:
        """Return the kind of objects of a name in any case.

        Raises:  MessageFault 315.
        """
        kind = self._kinds.get(name.lower())
        if kind is None:
            raise MessageFault(
                StatusCode.WRONG_OBJECT,
                f"there are no objects {name[:64]!r}",
                f"use {', '.join(self._actions)}",
            )
        return kind

    def _function(self, kind: str, action: str) -> Function:
        of_kind = {name.lower(): function for name, function in self._actions[kind].items()}
        if (function := of_kind.get(action.lower())) is not None:
            return function
        known = {name.lower() for actions in self._actions.values() for name in actions}
        status = StatusCode.NOT_SUPPORTED if action.lower() in known else StatusCode.WRONG_ACTION
        raise MessageFault(
            status, f"{kind} has no action {action!r}", f"use {', '.join(self._actions[kind])}"
        )

    def _user(self, actor: str) -> str:
        """Return the user of an actor.

        Raises:  MessageFault 444.
        """
        actors = self._rules.actors
        user = actor if actors is None else actors.get(actor, "")
        if not user or len(user) > NAME.most:
            raise MessageFault(StatusCode.NOT_ALLOWED, f"the actor {actor[:64]!r} is not known here")
        return user


def _written(response: RmapResponse, size: int | None) -> list[bytes]:
    return [envelope(canonical(write_response(chunk))) for chunk in chunks_of(response, size)]


async def in_turn(steps: int, work: Callable[[], Found]) -> Found:
    """Return what some work makes; if it has many steps, others are served meanwhile."""
    return await asyncio.to_thread(work) if steps > MAX_AT_ONCE else work()


def refusal_of(error: HeadnodeError, request_id: str = "") -> str:
    """Return the Body that tells an error."""
    text = f"{error.what}; {error.fix}" if error.fix else error.what
    status = RmapStatus(str(status_of_error(error)), text[: NOTE.most])
    return canonical(write_response(RmapResponse(status=status, id=request_id)))
