"""Who is on the other end of a Unix socket, as the kernel says.

Source: unix(7), SO_PEERCRED.
"""

import pwd
import socket
import struct

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
