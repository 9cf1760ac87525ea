"""What each user may do and has of the head at a time: roles, connections, bytes, fair turns.

The bounds are those of `headnode.core.model.bounds`.  A user is counted by number, over all doors.
Requests of different users begin one after the other, however many each user has sent.
"""

import asyncio
import os
import resource
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from functools import lru_cache
from typing import NamedTuple

from headnode.adapters.identity.users import Account, groups_of
from headnode.core.model import bounds as b
from headnode.core.model.errors import NotAllowed, Unavailable
from headnode.core.model.user import User
from headnode.engine.settings import Settings, read_people

GROUPS_REMEMBERED = 60.0  # seconds that the groups of a user are believed: some sites ask a server for them
USERS_REMEMBERED = 1000  # users whose roles are not worked out again while nothing has changed
_NO_GROUPS: frozenset[str] = frozenset()


class Roles:
    """Looks up roles at each request, so that a change of the parameters counts at once.

    Groups are looked up only when needed: their source may be slow or unavailable.
    """

    def __init__(self, settings: Callable[[], Settings], groups_matter: Callable[[], bool]) -> None:
        """`groups_matter`: whether something but the parameters asks for the groups of users."""
        self._settings, self._groups_matter = settings, groups_matter
        self._groups: dict[Account, tuple[float, frozenset[str]]] = {}  # since when they are known

    def of(self, account: Account, *, by_key: bool = False) -> User:
        """Return the user of an account, with its current roles.

        by_key:  somebody with the key of a site says so; only users in `SiteKeyRoles` have their role then
        Raises:  NotAllowed ``no-root-by-key``.
        """
        settings = self._settings()
        names = _role_names(
            settings.text("Administrators"), settings.text("Operators"), settings.text("SiteKeyRoles")
        )
        groups = self._groups_of(account) if names.with_groups or self._groups_matter() else _NO_GROUPS
        return _user(account, groups, names, by_key)

    def _groups_of(self, account: Account) -> frozenset[str]:
        now = time.monotonic()
        since, groups = self._groups.get(account, (-GROUPS_REMEMBERED, frozenset()))
        if now - since >= GROUPS_REMEMBERED:
            self._groups = {
                member: known for member, known in self._groups.items() if now - known[0] < GROUPS_REMEMBERED
            }
            groups = groups_of(account)
            self._groups[account] = (now, groups)
        return groups


class _RoleNames(NamedTuple):
    """The users and @groups that the parameters name; `with_groups`: a group is among them."""

    administrators: frozenset[str]
    operators: frozenset[str]
    keep_roles: frozenset[str]
    with_groups: bool


@lru_cache(1)  # until a parameter changes: this is asked for each request
def _role_names(administrators: str, operators: str, keep_roles: str) -> _RoleNames:
    read = [frozenset(read_people(text)) for text in (administrators, operators, keep_roles)]
    with_groups = any(name.startswith("@") for names in read for name in names)
    return _RoleNames(read[0], read[1], read[2], with_groups)


@lru_cache(USERS_REMEMBERED)
def _user(account: Account, groups: frozenset[str], names: _RoleNames, by_key: bool) -> User:
    """Return the user of an account.

    Raises:  NotAllowed ``no-root-by-key``.
    """
    called = {account.name, *(f"@{group}" for group in groups)}
    if by_key and called.isdisjoint(names.keep_roles):
        return _without_role(account, groups)
    administers = account.uid in (0, os.geteuid()) or not called.isdisjoint(names.administrators)
    return User(
        name=account.name,
        uid=account.uid,
        gid=account.gid,
        administrator=administers,
        operator=not administers and not called.isdisjoint(names.operators),
        groups=tuple(sorted(groups)),
    )


def _without_role(account: Account, groups: frozenset[str]) -> User:
    if account.uid == 0:
        raise NotAllowed(
            code="no-root-by-key",
            what="a site key does not speak for root",
            fix="name another user; the cluster parameter SiteKeyRoles names those who keep their role",
        )
    return User(name=account.name, uid=account.uid, gid=account.gid, groups=tuple(sorted(groups)))


SHORT_ROUND = 0.01  # seconds of a round in which further requests of a user may begin
REST_AFTER_ROUND = 0.005  # seconds after a longer round
MAX_OF_USER_IN_ROUND = 32  # requests of a user in one round


class _WaitingRequest:
    """One request that waits."""

    def __init__(self) -> None:
        self.turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.first = False  # of its user in this round: it begins however long the round is


class RequestTurns:
    """VerbUsers may begin next."""

    def __init__(self) -> None:
        self._waiting: dict[int, deque[_WaitingRequest]] = {}  # by user; the user that waits longest is first
        self._put_back: dict[int, int] = {}  # how many were called in this round and wait again
        self._began = 0.0
        self._busy = False

    async def take(self, user: int) -> None:
        """Wait until it is this user's turn."""
        turn = _WaitingRequest()
        self._waiting.setdefault(user, deque()).append(turn)
        if not self._busy:
            self._busy = True
            asyncio.get_running_loop().call_soon(self._round)
        await turn.turn
        while not turn.first and time.monotonic() - self._began > SHORT_ROUND:
            self._wait_again(user, turn)
            await turn.turn

    def _wait_again(self, user: int, turn: _WaitingRequest) -> None:
        """Let a request wait for the next round, before those that were not called yet."""
        turn.turn = asyncio.get_running_loop().create_future()
        place = self._put_back.get(user, 0)
        self._put_back[user] = place + 1
        self._waiting.setdefault(user, deque()).insert(place, turn)

    def _round(self) -> None:
        """Call some requests of each user; the next round comes after all that these do at once."""
        self._put_back.clear()
        for user in list(self._waiting):
            waiting = self._waiting[user]
            first = True
            for _ in range(min(MAX_OF_USER_IN_ROUND, len(waiting))):
                turn = waiting.popleft()
                if not turn.turn.done():  # who asked has not gone away
                    turn.first, first = first, False
                    turn.turn.set_result(None)
            if not waiting:
                del self._waiting[user]
        self._began = time.monotonic()
        asyncio.get_running_loop().call_soon(self._after)

    def _after(self) -> None:
        """Wait for what the requests have given to the engine: that is done in the next step of the loop."""
        asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        loop = asyncio.get_running_loop()
        if not self._waiting:
            self._busy = False
        elif time.monotonic() - self._began > SHORT_ROUND:
            loop.call_later(REST_AFTER_ROUND, self._round)  # meanwhile requests of others are read
        else:
            self._round()


class UserShare:
    """What one user has now."""

    def __init__(self, user: int) -> None:
        self.user = user
        self.connections = 0
        self.unfinished = 0  # bytes of large requests
        self.decoded = 0  # bytes that decoded requests take
        self.unread = 0  # bytes of answers


class UserShares:
    """The shares of all connected users."""

    def __init__(self) -> None:
        self.turns = RequestTurns()
        self._of: dict[int, UserShare] = {}
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._most_common = min(b.CONNECTIONS_OF_ALL.most, descriptors // 2)
        self._connections = 0
        self._common = 0  # of these, of users who do not administer
        self._unfinished = 0
        self._decoded = 0
        self._freed = asyncio.Event()  # something was given back; replaced by a new one then

    @contextmanager
    def connected(self, user: int, *, administrator: bool) -> Iterator[UserShare]:
        """Count a connection as long as it lasts.

        Raises:  Unavailable ``too-many-connections``.
        """
        share = self._of.get(user) or UserShare(user)
        most = (b.CONNECTIONS_OF_ADMINISTRATOR if administrator else b.CONNECTIONS).most
        full = not administrator and self._common >= self._most_common
        if full or share.connections >= most:
            raise _too_many(most, full=full)
        self._of[user] = share
        share.connections += 1
        self._connections += 1
        self._common += not administrator
        try:
            yield share
        finally:
            share.connections -= 1
            self._connections -= 1
            self._common -= not administrator
            if not share.connections:
                self._of.pop(user, None)
            self._give_back()

    def room_for(self, share: UserShare, size: int) -> AbstractAsyncContextManager[None]:
        """Wait until there is room for a request of so many bytes, and hold it; small ones need none."""
        return nullcontext() if size <= b.SMALL_REQUEST.most else self._room_for(share, size)

    @asynccontextmanager
    async def _room_for(self, share: UserShare, size: int) -> AsyncIterator[None]:
        while share.unfinished + size > b.UNFINISHED.most or (
            self._unfinished + size > b.UNFINISHED_OF_ALL.most
        ):
            await self._freed.wait()
        share.unfinished += size
        self._unfinished += size
        try:
            yield
        finally:
            share.unfinished -= size
            self._unfinished -= size
            self._give_back()

    @asynccontextmanager
    async def room_to_decode(self, share: UserShare, size: int) -> AsyncIterator[None]:
        """Wait until there is room for a decoded request of so many bytes, and hold it.

        A request above the bound of its user waits until the user has no other; one above that of all, until
        nobody has one.
        """
        while (share.decoded and share.decoded + size > b.DECODED.most) or (
            self._decoded and self._decoded + size > b.DECODED_OF_ALL.most
        ):
            await self._freed.wait()
        share.decoded += size
        self._decoded += size
        try:
            yield
        finally:
            share.decoded -= size
            self._decoded -= size
            self._give_back()

    async def turn(self, share: UserShare) -> None:
        """Wait until the user has read most of the answers so far, and it is the user's turn.

        The only connection has no others to wait for: it saves two turns of the event loop (15 us).
        """
        while share.unread > b.ANSWERS.most:
            await self._freed.wait()
        if self._connections > 1:
            await self.turns.take(share.user)

    @contextmanager
    def unread(self, share: UserShare, size: int) -> Iterator[None]:
        """Count an answer until it is read."""
        share.unread += size
        try:
            yield
        finally:
            share.unread -= size
            self._give_back()

    def _give_back(self) -> None:
        self._freed.set()
        self._freed = asyncio.Event()


def _too_many(most: int, *, full: bool) -> Unavailable:
    whose = "the users of this head have" if full else "you have"
    number = b.CONNECTIONS_OF_ALL.most if full else most
    return Unavailable(
        code="too-many-connections",
        what=f"{whose} {number:,} connections to the head, which is the maximum",
        fix="end some programs that use the head, or try again later",
    )
