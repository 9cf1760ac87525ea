"""Connections to the agent's sockets, until they say what they are: every user of the node can connect."""

import asyncio
from collections import Counter

from headnode.adapters.wire.frames import read_frame
from headnode.adapters.wire.peers import peer_ids

TIMEOUT = 20.0  # seconds for the first message
MAX_OF_ONE = 128  # connections of one user without a message; an agent has 1024 descriptors


class SilentPeers:
    """How many connections of each user have said nothing yet."""

    def __init__(self) -> None:
        self._users: Counter[int] = Counter()

    async def first_frame(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, largest: int
    ) -> bytes | None:
        """Return the first message; None when there is none, or too many of the user say nothing.

        Raises:  BadRequest ``frame``; TimeoutError.
        """
        _, uid, _ = peer_ids(writer.get_extra_info("socket"))
        if self._users[uid] >= MAX_OF_ONE:
            return None
        self._users[uid] += 1
        try:
            async with asyncio.timeout(TIMEOUT):
                return await read_frame(reader, largest)
        finally:
            self._users[uid] -= 1
            self._users += Counter()  # forgets those who are gone
