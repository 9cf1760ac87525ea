"""What a command writes before its end is passed on whole, however slow whoever reads it."""

import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from heads import PATIENCE

# Little is read ahead, and what the command leaves behind has no time: what it wrote itself still comes.
PARENT = """
import os, socket, sys
from headnode.adapters.processes import launcher, piped, terminal
from headnode.adapters.processes.launcher import Frames, say_exit

piped._LINGER = terminal._LINGER = 0.0
launcher._MOST_WAITING, piped.CHUNK, terminal.CHUNK = 1, 1024, 1024
frames = Frames(socket.socket(fileno=int(sys.argv[1])))
argv = ["/bin/sh", "sh", "-c", sys.argv[3]]
if sys.argv[2] == "terminal":
    command = terminal.Terminal(frames, argv, os.environ, b"24 80 dumb")
else:
    command = piped.Piped(frames, argv, os.environ)
say_exit(frames, command.run(), "")
"""


@pytest.mark.parametrize("streams", ["pipes", "terminal"])
def test_nothing_is_lost_of_what_waited_at_the_end_of_a_command(streams: str, tmp_path: Path) -> None:
    size, over = 7_000, tmp_path / "over"  # bytes: the socket holds fewer, and it and a terminal more
    command = f"head -c {size} /dev/zero | tr '\\0' x; : > {over}"
    ours, theirs = socket.socketpair()
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)  # so it is soon full
    with ours, theirs:  # whatever happens
        words = [sys.executable, "-c", PARENT, str(theirs.fileno()), streams, command]
        with subprocess.Popen(words, pass_fds=[theirs.fileno()]) as parent:
            theirs.close()
            until_it_has_ended(parent.pid, over)
            heard = heard_of(ours)
            ours.close()  # this is waited for
    assert heard == size


def until_it_has_ended(parent: int, over: Path) -> None:
    """Wait until a command has ended and its parent, which nobody has read of so far, knows it."""
    children = Path(f"/proc/{parent}/task/{parent}/children")
    deadline = time.monotonic() + PATIENCE
    while not over.exists() or children.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def heard_of(channel: socket.socket) -> int:
    """Return how many bytes of output come before the end."""
    channel.settimeout(PATIENCE)
    size = 0
    with channel.makefile("rb") as stream:
        while True:
            (length,) = struct.unpack(">I", stream.read(4))
            frame = stream.read(length)
            if frame[:1] == b"x":
                return size
            size += len(frame) - 1
