"""A filter that cannot start for want of descriptors ends no other filter, and not their runner."""

import json
import os
import resource
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from headnode.adapters.wire.frame_codec import MAX_LENGTH, FrameDecoder, frame


def test_the_runner_goes_on_when_it_has_no_descriptors(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    ours, its = socket.socketpair()
    words = [sys.executable, "-m", "headnode.adapters.filters.runner", str(its.fileno())]
    with ours, subprocess.Popen(words, pass_fds=[its.fileno()]) as runner:
        its.close()
        ours.settimeout(20)
        ours.sendall(frame(json.dumps({"environment": {}}).encode()))
        assert run(ours, 1)["how"] == "ended"
        ask(ours, 4, "/bin/sh", "-c", f"read word < {fifo}")
        lasting = fifo.open("wb")  # once the filter reads
        before = resource.prlimit(runner.pid, resource.RLIMIT_NOFILE, (3, 1024))
        refused = run(ours, 2)
        assert (refused["how"], refused["errors"]) == ("missing", "/bin/true: Too many open files")
        lasting.close()
        ended = answer(ours)
        assert (ended["number"], ended["how"]) == (4, "ended")
        resource.prlimit(runner.pid, resource.RLIMIT_NOFILE, (min(before[0], 1024), 1024))
        assert run(ours, 3)["how"] == "ended"
        ours.shutdown(socket.SHUT_RDWR)
        assert runner.wait(20) == 0


def run(runner: socket.socket, number: int) -> dict[str, Any]:
    ask(runner, number, "/bin/true")
    return answer(runner)


def ask(runner: socket.socket, number: int, *program: str) -> None:
    wish = {"program": program, "environment": {}, "input": "", "seconds": 20.0, "whole": False}
    runner.sendall(frame(json.dumps(wish | {"number": number}).encode()))


def answer(runner: socket.socket) -> dict[str, Any]:
    frames = FrameDecoder(MAX_LENGTH)
    while data := runner.recv(1 << 16):
        for message in frames.feed(data):
            found: dict[str, Any] = json.loads(message)
            return found
    raise AssertionError("the runner has ended")
