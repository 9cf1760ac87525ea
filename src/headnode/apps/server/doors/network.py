"""The head's address in the network: where nodes and clients of other machines find it; invitations."""

import asyncio
import secrets
import socket
from collections.abc import Sequence
from pathlib import Path

from headnode.adapters.nodes.entrance import Entrance, digest_of
from headnode.adapters.nodes.join_door import JoinDoor, ServeClient, ServeNode
from headnode.adapters.nodes.links import NodeLinks
from headnode.adapters.nodes.membership import Invitation, read_address
from headnode.adapters.wire.frames import BACKLOG, allow_many
from headnode.adapters.wire.tls import Authority, head_side, keep_buffers_small
from headnode.apps.server.command_batcher import CommandBatcher
from headnode.core.model.errors import Unavailable

ANY_ADDRESS = ("0.0.0.0", "::", "*")  # noqa: S104  (an administrator asks for it)


class NetworkListener:
    """Listens for nodes and clients of other machines."""

    def __init__(
        self,
        state: Path,
        address: str,
        batcher: CommandBatcher,
        links: NodeLinks,
        serve_client: ServeClient,
        serve_task: ServeNode,
    ) -> None:
        """Read or make the cluster's authority.

        Raises:  BadRequest ``listen`` when `address` is none; Unavailable ``authority``.
        """
        self.host, self.port = read_address(address, "listen")
        self._authority = Authority(state / "authority")
        self._door = JoinDoor(self._authority, batcher.ask, links.serve_peer, serve_client, serve_task)

    async def open(self) -> Entrance:
        """Begin to listen; the caller closes what is returned.  Port 0 becomes a free one.

        Raises:  Unavailable ``listen``.
        """
        keep_buffers_small()
        allow_many()
        entrance = Entrance(head_side(self._authority), self._door.serve)
        try:
            listening = await _listen(None if self.host == "*" else self.host, self.port)
        except OSError as error:
            raise Unavailable(
                code="listen",
                what=f"nodes cannot join at {self.host}:{self.port}: {error.strerror or error}",
                fix="choose another address or port with --listen",
            ) from None
        self.port = listening[0].getsockname()[1]
        entrance.open(listening)
        return entrance

    def invitation(self) -> tuple[str, str]:
        """Return a new invitation for people, and the digest of its secret for the engine."""
        secret = secrets.token_urlsafe(18)
        return self.offer(secret), digest_of(secret)

    def allocation_invitation(self, node: str) -> tuple[str, str]:
        """Return the invitation of an allocation, always the same, and the digest of its secret."""
        secret = self._authority.derived_secret(f"allocation {node}")
        return self.offer(secret), digest_of(secret)

    def offer(self, secret: str) -> str:
        """Return for people where this head is, how it is recognised, and a secret that it knows."""
        return str(Invitation(*self.place(), secret, self.fingerprint))

    def place(self) -> tuple[str, int]:
        """Return host and port by which others reach this head."""
        return socket.getfqdn() if self.host in ANY_ADDRESS else self.host, self.port

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the cluster's authority."""
        return self._authority.fingerprint


async def _listen(host: str | None, port: int) -> list[socket.socket]:
    """Return sockets that listen at all addresses of a host; None: at all of this machine.

    Raises:  OSError.
    """
    infos = await asyncio.get_running_loop().getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    found: list[socket.socket] = []
    try:
        for family, _, _, _, address in dict.fromkeys(infos):
            found.append(_listen_at(family, address, found))
    except OSError:
        for each in found:
            each.close()
        raise
    return found


def _listen_at(family: int, address: tuple[object, ...], before: Sequence[socket.socket]) -> socket.socket:
    """Return a socket that listens; a free port is that of the others."""
    listening = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        port = before[0].getsockname()[1] if before else address[1]
        listening.bind((address[0], port, *address[2:]))
        listening.listen(BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening
