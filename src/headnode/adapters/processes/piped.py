"""A command and its three streams, which are pipes; what goes through them goes to the agent.

Imports the launcher only: the agent copies both for the tasks of other users."""

import errno
import fcntl
import os
import select
import signal
import time
from collections.abc import Iterable, Mapping, Sequence

from headnode.adapters.processes.launcher import ERROR, INPUT, INPUT_END, OUTPUT, Frames
from headnode.adapters.wire.frame_codec import CHUNK

ANSWERED_AS_USUAL = (
    *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGCHLD, signal.SIGPIPE),
    *(signal.SIGXFSZ, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU),
)
_LINGER = 0.3  # seconds for the output of what a command left behind, after its own end


class Piped:
    """A command that runs, and its three streams."""

    def __init__(self, frames: Frames, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start it: the program, and then its words from the name it has for itself on.

        Raises:  OSError, ValueError.
        """
        self._frames = frames
        (its_input, self._stdin), (output, its_output), (error, its_error) = (os.pipe() for _ in range(3))
        its_own = (its_input, its_output, its_error)
        self._process = self.start(found(argv[0], environment), list(argv[1:]), environment, its_own)
        for file in its_own:
            os.close(file)
        self._unread, self._no_more = bytearray(), False
        self._streams = {output: OUTPUT, error: ERROR}
        for file in (self._stdin, *self._streams):
            os.set_blocking(file, False)
        self._end = os.pidfd_open(self._process)
        self._status: int | None = None

    def start(
        self, program: str, argv: list[str], environment: Mapping[str, str], files: tuple[int, int, int]
    ) -> int:
        """Start the program with these as its input, output and error; return its process number.

        Raises:  OSError, ValueError.
        """
        return os.posix_spawn(
            program,
            argv,
            environment,
            file_actions=[(os.POSIX_SPAWN_DUP2, file, number) for number, file in enumerate(files)],
            setsigmask=(),
            setsigdef=ANSWERED_AS_USUAL,
        )

    def run(self) -> int:
        """Pass on what is read and written until the command is over; return its exit status."""
        until = float("inf")
        while self._streams or self._status is None:
            left = until - time.monotonic()
            if left <= 0:
                break
            for descriptor, event in self._poll(left):
                self._attend(descriptor, event)
            if self._status is not None and until == float("inf"):
                until = time.monotonic() + _LINGER
        status = self._status or 0
        return exit_status(status)

    def _poll(self, patience: float) -> list[tuple[int, int]]:
        poller = select.poll()
        listens = select.POLLIN if len(self._unread) < 4 * CHUNK else 0
        poller.register(self._frames.channel, listens | (select.POLLOUT * self._frames.wants_to_send))
        if self._status is None:
            poller.register(self._end, select.POLLIN)
        if self._unread and self._stdin >= 0:
            poller.register(self._stdin, select.POLLOUT)
        for stream in self._streams if not self._frames.full else ():
            poller.register(stream, select.POLLIN)
        return poller.poll(None if patience == float("inf") else patience * 1000)

    def _attend(self, descriptor: int, event: int) -> None:
        if descriptor == self._frames.channel.fileno():
            self._hear(event)
        elif descriptor == self._end:
            self._status = self.reap()
            self._take_its_last()
        elif descriptor == self._stdin:
            self._feed()
        elif descriptor in self._streams:
            self._tell(descriptor)

    def reap(self) -> int:
        """Reap the command, which has ended; return its status as `os.waitpid` says it."""
        return os.waitpid(self._process, 0)[1]

    def _take_its_last(self) -> None:
        """Take what it wrote before its end, however slow its reader: only what it left behind must hurry."""
        for stream in list(self._streams):
            taken, held = 0, fcntl.fcntl(stream, fcntl.F_GETPIPE_SZ)
            while taken < held and (size := self._tell(stream)):
                taken += size

    def _tell(self, stream: int) -> int:
        """Pass on what was written; return how many bytes."""
        try:
            data = os.read(stream, CHUNK)
        except BlockingIOError:
            return 0
        if data:
            self._frames.say(self._streams[stream], data)
        else:
            del self._streams[stream]
            os.close(stream)
        return len(data)

    def _hear(self, event: int) -> None:
        if event & select.POLLOUT:
            self._frames.flush()
        if not event & ~select.POLLOUT:
            return
        heard = self._frames.hear()
        if heard is None:  # no agent listens: the shepherd is told to end what this started
            os._exit(128 + signal.SIGHUP)
        self.take(heard)

    def take(self, heard: Iterable[tuple[bytes, bytes]]) -> None:
        """Take in what the command is to read."""
        for kind, data in heard:
            if kind == INPUT:
                self._unread += data
            elif kind == INPUT_END:
                self._no_more = True
        self._feed()

    def _feed(self) -> None:
        try:
            while self._unread and self._stdin >= 0:
                del self._unread[: os.write(self._stdin, self._unread[:CHUNK])]
        except BlockingIOError:
            return
        except OSError:  # it reads no more
            self._no_more = True
            self._unread.clear()
        if self._no_more and not self._unread and self._stdin >= 0:
            os.close(self._stdin)
            self._stdin = -1


def exit_status(status: int) -> int:
    """Return what a shell says of how a process ended, from what `os.waitpid` says."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def login_shell(environment: Mapping[str, str]) -> list[str]:
    """Return the words that start a user's login shell: the program, and what it is called."""
    shell = environment.get("SHELL", "") or "/bin/sh"
    return [shell, f"-{os.path.basename(shell)}"]  # noqa: PTH119 (pathlib may not be there to load)


def found(name: str, environment: Mapping[str, str]) -> str:
    """Return the path of a program.

    Raises:  FileNotFoundError.
    """
    if "/" in name:
        return name
    for folder in environment.get("PATH", os.defpath).split(":"):
        if os.access(path := f"{folder or '.'}/{name}", os.X_OK):
            return path
    raise FileNotFoundError(errno.ENOENT, f"there is no command {name!r} on this node")
