"""The head's place in the network: where nodes of other machines find it, and how they are invited."""

import asyncio
import secrets
import socket
from pathlib import Path

from headnode.adapters.identity.authority import Authority
from headnode.adapters.nodes.descriptors import allow_many
from headnode.adapters.nodes.encryption import HANDSHAKE, head_side, keep_buffers_small
from headnode.adapters.nodes.identity import Invitation, read_address
from headnode.adapters.nodes.joining import Door, ServeClient, ServeNode, digest_of
from headnode.adapters.nodes.links import NodeLinks
from headnode.adapters.nodes.sockets import BACKLOG, quiet_at_the_end
from headnode.apps.server.inbox import Inbox
from headnode.core.model.errors import Unavailable

ANYWHERE = ("0.0.0.0", "::", "*")  # noqa: S104  (an administrator asks for it)


NOWHERE = "none"
"""What ends listening that an earlier start of the head began."""


def address_to_listen_at(state: Path, wished: str) -> str:
    """Return where to listen: as wished now, else as it was wished last; empty: nowhere.

    Raises:  OSError when the wish cannot be remembered.
    """
    remembered = state / "listen"
    if wished.casefold() == NOWHERE:
        remembered.unlink(missing_ok=True)
        return ""
    if wished:
        remembered.write_text(wished + "\n", encoding="utf-8")
        return wished
    return remembered.read_text(encoding="utf-8").strip() if remembered.exists() else ""


class Network:
    """Listens for nodes and clients of other machines."""

    def __init__(
        self,
        state: Path,
        address: str,
        inbox: Inbox,
        links: NodeLinks,
        serve_client: ServeClient,
        serve_task: ServeNode,
    ) -> None:
        """Read or make the cluster's authority.

        Raises:  BadRequest ``listen`` when `address` is none; Unavailable ``authority``.
        """
        self.host, self.port = read_address(address, "listen")
        self._authority = Authority(state / "authority")
        self._door = Door(self._authority, inbox.ask, links.serve_peer, serve_client, serve_task)

    async def open(self) -> asyncio.Server:
        """Begin to listen; the caller closes what is returned.  Port 0 becomes a free one.

        Raises:  Unavailable ``listen``.
        """
        keep_buffers_small()
        allow_many()
        try:
            server = await asyncio.start_server(
                quiet_at_the_end(self._door.serve),
                None if self.host == "*" else self.host,
                self.port,
                ssl=head_side(self._authority),
                ssl_handshake_timeout=HANDSHAKE,
                backlog=BACKLOG,
            )
        except OSError as error:
            raise Unavailable(
                code="listen",
                what=f"nodes cannot be listened for at {self.host}:{self.port}: {error.strerror or error}",
                fix="choose another address or port with --listen",
            ) from None
        self.port = server.sockets[0].getsockname()[1]
        return server

    def invitation(self) -> tuple[str, str]:
        """Return a new invitation for people, and the digest of its secret for the engine."""
        secret = secrets.token_urlsafe(18)
        return str(Invitation(*self.place(), secret, self.fingerprint)), digest_of(secret)

    def place(self) -> tuple[str, int]:
        """Return host and port by which others reach this head."""
        return socket.getfqdn() if self.host in ANYWHERE else self.host, self.port

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the cluster's authority."""
        return self._authority.fingerprint
