"""What was said before the end is heard whole, however slow its reader, and whatever he says meanwhile."""

import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headnode.apps.client.connection import Connection
from headnode.apps.client.conversation import ClientConversation
from headnode.core.model.errors import Unavailable
from heads import TIMEOUT, real_head

# Little is read ahead, and what the command leaves behind has no time: what it wrote itself still comes.
PARENT = """
import os, socket, sys
from headnode.adapters.processes import launcher, piped, terminal
from headnode.adapters.wire import frame_codec
from headnode.adapters.processes.launcher import Frames, send_exit

piped._LINGER = terminal._LINGER = 0.0
launcher._MAX_WAITING, frame_codec.CHUNK, frame_codec.CHUNK = 1, 1024, 1024
frames = Frames(socket.socket(fileno=int(sys.argv[1])))
argv = ["/bin/sh", "sh", "-c", sys.argv[3]]
if sys.argv[2] == "terminal":
    command = terminal.Terminal(frames, argv, os.environ, b"24 80 dumb")
else:
    command = piped.Piped(frames, argv, os.environ)
send_exit(frames, command.run(), "")
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
            received = heard_of(ours)
            ours.close()  # this is waited for
    assert received == size


def until_it_has_ended(parent: int, over: Path) -> None:
    """Wait until a command has ended and its parent, which nobody has read of so far, knows it."""
    children = Path(f"/proc/{parent}/task/{parent}/children")
    deadline = time.monotonic() + TIMEOUT
    while not over.exists() or children.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def heard_of(channel: socket.socket) -> int:
    """Return how many bytes of output come before the end."""
    channel.settimeout(TIMEOUT)
    size = 0
    with channel.makefile("rb") as stream:
        while True:
            (length,) = struct.unpack(">I", stream.read(4))
            frame = stream.read(length)
            if frame[:1] == b"x":
                return size
            size += len(frame) - 1


def test_input_and_output_of_a_shell_do_not_wait_for_one_another(tmp_path: Path) -> None:
    line = b"x" * 99 + b"\n"
    (tmp_path / "much").write_bytes(line * 20_000)  # more than is on its way anywhere
    with real_head(tmp_path) as head, (tmp_path / "much").open("rb") as much:
        job = head.submit("sleep 600")
        head.wait_for(job, "Running")
        words = ["job", "shell", "--state-directory", str(head.state), "--job", str(job), "--", "sed p"]
        done = subprocess.run(
            [sys.executable, "-m", "headnode.apps.cli", *words],
            stdin=much,
            capture_output=True,
            timeout=TIMEOUT,
            check=False,
        )
        head.ask("cancel_job", job=job, force=True)
    assert (done.returncode, done.stdout == line * 40_000) == (0, True), done.stderr


def test_what_the_head_said_last_is_heard_though_it_hears_no_more() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        conversation = ClientConversation(
            Connection(ours), lambda trouble: Unavailable(code="x", what=str(trouble))
        )
        last = b'{"ok": true, "done": true, "exit": 3}'
        theirs.sendall(len(last).to_bytes(4, "big") + last)
        theirs.close()
        conversation.send(window=[24, 80])
        assert conversation.receive()["exit"] == 3
        with pytest.raises(Unavailable):
            conversation.receive()
