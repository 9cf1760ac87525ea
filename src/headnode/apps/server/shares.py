"""What each user has of the head at a time: connections, bytes of requests, bytes of answers, turns.

The bounds are those of `headnode.core.model.bounds`.  A user is counted by number, over all doors.
"""

import asyncio
import resource
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from headnode.apps.server.turns import Turns
from headnode.core.model import bounds as b
from headnode.core.model.errors import Unavailable


class Share:
    """What one user has now."""

    def __init__(self, user: int) -> None:
        self.user = user
        self.connections = 0
        self.unfinished = 0  # bytes of large requests
        self.unread = 0  # bytes of answers


class Shares:
    """The shares of all users who have a connection."""

    def __init__(self) -> None:
        self.turns = Turns()
        self._of: dict[int, Share] = {}
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._most_common = min(b.CONNECTIONS_OF_ALL.most, descriptors // 2)
        self._common = 0  # connections of users who do not administer
        self._unfinished = 0
        self._freed = asyncio.Event()  # something was given back; replaced by a new one then

    @contextmanager
    def connected(self, user: int, *, administrator: bool) -> Iterator[Share]:
        """Count a connection as long as it lasts.

        Raises:  Unavailable ``too-many-connections``.
        """
        share = self._of.get(user) or Share(user)
        most = (b.CONNECTIONS_OF_ADMINISTRATOR if administrator else b.CONNECTIONS).most
        full = not administrator and self._common >= self._most_common
        if full or share.connections >= most:
            raise _too_many(most, full=full)
        self._of[user] = share
        share.connections += 1
        self._common += not administrator
        try:
            yield share
        finally:
            share.connections -= 1
            self._common -= not administrator
            if not share.connections:
                self._of.pop(user, None)
            self._give_back()

    @asynccontextmanager
    async def room_for(self, share: Share, size: int) -> AsyncIterator[None]:
        """Wait until there is room for a request of so many bytes, and hold it; small ones need none."""
        if size <= b.SMALL_REQUEST.most:
            yield
            return
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

    async def turn(self, share: Share) -> None:
        """Wait until the user has read most of the answers so far, and it is the user's turn."""
        while share.unread > b.ANSWERS.most:
            await self._freed.wait()
        await self.turns.take(share.user)

    @contextmanager
    def unread(self, share: Share, size: int) -> Iterator[None]:
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
        what=f"{whose} {number:,} connections to the head, and no more are possible",
        fix="end some programs that use the head, or try again later",
    )
