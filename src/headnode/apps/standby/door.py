"""The port of a standby for other machines: its head sends events there; nodes and clients are sent on.

Nodes that look for their head there say for how long they have been without it.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from typing import Final, NamedTuple

import msgspec

from headnode.adapters.nodes.entrance import PeerAuthenticated
from headnode.adapters.wire.agent_messages import MAX_GREETING, MAX_REPORT, Hello
from headnode.adapters.wire.frame_codec import frame
from headnode.adapters.wire.frames import read_frame
from headnode.adapters.wire.messages import FromAgent, Goodbye
from headnode.adapters.wire.peers import CLIENT, STANDBY, TASKS
from headnode.adapters.wire.tls import peer_of, protocol_of
from headnode.apps.standby.following import HeadReplica
from headnode.core.model.bounds import GREETING_TIME, UNREADABLE
from headnode.core.model.errors import IS_STANDBY, HeadnodeError, Unavailable
from headnode.core.state.standby_votes import MIN_TAKEOVER_AFTER, RECENT, is_majority

MAX_NODES: Final = 100_000  # remembered; only nodes of the cluster are


class Knock(NamedTuple):
    """When a node asked last, on the monotonic clock, and its seconds without a word of a head then."""

    at: float
    silent: float


class Votes:
    """The last knock of each node."""

    def __init__(self) -> None:
        self._knocks: dict[str, Knock] = {}

    def knock(self, node: str, silent: float, now: float) -> None:
        """Note that a node has asked here, after so many seconds without a word of a head."""
        if node in self._knocks or len(self._knocks) < MAX_NODES:
            self._knocks[node] = Knock(now, silent)

    def without_head(self, of: Collection[str], seconds: float, now: float) -> int:
        """Return how many of these nodes asked just now, and had been without a head for so long then."""
        asked = [self._knocks[name] for name in of if name in self._knocks]
        return sum(now - knock.at <= RECENT and knock.silent >= seconds for knock in asked)

    def head_is_lost(self, received: float, of: Collection[str], requested: float, now: float) -> bool:
        """Whether a standby and more than half of these nodes have been without a head for long enough.

        heard:   when the standby heard the head last, on the monotonic clock
        requested:  seconds without the head, as the administrator has said
        """
        timeout = max(MIN_TAKEOVER_AFTER, requested)
        return now - received >= timeout and is_majority(self.without_head(of, timeout, now), of)


log = logging.getLogger("headnode.strangers")

_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[FromAgent] = msgspec.msgpack.Decoder(FromAgent)


class StandbyDoor:
    """Serves every connection from other machines."""

    def __init__(
        self,
        following: HeadReplica,
        refusal: Callable[[], Unavailable],
        knock: Callable[[str, str, float], None],
    ) -> None:
        """Make it.

        refusal:  says where the head is
        knock:    is told of a node that looks for its head: its name, the digest of its key, and its seconds
                  without a word of a head
        """
        self._following, self._refusal, self._knock = following, refusal, knock

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, authenticated: PeerAuthenticated
    ) -> None:
        """Serve one connection until it is over."""
        try:
            protocol = protocol_of(writer)
            if protocol == STANDBY:
                await self._following.serve(reader, writer, authenticated)
            elif protocol in (CLIENT, TASKS):
                await refuse_clients(reader, writer, self._refusal)
            else:
                await self._refuse_node(reader, writer)
        except (HeadnodeError, OSError, *UNREADABLE) as error:
            log.warning("a connection from %s was dropped: %s", writer.get_extra_info("peername"), error)
        finally:
            writer.close()

    async def _refuse_node(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Tell a node that the head is elsewhere."""
        async with asyncio.timeout(GREETING_TIME.most):
            peer = peer_of(writer)
            data = await read_frame(reader, MAX_REPORT if peer is not None else MAX_GREETING)
        if data is not None and peer is not None:
            hello = _decoder.decode(data)
            if isinstance(hello, Hello):
                self._knock(*peer, hello.silent)
        writer.write(frame(_encode(Goodbye(reason=f"{IS_STANDBY}: {self._refusal().what}"))))
        await writer.drain()


async def refuse_clients(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, refusal: Callable[[], Unavailable]
) -> None:
    """Answer each request of a client with the reason why this is not the head, until it goes away."""
    async with asyncio.timeout(GREETING_TIME.most):
        while await read_frame(reader, MAX_GREETING) is not None:
            answer = {"ok": False, **refusal().as_fields()}
            writer.write(frame(msgspec.json.encode(answer)))
            await writer.drain()
