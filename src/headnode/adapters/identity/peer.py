"""Who is on the other end of a Unix socket, as the kernel says.

Source: unix(7), SO_PEERCRED.
"""

import os
import pwd
import socket
import struct

from headnode.core.model.user import User

_CREDENTIALS = struct.Struct("3i")


def peer_ids(connection: socket.socket) -> tuple[int, int, int]:
    """Return pid, uid and gid of the process that connected."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, gid = _CREDENTIALS.unpack(raw)
    return pid, uid, gid


def peer_user(connection: socket.socket) -> User:
    """Return the user who connected.  Root, and the user this process runs as, administer the cluster."""
    _, uid, gid = peer_ids(connection)
    return User(name=user_name(uid), uid=uid, gid=gid, administrator=uid in (0, os.geteuid()))


def user_name(uid: int) -> str:
    """Return the name of a user, or the number as text when the machine knows none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
