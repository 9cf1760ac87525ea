"""Descriptors of open files that one process sends to another over a Unix socket.

`socket.recv_fds` of CPython 3.11 ignores its flags, so what it receives stays open in every program that is
started later.  These descriptors are closed on exec from the moment they arrive.
Standard library only: this is loaded by the shepherd factory.
Source: unix(7), SCM_RIGHTS; recvmsg(2), MSG_CMSG_CLOEXEC.
"""

import array
import os
import socket
from collections.abc import Iterable

_SIZE = array.array("i").itemsize


def receive_files(channel: socket.socket, size: int, most: int) -> tuple[bytes, list[int]]:
    """Return a message of at most `size` bytes, and the descriptors that came with it, at most `most`.

    Raises:  OSError, BlockingIOError as `socket.recvmsg` does; OSError when more came, which are all closed.
    """
    data, ancillary, flags, _ = channel.recvmsg(
        size, socket.CMSG_SPACE(most * _SIZE), socket.MSG_CMSG_CLOEXEC
    )
    files = array.array("i")
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            files.frombytes(content[: len(content) - len(content) % _SIZE])
    if flags & socket.MSG_CTRUNC or len(files) > most:  # CMSG_SPACE rounds up, so one too many may fit
        close_all(files)
        raise OSError(f"more than {most} descriptors were sent")
    return data, files.tolist()


def close_all(files: Iterable[int]) -> None:
    """Close descriptors."""
    for file in files:
        os.close(file)


def keep_only(*kept: int) -> None:
    """Close every descriptor of this process but standard input, output, error and those that are named."""
    first = 3
    for descriptor in sorted({file for file in kept if file >= first}):
        os.closerange(first, descriptor)
        first = descriptor + 1
    os.closerange(first, _END)


_END = 1 << 30  # beyond every descriptor; the kernel knows which are open
