"""TLS 1.3 between the head and nodes of other machines, by certificates of the cluster's own authority.

Source: RFC 8446; RFC 7301 for ALPN.
"""

import asyncio
import asyncio.sslproto
import ssl
from pathlib import Path

from headnode.adapters.identity.authority import Authority, KeyPair, named_in
from headnode.adapters.identity.head_name import CLIENT, HEAD_NAME, TASKS
from headnode.adapters.nodes.keeping_alive import keep_alive

HANDSHAKE = 10.0  # seconds that a peer has to show who it is
_READ_BUFFER = 16 * 1024  # bytes of each connection; asyncio's own 256 KiB are too much for thousands


def head_side(authority: Authority) -> ssl.SSLContext:
    """Return how the head listens: nodes show a certificate; who has none yet may ask to join."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(authority.head.certificate, authority.head.key)
    context.load_verify_locations(authority.file)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.set_alpn_protocols([CLIENT, TASKS])
    return context


def node_side(authority: Path, own: KeyPair | None = None, protocol: str = "") -> ssl.SSLContext:
    """Return how a node dials: the head must be whom `authority` vouches for; `own` shows who we are.

    `protocol` as in `head_name`; empty: that of nodes.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(authority)
    if own is not None:
        context.load_cert_chain(own.certificate, own.key)
    if protocol:
        context.set_alpn_protocols([protocol])
    return context


def stranger_side() -> ssl.SSLContext:
    """Return how somebody dials who knows nobody yet: only to be told the authority, which he then checks."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def peer_of(writer: asyncio.StreamWriter) -> tuple[str, str] | None:
    """Return the node that is on the other end and the digest of its key; None: it showed nothing.

    Raises:  BadRequest ``certificate``.
    """
    tls: ssl.SSLObject | None = writer.get_extra_info("ssl_object")
    shown = tls.getpeercert(binary_form=True) if tls is not None else None
    return named_in(shown) if shown else None


def protocol_of(writer: asyncio.StreamWriter) -> str:
    """Return the protocol that the other end asked for, as in `head_name`; empty: that of nodes."""
    tls: ssl.SSLObject | None = writer.get_extra_info("ssl_object")
    return (tls.selected_alpn_protocol() or "") if tls is not None else ""


def keep_buffers_small() -> None:
    """Let each connection of this process take little memory: a head has thousands."""
    asyncio.sslproto.SSLProtocol.max_size = _READ_BUFFER


async def dial(
    host: str, port: int, context: ssl.SSLContext
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return a connection to the head.

    Raises:  OSError (also ssl.SSLError) when it is away, or is not the head that is meant.
    """
    reader, writer = await asyncio.open_connection(
        host, port, ssl=context, server_hostname=HEAD_NAME, ssl_handshake_timeout=HANDSHAKE
    )
    keep_alive(writer)
    return reader, writer
