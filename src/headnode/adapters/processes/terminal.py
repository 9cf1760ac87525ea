"""A program in a terminal of its own, whose other end is a connection with the agent.

Imports the launcher and its pipes only: the agent copies them for the tasks of other users."""

import contextlib
import fcntl
import os
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Mapping, Sequence

from headnode.adapters.processes.launcher import (
    ANSWER_FOR,
    FAILED,
    INPUT_END,
    OUTPUT,
    TASK,
    WINDOW,
    Frames,
    dial,
    send_exit,
)
from headnode.adapters.processes.piped import (
    ANSWERED_AS_USUAL,
    Piped,
    RelayedProgram,
    exit_status,
    found,
    login_shell,
    start_trouble,
)

_UTF8 = 0o40000  # IUTF8: erasing a character erases all its bytes
_END_OF_FILE = b"\x04"
_HELD = 64 * 1024  # bytes that a terminal holds, or less
_GRACE = 5.0  # seconds that a program has to end when its terminal is gone
_TIMEOUT = 300.0  # seconds until a client must have connected to a waiting terminal
_PAUSE = 0.2  # seconds between two attempts to reach the agent


class Terminal(RelayedProgram):
    """A program that runs in a new terminal."""

    def __init__(
        self, frames: Frames, argv: Sequence[str], environment: Mapping[str, str], size: bytes
    ) -> None:
        """Start it.  `size` is what a frame of kind `WINDOW` says: rows, columns, and maybe the kind.

        Raises:  OSError, ValueError.
        """
        rows, columns, *kind = size.decode().split(" ")
        variables = {**environment, "TERM": kind[0] if kind and kind[0] else environment.get("TERM", "dumb")}
        self._master, slave = os.openpty()
        try:
            self._resize(rows, columns)
            _speak_utf8(slave)
            process = self.start(found(argv[0], variables), list(argv[1:]), variables, slave)
        finally:
            os.close(slave)  # ours: when the program's are closed, too, reading ends
        super().__init__(frames, process, self._master, {self._master: OUTPUT})

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

    def other(self, kind: bytes, data: bytes) -> None:
        """Process the end of input and changes of the window size from the client's terminal."""
        if kind == INPUT_END:
            self._unread += _END_OF_FILE
        elif kind == WINDOW:
            with contextlib.suppress(ValueError):
                self._resize(*data.decode("ascii", "replace").split(" ")[:2])

    def close_input(self) -> None:
        """Leave the terminal open: no process reads it any more, but one may still write."""

    def held_in(self, _stream: int) -> int:
        """Return how many bytes the terminal holds at most."""
        return _HELD

    def _resize(self, rows: str, columns: str) -> None:
        size = struct.pack("HHHH", min(int(rows), 9999), min(int(columns), 9999), 0, 0)
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, size)

    def hang_up(self) -> int:
        """Close the terminal, which signals its processes; wait a while for the program to end."""
        os.close(self._master)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process, signal.SIGHUP)
            os.kill(self._process, signal.SIGCONT)
        if self._status is None and select.select([self._end], [], [], _GRACE)[0]:
            self._status = self.reap()
        return 128 + signal.SIGHUP if self._status is None else exit_status(self._status)


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
        sys.stderr.write(f"no client connected to the terminal of this job within {_TIMEOUT:.0f} s\n")
        return FAILED
    frames, size, typed = come
    argv = [words[0], *words] if words else login_shell(os.environ)
    try:
        command = Terminal(frames, argv, os.environ, size) if size else Piped(frames, argv, os.environ)
        command.take(typed)
        status, problem = command.run(), ""
    except (OSError, ValueError) as error:
        status, problem = FAILED, start_trouble(error)
        sys.stderr.write(f"{problem}\n")
    with contextlib.suppress(OSError):  # the agent no longer listens
        send_exit(frames, status, problem)
    return status


def _first_client(folder: int) -> tuple[Frames, bytes, list[tuple[bytes, bytes]]] | None:
    """Return a connection, the size of its terminal and the input so far; None if no client connected."""
    until = time.monotonic() + _TIMEOUT
    while time.monotonic() < until:
        try:
            frames = Frames(dial(folder))
        except OSError:
            time.sleep(_PAUSE)
            continue
        frames.send(ANSWER_FOR, os.environ[TASK].encode())
        while (left := until - time.monotonic()) > 0:
            if not select.select([frames.channel], [], [], left)[0]:
                return None
            received = frames.receive()
            if received is None:  # another agent is on its way
                time.sleep(_PAUSE)
                break
            for number, (kind, data) in enumerate(received):
                if kind == WINDOW:
                    return frames, data, received[number + 1 :]
    return None
