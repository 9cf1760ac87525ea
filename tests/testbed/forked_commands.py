"""Commands of `hn`, each in a process of its own that is forked from one which has imported them.

Python takes 60 to 250 ms of a processor to start and to import a command, a fork takes 10.  Users have the
same from the resident client, whose code carries the commands out (decision 0037).
"""

import importlib
import json
import os
import pkgutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from headnode.apps.cli import resident

WAIT = 300.0  # seconds for a command
IMPORTED = ("headnode.apps.cli.commands", "headnode.apps.cli.screens", "headnode.core.formats")
_TESTS = Path(__file__).parent.parent


class ForkedCommands:
    """The process from which commands are forked; it starts with the first one, and ends with `end`."""

    def __init__(self) -> None:
        self._server: subprocess.Popen[bytes] | None = None
        self._calls: socket.socket | None = None
        self._starts = threading.Lock()

    def run(
        self, words: Sequence[str], environment: dict[str, str], cwd: Path | None, stdin: str
    ) -> "subprocess.CompletedProcess[str]":
        """Carry out a command; its input and output are files in memory."""
        calls = self._ready()
        found = json.dumps([[*words], environment, os.getpid()]).encode()
        files = [_file(found), _file(stdin.encode()), _file(b""), _file(b""), os.open(cwd or ".", os.O_PATH)]
        answers, answering = socket.socketpair()
        with answers, answering:
            socket.send_fds(calls, [b"c"], [*files, answering.fileno()])
            answering.close()
            answers.settimeout(WAIT)
            status = answers.recv(1)
        output, errors = (os.pread(file, os.fstat(file).st_size, 0).decode() for file in files[2:4])
        for file in files:
            os.close(file)
        assert status, f"hn {' '.join(words)} was killed; it said: {output}{errors}"
        return subprocess.CompletedProcess(["hn", *words], status[0], output, errors)

    def end(self) -> None:
        """End the process, if there is one."""
        if self._server is not None and self._calls is not None:
            self._calls.close()
            self._server.wait()
            self._server = None

    def _ready(self) -> socket.socket:
        with self._starts:
            if self._server is None or self._calls is None:
                self._calls, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                with theirs:
                    self._server = subprocess.Popen(  # type: ignore[call-overload]
                        [sys.executable, "-m", "testbed.forked_commands"], stdin=theirs, cwd=_TESTS
                    )
            return self._calls


def _file(content: bytes) -> int:
    """Return a file in memory, at its beginning."""
    file = os.memfd_create("hn")
    os.write(file, content)
    os.lseek(file, 0, os.SEEK_SET)
    return file


def serve() -> None:
    """Fork a process for each call, until the tests hang up."""
    for package in IMPORTED:
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            importlib.import_module(module.name)
    calls, running = socket.socket(fileno=os.dup(0)), set[int]()
    while True:
        call, files, _, _ = socket.recv_fds(calls, 1, 6)
        running -= {child for child in running if os.waitpid(child, os.WNOHANG if call else 0)[0]}
        if not call:
            return
        if (child := os.fork()) == 0:
            calls.close()
            _carry_out(files)
        running.add(child)
        for file in files:
            os.close(file)


def _carry_out(files: list[int]) -> None:
    """Carry out a command and answer with its exit status.  Never returns."""
    try:
        found, *standard, directory, answers = files
        words, environment, parent = json.loads(os.pread(found, os.fstat(found).st_size, 0))
        for place, file in enumerate(standard):
            os.dup2(file, place)
        os.fchdir(directory)
        os.set_inheritable(answers, False)
        for file in (found, *standard, directory):
            os.close(file)
        os.environ["TZ"] = environment["TZ"]
        time.tzset()
        variables = [os.fsencode(f"{name}={value}") for name, value in environment.items()]
        status = resident._run([b"hn", *map(os.fsencode, words)], variables, parent)
        os.write(answers, bytes([status]))
    finally:
        os._exit(0)


if __name__ == "__main__":
    serve()
