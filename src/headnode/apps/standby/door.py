"""The port of a standby for other machines: its head sends events there; nodes and clients are sent on."""

import asyncio
import logging
from collections.abc import Callable

import msgspec

from headnode.adapters.nodes.entrance import KnownPeers
from headnode.adapters.wire.agent_messages import MAX_GREETING, MAX_REPORT, Hello
from headnode.adapters.wire.frame_codec import frame
from headnode.adapters.wire.frames import read_frame
from headnode.adapters.wire.messages import FromAgent, Goodbye
from headnode.adapters.wire.peers import CLIENT, STANDBY, TASKS
from headnode.adapters.wire.tls import peer_of, protocol_of
from headnode.apps.standby.following import HeadReplica
from headnode.core.model.bounds import GREETING_TIME, UNREADABLE
from headnode.core.model.errors import IS_STANDBY, HeadnodeError, Unavailable

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
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, known: KnownPeers
    ) -> None:
        """Serve one connection until it is over."""
        try:
            protocol = protocol_of(writer)
            if protocol == STANDBY:
                await self._following.serve(reader, writer, known)
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
