"""Who is on the other end of a socket: names in TLS handshakes, and what the kernel says.

Imports little: clients hurry."""

import pwd
import socket
import struct

HEAD_NAME = "head.headnode.invalid"
"""The name in the head's certificate: all ask for it, whatever address they dial."""
CLIENT = "headnode-client"
"""The ALPN protocol of clients on other machines; a peer without one is a node."""
STANDBY = "headnode-standby"
"""What a head asks for that sends its events to a standby head (ALPN)."""
TASKS = "headnode-tasks"
"""What a node asks for that passes on what its tasks ask (ALPN)."""


_CREDENTIALS = struct.Struct("3i")


def peer_ids(connection: socket.socket) -> tuple[int, int, int]:
    """Return pid, uid and gid of the process that connected."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, gid = _CREDENTIALS.unpack(raw)
    return pid, uid, gid


def user_name(uid: int) -> str:
    """Return the name of a user, or the number as text when the machine knows none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
