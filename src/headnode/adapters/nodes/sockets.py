"""Unix sockets in a state directory, however long its path is, and how their connections end."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

BACKLOG = 1024


def listen(path: Path, mode: int) -> socket.socket:
    """Return a socket that listens at `path` with the given permissions; an old one left there is replaced.

    The caller must hold the state directory's lock, so whatever lies at `path` is nobody's any more.
    The directory is named through its descriptor, because the kernel takes no more than 107 bytes.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        path.unlink(missing_ok=True)
        listener.bind(f"/proc/self/fd/{directory}/{path.name}")
        path.chmod(mode)
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    finally:
        os.close(directory)
    return listener


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""Serves one connection until it is over."""


def quiet_at_the_end(serve: Serve) -> Serve:
    """Return the same, but for a connection that is canceled because the process ends.

    Python 3.11 logs a connection that ends canceled as an error of the program, with its traceback.
    """

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await serve(reader, writer)

    return served
