"""A head that answers from a script: it speaks the local protocol and keeps what it was asked."""

import contextlib
import json
import os
import re
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Self

from testbed.forked_commands import ForkedCommands

Answer = dict[str, Any] | bytes | Iterable[dict[str, Any] | bytes] | None
Script = dict[str, Answer | Callable[[dict[str, Any]], Answer]]


class ScriptedHead:
    """Listens on ``head.sock``.  Several answers come one by one, bytes as they are; None hangs up.

    Jobs take nothing from the shell of their submitter unless the script says so.
    """

    def __init__(self, directory: Path, script: Script) -> None:
        self.directory = directory
        self.asked: list[dict[str, Any]] = []
        self._script = script
        self._listener = socket.socket(socket.AF_UNIX)
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        folder = os.open(self.directory, os.O_PATH)
        self._listener.bind(f"/proc/self/fd/{folder}/head.sock")
        os.close(folder)
        self._listener.listen()
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()
        (self.directory / "head.sock").unlink()

    def _start(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            self._start(lambda peer=peer: self._serve(peer))

    def _serve(self, peer: socket.socket) -> None:
        with contextlib.suppress(ConnectionError), peer, peer.makefile("rb") as incoming:
            while size := incoming.read(4):
                request = json.loads(incoming.read(int.from_bytes(size, "big")))
                if request["verb"] == "submission_defaults" and "submission_defaults" not in self._script:
                    peer.sendall(frame({"work_directory": "Home", "environment": ""}))
                    continue
                request.pop("idempotency", None)  # another one for each request
                self.asked.append(request)
                answer = self._script[request["verb"]]
                if callable(answer):
                    answer = answer(request)
                if answer is None:
                    return
                for one in [answer] if isinstance(answer, dict | bytes) else answer:
                    peer.sendall(frame(one))


def frame(answer: dict[str, Any] | bytes) -> bytes:
    """Return an answer behind its length."""
    body = answer if isinstance(answer, bytes) else json.dumps({"ok": True, **answer}).encode()
    return len(body).to_bytes(4, "big") + body


COMMANDS = ForkedCommands()


def hn(
    *words: str, state: Path, cwd: Path | None = None, stdin: str = "", **more: Any
) -> "subprocess.CompletedProcess[str]":
    """Run ``hn`` as a user does, in a directory, with an input; `more` is added to its environment."""
    return COMMANDS.run(words, _environment(state, more), cwd, stdin)


def hn_alone(*words: str, state: Path) -> "subprocess.CompletedProcess[str]":
    """Run ``hn`` in a Python of its own, with pipes, and as much room for files as this process has."""
    return subprocess.run(
        [sys.executable, "-m", "headnode.apps.cli", *words],
        env=_environment(state, {}),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def _environment(state: Path, more: dict[str, Any]) -> dict[str, str]:
    known = ("HEADNODE_STATE", "CCP_SCHEDULER", "CCP_PREVIOUS_JOB_ID", "CCP_NO_JOB_ID")
    environment = {name: value for name, value in os.environ.items() if name not in known}
    return environment | {"HEADNODE_STATE": str(state), "XDG_RUNTIME_DIR": str(state), "TZ": "UTC", **more}


def done(*words: str, state: Path) -> "subprocess.CompletedProcess[str]":
    """Run ``hn`` with words that must be carried out."""
    result = hn(*words, state=state)
    assert result.returncode == 0, result.stderr
    return result


def submitted_job(*words: str, state: Path) -> str:
    """Submit a job; return its id."""
    found = re.search(r"ID: (\d+)\.", done("job", "submit", *words, state=state).stdout)
    assert found
    return found[1]


@contextlib.contextmanager
def no_room_for_files() -> Iterator[None]:
    """Let programs that are started meanwhile, as by `hn_alone`, write nothing into files: a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def job(number: int, state: str = "Queued", **fields: Any) -> dict[str, Any]:
    """Return a job object of the local protocol."""
    counts = dict.fromkeys(("queued", "running", "finished", "failed", "canceled"), 0)
    started = 1_700_000_060.0 if state != "Queued" else None
    return {
        "id": number, "owner": "alice", "name": "", "project": "", "state": state, "priority": 2000,
        "priority_name": "Normal", "submitted": 1_700_000_000.0, "started": started, "ended": None,
        "created": 1_700_000_000.0, "minimum": 1, "maximum": 1, "unit": "processor", "allocated": 0,
        "run_time": None, "message": "", "tasks": {"total": 1, **counts}, "pending_reason": "",
        "progress": None, "progress_message": "", **fields,
    }  # fmt: skip


def task(number: int, state: str = "Queued", **fields: Any) -> dict[str, Any]:
    """Return a task object of job 12."""
    return {
        "job": 12, "task": number, "instance": None, "name": "", "state": state, "command": "/bin/true",
        "kind": "basic", "minimum": 1, "maximum": 1, "exit_code": None, "signal": None, "node": None,
        "processors": None, "started": None, "ended": None, "user_time": None, "system_time": None,
        "peak_memory": None, "message": "", "attempt": 0, "pending_reason": "", **fields,
    }  # fmt: skip


def node(name: str, **fields: Any) -> dict[str, Any]:
    """Return a node object."""
    return {
        "name": name, "state": "Ready", "processors": 2, "sockets": 1, "cores_per_socket": 2,
        "threads_per_core": 1, "memory": 2048, "speed": 2400,
        "used": 0, "free": 2, "jobs": 0, "groups": [], "features": [], "architecture": "x86_64",
        "system": "Linux", "exclusive": False, **fields,
    }  # fmt: skip


REFUSED = json.dumps(
    {"ok": False, "code": "not-owner", "what": "job 12 belongs to 'bob'", "fix": "ask bob", "exit_status": 1}
).encode()
