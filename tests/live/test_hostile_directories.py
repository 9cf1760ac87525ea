"""Root starts Headnode in a directory, and with variables, that a user has filled with modules."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headnode.adapters.process_tree import descendants, picture
from headnode.apps.client.client import Client
from headnode.core.model.errors import HeadnodeError
from heads import TIMEOUT
from testbed.processes import free_address

HN = str(Path(sys.executable).with_name("hn"))


class Trap:
    """A directory of modules, and one of a module that every Python imports; each import is a line of a file.

    The line is the command line of the process that imported it.
    """

    def __init__(self, folder: Path) -> None:
        self.directory, self.path, self.imports = folder / "here", folder / "path", folder / "imports"
        spring = f"open({str(self.imports)!r}, 'a').write(open('/proc/self/cmdline').read() + '\\n')\n"
        (self.directory / "headnode").mkdir(parents=True)
        self.path.mkdir()
        for name in ("headnode/__init__", "msgspec", "asyncio", "sitecustomize"):
            (self.directory / f"{name}.py").write_text(spring)
        (self.path / "sitecustomize.py").write_text(spring)
        self.environment = {**os.environ, "PYTHONPATH": str(self.path), "PYTHONINSPECT": ""}

    def hn(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [HN, *words], cwd=self.directory, env=self.environment, capture_output=True, text=True,
            timeout=2 * TIMEOUT, check=False,
        )  # fmt: skip

    def caught(self) -> list[str]:
        """Return the processes that imported something, but for `hn`, which the user's shell has started."""
        lines = self.imports.read_text().splitlines() if self.imports.exists() else []
        return [line.replace("\0", " ") for line in lines if HN not in line.split("\0")[1:5]]


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    return Trap(tmp_path)


def until(happened: Callable[[], object]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not happened():
        assert time.monotonic() < deadline, "it has not happened in time"
        time.sleep(0.02)


def is_ready(state: Path) -> bool:
    client = Client(str(state))
    try:
        return [node["state"] for node in client.ask("nodes")["nodes"]] == ["Ready"]
    except HeadnodeError:
        return False
    finally:
        client.close()


@contextmanager
def foreground(trap: Trap, *words: str) -> Iterator["subprocess.Popen[bytes]"]:
    with (trap.path / "log").open("wb") as log:
        process = subprocess.Popen(
            [HN, *words], cwd=trap.directory, env=trap.environment, stdin=subprocess.DEVNULL,
            stdout=log, stderr=log,
        )  # fmt: skip
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(TIMEOUT)


STARTED = ("apps.server", "apps.agent", "apps.notify", "apps.predict", "filters.runner", "fork_server")


def missing(head: int) -> list[str]:
    """Return the programs that a head does not run."""
    commands = commands_below(head)
    return [name for name in STARTED if name not in commands]


def commands_below(process: int) -> str:
    """Return the command lines of all processes that descend from one."""
    found = []
    for each in descendants([process], picture()):
        try:
            found.append(Path(f"/proc/{each}/cmdline").read_text())
        except OSError:
            continue
    return "\n".join(found)


def test_a_head_in_the_foreground_and_all_that_it_starts_import_nothing_there(
    trap: Trap, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    prolog = tmp_path / "prolog"
    prolog.write_text("#!/bin/sh\nexit 0\n")
    prolog.chmod(0o755)
    with foreground(trap, "--state", str(state), "up", "--foreground", "--processors", "1") as head:
        until(lambda: is_ready(state))
        client = Client(str(state))
        values = {"EmailSmtpServer": free_address(), "EmailFrom": "a@example.org"}
        client.ask("set_parameters", values={**values, "SubmissionFilterProgram": "/bin/true"})
        client.ask("set_parameters", values={"PrologProgram": str(prolog), "EpilogProgram": str(prolog)})
        out = trap.path / "out"
        first = trap.hn(
            "--state", str(state), "job", "submit", "--workdir", str(trap.directory),
            "--notifyonstart", "--emailaddress", "a@example.org", "--runtime", "1",
            "--env", f"PYTHONPATH={trap.path}", "--stdout", str(out),
            "hn whoami --quiet; $HYDRA_LAUNCHER_EXEC -h; while [ ! -e go ]; do sleep 0.05; done",
        )  # fmt: skip
        assert first.returncode == 0, first.stderr
        second = trap.hn("--state", str(state), "job", "submit", "--runtime", "1", "true")
        assert second.returncode == 0, second.stderr
        until(lambda: missing(head.pid) == [])
        (trap.directory / "go").touch()
        assert trap.hn("--state", str(state), "job", "wait", "2").returncode == 0
        client.ask("stop_head", cancel_jobs=True)
        client.close()
    assert trap.caught() == []


@pytest.mark.parametrize("stays", [True, False])
def test_heads_in_the_background_and_agents_of_other_machines_import_nothing_there(
    trap: Trap, tmp_path: Path, *, stays: bool
) -> None:
    head, node = str(tmp_path / "state"), str(tmp_path / "node")
    up = trap.hn("--state", head, "up", "--nodes", "0", "--listen", free_address())
    assert up.returncode == 0, up.stderr
    try:
        invitation = trap.hn("--state", head, "node", "invite", "--approve", "--quiet").stdout.split()[-1]
        agent = ("agent", "--directory", node, "--name", "far", "--processors", "1")
        if stays:
            with foreground(trap, *agent, "--foreground", "--join", invitation):
                until(lambda: is_ready(Path(head)))
        else:
            joined = trap.hn(*agent, "--join", invitation)
            assert joined.returncode == 0, joined.stderr
            until(lambda: is_ready(Path(head)))
    finally:
        trap.hn("agent", "--directory", node, "--stop")
        trap.hn("--state", head, "down", "--cancel-jobs")
    assert trap.caught() == []
