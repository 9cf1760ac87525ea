"""A connection from a head to its standby, and why there is none."""

import socket
import ssl
import time
from pathlib import Path
from typing import Final

import msgspec

from headnode.adapters.wire.peers import HEAD_NAME, STANDBY, connect_tls
from headnode.core.model.errors import Unavailable

CONNECT_TIME: Final = 5.0  # seconds to connect, and as many for the handshake

# A standby is a stranger: its address may be no name that the network knows (ValueError), its numbers huge.
UNREACHED: Final = (OSError, ValueError, OverflowError, msgspec.MsgspecError, Unavailable)


class StandbyProblem(Exception):
    """The standby cannot go on, in its own words."""


def dial(place: tuple[str, int], authority: Path) -> ssl.SSLSocket:
    """Connect to a standby that has the keys of the cluster.

    authority:  the file with the certificate of the cluster's authority
    Raises:  one of `UNREACHED`.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(authority)
    context.set_alpn_protocols([STANDBY])
    secure = connect_tls(place, context, HEAD_NAME, CONNECT_TIME, CONNECT_TIME)
    if secure.selected_alpn_protocol() != STANDBY:
        secure.close()
        raise ConnectionRefusedError("it knows no standby heads: its Headnode is older than 0.3")
    return secure


def read_bytes(connection: socket.socket, size: int, deadline: float) -> bytes:
    """Return so many bytes, until `deadline` on the monotonic clock.

    Raises:  OSError.
    """
    data = b""
    while len(data) < size:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        connection.settimeout(left)
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionResetError("it closed the connection")
        data += piece
    return data


def reason(error: Exception) -> str:
    """Return for people why a standby was not reached or not understood."""
    match error:
        case ssl.SSLCertVerificationError():
            return f"its certificate is not of this cluster ({error.verify_message})"
        case ConnectionRefusedError() if error.errno:
            return "nothing listens there"
        case TimeoutError():
            return "it does not answer"
        case OSError():
            return error.strerror or str(error) or type(error).__name__
        case _:
            return str(error)
