"""The head's door for other machines: shows its certificate, admits invited nodes, recognises known ones."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import msgspec

from headnode import __version__
from headnode.adapters.nodes.entrance import PeerAuthenticated, digest_of
from headnode.adapters.nodes.link import facts_of, misunderstanding
from headnode.adapters.nodes.membership import read_address
from headnode.adapters.wire.agent_messages import (
    MAX_GREETING,
    CertificateRejected,
    GetAuthority,
    Join,
    JoinStandby,
)
from headnode.adapters.wire.frame_codec import frame
from headnode.adapters.wire.frames import read_frame
from headnode.adapters.wire.messages import (
    AuthorityCertificate,
    FromStranger,
    Goodbye,
    Joined,
    StandbyJoined,
    ToStranger,
)
from headnode.adapters.wire.peers import CLIENT, STANDBY, TASKS
from headnode.adapters.wire.standby_messages import STANDBY_PROTOCOL, IsHead, encode_message
from headnode.adapters.wire.tls import Authority, peer_of, protocol_of
from headnode.core.model.bounds import GREETING_TIME, NAME, UNREADABLE
from headnode.core.model.errors import BadRequest, HeadnodeError, NotAllowed
from headnode.core.model.node import facts_objection
from headnode.core.state import events as e
from headnode.core.state.command import Command
from headnode.core.state.join import AdmitNode, AdmitStandby

log = logging.getLogger("headnode.nodes")
strangers = logging.getLogger("headnode.strangers")

TIMEOUT = float(GREETING_TIME.most)  # seconds that a stranger has for all it wants to say

ServeNode = Callable[[asyncio.StreamReader, asyncio.StreamWriter, str, str], Awaitable[None]]
"""Serves a node that showed its certificate: its name and the digest of its key."""

ServeClient = Callable[[asyncio.StreamReader, asyncio.StreamWriter, PeerAuthenticated], Awaitable[None]]
"""Serves a client that is not authenticated yet."""

_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[FromStranger] = msgspec.msgpack.Decoder(FromStranger)


def _read(data: bytes) -> FromStranger:
    """Return what a stranger says.

    Raises:  BadRequest ``message``.
    """
    try:
        return _decoder.decode(data)
    except UNREADABLE as error:
        raise BadRequest(code="message", what=f"it sent no valid message: {error}") from None


class ClusterNames(NamedTuple):
    """What a standby head receives about the cluster that it joins."""

    name: str
    id: str
    term: Callable[[], int]  # how often a standby became the head
    address: Callable[[], str]  # HOST:PORT of this head


class JoinDoor:
    """Serves every connection from other machines.  A bad one costs itself only."""

    def __init__(
        self,
        authority: Authority,
        ask: Callable[[Command], Awaitable[Sequence[e.Event]]],
        serve_node: ServeNode,
        serve_client: ServeClient,
        serve_task: ServeNode,
        cluster: ClusterNames,
    ) -> None:
        self._authority, self._ask, self._serve_node = authority, ask, serve_node
        self._serve_client, self._serve_task, self._cluster = serve_client, serve_task, cluster

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, authenticated: PeerAuthenticated
    ) -> None:
        """Serve one connection until it is over; `authenticated` is called once it is known whose it is."""
        try:
            node = peer_of(writer)
            protocol = protocol_of(writer)
            if protocol == CLIENT:
                await self._let_client_in(reader, writer, node, authenticated)
            elif protocol == STANDBY:
                await self._answer_former_head(reader, writer)
            elif protocol == TASKS:
                await self._let_task_in(reader, writer, node, authenticated)
            elif node is not None:
                authenticated()  # each certificate has one connection that has said nothing yet
                await self._serve_node(reader, writer, *node)
            else:
                await self._receive(reader, writer)
        except (HeadnodeError, OSError, TimeoutError) as error:
            peer = writer.get_extra_info("peername")
            strangers.warning(
                "a connection from %s was dropped: %s", peer, error or "it sent nothing in time"
            )
        finally:
            writer.close()

    async def _let_client_in(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        node: tuple[str, str] | None,
        authenticated: PeerAuthenticated,
    ) -> None:
        """Serve a client; the certificate of a node is worth nothing there.

        Raises:  NotAllowed ``node-as-client``.
        """
        if node is not None:
            raise NotAllowed(
                code="node-as-client", what=f"the certificate of node {node[0]!r} was presented by a client"
            )
        await self._serve_client(reader, writer, authenticated)

    async def _let_task_in(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        node: tuple[str, str] | None,
        authenticated: PeerAuthenticated,
    ) -> None:
        """Serve a user that the node represents.

        Raises:  NotAllowed ``no-node``.
        """
        if node is None:
            raise NotAllowed(
                code="no-node", what="a connection without a certificate sent the request of a task"
            )
        authenticated()
        await self._serve_task(reader, writer, *node)

    async def _answer_former_head(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Tell a head that looks for its standby here that this is a head, and since which takeover."""
        async with asyncio.timeout(TIMEOUT):
            if await read_frame(reader, MAX_GREETING) is not None:
                writer.write(frame(encode_message(IsHead(self._cluster.term(), self._cluster.address()))))
                await writer.drain()

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a peer without a certificate, for at most `TIMEOUT` seconds."""
        async with asyncio.timeout(TIMEOUT):
            while (data := await read_frame(reader, MAX_GREETING)) is not None:
                writer.write(frame(_encode(await self._answer(_read(data)))))
                await writer.drain()

    async def _answer(self, message: FromStranger) -> ToStranger:
        match message:
            case CertificateRejected(node=node):
                log.warning(
                    "node %.64r does not trust the certificate of this head and does not connect: it joined "
                    "a head with other keys; restore the directory authority/ from a backup (hn restore), or "
                    "let the node join again (hn node invite --for NAME)",
                    node,
                )
                return Goodbye()
            case GetAuthority():
                return AuthorityCertificate(certificate=self._authority.certificate)
            case Join():
                try:
                    return await self._join(message)
                except HeadnodeError as error:
                    strangers.warning("node %r may not join: %s", message.facts.name[: NAME.most], error)
                    return Goodbye(reason=str(error))
            case JoinStandby():
                try:
                    return await self._join_standby(message)
                except HeadnodeError as error:
                    strangers.warning("%r may not be a standby: %s", message.name[: NAME.most], error)
                    return Goodbye(reason=str(error))

    async def _join_standby(self, message: JoinStandby) -> ToStranger:
        """Let an invited machine be a standby head: it gets the keys of the cluster.

        Raises:  what refuses it.
        """
        if message.protocol != STANDBY_PROTOCOL:
            return Goodbye(reason=f"this head runs Headnode {__version__}; install it there, too")
        read_address(message.address, "listen")
        files = self._authority.files()
        await self._ask(
            AdmitStandby(
                digest=digest_of(message.secret),
                name=message.name,
                address=message.address,
                takeover_after=message.takeover_after,
            )
        )
        log.info("%s at %s is a standby head", message.name, message.address)
        return StandbyJoined(cluster=self._cluster.name, cluster_id=self._cluster.id, authority=files)

    async def _join(self, message: Join) -> ToStranger:
        """Let an invited node in.

        Raises:  what refuses it.
        """
        if why_not := misunderstanding(message.protocol):
            return Goodbye(reason=why_not)
        if impossible := facts_objection(message.facts):
            return Goodbye(reason=f"the machine reports invalid properties: {impossible}")
        name = message.facts.name
        certificate, key = self._authority.vouch_for(message.certificate_request, name)
        admit = AdmitNode(digest=digest_of(message.secret), facts=facts_of(message), key=key)
        events = await self._ask(admit)
        log.info("node %s joined", name)
        pending = any(isinstance(event, e.NodeRegistered) and not event.approved for event in events)
        return Joined(certificate=certificate, approved=not pending)
