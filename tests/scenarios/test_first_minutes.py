"""Pages do what they show, typed word for word by a new user."""

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headnode.adapters.wire.peers import user_name

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "start.md"
OF_A_CLUSTER = (
    "batch-scripts.md",
    "job-files.md",
    "staging.md",
    "submit-files.md",
)  # pages for a user who has one
BLOCK = re.compile(r"^```(console|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)
TIMEOUT = 120.0  # seconds for a command
TIMES = (
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d",
    r"\d+ min( \d+ s)?",
    r"\d+(\.\d+)? m?s\b",
    r"\b(in|ago) T",
)


def typed(page: Path = PAGE) -> Iterator[tuple[str, str]]:
    """Yield each command of a page with what it shows."""
    lines: list[str] = []
    for kind, text in BLOCK.findall(page.read_text()):
        for line in text.splitlines():
            if kind == "console" and line.startswith("$ ") and lines:
                yield lines[0], "\n".join(lines[1:])
                lines = []
            lines.append(line.removeprefix("$ ") if not lines else line)
    yield lines[0], "\n".join(lines[1:])


def without_times(text: str) -> str:
    """Return a text without what differs from one machine and one day to another."""
    for pattern in TIMES:
        text = re.sub(pattern, "T", text)
    return " ".join(re.sub(r"-{3,}", "---", text).split())


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return the home directory of a new user with the project in it."""
    shutil.copytree(ROOT / "examples", tmp_path / "headnode" / "examples")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "hn").write_text(f'#!/bin/sh\nexec {sys.executable} -m headnode.apps.cli "$@"\n')
    (programs / "hn").chmod(0o755)
    return tmp_path


def environment(home: Path) -> dict[str, str]:
    return {
        "HOME": str(home),
        "HEADNODE_STATE": str(home / ".local" / "state" / "headnode"),  # root's is another
        "XDG_RUNTIME_DIR": str(home),
        "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
        "HEADNODE_RESIDENT_CLIENT": "0",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
    }


def as_on_the_page(text: str, home: Path) -> str:
    """Return what was said as the user of the page would have read it."""
    text = text.replace(str(home), "/home/ada")
    text = re.sub(rf"\b{re.escape(user_name(os.geteuid()))}\b is queued", "ada is queued", text)
    for name in (socket.gethostname(), socket.gethostname().split(".")[0]):
        text = re.sub(rf"\b{re.escape(name)}\b", "vm", text)
    return text


def type_in(command: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Type a command in the directory of the project; its errors are among its output."""
    words = command.replace("hn up", "hn up --processors 2") if command == "hn up" else command
    return subprocess.run(
        ["sh", "-c", f"{{ {words}\n}} 2>&1"],
        cwd=home / "headnode",
        env=environment(home),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )


@pytest.fixture
def cluster(home: Path) -> Iterator[Path]:
    """Yield the home of a new user; end the cluster that the user has started."""
    yield home
    state = environment(home)["HEADNODE_STATE"]
    if (Path(state) / "head.sock").exists():
        down = [sys.executable, "-m", "headnode.apps.cli", "--state", state, "down", "--cancel-jobs"]
        subprocess.run(down, check=True, capture_output=True, timeout=TIMEOUT)


def test_every_command_of_the_page_prints_what_the_page_shows(cluster: Path) -> None:
    commands = list(typed())
    assert len(commands) >= 20
    for command, shown in commands:
        done = type_in(command, cluster)
        assert done.returncode == 0, f"{command}: {done.stdout}"
        assert without_times(as_on_the_page(done.stdout, cluster)) == without_times(shown), command


@pytest.mark.parametrize("page", OF_A_CLUSTER)
def test_a_page_for_users_of_a_cluster_shows_what_its_commands_print(page: str, cluster: Path) -> None:
    assert type_in("hn up", cluster).returncode == 0
    commands = list(typed(ROOT / "docs" / page))
    assert len(commands) >= 5
    for command, shown in commands:
        seen = as_on_the_page(type_in(command, cluster).stdout, cluster)
        assert without_times(seen) == without_times(shown), command
