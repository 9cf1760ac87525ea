"""Who is on the other end of a socket: names in TLS handshakes, and what the kernel says.

Imports little: clients hurry."""

import os
import pwd
import socket
import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from ssl import SSLContext, SSLSocket

HEAD_NAME = "head.headnode.invalid"
"""The name in the head's certificate: all ask for it, whatever address they dial."""
CLIENT = "headnode-client"
"""The ALPN protocol of clients on other machines; a peer without one is a node."""
STANDBY = "headnode-standby"
"""What a head asks for that sends its events to a standby head (ALPN)."""
TASKS = "headnode-tasks"
"""What a node asks for that passes on what its tasks ask (ALPN)."""
Address = tuple[str, int]
"""A host and its port."""


_CREDENTIALS = struct.Struct("3i")


@contextmanager
def unix_address(path: "Path") -> "Iterator[str]":
    """Lend an address of the Unix socket at `path`, which itself may be too long: the kernel takes 107 bytes.

    Raises:  OSError when its directory is not there.
    """
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def peer_ids(connection: socket.socket) -> tuple[int, int, int]:
    """Return pid, uid and gid of the process that connected."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, gid = _CREDENTIALS.unpack(raw)
    return pid, uid, gid


def written_address(address: Address) -> str:
    """Return an address as HOST:PORT, or [HOST]:PORT of IPv6."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def user_name(uid: int) -> str:
    """Return the name of a user, or the number as text when the machine knows none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def connect_tls(
    place: Address, context: "SSLContext", name: str, timeout: float, handshake: float
) -> "SSLSocket":
    """Return a connection to the first address of a host that accepts one, after the handshake.

    A socket is wrapped before it connects: of one whose connection has ended already, `wrap_socket` makes a
    connection without a handshake, or leaves it open with an error.

    name:       the name that the certificate must have
    timeout:   seconds for each address to accept
    handshake:  seconds for the handshake
    Raises:  OSError, of which ssl.SSLError is one; ValueError for what cannot be the name of a host.
    """
    refused = OSError(f"{place[0]} has no address")
    for family, kind, protocol, _, address in socket.getaddrinfo(*place, type=socket.SOCK_STREAM):
        try:
            plain = socket.socket(family, kind, protocol)
        except OSError as error:  # a kernel without IPv6
            refused = error
            continue
        secure = context.wrap_socket(plain, server_hostname=name, do_handshake_on_connect=False)
        try:
            secure.settimeout(timeout)
            secure.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            secure.connect(address)
        except OSError as error:
            secure.close()
            refused = error
            continue
        try:
            secure.settimeout(handshake)
            secure.do_handshake()
        except BaseException:
            secure.close()
            raise
        return secure
    raise refused
