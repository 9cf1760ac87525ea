"""The head's address in the network: where nodes and clients of other machines find it; invitations."""

import secrets
import socket
from collections.abc import Callable
from pathlib import Path

from headnode.adapters.journal.sqlite import cluster_id
from headnode.adapters.nodes.entrance import Entrance, digest_of
from headnode.adapters.nodes.join_door import ClusterNames, JoinDoor, ServeClient, ServeNode
from headnode.adapters.nodes.links import NodeLinks
from headnode.adapters.nodes.membership import Invitation, read_address
from headnode.adapters.wire.frames import allow_many
from headnode.adapters.wire.tls import Authority, head_side, keep_buffers_small
from headnode.apps.server.command_batcher import CommandBatcher

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
        cluster: str,
        term: Callable[[], int],
    ) -> None:
        """Read or make the cluster's authority.

        Raises:  BadRequest ``listen`` when `address` is none; Unavailable ``authority``.
        """
        self.host, self.port = read_address(address, "listen")
        self._authority = Authority(state / "authority")
        names = ClusterNames(cluster, cluster_id(state), term, self.address)
        self._door = JoinDoor(self._authority, batcher.ask, links.serve_peer, serve_client, serve_task, names)

    async def open(self) -> Entrance:
        """Begin to listen; the caller closes what is returned.  Port 0 becomes a free one.

        Raises:  Unavailable ``listen``.
        """
        keep_buffers_small()
        allow_many()
        entrance = Entrance(head_side(self._authority), self._door.serve)
        self.port = await entrance.listen(self.host, self.port)
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

    def address(self) -> str:
        """Return HOST:PORT by which others reach this head."""
        host, port = self.place()
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def place(self) -> tuple[str, int]:
        """Return host and port by which others reach this head."""
        return socket.getfqdn() if self.host in ANY_ADDRESS else self.host, self.port

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the cluster's authority."""
        return self._authority.fingerprint
