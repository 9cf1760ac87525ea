"""A program whose input and output go through the agent, and a command whose streams are pipes.

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


class RelayedProgram:
    """A program that runs; what the agent says goes to its input, and what it writes to the agent."""

    def __init__(self, frames: Frames, process: int, stdin: int, streams: Mapping[int, bytes]) -> None:
        """Relay to the descriptor `stdin`, and from `streams`, each with the kind of its frames."""
        self._frames, self._process, self._stdin = frames, process, stdin
        self._streams = dict(streams)
        self._unread, self._no_more = bytearray(), False
        for file in {stdin, *streams}:
            os.set_blocking(file, False)
        self._end = os.pidfd_open(process)
        self._status: int | None = None

    def run(self) -> int:
        """Pass on what is read and written until the program is over; return its exit status."""
        until = float("inf")
        while self._streams or self._status is None:
            left = until - time.monotonic()
            if left <= 0:
                break
            for descriptor, event in self._poll(left):
                if not self._attend(descriptor, event):
                    return self.hang_up()
            if self._status is not None and until == float("inf"):
                until = time.monotonic() + _LINGER
        return exit_status(self._status or 0)

    def _poll(self, timeout: float) -> list[tuple[int, int]]:
        poller = select.poll()
        listens = select.POLLIN if len(self._unread) < 4 * CHUNK else 0
        poller.register(self._frames.channel, listens | (select.POLLOUT * self._frames.wants_to_send))
        if self._status is None:
            poller.register(self._end, select.POLLIN)
        wanted = {} if self._frames.full else dict.fromkeys(self._streams, select.POLLIN)
        if self._unread and self._stdin >= 0:
            wanted[self._stdin] = wanted.get(self._stdin, 0) | select.POLLOUT
        for descriptor, events in wanted.items():
            poller.register(descriptor, events)
        return poller.poll(None if timeout == float("inf") else timeout * 1000)

    def _attend(self, descriptor: int, event: int) -> bool:
        """Do what an event asks for; return False if the agent or the client is gone."""
        if descriptor == self._frames.channel.fileno():
            return self._receive(event)
        if descriptor == self._end:
            self._status = self.reap()
            self._take_its_last()
        elif descriptor in self._streams and not event & select.POLLOUT:
            self._forward(descriptor)
        elif descriptor == self._stdin:
            self._feed()
        return True

    def reap(self) -> int:
        """Reap the program, which has ended; return its status as `os.waitpid` says it."""
        return os.waitpid(self._process, 0)[1]

    def hang_up(self) -> int:
        """End, since no agent listens: the shepherd is told to end what this started."""
        os._exit(128 + signal.SIGHUP)

    def held_in(self, stream: int) -> int:
        """Return how many bytes a stream holds at most."""
        return fcntl.fcntl(stream, fcntl.F_GETPIPE_SZ)

    def _take_its_last(self) -> None:
        """Take what it wrote before its end, however slow its reader: only what it left behind must hurry."""
        for stream in list(self._streams):
            taken, held = 0, self.held_in(stream)
            while taken < held and (size := self._forward(stream)):
                taken += size

    def _forward(self, stream: int) -> int:
        """Pass on what was written; return how many bytes."""
        try:
            data = os.read(stream, CHUNK)
        except BlockingIOError:
            return 0
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            data = b""  # the last process with the terminal has closed it
        if data:
            self._frames.send(self._streams[stream], data)
        else:
            del self._streams[stream]
            if stream != self._stdin:
                os.close(stream)
        return len(data)

    def _receive(self, event: int) -> bool:
        """Process messages of the agent; return False if the agent or the client is gone."""
        if event & select.POLLOUT:
            self._frames.flush()
        if not event & ~select.POLLOUT:
            return True
        received = self._frames.receive()
        self.take(received or ())
        return received is not None

    def take(self, received: Iterable[tuple[bytes, bytes]]) -> None:
        """Take in what the program is to read, and how its terminal changes."""
        for kind, data in received:
            if kind == INPUT:
                self._unread += data
            else:
                self.other(kind, data)
        self._feed()

    def other(self, kind: bytes, _data: bytes) -> None:
        """Take a frame that is no input: its end, or a change of the terminal."""
        self._no_more = self._no_more or kind == INPUT_END

    def _feed(self) -> None:
        try:
            while self._unread and self._stdin >= 0:
                del self._unread[: os.write(self._stdin, self._unread[:CHUNK])]
        except BlockingIOError:
            return
        except OSError:  # it reads no more
            self._no_more = True
            self._unread.clear()
        if self._no_more and not self._unread:
            self.close_input()

    def close_input(self) -> None:
        """Let the program find the end of its input."""
        if self._stdin >= 0:
            os.close(self._stdin)
            self._stdin = -1


class Piped(RelayedProgram):
    """A command that runs, and its three streams."""

    def __init__(self, frames: Frames, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start it: the program, and then its words from the name it has for itself on.

        Raises:  OSError, ValueError.
        """
        (its_input, stdin), (output, its_output), (error, its_error) = (os.pipe() for _ in range(3))
        its_own = (its_input, its_output, its_error)
        process = self.start(found(argv[0], environment), list(argv[1:]), environment, its_own)
        for file in its_own:
            os.close(file)
        super().__init__(frames, process, stdin, {output: OUTPUT, error: ERROR})

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


def exit_status(status: int) -> int:
    """Return what a shell says of how a process ended, from what `os.waitpid` says."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def login_shell(environment: Mapping[str, str]) -> list[str]:
    """Return the words that start a user's login shell: the program, and what it is called."""
    shell = environment.get("SHELL", "") or "/bin/sh"
    return [shell, f"-{os.path.basename(shell)}"]  # noqa: PTH119 (pathlib may not be there to load)


def start_trouble(error: Exception) -> str:
    """Return why a command was not started, without the number of the error."""
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"the command cannot be started: {where}{error.strerror}"
    return f"the command cannot be started: {error}"


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
