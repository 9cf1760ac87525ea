"""A Slurm user's first ten commands print what their page shows, in a terminal of 80 columns."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from pathlib import Path

import pytest
from test_first_minutes import TIMEOUT, as_on_the_page, environment, type_in, typed, without_times
from test_first_minutes import cluster as cluster_of_new_user
from test_first_minutes import home as new_user

from headnode.adapters.wire.peers import user_name

PAGE = Path(__file__).parents[2] / "docs" / "from-slurm.md"
TIMES = (r"\b\d\d:\d\d\b", r"\b(\d+d)?(\d+h)?(\d+m)?(\d+s)\b", r"promised +\S+", r"\bT or sooner\b")
MEANT = ("sinfo", "squeue", "sbatch", "srun", "scancel", "scontrol show job", "sacct", "squeue --start",
         "scontrol update nodename", "sbatch --array")  # fmt: skip

home, cluster = new_user, cluster_of_new_user


def in_terminal(words: str, home: Path) -> tuple[int, str]:
    """Run a command in a terminal of 80 columns; return its status, and what is to be read there."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 80, 0, 0))
    process = subprocess.Popen(
        ["sh", "-c", words],
        cwd=home / "headnode",
        env={**environment(home), "TERM": "dumb"},
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    found = b"".join(iter(lambda: read(ours), b""))
    os.close(ours)
    return process.wait(timeout=TIMEOUT), found.decode().replace("\r\n", "\n")


def read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # how Linux says that the other end of a terminal is closed
        return b""


ZOE = re.compile(r"hn: UserLimits names the user 'zoe'.*\n")  # the site of the page has an account for her


def plain(text: str) -> str:
    """Return a text without what differs from one machine, user and minute to another."""
    text = without_times(re.sub(rf"\b{re.escape(user_name(os.geteuid()))}\b", "ada", text))
    for pattern in TIMES:
        text = re.sub(pattern, "T", text)
    text = text.replace(" in T: ", " ")  # an expected start, which the first prediction brings after seconds
    return re.sub(r"-{2,}", "---", text)


def test_every_command_of_the_page_prints_what_the_page_shows(cluster: Path) -> None:
    commands = list(typed(PAGE))
    assert len(commands) >= 10
    for command, shown in commands:
        waits = "--wait" in command or "job wait" in command  # a terminal shows bars meanwhile
        if waits:
            done = type_in(command, cluster)
            status, found = done.returncode, done.stdout
        else:
            status, found = in_terminal(command, cluster)
        assert status == 0, f"{command}: {found}"
        seen = as_on_the_page(ZOE.sub("", found), cluster)
        assert plain(seen) == plain(shown), command
        if not waits and "hn up" not in command:
            assert max(map(len, seen.splitlines())) <= 80, seen


@pytest.mark.parametrize("command", MEANT)
def test_the_page_has_the_command_that_a_slurm_user_would_type(command: str) -> None:
    assert f"`{command}" in PAGE.read_text()
