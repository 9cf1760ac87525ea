"""What live tests look for on this machine: processes, addresses where nobody listens, the right moment."""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

TIMEOUT = 60.0  # seconds for anything that must happen
PAUSE = 0.02  # seconds between two looks


def until(holds: Callable[[], object], what: str) -> None:
    """Wait until something holds; the test fails if it does not."""
    deadline = time.monotonic() + TIMEOUT
    while not holds():
        assert time.monotonic() < deadline, f"after {TIMEOUT:.0f} s it is not so that {what}"
        time.sleep(PAUSE)


def alive(word: str, *, without: str = "") -> list[int]:
    """Return the other processes that have a word in their command line, and do not have the other one."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if word.encode() in words and not (without and without.encode() in words):
                found.append(int(entry.name))
    return found


def until_ended(*words: str, without: str = "") -> None:
    """Wait until no process has one of the words in its command line; the test fails with what still runs."""

    def left() -> list[int]:
        return [process for word in words for process in alive(word, without=without)]

    try:
        until(lambda: not left(), f"no process has {' or '.join(words)} in its command line")
    except AssertionError as error:
        raise AssertionError(f"{error}:\n" + "\n".join(map(_ancestry, left()))) from None


def _ancestry(process: int) -> str:
    """Return a process and its ancestors: number, state, session, groups and command line of each."""
    lines = []
    while process > 0:
        try:
            about = Path("/proc") / str(process)
            state, parent, _, session = (about / "stat").read_text().rpartition(")")[2].split()[:4]
            command = (about / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            groups = " ".join((about / "cgroup").read_text().split())
        except OSError as error:
            lines.append(f"{process}: {error}")
            break
        lines.append(f"{process} {state} session {session}: {command}[{groups}]")
        process = int(parent)
    return "\n  ".join(lines)


def free_address() -> str:
    """Return an address of this machine at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


@contextlib.contextmanager
def unanswering() -> Iterator[str]:
    """Give an address of this machine at which connections are neither accepted nor refused."""
    with contextlib.ExitStack() as held:
        door = held.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        waiting = held.enter_context(socket.socket())
        waiting.connect(door.getsockname())  # Linux answers no other while one waits for a queue of none
        yield f"127.0.0.1:{door.getsockname()[1]}"


@contextlib.contextmanager
def http_server(
    handler: type[BaseHTTPRequestHandler], port: int = 0, **state: object
) -> Iterator[ThreadingHTTPServer]:
    """Serve HTTP at a port of this machine, or at a free one; `state` becomes attributes of the server."""
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    vars(server).update(state)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
