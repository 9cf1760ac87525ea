"""The end of a `child_service` in its process.

Standard library only: filter processes start quickly and stay small.
"""

import socket
import sys
from collections.abc import Iterator

from headnode.adapters.wire.frame_codec import LONGEST, FrameDecoder

_READ = 1 << 18  # bytes


def parent_channel() -> socket.socket:
    """Return the socket whose descriptor is the last argument; no process that is started here inherits it.

    A process that kept it would hide that this one is gone.
    """
    channel = socket.socket(fileno=int(sys.argv[-1]))
    channel.set_inheritable(False)
    return channel


def messages(channel: socket.socket) -> Iterator[bytes]:
    """Yield what the parent says, until it hangs up or is gone."""
    frames = FrameDecoder(LONGEST)
    while data := _received(channel):
        yield from frames.feed(data)


def _received(channel: socket.socket) -> bytes:
    try:
        return channel.recv(_READ)
    except ConnectionResetError:  # it is gone, and has not read all
        return b""
