"""Files that tasks have named for their output, read for the head as their users."""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from typing import Protocol

from headnode.adapters.nodes import messages as m
from headnode.apps.agent.users import as_here
from headnode.core.model.errors import HeadnodeError

MOST = 1 << 20  # bytes in one message
MOST_AT_ONCE = 8  # files: each is opened by a process of its own


class Opener(Protocol):
    """Who opens files as their users."""

    def __call__(self, path: str, uid: int, gid: int) -> Awaitable[int]:
        """Open a plain file as a user of this machine; return its descriptor.

        Raises:  FileNotFoundError; HeadnodeError.
        """


class Reading:
    """What is read now.  A file system that does not answer holds up nobody but who asked."""

    def __init__(self, node: str, opened: Opener, say: Callable[[m.FromAgent], None]) -> None:
        self._node, self._open, self._say = node, opened, say
        self._turns = asyncio.Semaphore(MOST_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, message: m.ReadFile, *, far: bool) -> None:
        """Read, and answer the head; `far`: it is on another machine."""
        task = asyncio.get_running_loop().create_task(self._read(message, far=far))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Read nothing more."""
        for task in self._tasks:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _read(self, message: m.ReadFile, *, far: bool) -> None:
        number = message.number
        try:
            async with self._turns:
                user = as_here(message, self._node, far=far)
                file = await self._open(message.path, user.uid, user.gid)
                data, size = await asyncio.to_thread(_piece, file, message.offset, min(message.most, MOST))
            self._say(m.OutputRead(number=number, data=data, size=size))
        except FileNotFoundError:
            self._say(m.OutputRead(number=number, data=b"", size=0, gone=True))
        except HeadnodeError as error:
            self._say(m.OutputRead(number=number, data=b"", size=0, problem=error.what))
        except OSError as error:
            self._say(m.OutputRead(number=number, data=b"", size=0, problem=os.strerror(error.errno or 0)))


def _piece(file: int, offset: int, most: int) -> tuple[bytes, int]:
    """Return up to `most` bytes from `offset` on, a negative one from the end, and the size of the file."""
    try:
        size = os.fstat(file).st_size
        start = offset if offset >= 0 else max(0, size + offset)
        return os.pread(file, most, start), size
    finally:
        os.close(file)
