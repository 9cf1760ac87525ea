"""Output of tasks for the head: captured, or in files that they named; read as their users."""

import asyncio
import concurrent.futures
import contextlib
import heapq
import os
import pwd
import shutil
import stat
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from pathlib import Path
from typing import Protocol, TypeVar

from msgspec.structs import replace

from headnode.adapters.wire import messages as m
from headnode.adapters.wire.agent_messages import OutputRead
from headnode.adapters.wire.messages import FromAgent, ReadFile
from headnode.core.launching.recipe import captured_name, former_captured_name
from headnode.core.model.errors import HeadnodeError, NotFound, Unavailable

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def read_captured(job_directory: Path, name: str, offset: int, most: int) -> tuple[bytes, int]:
    """Return up to `most` bytes from `offset` on, and the size of the file; a missing file is an empty one.

    A negative offset counts from the end.
    Raises:  NotFound ``no-output`` when what is there is not a regular file of the job's user.
    """
    try:
        with contextlib.ExitStack() as opened:
            file = _open(job_directory, name, opened)
            size = os.fstat(file).st_size
            start = offset if offset >= 0 else max(0, size + offset)
            return os.pread(file, most, start), size
    except FileNotFoundError:
        return b"", 0
    except OSError as error:
        raise NotFound(
            code="no-output",
            what=f"captured output {name!r} cannot be read: {os.strerror(error.errno or 0)}",
            fix="an administrator can look at the file on the node",
        ) from None


def read_captured_of(
    job_directory: Path, instance: tuple[int, int], offset: int, most: int
) -> tuple[bytes, int]:
    """Return what `read_captured` does of an instance (task, instance), wherever it is.

    Raises:  as `read_captured`.
    """
    output = read_captured(job_directory, captured_name(*instance), offset, most)
    return (
        output if output[1] else read_captured(job_directory, former_captured_name(*instance), offset, most)
    )


def jobs_with_output(output: Path, after: int, most: int) -> list[int]:
    """Return the first `most` of the jobs with ids above `after` that have a directory below `output`."""
    with os.scandir(output) as entries:
        jobs = (int(entry.name) for entry in entries if entry.name.isascii() and entry.name.isdecimal())
        return heapq.nsmallest(most, (job for job in jobs if job > after))


def remove_outputs(output: Path, jobs: Iterable[int], stay: Collection[int]) -> list[str]:
    """Remove what was captured of these jobs, but for those that `stay`; return what went wrong."""
    troubles: list[str] = []
    for job in jobs:
        if job not in stay:
            shutil.rmtree(
                output / str(job), onerror=lambda _, path, why: troubles.append(f"{path}: {why[1]}")
            )
    return troubles


def _open(job_directory: Path, name: str, opened: contextlib.ExitStack) -> int:
    folder = _entered(os.open(job_directory, _DIRECTORY), opened)
    owner = os.fstat(folder).st_uid
    *folders, last = name.split("/")
    for part in folders:
        folder = _entered(os.open(part, _DIRECTORY, dir_fd=folder), opened)
    file = _entered(os.open(last, _FILE, dir_fd=folder), opened)
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != owner:
        raise NotFound(
            code="no-output",
            what=f"captured output {name!r} is not a regular file of the job's user",
            fix="an administrator can look at the file on the node",
        )
    return file


def _entered(descriptor: int, opened: contextlib.ExitStack) -> int:
    opened.callback(os.close, descriptor)
    return descriptor


FileRequest = TypeVar("FileRequest", m.OpenJob, m.ReadFile)


def as_here(opened: FileRequest, node: str, *, far: bool) -> FileRequest:
    """Return the message about a user with the user's numbers on this machine.

    `far`: the head is on another.
    Raises:  Unavailable ``no-such-user``, ``other-number`` or ``other-user`` when it cannot run here.
    """
    own = _named(opened, node) if far else opened
    if os.geteuid() not in (0, own.uid):
        raise Unavailable(
            code="other-user",
            what=f"the agent of node {node!r} cannot run programs as {opened.owner!r}",
            fix="start the agent as root, or submit as the user who started it",
        )
    return own


def _named(opened: FileRequest, node: str) -> FileRequest:
    try:
        account = pwd.getpwnam(opened.owner)
    except (KeyError, ValueError):
        raise Unavailable(
            code="no-such-user",
            what=f"user {opened.owner!r} does not exist on node {node!r}",
            fix="create the user there, or request other nodes",
        ) from None
    if opened.same_uid and account.pw_uid != opened.uid:
        raise Unavailable(
            code="other-number",
            what=f"user {opened.owner!r} is {account.pw_uid} on node {node!r}, and {opened.uid} on the head",
            fix="use the same uid on both, or map users by name: hn cluster params UserMapping=name",
        )
    return replace(opened, uid=account.pw_uid, gid=account.pw_gid)


MAX_PIECE = 1 << 20  # bytes in one message
MAX_AT_ONCE = 8  # files: each is opened by a process of its own, and read by a thread of its own
MAX_WAITING = 256  # requests that wait for their turn; more are refused
MAX_OF_USER = 4  # files of one user at once: those that hang leave the others' turns free
MAX_WAITING_OF_USER = 32  # requests of one user that wait for their turn; more are refused
HANGS = 10.0  # seconds until a read takes a turn of its user only


class Opener(Protocol):
    """Who opens files as their users."""

    def __call__(self, path: str, uid: int, gid: int) -> Awaitable[int]:
        """Open a plain file as a user of this machine; return its descriptor.

        Raises:  FileNotFoundError; HeadnodeError.
        """


class ReadingTurns:
    """How many files are read at once: of each user, and of all together.

    A read that hangs gives its turn among all back, but not that of its user.
    """

    def __init__(self, hangs: float = HANGS) -> None:
        """`hangs`: seconds that a read may take a turn of all."""
        self._hangs = hangs
        self._all = asyncio.Semaphore(MAX_AT_ONCE)
        self._of: dict[str, asyncio.Semaphore] = {}
        self.requests: Counter[str] = Counter()  # by user: those that read, and those that wait

    def is_full(self, user: str) -> bool:
        """Return True if too many requests wait for a turn, or too many of the user."""
        mine = self.requests[user] >= MAX_OF_USER + MAX_WAITING_OF_USER
        return mine or self.requests.total() >= MAX_AT_ONCE + MAX_WAITING

    def enter(self, user: str) -> None:
        """Count a request of a user."""
        self.requests[user] += 1

    def leave(self, user: str) -> None:
        """A request of a user is over."""
        self.requests[user] -= 1
        if not self.requests[user]:
            del self.requests[user]
            self._of.pop(user, None)

    @contextlib.asynccontextmanager
    async def turn(self, user: str) -> AsyncIterator[None]:
        """Wait for a turn of the user, then for one of all, and hold both."""
        async with self._of.setdefault(user, asyncio.Semaphore(MAX_OF_USER)):
            await self._all.acquire()
            given_back = contextlib.ExitStack()
            given_back.callback(self._all.release)
            timer = asyncio.get_running_loop().call_later(self._hangs, given_back.close)
            try:
                yield
            finally:
                timer.cancel()
                given_back.close()


class TaskFileReader:
    """The reads in progress.  A file system that does not answer blocks only requests of the same user."""

    def __init__(
        self,
        node: str,
        opened: Opener,
        send: Callable[[FromAgent], None],
        turns: ReadingTurns | None = None,
    ) -> None:
        self._node, self._open, self._send = node, opened, send
        self._turns = turns or ReadingTurns()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, message: ReadFile, *, far: bool) -> None:
        """Read, and answer the head; `far`: it is on another machine."""
        if self._turns.is_full(message.owner):
            full = f"too many reads of files wait on node {self._node!r}"
            self._send(OutputRead(number=message.number, data=b"", size=0, problem=full))
            return
        self._turns.enter(message.owner)
        task = asyncio.get_running_loop().create_task(self._read(message, far=far))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: self._turns.leave(message.owner))

    async def close(self) -> None:
        """Read nothing more."""
        for task in self._tasks:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _read(self, message: ReadFile, *, far: bool) -> None:
        number = message.number
        try:
            async with self._turns.turn(message.owner):
                user = as_here(message, self._node, far=far)
                file = await self._open(message.path, user.uid, user.gid)
                data, size = await _read_in_thread(file, message.offset, min(message.limit, MAX_PIECE))
            self._send(OutputRead(number=number, data=data, size=size))
        except FileNotFoundError:
            self._send(OutputRead(number=number, data=b"", size=0, missing=True))
        except HeadnodeError as error:
            self._send(OutputRead(number=number, data=b"", size=0, problem=error.what))
        except OSError as error:
            self._send(OutputRead(number=number, data=b"", size=0, problem=os.strerror(error.errno or 0)))


async def _read_in_thread(file: int, offset: int, most: int) -> tuple[bytes, int]:
    """Read a piece as `_piece` does.  Close the file.

    The thread is not one of the default pool: reads that hang would take all of them. The agent does not wait
    for it at its end.
    Raises:  Unavailable ``no-thread``; OSError.
    """
    read: concurrent.futures.Future[tuple[bytes, int]] = concurrent.futures.Future()
    read.set_running_or_notify_cancel()  # from here on the thread closes the file, also if nobody waits

    def work() -> None:
        try:
            read.set_result(_piece(file, offset, most))
        except Exception as error:  # noqa: BLE001 (raised where the read is awaited)
            read.set_exception(error)

    try:
        threading.Thread(target=work, name="read", daemon=True).start()
    except RuntimeError as error:
        os.close(file)
        raise Unavailable(code="no-thread", what=f"the agent cannot read files now: {error}") from None
    return await asyncio.wrap_future(read)


def _piece(file: int, offset: int, most: int) -> tuple[bytes, int]:
    """Return up to `most` bytes from `offset` on, a negative one from the end, and the size of the file."""
    try:
        size = os.fstat(file).st_size
        start = offset if offset >= 0 else max(0, size + offset)
        return os.pread(file, most, start), size
    finally:
        os.close(file)
