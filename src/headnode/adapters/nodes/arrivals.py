"""Who has just connected: the first message of a connection, and who may say how much in it."""

import asyncio
import os
import socket
from collections.abc import Callable
from typing import NamedTuple

from headnode.adapters.identity.peer import peer_ids
from headnode.adapters.nodes import messages as m
from headnode.adapters.nodes.framing import read_frame
from headnode.adapters.nodes.link import PATIENCE
from headnode.core.lifecycle.cluster import Cluster
from headnode.core.model.node import NodeState


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


def refusal(hello: m.Hello, shown: Shown | None) -> str:
    """Return why somebody may not be a node, whatever the cluster says; empty when nothing is wrong."""
    if hello.protocol != m.PROTOCOL:
        return f"this head speaks protocol {m.PROTOCOL}, not {hello.protocol}"
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
