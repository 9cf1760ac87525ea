"""Fair turns: requests of different users begin one after the other, however many each user has sent.

A round lets each user who waits begin one request, and more as long as the round is short.  A user who sends
thousands of costly requests makes another wait for one of them; cheap requests that come together still share
one write to the journal.
"""

import asyncio
import time
from collections import deque

SHORT = 0.01  # seconds of a round in which further requests of a user may begin
REST = 0.005  # seconds after a longer round
MOST_OF_ONE = 32  # requests of a user in one round


class _Turn:
    """One request that waits."""

    def __init__(self) -> None:
        self.called: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.first = False  # of its user in this round: it begins however long the round is


class Turns:
    """Who may begin next."""

    def __init__(self) -> None:
        self._waiting: dict[int, deque[_Turn]] = {}  # by user; whoever waits longest is first
        self._put_back: dict[int, int] = {}  # how many were called in this round and wait again
        self._began = 0.0
        self._busy = False

    async def take(self, user: int) -> None:
        """Wait until it is this user's turn."""
        turn = _Turn()
        self._waiting.setdefault(user, deque()).append(turn)
        if not self._busy:
            self._busy = True
            asyncio.get_running_loop().call_soon(self._round)
        await turn.called
        while not turn.first and time.monotonic() - self._began > SHORT:
            self._wait_again(user, turn)
            await turn.called

    def _wait_again(self, user: int, turn: _Turn) -> None:
        """Let a request wait for the next round, before those that were not called yet."""
        turn.called = asyncio.get_running_loop().create_future()
        place = self._put_back.get(user, 0)
        self._put_back[user] = place + 1
        self._waiting.setdefault(user, deque()).insert(place, turn)

    def _round(self) -> None:
        """Call some requests of each user; the next round comes after all that these do at once."""
        self._put_back.clear()
        for user in list(self._waiting):
            waiting = self._waiting[user]
            first = True
            for _ in range(min(MOST_OF_ONE, len(waiting))):
                turn = waiting.popleft()
                if not turn.called.done():  # who asked has not gone away
                    turn.first, first = first, False
                    turn.called.set_result(None)
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
        elif time.monotonic() - self._began > SHORT:
            loop.call_later(REST, self._round)  # meanwhile requests of others are read
        else:
            self._round()
