"""The end of a `child_service` in its process.

Standard library only: filter processes start quickly and stay small.
"""

import os
import socket
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from headnode.adapters.wire.frame_codec import MAX_LENGTH, FrameDecoder

if TYPE_CHECKING:  # filter processes need no pools
    from concurrent.futures import Future

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
    frames = FrameDecoder(MAX_LENGTH)
    while data := _received(channel):
        yield from frames.feed(data)


def _received(channel: socket.socket) -> bytes:
    try:
        return channel.recv(_READ)
    except ConnectionResetError:  # it is gone, and has not read all
        return b""


def end_on_fault(work: "Future[Any]") -> None:
    """End this process if a thread of a pool has failed: the parent notices that, and asks another."""
    fault = work.exception()
    if fault is not None:
        end_with(fault)


def end_with(fault: BaseException) -> None:
    """Show the fault where the output of this process goes, and end it, whatever its other threads do."""
    sys.excepthook(type(fault), fault, fault.__traceback__)
    os._exit(70)
