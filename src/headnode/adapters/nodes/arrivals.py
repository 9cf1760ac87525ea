"""Who has just connected: the first message of a connection, and who may say how much in it."""

import asyncio
import os
import socket
from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from headnode.adapters.identity.peer import peer_ids
from headnode.adapters.nodes import messages as m
from headnode.adapters.nodes.framing import read_frame
from headnode.adapters.nodes.link import PATIENCE
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.model.node import NodeFacts, NodeState


class Shown(NamedTuple):
    """What the certificate of a connection says: the node, and the digest of its key."""

    node: str
    key: str


class Arrivals:
    """The connections of nodes that have not said hello."""

    def __init__(self, cluster: Callable[[], Cluster]) -> None:
        self._cluster = cluster
        self._arriving: dict[str, asyncio.StreamWriter] = {}

    async def first_message(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, shown: Shown | None
    ) -> bytes | None:
        """Return the first message of a connection; each certificate may have one that has said nothing yet.

        Who shows a certificate and is no node of ours, or not yet, may only say little.
        """
        if shown is None:
            async with asyncio.timeout(PATIENCE):
                return await read_frame(reader, m.LARGEST_REPORT)
        before = self._arriving.get(shown.node)
        if before is not None:
            before.transport.abort()
        self._arriving[shown.node] = writer
        node = self._cluster().nodes.get(shown.node)
        is_in = node is not None and node.key == shown.key and node.state is not NodeState.PENDING
        try:
            async with asyncio.timeout(PATIENCE):
                return await read_frame(reader, m.LARGEST_REPORT if is_in else m.LARGEST_GREETING)
        finally:
            if self._arriving.get(shown.node) is writer:
                del self._arriving[shown.node]


def misunderstanding(protocol: int) -> str:
    """Return why nobody who speaks this protocol is understood; empty when he is."""
    if m.OLDEST <= protocol <= m.PROTOCOL:
        return ""
    spoken = f"this head speaks protocols {m.OLDEST} to {m.PROTOCOL}, not {protocol}"
    where = "on the head node first" if protocol > m.PROTOCOL else "on this node"
    return f"{spoken}; update Headnode {where}"


def facts_of(greeting: m.Hello | m.Join, address: str = "") -> NodeFacts:
    """Return what a machine says of itself, with what its protocol and its address say of that."""
    return replace(greeting.facts, hooks=greeting.protocol >= m.HOOKS_SINCE, address=address)


def address_of(writer: asyncio.StreamWriter) -> str:
    """Return the address that a connection comes from; empty for one of this machine."""
    peer = writer.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple) and peer else ""


def refusal(hello: m.Hello, shown: Shown | None) -> str:
    """Return why somebody may not be a node, whatever the cluster says; empty when nothing is wrong."""
    if why_not := misunderstanding(hello.protocol):
        return why_not
    if shown is not None and shown.node != hello.facts.name:
        return f"the certificate is that of node {shown.node!r}"
    return ""


def may_join(writer: asyncio.StreamWriter) -> bool:
    """Only root and the head's own user may speak for this machine's nodes."""
    connection: socket.socket | None = writer.get_extra_info("socket")
    if connection is None:
        return False
    _, uid, _ = peer_ids(connection)
    return uid in (0, os.geteuid())
