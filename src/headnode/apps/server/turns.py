"""Fair turns: requests of different users begin one after the other, however many each user has sent.

A round lets each user who waits begin as many requests as the last rounds had time for, at least one.  A user
who sends thousands of costly requests makes another wait for one of them; cheap requests that come together
still share one write to the journal.
"""

import asyncio
import time
from collections import deque

QUICK, SLOW = 0.005, 0.02  # seconds of a round after which the next is larger, or smaller
MOST_OF_ONE = 32  # requests of a user in one round


class Turns:
    """Who may begin next."""

    def __init__(self) -> None:
        self._waiting: dict[int, deque[asyncio.Future[None]]] = {}  # by user; whoever waits longest is first
        self._each = 1  # requests of one user in a round
        self._began = 0.0
        self._busy = False

    async def take(self, user: int) -> None:
        """Wait until it is this user's turn."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.setdefault(user, deque()).append(turn)
        if not self._busy:
            self._busy = True
            self._began = time.monotonic()
            loop.call_soon(self._round)
        await turn

    def _round(self) -> None:
        """Let one round of requests begin; the next one comes after all that these do at once."""
        for user in list(self._waiting):
            waiting = self._waiting[user]
            for _ in range(min(self._each, len(waiting))):
                turn = waiting.popleft()
                if not turn.done():
                    turn.set_result(None)
            if not waiting:
                del self._waiting[user]
        self._began = time.monotonic()
        asyncio.get_running_loop().call_soon(self._after)

    def _after(self) -> None:
        """Wait for what the requests have given to the engine: that is done in the next step of the loop."""
        asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        took = time.monotonic() - self._began
        if took > SLOW:
            self._each = max(1, self._each // 2)
        elif took < QUICK:
            self._each = min(MOST_OF_ONE, 2 * self._each)
        if self._waiting:
            self._round()
        else:
            self._busy = False
