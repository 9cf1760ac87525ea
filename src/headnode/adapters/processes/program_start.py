"""What posix_spawn cannot set for a program: processors, limits, control groups, files, directories.

Standard library only: this is loaded by the shepherd factory."""

import array
import contextlib
import fcntl
import os
import resource
import signal
import socket
import termios
from collections import deque
from collections.abc import Collection, Iterable, Iterator


def machine_processors() -> tuple[int, ...]:
    """Return the numbers that the machine gives to the processors which this process may use, in order."""
    return tuple(sorted(os.sched_getaffinity(0)))


def bind_this(processors: Collection[int]) -> None:
    """Bind this process for good; none named: leave it as it is, as when they are not there any more."""
    if processors:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, processors)


@contextlib.contextmanager
def same_processors() -> Iterator[None]:
    """Stay bound to the same processors, whatever groups this process enters meanwhile.

    Before Linux 6.2, a process that enters a cgroup v2 is bound to all processors of the cgroup.
    """
    own = os.sched_getaffinity(0)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # the group has none of them
            os.sched_setaffinity(0, own)


@contextlib.contextmanager
def bound_to(processors: Collection[int]) -> Iterator[None]:
    """Let what is started meanwhile have these processors only; none named: all that this process has.

    A processor that is not there any more leaves the others; if none is left nothing is bound.
    """
    if not processors:
        yield
        return
    own = os.sched_getaffinity(0)
    try:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, processors)
        yield
    finally:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, own)


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


SHELL = "/bin/sh"
_RM = 'rm -rf --one-file-system -- "$0"'
REMOVE = f'{_RM} 2>/dev/null || {{ chmod -R u+rwX -- "$0"; {_RM}; }}'
PATH = {"PATH": "/usr/bin:/bin"}
MOST_REMOVALS = 8  # processes of one shepherd; short elements that leave much would start thousands


def make(path: str) -> None:
    """Make the directory, for its owner alone.

    Raises:  OSError, also when it is there already.
    """
    os.mkdir(path, 0o700)  # noqa: PTH102 - pathlib costs every shepherd memory


def remove(path: str) -> None:
    """Remove the directory and wait for that; without a process for it, only an empty one."""
    with contextlib.suppress(OSError):
        if not _removed_empty(path) and not holds_mount(path):
            os.waitpid(_start(path), 0)


def _removed_empty(path: str) -> bool:
    """Remove an empty directory, for which no process is needed; return whether it is gone."""
    try:
        os.rmdir(path)  # noqa: PTH106 - pathlib costs every shepherd memory
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def holds_mount(path: str) -> bool:
    """Tell whether something is mounted in a directory, which must not be removed then.

    A bind mount is on the same file system as its directory, so `rm --one-file-system` would enter it and
    remove what is elsewhere. Only the name is compared: the agent must not follow the path of a user.

    Source:  proc_pid_mountinfo(5).
    Raises:  OSError.
    """
    name = os.fsencode(f"/{os.path.basename(path)}/")  # noqa: PTH119 - pathlib costs every shepherd memory
    with open("/proc/self/mountinfo", "rb") as table:  # noqa: PTH123
        return any(name in line.split(b" ", 5)[4] + b"/" for line in table)


class Removals:
    """Removes directories beside everything else, some at once: there may be much in them."""

    def __init__(self) -> None:
        self._paths: dict[int, str] = {}  # by the process that removes
        self._waiting: deque[str] = deque()
        self._cut_short: list[str] = []

    @property
    def processes(self) -> set[int]:
        """The processes that remove directories, which are not orphans."""
        return set(self._paths)

    def begin(self, path: str) -> None:
        """Start removing a directory; if no process can be started, it is removed at the end of the job."""
        try:
            if _removed_empty(path):
                return
            if len(self._paths) >= MOST_REMOVALS:
                self._waiting.append(path)
            elif not holds_mount(path):
                self._paths[_start(path)] = path
        except OSError:
            self._cut_short.append(path)

    def reaped(self, process: int, status: int) -> None:
        """A child of this process has ended: one of those has done its work, unless it was killed."""
        path = self._paths.pop(process, "")
        if path and os.WIFSIGNALED(status):
            self._cut_short.append(path)
        while self._waiting and len(self._paths) < MOST_REMOVALS:
            self.begin(self._waiting.popleft())

    def finish(self) -> None:
        """Remove what is left of all; those that were at it may have been killed."""
        for path in (*self._paths.values(), *self._waiting, *self._cut_short):
            remove(path)
        self._paths, self._cut_short = {}, []
        self._waiting.clear()


def _start(path: str) -> int:
    return os.posix_spawn(SHELL, ["sh", "-c", REMOVE, path], PATH, setsid=True)


Files = tuple[int, int, int]
"""Descriptors of standard input, output and error."""
Wanted = Iterable[tuple[str, int, int, int]]
"""Name, resource, soft and hard limit."""

_NOT_STARTED = 127  # exit status that is never reported
_MAX_REPORT = 200  # bytes
_ENTER = "enter"  # no limit is called so


class LimitRefused(Exception):
    """The system does not let a program have a limit; a sentence and what to do."""


class GroupRefused(Exception):
    """The system does not let a program into its control group, as before Linux 5.16; it has not started."""


def start_limited(
    path: str,
    argv: list[str],
    environment: dict[str, str],
    files: Files,
    limits: Wanted,
    signals: Iterable[signal.Signals],
    entrances: Iterable[int] = (),
    *,
    own_session: bool = True,
    own_terminal: bool = False,
) -> int:
    """Start the program with these limits, in a session of its own or in ours; return its process number.

    `own_terminal`: the files are a terminal, which is that of its session from then on.

    `signals` are answered by the program as usual, whatever this process does about them.  `entrances` are
    descriptors of the lists of processes of the groups that it enters. Raises:  LimitRefused; GroupRefused;
    OSError when the program cannot be started; ValueError as `os.execve` does.
    """
    if any("\0" in word for word in argv):
        raise ValueError("embedded null byte")
    hears, says = os.pipe()  # closed when the child becomes the program
    child = os.fork()
    if child == 0:
        if own_session:
            os.setsid()  # cannot fail: a process that was forked leads no group
        _become(path, argv, environment, files, limits, signals, entrances, says, own_terminal)
    os.close(says)
    with os.fdopen(hears, "rb") as report:
        failure = report.read(_MAX_REPORT).decode()
    if not failure:
        return child
    os.waitpid(child, 0)
    raise _error_of(failure)


def _error_of(failure: str) -> Exception:
    """Return the error of a child that did not become the program; it reports the step and its errno."""
    step, _, number = failure.rpartition(" ")
    error = OSError(int(number), os.strerror(int(number)))
    if step == "start":
        return error
    if step == _ENTER:
        return GroupRefused(f"a task cannot enter its control group: {error.strerror}")
    return LimitRefused(
        f"the limit {step!r} of the task cannot be set on this node: {error.strerror}; write another one"
    )


def enter(entrances: Iterable[int]) -> None:
    """Move this process into groups.

    Raises:  OSError where it may not enter, as before Linux 5.16.
    """
    with same_processors():
        for entrance in entrances:
            os.write(entrance, b"0")


def _become(
    path: str,
    argv: list[str],
    environment: dict[str, str],
    files: Files,
    limits: Wanted,
    signals: Iterable[signal.Signals],
    entrances: Iterable[int],
    pipe: int,
    own_terminal: bool,
) -> None:
    """Become the program, or say why not and end; never returns."""
    step = "start"
    try:
        signal.set_wakeup_fd(-1)
        step = _ENTER
        enter(entrances)
        step = "start"
        for number, file in enumerate(files):
            os.dup2(file, number)
        if own_terminal:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        keep_only(pipe)
        for each in signals:
            signal.signal(each, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for name, what, soft, hard in limits:
            step = name
            resource.setrlimit(what, (soft, hard))
        step = "start"
        os.execve(path, argv, environment)
    except OSError as error:
        os.write(pipe, f"{step} {error.errno or 0}".encode())
    except (ValueError, MemoryError):
        os.write(pipe, f"{step} {22 if step != 'start' else 12}".encode())  # EINVAL, ENOMEM
    finally:
        os._exit(_NOT_STARTED)
