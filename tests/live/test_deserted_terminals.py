"""The program of an interactive job ends when no client connects, with an agent and without one."""

import os
import socket
import subprocess
import sys
from pathlib import Path

from headnode.adapters.processes.launcher import FAILED, SOCKET, TASK

WAIT = """
import sys
from headnode.adapters.processes import terminal
terminal._TIMEOUT = 0.3
sys.exit(terminal.main(sys.argv[1], sys.argv[2:]))
"""


def wait_for_client(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path), TASK: "1.1.1.1"}
    command = [sys.executable, "-c", WAIT, str(folder), *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_it_ends_when_there_is_no_agent(tmp_path: Path) -> None:
    ended = wait_for_client(tmp_path, "/bin/true")
    assert ended.returncode == FAILED
    assert "no client connected to the terminal of this job" in ended.stderr


def test_it_ends_and_runs_nothing_when_no_client_comes(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(str(tmp_path / SOCKET))
        agent.listen()
        ended = wait_for_client(tmp_path, "/bin/touch", str(tmp_path / "ran"))
    assert ended.returncode == FAILED
    assert "no client connected to the terminal of this job" in ended.stderr
    assert not (tmp_path / "ran").exists()
