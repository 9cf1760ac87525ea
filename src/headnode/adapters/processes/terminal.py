"""A program in a terminal of its own, whose other end is a connection with the agent.

Imports the launcher and its pipes only: the agent copies them for the tasks of other users."""

import contextlib
import errno
import fcntl
import os
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Iterable, Mapping, Sequence

from headnode.adapters.processes.launcher import (
    ANSWER_FOR,
    FAILED,
    INPUT,
    INPUT_END,
    OUTPUT,
    TASK,
    WINDOW,
    Frames,
    dial,
    say_exit,
)
from headnode.adapters.processes.piped import ANSWERED_AS_USUAL, Piped, exit_status, found, login_shell
from headnode.adapters.wire.frame_codec import CHUNK

_UTF8 = 0o40000  # IUTF8: erasing a character erases all its bytes
_END_OF_FILE = b"\x04"
_LINGER = 0.3  # seconds for the output of what a program left behind, after its own end
_HELD = 64 * 1024  # bytes that a terminal holds, or less
_GRACE = 5.0  # seconds that a program has to end when its terminal is gone
_PATIENCE = 300.0  # seconds until a client must have connected to a waiting terminal
_PAUSE = 0.2  # seconds between two attempts to reach the agent


class Terminal:
    """A program that runs in a new terminal."""

    def __init__(
        self, frames: Frames, argv: Sequence[str], environment: Mapping[str, str], size: bytes
    ) -> None:
        """Start it.  `size` is what a frame of kind `WINDOW` says: rows, columns, and maybe the kind.

        Raises:  OSError, ValueError.
        """
        self._frames = frames
        rows, columns, *kind = size.decode().split(" ")
        variables = {**environment, "TERM": kind[0] if kind and kind[0] else environment.get("TERM", "dumb")}
        self._master, slave = os.openpty()
        try:
            self._resize(rows, columns)
            _speak_utf8(slave)
            self._process = self.start(found(argv[0], variables), list(argv[1:]), variables, slave)
        finally:
            os.close(slave)  # ours: when the program's are closed, too, reading ends
        os.set_blocking(self._master, False)
        self._end = os.pidfd_open(self._process)
        self._unread = bytearray()
        self._reads = True
        self._status: int | None = None

    def start(self, program: str, argv: list[str], environment: Mapping[str, str], terminal: int) -> int:
        """Start a program whose terminal this is; return its process number.

        Raises:  OSError, ValueError.
        """
        actions = [  # the first that opens it in a session of its own has it
            (os.POSIX_SPAWN_OPEN, 0, os.ttyname(terminal), os.O_RDWR, 0),
            (os.POSIX_SPAWN_DUP2, 0, 1),
            (os.POSIX_SPAWN_DUP2, 0, 2),
        ]
        return os.posix_spawn(
            program,
            argv,
            environment,
            file_actions=actions,
            setsid=True,
            setsigmask=(),
            setsigdef=ANSWERED_AS_USUAL,
        )

    def run(self) -> int:
        """Pass on what is read and written until the program is over; return its exit status.

        A program whose terminal hangs up is told so; one that stays all the same is left after a while.
        """
        until = float("inf")
        while self._reads or self._status is None:
            left = until - time.monotonic()
            if left <= 0:
                break
            for descriptor, event in self._poll(left):
                if descriptor == self._frames.channel.fileno():
                    if not self._hear(event):
                        return self._hang_up()
                elif descriptor == self._end:
                    self._status = os.waitpid(self._process, 0)[1]
                    self._take_its_last()
                    until = time.monotonic() + _LINGER
                elif event & select.POLLOUT:
                    self._feed()
                else:
                    self._tell()
        return self._exit_status()

    def _poll(self, patience: float) -> list[tuple[int, int]]:
        poller = select.poll()
        listens = select.POLLIN if len(self._unread) < 4 * CHUNK else 0
        poller.register(self._frames.channel, listens | (select.POLLOUT * self._frames.wants_to_send))
        if self._status is None:
            poller.register(self._end, select.POLLIN)
        wanted = (select.POLLIN if self._reads and not self._frames.full else 0) | (
            select.POLLOUT if self._unread else 0
        )
        if wanted:
            poller.register(self._master, wanted)
        return poller.poll(None if patience == float("inf") else patience * 1000)

    def _hear(self, event: int) -> bool:
        """Process messages of the agent; return False if the agent or the client is gone."""
        if event & select.POLLOUT:
            self._frames.flush()
        if not event & ~select.POLLOUT:
            return True
        heard = self._frames.hear()
        self.take(heard or ())
        return heard is not None

    def take(self, heard: Iterable[tuple[bytes, bytes]]) -> None:
        """Process input, its end and changes of the window size from the client's terminal."""
        for kind, data in heard:
            if kind == INPUT:
                self._unread += data
            elif kind == INPUT_END:
                self._unread += _END_OF_FILE
            elif kind == WINDOW:
                with contextlib.suppress(ValueError):
                    self._resize(*data.decode("ascii", "replace").split(" ")[:2])
        self._feed()

    def _feed(self) -> None:
        try:
            while self._unread:
                del self._unread[: os.write(self._master, self._unread[:CHUNK])]
        except BlockingIOError:
            return
        except OSError:  # no process reads the terminal any more
            self._unread.clear()

    def _take_its_last(self) -> None:
        """Take what it wrote before its end, however slow its reader: only what it left behind must hurry."""
        taken = 0
        while self._reads and taken < _HELD and (size := self._tell()):
            taken += size

    def _tell(self) -> int:
        """Pass on what was written; return how many bytes."""
        try:
            data = os.read(self._master, CHUNK)
        except BlockingIOError:
            return 0
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            data = b""  # the last process with the terminal has closed it
        self._reads = bool(data)
        if data:
            self._frames.say(OUTPUT, data)
        return len(data)

    def _resize(self, rows: str, columns: str) -> None:
        size = struct.pack("HHHH", min(int(rows), 9999), min(int(columns), 9999), 0, 0)
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, size)

    def _hang_up(self) -> int:
        """Close the terminal, which signals its processes; wait for the program to end."""
        os.close(self._master)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process, signal.SIGHUP)
            os.kill(self._process, signal.SIGCONT)
        if self._status is None and select.select([self._end], [], [], _GRACE)[0]:
            self._status = os.waitpid(self._process, 0)[1]
        return self._exit_status()

    def _exit_status(self) -> int:
        if self._status is None:
            return 128 + signal.SIGHUP
        return exit_status(self._status)


def _speak_utf8(terminal: int) -> None:
    modes = termios.tcgetattr(terminal)
    modes[0] |= _UTF8
    termios.tcsetattr(terminal, termios.TCSANOW, modes)


# The first process of a task that waits for a terminal.


def main(folder: str, words: Sequence[str]) -> int:
    """Wait for a client's terminal, run a program in it, and return its exit status.

    `folder` is where the agent listens; without `words` the program is the user's login shell.
    """
    come = _first_client(os.open(folder, os.O_PATH | os.O_DIRECTORY))
    if come is None:
        sys.stderr.write(f"no client connected to the terminal of this job within {_PATIENCE:.0f} s\n")
        return FAILED
    frames, size, typed = come
    argv = [words[0], *words] if words else login_shell(os.environ)
    try:
        command = Terminal(frames, argv, os.environ, size) if size else Piped(frames, argv, os.environ)
        command.take(typed)
        status, problem = command.run(), ""
    except (OSError, ValueError) as error:
        status, problem = FAILED, f"the command cannot be started: {error}"
        sys.stderr.write(f"{problem}\n")
    with contextlib.suppress(OSError):  # the agent no longer listens
        say_exit(frames, status, problem)
    return status


def _first_client(folder: int) -> tuple[Frames, bytes, list[tuple[bytes, bytes]]] | None:
    """Return a connection, the size of its terminal and the input so far; None if no client connected."""
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        try:
            frames = Frames(dial(folder))
        except OSError:
            time.sleep(_PAUSE)
            continue
        frames.say(ANSWER_FOR, os.environ[TASK].encode())
        while (left := until - time.monotonic()) > 0:
            if not select.select([frames.channel], [], [], left)[0]:
                return None
            heard = frames.hear()
            if heard is None:  # another agent is on its way
                time.sleep(_PAUSE)
                break
            for number, (kind, data) in enumerate(heard):
                if kind == WINDOW:
                    return frames, data, heard[number + 1 :]
    return None
