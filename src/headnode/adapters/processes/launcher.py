"""``hn-launch [options] HOST COMMAND...``: run a command on another node of the task, as rsh would.

Imports the standard library and the codec of frames only: the agent copies both for the tasks of other users.
"""

import json
import os
import select
import socket
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from headnode.adapters.wire.frame_codec import CHUNK, FrameDecoder, FrameTooLarge, frame

SOCKET = "launch.sock"  # beside this program
SECRET = "HEADNODE_LAUNCH_SECRET"  # noqa: S105 (the name of a variable)
TASK = "HEADNODE_TASK"
FAILED = 255  # exit status
_MAX_WAITING = 4 * CHUNK  # bytes that wait to be sent before no more is read
_MAX_FRAME = 8 * 1024 * 1024  # bytes in one frame
_LAST_WORDS = 20.0  # seconds for the end of a command to be passed on

# Kinds of frames: the first byte.
ASK, ANSWER_FOR = b"a", b"t"
INPUT, INPUT_END, OUTPUT, ERROR, EXIT = b"i", b"e", b"o", b"r", b"x"
WINDOW = b"w"  # rows, columns, and at first the kind of a terminal

_WITH_VALUE = frozenset("bcDeFIiJLlmOopQRSWw")  # options of rsh and ssh that another word belongs to
# The login on each node, and what an mpiexec means for itself: daemons are told all they must know.
_OWN = ("CCP_", "HEADNODE_", "PMI", "HYDI_", "OMPI_", "ORTE_", "PRTE_", "OPAL_")
_LOCAL = ("HOME", "SHELL", "USER", "LOGNAME", "HOSTNAME", "PWD", "OLDPWD", "SHLVL", "_")


class Frames:
    """Frames on a socket that never blocks."""

    def __init__(self, channel: socket.socket) -> None:
        self.channel = channel
        channel.setblocking(False)
        self._received, self._unsaid = FrameDecoder(_MAX_FRAME), bytearray()

    @property
    def full(self) -> bool:
        """Whether so much waits to be sent that no more should be read."""
        return len(self._unsaid) >= _MAX_WAITING

    @property
    def wants_to_send(self) -> bool:
        """Whether anything waits to be sent."""
        return bool(self._unsaid)

    def send(self, kind: bytes, data: bytes = b"") -> None:
        """Send a frame as far as there is room; the rest waits for `flush`."""
        self._unsaid += frame(kind + data)
        self.flush()

    def flush(self) -> None:
        """Send waiting data as far as the socket accepts it; drop it if the reader is gone."""
        try:
            while self._unsaid:
                del self._unsaid[: self.channel.send(self._unsaid[:CHUNK])]
        except BlockingIOError:
            return
        except OSError:  # reading finds out
            self._unsaid.clear()

    def finish(self) -> None:
        """Send what waits, however long it takes."""
        self.channel.setblocking(True)
        self.channel.sendall(self._unsaid)
        self._unsaid.clear()

    def receive(self) -> list[tuple[bytes, bytes]] | None:
        """Return the frames that have arrived whole; None when the other side is gone."""
        try:
            data = self.channel.recv(CHUNK)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not data:
            return None
        try:
            found = [(message[:1], message[1:]) for message in self._received.feed(data)]
        except FrameTooLarge:
            return None
        return found if all(kind for kind, _ in found) else None


def send_exit(frames: Frames, code: int, problem: str) -> None:
    """Say how a command ended, however long that takes, and wait until that is passed on.

    The agent forgets a task's terminal with the end of the task.  And what comes to be read until then is
    read: if this socket were closed, the agent's next write would fail, and with it what it had not read.
    Raises:  OSError if the agent no longer listens.
    """
    frames.send(EXIT, json.dumps({"code": code, "problem": problem}).encode())
    frames.finish()
    until = time.monotonic() + _LAST_WORDS
    while (left := until - time.monotonic()) > 0:
        if not select.select([frames.channel], [], [], left)[0] or frames.receive() is None:
            return


def dial(folder: int, name: str = SOCKET) -> socket.socket:
    """Return a connection to the agent's socket in the directory behind a descriptor.

    Raises:  OSError, also when who listens there is neither root nor the same user.
    """
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        channel.connect(f"/proc/self/fd/{folder}/{name}")  # its path may be too long for an address
        credentials = channel.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        if struct.unpack("3i", credentials)[1] not in (0, os.getuid()):
            raise PermissionError(1, "the process that listens there is not the agent")
    except OSError:
        channel.close()
        raise
    return channel


def read_words(words: Sequence[str]) -> tuple[bool, str, str]:
    """Return whether input is wanted, the host, and the command, of words as rsh and ssh take them.

    Raises:  ValueError with a sentence.
    """
    wants_input, ahead = True, list(words)
    while ahead and ahead[0].startswith("-"):
        option = ahead.pop(0)
        if option == "--":
            break
        wants_input = wants_input and option != "-n"
        if len(option) == 2 and option[1] in _WITH_VALUE and ahead:
            ahead.pop(0)
    if len(ahead) < 2:
        raise ValueError("usage: hn-launch [options] HOST COMMAND...")
    host = ahead[0].rpartition("@")[2]
    return wants_input, host, " ".join(ahead[2:] if ahead[1] == "--" else ahead[1:])


def handed_on(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that the command finds there, too; the task's own it finds anyway.

    Those that are not UTF-8 are left out, as at the submission of a job: messages are Unicode.
    """
    return {
        name: value
        for name, value in environment.items()
        if name not in _LOCAL and not name.startswith(_OWN) and _is_text(name + value)
    }


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def run(folder: str, words: Sequence[str]) -> NoReturn:
    """Run a command on another node, and end as it ends; the agent listens in `folder`."""
    try:
        sys.exit(main(folder, words))
    except (BrokenPipeError, KeyboardInterrupt):
        os._exit(FAILED)


def main(folder: str, words: Sequence[str]) -> int:
    """Run a command on another node; return its exit status.  The agent listens in `folder`."""
    try:
        wants_input, host, command = read_words(words)
    except ValueError as error:
        return _fail(str(error), 2)
    if SECRET not in os.environ:
        return _fail(f"there is no {SECRET} here; only parallel tasks of Headnode can launch commands")
    directory = os.getcwd()  # noqa: PTH109
    if odd := next((each for each in (host, command, directory) if not _is_text(each)), ""):
        return _fail(f"{odd!a} is not UTF-8; rename the file or directory")
    request = {
        "secret": os.environ[SECRET],
        "task": os.environ.get(TASK, ""),
        "host": host,
        "command": command,
        "directory": directory,
        "environment": handed_on(os.environ),
    }
    try:
        frames = Frames(dial(os.open(folder, os.O_PATH | os.O_DIRECTORY)))
    except OSError as error:
        return _fail(f"the agent of this node cannot be reached: {error.strerror}; try again")
    frames.send(ASK, json.dumps(request, ensure_ascii=True).encode())
    return _converse(frames, wants_input)


def _converse(frames: Frames, wants_input: bool) -> int:
    reads_input = wants_input
    if not wants_input:
        frames.send(INPUT_END)
    while True:
        poller = select.poll()
        events = select.POLLIN | (select.POLLOUT if frames.wants_to_send else 0)
        poller.register(frames.channel, events)
        if reads_input and not frames.full:
            poller.register(0, select.POLLIN)
        for descriptor, event in poller.poll():
            if descriptor == 0:
                reads_input = _pass_input_on(frames)
                continue
            if event & select.POLLOUT:
                frames.flush()
            if event & ~select.POLLOUT:
                ended = _take(frames.receive())
                if ended is not None:
                    return ended


def _pass_input_on(frames: Frames) -> bool:
    """Send what there is to read; False when there will be no more."""
    try:
        data = os.read(0, CHUNK)
    except OSError:  # closed, or not the foreground process of the terminal
        data = b""
    frames.send(INPUT if data else INPUT_END, data)
    return bool(data)


def _take(received: list[tuple[bytes, bytes]] | None) -> int | None:
    """Pass on what came; return the exit status when that is known."""
    if received is None:
        return _fail("the agent of this node has ended, and the command with it")
    for kind, data in received:
        if kind == OUTPUT:
            _write(1, data)
        elif kind == ERROR:
            _write(2, data)
        elif kind == EXIT:
            said: dict[str, Any] = json.loads(data)
            return _fail(said["problem"], said["code"]) if said["problem"] else int(said["code"])
    return None


def _write(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def _fail(problem: str, code: int = FAILED) -> int:
    _write(2, f"hn-launch: {problem}\n".encode())
    return code
